"""`einsum`: patterns of several operands become contractions over named axes.

Axes of size 1 stretch, as they do in the libraries' own einsum. Owns the rules of the pattern, and stretching.
"""
from __future__ import annotations

import functools
import string
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitfuse.axes.arrays import layout_of, library_of
from jitfuse.axes.faults import Fault, Place
from jitfuse.axes.notation import Notation
from jitfuse.axes.plans.abstract import AbstractPlan
from jitfuse.axes.terms import AxisList, NamedAxis, Number, Pack
from jitfuse.einops.errors import EinopsError, UnsupportedPatternError, Writing
from jitfuse.einops.operation import PatternOp
from jitfuse.einops.parsing import ELLIPSIS, Side, arrow, parse
from jitfuse.einops.preparation import Run, kept

MAX_AXES: Final = len(string.ascii_letters)
"""Axes that the libraries' einsum has letters for."""
_products: Final[dict[str, Run]] = {}
_STRETCHING: Final = frozenset({"inconsistent_sizes", "rank_mismatch"})
"""Faults of arrays that may fit all the same, once axes of size 1 are stretched."""


def einsum(*tensors_and_pattern: Any) -> Any:
    """Return the sum of products of arrays over the axes that the right side of the pattern lacks.

    Parameters:
        tensors_and_pattern: the arrays, and last the pattern, such as "batch i k, k j -> batch i j".

    Example:
        >>> from jitfuse import einops
        >>> einops.einsum(np.ones((2, 3)), np.ones((3, 4)), "i k, k j -> i j").shape
        (2, 4)

    Raises:
        EinopsError: the pattern is wrong, or does not fit.
    """
    try:
        run = _products[tensors_and_pattern[-1]]
    except (KeyError, TypeError, IndexError):
        run = _prepared(tensors_and_pattern)
    return run(*tensors_and_pattern[:-1])


def _prepared(arguments: tuple[Any, ...]) -> Run:
    writing = Writing("einsum", str(arguments[-1]) if arguments else "")
    if len(arguments) <= 1:
        raise EinopsError("wrong_arity", "`einops.einsum` takes one array at least, and the pattern behind the arrays",
                          help="Write einsum(x, y, 'i k, k j -> i j').")
    pattern = arguments[-1]
    if not isinstance(pattern, str):
        raise EinopsError("bad_pattern", f"The last argument is a {type(pattern).__name__}, and no pattern",
                          help="The pattern is a string, and stands behind the arrays.")
    return kept(_products, pattern, lambda: _read(writing, pattern))


def _read(writing: Writing, pattern: str) -> Run:
    """Return the operation of a pattern; raise EinopsError."""
    end = arrow(writing)
    lefts, start = [], 0
    for text in pattern[:end].split(","):
        lefts.append(parse(writing, start, start + len(text), underscore=True, repeats=True))
        start += len(text) + 1
    right = parse(writing, end + 2, len(pattern), underscore=True)
    for side in (*lefts, right):
        _check(writing, side)
    known = {name for left in lefts for name in left.names} | {ELLIPSIS}
    if len(known) > MAX_AXES + 1:
        raise writing.error("too_many_axes", f"Too many axes in einsum: {len(known) - 1}", help=(
            f"The libraries' einsum has letters for {MAX_AXES}; multiply fewer arrays at once."))
    written = [item.axis for item in right.items()]
    for k, item in enumerate(right.items()):
        if item.axis not in known:
            raise writing.error("added_axis", f"Unknown axis {item.axis} on the right", item.range, help=(
                "einsum makes no new axes; repeat does."))
        if item.axis in written[:k]:
            raise writing.error("repeated_axis", f"{item.axis} stands twice on the right", item.range, help=(
                "einsum fills no diagonals."))
    terms = right.terms()
    if all(ELLIPSIS not in left.names for left in lefts):
        terms = AxisList(tuple(term for term in terms if not isinstance(term, Pack)))
    op = Einsum(AbstractPlan("contract", tuple(left.terms() for left in lefts), (terms,)), single=True,
                notation=functools.partial(_notation, writing, lefts, right))
    if len(lefts) > 1 or not all(group.is_ellipsis for group in lefts[0].groups):
        return op
    return lambda *tensors: made if (made := op(*tensors)).ndim else made[()]  # a number, as NumPy's einsum gives


def _notation(writing: Writing, lefts: Sequence[Side], right: Side) -> Notation:
    ranges = right.ranges("right")
    for k, left in enumerate(lefts):
        ranges |= left.ranges("left", k)
    return writing.notation(ranges)


def _check(writing: Writing, side: Side) -> None:
    for group in side.groups:
        if not group.items:
            raise writing.error("bad_pattern", "Singleton () axes are not taken by einsum", group.range, help=(
                "Take the axis away with rearrange first."), kind=UnsupportedPatternError)
        if group.brackets and (len(group.items) > 1 or group.items[0].axis == ELLIPSIS):
            raise writing.error("bad_pattern", "Shape rearrangement is not done by einsum", group.range, help=(
                "Use rearrange before or behind; jitfuse.axes.contract does both at once."
            ), kind=UnsupportedPatternError)
        if isinstance(group.items[0].axis, int):
            raise writing.error("bad_pattern", "Anonymous axes are not taken by einsum", group.range,
                                help="Give the axis a name.", kind=UnsupportedPatternError)


class Einsum(PatternOp):
    """A contraction whose arrays' axes of size 1 stretch; without `...` on the right, the axes of `...` are gone."""

    __slots__ = ()

    def _first(self, tensors: tuple[Any, ...]) -> Any:
        tensors = self._arrays(tensors)
        try:
            self._check_gone(tensors)
            return super()._first(tensors)
        except EinopsError as error:
            stretched = self._stretched([tuple(x.shape) for x in tensors]) if error.code in _STRETCHING else None
            if stretched is None:
                raise
        self._keep(tensors, list(map(layout_of, tensors)), stretched)
        return stretched(*tensors)

    def _arrays(self, tensors: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return NumPy's arrays in place of numbers and lists, if the first operand is NumPy's."""
        if not tensors or not isinstance(tensors[0], np.ndarray):
            return tensors
        return tuple(np.asarray(x) if isinstance(x, int | float | complex | list | tuple) else x for x in tensors)

    def _check_gone(self, tensors: tuple[Any, ...]) -> None:
        """Raise EinopsError if axes of `...` would be summed: torch does that, NumPy does not."""
        lists = self._plan.lhs
        if Pack(ELLIPSIS) in self._plan.rhs[0].terms or len(tensors) != len(lists):
            return
        for k, (axes, x) in enumerate(zip(lists, tensors)):
            if Pack(ELLIPSIS) in axes.terms and getattr(x, "ndim", 0) >= len(axes):
                try:
                    if library_of(tensors).name == "torch":
                        return
                except Fault as fault:
                    raise self.error(fault) from None
                place = axes.terms.index(Pack(ELLIPSIS))
                raise self.error(Fault("lost_axis", "... is on the left alone, and stands for axes", place=Place(
                    "left", k, place), help="Write `...` on the right, or names for the axes to sum."))

    def _stretched(self, shapes: list[tuple[int, ...]]) -> PatternOp | None:
        """Return the operation for these shapes with `1` for axes that stretch; None if there is none."""
        wide = max((len(s) - len(axes) + 1 for axes, s in zip(self._plan.lhs, shapes) if Pack(ELLIPSIS) in axes.terms),
                   default=0)
        lists = [_spread(axes, len(s) - len(axes) + 1, wide) for axes, s in zip(self._plan.lhs, shapes)]
        if any(len(axes) != len(s) for axes, s in zip(lists, shapes)):
            return None
        sizes: dict[NamedAxis, int] = {}
        for axes, s in zip(lists, shapes):
            for axis, n in zip(axes, s):
                if n != 1 and sizes.setdefault(axis, n) != n:
                    return None
        left = tuple(
            AxisList(tuple(Number(1) if n == 1 != sizes.get(axis, 1) else axis for axis, n in zip(axes, s)))
            for axes, s in zip(lists, shapes))
        right = AxisList(tuple(_spread(self._plan.rhs[0], wide, wide)))
        return PatternOp(AbstractPlan("contract", left, (right,)), single=True, notation=self._notation)


def _spread(axes: AxisList, rank: int, wide: int) -> list[Any]:
    """Return axes with those of `...`, of this rank, by the names that they have in the widest array."""
    found: list[Any] = []
    for term in axes:
        found += [NamedAxis(f"{ELLIPSIS}{k}") for k in range(wide - rank, wide)] if isinstance(term, Pack) else [term]
    return found

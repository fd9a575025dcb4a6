"""What runs a pattern of two sides: an operation over named axes, and where einops' answer depends on more, a closure.

Owns the memo. Does not own the rules of patterns (`jitfuse.einops.patterns`).
"""
from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from jitfuse.axes.arrays import is_torch
from jitfuse.axes.terms import AxisList, NamedAxis, Number, Pack
from jitfuse.einops.errors import UnsupportedPatternError
from jitfuse.einops.parsing import ELLIPSIS
from jitfuse.einops.patterns import Pattern, read, reduction_name

Run = Callable[..., Any]
Made = TypeVar("Made")
MAX_PATTERNS: Final = 1024
"""Patterns that are kept; then all are forgotten."""
PREPARED: Final[dict[tuple[str, Any, tuple[Any, ...]], Run]] = {}
"""What runs a pattern, by the pattern, the reduction, and the sizes with their types: 2.0 and True equal integers."""
_called_by: Final[dict[tuple[str, str, tuple[Any, ...]], Callable[[Any, Any], Any]]] = {}
"""What runs a pattern whose reduction is a function of the user's, which comes with the call; by its name."""
_FLOATS: Final = frozenset({"float16", "float32", "float64", "float128", "longdouble", "bfloat16"})
_floats: Final[set[Any]] = set()
"""Dtypes, of any library, that are known to be floating."""


def prepared(pattern: str, reduction: Any, axes_lengths: Mapping[str, Any]) -> Run:
    """Return what carries a pattern out.

    Raises:
        EinopsError: the pattern is wrong by itself.
    """
    sizes = tuple((name, _size(size)) for name, size in axes_lengths.items())
    typed = (*sizes, *map(type, axes_lengths.values()))
    if callable(reduction):
        key = pattern, reduction_name(reduction), typed
        called = kept(_called_by, key, lambda: _called(read(pattern, reduction, sizes)))
        return lambda tensor: called(tensor, reduction)
    return kept(PREPARED, (pattern, reduction, typed), lambda: _run(read(pattern, reduction, sizes)))


def kept(table: dict[Any, Made], key: Any, make: Callable[[], Made]) -> Made:
    """Return an entry of a table, made if it is not there; of a key that is wrong, `make` raises."""
    try:
        found = table.get(key)
    except TypeError:
        found = None
    if found is None:
        found = make()
        if len(table) >= MAX_PATTERNS:
            table.clear()
        table[key] = found
    return found


def _size(size: Any) -> Any:
    """Return the integer that a size is; what is none, and a truth value, is refused with its place later."""
    try:
        return size if isinstance(size, bool) else operator.index(size)
    except TypeError:
        return size


def _run(checked: Pattern) -> Run:
    if checked.reduction in ("rearrange", "repeat"):
        return checked.operation(checked.reduction)
    if not checked.reduced and checked.left.number() is None:
        return checked.operation("rearrange")
    run = _floating(checked) if checked.reduction == "mean" else _reduced(checked)
    if checked.reduced != {ELLIPSIS} or checked.left.number() is not None:
        return run
    return _reduced_ellipsis(checked, run)


def _reduced_ellipsis(checked: Pattern, run: Run) -> Run:
    """Return a reduction of `...` alone: an array without these axes is not reduced, whatever the reduction."""
    left = AxisList(tuple(t for t, g in zip(checked.left.terms(), checked.left.groups) if not g.is_ellipsis))
    same, rank = checked.operation("rearrange", left), len(left)
    return lambda tensor: run(tensor) if getattr(tensor, "ndim", None) != rank else same(tensor)


def _reduced(checked: Pattern) -> Run:
    """Return a reduction. torch's are of the axes in their new order: then the result is contiguous, as einops' is."""
    op, everything = checked.operation("reduce"), _spread(checked)
    order = [item.axis for item in checked.left.items() if item.axis in checked.right.names]
    if order == [item.axis for item in checked.right.items()]:
        return op
    apart, rest = checked.operation("rearrange", right=everything), checked.operation("reduce", left=everything)
    return lambda tensor: rest(apart(tensor)) if is_torch(tensor) else op(tensor)


def _spread(checked: Pattern) -> AxisList:
    """Return all axes on their own: those of the right side in its order, then those that are reduced."""
    kept = [item.axis for item in checked.right.items()]
    gone = [item.axis for item in checked.left.items() if isinstance(item.axis, int) or item.axis not in kept]
    return AxisList(tuple(
        Number(a) if isinstance(a, int) else Pack(a) if a == ELLIPSIS else NamedAxis(a) for a in (*kept, *gone)))


def _floating(checked: Pattern) -> Run:
    """Return the mean, which is one of floating numbers alone."""
    run = _reduced(checked)

    def mean(tensor: Any) -> Any:
        if (dtype := getattr(tensor, "dtype", None)) not in _floats and dtype is not None:
            if str(dtype).removeprefix("torch.") not in _FLOATS:
                raise checked.writing.error(
                    "bad_dtype", f"The mean of {dtype} is no {dtype}", "reducer", kind=UnsupportedPatternError,
                    help="Cast the array to a floating dtype first.")
            _floats.add(dtype)
        return run(tensor)

    return mean


def _called(checked: Pattern) -> Callable[[Any, Any], Any]:
    """Return a reduction by a function of the user's.

    It takes the array with an axis for each name, those that are left first, in the order of the right side.
    """
    groups = checked.right.groups
    everything = _spread(checked)
    apart = checked.operation("rearrange", right=everything)
    named = sum(not isinstance(term, Pack) for term in everything)
    grouped = any(len(g.items) != 1 or (g.brackets and g.items[0].axis == ELLIPSIS) for g in groups)

    def reduced(tensor: Any, reduction: Any) -> Any:
        spread = apart(tensor)
        packed = spread.ndim - named
        counts = [sum(packed if item.axis == ELLIPSIS else 1 for item in group.items) for group in groups]
        gone = tuple(range(sum(counts), spread.ndim))
        made = reduction(spread, gone) if gone else spread
        if not grouped:
            return made
        sizes, shape, at = tuple(spread.shape), (), 0
        for group, count in zip(groups, counts):
            own = sizes[at : at + count]
            shape += own if group.is_ellipsis else (math.prod(own),)
            at += count
        return made.reshape(shape)

    return reduced

"""Patterns of two sides with their operation, checked as far as they can be without a shape.

Owns the rules: which names stand where, and which sizes have to be given.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from jitfuse.axes.parts import names
from jitfuse.axes.plans.abstract import AbstractPlan
from jitfuse.axes.terms import AxisList
from jitfuse.base.records import NamedTuple
from jitfuse.einops.errors import Writing
from jitfuse.einops.operation import PatternOp
from jitfuse.einops.parsing import ELLIPSIS, Group, Item, Side, arrow, parse, refused_name

REDUCTIONS: Final = ("min", "max", "sum", "mean", "prod", "any", "all")
Sizes = tuple[tuple[str, int], ...]


class Pattern(NamedTuple):
    """A pattern that fits its operation, all but the shape. `reduction` is "rearrange" or "repeat" for these."""

    writing: Writing
    left: Side
    right: Side
    reduction: Any
    sizes: Mapping[str, int]

    @property
    def reduced(self) -> frozenset[str]:
        """The names of the axes that are reduced."""
        return self.left.names - self.right.names

    def operation(self, name: str, left: AxisList | None = None, right: AxisList | None = None) -> PatternOp:
        """Return the operation of a name, with other sides if they are given."""
        lhs, rhs = self.left.terms() if left is None else left, self.right.terms() if right is None else right
        own = {n for axes in (lhs, rhs) for term in axes for n in names(term)}
        return PatternOp(
            AbstractPlan(name, (lhs,), (rhs,)), single=True, sizes={k: n for k, n in self.sizes.items() if k in own},
            reductions=self.reduction if name == "reduce" else None,
            notation=self.writing.notation(self.left.ranges("left") | self.right.ranges("right")))


def read(pattern: Any, reduction: Any, sizes: Sizes) -> Pattern:
    """Return a checked pattern.

    Raises:
        EinopsError: it is written wrongly, or is none of its operation.
    """
    shown = () if reduction in ("rearrange", "repeat") else (("reducer", reduction_name(reduction)),)
    writing = Writing(reduction if not shown else "reduce", str(pattern), (
        *shown, *((name, f"{name}={size!r}") for name, size in sizes)))
    if not isinstance(pattern, str):
        raise writing.error("bad_pattern", f"The pattern is a {type(pattern).__name__}", help=(
            "The array comes first, then the pattern, a string."))
    if shown and reduction not in REDUCTIONS and not callable(reduction):
        raise writing.error("bad_reducer", f"Unknown reduction {reduction!r}", "reducer", help=(
            f"Reductions are {', '.join(REDUCTIONS)}, and functions of an array and a tuple of axes."))
    at = arrow(writing)
    made = Pattern(writing, parse(writing, 0, at), parse(writing, at + 2, len(pattern)), reduction, dict(sizes))
    _check_ellipsis(made)
    _check_sides(made)
    _check_sizes(made)
    return made


def reduction_name(reduction: Any) -> str:
    """Return a reduction as errors show it."""
    return repr(reduction) if isinstance(reduction, str) else str(getattr(reduction, "__qualname__", repr(reduction)))


def _check_ellipsis(made: Pattern) -> None:
    inside = _find(made.left, lambda group, item: item.axis == ELLIPSIS and group.brackets)
    if inside is not None:
        raise made.writing.error("bad_pattern", "On the left, `...` stands outside of brackets", inside.range, help=(
            "Nothing tells its axes in a merged one; give them names."))


def _check_sides(made: Pattern) -> None:
    left, right, writing = made.left.names, made.right.names, made.writing
    new = _find(made.right, lambda _, item: item.axis not in left and (isinstance(item.axis, str)))
    gone = _find(made.left, lambda _, item: item.axis not in right and (isinstance(item.axis, str)))
    numbers = made.left.number(), made.right.number()
    if new is not None and (made.reduction != "repeat" or new.axis == ELLIPSIS):
        raise writing.error("added_axis", f"{_name(new)} is on the right alone", new.range, help=(
            "repeat makes new axes." if new.axis != ELLIPSIS else "Write it on the left too."))
    if gone is not None and made.reduction in ("rearrange", "repeat"):
        raise writing.error("lost_axis", f"{_name(gone)} is on the left alone", gone.range, help=(
            "reduce takes axes away."))
    if numbers[0] is not None and made.reduction in ("rearrange", "repeat"):
        raise writing.error("lost_axis", f"{numbers[0].axis} on the left has no name", numbers[0].range, help=(
            "reduce takes axes without a name away; here give it a name, and its size as an argument."))
    if numbers[1] is not None and made.reduction != "repeat":
        raise writing.error("added_axis", f"{numbers[1].axis} on the right has no name", numbers[1].range, help=(
            "repeat makes axes without a name; here give it a name, and its size as an argument."))


def _check_sizes(made: Pattern) -> None:
    writing, names = made.writing, made.left.names | made.right.names
    for name, size in made.sizes.items():
        if why := refused_name(name):
            raise writing.error("bad_pattern", f"Invalid axis identifier: {name} {why}", name, help=(
                "Names are Python identifiers that neither begin nor end with an underscore."))
        if name not in names:
            raise writing.error("unknown_name", f"{name} is no axis of the pattern", name, help=(
                f"Its axes are {', '.join(sorted(names - {ELLIPSIS})) or 'none'}."))
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise writing.error("bad_size", f"{size!r} is no size", name, help="Sizes are integers from 0 on.")
    for group in made.left.groups:
        unknown = [i for i in group.items if isinstance(i.axis, str) and i.axis not in made.sizes]
        if len(unknown) > 1:
            raise writing.error("ambiguous_sizes", f"Nothing tells the sizes of {_listed(unknown)}", group.range, help=(
                f"Give all of them but one: {unknown[-1].axis}=2."))
    if made.reduction == "repeat":
        sized = made.left.names | made.sizes.keys()
        new = [item for item in made.right.items() if isinstance(item.axis, str) and item.axis not in sized]
        if new:
            raise writing.error("ambiguous_sizes", f"Nothing tells the size of {_listed(new)}", new[0].range, help=(
                f"Give it: {new[0].axis}=2."))


def _find(side: Side, wanted: Callable[[Group, Item], bool]) -> Item | None:
    return next((item for group in side.groups for item in group.items if wanted(group, item)), None)


def _name(item: Item) -> str:
    return "..." if item.axis == ELLIPSIS else str(item.axis)


def _listed(items: list[Item]) -> str:
    return " and ".join(map(_name, items))

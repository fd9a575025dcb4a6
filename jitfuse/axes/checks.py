"""Checks of an operation before there are arrays, and the error of a view that does not exist."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jitfuse.axes.faults import REDUCER, Fault, Place, size_place
from jitfuse.axes.parts import names
from jitfuse.axes.plans.abstract import AbstractPlan
from jitfuse.axes.plans.steps import SpecializationContext
from jitfuse.axes.plans.structural import Reshape
from jitfuse.axes.plans.symbolic import SymbolicPlan
from jitfuse.axes.reducers import NAMES
from jitfuse.axes.terms import AxisList, NamedAxis, Pack, Term

ONE_ARRAY = frozenset({"view", "repeat", "reduce"})
ONE_RESULT = frozenset({"repeat", "reduce"})


def check_sides(plan: AbstractPlan) -> None:
    """Check the numbers of arrays, and that axes neither vanish nor come from nowhere.

    Raises:
        Fault: they do.
    """
    operation = plan.op_name
    if not plan.lhs or not plan.rhs:
        raise Fault("wrong_arity", "a side has no array", help="Write ax[...] for each array; ax[()] is a number.")
    if operation in ONE_ARRAY and len(plan.lhs) != 1:
        raise Fault("wrong_arity", f"{operation} takes one array, not {len(plan.lhs)}", place=Place("left", 1),
                    help="rearrange, contract and einop take several.")
    if operation in ONE_RESULT and len(plan.rhs) != 1:
        raise Fault("wrong_arity", f"{operation} gives one array, not {len(plan.rhs)}", place=Place("right", 1),
                    help="view, rearrange, contract and einop give several.")
    _check_kinds(plan)
    plan.sources  # noqa: B018 (raises Fault for axes and parts that go nowhere or come from nowhere)


def _check_kinds(plan: AbstractPlan) -> None:
    kinds: dict[str, type[Term]] = {}
    for term in _leaves(plan):
        if kinds.setdefault(term.name, type(term)) is not type(term):
            raise Fault("bad_term", f"{term.name} is an axis and a pack", help="Give them different names.",
                        place=_place(plan, "left", term.name) or _place(plan, "right", term.name))


def _leaves(plan: AbstractPlan) -> Iterator[NamedAxis | Pack]:
    """Yield the axes and packs of both sides, as often as they stand there."""
    for leaf in (leaf for axes in (*plan.lhs, *plan.rhs) for term in axes for leaf in term.leaves()):
        if isinstance(leaf, NamedAxis | Pack):
            yield leaf


def _place(plan: AbstractPlan, side: str, name: str) -> Place | None:
    lists = plan.lhs if side == "left" else plan.rhs
    places = (Place(side, k, n) for k, axes in enumerate(lists) for n, t in enumerate(axes) if name in names(t))
    return next(places, None)


def check_given(plan: AbstractPlan, sizes: Mapping[str, Any]) -> None:
    """Check the arguments of `with_sizes`.

    Raises:
        Fault: a name is not in the operation, or a size is none.
    """
    kinds = {t.name: type(t) for t in _leaves(plan)}
    for name, size in sizes.items():
        place = size_place(name)
        if name not in kinds:
            raise Fault("unknown_name", f"{name} is no axis of the operation", place=place,
                        help=f"Its axes are {', '.join(sorted(kinds))}.")
        given = size if isinstance(size, tuple) else (size,)
        if any(not isinstance(n, int | np.integer) or isinstance(n, bool) or n < 0 for n in given):
            raise Fault("bad_size", f"{name}={size!r} is no size", place=place,
                        help="Sizes are integers from 0 on; for a pack, a tuple of them.")
        is_pack = kinds[name] is Pack
        if isinstance(size, tuple) != is_pack:
            raise Fault("bad_size", f"{name}={size!r} is not the size of {'a pack' if is_pack else 'an axis'}",
                        place=place, help="Give an axis an integer, and a pack a tuple.")


def check_reducers(plan: AbstractPlan, reducers: tuple[Any, ...]) -> None:
    """Check the arguments of `reduce_by`.

    Raises:
        Fault: the operation takes no reducer, or these are none, or they are not for the axes that are reduced.
    """
    place = REDUCER
    if plan.op_name not in ("reduce", "einop"):
        raise Fault("bad_reducer", f"{plan.op_name} takes no reducer", place=place,
                    help="reduce and einop do; contract sums.")
    phases = [r for r in reducers if isinstance(r, tuple)]
    if not reducers or (len(phases) != len(reducers) and len(reducers) != 1):
        raise Fault("bad_reducer", "one reducer, or pairs of axes and reducers are wanted", place=place,
                    help='Such as reduce_by("sum") or reduce_by((ax[h], "max"), (ax[w], "sum")).')
    if not all(len(pair) == 2 for pair in phases):
        raise Fault("bad_reducer", "a pair has the axes and the reducer", place=place,
                    help='Such as (ax[h], "max").')
    for reducer in reducers:
        function = reducer[1] if isinstance(reducer, tuple) else reducer
        if function not in NAMES if isinstance(function, str) else not callable(function):
            raise Fault("bad_reducer", f"{function!r} is no reducer", place=place,
                        help=f"Reducers are {', '.join(NAMES)}, and functions of an array and a tuple of axes.")
    if phases:
        _check_phases(plan, [axes for axes, _ in phases], place)


def _check_phases(plan: AbstractPlan, phases: Sequence[Any], place: Place) -> None:
    gone = {n for axes in plan.lhs for t in axes for n in names(t)}
    gone -= {n for axes in plan.rhs for t in axes for n in names(t)}
    listed = [n for axes in phases for t in axes for n in names(t)] if all(
        isinstance(axes, AxisList) for axes in phases) else []
    if sorted(listed) != sorted(gone):
        reduced = ", ".join(sorted(gone)) or "none"
        raise Fault("bad_reducer", f"the axes that are reduced are {reduced}", place=place,
                    help='Name each of them once: reduce_by((ax[h], "max"), (ax[w], "sum")).')


def not_a_view(plan: SymbolicPlan, context: SpecializationContext) -> Fault:
    """Return the error of a view whose first copying step is named, with the strides that are in the way."""
    layouts = dict(enumerate(context.layouts))
    for step in plan.steps:
        operands = [layouts[s] for s in step.operands]
        made, cost = step.score(context, operands)
        layouts.update(zip(step.results, made))
        if not cost.allocations:
            continue
        if isinstance(step, Reshape):
            shape = context.shape(step.dims)
            merged = " * ".join(next(keys for keys in step.dims if len(keys) > 1))
            return Fault("not_a_view", f"{merged} takes a copy: an array of shape {operands[0].shape} with strides "
                         f"{operands[0].strides} has no view of shape {shape}",
                         help="rearrange copies where it must; or take the array in the order in which it lies.")
        what = "joining arrays" if step.name == "concat" else "filling a diagonal"
        return Fault("not_a_view", f"{what} takes a copy", help="rearrange copies where it must.")
    raise AssertionError("a plan without copies is a view")

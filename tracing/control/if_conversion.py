"""If-conversion of Python's branches: both are computed, and the values that they assign are selected at run time.

Code compiled by `jitfuse.tracing.rewrite.branches` calls these steps. While a branch is traced, writes into arrays are
masked by its condition, and operators that raise do so only where it holds. A branch may call only functions that are
known to compute and do nothing else (`jitfuse.tracing.control.predication`), and reads no values. Otherwise, or where
something raises, the branch is rejected, and the function is traced again with a graph break there. How two values are
selected is in `jitfuse.tracing.scalars.branch_values`.
"""
from __future__ import annotations

import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from jitfuse.tracing.control import loop_capture, predication
from jitfuse.tracing.control.predication import ActiveBranch
from jitfuse.tracing.record.known_values import UnknownValueError, known_truth
from jitfuse.tracing.record.recorder import Recorder
from jitfuse.tracing.record.value_reads import may_put_off
from jitfuse.tracing.scalars.branch_values import TESTS, UNBOUND, Both, all_chosen, truth, truth_of
from jitfuse.tracing.tensor.traced import TracedTensor

if TYPE_CHECKING:
    from jitfuse.tracing.record.value_reads import Site


# ---------------------------------------------------------------- the way through a branch
def _ask(run: Recorder | None, frame: types.FrameType, site: Site, value: Any) -> Any:
    """Return a `Both` for the truth of a traced value; the value itself where Python decides."""
    if run is None or run.breaker is None or type(value) is not TracedTensor or value._meta.size != 1:
        return value
    if not may_put_off(run) or (not run.loops and run.breaker.decides(site)):
        return value  # a captured loop cannot contain a graph break
    try:
        known_truth(run, value._id())
    except UnknownValueError:
        run.converted_sites.add(site)
        return Both(site, truth_of(value))
    return value


def _then(run: Recorder | None, frame: types.FrameType, value: Any, names: tuple[str, ...]) -> bool:
    """Begin the first branch; return whether it runs."""
    if type(value) is not Both:
        return bool(value)
    assert run is not None
    held = frame.f_locals if names else {}
    value.saved = {n: held.get(n, UNBOUND) for n in names}
    run.active_branches.append(ActiveBranch(value, True, run.active_branches[-1] if run.active_branches else None))
    return True


def _begin_other(run: Recorder | None, frame: types.FrameType, both: Both) -> Any:
    """End the first branch; return the values that the names had before it."""
    held = frame.f_locals
    both.values = {n: held.get(n, UNBOUND) for n in both.saved}
    return _as_assigned(list(both.saved.values()))


def _otherwise(run: Recorder | None, frame: types.FrameType, value: Any) -> bool:
    """Begin the second branch; return whether it runs."""
    if type(value) is not Both:
        return not value
    assert run is not None
    _leave(run, value)
    run.active_branches.append(ActiveBranch(value, False, run.active_branches[-1] if run.active_branches else None))
    return True


def _merge(run: Recorder | None, frame: types.FrameType, both: Both) -> Any:
    """End the branch; return the values of the names from now on."""
    assert run is not None
    _leave(run, both)
    held = frame.f_locals if both.saved else {}
    pairs = [(both.values[n], held.get(n, UNBOUND)) for n in both.saved]
    found = all_chosen(run, both, pairs)
    both.values, both.saved = {}, {}
    return _as_assigned(found)


def _choose(run: Recorder | None, frame: types.FrameType, value: Any, one: Any, other: Any) -> Any:
    """End an expression that has two branches; return its value."""
    if type(value) is not Both:
        return one if value else other
    assert run is not None
    _leave(run, value)
    return all_chosen(run, value, [(one, other)])[0]


def _choose_truth(run: Recorder | None, frame: types.FrameType, value: Any, one: Any, other: Any) -> Any:
    """End an expression of two branches of which only the truth is used."""
    if type(value) is not Both:
        return one if value else other
    assert run is not None
    _leave(run, value)
    if type(one) is bool and type(other) is bool and one != other:
        return value.condition if one else value.condition.call("logical_not")
    truths = [truth(run, value, v) for v in (one, other)]
    return value.condition.call("where", *truths)


def _as_assigned(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else tuple(values)


def _leave(run: Recorder, both: Both) -> None:
    """End the branch that is running; reject it where that is another one, because an error in it was caught."""
    if not run.active_branches or run.active_branches[-1].both is not both:
        run.undo_conversion(both.site)
    run.active_branches.pop()


def _slice(run: Recorder | None, frame: types.FrameType, *parts: Any) -> slice:
    return slice(*parts)


STEPS: Final[dict[str, Callable[..., Any]]] = {
    "ask": _ask, "then": _then, "begin_other": _begin_other,
    "otherwise": _otherwise, "merge": _merge, "choose": _choose, "choose_truth": _choose_truth,
    "put": predication.put, "update": predication.update, "update_item": predication.update_item,
    **loop_capture.STEPS, "called": predication.called, "goes_over": predication.goes_over, "slice": _slice, **TESTS,
}
"""The function for each step of a branch. Arguments: the run (None outside of traces), the frame, the step's values.
Tests of values take the value alone."""

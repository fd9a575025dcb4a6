"""Predication: an if-converted branch has no effects where its condition is false.

Owns the active branches, writes into arrays and lists, which functions a branch may call, and operators that raise.
Does not own the steps of a branch (`jitfuse.tracing.control.if_conversion`).
"""
from __future__ import annotations

import math
import operator
import sys
import types
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from jitfuse.dtypes import kind
from jitfuse.ir.operators import op, ops
from jitfuse.tracing.control import loop_ranges
from jitfuse.tracing.interception.swap import original_code
from jitfuse.tracing.interception.user_code import is_user_function
from jitfuse.tracing.record.recorder import Recorder
from jitfuse.tracing.rewrite import branches
from jitfuse.tracing.rewrite.uniform_loops import METHODS
from jitfuse.tracing.scalars.branch_values import Both, NoCommonValueError, chosen, holds, is_number
from jitfuse.tracing.tensor.lifting import lift
from jitfuse.tracing.tensor.traced import TracedTensor, fresh

_BUILTINS: Final = frozenset({
    abs, min, max, len, int, float, bool, round, sum, range, enumerate, zip, divmod, pow, tuple, isinstance, slice,
})
_WRITERS: Final = frozenset({"copyto", "put", "place", "putmask", "fill_diagonal", "put_along_axis", "at", "shuffle"})
_REFUSED: Final = frozenset({op.LIBRARY, op.CONTROL, op.RANDOM, op.MODE})
"""Kinds of operators that may raise, or do more than compute."""
_BOUNDED: Final = frozenset({"take", "take_along_axis"})
"""Operators that raise for indices out of bounds."""


def put(run: Recorder | None, frame: types.FrameType, owner: Any, key: Any, value: Any) -> None:
    """Carry out ``owner[key] = value``; in a branch only where its condition holds."""
    if run is None:
        owner[key] = value
        return
    if run.active_branches:
        value, key = _put_in_branch(run, owner, key, value)
    elif run.loops and type(owner) is not TracedTensor:
        run.undo_conversion()
    run.environment.store_item(owner, key, value)


def _put_in_branch(run: Recorder, owner: Any, key: Any, value: Any) -> tuple[Any, Any]:
    """Return the key and value to store, such that nothing changes where the branch's condition is false."""
    condition = run.active_branches[-1].condition
    if type(owner) is list and not run.loops and type(key) is int and -len(owner) <= key < len(owner):
        try:
            return chosen(run, run.active_branches[-1].both, condition, value, owner[key]), key
        except NoCommonValueError:
            run.undo_conversion()
    if type(owner) is not TracedTensor:
        run.undo_conversion()
    if _is_mask(key):
        return value, key.call("logical_and", condition)
    if isinstance(key, tuple) and any(map(_is_mask, key)):
        run.undo_conversion()
    old = owner[key]
    given = lift(run, value)
    if given.weak:
        if not holds(owner._meta.dtype, given._meta.dtype):
            run.undo_conversion()
        given = given.call("astype", dtype=owner._meta.dtype)
    elif given._meta.dtype != owner._meta.dtype:
        if given._scalar:
            run.undo_conversion()  # NumPy would check whether it fits
        given = given.call("astype", dtype=owner._meta.dtype)
    made = condition.call("where", given, old)
    if made.shape != old.shape:
        run.undo_conversion()
    return made, key


def _is_mask(key: Any) -> bool:
    return (type(key) is TracedTensor and key._meta.dtype == "bool") or (
        isinstance(key, np.ndarray | list) and np.asarray(key).dtype == bool)


def update(run: Recorder | None, frame: types.FrameType, name: str, value: Any, other: Any) -> Any:
    """Carry out ``value op= other``; return the new value of the name."""
    if run is None or is_number(value):
        return _in_place(name)(value, other)
    if (run.active_branches or run.loops) and type(value) is not TracedTensor:
        run.undo_conversion()
    if not run.active_branches:
        return _in_place(name)(value, other)
    result = _out_of_place(name)(value, other)
    if type(result) is not TracedTensor or result._meta != value._meta:
        run.undo_conversion()
    value[...] = run.active_branches[-1].condition.call("where", result, value)
    return value


def update_item(run: Recorder | None, frame: types.FrameType, name: str, owner: Any, key: Any, other: Any) -> None:
    """Carry out ``owner[key] op= other``."""
    if run is None:
        owner[key] = _in_place(name)(owner[key], other)
        return
    if run.loops and type(owner) is not TracedTensor:
        run.undo_conversion()
    now = run.environment.load_item(owner, key, False)
    if not run.active_branches:
        run.environment.store_item(owner, key, _in_place(name)(now, other))
        return
    result = _out_of_place(name)(now, other)
    if type(now) is TracedTensor and now.shape and (type(result) is not TracedTensor or result._meta != now._meta):
        run.undo_conversion()
    put(run, frame, owner, key, result)


def _in_place(name: str) -> Callable[[Any, Any], Any]:
    return getattr(operator, name)  # type: ignore[no-any-return]


def _out_of_place(name: str) -> Callable[[Any, Any], Any]:
    """Return the operator that makes a new value: `__add__` for `__iadd__`."""
    return getattr(operator, "__" + name[3:])  # type: ignore[no-any-return]


def called(run: Recorder | None, frame: types.FrameType, function: Any, keywords: tuple[str, ...]) -> Any:
    """Return a function that a branch or a loop calls; reject one that may do more than compute."""
    if run is not None and (run.active_branches or run.loops) and not (
            ("out" not in keywords and _only_computes(function)) or _is_inner(run, function)):
        run.undo_conversion()
    if run is None:
        return function
    function = run.environment.hooks.called(function)
    return _with_lasting(run, function) if run.active_branches or run.loops else function


def _is_inner(run: Recorder, function: Any) -> bool:
    """Return whether a user function is inlined into a loop; if it could be, end the run so that it will be."""
    fn = function.__func__ if type(function) is types.MethodType else function
    if not isinstance(fn, types.FunctionType) or not is_user_function(fn):
        return False
    code = original_code(fn)
    if _is_running(code):  # tracing a recursive function would not end
        return False
    if run.loops and branches.want_inner(code):
        assert run.breaker is not None
        run.breaker.decide((loop_ranges.site_of_inner(code.co_filename, code.co_firstlineno),))
    return branches.is_inner(code)


def _is_running(code: types.CodeType) -> bool:
    """Return whether a function is running: called and not returned yet."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        other = frame.f_code
        if (other.co_filename, other.co_firstlineno, other.co_name) == (
                code.co_filename, code.co_firstlineno, code.co_name):
            return True
        frame = frame.f_back
    return False


def _with_lasting(run: Recorder, function: Any) -> Callable[..., Any]:
    """Return a function that rejects iterators as arguments: a call would use them up."""
    def call(*args: Any, **kwargs: Any) -> Any:
        if any(hasattr(type(value), "__next__") for value in (*args, *kwargs.values())):
            run.undo_conversion()
        return function(*args, **kwargs)

    return call


def goes_over(run: Recorder | None, frame: types.FrameType, value: Any) -> Any:
    """Return what a loop in a branch or captured loop iterates over; reject iterators, which it would use up."""
    if run is not None and (run.active_branches or run.loops) and type(value) not in (range, list, tuple, TracedTensor):
        run.undo_conversion()
    return value


def _only_computes(function: Any) -> bool:
    owner = getattr(function, "__self__", None)
    name = str(getattr(function, "__name__", ""))
    if type(owner) is TracedTensor:
        return name in METHODS
    if type(function) is type and issubclass(function, np.generic):
        return True
    try:
        known = function in _BUILTINS
    except TypeError:
        return False
    if known or isinstance(function, np.ufunc):
        return True
    module = str(getattr(function, "__module__", None) or "")
    if owner is math or module == "math":
        return True
    return module.partition(".")[0] in ("numpy", "jitfuse") and "random" not in module and (
        "generators" not in module and name not in _WRITERS and not isinstance(function, types.MethodType))


class ActiveBranch:
    """A branch that is being traced: its conditional, whether it is the first branch, and the branch around it."""

    __slots__ = ("_around", "_condition", "_first", "both")

    def __init__(self, both: Both, first: bool, around: ActiveBranch | None) -> None:
        self.both, self._first, self._around = both, first, around
        self._condition: TracedTensor | None = None

    @property
    def condition(self) -> TracedTensor:
        """The conjunction of its own condition and those around it; recorded only if needed, which is rare."""
        if self._condition is None:
            own = self.both.condition if self._first else self.both.condition.call("logical_not")
            self._condition = own if self._around is None else self._around.condition.call("logical_and", own)
        return self._condition

    def checked(self, run: Recorder, row: ops.Op, inputs: tuple[int, ...]) -> tuple[int, ...]:
        """Return the operands of an operator in a branch such that it raises nothing where the condition is false."""
        if row.name == "require":
            off = run.emit("logical_not", (self.condition._id(),))
            return inputs[0], run.emit("logical_or", (inputs[1], off))
        stores_one = (
            bool(run.loops) and row.name == "scatter" and not any(run.graph.metas[i].shape for i in inputs[1:])
        )
        indices = inputs[1:] if row.name == "gather" else inputs[2:] if row.name == "scatter" else ()
        if (
            (row.kind in _REFUSED and not stores_one) or row.name in _BOUNDED
            or not all(_is_inside(run, i) for i in indices)
            or (row.raises and kind(run.graph.metas[inputs[0]].dtype) in row.raises)
        ):
            run.undo_conversion()
        return inputs

    def index(self, run: Recorder, index: TracedTensor) -> TracedTensor:
        """Return an index that is 0 where the branch's condition is false."""
        zero = fresh(run, run.scalar(0, index._meta.dtype))
        made: TracedTensor = self.condition.call("where", index, zero)
        run.bounded.add(made._id())
        return made


def _is_inside(run: Recorder, index: int) -> bool:
    """Return whether an index is within bounds, either by its operator or because the branch masks it."""
    node = run.graph.node(index)
    return index in run.bounded or (node is not None and node.op_name in ("full", "constant", "arange"))

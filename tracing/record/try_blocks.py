"""Steps in `try` and `with` blocks: whether the traced function would catch an error of the step.

The compiled program raises errors after the function's `except` is past. Owns the search for such blocks around the
running code, and the handling of steps there that may raise: Python reads first whether they do, or the call falls back
to plain Python. Owns whether code that has caught an error may see that it is jitfuse's. Does not own which operators
may raise (`jitfuse.ir`).
"""
from __future__ import annotations

import dis
import sys
import types
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitfuse.base.records import NamedTuple
from jitfuse.dtypes import kind
from jitfuse.errors import UntraceableError
from jitfuse.ir.operators import ops
from jitfuse.ir.program import Attrs
from jitfuse.tracing.interception.assembler import CALL_PARTS, CALLS
from jitfuse.tracing.interception.reader import TracingEnvironment
from jitfuse.tracing.record.known_values import UnknownValueError, known_value
from jitfuse.tracing.record.source import is_own_code, user_line
from jitfuse.tracing.record.value_reads import read_truth
from jitfuse.tracing.rewrite.loop_statements import HARMLESS

if TYPE_CHECKING:
    from jitfuse.tracing.record.recorder import Recorder

_CONSTANTS: Final = frozenset({"full", "constant", "arange"})
_SHOWS: Final = frozenset({"exc_info", "exception", "format_exc", "print_exc", "format_exception", "print_exception"})
"""Functions that return or show the error that is being handled."""
_MANY: Final = 4096


class _Guarded(NamedTuple):
    """Instructions with a handler; `manager`: the name of a `with` block's manager, "" if unknown, None for `try`."""

    start: int
    end: int
    manager: str | None


def reject_in_try(name: str) -> None:
    """Raise UntraceableError if the function may catch a run-time error of a step; does nothing outside of traces.

    A `with` block may catch it too, except for a few managers that are known not to.
    """
    if is_caught():
        raise UntraceableError(
            f"{name} may raise inside of a try or with block at {user_line()}, which is known only when the compiled "
            "program runs. Take it out of the block, or check the values first."
        )


def holds(run: Recorder, ok: int) -> bool | None:
    """Return whether a condition holds if the function would catch its failure here, else None.

    Python reads the condition, which is a graph break.
    """
    if not is_caught():
        return None
    if run.breaker is None:
        reject_in_try("a step")
    whole = {"axis": None, "keepdims": False}
    return read_truth(run, run.emit("all", (ok,), whole) if run.graph.metas[ok].shape else ok)


def check_caught(run: Recorder, row: ops.Op, inputs: tuple[int, ...], attrs: Attrs) -> None:
    """Read whether an operator raises where the function would catch it; if so, raise UntraceableError."""
    if is_caught() and not all(holds(run, ok) for ok in _conditions(run, row.name, inputs, dict(attrs))):
        reject_in_try(f"the operator {row.name}")


def _conditions(run: Recorder, name: str, inputs: tuple[int, ...], attrs: dict[str, Any]) -> list[int]:
    """Return the conditions under which an operator raises nothing."""
    metas = run.graph.metas
    if name == "require":
        return [inputs[1]]
    if name == "power":
        whole = all(kind(metas[i].dtype) in ("bool", "int", "uint") for i in inputs)
        signed = whole and kind(metas[inputs[1]].dtype) == "int"
        return [run.emit("greater_equal", (inputs[1], run.literal(0)))] if signed else []
    if name in ("nanargmin", "nanargmax"):
        if kind(metas[inputs[0]].dtype) not in ("float", "complex"):
            return []
        numbers = run.emit("logical_not", (run.emit("isnan", inputs),))
        return [run.emit("any", (numbers,), {"axis": attrs.get("axis"), "keepdims": False})]
    if attrs.get("mode", "raise") != "raise":
        return []
    first = 2 if name == "scatter" else 1
    axes = attrs["axes"] if "axes" in attrs else (attrs["axis"],)
    extents = [metas[inputs[0]].shape[axis] for axis in axes]
    pairs = zip(inputs[first:], extents, strict=True)
    return [_is_within(run, index, extent) for index, extent in pairs if not _is_certain(run, index, extent)]


def _is_within(run: Recorder, index: int, extent: int) -> int:
    """Return the tensor that says whether indices are within an axis."""
    if run.graph.metas[index].dtype != "uint64":
        index = run.emit("astype", (index,), {"dtype": "int64"})
    below = run.emit("less", (index, run.literal(extent)))
    if run.graph.metas[index].dtype == "uint64":
        return below
    return run.emit("logical_and", (below, run.emit("greater_equal", (index, run.literal(-extent)))))


def _is_certain(run: Recorder, index: int, extent: int) -> bool:
    """Return whether indices are constants within an axis."""
    node = run.graph.node(index)
    if node is None or node.op_name not in _CONSTANTS:
        return False
    try:
        values = known_value(run.session, index)
    except UnknownValueError:
        return False
    return bool(np.all((-extent <= values) & (values < extent)))


# ---------------------------------------------------------------- where errors are caught
def is_caught() -> bool:
    """Return whether the traced function may catch an error that is raised here."""
    frame: types.FrameType | None = sys._getframe(1)
    caught = False
    while frame is not None and frame.f_code is not TracingEnvironment.run.__code__:
        met = _met.get(id(frame.f_code))
        if met is None:
            met = _meet(frame.f_code)
        if met[1]:
            at = frame.f_lasti
            caught = caught or any(g.start <= at < g.end for g in met[1])
        elif frame.f_code.co_name == "__getitem__":
            caught = caught or _ends_iteration(frame)
        frame = frame.f_back
    return caught and frame is not None


def _ends_iteration(frame: types.FrameType) -> bool:
    """Return whether an IndexError of a `__getitem__` may end a loop over its object."""
    names = frame.f_code.co_varnames
    owner = type(frame.f_locals.get(names[0])) if names else None
    return not is_own_code(frame.f_code.co_filename) and not hasattr(owner, "__iter__")


_met: dict[int, tuple[types.CodeType, tuple[_Guarded, ...]]] = {}
"""Guarded instructions by the id of their code: hashing code by value is slow."""


def _meet(code: types.CodeType) -> tuple[types.CodeType, tuple[_Guarded, ...]]:
    if len(_met) >= _MANY:
        _met.clear()
    found = _met[id(code)] = (code, () if is_own_code(code.co_filename) else _guarded(code))
    return found


def _guarded(code: types.CodeType) -> tuple[_Guarded, ...]:
    """Return the instructions within `try` blocks, and within `with` blocks whose managers may catch errors."""
    entries = dis._parse_exception_table(code)  # type: ignore[attr-defined]
    if not entries:
        return ()
    found = []
    instructions = list(dis.get_instructions(code))
    at = {i.offset: k for k, i in enumerate(instructions)}
    for entry in entries:
        first, second = (i.opname for i in instructions[at[entry.target] : at[entry.target] + 2])
        if first != "PUSH_EXC_INFO" or second == "RERAISE":
            continue
        manager = _manager(instructions[: at[entry.start]]) or "" if second == "WITH_EXCEPT_START" else None
        if manager not in HARMLESS:
            found.append(_Guarded(entry.start, entry.end, manager))
    return tuple(found)


def _manager(before: list[dis.Instruction]) -> str | None:
    """Return the name of the function whose call makes the manager of the `with` block after these instructions."""
    if len(before) < 2 or before[-1].opname != "BEFORE_WITH" or before[-2].opname not in CALLS:
        return None
    needed, rest = (before[-2].arg or 0) + (before[-2].opname == "CALL_KW"), before[:-2]  # the names are one more value
    while rest and rest[-1].opname in CALL_PARTS:
        rest.pop()
    while rest and needed > 0:  # back over the code of the arguments
        step = rest.pop()
        if "JUMP" in step.opname:
            return None
        needed -= dis.stack_effect(step.opcode, step.arg, jump=False)
    while rest and rest[-1].opname in CALLS | CALL_PARTS | {"SWAP", "PUSH_NULL"}:
        rest.pop()  # a probe, whose last argument is the name
    return str(rest[-1].argval) if rest and not needed else None


def shows_what_it_caught(error: BaseException) -> bool:
    """Return whether code that an error has passed may have seen more than its type: its text, or jitfuse's class."""
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if not is_own_code(code.co_filename) and _shows(code):
            return True
        trace = trace.tb_next
    return False


def _shows(code: types.CodeType) -> bool:
    if not _SHOWS.isdisjoint(code.co_names) or any(g.manager not in (None, "suppress") for g in _guarded(code)):
        return True
    names = [i.opname for i in dis.get_instructions(code)]
    return "CHECK_EG_MATCH" in names or any(
        name == "CHECK_EXC_MATCH" and names[k + 2] != "POP_TOP" for k, name in enumerate(names)
    )

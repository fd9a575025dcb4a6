"""Whether an error of the step that is being recorded would be caught by the function: only a run of it can tell then.

Owns the search for `try` blocks around the place where a trace is. Errors of library steps are known when the compiled
program runs, when the function's `except` is long past.
"""
from __future__ import annotations

import dis
import sys
import types
from functools import lru_cache

from jitfuse.errors import UntraceableError
from jitfuse.tracing.source import is_user_code, user_line
from jitfuse.tracing.view.loop_statements import HARMLESS
from jitfuse.tracing.view.reader import View


def refuse_in_try(name: str) -> None:
    """Raise UntraceableError where the function may catch what a step raises when it runs; outside of traces nothing.

    A `with` block may catch it, too, but for those of a few managers that are known not to.
    """
    if is_caught():
        raise UntraceableError(
            f"{name} may raise inside of a try or with block at {user_line()}, which is known only when the compiled "
            "program runs. Take it out of the block, or look at the matrix first (np.linalg.cond)."
        )


def is_caught() -> bool:
    """Return whether the function that is traced may catch what is raised here."""
    frame: types.FrameType | None = sys._getframe(1)
    caught = False
    while frame is not None and frame.f_code is not View.run.__code__:
        code = frame.f_code
        caught |= is_user_code(code.co_filename) and any(a <= frame.f_lasti < b for a, b in _guarded(code))
        frame = frame.f_back
    return caught and frame is not None


@lru_cache(maxsize=256)
def _guarded(code: types.CodeType) -> tuple[tuple[int, int], ...]:
    """Return the instructions that `except`, `finally` and managers that may catch errors stand behind."""
    found = []
    instructions = list(dis.get_instructions(code))
    at = {i.offset: k for k, i in enumerate(instructions)}
    for entry in dis._parse_exception_table(code):  # type: ignore[attr-defined]
        first, second = (i.opname for i in instructions[at[entry.target] : at[entry.target] + 2])
        if first != "PUSH_EXC_INFO" or second == "RERAISE":
            continue
        if second != "WITH_EXCEPT_START" or _manager(instructions[: at[entry.start]]) not in HARMLESS:
            found.append((entry.start, entry.end))
    return tuple(found)


def _manager(before: list[dis.Instruction]) -> str | None:
    """Return the name of the function whose call makes the manager of the `with` block that begins behind these."""
    if len(before) < 2 or before[-1].opname != "BEFORE_WITH" or before[-2].opname != "CALL":
        return None
    needed, rest = before[-2].arg or 0, before[:-2]
    while rest and rest[-1].opname in ("PRECALL", "KW_NAMES"):
        rest.pop()
    while rest and needed > 0:  # back over what makes the arguments
        step = rest.pop()
        if "JUMP" in step.opname:
            return None
        needed -= dis.stack_effect(step.opcode, step.arg, jump=False)
    while rest and rest[-1].opname in ("PRECALL", "CALL", "SWAP", "PUSH_NULL"):
        rest.pop()  # a gate, whose last argument is the name
    return str(rest[-1].argval) if rest and not needed else None

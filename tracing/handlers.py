"""Whether an error of the step that is being recorded would be caught by the function: only a run of it can tell then.

Owns the search for `try` blocks around the place where a trace is. Errors of library steps are known when the compiled
program runs, when the function's `except` is long past.
"""
from __future__ import annotations

import dis
import sys
import types
from functools import lru_cache
from typing import Final

from jitfuse.errors import UntraceableError
from jitfuse.tracing.source import is_user_code, user_line
from jitfuse.tracing.view.reader import View

_NO_HANDLERS: Final = frozenset({"WITH_EXCEPT_START", "RERAISE"})


def refuse_in_try(name: str) -> None:
    """Raise UntraceableError where the function may catch what a step raises when it runs."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not View.run.__code__:
        code = frame.f_code
        if is_user_code(code.co_filename) and any(a <= frame.f_lasti < b for a, b in _guarded(code)):
            raise UntraceableError(
                f"{name} may raise inside of a try block at {user_line()}, which is known only when the compiled "
                "program runs. Take it out of the block, or look at the matrix first (np.linalg.cond)."
            )
        frame = frame.f_back


@lru_cache(maxsize=256)
def _guarded(code: types.CodeType) -> tuple[tuple[int, int], ...]:
    """Return the instructions that `except` and `finally` stand behind; `with` blocks are none of them."""
    found = []
    names = {i.offset: (i.opname, n.opname) for i, n in _pairs(code)}
    for entry in dis._parse_exception_table(code):  # type: ignore[attr-defined]
        first, second = names.get(entry.target, ("", ""))
        if first == "PUSH_EXC_INFO" and second not in _NO_HANDLERS:
            found.append((entry.start, entry.end))
    return tuple(found)


def _pairs(code: types.CodeType) -> list[tuple[dis.Instruction, dis.Instruction]]:
    instructions = list(dis.get_instructions(code))
    return list(zip(instructions, [*instructions[1:], instructions[-1]], strict=True))

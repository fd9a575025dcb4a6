"""User-facing metadata of native code's entries: its function, its machine and its text.

Decides nothing: no key and no code depends on it.
"""
from __future__ import annotations

import time
from typing import Any, Final

from jitfuse.base.records import Record
from jitfuse.cache import Entry, compress_text
from jitfuse.ir.program import FusedProgram

LINES: Final = 1000
"""Lines of a program that an entry shows: people read no more, and each takes some microseconds to write."""


class Origin(Record, frozen=True):
    """The origin of kernels, for users: the function's name, its file and line, and the program they were first made
    for."""

    function: str
    source: str
    program: FusedProgram | None = None

    @property
    def program_text(self) -> dict[str, str]:
        """The program as metadata of an entry; long parts, such as literal arrays, are cut short, as is the program."""
        from jitfuse.ir.formats.text import first_lines  # not needed for kernels found in the cache

        lines = first_lines(self.program, LINES + 1) if self.program is not None else []
        shown = [line if len(line) <= 500 else f"{line[:500]} ..." for line in lines[:LINES]]
        return compress_text("\n".join([*shown, "  ..."] if len(lines) > LINES else shown))


def recorded_milliseconds(entry: Entry) -> float:
    """Return how long an entry's code took to make; its metadata may hold any text there."""
    value = entry.metadata.get("compile_ms")
    return float(value) if isinstance(value, int | float) else 0.0


def entry_metadata(origin: Origin) -> dict[str, Any]:
    """Return the user-facing metadata common to all entries."""
    from llvmlite import __version__ as llvmlite_version  # type: ignore[import-untyped]

    from jitfuse.backends.llvm.jit import host_target

    target = host_target()
    return {
        "function": origin.function, "source": origin.source, "backend": "llvm",
        "target": f"{target.triple} {target.cpu}", "features": compress_text(target.features),
        "created": int(time.time()),
        "versions": {"llvm": f"llvmlite {llvmlite_version}"},
    }

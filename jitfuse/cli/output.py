"""How commands print: JSON for programs, rich for people. Imports rich only where it draws."""
from __future__ import annotations

import contextlib
import io
import json
import math
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH_OF_FILES = 160


def console() -> Console:
    """Return the console on standard output; into a file or pipe it writes wider lines and no colours."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _WIDTH_OF_FILES, highlight=False)


def print_json(value: Any) -> None:
    """Print `value` as indented JSON with sorted keys; JSON has no NaN and no infinities, which become null."""
    print(json.dumps(_finite(value), indent=2, sort_keys=True))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextlib.contextmanager
def every_character() -> Iterator[None]:
    """Write characters that an output's encoding lacks as ``\\u...``, so that no name or path ends a command."""
    changed = [(s, s.errors) for s in (sys.stdout, sys.stderr) if isinstance(s, io.TextIOWrapper)]
    for stream, _ in changed:
        stream.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        for stream, errors in changed:
            with contextlib.suppress(OSError, ValueError):  # closed, or the reader has left
                stream.reconfigure(errors=errors)


def progress(text: str) -> None:
    """Show the progress of a command in one line of a terminal, which the next one replaces; "" removes it."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()

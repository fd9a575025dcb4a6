"""How commands print: JSON for programs, rich for people. Imports rich only where it draws."""
from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH_OF_FILES = 160


def console() -> Console:
    """Return the console on standard output; into a file or pipe it writes wider lines and no colours."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _WIDTH_OF_FILES, highlight=False)


def print_json(value: Any) -> None:
    """Print `value` as indented JSON with sorted keys."""
    print(json.dumps(value, indent=2, sort_keys=True))

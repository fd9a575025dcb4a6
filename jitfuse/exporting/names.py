"""Names in an exported function: of its arguments and of its steps' results."""
from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Mapping
from typing import Final

from jitfuse.errors import ArgumentError
from jitfuse.ir.program import RANDOM_STATE, FusedProgram

LONGEST: Final = 36
RESERVED: Final = frozenset({
    *dir(builtins), *keyword.kwlist, *keyword.softkwlist, "np", "math", "special", "warnings", "functools", "importlib",
    "ml_dtypes", "collections", "dataclasses", "training", "result",
})
"""Names that an exported function does not use: Python's own, and those of modules and of the mode."""


def check_name(name: object) -> str:
    """Return the name of a function; raises ArgumentError for an invalid one."""
    if not isinstance(name, str) or not name.isidentifier() or name in RESERVED or name.startswith("__"):
        raise ArgumentError(f"name={name!r} cannot name an exported function: pass an identifier that is free")
    return name


def identifier(text: str, otherwise: str) -> str:
    """Return a text as an identifier: ``args[0]['w']`` is ``args_0_w``."""
    plain = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_")[:LONGEST].strip("_")
    plain = plain if plain.isidentifier() else otherwise
    return plain + "_" if plain in RESERVED else plain


def argument_names(program: FusedProgram, called: Mapping[int, str], taken: set[str]) -> dict[int, str]:
    """Return a name for every feed, from `called` or the program's own; the names are added to `taken`."""
    names: dict[int, str] = {}
    for feed in program.ordered_feeds:
        text = called.get(feed) or program.feed_names.get(feed, "")
        names[feed] = unused("random_state" if text == RANDOM_STATE else identifier(text, f"feed_{feed}"), taken)
    return names


def value_names(program: FusedProgram, taken: set[str]) -> dict[int, str]:
    """Return a name for the result of every step: the operator's name and the value's number in the program."""
    return {i: unused(f"{step.op_name}_{i}", taken) for step in program.steps for i in step.result_ids}


def unused(plain: str, taken: set[str]) -> str:
    """Return an unused name, with a number if needed, and add it to `taken`."""
    name, number = plain, 2
    while name in taken:
        name, number = f"{plain}_{number}", number + 1
    taken.add(name)
    return name

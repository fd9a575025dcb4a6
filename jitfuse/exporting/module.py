"""The module around an exported function: imports, copied helpers, the function with its documentation."""
from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from jitfuse.errors import ArgumentError
from jitfuse.exporting.definitions import Definitions
from jitfuse.exporting.function import FunctionWriter
from jitfuse.exporting.layout import INDENT, WIDTH
from jitfuse.exporting.names import RESERVED, argument_names, check_name
from jitfuse.exporting.results import of_paths
from jitfuse.ir.analysis.verify import verify
from jitfuse.ir.formats.text import meta_text
from jitfuse.ir.program import FusedProgram
from jitfuse.version import __version__

_UNSAID: Final = object()


def export(
    program: FusedProgram, training: bool = False, name: str = "fused", *, called: Mapping[int, str] | None = None,
    fixed: Mapping[int, Any] = MappingProxyType({}), tree: Any = _UNSAID,
) -> str:
    """Return a program as Python source that needs NumPy alone: a module with one function, `name`.

    The function takes one argument for each feed, in ascending order, named after `called` or the program's own feed
    names: arrays of exactly the traced shape and dtype, and Python numbers for weak feeds (the very value in `fixed`,
    if the feed's value was read). It returns the outputs as the tree of their paths, or as `tree`, whose leaves are
    those of `jitfuse.exporting.results`. With state it returns (result, {name: new state}). Written arguments change in
    place, after everything that can raise. If the modes differ it takes `training`, whose default is `training` here.
    SciPy and ml_dtypes are imported where an operator or a dtype needs them.

    Args:
        program: what `f.program(...)` returns.
        training: the default mode.
        name: the function's name.
        called, fixed, tree: what `f.export(...)` knows besides; see above.

    Returns:
        The source.

    Raises:
        ArgumentError: bad arguments. VerifyError: a program that is not valid. UnsupportedError: results and constants
            that cannot be written as source.

    Example:
        >>> source = jf.export(jf.fuse(lambda x: x + 1).program(np.ones(2)), name="plus_one")
        >>> scope = {}
        >>> exec(source, scope)
        >>> scope["plus_one"](np.ones(2))
        array([2., 2.])
    """
    if not isinstance(program, FusedProgram):
        raise ArgumentError(f"export takes a FusedProgram, such as f.program(...), not a {type(program).__name__}")
    if not isinstance(training, bool):
        raise ArgumentError(f"training= is True or False, not {training!r}")
    check_name(name)
    verify(program)
    taken = {name, *RESERVED}
    arguments = argument_names(program, called or {}, taken)
    definitions = Definitions(taken)
    body = FunctionWriter(program, arguments, taken, definitions)
    returned = of_paths(program.outputs) if tree is _UNSAID else tree
    lines = [*body.checks(returned, fixed), *body.statements(), *body.delivery(returned)]
    if any("special." in line for line in lines):
        lines = [f"{INDENT}from scipy import special", "", *lines]
    signature = [*arguments.values(), *(["*", f"training={training}"] if body.has_modes else [])]
    head = ['@np.errstate(all="ignore")', *_definition(name, signature), *_documentation(program, arguments, body)]
    classes = [s.definition() for s in body.structures.values()]
    parts = [_heading(program, definitions, body), *classes, *definitions.texts, "\n".join([*head, *lines])]
    return "\n\n\n".join(parts) + "\n"


def _definition(name: str, signature: list[str]) -> list[str]:
    line = f"def {name}({', '.join(signature)}):"
    return [line] if len(line) <= WIDTH else [f"def {name}(", *(f"{INDENT}{s}," for s in signature), "):"]


def _documentation(program: FusedProgram, arguments: Mapping[int, str], body: FunctionWriter) -> list[str]:
    """Return the docstring: each argument with its shape, its dtype and its name in the program."""
    lines = [f'{INDENT}"""Compute what jitfuse traced; made for arguments of just these shapes and dtypes.', ""]
    for feed, name in arguments.items():
        program_name = program.feed_names.get(feed, "")
        written = ", changed in place" if feed in program.writes else ""
        was = f" ({_plain(program_name)})" if program_name and program_name != name else ""
        lines.append(f"{INDENT}{name}: {meta_text(program.meta[feed])}{was}{written}")
    if body.has_modes:
        lines.append(f"{INDENT}training: whether to run in training mode")
    if program.state_out:
        lines += ["", f"{INDENT}Returns (result, new state by argument name)."]
    return [*lines, f'{INDENT}"""'] if len(lines) > 2 else [f'{lines[0]}"""']


def _plain(text: str) -> str:
    """Return a text that is safe in a docstring."""
    shown = "".join(c if c.isprintable() and c not in '\\"' else "'" if c == '"' else "?" for c in text)
    return shown if len(shown) <= 50 else f"{shown[:47]}..."


def _heading(program: FusedProgram, definitions: Definitions, body: FunctionWriter) -> str:
    imports = {"import numpy as np", *definitions.imports}
    if any(s.is_tuple for s in body.structures.values()):
        imports.add("import collections")
    if any(not s.is_tuple for s in body.structures.values()):
        imports.add("import dataclasses")
    standard = sorted(i for i in imports if "numpy" not in i)
    plain = [i for i in standard if i.startswith("import")]
    outside = sorted((i for i in imports if "numpy" in i), key=lambda i: (i.startswith("from"), i))
    if any(m.dtype == "bfloat16" for m in program.meta.values()):
        outside.insert(0, "import ml_dtypes  # noqa: F401 (NumPy knows bfloat16 by it)")
    names = [*plain, *(i for i in standard if i not in plain)]
    text = f'"""Exported by jitfuse {__version__}; stands on its own."""'
    return "\n".join([text, *([""] if names else []), *names, "", *outside])



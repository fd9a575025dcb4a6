"""`print` in a traced function: its text appears once in every call, on every path.

Owns `print` in traces. A print is a graph break whose answer is always the same: known paths print too, and the printed
values do not select the path. Does not own the texts of a call (`jitfuse.tracing.record.output`), nor other output:
writes to files or logs happen only when Python runs the function.
"""
from __future__ import annotations

import ast
import builtins
import linecache
import re
import sys
import types
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import numpy as np

from jitfuse.errors import UnsupportedError
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.interception.assembler import FORMATS
from jitfuse.tracing.record import output, value_reads
from jitfuse.tracing.record.recorder import Recorder, active
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.record.value_reads import Answer, Question

_SHOWN: Final = ("print()",)
_PLACEHOLDER: Final = re.compile("\0jf([0-9]+)\0")


def printed(
    *values: Any, sep: str | None = None, end: str | None = None, file: Any = None, flush: bool = False
) -> None:
    """Print in a trace: with a graph break, in each call with its values; at once where no break is possible."""
    run = active()
    if run is not None and not run.may_print:
        raise UnsupportedError(f"the function prints, at {user_line()}, in each of its calls")
    if run is None or not value_reads.may_break(run) or not output.is_held():
        builtins.print(*values, sep=sep, end=end, file=file, flush=flush)
        return
    stream = next((name for name in ("stdout", "stderr") if file is getattr(sys, name)), file or "stdout")
    tensors: list[int] = []
    shown = [_template(value, tensors, run) for value in values]

    def ask(*arrays: np.ndarray[Any, Any]) -> Answer:
        text = (" " if sep is None else sep).join(piece(arrays) for piece in shown) + ("\n" if end is None else end)
        output.hold(text, stream, bool(flush))
        return Answer(_SHOWN, None)

    value_reads.ask(run, Question("print()", user_line(), ask), tuple(tensors))


_Piece = Callable[[tuple[np.ndarray[Any, Any], ...]], str]


def _template(value: Any, tensors: list[int], run: Recorder) -> _Piece:
    """Return the function from arrays to a printed value's text; adds the tensors that it needs to `tensors`."""
    if isinstance(value, str):
        return _filled(str(value), tensors, run)
    found = _rebuilding(value, tensors)
    if found is None:
        text = str(value)
        return lambda arrays: text
    make = found
    return lambda arrays: str(make(arrays))


def _rebuilding(value: Any, tensors: list[int]) -> Callable[[tuple[np.ndarray[Any, Any], ...]], Any] | None:
    """Return the function that rebuilds a value with arrays in place of traced values; None if it has none."""
    if isinstance(value, AbstractTensor):
        return _at(value, tensors)
    kind = type(value)
    if kind not in (list, tuple, dict):
        return None
    items = list(value.values()) if kind is dict else list(value)
    made = [_rebuilding(item, tensors) for item in items]
    if not any(made):
        return None
    keys = list(value) if kind is dict else []

    def make(arrays: tuple[np.ndarray[Any, Any], ...]) -> Any:
        new = [item if m is None else m(arrays) for item, m in zip(items, made, strict=True)]
        return dict(zip(keys, new, strict=True)) if kind is dict else kind(new)

    return make


def _at(value: Any, tensors: list[int]) -> Callable[[tuple[np.ndarray[Any, Any], ...]], Any]:
    index, weak = len(tensors), value.weak
    tensors.append(value._id())
    return lambda arrays: arrays[index][()].item() if weak else arrays[index][()]


# ---------------------------------------------------------------- texts that are only printed
def _filled(text: str, tensors: list[int], run: Recorder) -> _Piece:
    """Return the function that fills the placeholders of `run.placeholders` in a text."""
    parts = _PLACEHOLDER.split(text)
    made = []
    for number in parts[1::2]:
        value, spec = run.placeholders[int(number)]
        made.append((_at(value, tensors), spec))

    def fill(arrays: tuple[np.ndarray[Any, Any], ...]) -> str:
        values = [format(make(arrays), spec) for make, spec in made]
        return "".join(a + b for a, b in zip(parts[::2], [*values, ""], strict=True))

    return fill


def placeholder(run: Recorder, value: Any, spec: str, frame: types.FrameType) -> str | None:
    """Return a placeholder for a value in a text that a frame formats only to print it, None for other texts."""
    code = frame.f_code
    if not output.is_held() or code.co_code[frame.f_lasti] not in FORMATS:
        return None
    names = (code.co_varnames, code.co_cellvars, code.co_freevars)
    if "print" in frame.f_globals or any("print" in n for n in names):
        return None
    if frame.f_lineno not in _printing_lines(code.co_filename, _size(code.co_filename)):
        return None
    run.placeholders.append((value, spec))
    return f"\0jf{len(run.placeholders) - 1}\0"


def _size(filename: str) -> int:
    return len(linecache.getlines(filename))


@lru_cache(maxsize=256)
def _printing_lines(filename: str, lines: int) -> frozenset[int]:
    """Return the lines of a file on which all f-strings are arguments of `print`."""
    try:
        tree = ast.parse("".join(linecache.getlines(filename)))
    except (SyntaxError, ValueError):
        return frozenset()
    good: set[int] = set()
    direct: set[ast.AST] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
            continue
        call = node.value
        if isinstance(call.func, ast.Name) and call.func.id == "print":
            direct.update(a for a in call.args if isinstance(a, ast.JoinedStr))
            good.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    for text in list(direct):
        specs = (v.format_spec for v in ast.walk(text) if isinstance(v, ast.FormattedValue) and v.format_spec)
        direct.update(s for s in specs if not any(isinstance(v, ast.FormattedValue) for v in ast.walk(s)))
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and node not in direct:
            good.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return frozenset(good)

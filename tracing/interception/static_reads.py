"""Guards code that cannot be rewritten, by the chains of names and attributes found in its bytecode.

This is the fallback on a Python whose instructions are not known yet. The function then runs as it is; numbers that it
reads are constants of the trace, and creation functions are NumPy's own.
"""
from __future__ import annotations

import builtins
import copy
import dis
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from jitfuse.tracing.interception.chain import Chain
from jitfuse.tracing.interception.container_proxies import is_container
from jitfuse.tracing.interception.user_code import MISSING, is_user_class, is_user_function, is_user_module

if TYPE_CHECKING:
    from jitfuse.tracing.interception.reader import View

_PLAIN: Final = (int, float, complex, str, bytes, bool, type(None))


def read_statically(view: View, fn: types.FunctionType) -> None:
    """Guard every value that the code can reach by a chain from a global or a free variable."""
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or ()))
    for code in _all_code(fn.__code__):
        for root, names in _chains(code):
            found = _root(view, fn, cells, root)
            if found is not None:
                _follow(view, *found, names)


def _all_code(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _all_code(constant)


def _chains(code: types.CodeType) -> Iterator[tuple[tuple[str, str], list[str]]]:
    """Yield each (kind, name) of a root with the attribute names read from it in a row."""
    root: tuple[str, str] | None = None
    names: list[str] = []
    for step in dis.get_instructions(code):
        if root is not None and step.opname in {"LOAD_ATTR", "LOAD_METHOD"}:
            names.append(str(step.argval))
            continue
        if root is not None:
            yield root, names
        root, names = None, []
        if step.opname in {"LOAD_GLOBAL", "LOAD_NAME"}:
            root = "global", str(step.argval)
        elif step.opname in {"LOAD_DEREF", "LOAD_CLASSDEREF"}:
            root = "cell", str(step.argval)
    if root is not None:
        yield root, names


def _root(view: View, fn: types.FunctionType, cells: dict[str, types.CellType], root: tuple[str, str]) \
        -> tuple[Chain, Any] | None:
    kind, name = root
    if kind == "cell":
        cell = cells.get(name)
        try:
            return None if cell is None else (Chain.cell(cell, name), cell.cell_contents)
        except ValueError:
            return None
    if name in fn.__globals__:
        return view.name_chain(fn.__globals__, name), fn.__globals__[name]
    if hasattr(builtins, name):
        view.guard(Chain.object(fn.__globals__, "globals()"), "ABSENT", name, len(fn.__globals__))
    return None


def _follow(view: View, chain: Chain, value: Any, names: list[str]) -> None:
    """Guard the value, and the value of each attribute after it."""
    _guard(view, chain, value)
    for name in names:
        if isinstance(value, types.ModuleType) and not is_user_module(value):
            return
        if isinstance(getattr(type(value), name, None), property):
            return
        value = getattr(value, name, MISSING)
        if value is MISSING:
            return
        chain = chain.attr(name)
        if isinstance(value, types.MethodType):
            chain, value = chain.attr("__func__"), value.__func__
        _guard(view, chain, value)


def _guard(view: View, chain: Chain, value: Any) -> None:
    if isinstance(value, _PLAIN):
        view.guard_value(chain, value)
    elif is_container(value):
        snapshot = copy.copy(value)
        view.guard(chain, "EQ" if _comparable(value) else "IS", snapshot if _comparable(value) else value)
    elif is_user_class(type(value)):
        view.guard(chain, "TYPE", type(value))
        view.see_class(type(value))
    else:
        view.guard(chain, "IS", value)
    if is_user_function(value):
        view.function(value, chain)


def _comparable(value: Any) -> bool:
    items = value.values() if isinstance(value, dict) else value
    return all(isinstance(item, _PLAIN) for item in items)

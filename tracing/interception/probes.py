"""The functions that rewritten code calls: each passes the read or write on to the current tracing environment.

Rewritten code may run without a trace (in another thread, or in a generator that outlives its trace). Then every probe
does exactly what the original instruction does.
"""
from __future__ import annotations

import sys
import types
import weakref
from typing import Any

from jitfuse.tracing.rewrite.environment import current as current


def enter(code: int) -> None:
    """Announce that a rewritten function starts; `code` is the id of its own, unrewritten code."""
    environment = current.get()
    if environment is not None and code in environment.pending:
        environment.called(code)


def fresh(self: Any) -> None:
    """Announce that ``__init__`` starts; an object that no chain reaches was made in the trace."""
    environment = current.get()
    if environment is not None:
        environment.mark_fresh(self)


def default(value: Any) -> Any:
    """Read a parameter that may hold its default."""
    environment = current.get()
    return value if environment is None else environment.default(value)


def load_name(value: Any, name: str) -> Any:
    """LOAD_GLOBAL; a container comes as its proxy."""
    environment = current.get()
    return value if environment is None else environment.load_name(value, name, sys._getframe(1).f_globals, False)


def load_name_raw(value: Any, name: str) -> Any:
    """LOAD_GLOBAL of a value that is only subscripted: a container is passed as it is."""
    environment = current.get()
    return value if environment is None else environment.load_name(value, name, sys._getframe(1).f_globals, True)


def load_called(value: Any, name: str) -> Any:
    """LOAD_GLOBAL of a callee."""
    environment = current.get()
    if environment is None:
        return value
    return environment.maker(environment.load_name(value, name, sys._getframe(1).f_globals, False))


def load_local_name(value: Any, name: str) -> Any:
    """LOAD_NAME, as in a class body: a local name is the trace's own."""
    environment = current.get()
    frame = sys._getframe(1)
    if environment is None or name in frame.f_locals:
        return value
    return environment.load_name(value, name, frame.f_globals, False)


def load_cell(cell: types.CellType, value: Any) -> Any:
    """LOAD_DEREF of a free variable."""
    environment = current.get()
    return value if environment is None else environment.load_cell(value, cell, False)


def load_cell_raw(cell: types.CellType, value: Any) -> Any:
    """LOAD_DEREF of a free variable that is only subscripted."""
    environment = current.get()
    return value if environment is None else environment.load_cell(value, cell, True)


def load_attr(owner: Any, name: str) -> Any:
    """LOAD_ATTR."""
    environment = current.get()
    return getattr(owner, name) if environment is None else environment.load_attr(owner, name, False)


def load_called_attr(owner: Any, name: str) -> Any:
    """LOAD_METHOD, and LOAD_ATTR of a callee."""
    environment = current.get()
    return getattr(owner, name) if environment is None else environment.maker(environment.load_attr(owner, name, False))


def load_attr_raw(owner: Any, name: str) -> Any:
    """LOAD_ATTR of a value that is only subscripted."""
    environment = current.get()
    return getattr(owner, name) if environment is None else environment.load_attr(owner, name, True)


def load_item(key: Any, owner: Any) -> Any:
    """BINARY_SUBSCR."""
    environment = current.get()
    return owner[key] if environment is None else environment.load_item(owner, key, False)


def load_item_raw(key: Any, owner: Any) -> Any:
    """BINARY_SUBSCR of a value that is only subscripted."""
    environment = current.get()
    return owner[key] if environment is None else environment.load_item(owner, key, True)


def made(value: Any) -> Any:
    """Pass on a value that was read without a probe: an imported module, an attribute of super()."""
    environment = current.get()
    return value if environment is None else environment.arrived(value)


def imported_name(module: Any, value: Any, name: str) -> Any:
    """IMPORT_FROM."""
    environment = current.get()
    return value if environment is None else environment.imported_name(module, value, name)


def store_name(value: Any, name: str) -> Any:
    """Before STORE_GLOBAL: return the value to store."""
    environment = current.get()
    return value if environment is None else environment.store_name(value, name, sys._getframe(1).f_globals)


def delete_name(name: str) -> None:
    """Before DELETE_GLOBAL."""
    environment = current.get()
    if environment is not None:
        environment.store_name(None, name, sys._getframe(1).f_globals)


def store_cell(cell: types.CellType, value: Any) -> Any:
    """Before STORE_DEREF of a free variable: return the value to store."""
    environment = current.get()
    return value if environment is None else environment.store_cell(cell, value)


def store_attr(owner: Any, value: Any, name: str) -> None:
    """STORE_ATTR."""
    environment = current.get()
    if environment is None:
        setattr(owner, name, value)
    else:
        environment.store_attr(owner, name, value)


def count_attr(owner: Any, value: Any, name: str, by: int) -> None:
    """STORE_ATTR of an attribute that was counted by `by`."""
    environment = current.get()
    if environment is None:
        setattr(owner, name, value)
    else:
        if id(owner) in environment.fresh:
            value = environment.hooks.counted_of(owner, value, name, by)
        environment.store_attr(owner, name, value)


def delete_attr(owner: Any, name: str) -> None:
    """DELETE_ATTR."""
    environment = current.get()
    if environment is None:
        delattr(owner, name)
    else:
        environment.delete_attr(owner, name)


def store_item(owner: Any, key: Any, value: Any) -> None:
    """STORE_SUBSCR."""
    environment = current.get()
    if environment is None:
        owner[key] = value
    else:
        environment.store_item(owner, key, value)


def count(value: Any, name: str, by: int) -> Any:
    """Before STORE_FAST of a counter that was counted by `by`, or set."""
    environment = current.get()
    return value if environment is None else environment.hooks.counted(value, name, by, sys._getframe(1))


def iterate(value: Any, name: str) -> Any:
    """Before GET_ITER of a loop over a counter."""
    environment = current.get()
    return value if environment is None else environment.hooks.iterated(value, name, sys._getframe(1))


def iterations(value: Any, code: weakref.ref[types.CodeType], line: int, column: int, counted: bool) -> Any:
    """Before GET_ITER of a ``for``: its function, its source location, and whether its variable is a counter."""
    environment = current.get()
    return value if environment is None else environment.hooks.iterations(value, code, line, column, counted)


def same(left: Any, right: Any) -> bool:
    """IS_OP."""
    environment = current.get()
    return left is right if environment is None else environment.same(left, right)


def not_same(left: Any, right: Any) -> bool:
    """IS_OP with ``not``."""
    return not same(left, right)

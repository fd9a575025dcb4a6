"""Which functions run rewritten in one trace, and their guards: code, defaults, and the class that has them."""
from __future__ import annotations

import enum
import functools
import types
from typing import TYPE_CHECKING, Any

import numpy as np

from jitfuse.base.records import NamedTuple
from jitfuse.tracing.interception import swap
from jitfuse.tracing.interception.bookkeeping import EnvironmentState
from jitfuse.tracing.interception.chain import Chain
from jitfuse.tracing.interception.user_code import is_user_class, is_user_function, own_attributes

if TYPE_CHECKING:
    from jitfuse.tracing.interception.hooks import Hooks


class _Member(NamedTuple):
    """A function of a user's class that was not called yet, and what the trace depends on once it is."""

    owner: type
    name: str
    value: Any
    fn: types.FunctionType
    chain: Chain
    code: types.CodeType


class Functions(EnvironmentState):
    """Finds the user's functions behind callables, classes and wrappers, and exchanges their code."""

    def __init__(self, hooks: Hooks) -> None:
        super().__init__(hooks)
        self.cells: dict[int, tuple[types.CellType, Chain]] = {}
        self.defaults: dict[int, tuple[Any, Chain]] = {}
        self.pending: dict[int, list[_Member]] = {}
        self._classes: set[type] = set()
        self._functions: dict[int, types.FunctionType] = {}
        self._reached: set[int] = set()
        self._kept: list[Any] = []
        self._running = False
        self._waiting: list[tuple[types.FunctionType, frozenset[str], bool]] = []
        self._acquired: list[types.FunctionType] = []

    def function(self, fn: types.FunctionType, chain: Chain) -> None:
        """Run a function rewritten from now on if it is the user's, and guard its code and defaults."""
        if id(fn) in self._functions:
            self.called(id(swap.original_code(fn)), located=True)
            return
        if not is_user_function(fn):
            self.origin.setdefault(id(fn), (fn, chain))
            self.reach(fn)
            return
        self._functions[id(fn)] = fn
        self.origin.setdefault(id(fn), (fn, chain))
        code = swap.original_code(fn)
        self.pending.pop(id(code), None)
        self._install(fn, chain, lazily=False)
        self._guard_function(fn, chain, code)

    def _install(self, fn: types.FunctionType, chain: Chain, lazily: bool) -> None:
        for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or ()):
            self.cells.setdefault(id(cell), (cell, Chain.cell(cell, name)))
        job = fn, self._seen_defaults(fn, chain), lazily
        if self._running:
            self._acquire(*job)
        else:
            self._waiting.append(job)

    def _acquire(self, fn: types.FunctionType, defaults: frozenset[str], lazily: bool) -> None:
        swap.acquire(fn, defaults, lazily)
        self._acquired.append(fn)

    def exchange(self) -> None:
        """Run all functions found so far, and those found from now on, rewritten until `release`."""
        self._running = True
        while self._waiting:
            self._acquire(*self._waiting.pop())

    def release(self) -> None:
        """Restore all functions' own code."""
        self._running = False
        while self._acquired:
            swap.release(self._acquired.pop())

    def _guard_function(self, fn: types.FunctionType, chain: Chain, code: types.CodeType) -> None:
        self.guard(chain.attr("__code__"), "IS", code)
        if fn.__defaults__ is not None:
            self.guard(chain.attr("__defaults__"), "IS", fn.__defaults__)
        if fn.__kwdefaults__ is not None:
            keywords = chain.attr("__kwdefaults__")
            self.guard(keywords, "KEYS", tuple(fn.__kwdefaults__))
            for name, value in fn.__kwdefaults__.items():
                if _immutable(value):
                    self.guard_value(keywords.key(name), value)

    def _seen_defaults(self, fn: types.FunctionType, chain: Chain) -> frozenset[str]:
        """Record mutable defaults, and return the names of their parameters. Numbers are guarded instead.

        Small integers and literals are shared, so that such a default cannot be distinguished from an equal argument.
        """
        code = swap.original_code(fn)
        positional = code.co_varnames[: code.co_argcount]
        values = fn.__defaults__ or ()
        tuples = chain.attr("__defaults__")
        found = [(name, tuples.index(k), value) for k, (name, value)
                  in enumerate(zip(positional[len(positional) - len(values):], values))]
        keywords = chain.attr("__kwdefaults__")
        found += [(name, keywords.key(name), value) for name, value in (fn.__kwdefaults__ or {}).items()]
        mutable = [entry for entry in found if not _immutable(entry[2])]
        for _, where, value in mutable:
            self.defaults.setdefault(id(value), (value, where))
        return frozenset(name for name, _, _ in mutable)

    def see_class(self, cls: type) -> None:
        """Run the methods of a user's class, and of its user bases, rewritten when they are called."""
        if cls in self._classes:
            return
        self._classes.add(cls)
        for base in cls.__mro__:
            if is_user_class(base):
                for name, value in list(vars(base).items()):
                    for fn in functions_in(value):
                        self._see_member(base, name, value, fn)
        if type(cls) is not type:
            self.see_class(type(cls))

    def _see_member(self, cls: type, name: str, value: Any, fn: types.FunctionType) -> None:
        if id(fn) in self._functions:
            return
        self._functions[id(fn)] = fn
        if not is_user_function(fn):  # a wrapper around a user's function, as the `__repr__` of dataclasses is
            for cell in fn.__closure__ or ():
                for inner in functions_in(_content(cell)):
                    self._see_member(cls, name, value, inner)
            return
        chain = Chain.object(fn)
        code = swap.original_code(fn)

        self.pending.setdefault(id(code), []).append(_Member(cls, name, value, fn, chain, code))
        self._install(fn, chain, lazily=True)

    def called(self, code: int, located: bool = False) -> None:
        """Guard a method that was only found through its class, now that it is called.

        located: the look-up that led to it is guarded already.
        """
        for owner, name, value, fn, chain, own_code in self.pending.pop(code, ()):
            if not located:
                self.guard(Chain.object(owner).attr("__dict__").key(name), "IS", value)
            self._guard_function(fn, chain, own_code)

    def reach(self, value: Any) -> None:
        """Find the user's functions inside an installed callable (a wrapper's closure, a registry)."""
        if id(value) in self._reached:
            return
        self._reached.add(id(value))
        self._kept.append(value)
        inner: list[Any] = []
        if isinstance(value, types.FunctionType):
            inner += [_content(cell) for cell in value.__closure__ or ()]
        inner += list((own_attributes(value) or {}).values())
        for held in inner:
            nested = held.values() if isinstance(held, dict | types.MappingProxyType) else (held,)
            for item in nested:
                for fn in functions_in(item):
                    if is_user_function(fn):
                        self.function(fn, Chain.object(fn))


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return None


def functions_in(value: Any) -> list[types.FunctionType]:
    """Return the Python functions that a class member or wrapper holds directly."""
    if isinstance(value, types.FunctionType):
        return [value]
    parts: tuple[Any, ...] = ()
    if isinstance(value, staticmethod | classmethod | types.MethodType):
        parts = (value.__func__,)
    elif isinstance(value, property):
        parts = (value.fget, value.fset, value.fdel)
    elif isinstance(value, functools.cached_property | functools.partial | functools.partialmethod):
        parts = (value.func,)
    elif not isinstance(value, functools._lru_cache_wrapper):
        wrapped = (own_attributes(value) or {}).get("__wrapped__")
        parts = (wrapped,) if isinstance(wrapped, types.FunctionType) else ()
    return [fn for part in parts for fn in functions_in(part)]


def _immutable(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | complex | str | bytes | enum.Enum | np.dtype) \
        or (type(value) is tuple and all(_immutable(item) for item in value))

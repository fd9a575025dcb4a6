"""Classifies each value at the end of a chain: what the function sees for it, and how it is guarded."""
from __future__ import annotations

import array
import collections
import enum
import functools
import types
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitfuse.base.later import Later
from jitfuse.errors import VolatileError
from jitfuse.tracing.interception.bookkeeping import same_value
from jitfuse.tracing.interception.builtin_substitutes import substitute_of
from jitfuse.tracing.interception.chain import Chain, equal
from jitfuse.tracing.interception.container_proxies import (
    PLAIN,
    ContainerProxy,
    Snapshot,
    empty_like,
    fill,
    is_container,
    is_plain_and_large,
    pairs,
)
from jitfuse.tracing.interception.functions import Functions
from jitfuse.tracing.interception.known import is_known_instance, opaque
from jitfuse.tracing.interception.user_code import is_user_class, own_attributes

if TYPE_CHECKING:
    from jitfuse.tracing.interception.hooks import Hooks

copy = Later("copy")

_EQUAL: Final = (int, float, str, bytes, complex, slice, range, np.dtype)
_FROZEN_COPY: Final = (set, frozenset, bytearray, collections.deque, array.array)
_IDENTITY: Final = (types.BuiltinFunctionType, types.MethodWrapperType, types.WrapperDescriptorType,
                    types.MethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType,
                    property, staticmethod, classmethod, np.ufunc)


def _is_plain(value: Any) -> bool:
    """Tell whether a value is a number, a text, or a tuple or frozenset of these."""
    if type(value) in (tuple, frozenset):
        return all(map(_is_plain, value))
    return type(value) in PLAIN


class Classifier(Functions):
    """Maps real values to what the function sees; one instance per trace."""

    def __init__(self, hooks: Hooks) -> None:
        super().__init__(hooks)
        self.proxies: dict[int, ContainerProxy] = {}
        self.snapshots: dict[int, Snapshot] = {}
        self.modules: dict[int, Any] = {}

    def read(self, chain: Chain, real: Any, raw: bool = False, computed: bool = False) -> Any:
        """Return what the function sees for the present value at the end of the chain.

        raw: the value is only subscripted, so a container is passed as it is, and only the items used are guarded.
        computed: each read may give a new object for the same state.
        """
        found = self.values.get(chain)
        if found is not None:
            if same_value(found[0], real, computed):
                if found[1] is not real or not raw:
                    return found[1]
            else:
                # something not intercepted has changed it; values from the trace are no state
                self.guard_log.volatile.append(f"{chain} changes while the function runs")
                return self.known(real)
        if self.hooks.is_traced(real):
            return real
        kind = type(real)
        if kind is int or kind is float or kind is complex:
            return self._number(chain, real)
        if real is None or kind is bool or real is ... or real is NotImplemented or isinstance(real, enum.Enum):
            self.guard(chain, "IS", real)
            return self.remember(chain, real, real)
        if isinstance(real, _EQUAL) and not isinstance(real, np.number):  # their subclasses too, and those of numbers
            self.guard(chain, "EQ", real)
            return self.remember(chain, real, real)
        if is_container(real):
            return self._container(chain, real, raw)
        return self.remember(chain, real, self._object(chain, real, computed))

    def static(self, chain: Chain, real: Any) -> Any:
        """Return what the function sees of a value that is compared by equality, and is no feed.

        What can be changed is compared with a copy. What has no copy that equals it is read like other arguments.
        """
        if not _is_plain(real):
            try:
                content = copy.deepcopy(real)
            except Exception:
                return self.read(chain, real)
            if content is real or not equal(content, real):
                return self.read(chain, real)
            self.guard_value(chain, content)
            return real
        self.guard_value(chain, real)
        return real

    def _number(self, chain: Chain, real: Any) -> Any:
        self.guard_log.feeds.append((chain, real))
        return self.remember(chain, real, self.hooks.number(chain, real))

    def _object(self, chain: Chain, real: Any, computed: bool) -> Any:
        """Classify a value that is neither plain nor a container."""
        substitute = self.substitute(real)
        if substitute is not None:
            self.guard(chain, "IS", real)
            return substitute
        if isinstance(real, np.generic):
            return self._numpy_scalar(chain, real)
        if self.hooks.is_array(real):
            return self._array(chain, real)
        if isinstance(real, types.FunctionType):
            self.require_known(real)
            self.guard(chain, "IS", real)
            self.function(real, chain)
            return real
        if isinstance(real, types.MethodType):
            return self._method(chain, real)
        if isinstance(real, functools.partial):
            return self._partial(chain, real)
        if isinstance(real, types.ModuleType | type):
            self.guard(chain, "IS", real)
            self.origin.setdefault(id(real), (real, chain))
            if isinstance(real, type):
                self.require_known(real)
                self.see_class(real)
            return real
        if isinstance(real, _IDENTITY):
            if callable(real):
                self.require_known(real)
            self.guard(chain, "IS", real)
            return real
        if isinstance(real, _FROZEN_COPY) and not is_user_class(type(real)):
            return self._snapshot(chain, real)
        seen = self._instance(chain, real, computed)
        if self.hooks.is_module(real) and id(real) not in self.modules:
            self.modules[id(real)] = real
            self.hooks.module(self, chain, real)
        return seen

    def _numpy_scalar(self, chain: Chain, real: np.generic) -> Any:
        seen = self.hooks.numpy_scalar(chain, real)
        if self.hooks.is_traced(seen):
            self.guard_log.feeds.append((chain, real))
        elif real.dtype.hasobject:
            raise opaque(real, str(chain))
        else:  # a date, a record: no number; records can be changed
            self.guard(chain, "EQ", real.copy())
        return seen

    def substitute(self, real: Any) -> Any | None:
        """Return the substitute of a callable or module: the tracer's, else the environment's own."""
        if is_user_class(type(real)):
            return None
        found = self.hooks.substitute(real)
        if found is not None:
            if type(found) is types.FunctionType:
                self.function(found, Chain.object(found))
            return found
        return substitute_of(real)

    def _array(self, chain: Chain, real: Any) -> Any:
        known = self.alias(chain, real)
        if known is not None and known in self.values:
            return self.values[known][1]
        self.guard_log.feeds.append((chain, real))
        return self.hooks.array(chain, real)

    def _instance(self, chain: Chain, real: Any, computed: bool) -> Any:
        """Guard an object: of a user class by its type, of an installed class by identity, as its state is hidden.

        Where each read makes a new object, only the type can be guarded. Objects in arguments whose methods read their
        parts by path are guarded by their type.
        """
        known = self.alias(chain, real)
        if known is None:
            user = is_user_class(type(real))
            by_type = user or computed or (chain.root.kind == "arg" and getattr(type(real), "read_by_path", False))
            self.guard(chain, "TYPE" if by_type else "IS", type(real) if by_type else real)
            self.see_class(type(real))
            known_state = is_known_instance(real, self.hooks.knows)
            if not known_state and hasattr(type(real), "__next__"):  # before an element is taken from it
                raise VolatileError(f"{chain} is an iterator: its position is not seen, and moves, so that no call "
                                    "can do without Python. Pass what it gives as an argument.")
            if not known_state:
                raise opaque(real, str(chain))
            if not user:
                self.reach(real)
        return real

    def _method(self, chain: Chain, real: types.MethodType) -> Any:
        self.require_known(real)
        self.guard(chain.attr("__func__"), "IS", real.__func__)
        self.origin.setdefault(id(real.__func__), (real.__func__, chain.attr("__func__")))
        if isinstance(real.__func__, types.FunctionType):
            self.function(real.__func__, chain.attr("__func__"))
        owner = self.read(chain.attr("__self__"), real.__self__)
        return real if owner is real.__self__ else types.MethodType(real.__func__, owner)

    def _partial(self, chain: Chain, real: functools.partial[Any]) -> Any:
        self.guard(chain, "TYPE", type(real))
        function = self.read(chain.attr("func"), real.func)
        args, keywords = chain.attr("args"), chain.attr("keywords")
        self.guard(args, "LEN", len(real.args))
        self.guard(keywords, "KEYS", tuple(real.keywords))
        return type(real)(
            function, *[self.read(args.index(index), value) for index, value in enumerate(real.args)],
            **{key: self.read(keywords.key(key), value) for key, value in real.keywords.items()})

    def _snapshot(self, chain: Chain, real: Any) -> Any:
        """Guard a set or the like by a copy; the function works on another copy."""
        found = self.snapshots.get(id(real))
        if found is None:
            if isinstance(real, collections.deque) and not all(type(item) in PLAIN for item in real):
                self.guard_log.volatile.append(f"{chain} is a deque of other things than numbers and text")
            try:
                content, seen = copy.copy(real), copy.copy(real)
                whole = bool(content == real)
            except Exception:
                whole = False
            if not whole:
                self.guard(chain, "IS", real)
                return real
            found = self.snapshots[id(real)] = Snapshot(chain, real, seen, content)
        self.guard(chain, "EQ", found.content)
        return found.seen

    def _container(self, chain: Chain, real: Any, raw: bool) -> Any:
        known = self.alias(chain, real)
        found = self.proxies.get(id(real))
        if found is not None:
            return self.remember(chain, real, found.seen)
        if known is None:
            self.guard(chain, "TYPE", type(real))
            if not isinstance(real, tuple):
                self.require_known_container(chain, real)
        if raw:
            return real
        return self.remember(chain, real, self.proxy(self.origin[id(real)][1], real))

    def proxy(self, chain: Chain, real: Any) -> Any:
        """Return the proxy of a container, on which the function works."""
        if any(w.owner is real or own_attributes(w.owner) is real for w in self.written.values()):
            self.guard_log.volatile.append(f"{chain} is read whole after the function has written into it")
        if is_plain_and_large(real):
            snapshot = copy.copy(real)
            self.guard(chain, "EQ", snapshot)
            if isinstance(real, dict):  # dicts are equal in any order
                self.guard(chain, "KEYS", tuple(real))
            seen = copy.copy(real) if not isinstance(real, tuple) else real
            return self._add_proxy(chain, real, seen)
        if isinstance(real, dict):
            self.guard(chain, "KEYS", tuple(real))
            seen = empty_like(real)
            proxy = self._new_proxy(chain, real, seen)
            fill(seen, [(key, self.read(chain.key(key), value)) for key, value in pairs(real)])
            proxy.handed = pairs(seen)
            return seen
        self.guard(chain, "LEN", len(real))
        step = chain.index if type(real) in {list, tuple} else chain.key
        if isinstance(real, list):
            seen = empty_like(real)
            proxy = self._new_proxy(chain, real, seen)
            fill(seen, [self.read(step(index), value) for index, value in enumerate(real)])
            proxy.handed = list(seen)
            return seen
        items = [self.read(step(index), value) for index, value in enumerate(real)]
        if all(a is b for a, b in zip(items, real)):
            return real
        seen = tuple(items) if type(real) is tuple else type(real)._make(items)
        return self._add_proxy(chain, real, seen)

    def _new_proxy(self, chain: Chain, real: Any, seen: Any) -> ContainerProxy:
        proxy = self.proxies[id(real)] = ContainerProxy(chain, real, seen)
        self.reals[id(seen)] = seen, real
        self.fresh[id(seen)] = seen
        return proxy

    def _add_proxy(self, chain: Chain, real: Any, seen: Any) -> Any:
        if seen is not real:
            proxy = self._new_proxy(chain, real, seen)
            proxy.handed = list(seen.items()) if isinstance(seen, dict) else list(seen)
        return seen

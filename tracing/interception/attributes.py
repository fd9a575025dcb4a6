"""Attribute reads: modules, classes and instances, each by the rules of Python's own look-up."""
from __future__ import annotations

import collections
import enum
import functools
import sys
import types
from typing import Any, Final

import numpy as np

from jitfuse.tracing.interception import swap
from jitfuse.tracing.interception.chain import Chain
from jitfuse.tracing.interception.classify import Classifier
from jitfuse.tracing.interception.user_code import (
    MISSING,
    class_member,
    is_user_class,
    is_user_function,
    is_user_module,
    own_attributes,
)

_IDENTITY_NAMES: Final = frozenset({
    "__class__", "__name__", "__qualname__", "__module__", "__doc__", "__mro__", "__bases__", "__wrapped__"})
_SUBSTITUTED: Final = (types.ModuleType, type(np.r_), type(np.c_))
"""The types, beside callables, that the tracer may substitute."""
_CONSTANTS: Final = frozenset({int, float, complex, str, bytes, bool, type(None)})
_BOUND_IN_C: Final = (types.BuiltinMethodType, types.MethodWrapperType)


class Attributes(Classifier):
    """Adds attribute access to the classifier."""

    def load_attr(self, owner: Any, name: str, raw: bool) -> Any:
        """Read an attribute as ``owner.name`` does. Raises what that raises."""
        key = id(owner), name
        quick = self.quick.get(key)
        if quick is not None and getattr(owner, name) is quick[0]:
            return quick[1]
        found = self.origin.get(id(owner))
        if found is None:
            if self.hooks.is_traced(owner):
                return self.hooks.attribute(owner, name)
            chain = self._adopt(owner)
            if chain is None:
                return self._of_made(owner, name, raw)
        else:
            chain = found[1]
        if self.written and key in self.written:
            return self.known(getattr(owner, name))
        if isinstance(owner, types.ModuleType):
            return self._module(owner, chain, name, raw)
        if isinstance(owner, type):
            return self._class(owner, chain, name, raw)
        if name in _IDENTITY_NAMES:
            return self.arrived(getattr(owner, name))
        if isinstance(owner, types.FunctionType | types.MethodType | functools.partial | enum.Enum):
            return self._general(owner, chain, name, raw)
        return self._instance_attr(owner, chain, name, raw)

    def _adopt(self, owner: Any) -> Chain | None:
        """Give an object of unknown origin a chain, if it may hold state that outlives the trace."""
        kind = type(owner)
        if isinstance(owner, types.ModuleType):
            held = True
        elif isinstance(owner, type):
            held = is_user_class(owner)
        else:
            held = is_user_class(kind) and id(owner) not in self.fresh and not issubclass(kind, tuple)
        if not held:
            return None
        chain = Chain.object(owner)
        self.origin[id(owner)] = owner, chain
        if not isinstance(owner, types.ModuleType | type) and not isinstance(kind.__init__, types.FunctionType):
            self.of_unknown_origin[id(owner)] = owner
        if not isinstance(owner, types.ModuleType):
            self.see_class(owner if isinstance(owner, type) else kind)
        return chain

    def _of_made(self, owner: Any, name: str, raw: bool) -> Any:
        """Read an attribute of an object that the trace made, or that installed code holds. Attributes of user classes
        are guarded, because they outlive the trace."""
        kind = type(owner)
        if is_user_class(kind) and name not in _IDENTITY_NAMES and name not in (own_attributes(owner) or ()):
            member = class_member(kind, name)
            by_user = is_user_function(class_member(kind, "__getattribute__"))
            if member is not MISSING and not hasattr(type(member), "__get__") and not by_user:
                found = self.origin.get(id(kind))
                chain = self._adopt(kind) if found is None else found[1]
                assert chain is not None
                return self._general(kind, chain, name, raw)
        return self.arrived(getattr(owner, name))

    def arrived(self, value: Any) -> Any:
        """Return what the function sees for a value that is not guarded itself; its code is intercepted."""
        if isinstance(value, types.MethodType):
            self._bound(value)
            substitute = self.hooks.substitute(value)
            if substitute is None:
                self.require_known(value)
            return value if substitute is None else substitute
        if callable(value) or isinstance(value, _SUBSTITUTED):
            if id(value) in self.origin:
                return self.known(value)
            substitute = self.substitute(value)
            if substitute is not None:
                self.reals.setdefault(id(substitute), (substitute, value))
                return substitute
            if not self.hooks.is_traced(value):
                self.require_known(value)
            if isinstance(value, type) and is_user_class(value):
                self.see_class(value)
            return value
        return self.known(value)

    def _bound(self, method: types.MethodType) -> None:
        """Intercept the class of a bound method whose object was made in the trace, or is super()."""
        fn = method.__func__
        if isinstance(fn, types.FunctionType):
            owner = method.__self__ if isinstance(method.__self__, type) else type(method.__self__)
            if is_user_class(owner):
                self.see_class(owner)

    def _module(self, module: types.ModuleType, chain: Chain, name: str, raw: bool) -> Any:
        namespace = vars(module)
        if not is_user_module(module):
            return self._installed(module, chain, name, raw)
        if name in namespace:
            if (id(namespace), name) in self.written:
                return self.known(namespace[name])
            return self.read(self.name_chain(namespace, name, f"{chain}.{name}"), namespace[name], raw)
        return self._general(module, chain, name, raw)

    def _installed(self, module: types.ModuleType, chain: Chain, name: str, raw: bool) -> Any:
        """Read an attribute of an installed module; it can be replaced, as by `unittest.mock.patch`."""
        value, namespace = getattr(module, name), vars(module)
        if name not in namespace:
            return self.arrived(value)
        if value is sys.stdout or value is sys.stderr:  # print() finds them anew in each call
            return value
        where = self.name_chain(namespace, name, f"{chain}.{name}")
        if type(value) in _CONSTANTS:
            self.guard_value(where, value)
            return value
        if not callable(value) and not isinstance(value, _SUBSTITUTED) and not self.hooks.knows(value):
            return self.read(where, value, raw)
        seen = self.arrived(value)
        self.guard(where, "IS", value)
        if id(value) not in self.origin:
            self.quick[id(module), name] = value, seen
        return seen

    def name_chain(self, namespace: dict[str, Any], name: str, label: str | None = None) -> Chain:
        """Return the chain of a name in a namespace."""
        found = self.names.get((id(namespace), name))
        if found is None:
            found = self.names[id(namespace), name] = Chain.name(namespace, name, label)
        return found

    def _class(self, cls: type, chain: Chain, name: str, raw: bool) -> Any:
        if not is_user_class(cls) or name in _IDENTITY_NAMES or name == "__dict__":
            return self.arrived(getattr(cls, name))
        return self._general(cls, chain, name, raw)

    def _general(self, owner: Any, chain: Chain, name: str, raw: bool) -> Any:
        """Read through ``getattr``, now and whenever the guards are checked."""
        try:
            value = getattr(owner, name)
        except AttributeError:
            self.guard_absent(chain, owner, name)
            raise
        step = chain.attr(name)
        if isinstance(value, types.MethodType):
            return self._read_method(step, value)
        if isinstance(value, _BOUND_IN_C) and getattr(value, "__self__", None) is owner:
            return self.arrived(value)
        if name == "__code__" and isinstance(owner, types.FunctionType):
            value = swap.original_code(owner)
        seen = self.read(step, value, raw, computed=self._computed(owner, name, value))
        if not raw:
            self.quick[id(owner), name] = value, seen
        return seen

    @staticmethod
    def _computed(owner: Any, name: str, value: Any) -> bool:
        """Tell whether each read of the attribute makes a new object, as properties of installed classes may."""
        own = own_attributes(owner)
        if own is not None and name in own:
            return False
        member = class_member(type(owner), name)
        if member is not MISSING and not hasattr(type(member), "__get__"):
            return False
        return getattr(owner, name) is not value

    def _read_method(self, step: Chain, method: types.MethodType) -> Any:
        """Guard the function of a method that the read itself has bound; the owner is guarded already."""
        fn = method.__func__
        where = step.attr("__func__")
        self.guard(where, "IS", fn)
        if getattr(type(method.__self__), "read_by_path", False) and not (
                is_user_function(fn) or getattr(fn, "read_by_path", False)):
            assert step.parent is not None
            self.guard(step.parent, "IS", method.__self__)
        substitute = self.substitute(fn)
        if substitute is not None:
            return types.MethodType(substitute, method.__self__)
        substitute = None if is_user_function(fn) else self.hooks.substitute(method)
        if substitute is not None:
            return substitute
        self.require_known(method)
        if isinstance(fn, types.FunctionType):
            self.function(fn, where)
        return method

    def _instance_attr(self, owner: Any, chain: Chain, name: str, raw: bool) -> Any:
        kind = type(owner)
        if is_user_function(class_member(kind, "__getattribute__")):
            return self.arrived(getattr(owner, name))
        member = class_member(kind, name)
        if member is not MISSING and hasattr(type(member), "__set__"):
            if isinstance(member, property) and is_user_function(member.fget):
                self.guard(Chain.object(kind).attr(name), "IS", member)
                return self.arrived(getattr(owner, name))
            if is_user_class(type(member)):
                self.see_class(type(member))
                return self.arrived(getattr(owner, name))
            return self._general(owner, chain, name, raw)
        own = own_attributes(owner)
        if own is not None and name in own:
            return self._general(owner, chain, name, raw)
        if isinstance(member, functools.cached_property):
            return self._cached_property(owner, chain, name, member)
        if member is not MISSING and is_user_class(type(member)) and hasattr(type(member), "__get__"):
            self.see_class(type(member))
            self.guard_absent(chain, owner, name)
            return self.arrived(getattr(owner, name))
        if member is MISSING and is_user_function(getattr(kind, "__getattr__", None)):
            self.guard_absent(chain, owner, name)
            return self.arrived(getattr(owner, name))
        return self._general(owner, chain, name, raw)

    def _cached_property(self, owner: Any, chain: Chain, name: str, member: Any) -> Any:
        """Compute the property once per trace, without storing the traced value in the instance."""
        self.guard_absent(chain, owner, name)
        key = id(owner), name
        if key not in self.computed:
            self.computed[key] = owner, member.func(owner)
            self.hooks.reject_generator(str(chain.attr(name)), self.computed[key][1])
            if _may_change(self.computed[key][1]):
                self.guard_log.volatile.append(f"{chain.attr(name)} is a container that the function makes and keeps")
        return self.computed[key][1]


def _may_change(value: Any) -> bool:
    """Return whether a value is, or contains, a container that can be changed."""
    if type(value) is tuple:
        return any(map(_may_change, value))
    return isinstance(value, list | dict | set | bytearray | collections.deque)


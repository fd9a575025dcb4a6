"""Stores: called by the probes where the function writes or deletes a name, a free variable, an attribute, an item.

The meaning of a write for later calls is settled by `jitfuse.tracing.interception.bookkeeping`.
"""
from __future__ import annotations

import contextlib
import types
from collections.abc import Callable
from typing import Any

from jitfuse.tracing.interception.chain import Chain
from jitfuse.tracing.interception.container_proxies import is_container
from jitfuse.tracing.interception.loads import Loads
from jitfuse.tracing.interception.user_code import (
    MISSING,
    class_member,
    delete_itself,
    has_own_setter,
    is_user_class,
    own_attributes,
    set_itself,
)


class Stores(Loads):
    """The stores of one trace."""

    def store_name(self, value: Any, name: str, namespace: dict[str, Any]) -> Any:
        """Record that a global is about to be written or deleted; return the value to store."""
        chain = self.name_chain(namespace, name)
        self.note_write(namespace, name, chain, namespace.get(name, MISSING),
                        lambda old: namespace.__setitem__(name, old), lambda: namespace.pop(name, None))
        return self.to_store(name, value)

    def store_cell(self, cell: types.CellType, value: Any) -> Any:
        """Record that a free variable is about to be written; return the value to store."""
        found = self.cells.get(id(cell))
        if found is None:
            return value
        try:
            old = cell.cell_contents
        except ValueError:
            old = MISSING
        self.note_write(cell, "", found[1], old, lambda value: setattr(cell, "cell_contents", value),
                        lambda: delattr(cell, "cell_contents"))
        return self.to_store(str(found[1]), value)

    def store_attr(self, owner: Any, name: str, value: Any, put: Callable[[Any, str, Any], None] = setattr) -> None:
        """Carry out ``owner.name = value``; objects made in the trace may hold traced values."""
        if self.hooks.is_traced(owner):
            setattr(owner, name, value)
            return
        if isinstance(owner, types.ModuleType):
            setattr(owner, name, self.store_name(value, name, vars(owner)))
            return
        if isinstance(owner, type) and id(owner) not in self.origin and id(owner) not in self.fresh:
            self._adopt(owner)
        found = self.origin.get(id(owner))
        if found is None or id(owner) in self.fresh:
            self.fresh[id(owner)] = owner
            self._note_attr(owner, name, None)
            put(owner, name, value)
            return
        self.reject_unknown_origin(owner)
        member = class_member(type(owner), name)
        by_user = put is setattr and has_own_setter(owner)
        if by_user or isinstance(member, property) or (member is not MISSING and is_user_class(type(member))):
            put(owner, name, value)  # its own writes are intercepted
            return
        chain = found[1].attr(name)
        self._note_attr(owner, name, chain)
        put(owner, name, self.to_store(str(chain), value))

    def _note_attr(self, owner: Any, name: str, chain: Chain | None) -> None:
        old = MISSING
        if chain is not None:
            slot = class_member(type(owner), name)
            if isinstance(slot, types.MemberDescriptorType):
                with contextlib.suppress(AttributeError):
                    old = slot.__get__(owner)
            else:
                own = vars(owner) if isinstance(owner, type) else own_attributes(owner) or {}
                old = own.get(name, MISSING)
                if old is MISSING and slot is MISSING and not isinstance(owner, type):
                    old = getattr(owner, name, MISSING)  # found by a __getattr__, as parameters of torch's modules are
        self.note_write(owner, name, chain, old, lambda value: set_itself(owner, name, value),
                        lambda: delete_itself(owner, name))

    def delete_attr(self, owner: Any, name: str) -> None:
        """Carry out ``del owner.name``."""
        found = self.origin.get(id(owner))
        if found is not None and hasattr(owner, name):
            self._note_attr(owner, name, found[1].attr(name))
        delattr(owner, name)

    def store_item(self, owner: Any, key: Any, value: Any) -> None:
        """Carry out ``owner[key] = value``; a real container that was only subscripted so far gets its proxy."""
        if id(owner) in self.namespaces:
            owner[key] = self.store_name(value, key, owner)
            return
        found = self.origin.get(id(owner))
        if found is not None and is_container(owner) and not isinstance(owner, tuple):
            owner = self.proxies[id(owner)].seen if id(owner) in self.proxies else self.proxy(found[1], owner)
        owner[key] = value

"""Loads: called by the probes of rewritten code where the function reads a name, a free variable, an item, a default.

How values are classified is in `jitfuse.tracing.interception.classify`, attribute look-up in `...attributes`.
"""
from __future__ import annotations

import builtins
import types
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from jitfuse.tracing.interception.attributes import Attributes
from jitfuse.tracing.interception.chain import Chain
from jitfuse.tracing.interception.container_proxies import is_container
from jitfuse.tracing.interception.user_code import MISSING, is_user_function

if TYPE_CHECKING:
    from jitfuse.tracing.interception.hooks import Hooks

_BUILTINS: Final[dict[str, Any]] = vars(builtins)


class Loads(Attributes):
    """The loads of one trace."""

    def __init__(self, hooks: Hooks) -> None:
        super().__init__(hooks)
        self.namespaces: dict[int, dict[str, Any]] = {}

    def load_name(self, value: Any, name: str, namespace: dict[str, Any], raw: bool) -> Any:
        """Read a global or builtin."""
        quick = self.quick_names.get((id(namespace), name, raw))
        if quick is not None and quick[0] is value:
            return quick[1]
        chain = self.names.get((id(namespace), name))
        if chain is None:
            if name not in namespace:
                return self._builtin(value, name, namespace)
            chain = self.name_chain(namespace, name)
        if self.written and (id(namespace), name) in self.written:
            return self.known(value)
        seen = self.read(chain, value, raw)
        self.quick_names[id(namespace), name, raw] = value, seen
        return seen

    def _builtin(self, value: Any, name: str, namespace: dict[str, Any]) -> Any:
        if _BUILTINS.get(name, MISSING) is value:
            self.guard(Chain.object(namespace, "globals()"), "ABSENT", name, len(namespace))
            self.guard(self.name_chain(_BUILTINS, name), "IS", value)
        return self.arrived(value)

    def load_cell(self, value: Any, cell: types.CellType, raw: bool) -> Any:
        """Read a free variable; cells made in the trace hold the trace's own values."""
        found = self.cells.get(id(cell))
        if found is None:
            return value
        if self.written and (id(cell), "") in self.written:
            return self.known(value)
        return self.read(found[1], value, raw)

    def load_item(self, owner: Any, key: Any, raw: bool) -> Any:
        """Read ``owner[key]``. Raises what that raises."""
        found = self.origin.get(id(owner))
        if found is None:
            namespace = self.namespaces.get(id(owner))
            if namespace is not None and isinstance(key, str) and key in namespace:
                return self.load_name(namespace[key], key, namespace, raw)
            if type(owner) is defaultdict:
                self.hooks.writes()
            return owner[key]
        chain = found[1]
        proxy = self.proxies.get(id(owner))
        if proxy is not None:
            return proxy.seen[key]
        simple = type(key) is str or type(key) is int
        quick = self.quick_items.get((id(owner), key)) if simple else None
        if quick is not None and owner[key] is quick[0]:
            return quick[1]
        if self.hooks.is_traced(key):
            key = self.hooks.read_value(key)
        if is_container(owner):
            seen = self._container_item(owner, chain, key, raw)
            if simple and not raw:
                self.quick_items[id(owner), key] = owner[key], seen
            return seen
        if is_user_function(getattr(type(owner), "__getitem__", None)) or isinstance(owner, type):
            return owner[key]
        return self.read(chain.key(key), owner[key], raw)

    def _container_item(self, owner: Any, chain: Chain, key: Any, raw: bool) -> Any:
        """Read one item of a container without a proxy, and guard only this item."""
        if isinstance(owner, dict):
            if type(owner) is not dict and key not in owner:
                return self.load_item(self.proxy(chain, owner), key, raw)  # a __missing__ may add the item
            if key not in owner:
                self.guard(chain, "ABSENT", key, len(owner))
            return self.read(chain.key(key), owner[key], raw)
        if type(key) is not int or not -len(owner) <= key < len(owner):
            self.guard(chain, "LEN", len(owner))
            return self.proxy(chain, owner)[key]
        if key < 0:
            self.guard(chain, "LEN", len(owner))
            key += len(owner)
        step = chain.index(key) if type(owner) in {list, tuple} else chain.key(key)
        return self.read(step, owner[key], raw)

    def imported_name(self, module: Any, value: Any, name: str) -> Any:
        """Read ``from module import name`` inside the function."""
        if isinstance(module, types.ModuleType) and name in vars(module):
            return self.load_attr(module, name, False)
        return self.arrived(value)

    def default(self, value: Any) -> Any:
        """Return what the function sees for a parameter that may hold a mutable default."""
        found = self.defaults.get(id(value))
        if found is None or id(value) in self.proxies:
            return value if found is None else self.proxies[id(value)].seen
        return self.read(found[1], value)

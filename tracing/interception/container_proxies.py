"""Proxies: containers of the same type that the traced function gets in place of the real ones that it reaches.

A proxy holds traced arrays and numbers, so that its content is guarded however the function reads it (items, iteration,
unpacking, ``in``, ``**``). Changes of a proxy are made to the real container when the trace commits.
"""
from __future__ import annotations

import types
from collections import OrderedDict, defaultdict
from typing import Any, Final

from jitfuse.base.records import Record
from jitfuse.errors import UntraceableError
from jitfuse.tracing.interception.chain import Chain

LIMIT: Final = 2000
PLAIN: Final = frozenset({bool, int, float, complex, str, bytes, type(None)})


class ContainerProxy(Record):
    """A real container, its proxy, and the first content of the proxy."""

    chain: Chain
    real: Any
    seen: Any
    handed: Any = None

    def changed(self) -> bool:
        """Tell whether the function changed the content."""
        if isinstance(self.seen, dict):
            pairs = list(self.seen.items())
            return len(pairs) != len(self.handed) or any(
                a is not c or b is not d for (a, b), (c, d) in zip(pairs, self.handed))
        return len(self.seen) != len(self.handed) or any(a is not b for a, b in zip(self.seen, self.handed))


class Snapshot(Record):
    """A set, deque or the like, the copy that the function works on, and another one to compare with."""

    chain: Chain
    real: Any
    seen: Any
    content: Any

    def changed(self) -> bool:
        """Tell whether the function changed the content; a traced value in it may not be comparable."""
        try:
            return len(self.seen) != len(self.content) or bool(self.seen != self.content)
        except Exception:
            return True


def is_container(value: Any) -> bool:
    """Tell whether a value gets a proxy: dict, list and tuple, and subclasses that add no layout of their own."""
    kind = type(value)
    if kind in {dict, list, tuple}:
        return True
    if isinstance(value, tuple):
        return hasattr(kind, "_fields") and hasattr(kind, "_make")
    return isinstance(value, dict | list)


def is_plain_and_large(value: Any) -> bool:
    """Tell whether a container is too large to be guarded item by item, and can be compared as a whole."""
    if len(value) <= LIMIT:
        return False
    items = value.values() if isinstance(value, dict) else value
    return all(type(item) in PLAIN for item in items)


def pairs(real: Any) -> list[tuple[Any, Any]]:
    """Return a dict's items in its own order: an OrderedDict may have another one."""
    return list((OrderedDict if isinstance(real, OrderedDict) else dict).items(real))


def empty_like(real: Any) -> Any:
    """Return an empty container of the real one's type (dict and list kinds)."""
    kind: Any = type(real)
    if kind in {dict, list}:
        return kind()
    seen = kind.__new__(kind)
    if isinstance(real, defaultdict):
        seen.default_factory = real.default_factory
    if hasattr(real, "__dict__"):
        seen.__dict__ = real.__dict__
    return seen


def fill(seen: Any, items: Any) -> None:
    """Put items into an empty container without running user code."""
    if isinstance(seen, dict):
        ordered = _plain_base(type(seen))
        for key, value in items:
            ordered.__setitem__(seen, key, value)
    else:
        list.extend(seen, items)


def _plain_base(kind: type) -> Any:
    """Return the most derived C base whose ``__setitem__`` keeps the container consistent."""
    for base in kind.__mro__:
        if isinstance(base.__dict__.get("__setitem__"), types.WrapperDescriptorType):
            return base
    return dict


def write_back(proxy: ContainerProxy, stored: Any) -> None:
    """Give the real container the content of the proxy; `stored(target, value)` replaces traced values.

    Nested real containers, such as the lists of a defaultdict, are kept. Raises UntraceableError where a traced value
    would leak.
    """
    real, seen = proxy.real, proxy.seen
    if isinstance(real, tuple):
        return
    if isinstance(real, dict):
        content = [(stored(f"{proxy.chain}[{key!r}]", key), stored(f"{proxy.chain}[{key!r}]", value))
                   for key, value in seen.items()]
        dict.clear(real) if type(real) is dict else real.clear()
        fill(real, content)
    else:
        values = [stored(f"{proxy.chain}[{index}]", value) for index, value in enumerate(seen)]
        list.__setitem__(real, slice(None), values)


def leak(container: str) -> UntraceableError:
    """Return the error for a traced value that would outlive its trace in a container."""
    return UntraceableError(
        f"the function puts a traced value into {container}, which outlives the call: a compiled call runs no Python "
        f"and could not update it. Return the value instead, and store it where the fused function is called.")

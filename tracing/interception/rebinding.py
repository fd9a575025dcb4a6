"""Effects: the names, attributes and items of real state that the function binds, and their final values.

A call can bind there what the program has computed, without running Python. Owns which writes are delivered so: those
whose values can be results, and whose owners store them as they are. All others are settled in
`jitfuse.tracing.interception.bookkeeping`.
"""
from __future__ import annotations

import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitfuse.tracing.interception.bookkeeping import Write, same_value
from jitfuse.tracing.interception.chain import Chain
from jitfuse.tracing.interception.container_proxies import ContainerProxy
from jitfuse.tracing.interception.user_code import MISSING, has_own_setter

if TYPE_CHECKING:
    from jitfuse.tracing.interception.reader import TracingEnvironment

_PLAIN: Final = (bool, int, float, complex, str, bytes, type(None), np.generic)
_FEW: Final = 16
"""Most objects of one type whose pairs are guarded to be distinct; beyond, each is guarded by identity."""
_CONTAINERS: Final = (list, tuple, dict)
_KEEPS: Final[tuple[Any, ...]] = (
    object.__setattr__, type.__setattr__, types.SimpleNamespace.__setattr__, types.FunctionType.__setattr__,
)


def rebound(environment: TracingEnvironment) -> tuple[list[tuple[Chain, Any, bool]], set[int]]:
    """Return the chains that calls bind, with the function's value for each and whether it is a new item; and the ids
    of the writes and proxies that are delivered completely."""
    found: list[tuple[Chain, Any, bool]] = []
    delivered: set[int] = set()
    owners: list[tuple[Any, Chain]] = []
    for write in environment.written.values():
        chain, value = write.chain, write.now()
        if chain is None or value is MISSING:
            continue
        before = environment.values.get(chain)
        changed = not same_value(write.old if before is None else before[0], value)
        changed = changed or (before is None and environment.path_of(value) is not None)
        if changed and (chain.kind != "attr" or _takes_anything(write)) and _is_result(environment, value):
            delivered.add(id(write))
            owners += [(write.owner, chain.parent)] if chain.parent is not None else []
            found.append((chain, value, False))
    for proxy in environment.proxies.values():
        items = _items(environment, proxy) if proxy.changed() else None
        if items is not None:
            delivered.add(id(proxy))
            owners.append((proxy.real, proxy.chain))
            found += items
    _guard_owners(environment, {id(owner): (owner, chain) for owner, chain in owners})
    return found, delivered


def _guard_owners(environment: TracingEnvironment, owners: dict[int, tuple[Any, Chain]]) -> None:
    """Guard the types of the owners, and that each is distinct from every other object of its type that the function
    met: a read from one must not be a write into the other."""
    of_type: dict[type, list[tuple[Any, Chain]]] = {type(owner): [] for owner, _ in owners.values()}
    for real, chain in list(environment.origin.values()):
        if type(real) in of_type:
            of_type[type(real)].append((real, chain))
    paired: set[frozenset[int]] = set()
    for owner, chain in owners.values():
        environment.guard(chain, "TYPE", type(owner))
        others = of_type[type(owner)]
        if len(others) > _FEW:
            environment.guard(chain, "IS", owner)
        for other, its_chain in others:
            pair = frozenset((id(owner), id(other)))
            if pair in paired or len(pair) == 1 or _differs(environment, owner, other):
                continue
            paired.add(pair)
            if len(others) > _FEW:
                environment.guard(its_chain, "IS", other)
            else:
                environment.guard(chain, "DISTINCT", its_chain)


def _differs(environment: TracingEnvironment, owner: Any, other: Any) -> bool:
    """Return whether guards on the contents of two containers distinguish them."""
    one, two = (environment.proxies.get(id(real)) for real in (owner, other))
    return one is not None and two is not None and (
        len(one.handed) != len(two.handed) or (type(owner) is dict and tuple(owner) != tuple(other)))


def _takes_anything(write: Write) -> bool:
    """Return whether setting an attribute of a write's owner stores the value and does nothing else.

    Writes by the user's own ``__setattr__`` are intercepted one by one.
    """
    found: Any = type(write.owner).__setattr__
    return any(found is plain for plain in _KEEPS) or has_own_setter(write.owner)


def _items(environment: TracingEnvironment, proxy: ContainerProxy) -> list[tuple[Chain, Any, bool]] | None:
    """Return the items of a list or dict that the function has set, or None where it did anything else."""
    if proxy.chain.kind == "attr" and proxy.chain.value == "__dict__":
        return None  # attributes are read elsewhere too
    pairs = list(_pairs(proxy))
    if not all(_is_key(environment, key) for key, _ in pairs):
        return None
    if type(proxy.real) is dict:
        handed = list(proxy.handed)
    elif type(proxy.real) is list and len(pairs) == len(proxy.handed):
        handed = list(enumerate(proxy.handed))
    else:
        return None
    if [key for key, _ in handed] != [key for key, _ in pairs[: len(handed)]]:
        return None
    step = proxy.chain.key if type(proxy.real) is dict else proxy.chain.index
    put = [(step(k), v, n >= len(handed)) for n, (k, v) in enumerate(pairs)
           if n >= len(handed) or v is not handed[n][1]]
    return put if all(_is_result(environment, value) for _, value, _ in put) else None


def _is_key(environment: TracingEnvironment, key: Any) -> bool:
    """Return whether a key is the same in each call: a traced number belongs to one trace."""
    if environment.hooks.is_traced(key):
        return False
    return isinstance(key, str | int) or not isinstance(key, tuple | frozenset) or all(
        _is_key(environment, part) for part in key)


def _pairs(proxy: ContainerProxy) -> Iterator[tuple[Any, Any]]:
    return iter(proxy.seen.items()) if isinstance(proxy.seen, dict) else iter(enumerate(proxy.seen))


def _is_result(environment: TracingEnvironment, value: Any, inside: bool = False) -> bool:
    """Return whether a call can deliver a value: arrays, numbers, new containers of these, or an object of the
    caller's."""
    if environment.hooks.is_traced(value) or isinstance(value, _PLAIN) or environment.hooks.is_array(value):
        return True
    if environment.path_of(value) is not None:
        return not inside
    if type(value) not in _CONTAINERS:
        return False
    if type(value) is dict and not all(type(key) in (str, int) for key in value):
        return False
    parts = value.values() if type(value) is dict else value
    return all(_is_result(environment, part, inside=True) for part in parts)

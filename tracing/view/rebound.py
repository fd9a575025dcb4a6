"""Places of real state that the function binds anew, and what they hold in the end.

A call can put there what the program has computed, without running Python. Owns which writes these are: of values that
can be results, into places whose owners take them as they are. All others are settled in `jitfuse.tracing.view.state`.
"""
from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitfuse.tracing.view.chain import Chain
from jitfuse.tracing.view.shadow import Shadow
from jitfuse.tracing.view.state import Write, same_value
from jitfuse.tracing.view.userland import MISSING, has_own_setter

if TYPE_CHECKING:
    from jitfuse.tracing.view.reader import View

_PLAIN: Final = (bool, int, float, complex, str, bytes, type(None), np.generic)
_CONTAINERS: Final = (list, tuple, dict)
_KEEPS: Final[tuple[Any, ...]] = (
    object.__setattr__, type.__setattr__, types.SimpleNamespace.__setattr__, types.FunctionType.__setattr__,
)


def rebound(view: View, resolve: Callable[[Chain], Any]) -> tuple[list[tuple[Chain, Any, bool]], set[int]]:
    """Return the places that calls bind anew, what the function has put there, and whether it is an item that was not
    there; and the ids of these writes, and of the shadows all changes of which are among them."""
    found: list[tuple[Chain, Any, bool]] = []
    delivered: set[int] = set()
    for write in view.written.values():
        chain, value = write.chain, write.now(resolve)
        if chain is None or value is MISSING:
            continue
        before = view.values.get(chain)
        changed = not same_value(write.old if before is None else before[0], value)
        if changed and (chain.kind != "attr" or _takes_anything(write)) and _is_result(view, value):
            delivered.add(id(write))
            found.append((chain, value, False))
    for shadow in view.shadows.values():
        items = _items(view, shadow) if shadow.changed() else None
        if items is not None:
            delivered.add(id(shadow))
            found += items
    for chain, _, _ in found:
        if chain.parent is not None:
            view.guard(chain.parent, "TYPE", type(resolve(chain.parent)))
    return found, delivered


def _takes_anything(write: Write) -> bool:
    """Return whether to set an attribute of a place's owner is to keep the value, and nothing else.

    What the user's own ``__setattr__`` writes is seen, place by place.
    """
    found: Any = type(write.owner).__setattr__
    return any(found is plain for plain in _KEEPS) or has_own_setter(write.owner)


def _items(view: View, shadow: Shadow) -> list[tuple[Chain, Any, bool]] | None:
    """Return the items of a list or dict that the function has set, or None where it did anything else."""
    pairs = list(_pairs(shadow))
    if type(shadow.real) is dict:
        handed = list(shadow.handed)
    elif type(shadow.real) is list and len(pairs) == len(shadow.handed):
        handed = list(enumerate(shadow.handed))
    else:
        return None
    if [key for key, _ in handed] != [key for key, _ in pairs[: len(handed)]]:
        return None
    step = shadow.chain.key if type(shadow.real) is dict else shadow.chain.index
    put = [(step(k), v, n >= len(handed)) for n, (k, v) in enumerate(pairs)
           if n >= len(handed) or v is not handed[n][1]]
    return put if all(_is_result(view, value) for _, value, _ in put) else None


def _pairs(shadow: Shadow) -> Iterator[tuple[Any, Any]]:
    return iter(shadow.seen.items()) if isinstance(shadow.seen, dict) else iter(enumerate(shadow.seen))


def _is_result(view: View, value: Any) -> bool:
    """Return whether a value can be what a call delivers: arrays, numbers, and new containers of these."""
    if view.hooks.is_traced(value) or isinstance(value, _PLAIN) or view.hooks.is_array(value):
        return True
    if type(value) not in _CONTAINERS or id(value) in view.origin or id(value) in view.reals:
        return False
    if type(value) is dict and not all(type(key) in (str, int) for key in value):
        return False
    return all(_is_result(view, part) for part in (value.values() if type(value) is dict else value))

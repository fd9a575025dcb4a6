"""Orders that were found before, in memory and in the disk cache, by all that they depend on.

An order is a list of integers: nothing that is read can do more than be a worse order, and what is no order at all is
looked for again. Owns the form of an entry.
"""
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgpack  # type: ignore[import-untyped]

from jitfuse.base.digests import hex_digest
from jitfuse.cache import Entry, default_store
from jitfuse.factors.structure import Structure

VERSION: Final = 1
"""Goes up when the search changes, so that orders of before are found anew."""
_MOST_IN_MEMORY: Final = 64
_memory: OrderedDict[str, Any] = OrderedDict()


def canonical_form(structure: Structure) -> bytes:
    """Return a structure as bytes: equal exactly for equal structures.

    Example:
        >>> len(canonical_form(Structure((2, 2), ((0, 1),))))
        8
    """
    return bytes(msgpack.packb((structure.sizes, structure.scopes)))


def kept(
    structure: Structure, options: tuple[int | str, ...], find: Callable[[], Mapping[str, Any]],
) -> Mapping[str, Any]:
    """Return what was found for a structure with these options, or find and keep it.

    ``order`` of what is found is the order of elimination; ``candidates`` has a name and two numbers for each method.
    """
    canonical = canonical_form(structure)
    key = hex_digest(msgpack.packb(("order", VERSION, options)) + canonical)
    found = _memory.get(key)
    if found is None:
        entry = default_store().load(key, canonical, count=False)
        found = None if entry is None else _finding(entry.code, len(structure.sizes))
        if found is None:
            found = find()
            default_store().store(Entry(key, {"kind": "order"}, canonical, msgpack.packb(dict(found))), count=False)
        _memory[key] = found
        while len(_memory) > _MOST_IN_MEMORY:
            _memory.popitem(last=False)
    return found


def _finding(code: bytes, count: int) -> Mapping[str, Any] | None:
    """Return the finding that was written; None if it has no order of so many variables, or no candidates."""
    try:
        found = msgpack.unpackb(code)
        order, candidates = found["order"], found["candidates"]
        whole = len(order) == count and set(order) == set(range(count)) and {type(v) for v in order} <= {int}
        typed = {tuple(map(type, each)) for each in candidates} <= {(str, float, float)}
    except (msgpack.UnpackException, ValueError, TypeError, KeyError, IndexError):
        return None
    return found if whole and typed else None

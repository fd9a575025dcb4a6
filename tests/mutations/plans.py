"""Stored call plans: a damaged file is a miss, and one that is written anew is read as a plan or refused.

What stands in a plan is trusted once its folder is: this judge looks at the reading alone, and runs no plan.
"""
from __future__ import annotations

import marshal
import random
from typing import Any

from jitfuse.cache import default_store
from jitfuse.cache.entry import EntryError, decode, encode
from jitfuse.cache.inspect import walk
from jitfuse.compile.objects.origin import Origin
from jitfuse.compile.objects.stored_plans import PlanName, plan_of
from tests.mutations.archives import noise, sealed
from tests.mutations.kinds import Kind
from tests.mutations.samples import entries

_KEY = slice(52, 84)
_VALUES = (None, True, 0, 1, -1, 7, 1 << 40, 1 << 70, 0.5, "", "value", b"", b"x" * 40, (), (0,), ("value", 3), ((),))


def seeds() -> list[bytes]:
    """Return the bytes of the entries of the sample's plans."""
    entries()
    found = [entry for _, entry in walk(default_store()) if entry is not None and entry.metadata.get("kind") == "plan"]
    return sorted(map(encode, found), key=lambda data: (len(data), data[_KEY]))


def mutate(data: bytes, draw: random.Random) -> bytes:
    """Return the file with bytes changed, or its plan changed and the checksum made again."""
    way = draw.random()
    if way < 0.3:
        return noise(data, draw)
    entry = decode(data, data[_KEY].hex())
    if way < 0.6:
        return sealed(encode(entry._replace(code=noise(entry.code, draw))))
    plan = marshal.loads(entry.code)
    for _ in range(draw.choice((1, 1, 3))):
        plan = _changed(plan, draw)
    try:
        return encode(entry._replace(code=marshal.dumps(plan, 2)))
    except ValueError:
        return data[:-1]


def _changed(value: Any, draw: random.Random) -> Any:
    """Return a value with one thing somewhere in it exchanged, left out or there twice."""
    if not isinstance(value, tuple | list) or not value or draw.random() < 0.1:
        return draw.choice(_VALUES)
    items, at = list(value), draw.randrange(len(value))
    way = draw.random()
    if way < 0.1:
        del items[at]
    elif way < 0.2:
        items.insert(at, items[at])
    else:
        items[at] = _changed(items[at], draw)
    return type(value)(items)


def judge(valid: bytes, mutated: bytes) -> str | None:
    """Read the plan as a program that looks for it does."""
    try:
        entry = decode(mutated, valid[_KEY].hex())
    except EntryError as error:
        return str(error) if mutated == valid else None
    lines = tuple(f"model.py:{k}" for k in range(100))
    found = plan_of(entry, PlanName(entry.canonical, lines), Origin("model", "model.py:1"))
    return "it is not found" if mutated == valid and found is None else None


PLANS = Kind(seeds, mutate, judge)

"""What the judge knows of a kind of input: where its inputs come from, how they are mutated, and who judges them."""
from __future__ import annotations

import importlib
import random
from collections.abc import Callable
from typing import Final, NamedTuple


class Kind(NamedTuple):
    """One kind of input.

    seeds   returns valid inputs; called once in each child process, the same list in every one
    mutate  returns a mutation of a seed, which depends on the seed and the random numbers alone
    judge   is given the seed and its mutation, hands it to the reader, and returns None where that gave a typed error
            or something equal, else a text that says what went wrong. The judge of a seed itself gives None too
    """

    seeds: Callable[[], list[bytes]]
    mutate: Callable[[bytes, random.Random], bytes]
    judge: Callable[[bytes, bytes], str | None]


KINDS: Final = {
    "archives": "tests.mutations.archives:ARCHIVES",
    "entries": "tests.mutations.archives:ENTRIES",
    "forms": "tests.mutations.forms:FORMS",
    "plans": "tests.mutations.plans:PLANS",
    "json": "tests.mutations.documents:JSON",
    "messagepack": "tests.mutations.documents:MESSAGEPACK",
    "text": "tests.mutations.documents:TEXT",
}
"""Where each kind lies: a module, and the name of its `Kind` there."""


def load(name: str) -> Kind:
    """Return a kind by its name in `KINDS`."""
    module, _, attribute = KINDS[name].partition(":")
    kind: Kind = getattr(importlib.import_module(module), attribute)
    return kind

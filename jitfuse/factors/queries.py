"""Queries: which programs answer one, and how the answer is read from their slots.

Does not own the programs, nor what runs them (`plans.py`).
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitfuse.base.records import NamedTuple
from jitfuse.factors.ir.schema import PARTITION, SlotKey, belief, marginal, message
from jitfuse.factors.semirings import Array

if TYPE_CHECKING:
    from jitfuse.factors.plans import Plan

Slots = Mapping[SlotKey, Array]


class Query(NamedTuple):
    """What answers a query: programs, the kinds of slots that hold the answer, how it is read from them, and whether
    messages are normalized.
    """

    programs: tuple[str, ...]
    slots: frozenset[str]
    read: Callable[[Plan, Slots], Any]
    scaled: bool = False

    def has(self, slot: SlotKey) -> bool:
        """Whether a slot holds a part of the answer."""
        return slot[0] in self.slots


def _root(plan: Plan, slots: Slots) -> Array:
    """Return the root's result: the partition function, or the joint table of what is kept."""
    return slots[belief(plan.tree.root) if plan.question.keep else PARTITION]


def _scaled_root(plan: Plan, slots: Slots) -> tuple[Array, Array]:
    """Return the root's result and what messages were divided by, along a last axis."""
    found = [slots[key] for key in plan.programs.scales]
    batch = max((scale.shape for scale in found), key=len, default=())
    found = [scale if scale.shape == batch else np.broadcast_to(scale, batch) for scale in found]
    return _root(plan, slots), np.stack(found, axis=-1) if found else np.ones(1)


def _marginals(plan: Plan, slots: Slots) -> list[Array]:
    """Return the unnormalized marginal of each variable."""
    return [slots[marginal(v)] for v in range(len(plan.question.structure.sizes))]


def _messages(plan: Plan, slots: Slots) -> list[Array]:
    """Return the message of each node but the root."""
    return [slots[message(place, node.parent)] for place, node in enumerate(plan.tree.nodes[:-1])]


QUERIES: Final[Mapping[str, Query]] = {
    "partition": Query(("upward", "finalize"), frozenset({"Z", "bel"}), _root),
    "scaled partition": Query(("upward", "finalize"), frozenset({"Z", "bel", "scale"}), _scaled_root, True),
    "marginals": Query(("upward", "downward"), frozenset({"marg"}), _marginals),
    "scaled marginals": Query(("upward", "downward"), frozenset({"marg"}), _marginals, True),
    "messages": Query(("upward",), frozenset({"msg"}), _messages),
}

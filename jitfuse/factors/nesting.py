"""Programs that run for many states of modes: what depends on the outer modes alone waits while the inner ones move.

A model whose answer is a sum over the states of some variables has one program, in which their factors are read at one
state each. From run to run only what depends on a mode that changed is computed again. Owns which instructions that
are, and what stays in memory for them. Does not own the tables of records (`assembly.py`).
"""
from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from math import prod
from typing import Final

import numpy as np

from jitfuse.base.records import NamedTuple
from jitfuse.factors.assembly import Assembled, Layout, assemble
from jitfuse.factors.ir.dataflow import Dataflow
from jitfuse.factors.ir.schema import OpCode, SlotKey
from jitfuse.factors.work import ITEMSIZE, work

WORTH: Final = 0.95
"""Results are kept for later runs where all work is less than this part of what it was."""
Modes = tuple[tuple[int, ...], ...]
"""For each factor the numbers of the modes at whose states it is read."""


class Nested(NamedTuple):
    """A table of records for all states of modes in turn.

    order  the modes, the one that moves least first
    cuts   places in `order`: what depends only on modes before one stays while those behind it move
    table  the records: part `k` of them is what depends on modes between two cuts
    """

    order: tuple[int, ...]
    cuts: tuple[int, ...]
    table: Assembled

    def reached(self, place: int) -> tuple[np.ndarray, int]:
        """Return the records that run again, and how many they are, where the mode at this place of the order moved,
        and any behind it.
        """
        word, before = self.table.starts[bisect_right(self.cuts, place)]
        return self.table.code[word:], self.table.count - before


def nested(
    flow: Dataflow, modes: Modes, sizes: Sequence[int], layout: Layout, wanted: Callable[[SlotKey], bool],
    limit_bytes: int,
) -> Nested:
    """Return the table of programs that run one after the other, for all states of modes.

    Args:
        flow: those of a model in which a factor has no axes for its modes, without FREE.
        modes: those of each factor.
        sizes: number of states of each mode.
        layout: where tables are.
        wanted: which slots stay.
        limit_bytes: what is kept from run to run, and all other messages, take no more, where they did not without it.
    """
    depends = _dependences(flow, modes)
    first = {mode: next((place for place, mask in enumerate(depends) if mask >> mode & 1), len(depends))
             for mode in range(len(sizes))}
    order = tuple(sorted(first, key=lambda mode: first[mode]))
    levels = [max((place + 1 for place, mode in enumerate(order) if mask >> mode & 1), default=0) for mask in depends]
    amounts = [0] * (len(order) + 1)
    for place, level in enumerate(levels):
        if elements := flow.elements(place):
            amounts[level] += work(elements, Counter(flow.sizes(place)))
    ordered = [sizes[mode] for mode in order]

    def made(cuts: Sequence[int]) -> Assembled:
        parts = [bisect_left(cuts, level) for level in levels]
        starts = np.searchsorted(np.sort(parts), range(len(cuts) + 1)).tolist()
        return assemble(flow, layout, wanted, order=sorted(range(len(parts)), key=parts.__getitem__), begins=starts)

    def total(cuts: Sequence[int]) -> int:
        ends = [*cuts, len(order)]
        return sum(amount * prod(ordered[: ends[bisect_left(ends, level)]]) for level, amount in enumerate(amounts))

    cuts: list[int] = []
    table = made(cuts)
    most = max(limit_bytes // ITEMSIZE, table.workspace)
    for cut in sorted(range(len(order)), key=lambda cut: total([cut])):
        more = sorted([*cuts, cut])
        if total(more) < WORTH * total(cuts):
            larger = made(more)
            if larger.workspace <= most:
                cuts, table = more, larger
    return Nested(order, tuple(cuts), table)


def _dependences(flow: Dataflow, modes: Modes) -> list[int]:
    """Return for each instruction the modes that its result depends on, as bits."""
    found: list[int] = []
    for step, inputs in zip(flow.steps, flow.inputs):
        mask = sum([1 << mode for mode in modes[step.args["factor_id"]]]) if step.op is OpCode.LOAD_FACTOR else 0
        for i in inputs:
            mask |= found[i]
        found.append(mask)
    return found

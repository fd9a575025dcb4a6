"""Programs that run for many states of modes: what depends on the outer modes alone waits while the inner ones move.

A model whose answer is a sum over the states of some variables has one program, in which their factors are read at one
state each. From run to run only what depends on a mode that changed is computed again. Owns which instructions that
are, and what stays in memory for them. Does not own the tables of records (`assembly.py`).
"""
from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Final

import numpy as np

from jitfuse.base.records import NamedTuple
from jitfuse.factors.assembly import Assembled, Layout, assemble
from jitfuse.factors.emit import joined
from jitfuse.factors.ir.schema import Instruction, OpCode, Program, RegID, SlotKey
from jitfuse.factors.rewrites.free_early import working
from jitfuse.factors.rewrites.pooling import ITEMSIZE
from jitfuse.factors.schemes import STEP

WORTH: Final = 0.95
"""Results are kept for later runs where all work is less than this part of what it was."""
_LOADS: Final = frozenset({OpCode.UNIT, OpCode.LOAD_FACTOR, OpCode.LOAD_SLOT})
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
    programs: Sequence[Program], modes: Modes, sizes: Sequence[int], layout: Layout, wanted: Callable[[SlotKey], bool],
    limit_bytes: int,
) -> Nested:
    """Return the table of programs that run one after the other, for all states of modes.

    Args:
        programs: those of a model in which a factor has no axes for its modes.
        modes: those of each factor.
        sizes: number of states of each mode.
        layout: where tables are.
        wanted: which slots stay.
        limit_bytes: what is kept from run to run, and all other messages, take no more, where they did not without it.
    """
    steps = working(joined(*programs))
    depends = _dependences(steps, modes)
    first = {mode: next((i for i, mask in enumerate(depends) if mask >> mode & 1), len(steps))
             for mode in range(len(sizes))}
    order = tuple(sorted(first, key=lambda mode: first[mode]))
    levels = [max((place + 1 for place, mode in enumerate(order) if mask >> mode & 1), default=0) for mask in depends]
    work = _work(steps, levels, len(order))
    ordered = [sizes[mode] for mode in order]

    def made(cuts: Sequence[int]) -> Assembled:
        parts = [bisect_left(cuts, level) for level in levels]
        again = Program(tuple([steps[i] for i in sorted(range(len(steps)), key=parts.__getitem__)]))
        starts = np.searchsorted(np.sort(parts), range(len(cuts) + 1)).tolist()
        return assemble([again], layout, wanted, begins=starts)

    def total(cuts: Sequence[int]) -> int:
        ends = [*cuts, len(order)]
        return sum(amount * prod(ordered[: ends[bisect_left(ends, level)]]) for level, amount in enumerate(work))

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


def _dependences(steps: Sequence[Instruction], modes: Modes) -> list[int]:
    """Return for each instruction the modes that its result depends on, as bits."""
    registers: dict[RegID, int] = {}
    slots: dict[SlotKey, int] = {}
    found = []
    for step in steps:
        mask = 0
        if step.op is OpCode.LOAD_FACTOR:
            mask = sum([1 << mode for mode in modes[step.args["factor_id"]]])
        elif step.op is OpCode.LOAD_SLOT:
            mask = slots[step.args["slot"]]
        for register in step.reads:
            mask |= registers[register]
        if step.op is OpCode.STORE_SLOT:
            slots[step.args["slot"]] = mask
        elif step.dst is not None:
            registers[step.dst] = mask
            if step.op is OpCode.NORMALIZE:
                slots[step.args["scale"]] = mask
        found.append(mask)
    return found


def _work(steps: Sequence[Instruction], levels: Sequence[int], count: int) -> list[int]:
    """Return the products of the instructions of each level, and what they take beside these."""
    found = [0] * (count + 1)
    axes: dict[RegID, Mapping[tuple[object, int], int]] = {}
    for step, level in zip(steps, levels):
        if step.dst is not None and step.spec is not None:
            axes[step.dst] = {axis.key: axis.size for axis in step.spec.axes}
        if step.dst is not None and step.op not in _LOADS:
            every = {key: size for register in step.reads for key, size in axes[register].items()}
            found[level] += prod(every.values()) * max(1, len(step.reads) - 1) + STEP
    return found

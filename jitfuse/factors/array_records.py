"""Tables of records as steps of arrays: for semirings of two functions, which have no native code.

Over NumPy's arrays it computes, over traced ones it writes the steps of a fused function. A kernel is compiled for each
pattern of axes, so all records have one: elements are taken by number, from each factor, and summed over the first axis
of what is taken. A number is a sum of offsets, one for the summed axes, two for those of the result, in short tables.
"""
from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np

from jitfuse.base.records import NamedTuple
from jitfuse.factors.assembly import Assembled
from jitfuse.factors.ir.schema import SlotKey
from jitfuse.factors.semirings import Array, Semiring
from jitfuse.ir.semirings import words as w
from jitfuse.ir.semirings.loops import offsets_of
from jitfuse.ir.semirings.tables import Sum, sums
from jitfuse.tracing.abstract import AbstractTensor

LAST: Final = 64
"""Elements of the result that share the offset of the first axes, about."""
_stored: Final = AbstractTensor.copy  # type: ignore[attr-defined]


class _Factor(NamedTuple):
    """A factor: its memory, its first element, and the places of its three tables among all."""

    memory: int
    first: int
    tables: tuple[slice, slice, slice]


class _Step(NamedTuple):
    """A record: where its result begins, its factors but one, and how many indices are summed."""

    out: tuple[int, int]
    size: int
    factors: list[_Factor]
    summed: int


class ArrayRecords:
    """The steps of a table; `operands` are the elements of each stack.

    `offsets` are the tables of all records: give them to `run`, as they are or traced.
    """

    def __init__(self, table: Assembled, operands: tuple[int, ...]) -> None:
        self.table = table
        self._tables: list[np.ndarray] = [np.zeros(0, np.int64)]
        self._end = 0
        code = table.code.astype("<i8").tobytes()
        self.steps = [self._step(each) for each in sums(code, operands, table.workspace, table.size)]
        self.offsets = np.concatenate(self._tables)

    def _step(self, each: Sum) -> _Step:
        kept = sorted((axis for axis in each.axes if axis.out), key=lambda axis: -axis.out)
        summed = [axis for axis in each.axes if not axis.out]
        last = len(kept)
        while last and prod([axis.extent for axis in kept[last:]]) < LAST:
            last -= 1
        factors = []
        for side, (memory, first, _) in enumerate((each.a, each.b)):
            if memory != w.ONE:
                own = (offsets_of(summed, 2 + side)[:, None] + each.offsets[:, side]).reshape(-1)
                outer, inner = (offsets_of(axes, 2 + side) for axes in (kept[:last], kept[last:]))
                factors.append(_Factor(memory, first, (self._table(own), self._table(outer), self._table(inner))))
        count = prod([axis.extent for axis in summed]) * len(each.offsets)
        return _Step((each.out.memory, each.out.first), each.size, factors, count)

    def _table(self, table: np.ndarray) -> slice:
        self._tables.append(table)
        self._end += len(table)
        return slice(self._end - len(table), self._end)

    def run(self, semiring: Semiring, stacks: Sequence[Array], offsets: Array, dtype: Any) -> dict[SlotKey, Array]:
        """Return the wanted slots of the table.

        Args:
            semiring: what product and sum are.
            stacks: the operands.
            offsets: `self.offsets`.
            dtype: that of ones.
        """
        values: dict[tuple[int, int], Array] = {}
        operands = [stack.reshape(-1) for stack in stacks]
        for step in self.steps:
            parts = []
            for memory, first, tables in step.factors:
                start, rest, last = [offsets[table] for table in tables]
                flat = values[memory, first] if memory < w.STACKS else operands[memory - w.STACKS][first:]
                parts.append(flat[start[:, None, None] + rest[:, None] + last])
            if not parts:
                parts = [np.full_like(offsets, semiring.one, dtype=dtype, shape=(step.summed, step.size))]
            product = parts[0] if len(parts) == 1 else semiring.multiply(parts[0], parts[1])
            result = semiring.sum(product, (0,)) if step.summed > 1 else product[0]
            result = result.reshape(-1)
            # stored: it is read several times, and a kernel that computed it anew would be one more kernel to compile
            values[step.out] = _stored(result) if isinstance(result, AbstractTensor) else result
        return {key: x.read(values[x.memory, x.first], self.table.batch) for key, x in self.table.slots.items()}

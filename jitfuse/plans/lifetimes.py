"""Whether values that one kernel could store would lie in memory at once for it, though they are needed one by one.

A kernel of siblings over one input reads that input once and stores all of them; kernels of their own read it once
each, and each stores its value in the memory that the one before it has left. Owns the life of stored values in
program order, and what bytes held are worth in bytes moved. Does not own merging (`jitfuse.plans.groups`) or the order
in which kernels run (`jitfuse.plans.order`).
"""
from __future__ import annotations

import math
from collections.abc import Collection
from typing import Final

from jitfuse.base.lazy import cached_property
from jitfuse.dtypes import itemsize
from jitfuse.ir.operators import ops
from jitfuse.ir.program import FusedProgram, OpStep
from jitfuse.plans.group import Group, covers, reduces
from jitfuse.plans.values import Values
from jitfuse.tracing.schedule.scheduler import SIZE_CLASSES, size_class

HELD_COST: Final = 4
"""Bytes moved that a byte held is worth: what it takes to map and clear a fresh one, 1 in huge pages and 17 in small
ones, in geometric mean."""
_IN_CACHE: Final = SIZE_CLASSES[0][1]
"""What stands for values that a core's cache holds: beside a launch, memory does not count for these."""


class Lifetimes:
    """How long the values live that the kernels and library calls of one program store."""

    def __init__(self, program: FusedProgram, values: Values, must: set[int], order: dict[int, int]) -> None:
        self.program = program
        self.values = values
        self._must = must
        self._order = order

    def held_longer(self, group: Group, value: int) -> int:
        """Return the bytes for each point that a group would hold beside a value, were it to store that as well.

        They are those of values of its whole index space that nobody needs any more where program order makes this one.
        """
        if not self._is_held(value):
            return 0
        whole = [r for r in group.roots if group.placings.get(r) == "whole" and r != value and self._is_held(r)]
        outlived = [r for r in whole if self._last_use[r] < self._order[value]]
        return min(self._itemsize(value), sum(map(self._itemsize, outlived)))

    def saved_by(self, group: Group, wanted: Collection[int]) -> int:
        """Return the bytes for each point that a group has read or computed already of what a value is made of."""
        known = {leaf for leaf, where in group.leaves if covers(where, group.frame)}
        known |= {made for made, placing in group.placings.items() if placing == "whole"}
        return sum(map(self._itemsize, known.intersection(wanted)))

    def _itemsize(self, value: int) -> int:
        return itemsize(self.program.meta[value].dtype)

    def _class(self, value: int) -> int:
        meta = self.program.meta[value]
        return size_class(len(meta.shape), math.prod(meta.shape) * itemsize(meta.dtype))

    def _is_held(self, value: int) -> bool:
        """Return whether a value has memory of the arena that counts."""
        stored = value in self._must and value not in self._delivered and value not in self.values.windows
        return stored and self._class(value) > _IN_CACHE

    @cached_property
    def _delivered(self) -> set[int]:
        """The values whose memory is needed when everything has run."""
        ends = [*self.program.outputs.values(), *(c.value for c in self.values.commits)]
        return {self.values.base(v) for v in ends}

    @cached_property
    def _last_use(self) -> dict[int, int]:
        """The place in program order from which neither a value nor what is as large and made of it is needed.

        What kernels compute without storing it is read where its readers run.
        """
        steps = self.program.steps
        last: dict[int, int] = {}
        for at in range(len(steps) - 1, -1, -1):
            for result in steps[at].result_ids:
                end = len(steps) if self.values.base(result) in self._delivered else at
                for reader in self.program.consumers.get(result, ()):
                    end = max(end, self._read_until(result, reader, last))
                last[result] = end
        return last

    def _read_until(self, value: int, reader: OpStep, last: dict[int, int]) -> int:
        end = self._order[reader.result_id]
        stored = self._stores(reader)
        for made in reader.result_ids:
            replaces = stored and made not in self._delivered and self._class(made) >= self._class(value)
            if replaces or made in self.values.windows or not (stored or self._reduces(reader)):
                end = max(end, last[made])
        return end

    def _stores(self, step: OpStep) -> bool:
        op = ops.get(step.op_name)
        assert op is not None
        return op.kind in ops.ON_HOST or step.result_id in self._must or step.result_id in self.values.own

    def _reduces(self, step: OpStep) -> bool:
        return reduces(step, self.values.inlining.unrolled)

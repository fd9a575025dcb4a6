"""Estimate whether a kernel that stores several values holds more memory than kernels of their own would.

A kernel of siblings over one input reads that input once and stores all of them, at one time. Separate kernels each
read the input, and each can reuse the memory of the value before it. Owns the live ranges of stored values in program
order, and the price of held bytes in moved bytes. Does not own merging (`jitfuse.plans.groups`) or the order in which
kernels run (`jitfuse.plans.order`).
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
"""Price of one held byte in moved bytes: the cost of mapping and clearing a fresh one. It is 1 in huge pages and 17 in
small ones; this is the geometric mean."""
_IN_CACHE: Final = SIZE_CLASSES[0][1]
"""The size class of values that fit a core's cache: their memory does not count beside a launch."""


class Lifetimes:
    """The live ranges of the values that a program's kernels and library calls store."""

    def __init__(self, program: FusedProgram, values: Values, must: set[int], order: dict[int, int]) -> None:
        self.program = program
        self.values = values
        self._must = must
        self._order = order

    def held_longer(self, group: Group, value: int) -> int:
        """Return the bytes per point that a group would hold longer if it also stored a value.

        They are those of its values of the whole index space that are dead in program order before this value is made.
        """
        if not self._is_held(value):
            return 0
        whole = [r for r in group.roots if group.placings.get(r) == "whole" and r != value and self._is_held(r)]
        outlived = [r for r in whole if self._last_use[r] < self._order[value]]
        return min(self._itemsize(value), sum(map(self._itemsize, outlived)))

    def saved_by(self, group: Group, wanted: Collection[int]) -> int:
        """Return the bytes per point of a value's operands that a group reads or computes already."""
        known = {leaf for leaf, where in group.leaves if covers(where, group.frame)}
        known |= {made for made, placing in group.placings.items() if placing == "whole"}
        return sum(map(self._itemsize, known.intersection(wanted)))

    def _itemsize(self, value: int) -> int:
        return itemsize(self.program.meta[value].dtype)

    def _class(self, value: int) -> int:
        meta = self.program.meta[value]
        return size_class(len(meta.shape), math.prod(meta.shape) * itemsize(meta.dtype))

    def _is_held(self, value: int) -> bool:
        """Return whether a value has arena memory of a size that counts."""
        stored = value in self._must and value not in self._delivered and value not in self.values.windows
        return stored and self._class(value) > _IN_CACHE

    @cached_property
    def _delivered(self) -> set[int]:
        """The values whose memory is needed at the end of the call."""
        ends = [*self.program.outputs.values(), *(c.value for c in self.values.commits)]
        return {self.values.base(v) for v in ends}

    @cached_property
    def _last_use(self) -> dict[int, int]:
        """The program position after which neither a value nor an equally large value made of it is needed.

        A value that a kernel computes without storing it is read where its readers run.
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

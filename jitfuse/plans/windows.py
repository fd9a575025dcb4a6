"""Decide which updates of an array are stored in place: into a window of the array's existing memory.

In a program, an update is a new array. In a long chain of updates (item assignment in a Python loop) each would copy
the whole array, or add a mask to one kernel of them all. Here the updates of a chain share the memory of the first, and
each stores only its region. Two conditions must hold. No later step reads the array as it was before. And a kernel that
reads the same memory reads each element at the index that it writes, or outside the written region; otherwise the
written value is computed into memory of its own first, or the update makes a new array. Owns this choice, and what must
be stored for it. Does not own when the kernels run (`jitfuse.plans.groups`).
"""
from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from typing import Final

from jitfuse.base.records import NamedTuple
from jitfuse.ir.operators import ops
from jitfuse.ir.program import FusedProgram, OpStep
from jitfuse.plans.inlining import is_arithmetic, is_tiny
from jitfuse.plans.updates import (
    LEAD,
    SHORTEST,
    Region,
    are_disjoint,
    chain_lengths,
    donated_updates,
    region_of,
    updated_by,
    whole,
    within,
)

_NEVER: Final = 1 << 60
_MOST: Final = 12
"""The most accesses tracked per value; a value with more counts as reading everything."""

class RegionRead(NamedTuple):
    """The region of an array that a value reads at most. `same`: element k reads only element k of the region."""

    region: Region
    same: bool


Reads = dict[int, tuple[RegionRead, ...]]
"""What an unstored value reads, keyed by the array that it reads (the first of the chain)."""

_NOTHING: Final[Reads] = {}


class Windows:
    """The updates of a program that are stored in place.

    `heads` maps each update of a chain to the value whose memory it uses: itself, an earlier update, or a donated feed.
    `must` holds the values that are stored, and grows. `donated` maps feeds to the number of the output that may take
    their memory.
    """

    def __init__(
        self, program: FusedProgram, memory: Container[int], must: set[int], donated: Mapping[int, int],
    ) -> None:
        self.program = program
        owned = donated_updates(program, donated)
        self.heads: dict[int, int] = {feed: feed for feed in owned}
        self._memory = memory
        self._must = must
        chains = chain_lengths(program, donated)
        if max(chains.values(), default=0) < SHORTEST:
            return
        self._last = _last_uses(program)
        self._reads: dict[int, Reads] = {}
        self._readers: dict[int, list[int]] = {}
        self._newest: dict[int, int] = dict(self.heads)
        for feed in owned:
            self._readers[feed] = []
            self._reads[feed] = {feed: (RegionRead(whole(program.meta[feed].shape), True),)}
        for number, step in enumerate(program.steps):
            if step.op_name in LEAD:
                self._note(step, self._read_by(step))
                for result in step.result_ids:
                    if chains.get(result, 0) >= SHORTEST:
                        self._go_on(number, step, result)
            elif chains.get(step.result_id, 0) >= SHORTEST:
                self._update(number, step)
            else:
                self._note(step, self._read_by(step))

    # ------------------------------------------------------------------ updates
    def _update(self, number: int, step: OpStep) -> None:
        base, result = step.input_ids[0], step.result_id
        head = self.heads.get(base)
        stored = None if head is None or self._newest[head] != base else self._to_store(number, step, head)
        self._must.add(result)
        if head is None or stored is None:
            self._note(step, self._read_by(step))  # what is read there before the update
            head = result
        else:
            self._must.update(stored)
        self.heads[result] = head
        self._newest[head] = result
        self._readers[head] = self._open(number, head) if head in self._readers else []
        self._reads[result] = {head: (RegionRead(whole(self.program.meta[result].shape), True),)}

    def _go_on(self, number: int, step: OpStep, result: int) -> None:
        """Make a loop write into the memory of its initial value, if no later step reads that value.

        Other values that the loop reads from that memory are stored first.
        """
        base = updated_by(step, result)
        head = self.heads.get(base) if base is not None else None
        stored = None if base is None or head is None else self._stored_for(number, step, base, head)
        if head is None or stored is None:
            head = result  # it has memory of its own, into which later updates may be stored
        else:
            self._must.update({result, *stored})
        self.heads[result] = head
        self._newest[head] = result
        self._readers[head] = []
        self._reads[result] = {head: (RegionRead(whole(self.program.meta[result].shape), True),)}

    def _stored_for(self, number: int, step: OpStep, base: int, head: int) -> set[int] | None:
        """Return the values to store so that a loop can overwrite its initial value; None if it cannot."""
        if self._newest[head] != base or self._last[base] > number or step.input_ids.count(base) > 1:
            return None
        others = [i for i in step.input_ids if i != base and head in self._reads.get(i, _NOTHING)]
        stored = {*self._open(number, head), *(i for i in others if i not in self._must)}
        return stored if all(map(self._may_store, stored)) else None

    def _to_store(self, number: int, step: OpStep, head: int) -> set[int] | None:
        """Return the values to store so that an update can be in place; None if it cannot be or should not be."""
        program, (base, value, *_) = self.program, step.input_ids
        if self._last[base] > number or program.meta[value].dtype != program.meta[base].dtype:
            return None
        stored = {x for x in self._open(number, head) if not self._is_disjoint(x, step, head)}
        if not all(map(self._may_store, stored)):
            return None
        unsafe = {x for x in self._at_risk(step, head) if x not in stored and x not in self._must}
        written = step.attr("counts") if step.op_name == "update_slice" else program.meta[value].shape
        small = 2 * math.prod(written) <= program.meta[base].size
        return {*stored, *unsafe} if not unsafe or (small and all(map(self._may_store, unsafe))) else None

    def _at_risk(self, step: OpStep, head: int) -> Sequence[int]:
        """Return the operands that an update's kernel would read from the memory that it stores to."""
        if step.op_name == "update_slice":
            return () if self._is_safe(step, head) else step.input_ids[1:]
        _, block, number = step.input_ids
        if not self.program.meta[block].shape:
            return ()  # one element is read before it is stored
        return [x for x in (block, number) if head in self._reads.get(x, _NOTHING)]

    def _is_safe(self, step: OpStep, head: int) -> bool:
        """Return whether an update's kernel may read the array's memory while it stores."""
        value, region = step.input_ids[1], region_of(step)
        aligned = self.program.meta[value].size == math.prod(region[2])
        return all(
            (a.same and aligned and a.region == region) or are_disjoint(a.region, region)
            for a in self._reads.get(value, {}).get(head, ())
        )

    def _open(self, number: int, head: int) -> list[int]:
        """Return the unstored values that later steps would compute from an array's current contents."""
        return [x for x in self._readers[head] if self._last[x] > number and x not in self._must]

    def _is_disjoint(self, value: int, step: OpStep, head: int) -> bool:
        """Return whether a value reads nothing that an update stores."""
        return step.op_name == "update_slice" and all(
            are_disjoint(a.region, region_of(step)) for a in self._reads[value][head])

    def _may_store(self, value: int) -> bool:
        step = self.program.producers.get(value)
        return step is not None and is_arithmetic(step)

    # ------------------------------------------------------------------ what is read
    def _note(self, step: OpStep, reads: Reads) -> None:
        for result in step.result_ids:
            self._reads[result] = reads
            for head in reads:
                self._readers[head].append(result)

    def _read_by(self, step: OpStep) -> Reads:
        """Return what an unstored step reads of arrays that are updated in place."""
        if not any(map(self._reads.get, step.input_ids)):
            return {}
        op = ops.get(step.op_name)
        assert op is not None
        anchored = op.kind in (ops.REDUCTION, ops.SCAN) and not is_tiny(self.program, step)
        if anchored or op.kind in ops.ON_HOST or step.result_id in self._must:
            return {}
        found: dict[int, set[RegionRead]] = {}
        for position, i in enumerate(step.input_ids):
            for head, accesses in self._reads.get(i, _NOTHING).items():
                found.setdefault(head, set()).update([self._moved(step, position, a) for a in accesses])
        return {h: self._few(h, accesses) for h, accesses in found.items()}

    def _few(self, head: int, accesses: set[RegionRead]) -> tuple[RegionRead, ...]:
        if len(accesses) < 2:
            return tuple(accesses)
        return tuple(sorted(accesses)) if len(accesses) <= _MOST else (self._everything(head),)

    def _everything(self, head: int) -> RegionRead:
        return RegionRead(whole(self.program.meta[head].shape), False)

    def _moved(self, step: OpStep, number: int, access: RegionRead) -> RegionRead:
        """Return what a step reads through one of its operands."""
        if not access.same:
            return access
        size, source = self.program.meta[step.result_ids[0]].size, self.program.meta[step.input_ids[number]]
        op = ops.get(step.op_name)
        assert op is not None
        if step.op_name == "slice":
            if source.shape == access.region[2]:
                return RegionRead(within(access.region, region_of(step)), True)
        elif op.kind == ops.ELEMENTWISE or step.op_name == "reshape" or (step.op_name == "update_slice" and not number):
            return access if source.size == size else RegionRead(access.region, False)
        return RegionRead(access.region, False)


def _last_uses(program: FusedProgram) -> dict[int, int]:
    """Return the step number of each value's last read; delivered values, and those written to feeds, are read last."""
    last = dict.fromkeys(program.meta, -1)
    for number, step in enumerate(program.steps):
        last.update(dict.fromkeys(step.input_ids, number))
    delivered = [*program.outputs.values()]
    for value in (*program.writes.values(), *program.state_out.values()):
        delivered.append(value)
        maker = program.producers.get(value)
        while maker is not None and maker.op_name == "update_slice":  # regions are written one by one
            value, part = maker.input_ids
            delivered.append(part)
            maker = program.producers.get(value)
    last.update(dict.fromkeys(delivered, _NEVER))
    return last

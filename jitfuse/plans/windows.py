"""Which updates of an array are stored in place: into a window of the memory that the array has already.

An update is a new array in a program. Where a chain of them is long (item assignment in a Python loop), each would
be a copy of the whole array, or one more mask in a kernel of all of them. Here the updates of a chain share the memory
of the first: each stores the elements of its region alone. That is allowed where nobody needs the array as it was
before from then on, and where a kernel that reads the same memory reads each element in the place that it writes, or
outside of what is written; what else is written is computed into memory of its own first, or the update makes a new
array. Owns this choice, and what must be stored for it. Does not own when the kernels run (`jitfuse.plans.groups`).
"""
from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from typing import Final

from jitfuse.base.records import NamedTuple
from jitfuse.ir.operators import ops
from jitfuse.ir.program import FusedProgram, OpStep
from jitfuse.plans.inlining import is_arithmetic, is_tiny
from jitfuse.plans.regions import Region, are_disjoint, region_of, whole, within
from jitfuse.plans.updates import LEAD, SHORTEST, chain_lengths, donated_updates, updated_by

_NEVER: Final = 1 << 60
_MOST: Final = 12
"""Accesses that are told apart; a value that reads more places counts as one that reads everything."""

class RegionRead(NamedTuple):
    """What a value reads of an array: nothing outside of a region; `same`: its k-th element the region's k-th alone."""

    region: Region
    same: bool


Reads = dict[int, tuple[RegionRead, ...]]
"""What a value that is not stored reads, by the array (the first of the chain) that it reads of."""

_NOTHING: Final[Reads] = {}


class Windows:
    """The updates of a program that are stored in place.

    `heads` maps each update of a chain to the one whose memory it has: itself, an earlier one, into which it is
    stored, or a donated feed. `must` holds what is stored, and grows. `donated` maps feeds to the number of the output
    that may have their memory.
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
            self._note(step, self._read_by(step))  # of what is there before it is stored
            head = result
        else:
            self._must.update(stored)
        self.heads[result] = head
        self._newest[head] = result
        self._readers[head] = self._open(number, head) if head in self._readers else []
        self._reads[result] = {head: (RegionRead(whole(self.program.meta[result].shape), True),)}

    def _go_on(self, number: int, step: OpStep, result: int) -> None:
        """Have a loop write into the memory of what it begins with, where nobody reads that as it was then.

        What else it reads of that is stored before.
        """
        base = updated_by(step, result)
        head = self.heads.get(base) if base is not None else None
        stored = None if base is None or head is None else self._stored_for(number, step, base, head)
        if head is None or stored is None:
            head = result  # it has memory of its own, into which others may go on writing
        else:
            self._must.update({result, *stored})
        self.heads[result] = head
        self._newest[head] = result
        self._readers[head] = []
        self._reads[result] = {head: (RegionRead(whole(self.program.meta[result].shape), True),)}

    def _stored_for(self, number: int, step: OpStep, base: int, head: int) -> set[int] | None:
        """Return what must be stored for a loop to write over what it begins with; None where it cannot."""
        if self._newest[head] != base or self._last[base] > number or step.input_ids.count(base) > 1:
            return None
        beside = [i for i in step.input_ids if i != base and head in self._reads.get(i, _NOTHING)]
        stored = {*self._open(number, head), *(i for i in beside if i not in self._must)}
        return stored if all(map(self._may_store, stored)) else None

    def _to_store(self, number: int, step: OpStep, head: int) -> set[int] | None:
        """Return what must be stored for an update to be in place; None where it cannot be, or had better not."""
        program, (base, value, *_) = self.program, step.input_ids
        if self._last[base] > number or program.meta[value].dtype != program.meta[base].dtype:
            return None
        stored = {x for x in self._open(number, head) if not self._is_apart(x, step, head)}
        if not all(map(self._may_store, stored)):
            return None
        unsafe = {x for x in self._at_risk(step, head) if x not in stored and x not in self._must}
        written = step.attr("counts") if step.op_name == "update_slice" else program.meta[value].shape
        small = 2 * math.prod(written) <= program.meta[base].size
        return {*stored, *unsafe} if not unsafe or (small and all(map(self._may_store, unsafe))) else None

    def _at_risk(self, step: OpStep, head: int) -> Sequence[int]:
        """Return the operands that the kernel which stores an update would read from memory that it stores to."""
        if step.op_name == "update_slice":
            return () if self._is_safe(step, head) else step.input_ids[1:]
        _, block, place = step.input_ids
        if not self.program.meta[block].shape:
            return ()  # one element is read before it is stored
        return [x for x in (block, place) if head in self._reads.get(x, _NOTHING)]

    def _is_safe(self, step: OpStep, head: int) -> bool:
        """Return whether the kernel that stores an update may read the array's memory meanwhile."""
        value, region = step.input_ids[1], region_of(step)
        aligned = self.program.meta[value].size == math.prod(region[2])
        return all(
            (a.same and aligned and a.region == region) or are_disjoint(a.region, region)
            for a in self._reads.get(value, {}).get(head, ())
        )

    def _open(self, number: int, head: int) -> list[int]:
        """Return the values that are still to be computed from what an array holds now, but for later updates."""
        return [x for x in self._readers[head] if self._last[x] > number and x not in self._must]

    def _is_apart(self, value: int, step: OpStep, head: int) -> bool:
        """Return whether a value reads nothing of what an update stores."""
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
        """Return what a step that is not stored reads of arrays that are updated in place."""
        if not any(map(self._reads.get, step.input_ids)):
            return {}
        op = ops.get(step.op_name)
        assert op is not None
        anchored = op.kind in (ops.REDUCTION, ops.SCAN) and not is_tiny(self.program, step)
        if anchored or op.kind in ops.ON_HOST or step.result_id in self._must:
            return {}
        found: dict[int, set[RegionRead]] = {}
        for place, i in enumerate(step.input_ids):
            for head, accesses in self._reads.get(i, _NOTHING).items():
                found.setdefault(head, set()).update([self._moved(step, place, a) for a in accesses])
        return {h: self._few(h, accesses) for h, accesses in found.items()}

    def _few(self, head: int, accesses: set[RegionRead]) -> tuple[RegionRead, ...]:
        if len(accesses) < 2:
            return tuple(accesses)
        return tuple(sorted(accesses)) if len(accesses) <= _MOST else (self._everything(head),)

    def _everything(self, head: int) -> RegionRead:
        return RegionRead(whole(self.program.meta[head].shape), False)

    def _moved(self, step: OpStep, place: int, access: RegionRead) -> RegionRead:
        """Return what a step reads through one of its operands."""
        if not access.same:
            return access
        size, source = self.program.meta[step.result_ids[0]].size, self.program.meta[step.input_ids[place]]
        op = ops.get(step.op_name)
        assert op is not None
        if step.op_name == "slice":
            if source.shape == access.region[2]:
                return RegionRead(within(access.region, region_of(step)), True)
        elif op.kind == ops.ELEMENTWISE or step.op_name == "reshape" or (step.op_name == "update_slice" and not place):
            return access if source.size == size else RegionRead(access.region, False)
        return RegionRead(access.region, False)


def _last_uses(program: FusedProgram) -> dict[int, int]:
    """Return by which step each value is read last; what is delivered, or written into feeds in the end, is after all.
    """
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

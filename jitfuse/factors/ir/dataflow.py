"""What each instruction reads of others, who reads it, and how long its tensor lives: the one walk for all who ask.

Owns dependences between instructions, by their places. Does not own rules (`verify.py`), nor what follows from these.
"""
from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from math import prod
from typing import Final

from jitfuse.base.lazy import cached_property
from jitfuse.base.records import Record
from jitfuse.factors.ir.arguments import written_slot
from jitfuse.factors.ir.schema import Instruction, OpCode, RegID, SlotKey

_SHARING: Final = frozenset({OpCode.LOAD_SLOT, OpCode.STORE_SLOT, OpCode.NORMALIZE})
"""These make no elements: the scale of NORMALIZE is multiplied in where its tensor is read."""


class Dataflow(Record, frozen=True, eq=False):
    """The instructions of programs that run one after the other, known by their places.

    steps     the instructions
    inputs    for each those that write the registers and the slot that it reads; for FREE those that use what it frees
    readers   for each those that read its register or slot
    programs  the places of each program
    """

    steps: list[Instruction]
    inputs: list[list[int]]
    readers: list[list[int]]
    programs: list[range]

    def elements(self, place: int) -> int:
        """Return the number of elements of the product of all that an instruction computes with; 0 if it does not."""
        if self.steps[place].dst is None or not self.steps[place].reads:
            return 0
        specs = [self.steps[i].spec for i in self.inputs[place]]
        return prod({axis.key: axis.size for spec in specs if spec is not None for axis in spec.axes}.values())

    def sizes(self, place: int) -> list[int]:
        """Return the number of elements of each tensor that an instruction reads."""
        return [spec.size for i in self.inputs[place] if (spec := self.steps[i].spec) is not None]

    @cached_property
    def storage(self) -> list[int]:
        """For each place the one that makes the elements of its tensor."""
        found: list[int] = []
        for place, step in enumerate(self.steps):
            found.append(found[self.inputs[place][0]] if step.op in _SHARING else place)
        return found

    def last_uses(self, order: Sequence[int], begins: Sequence[int]) -> dict[int, list[int]]:
        """Return for each place those whose elements nothing reads behind it.

        Args:
            order: all places, as they run.
            begins: numbers in `order` from which on all may run again: what is read of earlier ones never dies.
        """
        made: dict[int, int] = {}
        last: dict[int, int] = {}
        for number, place in enumerate(order):
            if self.storage[place] == place:
                made[place] = last[place] = number
            if self.steps[place].op is not OpCode.LOAD_SLOT:  # what it loads is read by others, or not at all
                for i in self.inputs[place]:
                    last[self.storage[i]] = number
        found: dict[int, list[int]] = {}
        for place, number in last.items():
            if bisect_right(begins, number) == bisect_right(begins, made[place]):
                found.setdefault(order[number], []).append(place)
        return found


def dataflow(*programs: Iterable[Instruction]) -> Dataflow:
    """Return the dependences of valid programs; slots that none of them writes depend on nothing.

    Example:
        >>> from jitfuse.factors.ir.text import from_text
        >>> dataflow(from_text("UNIT dst=0 spec=()\\nSTORE_SLOT slot=('Z',) src=0\\nFREE srcs=(0)").instructions).inputs
        [[], [0], [0, 1]]
    """
    flow = Dataflow([], [], [], [])
    slots: dict[SlotKey, int] = {}
    for program in programs:
        writers: dict[RegID, int] = {}
        first = len(flow.steps)
        for place, step in enumerate(program, first):
            inputs = [writers[register] for register in step.reads]
            if step.op is OpCode.LOAD_SLOT and step.args["slot"] in slots:
                inputs.append(slots[step.args["slot"]])
            for i in inputs:
                flow.readers[i].append(place)
            if step.op is OpCode.FREE:
                for register in step.args["srcs"]:
                    users = [i for i in flow.readers[writers[register]] if register in flow.steps[i].reads]
                    inputs += [writers[register], *users]
            if step.dst is not None:
                writers[step.dst] = place
            if (slot := written_slot(step)) is not None:
                slots[slot] = place
            flow.steps.append(step)
            flow.inputs.append(inputs)
            flow.readers.append([])
        flow.programs.append(range(first, len(flow.steps)))
    return flow

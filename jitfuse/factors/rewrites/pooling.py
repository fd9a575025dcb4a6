"""Register pooling: which registers share memory, and how much of it a program needs.

Registers stay as they are, each written once. A pool says where each may lie.
"""
from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator, Mapping

from jitfuse.base.records import Record
from jitfuse.factors.ir.schema import OpCode, Program, RegID, SlotKey
from jitfuse.factors.work import ITEMSIZE


class Pool(Record, frozen=True):
    """Memory that registers share.

    entries  the entry of each register; registers that live at once have different ones
    sizes    the bytes of each entry: those of its largest register
    before   bytes where every register has memory of its own
    least    bytes of the registers that live at once, at most: no pool can do with less
    """

    entries: Mapping[RegID, int]
    sizes: tuple[int, ...]
    before: int
    least: int

    @property
    def after(self) -> int:
        """Bytes of the pool."""
        return sum(self.sizes)


def pool(program: Program) -> Pool:
    """Return entries for all registers: each takes the smallest free entry that holds it, or else the largest grows.

    Example:
        >>> from jitfuse.factors.ir.text import from_text
        >>> pool(from_text("UNIT dst=0 spec=()\\nFREE srcs=(0)\\nUNIT dst=1 spec=(v0:2)\\nFREE srcs=(1)"))
        Pool(entries={0: 0, 1: 0}, sizes=(16,), before=24, least=16)
    """
    entries: dict[RegID, int] = {}
    sizes: list[int] = []
    free: list[tuple[int, int]] = []
    before = live = least = 0
    for register, size in _changes(program):
        live += size
        if size < 0:
            entry = entries[register]
            insort(free, (sizes[entry], entry))
            continue
        before, least = before + size, max(least, live)
        at = bisect_left(free, (size, -1))
        if free:
            _, entry = free.pop(min(at, len(free) - 1))
            sizes[entry] = max(sizes[entry], size)
        else:
            entry = len(sizes)
            sizes.append(size)
        entries[register] = entry
    return Pool(entries, tuple(sizes), before, least)


def peak(program: Program) -> int:
    """Return the bytes that registers and slots hold at once, at most. A register's tensor that is stored is held once.

    A slot holds what is stored until it is loaded for the last time, or to the end where nothing here loads it. What
    other programs have stored counts while a register holds it, as factors do; the divisors of NORMALIZE do not count.
    """
    loads = Counter([step.args["slot"] for step in program.instructions if step.op is OpCode.LOAD_SLOT])
    held: dict[RegID | SlotKey, list[int]] = {}
    """What each register and slot holds: the elements of the tensor, and how many hold it."""
    live = most = 0
    for step in program.instructions:
        if step.op is OpCode.FREE:
            for register in step.args["srcs"]:
                tensor = held.pop(register)
                tensor[1] -= 1
                if not tensor[1]:
                    live -= tensor[0]
            continue
        slot: SlotKey | None = step.args.get("slot")
        if step.dst is None:
            assert slot is not None
            held[slot] = found = held[step.args["src"]]
            found[1] += 1
        elif slot is None or slot not in held:
            assert step.spec is not None
            held[step.dst] = [step.spec.size, 1]
            live += step.spec.size
            most = max(most, live)
        else:
            held[step.dst] = held[slot]
            loads[slot] -= 1
            if loads[slot]:
                held[slot][1] += 1
            else:
                del held[slot]  # the register that it was loaded into holds it instead
    return most * ITEMSIZE


def _changes(program: Program) -> Iterator[tuple[RegID, int]]:
    """Yield each register with its bytes where it is made, and with minus these where it is freed."""
    sizes: dict[RegID, int] = {}
    for instruction in program.instructions:
        if instruction.op is OpCode.FREE:
            yield from ((register, -sizes[register]) for register in instruction.args["srcs"])
        elif instruction.dst is not None and instruction.spec is not None:
            sizes[instruction.dst] = instruction.spec.size * ITEMSIZE
            yield instruction.dst, sizes[instruction.dst]

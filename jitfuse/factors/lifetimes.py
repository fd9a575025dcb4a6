"""How long registers live: behind which step nothing reads them any more.

Owns which of them lie in the result. Does not own their memory (`heap.py`).
"""
from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from jitfuse.factors.ir.schema import Instruction, OpCode, SlotKey

Value = tuple[int, int]
"""A register: the number of its program, and its own. Loads of slots have that of what was stored."""


def lifetimes(
    steps: Sequence[tuple[int, Instruction]], wanted: Callable[[SlotKey], bool], begins: Sequence[int]
) -> tuple[dict[int, list[Value]], set[Value]]:
    """Return for each place the registers that nothing reads behind it, and those that lie in the result.

    The memory of a register that is read by what may run again without it is never given back.
    """
    names: dict[Value, Value] = {}
    kept: set[Value] = set()
    slots: dict[SlotKey, Value] = {}
    made: dict[Value, int] = {}
    last: dict[Value, int] = {}
    for place, (number, step) in enumerate(steps):
        if step.op is OpCode.LOAD_SLOT:
            assert step.dst is not None
            names[number, step.dst] = slots[step.args["slot"]]
        elif step.op is OpCode.NORMALIZE:  # lies where it is read from
            assert step.dst is not None
            names[number, step.dst] = names[number, step.args["src"]]
        elif step.dst is not None:
            names[number, step.dst] = number, step.dst
            last[number, step.dst] = made[number, step.dst] = place
        for register in step.reads:
            last[names[number, register]] = place
        if step.op is OpCode.STORE_SLOT:
            slots[step.args["slot"]] = names[number, step.args["src"]]
            if wanted(step.args["slot"]) and names[number, step.args["src"]] == (number, step.args["src"]):
                kept.add((number, step.args["src"]))
    found: dict[int, list[Value]] = {}
    for value, place in last.items():
        if bisect_right(begins, place) == bisect_right(begins, made[value]):
            found.setdefault(place, []).append(value)
    return found, kept

"""Loads of complex operands: pairs in memory, two batches of components in registers.

Adjacent pairs are moved by whole vectors and shuffled; all others go component by component. Owns: the conversion of
pairs to components. Does not own the way back (`cells`) or single loads (`memory`).
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jitfuse.backends.llvm.codegen.cells import spread
from jitfuse.backends.llvm.codegen.elements.types import COMPONENT, ITEMSIZE
from jitfuse.backends.llvm.codegen.frame import Address
from jitfuse.backends.llvm.codegen.memory import VectorMemory
from jitfuse.backends.llvm.math.lockstep import Batch
from jitfuse.backends.llvm.text.builder import Value

Components = tuple[Batch, Batch]


def load_pairs(memory: VectorMemory, dtype: str, address: Address, masks: Sequence[Value | None]) -> Components:
    """Return the real and the imaginary parts of the vectors of pairs at an address; 0 in inactive lanes."""
    component = COMPONENT[dtype]
    if address.kind != "next":
        real, imaginary = (memory.load_each(component, _of_part(memory, dtype, address, k), masks) for k in (0, 1))
        return real, imaginary
    f, lanes = memory.f, memory.lanes
    halves = memory.load_each(component, address, spread(memory, masks, 2)).values
    low, high = halves[::2], halves[1::2]
    if lanes == 1:
        return memory.context.batch(low), memory.context.batch(high)
    real, imaginary = (
        memory.context.batch([f.shuffle(a, b, range(k, 2 * lanes, 2)) for a, b in zip(low, high, strict=True)])
        for k in (0, 1)
    )
    return real, imaginary


def part_pointer(memory: VectorMemory, dtype: str, pointer: Value, part: int) -> Value:
    """Return the address of one component of the pair at an address."""
    return memory.f.offset(pointer, part * ITEMSIZE[COMPONENT[dtype]])


def _of_part(memory: VectorMemory, dtype: str, address: Address, part: int) -> Address:
    distance = None if address.distance is None else 2 * address.distance
    return replace(address, base=part_pointer(memory, dtype, address.base, part), distance=distance)

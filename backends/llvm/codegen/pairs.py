"""Loads and stores of complex operands: pairs in memory, two batches of components in registers.

Adjacent pairs are moved by whole vectors and shuffled; all others go component by component. Owns: the conversion of
pairs to components and back. Does not own single loads and stores (`memory`).
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

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
    halves = memory.load_each(component, address, _doubled(memory, masks)).values
    low, high = halves[::2], halves[1::2]
    if lanes == 1:
        return memory.context.batch(low), memory.context.batch(high)
    real, imaginary = (
        memory.context.batch([f.shuffle(a, b, range(k, 2 * lanes, 2)) for a, b in zip(low, high, strict=True)])
        for k in (0, 1)
    )
    return real, imaginary


def store_pairs(
    memory: VectorMemory, x: Components, dtype: str, address: Address, masks: Sequence[Value | None]
) -> None:
    """Store vectors of pairs at an address: the active lanes of each mask (None: all)."""
    component = COMPONENT[dtype]
    if address.kind == "next":
        memory.store_each(interleaved(memory, x), component, address, _doubled(memory, masks))
        return
    for k, batch in enumerate(x):
        memory.store_each(batch, component, _of_part(memory, dtype, address, k), masks)


def interleaved(memory: VectorMemory, x: Components) -> Batch:
    """Return the components of adjacent pairs in the order of memory: twice as many vectors."""
    f, lanes, batch = memory.f, memory.lanes, x[0].context.batch
    pairs = zip(x[0].values, x[1].values, strict=True)
    if lanes == 1:
        return batch([v for pair in pairs for v in pair])
    order = [lane + part * lanes for lane in range(lanes) for part in (0, 1)]
    return batch([f.shuffle(a, b, half) for a, b in pairs for half in (order[:lanes], order[lanes:])])


def part_pointer(memory: VectorMemory, dtype: str, pointer: Value, part: int) -> Value:
    """Return the address of one component of the pair at an address."""
    return memory.f.offset(pointer, part * ITEMSIZE[COMPONENT[dtype]])


def _of_part(memory: VectorMemory, dtype: str, address: Address, part: int) -> Address:
    distance = None if address.distance is None else 2 * address.distance
    return replace(address, base=part_pointer(memory, dtype, address.base, part), distance=distance)


def _doubled(memory: VectorMemory, masks: Sequence[Value | None]) -> list[Value | None]:
    """Return the masks of the vectors that hold adjacent pairs: each lane becomes two components."""
    f, lanes = memory.f, memory.lanes
    doubled: list[Value | None] = []
    for m in masks:
        if m is None or lanes == 1:
            doubled += [m, m]
            continue
        twice = [lane // 2 for lane in range(2 * lanes)]
        doubled += [f.shuffle(m, m, half) for half in (twice[:lanes], twice[lanes:])]
    return doubled

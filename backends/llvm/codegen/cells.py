"""Stores of several values at each position: the elements of a cell, the components of complex numbers.

Adjacent cells are interleaved in registers and stored as whole vectors; all others are stored value by value. Owns:
the interleaving. Does not own single stores (`memory`).
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jitfuse.backends.llvm.codegen.elements.types import ITEMSIZE
from jitfuse.backends.llvm.codegen.frame import Address
from jitfuse.backends.llvm.codegen.memory import VectorMemory
from jitfuse.backends.llvm.math.lockstep import Batch
from jitfuse.backends.llvm.text.builder import Function, Value


def store_cells(
    memory: VectorMemory, x: Sequence[Batch], dtype: str, address: Address, masks: Sequence[Value | None]
) -> None:
    """Store the values of cells, one batch for each element of a cell: the active lanes of each mask (None: all)."""
    if address.kind == "next":
        adjacent, kind = interleaved(memory, x, dtype)
        memory.store_each(adjacent, kind, address, spread(memory, masks, len(x)))
        return
    for k, batch in enumerate(x):
        at = replace(address, base=memory.f.offset(address.base, k * ITEMSIZE[dtype]))
        memory.store_each(batch, dtype, at, masks)


def interleaved(memory: VectorMemory, x: Sequence[Batch], dtype: str) -> tuple[Batch, str]:
    """Return the values of adjacent cells in the order of memory, and their dtype there.

    Bools are shuffled as the bytes that memory holds: shuffles of bits are slow.
    """
    parts = [[memory.to_memory(v, dtype) for v in batch.values] for batch in x]
    columns = zip(*parts, strict=True)
    ordered = [v for column in columns for v in _interleaved(memory.f, column, memory.lanes)]
    return x[0].context.batch(ordered), "uint8" if dtype == "bool" else dtype


def spread(memory: VectorMemory, masks: Sequence[Value | None], cell: int) -> list[Value | None]:
    """Return the masks of the vectors that hold adjacent cells: each lane becomes `cell` elements."""
    lanes, result = memory.lanes, list[Value | None]()
    for m in masks:
        if m is None or lanes == 1:
            result += [m] * cell
            continue
        owners = [k // cell for k in range(cell * lanes)]
        result += [memory.f.shuffle(m, m, owners[k : k + lanes]) for k in range(0, cell * lanes, lanes)]
    return result


def _interleaved(f: Function, parts: Sequence[Value], lanes: int) -> list[Value]:
    """Return as many vectors: lane 0 of each part, then lane 1, and so on.

    By prime factors of their number, so that few shuffles of two vectors are needed: 8 instead of 12 for four parts.
    """
    count = len(parts)
    factor = next((p for p in range(2, count) if not count % p), count)
    if factor == count:
        return _zipped(f, parts, lanes)
    rows = [_interleaved(f, parts[k::factor], lanes) for k in range(factor)]
    return [v for column in zip(*rows, strict=True) for v in _zipped(f, column, lanes)]


def _zipped(f: Function, parts: Sequence[Value], lanes: int) -> list[Value]:
    """Interleave a few vectors directly: each result takes lanes from one part after the other."""
    if lanes == 1:
        return list(parts)
    count, result = len(parts), []
    for first in range(0, count * lanes, lanes):
        v = parts[0]
        for k in range(1, count):
            # the first shuffle brings the lanes of part 0 to their places too; a lane not filled yet may hold anything
            picks = [(first + lane) // count if k == 1 else lane for lane in range(lanes)]
            for lane in range(lanes):
                if (first + lane) % count == k:
                    picks[lane] = lanes + (first + lane) // count
            v = f.shuffle(v, parts[k], picks)
        result.append(v)
    return result

"""The binary counter that combines the blocks of a float sum: groups of 1, 2, 4 ... blocks in memory.

Owns: the levels of one sum whose virtual lanes fit in a few vectors: 128 bytes for each level.
"""
from __future__ import annotations

from jitfuse.backends.llvm.codegen.analysis import ROW_BYTES
from jitfuse.backends.llvm.codegen.body import KernelBody
from jitfuse.backends.llvm.codegen.carried import Carried
from jitfuse.backends.llvm.codegen.combine import Reduced
from jitfuse.backends.llvm.codegen.elements.types import MEMORY, i64
from jitfuse.backends.llvm.math.lockstep import Batch
from jitfuse.backends.llvm.text.builder import Value

_LEVELS = 48
"""Enough for 2**48 blocks."""
_ALIGN = 64


class Counter:
    """The finished groups of one sum, and the current block, which lies in memory between its pieces."""

    def __init__(self, body: KernelBody, part: Reduced) -> None:
        self._body = body
        self.part = part
        self._vectors = part.row // body.lanes
        self._row = body.f.alloca(MEMORY[part.dtype], part.row, align=_ALIGN)
        self._levels = body.f.alloca(MEMORY[part.dtype], part.row * _LEVELS, align=_ALIGN)

    def load(self) -> Batch:
        """Return the lanes of the current block."""
        return self._body.memory.load_lanes(self.part.dtype, self._row, self._vectors, _ALIGN)

    def save(self, lanes: Batch) -> None:
        """Store the lanes of the current block."""
        self._body.memory.store_lanes(lanes, self.part.dtype, self._row, _ALIGN)

    def clear(self) -> None:
        """Begin a block."""
        self.save(self._body.memory.constant(self.part.dtype, self.part.identity, self._vectors))

    def _level(self, index: Value) -> Value:
        return self._body.f.offset(self._levels, self._body.f.mul(index, i64(ROW_BYTES)))

    def push(self, block: Value) -> None:
        """Merge the finished block of this number with as many groups as it has trailing one bits."""
        f = self._body.f
        inverted = f.xor(block, i64(-1))
        merges = f.intrinsic("cttz", "i64", inverted, Value("false", "i1"))
        block_lanes = self.load()
        with f.loop(i64(0), merges) as loop:
            carried = Carried(loop)
            group = carried.add(block_lanes)
            older = self._body.memory.load_lanes(self.part.dtype, self._level(loop.index), self._vectors, _ALIGN)
            carried.update(0, self.part.join(older, group))
        self._body.memory.store_lanes(carried.result(0), self.part.dtype, self._level(merges), _ALIGN)
        self.clear()

    def total(self, last: Value) -> Batch:
        """Return the lanes of the whole sum; `last` is the number of the current block, the last one."""
        f = self._body.f
        zeros = f.intrinsic("ctlz", "i64", last, Value("false", "i1"))
        count = f.sub(i64(64), zeros)
        block_lanes = self.load()
        with f.loop(i64(0), count) as loop:
            carried = Carried(loop)
            group = carried.add(block_lanes)
            older = self._body.memory.load_lanes(self.part.dtype, self._level(loop.index), self._vectors, _ALIGN)
            present = f.cast("trunc", f.lshr(last, loop.index), "i1")
            merged = self.part.join(older, group)
            carried.update(0, group.context.batch([
                f.select(present, m, g) for m, g in zip(merged.values, group.values, strict=True)
            ]))
        return carried.result(0)

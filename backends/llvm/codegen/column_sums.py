"""The tree of a float sum when every lane of a vector sums its own column.

Owns: the virtual lanes of a group of columns, W rows of vectors in scratch memory, and the levels of the
binary counter, each as large. Does not own the loop over the elements.
"""
from __future__ import annotations

from jitfuse.backends.llvm.codegen.body import KernelBody
from jitfuse.backends.llvm.codegen.carried import Carried
from jitfuse.backends.llvm.codegen.combine import Reduced
from jitfuse.backends.llvm.codegen.elements.types import ITEMSIZE, i64
from jitfuse.backends.llvm.math.lockstep import Batch
from jitfuse.backends.llvm.text.builder import Value


class ColumnSum:
    """One sum of a group of `vectors` vectors of columns.

    `tile` and `levels` are its scratch memory; level t begins `pitch * t` bytes into `levels`. `used`: the
    virtual lanes that hold elements, a power of two.
    """

    def __init__(
        self, body: KernelBody, part: Reduced, vectors: int, tile: Value, levels: Value, pitch: int, used: Value
    ) -> None:
        self._body, self.part, self._vectors = body, part, vectors
        self._f = body.f
        self._tile, self._levels, self._pitch, self.used = tile, levels, pitch, used
        self._row_bytes = vectors * body.lanes * ITEMSIZE[part.dtype]

    def _row(self, lane: Value, base: Value | None = None) -> Value:
        return self._f.offset(base or self._tile, self._f.mul(lane, i64(self._row_bytes)))

    def load(self, lane: Value, base: Value | None = None) -> Batch:
        """Return a virtual lane of every column."""
        return self._body.memory.load_lanes(self.part.dtype, self._row(lane, base), self._vectors, 64)

    def save(self, lane: Value, x: Batch, base: Value | None = None) -> None:
        """Set a virtual lane of every column."""
        self._body.memory.store_lanes(x, self.part.dtype, self._row(lane, base), 64)

    def clear(self) -> None:
        """Begin a block."""
        with self._f.loop(i64(0), self.used) as loop:
            self.save(loop.index, self._body.memory.constant(self.part.dtype, self.part.identity, self._vectors))

    def add(self, element: Value, x: Batch) -> None:
        """Add the element of this number to its virtual lane."""
        lane = self._f.and_(element, i64(self.part.row - 1))
        self.save(lane, self.part.join(self.load(lane), x))

    def _level(self, index: Value) -> Value:
        return self._f.offset(self._levels, self._f.mul(index, i64(self._pitch)))

    def push(self, block: Value) -> None:
        """Merge the finished block of this number with as many groups as it has trailing one bits."""
        f = self._f
        merges = f.intrinsic("cttz", "i64", f.xor(block, i64(-1)), Value("false", "i1"))
        target = self._level(merges)
        with f.loop(i64(0), self.used) as rows:
            group = self.load(rows.index)
            with f.loop(i64(0), merges) as loop:
                carried = Carried(loop)
                group = carried.add(group)
                older = self.load(rows.index, self._level(loop.index))
                carried.update(0, self.part.join(older, group))
            self.save(rows.index, carried.result(0), target)

    def finish(self, last: Value) -> None:
        """Add all groups to the current block, which is the last and has this number."""
        f = self._f
        bits = f.sub(i64(64), f.intrinsic("ctlz", "i64", last, Value("false", "i1")))
        with f.if_(f.icmp("ne", last, i64(0))), f.loop(i64(0), self.used) as rows:
            group = self.load(rows.index)
            with f.loop(i64(0), bits) as loop:
                carried = Carried(loop)
                group = carried.add(group)
                older = self.load(rows.index, self._level(loop.index))
                present = f.cast("trunc", f.lshr(last, loop.index), "i1")
                merged = self.part.join(older, group)
                carried.update(0, group.context.batch([
                    f.select(present, m, g) for m, g in zip(merged.values, group.values, strict=True)
                ]))
            self.save(rows.index, carried.result(0))

    def fold(self) -> Batch:
        """Return the sums of the columns: virtual lane l with lane l + half, and so on."""
        f = self._f
        rounds = f.intrinsic("cttz", "i64", self.used, Value("false", "i1"))
        with f.loop(i64(0), rounds) as loop:
            half = f.lshr(f.lshr(self.used, loop.index), i64(1))
            with f.loop(i64(0), half) as rows:
                joined = self.part.join(self.load(rows.index), self.load(f.add(rows.index, half)))
                self.save(rows.index, joined)
        return self.part.finished((self.load(i64(0)),))


def used_lanes(body: KernelBody, part: Reduced, count: Value) -> Value:
    """Return how many virtual lanes `count` elements reach, rounded up to a power of two."""
    f = body.f
    last = f.intrinsic("smax", "i64", f.sub(count, i64(1)), i64(0))
    bits = f.sub(i64(64), f.intrinsic("ctlz", "i64", last, Value("false", "i1")))
    bits = f.intrinsic("smin", "i64", bits, i64(part.row.bit_length() - 1))
    return f.shl(i64(1), bits)


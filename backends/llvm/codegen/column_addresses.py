"""Where the elements of a group of columns lie: positions along the inner axes, kept rows, sums in scratch memory.

Does not own what is computed there (`jitfuse.backends.llvm.codegen.column_loops`).
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from jitfuse.backends.llvm.codegen.analysis import ROW_BYTES
from jitfuse.backends.llvm.codegen.body import KernelBody
from jitfuse.backends.llvm.codegen.column_sums import ColumnSum, used_lanes
from jitfuse.backends.llvm.codegen.combine import Positions, Reduced
from jitfuse.backends.llvm.codegen.elements.types import ITEMSIZE, MEMORY, i64
from jitfuse.backends.llvm.codegen.frame import VectorGroup
from jitfuse.backends.llvm.codegen.layout import tree_sums
from jitfuse.backends.llvm.codegen.odometer import Odometer, decode
from jitfuse.backends.llvm.math.lockstep import Batch
from jitfuse.backends.llvm.text.builder import Loop, Value
from jitfuse.base.records import Record
from jitfuse.ir.kernels.stages import Instr
from jitfuse.ir.kernels.sum_tree import CHUNK

Numbered = list[tuple[int, Instr]]
_LINE = 64


class Contracted(Record, frozen=True):
    """A contraction's result for a block of lanes, kept as row 0.

    Its address, the block's first lane, the bytes from one element of a column to the next, and the instructions of
    its stage that later stages read.
    """

    address: Value
    first: Value
    stride: Value
    before: Numbered


class ColumnAddresses:
    """The addresses of one group of vectors of columns: elements `start` to `stop`, `count` of them."""

    def __init__(
        self, body: KernelBody, frame: VectorGroup, scratch: Value, contracted: Contracted | None = None
    ) -> None:
        self.body, self.frame, self.f = body, frame, body.f
        f, analysis = self.f, body.analysis
        self.axes = analysis.inner_axes
        self.extents = [body.launch.extents[a] for a in self.axes]
        self.width = frame.count * body.lanes
        self.start, self.stop = i64(0), body.launch.inner_total
        if analysis.partial:
            self.start = f.mul(frame.indices[len(analysis.form.grid) - 1], i64(CHUNK))
            self.stop = f.intrinsic("smin", "i64", f.add(self.start, i64(CHUNK)), self.stop)
        self.count = f.sub(self.stop, self.start)
        self._sums = tree_sums(analysis)
        self._tiles = scratch
        rows = f.offset(scratch, self._sums * ROW_BYTES * self.width)
        row = f.and_(f.add(f.mul(body.launch.inner_total, i64(self.width)), i64(_LINE - 1)), i64(-_LINE))
        self._keeps, before = [], 0
        for dtype in analysis.form.keeps:
            self._keeps.append(f.offset(rows, f.mul(row, i64(before))) if before else rows)
            before += ITEMSIZE[dtype]
        self._strides = [i64(self.width * ITEMSIZE[d]) for d in analysis.form.keeps]
        if contracted is not None:
            lane = f.sub(frame.first, contracted.first)
            self._keeps[0] = f.offset(contracted.address, lane, MEMORY[analysis.form.keeps[0]])
            self._strides[0] = contracted.stride
        self._levels = f.offset(rows, f.mul(row, i64(before))) if before else rows

    def at(self, linear: Value, inner: Mapping[int, Value]) -> VectorGroup:
        """Return the group's frame at an element: its number, and its positions along the inner axes."""
        keeps = [self.f.offset(k, self.f.mul(linear, s)) for k, s in zip(self._keeps, self._strides, strict=True)]
        return self.frame.at(inner, keeps)

    @contextmanager
    def loop(self, start: Value, stop: Value) -> Iterator[tuple[Loop, Odometer | None]]:
        """Loop over elements; the odometer steps the positions along several inner axes, None for one."""
        if len(self.axes) == 1:
            with self.f.loop(start, stop) as loop:
                yield loop, None
            return
        # extents may be 0 where the loop is empty, so the code must not divide by them
        first = [start] * len(self.axes) if start.ref == "0" else decode(self.f, start, self.extents)
        with self.f.loop(start, stop) as loop:
            odometer = Odometer(self.f, loop, first, self.extents)
            yield loop, odometer
            odometer.advance()

    def group(self, loop: Loop, odometer: Odometer | None) -> VectorGroup:
        """Return the group's frame at the element of a loop."""
        positions = [loop.index] if odometer is None else odometer.positions
        return self.at(loop.index, dict(zip(self.axes, positions, strict=True)))

    def filled(self, dtype: str, value: float | int | bool) -> Batch:
        """Return vectors of a constant for the whole group."""
        return self.body.memory.constant(dtype, value, self.frame.count)

    def column_sum(self, part: Reduced, k: int) -> ColumnSum:
        """Return the k-th sum of the group, in its scratch memory."""
        f, size = self.f, ROW_BYTES * self.width
        whole = part.reduction.phase == "whole"
        used = used_lanes(self.body, part, self.count) if whole else i64(part.row)
        return ColumnSum(
            self.body, part, self.frame.count, f.offset(self._tiles, k * size), f.offset(self._levels, k * size),
            size * self._sums, used,
        )

    def everywhere(self, linear: Value) -> Positions:
        """Return a source of vectors of the position along the inner axes, which all lanes share."""
        splat = self.f.splat
        return Positions(
            linear, lambda: self.body.context.batch([splat(linear, self.body.lanes)] * self.frame.count)
        )

    def positions(self, linear: Value) -> list[Value]:
        """Return the positions of an element along the inner axes."""
        return [linear] if len(self.axes) == 1 else decode(self.f, linear, self.extents)

"""Loops over inner axes in which every lane of a vector goes through its own column.

Owns: map and reduce stages of such kernels, the phases of their reductions, and the places of kept rows and
sums in scratch memory. Does not own the tree of float sums (`column_sums`).
"""
from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from jitfuse.backends.llvm.builder import Loop, Value
from jitfuse.backends.llvm.codegen.body import Body
from jitfuse.backends.llvm.codegen.carried import Carried
from jitfuse.backends.llvm.codegen.column_sums import ColumnSum, used_lanes
from jitfuse.backends.llvm.codegen.combine import Part, parts
from jitfuse.backends.llvm.codegen.frame import Address, Frame
from jitfuse.backends.llvm.codegen.layout import ROW_BYTES, tree_sums
from jitfuse.backends.llvm.codegen.odometer import Odometer, decode
from jitfuse.backends.llvm.codegen.types import ITEMSIZE, MEMORY, i64
from jitfuse.backends.llvm.math.lockstep import Batch
from jitfuse.ir.kernel import CHUNK, Instr, Reduction

Numbered = list[tuple[int, Instr]]
_LINE = 64


def unrolled(
    body: Body, frame: Frame, instructions: Numbered, reductions: Sequence[tuple[int, Reduction]]
) -> None:
    """Write a stage at every point of a small static inner space."""
    axes = body.analysis.inner_axes
    extents = [range(body.analysis.form.axes[a].extent or 1) for a in axes]
    reduced = parts(reductions)
    columns: list[list[Batch]] = [[] for _ in reduced]
    for point in itertools.product(*extents):
        at = frame.at({a: i64(p) for a, p in zip(axes, point, strict=True)}, ())
        body.run(instructions, at)
        for p, column in zip(reduced, columns, strict=True):
            assert p.value is not None
            column.append(body.vectors(p.value, at))
    for p, column in zip(reduced, columns, strict=True):
        body.values[p.number] = p.finished(_fold(p, column))


def _fold(part: Part, column: list[Batch]) -> Batch:
    """Combine few elements as the virtual lanes that they are."""
    while len(column) > 1:
        half = 1 << ((len(column) - 1).bit_length() - 1)
        joined = [part.join(*pair) for pair in zip(column, column[half:], strict=False)]
        column = joined + column[len(joined) : half]
    return column[0]


@dataclass(frozen=True)
class Contracted:
    """What a contraction left for a block of lanes, as kept row 0: its address, the block's first lane, the bytes
    from one element of a column to the next; and the instructions of its stage that later ones read.
    """

    address: Value
    first: Value
    stride: Value
    before: Numbered


class Columns:
    """The inner loops of one group of vectors of columns."""

    def __init__(self, body: Body, frame: Frame, scratch: Value, contracted: Contracted | None = None) -> None:
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

    # ------------------------------------------------------------------ places
    def _at(self, linear: Value, inner: Mapping[int, Value]) -> Frame:
        keeps = [self.f.offset(k, self.f.mul(linear, s)) for k, s in zip(self._keeps, self._strides, strict=True)]
        return self.frame.at(inner, keeps)

    @contextmanager
    def _loop(self, start: Value, stop: Value) -> Iterator[tuple[Loop, Odometer | None]]:
        """Loop over elements; the odometer steps the positions along several inner axes, None for one."""
        if len(self.axes) == 1:
            with self.f.loop(start, stop) as loop:
                yield loop, None
            return
        # extents may be 0 where the loop is empty, so that nothing may be divided by them
        first = [start] * len(self.axes) if start.ref == "0" else decode(self.f, start, self.extents)
        with self.f.loop(start, stop) as loop:
            odometer = Odometer(self.f, loop, first, self.extents)
            yield loop, odometer
            odometer.advance()

    def _place(self, loop: Loop, odometer: Odometer | None) -> Frame:
        positions = [loop.index] if odometer is None else odometer.positions
        return self._at(loop.index, dict(zip(self.axes, positions, strict=True)))

    # ------------------------------------------------------------------ stages
    def map(self, instructions: Numbered) -> None:
        """Write a stage without reductions."""
        self._rounds(instructions, [], [], {}, self.start, self.stop)

    def reduce(self, instructions: Numbered, reduced: list[Part]) -> None:
        """Write a stage with reductions."""
        trees = [p for p in reduced if p.tree]
        free = [p for p in reduced if not p.tree]
        sums = {p.number: self._column_sum(p, k) for k, p in enumerate(trees)}
        if reduced[0].reduction.phase == "final":
            totals = self._final(free, sums)
        elif len({p.row for p in trees}) == 1:
            totals = self._lane_by_lane(instructions, free, sums)
        elif trees:
            totals = self._in_blocks(instructions, free, sums)
        else:
            totals = self._rounds(instructions, free, [self._initial(p) for p in free], {}, self.start, self.stop)
        by_number = dict(zip([p.number for p in free], totals, strict=True))
        for p in reduced:
            self._deliver(p, sums.get(p.number), by_number.get(p.number))

    def _initial(self, part: Part) -> Batch:
        return self.body.memory.constant(part.dtype, part.identity, self.frame.count)

    def _column_sum(self, part: Part, k: int) -> ColumnSum:
        f, size = self.f, ROW_BYTES * self.width
        whole = part.reduction.phase == "whole"
        used = used_lanes(self.body, part, self.count) if whole else i64(part.row)
        return ColumnSum(
            self.body, part, self.frame.count, f.offset(self._tiles, k * size), f.offset(self._levels, k * size),
            size * self._sums, used,
        )

    def _rounds(
        self, instructions: Numbered, free: list[Part], initial: list[Batch], sums: Mapping[int, ColumnSum],
        start: Value, stop: Value,
    ) -> list[Batch]:
        """Write the loop over elements; returns what the reductions of free order come to."""
        with self._loop(start, stop) as (loop, odometer):
            carried = Carried(loop, 0 if odometer is None else len(self.axes))
            totals = self._round(carried, instructions, free, initial, self._place(loop, odometer))
            for column_sum in sums.values():
                value = column_sum.part.value
                assert value is not None
                element = self.f.sub(loop.index, self.start)
                column_sum.add(element, self.body.vectors(value, self.frame))
        return totals

    def _lane_by_lane(
        self, instructions: Numbered, free: list[Part], sums: Mapping[int, ColumnSum]
    ) -> list[Batch]:
        """Write the loop over elements for float sums that have their number of virtual lanes in common.

        Within a block it takes all elements of one virtual lane after the other, so that sums stay in registers.
        """
        f = self.f
        parts_ = [*free, *(s.part for s in sums.values())]
        shape = next(iter(sums.values()))
        self._clear_empty(sums)
        with f.loop(self.start, self.stop, shape.part.block) as blocks:
            carried = Carried(blocks)
            initial = [carried.add(self._initial(p)) for p in free]
            end = f.intrinsic("smin", "i64", f.add(blocks.index, i64(shape.part.block)), self.stop)
            with f.loop(i64(0), shape.used) as lanes:
                inside = Carried(lanes)
                totals = [inside.add(b) for b in initial]
                totals += [self._initial(s.part) for s in sums.values()]
                with f.loop(f.add(blocks.index, lanes.index), end, shape.part.row) as loop:
                    frame = self._at(loop.index, dict(zip(self.axes, self._positions(loop.index), strict=True)))
                    totals = self._round(Carried(loop), instructions, parts_, totals, frame)
                for k in range(len(free)):
                    inside.update(k, totals[k])
                for s, total in zip(sums.values(), totals[len(free) :], strict=True):
                    s.save(lanes.index, total)
            for k in range(len(free)):
                carried.update(k, inside.result(k))
            self._push_finished(sums, end, shape.part.block)
        self._finish(sums)
        return [carried.result(k) for k in range(len(free))]

    def _round(
        self, carried: Carried, instructions: Numbered, reduced: list[Part], initial: list[Batch], frame: Frame
    ) -> list[Batch]:
        """Write the body of a loop that carries accumulators; returns them as they are after the loop."""
        accumulators = [carried.add(b) for b in initial]
        self.body.run(instructions, frame)
        for k, p in enumerate(reduced):
            assert p.value is not None
            carried.update(k, p.absorb(accumulators[k], self.body.vectors(p.value, frame)))
        return [carried.result(k) for k in range(len(reduced))]

    def _positions(self, linear: Value) -> list[Value]:
        return [linear] if len(self.axes) == 1 else decode(self.f, linear, self.extents)

    def _in_blocks(
        self, instructions: Numbered, free: list[Part], sums: Mapping[int, ColumnSum]
    ) -> list[Batch]:
        """Write the loop over elements, in order, for float sums whose blocks differ."""
        f = self.f
        size = min(s.part.block for s in sums.values())
        self._clear_empty(sums)
        with f.loop(self.start, self.stop, size) as loop:
            carried = Carried(loop)
            initial = [carried.add(self._initial(p)) for p in free]
            end = f.intrinsic("smin", "i64", f.add(loop.index, i64(size)), self.stop)
            for s in sums.values():
                with self._where_block(s.part, f.sub(loop.index, self.start), size):
                    s.clear()
            after = self._rounds(instructions, free, initial, sums, loop.index, end)
            for k, batch in enumerate(after):
                carried.update(k, batch)
            self._push_finished(sums, end, size)
        self._finish(sums)
        return [carried.result(k) for k in range(len(free))]

    def _clear_empty(self, sums: Mapping[int, ColumnSum]) -> None:
        """Set the sums where there is no element, and so no block."""
        with self.f.if_(self.f.icmp("eq", self.count, i64(0)), likely=False):
            for s in sums.values():
                s.clear()

    def _push_finished(self, sums: Mapping[int, ColumnSum], end: Value, size: int) -> None:
        """Merge the blocks that end here, unless they are the last, which `ColumnSum.finish` takes."""
        f = self.f
        done = f.sub(end, self.start)
        with f.if_(f.icmp("slt", end, self.stop)):
            for s in sums.values():
                with self._where_block(s.part, done, size):
                    s.push(f.sub(f.lshr(done, i64(s.part.block.bit_length() - 1)), i64(1)))

    def _finish(self, sums: Mapping[int, ColumnSum]) -> None:
        last = self.f.intrinsic("smax", "i64", self.f.sub(self.count, i64(1)), i64(0))
        for s in sums.values():
            s.finish(self.f.lshr(last, i64(s.part.block.bit_length() - 1)))

    def _where_block(self, part: Part, element: Value, size: int) -> AbstractContextManager[None]:
        """Guard what happens only where a block of this sum begins or ends, in a loop by `size` elements."""
        if part.block == size:
            return nullcontext()
        f = self.f
        return f.if_(f.icmp("eq", f.and_(element, i64(part.block - 1)), i64(0)))

    def _final(self, free: list[Part], sums: Mapping[int, ColumnSum]) -> list[Batch]:
        """Write the loop over the rows that a partial phase left."""
        f = self.f
        last = f.intrinsic("smax", "i64", f.sub(self.stop, i64(1)), i64(0))
        for s in sums.values():
            s.clear()
        with f.loop(i64(0), self.stop) as chunks:
            carried = Carried(chunks)
            totals = [carried.add(self._initial(p)) for p in free]
            for s in sums.values():
                with f.loop(i64(0), i64(s.part.row)) as rows:
                    s.save(rows.index, self._load_lane(s.part, chunks.index, rows.index))
                with f.if_(f.icmp("slt", chunks.index, last)):
                    s.push(chunks.index)
            for k, p in enumerate(free):
                with f.loop(i64(0), i64(p.row)) as rows:
                    inside = Carried(rows)
                    total = inside.add(totals[k])
                    inside.update(0, p.join(total, self._load_lane(p, chunks.index, rows.index)))
                carried.update(k, inside.result(0))
        for s in sums.values():
            s.finish(last)
        return [carried.result(k) for k in range(len(free))]

    def _load_lane(self, part: Part, chunk: Value, lane: Value) -> Batch:
        operand = part.reduction.load_from
        assert operand is not None
        address = self._lane_address(operand, part.dtype, lane, {self.axes[0]: chunk})
        return self.body.memory.load_each(part.dtype, address, self.body.masks(None, self.frame))

    def _lane_address(self, operand: int, dtype: str, lane: Value, inner: Mapping[int, Value]) -> Address:
        address = self.frame.at(inner, ()).address(operand)
        address.base = self.f.offset(address.base, lane, MEMORY[dtype])
        return address

    def _deliver(self, part: Part, column_sum: ColumnSum | None, total: Batch | None) -> None:
        """Make a reduction's result a value, or store it as a row of virtual lanes."""
        operand = part.reduction.store_to
        if part.reduction.phase != "partial":
            done = total if column_sum is None else column_sum.fold()
            assert done is not None
            self.body.values[part.number] = done
            return
        assert operand is not None
        with self.f.loop(i64(0), i64(part.row)) as loop:
            if column_sum is not None:
                lane = column_sum.load(loop.index)
            else:
                # the first virtual lane has it all
                assert total is not None
                first = self.f.icmp("eq", loop.index, i64(0))
                lane = self.body.context.batch([
                    self.f.select(first, t, i) for t, i in zip(total.values, self._initial(part).values, strict=True)
                ])
            address = self._lane_address(operand, part.dtype, loop.index, {})
            self.body.memory.store_each(lane, part.dtype, address, self.body.masks(None, self.frame))

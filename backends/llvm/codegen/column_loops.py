"""Loops over inner axes in which every lane of a vector goes through its own column.

Owns: map and reduce stages of such kernels, the phases of their reductions, and the places of kept rows and
sums in scratch memory. Does not own the tree of float sums (`column_sums`).
"""
from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from jitfuse.backends.llvm.builder import Loop, Value
from jitfuse.backends.llvm.codegen.analysis import ROW_BYTES
from jitfuse.backends.llvm.codegen.body import Body
from jitfuse.backends.llvm.codegen.carried import Carried
from jitfuse.backends.llvm.codegen.column_sums import ColumnSum, used_lanes
from jitfuse.backends.llvm.codegen.combine import Part, Positions, State
from jitfuse.backends.llvm.codegen.frame import Address, Frame
from jitfuse.backends.llvm.codegen.layout import tree_sums
from jitfuse.backends.llvm.codegen.odometer import Odometer, decode
from jitfuse.backends.llvm.codegen.positions import parts
from jitfuse.backends.llvm.codegen.types import ITEMSIZE, MEMORY, i64
from jitfuse.backends.llvm.math.lockstep import Batch
from jitfuse.ir.kernel import CHUNK, Instr, Reduction
from jitfuse.records import Record

Numbered = list[tuple[int, Instr]]
_LINE = 64


def unrolled(
    body: Body, frame: Frame, instructions: Numbered, reductions: Sequence[tuple[int, Reduction]]
) -> None:
    """Write a stage at every point of a small static inner space."""
    axes = body.analysis.inner_axes
    extents = [range(body.analysis.form.axes[a].extent or 1) for a in axes]
    reduced = parts(reductions)
    columns: list[list[State]] = [[] for _ in reduced]
    body.scans.begin(instructions, frame.count)
    for number, point in enumerate(itertools.product(*extents)):
        at = frame.at({a: i64(p) for a, p in zip(axes, point, strict=True)}, ())
        body.run(instructions, at)
        for p, column in zip(reduced, columns, strict=True):
            assert p.value is not None
            column.append(p.of_element(body.vectors(p.value, at), number))
    for p, column in zip(reduced, columns, strict=True):
        body.values[p.number] = p.finished(_fold(p, column))


def _fold(part: Part, column: list[State]) -> State:
    """Combine few elements as the virtual lanes that they are."""
    while len(column) > 1:
        half = 1 << ((len(column) - 1).bit_length() - 1)
        joined = [part.merge(*pair) for pair in zip(column, column[half:], strict=False)]
        column = joined + column[len(joined) : half]
    return column[0]


class Contracted(Record, frozen=True):
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
        self.body.scans.begin(instructions, self.frame.count)
        self._rounds(instructions, [], [], {}, self.start, self.stop)

    def reduce(self, instructions: Numbered, reduced: list[Part]) -> None:
        """Write a stage with reductions."""
        self.body.scans.begin(instructions, self.frame.count)
        scans = any(i.op == "scan" for _, i in instructions)
        trees = [p for p in reduced if p.tree]
        free = [p for p in reduced if not p.tree]
        sums = {p.number: self._column_sum(p, k) for k, p in enumerate(trees)}
        if reduced[0].reduction.phase == "final":
            totals = self._final(free, sums)
        elif len({p.row for p in trees}) == 1 and not scans:
            totals = self._lane_by_lane(instructions, free, sums)
        elif trees:
            totals = self._in_blocks(instructions, free, sums)
        else:
            initial = [p.start(self._filled) for p in free]
            totals = self._rounds(instructions, free, initial, {}, self.start, self.stop)
        by_number = dict(zip([p.number for p in free], totals, strict=True))
        for p in reduced:
            self._deliver(p, sums.get(p.number), by_number.get(p.number))

    def _filled(self, dtype: str, value: float | int | bool) -> Batch:
        return self.body.memory.constant(dtype, value, self.frame.count)

    def _column_sum(self, part: Part, k: int) -> ColumnSum:
        f, size = self.f, ROW_BYTES * self.width
        whole = part.reduction.phase == "whole"
        used = used_lanes(self.body, part, self.count) if whole else i64(part.row)
        return ColumnSum(
            self.body, part, self.frame.count, f.offset(self._tiles, k * size), f.offset(self._levels, k * size),
            size * self._sums, used,
        )

    def _rounds(
        self, instructions: Numbered, free: list[Part], initial: list[State], sums: Mapping[int, ColumnSum],
        start: Value, stop: Value,
    ) -> list[State]:
        """Write the loop over elements; returns what the reductions of free order come to."""
        with self._loop(start, stop) as (loop, odometer):
            carried = Carried(loop, 0 if odometer is None else len(self.axes))
            frame = self._place(loop, odometer)
            totals = self._round(carried, instructions, free, initial, frame, loop.index)
            for column_sum in sums.values():
                value = column_sum.part.value
                assert value is not None
                element = self.f.sub(loop.index, self.start)
                column_sum.add(element, self.body.vectors(value, self.frame))
        return totals

    def _lane_by_lane(
        self, instructions: Numbered, free: list[Part], sums: Mapping[int, ColumnSum]
    ) -> list[State]:
        """Write the loop over elements for float sums that have their number of virtual lanes in common.

        Within a block it takes all elements of one virtual lane after the other, so that sums stay in registers.
        """
        f = self.f
        parts_ = [*free, *(s.part for s in sums.values())]
        shape = next(iter(sums.values()))
        self._clear_empty(sums)
        with f.loop(self.start, self.stop, shape.part.block) as blocks:
            carried = Carried(blocks)
            initial = [carried.add_all(p.start(self._filled)) for p in free]
            end = f.intrinsic("smin", "i64", f.add(blocks.index, i64(shape.part.block)), self.stop)
            with f.loop(i64(0), shape.used) as lanes:
                inside = Carried(lanes)
                totals = [inside.add_all(s) for s in initial]
                totals += [s.part.start(self._filled) for s in sums.values()]
                with f.loop(f.add(blocks.index, lanes.index), end, shape.part.row) as loop:
                    frame = self._at(loop.index, dict(zip(self.axes, self._positions(loop.index), strict=True)))
                    totals = self._round(Carried(loop), instructions, parts_, totals, frame, loop.index)
                inside.update_all(totals[: len(free)])
                for s, total in zip(sums.values(), totals[len(free) :], strict=True):
                    s.save(lanes.index, total[0])
            carried.update_all(inside.results(initial))
            self._push_finished(sums, end, shape.part.block)
        self._finish(sums)
        return carried.results(initial)

    def _round(
        self, carried: Carried, instructions: Numbered, reduced: list[Part], initial: list[State], frame: Frame,
        linear: Value,
    ) -> list[State]:
        """Write the body of a loop that carries states; returns them as they are after the loop."""
        states = [carried.add_all(s) for s in initial]
        self.body.run(instructions, frame)
        following = []
        for p, state in zip(reduced, states, strict=True):
            assert p.value is not None
            following.append(p.absorb(state, self.body.vectors(p.value, frame), self._everywhere(linear)))
        carried.update_all(following)
        return carried.results(initial)

    def _everywhere(self, linear: Value) -> Positions:
        """Return what makes vectors of the position along the inner axes, which all lanes share."""
        splat = self.f.splat
        return Positions(
            linear, lambda: self.body.context.batch([splat(linear, self.body.lanes)] * self.frame.count)
        )

    def _positions(self, linear: Value) -> list[Value]:
        return [linear] if len(self.axes) == 1 else decode(self.f, linear, self.extents)

    def _in_blocks(
        self, instructions: Numbered, free: list[Part], sums: Mapping[int, ColumnSum]
    ) -> list[State]:
        """Write the loop over elements, in order, for float sums whose blocks differ."""
        f = self.f
        size = min(s.part.block for s in sums.values())
        self._clear_empty(sums)
        with f.loop(self.start, self.stop, size) as loop:
            carried = Carried(loop)
            initial = [carried.add_all(p.start(self._filled)) for p in free]
            end = f.intrinsic("smin", "i64", f.add(loop.index, i64(size)), self.stop)
            for s in sums.values():
                with self._where_block(s.part, f.sub(loop.index, self.start), size):
                    s.clear()
            carried.update_all(self._rounds(instructions, free, initial, sums, loop.index, end))
            self._push_finished(sums, end, size)
        self._finish(sums)
        return carried.results(initial)

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

    def _final(self, free: list[Part], sums: Mapping[int, ColumnSum]) -> list[State]:
        """Write the loop over the rows that a partial phase left."""
        f = self.f
        last = f.intrinsic("smax", "i64", f.sub(self.stop, i64(1)), i64(0))
        for s in sums.values():
            s.clear()
        with f.loop(i64(0), self.stop) as chunks:
            carried = Carried(chunks)
            totals = [carried.add_all(p.start(self._filled)) for p in free]
            for s in sums.values():
                with f.loop(i64(0), i64(s.part.row)) as rows:
                    s.save(rows.index, self._load_lane(s.part, chunks.index, rows.index)[0])
                with f.if_(f.icmp("slt", chunks.index, last)):
                    s.push(chunks.index)
            merged = []
            for p, state in zip(free, totals, strict=True):
                with f.loop(i64(0), i64(p.reduction.partial_rows[0][1])) as rows:
                    inside = Carried(rows)
                    total = inside.add_all(state)
                    inside.update_all([p.merge(total, self._load_lane(p, chunks.index, rows.index))])
                merged += inside.results([state])
            carried.update_all(merged)
        for s in sums.values():
            s.finish(last)
        return carried.results(totals)

    def _load_lane(self, part: Part, chunk: Value, lane: Value) -> State:
        """Return a lane of what a chunk came to in the partial phase, for every column."""
        r, loaded = part.reduction, []
        for o, (dtype, _) in zip(r.load_from, r.partial_rows, strict=True):
            address = self._lane_address(o, dtype, lane, {self.axes[0]: chunk})
            loaded.append(self.body.memory.load_each(dtype, address, self.body.masks(None, self.frame)))
        return tuple(loaded)

    def _lane_address(self, operand: int, dtype: str, lane: Value, inner: Mapping[int, Value]) -> Address:
        address = self.frame.at(inner, ()).address(operand)
        address.base = self.f.offset(address.base, lane, MEMORY[dtype])
        return address

    def _deliver(self, part: Part, column_sum: ColumnSum | None, total: State | None) -> None:
        """Make a reduction's result a value, or store what the chunk comes to."""
        if part.reduction.phase == "partial":
            self._store_partial(part, column_sum, total)
            return
        if column_sum is not None:
            self.body.values[part.number] = column_sum.fold()
        else:
            assert total is not None
            self.body.values[part.number] = part.finished(total)

    def _store_partial(self, part: Part, column_sum: ColumnSum | None, total: State | None) -> None:
        """Store rows of virtual lanes; of what is in one lane, the first has it all."""
        r, start = part.reduction, part.start(self._filled)
        with self.f.loop(i64(0), i64(r.partial_rows[0][1])) as loop:
            if column_sum is not None:
                lane: State = (column_sum.load(loop.index),)
            else:
                assert total is not None
                first = self.f.icmp("eq", loop.index, i64(0))
                lane = tuple([t.context.batch([
                    self.f.select(first, v, w) for v, w in zip(t.values, s.values, strict=True)
                ]) for t, s in zip(total, start, strict=True)])
            for o, (dtype, _), x in zip(r.store_to, r.partial_rows, lane, strict=True):
                address = self._lane_address(o, dtype, loop.index, {})
                self.body.memory.store_each(x, dtype, address, self.body.masks(None, self.frame))

"""Loops over inner axes in which every lane of a vector goes through its own column.

Owns: map and reduce stages of such kernels. Does not own addresses (`column_addresses`), the tree of float sums
(`column_sums`), nor the loads and stores of reduction phases (`column_phases`).
"""
from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

from jitfuse.backends.llvm.codegen.carried import Carried
from jitfuse.backends.llvm.codegen.column_addresses import ColumnAddresses, Numbered
from jitfuse.backends.llvm.codegen.column_phases import final, store_partial
from jitfuse.backends.llvm.codegen.column_sums import ColumnSum
from jitfuse.backends.llvm.codegen.combine import Reduced, State
from jitfuse.backends.llvm.codegen.elements.types import i64
from jitfuse.backends.llvm.codegen.frame import VectorGroup
from jitfuse.backends.llvm.text.builder import Value
from jitfuse.ir.kernels.stages import POSITIONS


class ColumnVectors(ColumnAddresses):
    """The inner loops of one group of vectors of columns."""

    def map(self, instructions: Numbered) -> None:
        """Write a stage without reductions."""
        self.body.scans.begin(instructions, self.frame.count)
        self._iterations(instructions, [], [], {}, self.start, self.stop)

    def reduce(self, instructions: Numbered, reduced: list[Reduced]) -> None:
        """Write a stage with reductions."""
        self.body.scans.begin(instructions, self.frame.count)
        scans = any(i.op == "scan" for _, i in instructions)
        trees = [p for p in reduced if p.tree]
        free = [p for p in reduced if not p.tree]
        sums = {p.number: self.column_sum(p, k) for k, p in enumerate(trees)}
        if reduced[0].reduction.phase == "final":
            totals = final(self, free, sums)
        elif len({p.row for p in trees}) == 1 and not scans and not any(p.combine in POSITIONS for p in free):
            totals = self._lane_by_lane(instructions, free, sums)
        elif trees:
            totals = self._in_blocks(instructions, free, sums)
        else:
            initial = [p.start(self.filled) for p in free]
            totals = self._iterations(instructions, free, initial, {}, self.start, self.stop)
        by_number = dict(zip([p.number for p in free], totals, strict=True))
        for p in reduced:
            self._deliver(p, sums.get(p.number), by_number.get(p.number))

    def _iterations(
        self, instructions: Numbered, free: list[Reduced], initial: list[State], sums: Mapping[int, ColumnSum],
        start: Value, stop: Value,
    ) -> list[State]:
        """Write the loop over elements; returns the states of the reductions of free order."""
        with self.loop(start, stop) as (loop, odometer):
            carried = Carried(loop, 0 if odometer is None else len(self.axes))
            frame = self.group(loop, odometer)
            totals = self._round(carried, instructions, free, initial, frame, loop.index)
            for column_sum in sums.values():
                value = column_sum.part.value
                assert value is not None
                element = self.f.sub(loop.index, self.start)
                column_sum.add(element, self.body.vectors(value, self.frame))
        return totals

    def _lane_by_lane(
        self, instructions: Numbered, free: list[Reduced], sums: Mapping[int, ColumnSum]
    ) -> list[State]:
        """Write the loop over elements for float sums with equal numbers of virtual lanes.

        Within a block it visits all elements of one virtual lane before the next lane, so that sums stay in registers.
        Stages with position reductions or scans need another order.
        """
        f = self.f
        parts_ = [*free, *(s.part for s in sums.values())]
        shape = next(iter(sums.values()))
        self._clear_empty(sums)
        with f.loop(self.start, self.stop, shape.part.block) as blocks:
            carried = Carried(blocks)
            initial = [carried.add_all(p.start(self.filled)) for p in free]
            end = f.intrinsic("smin", "i64", f.add(blocks.index, i64(shape.part.block)), self.stop)
            with f.loop(i64(0), shape.used) as lanes:
                inside = Carried(lanes)
                totals = [inside.add_all(s) for s in initial]
                totals += [s.part.start(self.filled) for s in sums.values()]
                with f.loop(f.add(blocks.index, lanes.index), end, shape.part.row) as loop:
                    frame = self.at(loop.index, dict(zip(self.axes, self.positions(loop.index), strict=True)))
                    totals = self._round(Carried(loop), instructions, parts_, totals, frame, loop.index)
                inside.update_all(totals[: len(free)])
                for s, total in zip(sums.values(), totals[len(free) :], strict=True):
                    s.save(lanes.index, total[0])
            carried.update_all(inside.results(initial))
            self._push_finished(sums, end, shape.part.block)
        self._finish(sums)
        return carried.results(initial)

    def _round(
        self, carried: Carried, instructions: Numbered, reduced: list[Reduced], initial: list[State],
        frame: VectorGroup,
        linear: Value,
    ) -> list[State]:
        """Write the body of a loop that carries states; returns the states after the loop."""
        states = [carried.add_all(s) for s in initial]
        self.body.run(instructions, frame)
        following = []
        for p, state in zip(reduced, states, strict=True):
            assert p.value is not None
            following.append(p.absorb(state, self.body.vectors(p.value, frame), self.everywhere(linear)))
        carried.update_all(following)
        return carried.results(initial)

    def _in_blocks(
        self, instructions: Numbered, free: list[Reduced], sums: Mapping[int, ColumnSum]
    ) -> list[State]:
        """Write the loop over elements, in order, for float sums of different block sizes."""
        f = self.f
        size = min(s.part.block for s in sums.values())
        self._clear_empty(sums)
        with f.loop(self.start, self.stop, size) as loop:
            carried = Carried(loop)
            initial = [carried.add_all(p.start(self.filled)) for p in free]
            end = f.intrinsic("smin", "i64", f.add(loop.index, i64(size)), self.stop)
            for s in sums.values():
                with self._where_block(s.part, f.sub(loop.index, self.start), size):
                    s.clear()
            carried.update_all(self._iterations(instructions, free, initial, sums, loop.index, end))
            self._push_finished(sums, end, size)
        self._finish(sums)
        return carried.results(initial)

    def _clear_empty(self, sums: Mapping[int, ColumnSum]) -> None:
        """Clear the sums where there is no element, hence no block."""
        with self.f.if_(self.f.icmp("eq", self.count, i64(0)), likely=False):
            for s in sums.values():
                s.clear()

    def _push_finished(self, sums: Mapping[int, ColumnSum], end: Value, size: int) -> None:
        """Merge the blocks that end here, except the last ones, which `ColumnSum.finish` merges."""
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

    def _where_block(self, part: Reduced, element: Value, size: int) -> AbstractContextManager[None]:
        """Return a context for code that runs only where a block of this sum begins or ends, in steps of `size`."""
        if part.block == size:
            return nullcontext()
        f = self.f
        return f.if_(f.icmp("eq", f.and_(element, i64(part.block - 1)), i64(0)))

    def _deliver(self, part: Reduced, column_sum: ColumnSum | None, total: State | None) -> None:
        """Define a reduction's result as a value, or store the partial result of the chunk."""
        if part.reduction.phase == "partial":
            store_partial(self, part, column_sum, total)
            return
        if column_sum is not None:
            self.body.values[part.number] = column_sum.fold()
        else:
            assert total is not None
            self.body.values[part.number] = part.finished(total)

"""Kernels whose lanes run along the inner axes: reductions of rows, softmax, normalisation.

Owns: the loops of map and reduce stages at one grid point, whole groups of vectors first, then masked ones,
and the three phases of a reduction. Does not own the tree of float sums (`counter`).
"""
from __future__ import annotations

import functools
from collections.abc import Sequence

from jitfuse.backends.llvm.codegen.analysis import UNIT
from jitfuse.backends.llvm.codegen.body import KernelBody
from jitfuse.backends.llvm.codegen.carried import Carried
from jitfuse.backends.llvm.codegen.combine import Constant, Positions, Reduced, State
from jitfuse.backends.llvm.codegen.counter import Counter
from jitfuse.backends.llvm.codegen.elements.masks import tail_masks
from jitfuse.backends.llvm.codegen.elements.types import ITEMSIZE, MEMORY, REGISTER, i64
from jitfuse.backends.llvm.codegen.frame import VectorGroup
from jitfuse.backends.llvm.codegen.layout import ROW_PADDING
from jitfuse.backends.llvm.codegen.positions import parts
from jitfuse.backends.llvm.math.lockstep import Batch
from jitfuse.backends.llvm.text.builder import Value
from jitfuse.ir.kernels.stages import Instr, Reduction, Stage
from jitfuse.ir.kernels.sum_tree import CHUNK

Numbered = list[tuple[int, Instr]]

_CHAINS = 4
"""Vectors of accumulators of a reduction whose order does not matter."""


def emit_point(body: KernelBody, unit: VectorGroup, scratch: Value, vector_bytes: int) -> None:
    """Write all stages at one grid point, whose indices and addresses `unit` holds."""
    row = Row(body, unit, scratch, vector_bytes)
    for stage, instructions, reductions in body.analysis.form.numbered:
        row.stage(stage, instructions, reductions)


class Row:
    """The elements `start` up to `stop` of the inner index space at one grid point."""

    def __init__(
        self, body: KernelBody, unit: VectorGroup, scratch: Value, vector_bytes: int,
        bounds: tuple[Value, Value] | None = None, contracted: Value | None = None,
    ) -> None:
        """Take the bounds of the elements unless they are all, and where a contraction stored row 0."""
        self.body, self.unit, self.vector_bytes = body, unit, vector_bytes
        f = self.f = body.f
        self.lanes = body.lanes
        total = body.launch.inner_total
        self.start, self.stop = i64(0), total
        if bounds is not None:
            self.start, self.stop = bounds
        if body.analysis.partial:
            chunk = unit.indices[len(body.analysis.form.grid) - 1]
            self.start = f.mul(chunk, i64(CHUNK))
            self.stop = f.intrinsic("smin", "i64", f.add(self.start, i64(CHUNK)), total)
        self._keeps = []
        padded = f.and_(f.add(total, i64(ROW_PADDING - 1)), i64(-ROW_PADDING))
        before = 0
        for dtype in body.analysis.form.keeps:
            self._keeps.append(f.offset(scratch, f.mul(padded, i64(before))) if before else scratch)
            before += ITEMSIZE[dtype]
        if contracted is not None:
            self._keeps[0] = contracted

    def stage(self, stage: Stage, instructions: Numbered, reductions: Sequence[tuple[int, Reduction]]) -> None:
        """Write one stage, with the values that it computes once."""
        self.body.hoist(instructions, UNIT, self.unit)
        if stage.kind == "point" or not self.body.analysis.form.inner:
            return
        if not reductions:
            self.map(instructions)
            return
        reduced = parts(reductions)
        if reduced[0].reduction.phase == "final":
            self.final(reduced)
        else:
            self.reduce(instructions, reduced)

    def _frame(self, count: int, first: Value, masks: Sequence[Value] | None = None) -> VectorGroup:
        frame = self.unit.group(count, first, masks)
        dtypes = self.body.analysis.form.keeps
        frame.keeps = [self.f.offset(k, first, MEMORY[d]) for k, d in zip(self._keeps, dtypes, strict=True)]
        return frame

    def _masked(self, count: int, first: Value, stop: Value) -> VectorGroup:
        return self._frame(count, first, tail_masks(self.f, first, stop, self.lanes, count, self.vector_bytes))

    def _vectors(self, instructions: Numbered) -> int:
        """Return how many vectors a stage works on at once."""
        return self.body.analysis.vectors(self.vector_bytes, instructions)

    def _whole(self, start: Value, stop: Value, step: int) -> Value:
        """Return where the last whole step from `start` ends."""
        f = self.f
        return f.add(start, f.mul(f.udiv(f.sub(stop, start), i64(step)), i64(step)))

    def map(self, instructions: Numbered) -> None:
        """Write a stage without reductions."""
        self.body.scans.begin(instructions, 1)
        vectors = self._vectors(instructions)
        step = vectors * self.lanes
        whole = self.start
        if not self.body.analysis.masked_only:
            whole = self._whole(self.start, self.stop, step)
            with self.f.loop(self.start, whole, step) as loop:
                frame = self._frame(vectors, loop.index)
                self.body.split_at_bounds(instructions, functools.partial(self.body.run, instructions), frame)
        few = self.body.analysis.tail_vectors(vectors)
        with self.f.loop(whole, self.stop, few * self.lanes) as loop:
            self.body.run(instructions, self._masked(few, loop.index, self.stop))

    # ------------------------------------------------------------------ reductions
    def reduce(self, instructions: Numbered, reduced: list[Reduced]) -> None:
        """Write a stage with reductions in the whole or partial phase."""
        self.body.scans.begin(instructions, 1)
        trees = [p for p in reduced if p.tree]
        if not trees:
            count = self._step(instructions, reduced) // self.lanes
            initial = [p.start(self._filled(count)) for p in reduced]
            totals = self._accumulate(instructions, reduced, initial, self.start, self.stop)
        else:
            totals = self._reduce_in_blocks(instructions, reduced, trees)
        for p, total in zip(reduced, totals, strict=True):
            self._deliver(p, total)

    def _step(self, instructions: Numbered, reduced: list[Reduced]) -> int:
        """Return the elements of one step: a multiple of the virtual lanes of every float sum."""
        rows = [p.row for p in reduced if p.tree]
        return max(rows) if rows else self.lanes * min(_CHAINS, self._vectors(instructions))

    def _filled(self, vectors: int) -> Constant:
        return lambda dtype, value: self.body.memory.constant(dtype, value, vectors)

    def _reduce_in_blocks(self, instructions: Numbered, reduced: list[Reduced], trees: list[Reduced]) -> list[State]:
        f = self.f
        counters = {p.number: Counter(self.body, p) for p in trees}
        free = [p for p in reduced if not p.tree]
        step = self._step(instructions, reduced)
        size = min(p.block for p in trees)
        for counter in counters.values():
            counter.clear()
        with f.loop(self.start, self.stop, size) as loop:
            carried = Carried(loop)
            carry = {p.number: carried.add_all(p.start(self._filled(step // self.lanes))) for p in free}
            end = f.intrinsic("smin", "i64", f.add(loop.index, i64(size)), self.stop)
            initial = [(counters[p.number].load(),) if p.tree else carry[p.number] for p in reduced]
            sums = self._accumulate(instructions, reduced, initial, loop.index, end)
            by_number = dict(zip([p.number for p in reduced], sums, strict=True))
            for p in trees:
                counters[p.number].save(by_number[p.number][0])
                self._push_finished(counters[p.number], p, end, size)
            carried.update_all([by_number[p.number] for p in free])
        results = carried.results([carry[p.number] for p in free])
        carry = {p.number: state for p, state in zip(free, results, strict=True)}
        count = f.sub(self.stop, self.start)
        last = f.intrinsic("smax", "i64", f.sub(count, i64(1)), i64(0))
        return [
            (counters[p.number].total(f.lshr(last, i64(p.block.bit_length() - 1))),) if p.tree else carry[p.number]
            for p in reduced
        ]

    def _push_finished(self, counter: Counter, part: Reduced, end: Value, size: int) -> None:
        """Merge the block that ends here, except the last one, which `Counter.total` merges."""
        f = self.f
        more = f.icmp("slt", end, self.stop)
        done = f.sub(end, self.start)
        if part.block != size:
            whole = f.icmp("eq", f.and_(done, i64(part.block - 1)), i64(0))
            more = f.and_(more, whole)
        with f.if_(more):
            counter.push(f.sub(f.lshr(done, i64(part.block.bit_length() - 1)), i64(1)))

    def _accumulate(
        self, instructions: Numbered, reduced: list[Reduced], initial: list[State], start: Value, stop: Value
    ) -> list[State]:
        """Return the states after the elements from `start` to `stop`."""
        step = self._step(instructions, reduced)
        together = max(1, 1 << max(0, (self._vectors(instructions) * self.lanes // step).bit_length() - 1))
        whole = start
        state = [p.opened(x) for p, x in zip(reduced, initial, strict=True)]
        if not self.body.analysis.masked_only:
            whole = self._whole(start, stop, step * together)
            with self.f.loop(start, whole, step * together) as loop:
                frame = self._frame(step * together // self.lanes, loop.index)
                state = self._round(Carried(loop), instructions, reduced, state, frame)
        with self.f.loop(whole, stop, step) as loop:
            frame = self._masked(step // self.lanes, loop.index, stop)
            state = self._round(Carried(loop), instructions, reduced, state, frame)
        return [p.closed(s) for p, s in zip(reduced, state, strict=True)]

    def _round(
        self, carried: Carried, instructions: Numbered, reduced: list[Reduced], state: list[State], frame: VectorGroup
    ) -> list[State]:
        """Write the body of a loop that carries the state of every part; returns the state after the loop."""
        inside = [carried.add_all(s) for s in state]
        read = sorted({p.value for p in reduced if p.value is not None})
        self.body.split_at_bounds(instructions, functools.partial(self.body.run, instructions), frame, read)
        following: list[State] = []
        positions = Positions(frame.first, lambda: self.body.context.batch(frame.linear()))
        for p, s in zip(reduced, inside, strict=True):
            assert p.value is not None
            x = self.body.vectors(p.value, frame)
            if frame.masks is not None:
                x = x.where(self.body.context.batch(frame.masks), p.identity)
            following.append(p.gather(s, x, positions))
        carried.update_all(following)
        return carried.results(state)

    def _deliver(self, part: Reduced, total: State) -> None:
        r = part.reduction
        if r.phase != "partial":
            self.body.define(part.number, part.fold(total).values[0])
        elif len(r.store_to) == 1:
            row = self._as_row(part, total)
            self.body.memory.store_lanes(row, part.dtype, self.unit.pointers[r.store_to[0]])
        else:
            for o, (dtype, _), x in zip(r.store_to, r.partial_rows, part.folded(total), strict=True):
                self.body.memory.store_one(x.values[0], dtype, self.unit.pointers[o], None)

    def _as_row(self, part: Reduced, state: State) -> Batch:
        """Return accumulators as the W virtual lanes."""
        total, vectors = state[0], part.row // self.lanes
        if part.tree:
            return total
        if len(total.values) >= vectors:
            return part.absorb(part.start(self._filled(vectors)), total, Positions(i64(0), _no_positions))[0]
        (missing,) = part.start(self._filled(vectors - len(total.values)))
        return total.context.batch([*total.values, *missing.values])

    def final(self, reduced: list[Reduced]) -> None:
        """Write a stage that combines the rows that a partial phase stored."""
        f = self.f
        counters = {p.number: Counter(self.body, p) for p in reduced if p.tree}
        free = [p for p in reduced if not p.tree]
        for counter in counters.values():
            counter.clear()
        last = f.intrinsic("smax", "i64", f.sub(self.stop, i64(1)), i64(0))
        with f.loop(i64(0), self.stop) as loop:
            carried = Carried(loop)
            carry = [carried.add_all(p.start(self._of_chunk(p))) for p in free]
            rows = {p.number: self._load_chunk(p, loop.index) for p in reduced}
            carried.update_all([p.merge(c, rows[p.number]) for p, c in zip(free, carry, strict=True)])
            for number, counter in counters.items():
                counter.save(rows[number][0])
                with f.if_(f.icmp("slt", loop.index, last)):
                    counter.push(loop.index)
        totals = dict(zip([p.number for p in free], carried.results(carry), strict=True))
        for p in reduced:
            self._deliver(p, (counters[p.number].total(last),) if p.tree else totals[p.number])

    def _of_chunk(self, part: Reduced) -> Constant:
        """Return a maker of constants of the size of a chunk's partial result: W lanes, or one element."""
        if part.reduction.partial_rows[0][1] > 1:
            return self._filled(part.row // self.lanes)
        return lambda dtype, value: self.body.context.batch([self.f.const(REGISTER[dtype], value)])

    def _load_chunk(self, part: Reduced, chunk: Value) -> State:
        """Return a chunk's result of the partial phase."""
        r, memory = part.reduction, self.body.memory
        axis, = self.body.analysis.inner_axes
        loaded = []
        for o, (dtype, count) in zip(r.load_from, r.partial_rows, strict=True):
            pointer = self.body.launch.moved(self.unit.pointers[o], o, axis, chunk)
            if count > 1:
                loaded.append(memory.load_lanes(dtype, pointer, count // self.lanes))
            else:
                loaded.append(memory.load_one(dtype, pointer, None, pointer))
        return tuple(loaded)


def _no_positions() -> Batch:
    raise AssertionError("rows of lanes have no positions")

"""Arrays into which iterations write regions that move or stay: a re-rolled loop carries them and writes in place.

The `update_slice` ops of such an array form a chain through the iterations. In the loop only windows are left, read
when an iteration begins and written when it ends. A slice after a write of the same iteration either reads the value
written, or is disjoint from it and is read at the beginning. With any other slice there is no loop. Does not own the
windows (`jitfuse.ir.semantics.rerolled`), nor the body (`jitfuse.tracing.control.reroll.body`).
"""
from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from operator import mul

from jitfuse.base.records import NamedTuple
from jitfuse.ir.program import Attrs, Meta, make_attrs
from jitfuse.ir.semantics.rerolled import IterationWindow
from jitfuse.tracing.control.reroll.run import Carry, Inner, Iterations, NoLoopError, Outer


class MovingRegion(NamedTuple):
    """The region of a slice: counts, starts in the first iteration, steps, and how far the starts move in each."""

    counts: tuple[int, ...]
    starts: tuple[int, ...]
    steps: tuple[int, ...]
    moves: tuple[int, ...]

    def access(self, operand: int, shape: tuple[int, ...]) -> IterationWindow:
        """Return the region as a window of an array of this shape; one element is a window without axes."""
        strides = in_order(shape)
        offset, step = sum(map(mul, self.starts, strides)), sum(map(mul, self.moves, strides))
        if self.counts.count(1) == len(self.counts):
            return IterationWindow(operand, offset, step, 0, (), ())
        distances = tuple(map(mul, self.steps, strides))
        return IterationWindow(operand, offset, step, 0, self.counts, distances)

    def is_disjoint(self, other: MovingRegion, count: int) -> bool:
        """Return whether two regions are disjoint in each of `count` iterations, as far as one axis shows."""
        if 0 in self.counts or 0 in other.counts:
            return True
        for a, b in zip(self.extents(), other.extents(), strict=True):
            if _stays_below(a, b, count) or _stays_below(b, a, count):
                return True
        return False

    def extents(self) -> Iterator[tuple[int, int, int]]:
        """Yield for each axis the first and last index in the first iteration, and how far these move."""
        for n, start, step, by in zip(self.counts, self.starts, self.steps, self.moves, strict=True):
            ends = start, start + (n - 1) * step
            yield min(ends), max(ends), by

    def within(self, hull: MovingRegion) -> Attrs:
        """Return the region of a slice of `hull`, which moves as this one does, as attributes."""
        starts = tuple(a - b for a, b in zip(self.starts, hull.starts, strict=True))
        return make_attrs({"starts": starts, "counts": self.counts, "steps": self.steps})


def _stays_below(a: tuple[int, int, int], b: tuple[int, int, int], count: int) -> bool:
    """Return whether extents (first, last, move) of one axis lie below others in each of `count` iterations."""
    return all(a[1] + k * a[2] < b[0] + k * b[2] for k in (0, count - 1))


def hull_of(regions: Sequence[MovingRegion], shape: Sequence[int] | None = None) -> MovingRegion:
    """Return the smallest box around regions that move alike; rows are whole if the box contains most of one."""
    moves = regions[0].moves
    low, high = list(moves), list(moves)
    for axis, ends in enumerate(zip(*[list(r.extents()) for r in regions], strict=True)):
        low[axis], high[axis] = min(p[0] for p in ends), max(p[1] for p in ends)
        if shape is not None and axis and not moves[axis] and 2 * (high[axis] - low[axis] + 1) >= shape[axis]:
            low[axis], high[axis] = 0, shape[axis] - 1
    counts = tuple(b - a + 1 for a, b in zip(low, high, strict=True))
    return MovingRegion(counts, tuple(low), (1,) * len(moves), moves)


class UpdatedBox(NamedTuple):
    """The box of an array that is updated inside of an iteration, and the part of it that is written at the end."""

    hull: MovingRegion
    written: MovingRegion


@lru_cache(maxsize=1024)
def in_order(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of C order, in elements."""
    strides: list[int] = []
    stride = 1
    for extent in reversed(shape):
        strides.insert(0, stride)
        stride *= extent
    return tuple(strides)


class WrittenArrays:
    """The arrays into which a run writes moving regions; raises NoLoopError where a loop cannot carry them.

    With `still` also arrays whose regions stay, except for the `carried` ones.

    chains   for each array the phases of its updates in one iteration, in order
    number   phase of such an update -> the array
    windows  phase of a slice of such an array -> its region when the iteration begins
    values   phase of a slice -> the update of the same iteration that has written what it reads
    pieces   boxes of arrays of which an iteration reads again, in part, what it has written: it updates a piece of the
             array, and writes that at the end
    inside   phases of slices that read from these pieces
    """

    def __init__(self, run: Iterations, carried: Collection[Carry], *, still: bool) -> None:
        self.run = run
        self.chains: list[list[int]] = []
        self.number: dict[int, int] = {}
        self.windows: dict[int, MovingRegion] = {}
        self.values: dict[int, int] = {}
        self.pieces: dict[int, UpdatedBox] = {}
        self.inside: set[int] = set()
        self._read: dict[int, list[tuple[int, Sequence[int]]]] = {}
        self._regions: dict[int, MovingRegion] = {}
        for phase, op in enumerate(run.ops):
            if op.op_name == "update_slice" and (still or self.moves(phase)) and phase not in self.number:
                self._add(phase, carried)
        for phase, sources in enumerate(run.inputs):
            for slot, source in enumerate(sources):
                if isinstance(source, Inner) and source.phase in self.number:
                    self._check(phase, slot, source)
        for array, slices in self._read.items():
            if not all(self._resolve(phase, before) for phase, before in slices):
                self._update_inside(array, slices)
        resolved = self.windows.keys() | self.values.keys() | self.inside
        for phase, sources in enumerate(run.inputs):
            slices_ = run.ops[phase].op_name == "slice" and phase not in resolved
            if slices_ and self.moves(phase) and not isinstance(sources[0], Outer):
                raise NoLoopError

    def moves(self, phase: int) -> bool:
        """Return whether the region of a slice or update moves."""
        by = self.run.moves[phase]
        return by is not None and any(by)

    def region(self, phase: int) -> MovingRegion:
        """Return the region of a slice or update."""
        found = self._regions.get(phase)
        if found is None:
            by, attrs = self.run.moves[phase], self.run.op(phase, 0).attrs
            assert by is not None
            (_, counts), (_, starts), (_, steps) = attrs  # in alphabetical order
            found = self._regions[phase] = MovingRegion(counts, starts, steps, by)  # type: ignore[arg-type]
        return found

    def meta(self, array: int) -> Meta:
        """Return an array's shape and dtype."""
        return self.run.tensors.metas[self.run.ops[self.chains[array][-1]].result_ids[0]]

    def initial(self, array: int) -> int:
        """Return the tensor of an array before the loop."""
        return self.run.initial[self.chains[array][-1], 0, 1]

    def whole_axes(self) -> Iterator[tuple[int, int]]:
        """Yield the axes (array, axis) along which a piece is as long as its array."""
        for array, piece in self.pieces.items():
            for axis, (count, extent) in enumerate(zip(piece.hull.counts, self.meta(array).shape, strict=True)):
                if count == extent:
                    yield array, axis

    # ------------------------------------------------------------------ chains
    def _add(self, phase: int, carried: Collection[Carry]) -> None:
        last = self._target(self._chain(phase)[0]).phase
        chain = self._chain(last)
        if phase not in chain or self._target(chain[0]).phase != last:
            raise NoLoopError
        if (last, 0, 1) not in carried or any(map(self.moves, chain)):
            self.number.update(dict.fromkeys(chain, len(self.chains)))
            self.chains.append(chain)

    def _chain(self, phase: int) -> list[int]:
        """Return the updates of one iteration up to this one."""
        chain = [phase]
        while self._target(chain[0]).lag == 0:
            chain.insert(0, self._target(chain[0]).phase)
        return chain

    def _target(self, phase: int) -> Inner:
        """Return the source that an update updates."""
        source = self.run.inputs[phase][0] if self.run.ops[phase].op_name == "update_slice" else None
        if not isinstance(source, Inner) or source.lag > 1:
            raise NoLoopError
        return source

    # ------------------------------------------------------------------ reads
    def _check(self, phase: int, slot: int, source: Inner) -> None:
        """Record a read of such an array; raises NoLoopError for one that no window can replace."""
        array = self.number[source.phase]
        chain = self.chains[array]
        at_begin = source.lag == 1 and source.phase == chain[-1]
        if self.number.get(phase) == array and slot == 0:
            return
        if self.run.ops[phase].op_name == "slice" and (at_begin or not source.lag):
            before = [] if at_begin else chain[: chain.index(source.phase) + 1]
            self._read.setdefault(array, []).append((phase, before))
        elif not at_begin:
            raise NoLoopError

    def _resolve(self, phase: int, before: Sequence[int]) -> bool:
        """Find the one value or window that a slice reads after these updates; return False where there is none."""
        region = self.region(phase)
        for update in reversed(before):
            written = self.region(update)
            if written == region:
                self.values[phase] = update
                return True
            if not written.is_disjoint(region, self.run.count):
                return False
        self.windows[phase] = region
        return True

    def _update_inside(self, array: int, slices: Sequence[tuple[int, Sequence[int]]]) -> None:
        """Have iterations update a piece of an array."""
        written = [self.region(phase) for phase in self.chains[array]]
        moves = written[0].moves
        if any(region.moves != moves or 0 in region.counts for region in written):
            raise NoLoopError
        read = []
        for phase, before in slices:
            region = self.region(phase)
            if region.moves == moves and 0 not in region.counts:
                self.windows.pop(phase, None)
                self.values.pop(phase, None)
                self.inside.add(phase)
                read.append(region)
            elif not self._resolve(phase, before):
                raise NoLoopError
        shape = self.meta(array).shape
        self.pieces[array] = UpdatedBox(hull_of([*written, *read], shape), hull_of(written))

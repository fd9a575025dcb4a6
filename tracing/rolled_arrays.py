"""Arrays that iterations write into by regions that move on: a loop holds them and writes in place.

The `update_slice` ops of such an array are a chain from iteration to iteration, which disappears: what is left are
windows that are read when an iteration begins and written when it ends. A slice of what the same iteration has written
is the value written, or lies apart from it and is read in the beginning; anything else is no loop. Does not own the
windows (`jitfuse.ir.rolled`), nor the body (`jitfuse.tracing.rolled_body`).
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence

from jitfuse.ir.program import Meta
from jitfuse.ir.rolled import Access
from jitfuse.records import NamedTuple
from jitfuse.tracing.rolled_run import Inner, Iterations, NoLoopError, Outer, attr


class Region(NamedTuple):
    """The region of a slice: counts, starts in the first iteration, steps, and how far the starts move."""

    counts: tuple[int, ...]
    starts: tuple[int, ...]
    steps: tuple[int, ...]
    moves: tuple[int, ...]

    def access(self, operand: int, shape: Sequence[int]) -> Access:
        """Return the region as a window of an array of this shape."""
        strides = in_order(shape)
        offset, step = (sum(a * s for a, s in zip(by, strides, strict=True)) for by in (self.starts, self.moves))
        apart = tuple(a * s for a, s in zip(self.steps, strides, strict=True))
        return Access(operand, offset, step, 0, self.counts, apart)

    def apart(self, other: Region) -> bool:
        """Return whether two regions overlap in no iteration, as far as one axis tells."""
        if 0 in self.counts or 0 in other.counts:
            return True
        for (low, high, by), (low2, high2, by2) in zip(self._extents(), other._extents(), strict=True):
            if by == by2 and (high < low2 or high2 < low):
                return True
        return False

    def _extents(self) -> Iterator[tuple[int, int, int]]:
        for n, start, step, by in zip(self.counts, self.starts, self.steps, self.moves, strict=True):
            ends = start, start + (n - 1) * step
            yield min(ends), max(ends), by


def in_order(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of C order, in elements."""
    strides: list[int] = []
    stride = 1
    for extent in reversed(shape):
        strides.insert(0, stride)
        stride *= extent
    return tuple(strides)


class WrittenArrays:
    """The arrays that a run writes into by regions that move on; raises NoLoopError where they cannot be held.

    chains   for each array the phases of its updates in one iteration, in order
    number   phase of such an update -> the array
    windows  phase of a slice of such an array -> its region, as it is when the iteration begins
    values   phase of a slice -> the update of the same iteration that has written what it reads
    """

    def __init__(self, run: Iterations) -> None:
        self.run = run
        self.chains: list[list[int]] = []
        self.number: dict[int, int] = {}
        self.windows: dict[int, Region] = {}
        self.values: dict[int, int] = {}
        for phase, op in enumerate(run.ops):
            if op.op_name == "update_slice" and self.moves(phase) and phase not in self.number:
                self._add(phase)
        for phase, sources in enumerate(run.inputs):
            for slot, source in enumerate(sources):
                if isinstance(source, Inner) and source.phase in self.number:
                    self._check(phase, slot, source)
            slices = run.ops[phase].op_name == "slice" and phase not in self.windows and phase not in self.values
            if slices and self.moves(phase) and not isinstance(sources[0], Outer):
                raise NoLoopError

    def moves(self, phase: int) -> bool:
        """Return whether the region of a slice or update moves on."""
        by = self.run.moves[phase]
        return by is not None and any(by)

    def region(self, phase: int) -> Region:
        """Return the region of a slice or update."""
        op, by = self.run.op(phase, 0), self.run.moves[phase]
        assert by is not None
        return Region(attr(op, "counts"), attr(op, "starts"), attr(op, "steps"), by)

    def meta(self, array: int) -> Meta:
        """Return what an array looks like."""
        return self.run.place.metas[self.run.ops[self.chains[array][-1]].result_ids[0]]

    def initial(self, array: int) -> int:
        """Return the tensor that an array holds before the loop."""
        return self.run.initial[self.chains[array][-1], 0, 1]

    # ------------------------------------------------------------------ chains
    def _add(self, phase: int) -> None:
        last = self._target(self._chain(phase)[0]).phase
        chain = self._chain(last)
        if phase not in chain or self._target(chain[0]).phase != last:
            raise NoLoopError
        self.number.update(dict.fromkeys(chain, len(self.chains)))
        self.chains.append(chain)

    def _chain(self, phase: int) -> list[int]:
        """Return the updates of one iteration up to this one."""
        chain = [phase]
        while self._target(chain[0]).lag == 0:
            chain.insert(0, self._target(chain[0]).phase)
        return chain

    def _target(self, phase: int) -> Inner:
        """Return what an update updates."""
        source = self.run.inputs[phase][0] if self.run.ops[phase].op_name == "update_slice" else None
        if not isinstance(source, Inner) or source.lag > 1:
            raise NoLoopError
        return source

    # ------------------------------------------------------------------ reads
    def _check(self, phase: int, slot: int, source: Inner) -> None:
        """Find what a read of such an array comes to."""
        array = self.number[source.phase]
        chain = self.chains[array]
        at_begin = source.lag == 1 and source.phase == chain[-1]
        if self.number.get(phase) == array and slot == 0:
            return
        if self.run.ops[phase].op_name == "slice" and (at_begin or not source.lag):
            self._resolve(phase, [] if at_begin else chain[: chain.index(source.phase) + 1])
        elif not at_begin:
            raise NoLoopError

    def _resolve(self, phase: int, before: Sequence[int]) -> None:
        """Find what a slice reads after these updates of the same iteration."""
        region = self.region(phase)
        for update in reversed(before):
            written = self.region(update)
            if written == region:
                self.values[phase] = update
                return
            if not written.apart(region):
                raise NoLoopError
        self.windows[phase] = region

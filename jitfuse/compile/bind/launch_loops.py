"""The addresses of operands, iteration by iteration, in loops whose bodies are launches alone.

From the second iteration on, each address advances by a fixed distance or alternates between two buffers. Owns these
courses. Does not own which loops have them (`jitfuse.compile.bind.kernel_loops`), or the op
(`jitfuse.backends.llvm.runtime.op_sweeps`).
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jitfuse.base.records import NamedTuple
from jitfuse.compile.bind.steps import Location

Moves = Sequence[tuple[int, int, int]]
"""(value, the value whose address it takes, bytes added to that), in order."""

_KNOWN: Final = 4
"""Iterations that determine a course: the first one differs from the others."""


class Moving(NamedTuple):
    """A location in the second iteration: it advances by `step` bytes, or alternates with `turn` if there is one."""

    location: Location
    step: int
    turn: Location | None


class Course:
    """The locations of a loop's values: `starts` before it, then `moves`, `swaps` and `steps` after each iteration."""

    def __init__(self, starts: Moves, moves: Moves, swaps: Sequence[tuple[int, int]], steps: Moves) -> None:
        self._states: list[dict[int, Location]] = [_moved({}, starts)]
        while len(self._states) < _KNOWN:
            state = _moved(self._states[-1], moves)
            for a, b in swaps:
                state[a], state[b] = state[b], state[a]
            self._states.append(_moved(state, steps))

    def first(self, location: Location) -> Location:
        """Return a location in the first iteration."""
        return self._at(0, location)

    def after(self, location: Location) -> Moving:
        """Return a location in the second iteration, and how it changes after that."""
        a, b, c = (self._at(k, location) for k in range(1, _KNOWN))
        if a[0] == b[0] == c[0] and b[1] - a[1] == c[1] - b[1]:
            return Moving(a, b[1] - a[1], None)
        assert a == c, "operands move by steps, or between two places"
        return Moving(a, 0, b)

    def last(self, location: Location, count: int) -> Location:
        """Return a location after `count` iterations, at least one."""
        at, step, turn = self.after(location)
        if turn is not None:
            return at if count % 2 else turn
        return at[0], at[1] + (count - 1) * step

    def _at(self, k: int, location: Location) -> Location:
        value, offset = self._states[k].get(location[0], (location[0], 0))
        return value, offset + location[1]


def _moved(state: dict[int, Location], moves: Moves) -> dict[int, Location]:
    new = dict(state)
    for target, source, by in moves:
        value, offset = new.get(source, (source, 0))
        new[target] = value, offset + by
    return new

"""The passes along a chain as tables of records: one step is written, native code repeats it.

Owns the memory of each pass. Does not own the models (`chains.py`).
"""
from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np

from jitfuse.base.records import NamedTuple
from jitfuse.compile.objects.semiring_object import empty, run_records
from jitfuse.ir.semirings import words as r
from jitfuse.ir.semirings.loops import Operand, extremes, record_of

Move = tuple[int, int, int]
MOVES, SEEN, MESSAGES, SCALES = range(r.RESULT, r.RESULT + 4)
"""Numbers of memories: chances of moves, likelihoods of what was seen, the messages of one direction, their scales."""
STAY: Final = (0, 0, 0)
LONG: Final = 1 << 14
"""Numbers of what was seen from which on a thread is worth starting."""


class Ahead(NamedTuple):
    """A pass from the first step on.

    messages  [steps, states], or the last one alone, over their scales if they are probabilities
    scales    [steps], 1 where they are logs
    least     the smallest element but 0 of all messages over their scales
    """

    messages: np.ndarray
    scales: np.ndarray
    least: float


class Chain(NamedTuple):
    """A chain in one arithmetic.

    carrier  "sum_product" for probabilities, "log" or "max_sum" for logs
    first    of the states of the first step [states]
    moves    from a state to one [states, states]
    """

    carrier: str
    first: np.ndarray
    moves: np.ndarray

    def ahead(self, seen: np.ndarray, *, last_only: bool = False) -> Ahead:
        """Return the messages ahead: of step t what all steps up to it say of its state.

        Args:
            seen: of each step's state [steps, states], contiguous.
            last_only: only the last message is kept.
        """
        steps, states = seen.shape
        move = 0 if last_only else states
        messages = empty((1 if last_only else steps) * states, np.float64).reshape(-1, states)
        scales = np.ones((steps, 2))
        start = self.first + seen[0] if self.carrier != "sum_product" else self.first * seen[0]
        row, smallest = (1,), 1.0
        product, scaled = Operand(r.WORKSPACE, 0, row), Operand(r.WORKSPACE, states, row)
        out = Operand(MESSAGES, move, row)
        step = [(_moved(product, Operand(MESSAGES, 0, row), states), (0, 0, move))]
        if self.carrier == "sum_product":
            scale = _power_above(start.max())
            messages[0], scales[0, 0] = start / scale, scale
            smallest = float(messages[0][messages[0] > 0].min(initial=1.0))
            step += [(_times(scaled, product, Operand(SEEN, states, row), states), (0, 0, states)),
                     *_normalized(out, scaled, Operand(SCALES, 2, ()), states, (move, 0, 2), 2)]
        else:
            messages[0] = start
            step.append((_times(out, product, Operand(SEEN, states, row), states), (move, 0, states)))
        least = _run(self.carrier, _repeated(steps - 1, step), states, (self.moves, seen, messages, scales))
        return Ahead(messages, scales[:, 0], min(least, smallest))

    def behind(self, seen: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the messages back: of step t what all steps behind it say of its state, and their least element."""
        steps, states = seen.shape
        messages, row = empty(seen.size, np.float64).reshape(seen.shape), (1,)
        messages[-1] = self.carrier == "sum_product"
        end = (steps - 1) * states
        told, product = Operand(r.WORKSPACE, 0, row), Operand(r.WORKSPACE, states, row)
        out = Operand(MESSAGES, end - states, row)
        step = [(_times(told, Operand(SEEN, end, row), Operand(MESSAGES, end, row), states), (0, -states, -states))]
        if self.carrier == "sum_product":
            step += [(_moved(product, told, states), STAY),
                     *_normalized(out, product, Operand(SCALES, 0, ()), states, (-states, 0, 0), 0)]
        else:
            step.append((_moved(out, told, states), (-states, 0, 0)))
        memories = np.ascontiguousarray(self.moves.T), seen, messages, np.empty(2)
        least = _run(self.carrier, _repeated(steps - 1, step), states, memories)
        return messages, least

    def both(self, seen: np.ndarray) -> tuple[tuple[np.ndarray, float], Ahead]:
        """Return the messages back and ahead: long ones at the same time, as native code lets other threads run."""
        if seen.size < LONG:
            return self.behind(seen), self.ahead(seen)
        with ThreadPoolExecutor(1) as thread:
            job = thread.submit(self.behind, seen)
            found = self.ahead(seen)
            return job.result(), found


# ---------------------------------------------------------------------- records
def _times(out: Operand, a: Operand, b: Operand, states: int) -> np.ndarray:
    """Return the record of a product, element by element."""
    record = record_of(out, a, b, (states,))
    assert record is not None
    return record


def _moved(out: Operand, message: Operand, states: int) -> np.ndarray:
    """Return the record of a message's sum over the states that moves come from."""
    record = record_of(out._replace(strides=(1, 0)), Operand(MOVES, 0, (1, states)),
                       message._replace(strides=(0, 1)), (states, states))
    assert record is not None
    return record


def _normalized(
    out: Operand, a: Operand, scale: Operand, states: int, move: Move, scales: int
) -> list[tuple[np.ndarray, Move]]:
    """Return the records that divide a message by its scale; `move` is that of the second, `scales` the scale's own."""
    reciprocal = Operand(scale.memory, scale.first + 1, (0,))
    return [(extremes(scale, a, a, states, 1), (scales, 0, 0)), (_times(out, a, reciprocal, states), move)]


def _repeated(times: int, step: Sequence[tuple[np.ndarray, Move]]) -> np.ndarray:
    head = np.array([0, r.REPEAT, times, len(step), *(word for _, move in step for word in move)], np.int64)
    head[r.LENGTH] = len(head)
    return np.concatenate([head, *(record for record, _ in step)])


def _run(carrier: str, table: np.ndarray, states: int, memories: Sequence[np.ndarray]) -> float:
    """Run a repeated step over memories, and return the least element but 0 of messages over their scales."""
    return run_records(carrier, table, 1, np.empty(2 * states), memories[0], memories[1:],
                       one=float(carrier == "sum_product"))


def _power_above(number: float) -> float:
    """Return the power of two next above a number, 1 for 0."""
    return float(np.ldexp(1.0, np.frexp(number)[1])) if number > 0 else 1.0

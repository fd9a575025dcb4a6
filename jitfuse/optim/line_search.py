"""The search for a step length that meets the strong Wolfe conditions, as loops of a program.

The decisions are those of torch's `_strong_wolfe` (after Nocedal and Wright 2006, algorithms 3.5 and 3.6), so that both
evaluate the loss at the same points. Owns the search. Does not own the direction (`jitfuse.optim.lbfgs`).
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from jitfuse.control import while_loop

_np: Any = np  # its type hints omit traced arrays
_ENOUGH: Final = 1e-4
"""The share of the linear decrease that a step must reach."""
_FLAT: Final = 0.9
"""The share of the first slope that may be left."""
_NARROW: Final = 1e-9
"""The largest change of an element in a bracket that is not searched on."""
_SEARCHING, _BRACKETED, _FOUND, _ENDED = range(4)
"""What the first phase has come to."""
At = tuple[Any, Any, Any, Any]
"""A point on the line: the step length, the loss, the gradient, the slope."""


def strong_wolfe(
    evaluate: Callable[[Any], tuple[Any, Any]], d: Any, begin: At, t: Any, most: Any, wanted: Any
) -> tuple[Any, Any, Any, Any]:
    """Return a step length, the loss and the gradient there, and how often the loss was evaluated.

    `evaluate` returns the loss and its gradient at a step length along `d`; `begin` is the point at 0, `t` the first
    length to try, `most` the number of further ones. Without `wanted` nothing is evaluated.
    """
    def at(t: Any) -> At:
        loss, gradient = evaluate(t)
        return t, loss, gradient, _np.dot(gradient, d)

    def search(c: Any) -> Any:
        tried, last, (t, *_), _ = c
        new = at(t)
        found = _decided(begin, last, new, tried, most)
        goes_on = found == _SEARCHING
        then = _lowest(last, new, new[0] + 0.01 * (new[0] - last[0]), new[0] * 10.0)
        return (_np.where(goes_on, tried + 1, tried), _chosen(goes_on, new, last),
                (_np.where(goes_on, then, new[0]), *new[1:]), found)

    state = (0, begin, (t, *begin[1:]), _np.where(wanted, _SEARCHING, _FOUND))
    tried, last, new, found = while_loop(lambda c: c[3] == _SEARCHING, search, state)
    low = _chosen(found == _FOUND, new, _chosen(found == _ENDED, begin, last))
    count = _np.where(wanted, tried + 1, 0)
    tried, best = _zoomed(at, begin, (low, new), d, tried, most, found == _FOUND)
    return (*best[:3], count + tried)


def _decided(begin: At, last: At, new: At, tried: Any, most: Any) -> Any:
    """Return what the first phase has come to at a new point."""
    t, loss, _, slope = new
    higher = (loss > begin[1] + _ENOUGH * t * begin[3]) | ((tried > 1) & (loss >= last[1]))
    flat = abs(slope) <= -_FLAT * begin[3]
    found = _np.where(higher, _BRACKETED, _np.where(flat, _FOUND, _np.where(slope >= 0, _BRACKETED, _SEARCHING)))
    return _np.where(tried >= most, _ENDED, found)


def _zoomed(
    at: Callable[[Any], At], begin: At, bracket: tuple[At, At], d: Any, tried: Any, most: Any, found: Any
) -> tuple[Any, At]:
    """Return how many points the second phase has evaluated, and the best end of the bracket.

    The lower of the two ends is kept first.
    """
    size = _np.max(abs(d))

    def goes_on(c: Any) -> Any:
        low, high, count, _, done = c
        return ~done & (tried + count < most) & ~(abs(high[0] - low[0]) * size < _NARROW)

    def search(c: Any) -> Any:
        low, high, count, stuck, _ = c
        t, stuck = _between(low, high, stuck)
        new = at(t)
        worse = (new[1] > begin[1] + _ENOUGH * t * begin[3]) | (new[1] >= low[1])
        done = ~worse & (abs(new[3]) <= -_FLAT * begin[3])
        turns = ~worse & ~done & (new[3] * (high[0] - low[0]) >= 0)
        ends = _chosen(worse, low, new), _chosen(worse, new, _chosen(turns, low, high))
        return (*_ordered(*ends), count + 1, stuck, done)

    first = (*_ordered(*bracket), 0, found & ~found, found)
    low, _, count, *_ = while_loop(goes_on, search, first)
    return count, low


def _between(low: At, high: At, stuck: Any) -> tuple[Any, Any]:
    """Return the next length in a bracket, and whether it has come near an end: twice in turn, it is moved inside."""
    least, most = _np.minimum(low[0], high[0]), _np.maximum(low[0], high[0])
    t = _lowest(low, high, least, most)
    margin = 0.1 * (most - least)
    near = _np.minimum(most - t, t - least) < margin
    moved = near & (stuck | (t >= most) | (t <= least))
    inside = _np.where(abs(t - most) < abs(t - least), most - margin, least + margin)
    return _np.where(moved, inside, t), near & ~moved


def _lowest(one: At, two: At, least: Any, most: Any) -> Any:
    """Return where the cubic through two points is lowest, in bounds; their middle where it has no minimum."""
    (x1, f1, _, g1), (x2, f2, _, g2) = one, two
    d1 = g1 + g2 - 3.0 * (f1 - f2) / (x1 - x2)
    square = d1 * d1 - g1 * g2
    d2 = _np.sqrt(_np.maximum(square, 0.0))
    at = _np.where(x1 <= x2, x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2.0 * d2)),
                   x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2.0 * d2)))
    return _np.where(square >= 0, _np.minimum(_np.maximum(at, least), most), (least + most) / 2.0)


def _ordered(one: At, two: At) -> tuple[At, At]:
    """Return two points, the one of the lower loss first."""
    return _chosen(one[1] <= two[1], one, two), _chosen(one[1] <= two[1], two, one)


def _chosen(condition: Any, one: At, other: At) -> At:
    t, loss, gradient, slope = (_np.where(condition, a, b) for a, b in zip(one, other, strict=True))
    return t, loss, gradient, slope

"""Parts of arrays, read and written: slices, gathers and scatters."""
from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rule_cases import Case, both, case, uniform

SLICES = (
    {"starts": (1, 3), "steps": (1, -1), "counts": (2, 4)}, {"starts": (0, 0), "steps": (2, 3), "counts": (2, 2)},
    {"starts": (0, 0), "steps": (1, 1), "counts": (0, 5)},
)


@case("slice")
def _() -> Iterator[Case]:
    for attrs in SLICES:
        yield Case((uniform(-2, 2, (4, 5)),), attrs)
    yield Case((both(-2, 2, (4, 5)),), SLICES[0])


@case("update_slice")
def _() -> Iterator[Case]:
    for attrs in SLICES:
        yield Case((uniform(-2, 2, (4, 5)), uniform(-2, 2, attrs["counts"], 1)), attrs)
    yield Case((uniform(-2, 2, (4, 5)), uniform(-2, 2, (), 1)), SLICES[0])
    yield Case((uniform(-2, 2, (4, 5)), uniform(-2, 2, (4,), 1)), SLICES[0])
    yield Case((both(-2, 2, (4, 5)), both(-2, 2, (2, 4), 1)), SLICES[0])


@case("update_at")
def _() -> Iterator[Case]:
    yield Case((uniform(-2, 2, (3, 4)), uniform(-2, 2, (4,), 1), np.array(1)))
    yield Case((uniform(-2, 2, (2, 3, 4)), uniform(-2, 2, (4,), 1), np.array(4)))
    yield Case((uniform(-2, 2, (3,)), uniform(-2, 2, (), 1), np.array(2)))


INDEX, OTHER = np.array([[0, 2, 0], [1, 1, -1]]), np.array([3, 0, 3])


@case("gather")
def _() -> Iterator[Case]:
    x = uniform(-2, 2, (3, 4, 2))
    yield Case((x, np.array([0, 2, 0])), {"axes": (0,), "place": 0})
    yield Case((x, np.abs(INDEX), OTHER), {"axes": (0, 1), "place": 0})
    yield Case((x, np.array([1, 1])), {"axes": (2,), "place": 2})
    yield Case((both(-2, 2), np.array(1)), {"axes": (1,), "place": 1})


@case("take")
def _() -> Iterator[Case]:
    for mode in ("raise", "wrap", "clip"):
        index = np.array([0, 2, 0]) if mode == "raise" else np.array([5, -1, 0])
        yield Case((uniform(-2, 2), index), {"axis": 0, "mode": mode})
        yield Case((uniform(-2, 2), index), {"axis": -1, "mode": mode})


@case("take_along_axis")
def _() -> Iterator[Case]:
    yield Case((uniform(-2, 2, (3, 4)), np.array([[0, 0], [3, 1], [2, 2]])), {"axis": 1})
    yield Case((uniform(-2, 2, (3, 4)), np.array([[0, 2, 1, 1]])), {"axis": 0})
    yield Case((uniform(-2, 2, (1, 4)), np.array([[0, 0], [3, 1], [2, 2]])), {"axis": 1})


@case("scatter")
def _() -> Iterator[Case]:
    x, at = uniform(-2, 2, (3, 4)), {"axes": (0,), "place": 0}
    for combine in ("maximum", "minimum", "multiply"):
        attrs = {**at, "combine": combine}
        yield Case((x, uniform(-2, 2, (3, 4), 1), np.array([0, 2, 0])), attrs)
        yield Case((x, uniform(-2, 2, (4,), 1), np.array([0, 1])), attrs)
        yield Case((x, uniform(-2, 2, (3,), 1), np.array([0, 1, 0]), OTHER),
                   {"axes": (0, 1), "place": 0, "combine": combine})
    zeros, some = np.array([[0.0, 1, 0, 2], [3, 0, 0, 4], [0, 0, 5, 6]]), np.array([[1.0, 0, 2, 0]] * 3)
    yield Case((some, zeros, np.array([0, 0, 2])), {**at, "combine": "multiply"}, second=False)
    for combine in ("set", "add", "subtract"):
        attrs = {**at, "combine": combine}
        yield Case((x, uniform(-2, 2, (3, 4), 1), np.array([0, 2, 0])), attrs)
        yield Case((x, uniform(-2, 2, (), 1), np.array([0, 2, 0])), attrs)
        yield Case((x, uniform(-2, 2, (4,), 1), np.array([0, 0])), attrs, (1,))
        yield Case((x, uniform(-2, 2, (4,), 1), np.array([0, 0])), attrs, (0,))
        yield Case((x, uniform(-2, 2, (3,), 1), np.array([0, 1, 0]), OTHER),
                   {"axes": (0, 1), "place": 0, "combine": combine})
        yield Case((both(-2, 2), both(-2, 2, (3, 2), 1), np.array([1, 1])),
                   {"axes": (1,), "place": 1, "combine": combine})

"""Views, joins, pads and windows: the same elements in other places."""
from __future__ import annotations

from collections.abc import Iterator

from rule_cases import Case, both, case, uniform


@case("reshape")
def _() -> Iterator[Case]:
    yield Case((uniform(-2, 2),), {"shape": (2, 1, 6)})
    yield Case((both(-2, 2),), {"shape": (12,)})


@case("transpose")
def _() -> Iterator[Case]:
    yield Case((uniform(-2, 2, (2, 3, 4)),), {"axes": (2, 0, 1)})
    yield Case((both(-2, 2, (2, 3, 4)),), {"axes": (-2, 0, -1)})


@case("broadcast_to")
def _() -> Iterator[Case]:
    yield Case((uniform(-2, 2, (3, 1)),), {"shape": (2, 3, 4)})
    yield Case((uniform(-2, 2, ()),), {"shape": (2, 3)})
    yield Case((uniform(-2, 2, (1, 4)),), {"shape": (1, 4)})


@case("concat", "stack")
def _() -> Iterator[Case]:
    for axis in (0, 1):
        yield Case((uniform(-2, 2), uniform(-2, 2, (3, 4), 1), uniform(-2, 2, (3, 4), 2)), {"axis": axis})
    yield Case((uniform(-2, 2), uniform(-2, 2, (3, 4), 1)), {"axis": -1}, (1,))
    yield Case((both(-2, 2), uniform(-2, 2, (3, 4), 1)), {"axis": 0})


@case("windows")
def _() -> Iterator[Case]:
    x = uniform(-2, 2, (6, 7))
    for sizes, steps, dilations in (((2, 3), (1, 1), (1, 1)), ((2, 3), (2, 1), (1, 2)), ((3,), (2,), (2,)),
                                    ((6, 1), (1, 3), (1, 1))):
        yield Case((x,), {"sizes": sizes, "steps": steps, "dilations": dilations})
    yield Case((both(-2, 2, (5,)),), {"sizes": (2,), "steps": (1,), "dilations": (1,)})


@case("diagonal")
def _() -> Iterator[Case]:
    for shape, offset in (((3, 4), 0), ((3, 4), 2), ((4, 3), -1), ((2, 3, 3), 1), ((3, 4), 4)):
        yield Case((uniform(-2, 2, shape),), {"offset": offset})
    yield Case((both(-2, 2),), {"offset": 1})


@case("diag", "tril", "triu")
def _(name: str) -> Iterator[Case]:
    shape = (3,) if name == "diag" else (3, 4)
    for k in (-1, 0, 2):
        yield Case((uniform(-2, 2, shape),), {"k": k})
    yield Case((both(-2, 2, shape),), {"k": 0})


@case("roll")
def _() -> Iterator[Case]:
    yield Case((uniform(-2, 2),), {"shifts": (1, -9), "axes": (0, -1)})
    yield Case((both(-2, 2),), {"shifts": (2,), "axes": (1,)})


@case("tile")
def _() -> Iterator[Case]:
    yield Case((uniform(-2, 2),), {"reps": (2, 1, 3)})
    yield Case((uniform(-2, 2, ()),), {"reps": (3,)})


@case("repeat")
def _() -> Iterator[Case]:
    for axis in (0, -1):
        yield Case((uniform(-2, 2),), {"times": 3, "axis": axis})


@case("pad")
def _() -> Iterator[Case]:
    for mode in ("constant", "edge", "reflect", "symmetric", "wrap", "mean", "maximum", "minimum", "linear_ramp",
                 "median"):
        attrs = {"before": (1, 2), "after": (0, 3), "mode": mode, "lengths": (), "odd": False,
                 "values": (1, 2, 3, 4) if mode in ("constant", "linear_ramp") else ()}
        yield Case((uniform(-2, 2, (3, 4)),), attrs)
    yield Case((uniform(-2, 2, (3, 4)),), {**attrs, "mode": "reflect", "odd": True, "values": ()})

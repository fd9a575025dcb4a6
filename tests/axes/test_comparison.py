"""The comparison with the judge finds what is wrong: refusals, dtypes, values, copies, changed arguments."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from axes.compared import eager, find
from axes.patterns import Pattern
from axes.terms import Axis, Operation, Product

from jitfuse.errors import AxesError

a, b = Axis("a"), Axis("b")
ROWS = "np.asarray([[1, 2, 3], [4, 5, 6]], 'int8')"
SWAPPED = Pattern(Operation("rearrange", ((a, b),), ((b, a),), {}), (ROWS,), ("int8",), ((2, 3),), "")
MERGED = Pattern(Operation("view", ((a, b),), ((Product((a, b)),),), {}), (ROWS,), ("int8",), ((2, 3),), "")
SUMMED = Pattern(Operation("reduce", ((a, b),), ((a,),), {}, "sum"), (ROWS,), ("int8",), ((2, 3),), "")
PRODUCT = Pattern(Operation("contract", ((a, b), (a,)), ((b,),), {}, None, False), (ROWS, "np.ones(2, bool)"),
                  ("int8", "bool"), ((2, 3), (2,)), "")
ODD = Pattern(Operation("rearrange", ((Product((a, b)),),), ((b, a),), {"a": 2}), ("np.ones(3)",), ("float64",),
              ((3,),), "")


def refused(*_: Any) -> Any:
    raise AxesError("no_source", "no", help="")


def raised(*_: Any) -> Any:
    raise RuntimeError("no")


def changing(operation: Any, arrays: list[np.ndarray]) -> Any:
    found = operation(*arrays).copy()
    arrays[0][0, 0] = 100
    return found


def after(change: Callable[[Any], Any]) -> Callable[[Any, list[np.ndarray]], Any]:
    return lambda operation, arrays: change(operation(*arrays))


@pytest.mark.parametrize("pattern", [SWAPPED, MERGED, SUMMED, PRODUCT])
def test_right_results_are_fine(pattern: Pattern) -> None:
    assert find(pattern, eager).state == "fine"


@pytest.mark.parametrize("run", [refused, raised, changing, after(lambda x: (x,)), after(lambda x: x + 1),
                                 after(lambda x: x.astype("float64")), after(lambda x: x[..., None])])
@pytest.mark.parametrize("pattern", [SWAPPED, MERGED, SUMMED, PRODUCT])
def test_wrong_ones_are_found(pattern: Pattern, run: Any) -> None:
    assert find(pattern, run).state == "wrong"


def test_copies_are_no_views() -> None:
    assert find(MERGED, after(np.copy)).state == "wrong"


def test_due_errors_are_demanded() -> None:
    assert find(ODD, eager).state == "refused"
    assert find(ODD, raised).state == find(ODD, refused).state == "wrong"
    assert find(ODD, lambda operation, arrays: arrays[0]).state == "wrong"


@pytest.mark.parametrize("change", [np.abs, lambda x: x + 0.0, np.nan_to_num])
def test_signs_of_zeros_and_nan_move(change: Any) -> None:
    moved = SWAPPED._replace(arrays=("np.asarray([[-0.0, np.nan, 1.0]])",), dtypes=("float64",), shapes=((1, 3),))
    assert find(moved, eager).state == "fine"
    assert find(moved, after(change)).state == "wrong"

"""Joins along short last axes: kernels that store a cell at each point, every element from its own piece."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from amount import crossed
from oracle import EQUAL, Near, same

import jitfuse as jf
from jitfuse.plans import ProgramPlan
from jitfuse.plans.cells import LEAST_CELLS
from jitfuse.plans.launch import Launch

Plan = Callable[..., ProgramPlan]


def stacked(*parts: Any) -> Any:
    return np.stack(parts, axis=-1)


def computed(*parts: Any) -> Any:
    return np.stack([p + p for p in parts], axis=-1) * 2, np.dstack(parts[::-1]), parts[0] + parts[-1]


def of_unequal_pieces(*parts: Any) -> Any:
    return np.concatenate([np.stack(parts, axis=-1), parts[0][..., None], parts[-1][..., None]], axis=-1)


def nested(*parts: Any) -> Any:
    return np.stack([np.stack(parts[:2], -1), np.stack(parts[-2:], -1)], -2)


def updated(*parts: Any) -> Any:
    x = np.stack(parts, axis=-1).copy()
    x[..., 0] = parts[-1]
    x[1:, ..., -1] = 7
    x[..., ::-2] = x[..., ::-2] + x[..., :1]
    return x


def padded(*parts: Any) -> Any:
    x = np.stack(parts, axis=-1)
    return np.pad(x, [(0, 0)] * (x.ndim - 1) + [(1, 1)]), np.roll(x, 1, axis=-1), x * np.arange(x.shape[-1])


def reduced(*parts: Any) -> Any:
    x = np.stack(parts, axis=-1)
    return x, x.sum(axis=0), x.mean(axis=-1)


def read_by_index(*parts: Any) -> Any:
    x = np.stack(parts, axis=-1)
    return x[..., [-1, 0]], x[..., ::-1], x[..., 0], np.concatenate([x[..., 1:], x[..., :1]], axis=-1)


def of_rows(*parts: Any) -> Any:
    x = np.stack(parts, axis=-1)
    few = x[..., :1, :]
    return x * x[..., :1], few + few[..., ::-1], x.swapaxes(-1, -2) + x.swapaxes(-1, -2)[..., :1]


def written(out: Any, *parts: Any) -> None:
    out[...] = np.stack(parts, axis=-1)
    out[..., 0] += 1


FUNCTIONS = [stacked, computed, of_unequal_pieces, nested, updated, padded, reduced, read_by_index, of_rows]
WITHIN = {reduced: Near(1e-12, 1e-2)}


def parts_of(count: int, shape: tuple[int, ...], *dtypes: str) -> list[Any]:
    r = np.random.default_rng(0)
    return [r.integers(0, 50, shape).astype(dtypes[k % len(dtypes)]) for k in range(count)]


@pytest.mark.parametrize(("function", "dtypes"), crossed(2, FUNCTIONS, [
    ("float64",), ("float32",), ("int8",), ("uint16",), ("bool",), ("complex64",), ("float16",),
    ("float32", "int64"), ("uint8", "int8"), ("bool", "complex128"),
]))
def test_results_are_numpys(function: Callable[..., Any], dtypes: tuple[str, ...]) -> None:
    for count, shape in ((2, (1000,)), (3, (65, 3)), (4, (LEAST_CELLS,)), (2, (0,)), (3, (5,))):
        parts = parts_of(count, shape, *dtypes)
        if dtypes == ("bool",) and function is updated:
            parts = [p.astype("int32") for p in parts]
        same(jf.fuse(function)(*parts), function(*parts), WITHIN.get(function, EQUAL))


@pytest.mark.parametrize("count", [1, 2, 3, 5, 6, 7, 12, 15, 16, 17])
def test_any_number_of_pieces(count: int) -> None:
    fused = jf.fuse(stacked)
    for n in (1, 63, 64, 300):
        parts = parts_of(count, (n,), "float32")
        same(fused(*parts), stacked(*parts), EQUAL)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_pieces_in_memory_of_any_layout(function: Callable[..., Any]) -> None:
    x = np.arange(200.0 * 60).reshape(200, 60)
    half, repeated = x[:100], np.broadcast_to(x[3], (100, 60))
    for a, b in ((x[::2, ::-1], x[1::2]), (np.asfortranarray(half), half), (half, repeated)):
        same(jf.fuse(function)(a, b), function(a, b), WITHIN.get(function, EQUAL))
    column = np.ones((500, 4))
    same(jf.fuse(function)(column[:, 1], column[::-1, 2]), function(column[:, 1], column[::-1, 2]), EQUAL)


@pytest.mark.parametrize("place", [
    lambda: np.zeros((300, 2)), lambda: np.zeros((300, 5))[:, 1:3], lambda: np.zeros((600, 2))[::-2],
    lambda: np.zeros((2, 300)).T, lambda: np.zeros((300, 4))[:, ::2],
])
def test_cells_are_written_into_arguments(place: Callable[[], Any]) -> None:
    parts = parts_of(2, (300,), "float32", "int32")
    for _ in range(2):
        got, want = place(), place()
        jf.fuse(written)(got, *parts)
        written(want, *parts)
        same(got, want, EQUAL)


def launches(plan: ProgramPlan) -> list[Launch]:
    return plan.best().launches


def cells(plan: ProgramPlan) -> list[int]:
    """Return the elements of the cells that the only kernel of a plan stores."""
    (launch,) = launches(plan)
    return [o.cell for o in launch.form.operands if o.out]


def polar(r: Any, phi: Any) -> Any:
    return np.stack([r * np.cos(phi), r * np.sin(phi)], axis=-1)


def test_pieces_are_computed_in_the_kernel_that_joins_them(plan_of: Plan) -> None:
    x = np.ones(1000)
    plan = plan_of(polar, x, x)
    assert cells(plan) == [2] and plan.best().arena_bytes == 0
    (launch,) = launches(plan)
    operators = [i.op for s in launch.form.stages for i in s.body]
    assert operators.count("cos") == operators.count("sin") == 1 and "where" not in operators


def test_several_results_are_cells_of_one_kernel(plan_of: Plan) -> None:
    image = np.ones((40, 50), "uint8")
    assert cells(plan_of(lambda r, g, b: np.dstack([r, g, b]), image, image, image)) == [3]
    assert cells(plan_of(lambda r, g: (np.dstack([r, g]), np.dstack([g, r])), image, image)) == [2, 2]
    assert cells(plan_of(nested, image, image)) == [4]


def test_rows_that_are_not_one_loop_are_cells(plan_of: Plan) -> None:
    x, w = np.ones((100, 3)), np.ones(3)
    for function in (lambda x, w: x * w, lambda x, w: x[:, ::-1] + x[:, :1], lambda x, w: x[:, :1] + w):
        assert cells(plan_of(function, x, w)) == [3]
    assert cells(plan_of(lambda x, w: x[:, :2] + 1, x, w)) == [2]
    assert cells(plan_of(lambda x, w: x.transpose(1, 2, 0).copy(), np.ones((3, 20, 30)), w)) == [3]
    assert cells(plan_of(lambda x, w: x * w, np.ones((100, 5)), np.ones(5))) == [1]
    assert cells(plan_of(lambda x, w: x[5:25, 3:9] * 2, np.ones((30, 30, 3)), w)) == [1]


def test_joins_elsewhere_have_no_cells(plan_of: Plan) -> None:
    x = np.ones((100, 3))
    assert cells(plan_of(lambda x: x * 2, x)) == [1]
    assert cells(plan_of(lambda x: np.concatenate([x, x]), x)) == [1]
    assert cells(plan_of(lambda x: np.stack([x, x], axis=-1), x[: LEAST_CELLS // 3])) == [1]
    assert cells(plan_of(lambda x: np.concatenate([x, x], axis=1), np.ones((100, 9)))) == [1]


def test_long_cells_are_for_pieces_alone(plan_of: Plan) -> None:
    def curved(*parts: Any) -> Any:
        x = stacked(*parts)
        return np.exp(x) ** 1.5 + np.log(x)

    parts = [np.full(100, k) for k in range(8)]
    assert cells(plan_of(stacked, *parts)) == [8]
    assert cells(plan_of(curved, *parts)) == [1]
    assert cells(plan_of(updated, np.ones((100, 9)))) == [1]
    assert cells(plan_of(curved, *parts[:3])) == [3]


def test_one_kernel_for_all_numbers_of_cells(plan_of: Plan) -> None:
    forms = set()
    for shape in ((64,), (1000,), (300, 7), (5, 6, 7)):
        forms |= {launch.form for launch in launches(plan_of(polar, np.ones(shape), np.ones(shape)))}
    assert len(forms) == 1

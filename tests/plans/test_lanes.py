"""Which axis vector lanes run along: that along which fewer arrays are gone over element by element."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from amount import crossed
from oracle import EQUAL, NORMALISED, same

import jitfuse as jf
from jitfuse.plans import ProgramPlan

Plan = Callable[..., ProgramPlan]


def weighted(a: Any, w: Any) -> Any:
    return (a * w[:, None]).sum(axis=0)


def masked(a: Any, w: Any) -> Any:
    return np.where(w[:, None] > 0, a, 0).max(axis=0, initial=-1), (w[:, None] * a > 1).any(axis=0)


def normalised(a: Any, w: Any) -> Any:
    e = np.exp(a - w[:, None])
    return e / e.sum(axis=0)


def running(a: Any, w: Any) -> Any:
    return np.cumsum(a * w[:, None], axis=0), np.argmin(a + w[:, None], axis=0)


def of_rows(a: Any, w: Any) -> Any:
    return (a.T * w).sum(axis=1), (a * a[::-1]).sum(axis=1)


FUNCTIONS = [weighted, masked, normalised, running, of_rows]


@pytest.mark.parametrize(("function", "shape", "dtype"), crossed(
    2, FUNCTIONS, [(1, 1), (5, 1), (1, 7), (33, 3), (40, 17), (9, 300), (600, 70)], ["float64", "float32", "int32"]))
def test_results_are_numpys(function: Callable[..., Any], shape: tuple[int, int], dtype: str) -> None:
    r = np.random.default_rng(0)
    a, w = (r.integers(-3, 4, s).astype(dtype) for s in (shape, shape[0]))
    turned = a[::-1, ::-1], w[::-1]
    for x, y in ((a, w), turned, (np.asfortranarray(a), w), (np.broadcast_to(a[:1], shape), w)):
        within = NORMALISED if function is normalised else EQUAL
        same(jf.fuse(function)(x, y), function(x, y), within)


@pytest.mark.parametrize("function", [weighted, normalised])
def test_bits_are_the_same_in_either_order_of_memory(function: Callable[..., Any]) -> None:
    r = np.random.default_rng(1)
    a, w = r.normal(size=(301, 65)), r.normal(size=301)
    a[3, 5], a[7], a[:, 9] = np.nan, -0.0, 0.0
    fused = jf.fuse(function)
    np.testing.assert_array_equal(fused(a, w), fused(np.asfortranarray(a), w))


def lanes_on_grid(plan: ProgramPlan) -> bool:
    (launch,) = plan.best().launches
    return launch.form.lane_axis < len(launch.form.grid)


def test_lanes_run_along_columns_that_are_adjacent(plan_of: Plan) -> None:
    a, w = np.ones((50, 40)), np.ones(50)
    assert lanes_on_grid(plan_of(weighted, a, w))
    assert not lanes_on_grid(plan_of(weighted, np.asfortranarray(a), w))
    assert lanes_on_grid(plan_of(lambda a, w: (a * w).sum(axis=1), a.T, w))
    assert not lanes_on_grid(plan_of(lambda a, w: (a * w).sum(axis=1), a, w[:40]))


def test_lanes_run_along_rows_where_neither_is_better(plan_of: Plan) -> None:
    a = np.ones((50, 50))
    assert not lanes_on_grid(plan_of(lambda a, b: (a * b.T).sum(axis=1), a, a + 1))


def test_short_rows_a_few_elements_apart_are_shuffled(plan_of: Plan) -> None:
    assert not lanes_on_grid(plan_of(weighted, np.ones((50, 3)), np.ones(50)))


def test_columns_of_a_reshaped_row_are_adjacent(plan_of: Plan) -> None:
    (launch,) = plan_of(lambda x: x[:320].reshape(5, 64).sum(axis=0), np.ones(640)).best().launches
    assert launch.form.operands[0].strides == ("1", "n")


def test_tiny_reductions_of_tiny_reductions_are_all_written_out(plan_of: Plan) -> None:
    def chain(a: Any, f: Any) -> Any:
        for i in range(3):
            a = (a.reshape(2, -1, 2, 1) * f[i]).sum(axis=0).reshape(-1)
        return a

    launches = plan_of(chain, np.ones(4096), np.ones((3, 2, 1, 2, 2))).best().launches
    assert [launch.form.inner for launch in launches] == [()] * 3


def test_two_columns_are_no_lanes_for_a_loop(plan_of: Plan) -> None:
    plan = plan_of(lambda a, f: (a * f).sum(axis=0), np.ones((2, 2, 1024, 1)), np.ones((2, 2, 1, 2)))
    assert [launch.form.inner for launch in plan.best().launches] == [()]

"""Products written in other ways: chains in their cheapest order, diagonals alone, products with vectors as sums."""
from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse.plans import ProgramPlan
from jitfuse.plans.algebra import regrouped, vectors_summed

Plan = Callable[..., ProgramPlan]


def products(plan: ProgramPlan) -> int:
    """Return the products that a regrouped program forms."""
    program = regrouped(plan.program)
    total = 0
    for step in program.steps:
        if step.op_name == "matmul":
            a, b = (program.meta[i].shape for i in step.input_ids)
            total += math.prod(a) * (b[-1] if len(b) > 1 else 1)
    return total


def least(extents: tuple[int, ...]) -> int:
    """Return the least products of a chain by trying every order."""
    if len(extents) < 3:
        return 0
    return min(
        least(extents[: k + 1]) + least(extents[k:]) + extents[0] * extents[k] * extents[-1]
        for k in range(1, len(extents) - 1)
    )


@pytest.mark.parametrize("extents", list(itertools.product((2, 8, 32), repeat=4))[::5])
def test_chains_take_the_fewest_products(extents: tuple[int, ...], plan_of: Plan) -> None:
    a, b, c = (np.ones(s) for s in itertools.pairwise(extents))
    for function in (lambda a, b, c: (a @ b) @ c, lambda a, b, c: a @ (b @ c)):
        assert products(plan_of(function, a, b, c)) == least(extents)


def test_what_is_needed_elsewhere_is_formed_as_written(plan_of: Plan) -> None:
    a, b, c = np.ones((50, 4)), np.ones((4, 50)), np.ones((50, 2))
    for function in (lambda a, b, c: (a @ b, a @ b @ c), lambda a, b, c: np.exp(a @ b) @ c):
        plan = plan_of(function, a, b, c)
        assert regrouped(plan.program) is plan.program


def test_a_column_that_serves_as_a_row_stays(plan_of: Plan) -> None:
    plan = plan_of(lambda a, v, b: (a @ v) @ b, np.ones((50, 40)), np.ones(40), np.ones((50, 2)))
    assert regrouped(plan.program) is plan.program


def test_products_with_vectors_are_sums(plan_of: Plan) -> None:
    plan = plan_of(lambda a, v: a @ v + 1, np.ones((50, 40)), np.ones(40))
    assert not [s for s in vectors_summed(plan.program).steps if s.op_name == "matmul"]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_all_ways_agree_with_numpy(dtype: str) -> None:
    rng = np.random.default_rng(0)

    def filled(*shape: int) -> Any:
        return (rng.standard_normal(shape) * 9).astype(dtype)

    a, b, c, v, w = filled(31, 5), filled(5, 40), filled(40, 6), filled(40), filled(31)
    functions: list[Callable[..., Any]] = [
        lambda a, b, c, v, w: a @ b @ c, lambda a, b, c, v, w: a @ b @ v, lambda a, b, c, v, w: w @ (a @ b),
        lambda a, b, c, v, w: w @ a @ b @ v, lambda a, b, c, v, w: np.diagonal((a @ b)[:, :31]),
        lambda a, b, c, v, w: np.diag(c.T @ (b.T @ b) @ c), lambda a, b, c, v, w: np.diagonal(a @ b, -3),
        lambda a, b, c, v, w: np.diagonal(a @ b, 12) * 2, lambda a, b, c, v, w: v @ v + (a @ b @ v) @ w,
        lambda a, b, c, v, w: np.stack([a, a]) @ b @ v,
    ]
    for function in functions:
        expected, result = function(a, b, c, v, w), jf.fuse(function)(a, b, c, v, w)
        assert result.dtype == expected.dtype
        tolerance = 1e-4 if dtype == "float32" else 1e-12
        np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint32", "int64", "uint64"])
def test_products_with_vectors_wrap_as_numpys_do(dtype: str) -> None:
    rng = np.random.default_rng(1)

    def filled(*shape: int) -> Any:
        return (rng.random(shape) * np.iinfo(dtype).max).astype(dtype)

    a, b, w, v = filled(31, 5), filled(5, 40), filled(31), filled(40)
    functions: list[Callable[..., Any]] = [
        lambda a, b, w, v: w @ a, lambda a, b, w, v: (w @ a) @ (b @ v), lambda a, b, w, v: w @ a @ b,
        lambda a, b, w, v: a.T @ w, lambda a, b, w, v: (w @ a)[::2] + (b @ v)[1::-1].sum(),
    ]
    for function in functions:
        expected = function(a, b, w, v)
        for result in (jf.fuse(function)(a, b, w, v), jf.fuse(function)(np.asfortranarray(a), b.copy("F"), w, v)):
            assert result.dtype == expected.dtype
            np.testing.assert_array_equal(result, expected)


def test_explained_variance_in_one_kernel(plan_of: Plan) -> None:
    plan = plan_of(lambda q, g: np.diag(q.T @ g @ q), np.ones((300, 20)), np.ones((300, 300)))
    assert len(plan.lower().steps) == 1

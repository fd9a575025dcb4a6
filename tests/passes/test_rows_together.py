"""Products of single rows with one matrix are a product of matrices."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from amount import crossed

import jitfuse as jf
from jitfuse.backends.interpreter.runner import ProgramRunner
from jitfuse.passes.pipeline import run_passes
from jitfuse.tracing.tracer import trace

SHAPES = [(3, 1, 5), (4, 3, 1, 5), (3, 1, 1, 5), (1, 1, 5), (1, 1, 1, 1), (0, 1, 5), (3, 1, 0), (33, 7, 1, 5)]


def product(a: Any, b: Any) -> Any:
    return a @ b


def of_reshaped(a: Any, b: Any) -> Any:
    rows = int(np.prod(a.shape[:-1]))
    flat = a.reshape(rows, a.shape[-1])
    return (flat.reshape(rows, 1, a.shape[-1]) @ b).reshape(flat.shape[0], b.shape[-1])


def of_computed(a: Any, b: Any) -> Any:
    return np.maximum((a * 2 + a[..., ::-1]) @ (b + b), 0).sum(axis=-1)


def chained(a: Any, b: Any) -> Any:
    return a @ b @ b.T


FUNCTIONS = [product, of_reshaped, of_computed, chained]


def passed(function: Callable[..., Any], *args: Any) -> Any:
    return run_passes(trace(function, args, {}).program, False)


@pytest.mark.parametrize(("function", "shape", "dtype"), crossed(
    2, FUNCTIONS, SHAPES, ["float64", "float32", "int64", "complex128", "bool"]))
def test_results_are_numpys(function: Callable[..., Any], shape: tuple[int, ...], dtype: str) -> None:
    r = np.random.default_rng(0)
    a, b = (r.integers(-3, 4, s).astype(dtype) for s in (shape, (shape[-1], 4)))
    for x, y in ((a, b), (a[..., ::-1], b[::-1]), (np.broadcast_to(a[:1], a.shape), b)):
        want = function(x, y)
        program = passed(function, x, y)
        interpreted = ProgramRunner(program)(dict(zip(program.ordered_feeds, (x, y), strict=True)))
        for got in (jf.fuse(function)(x, y), *interpreted.outputs.values()):
            assert got.dtype == want.dtype and got.shape == want.shape
            np.testing.assert_array_equal(got, want)


def test_bits_are_those_of_each_row_alone() -> None:
    r = np.random.default_rng(1)
    a, b = r.normal(size=(9, 1, 300)), r.normal(size=(300, 6))
    a[2, 0, 7], a[3] = np.nan, -0.0
    fused = jf.fuse(product)
    np.testing.assert_array_equal(fused(a, b)[:, 0], jf.fuse(lambda a, b: a @ b)(a[:, 0], b))


def test_rows_are_put_together_where_one_matrix_multiplies_them() -> None:
    def shapes(program: Any) -> list[tuple[int, ...]]:
        return [program.meta[i].shape for s in program.steps if s.op_name == "matmul" for i in s.input_ids]

    one, b = np.ones((4, 3, 1, 5)), np.ones((5, 2))
    assert shapes(passed(product, one, b)) == [(4, 3, 5), (5, 2)]
    assert shapes(passed(product, np.ones((3, 1, 1, 5)), b)) == [(3, 5), (5, 2)]
    assert shapes(passed(product, np.ones((3, 1, 5)), np.ones((3, 5, 2)))) == [(3, 1, 5), (3, 5, 2)]
    assert shapes(passed(product, np.ones((1, 5)), b)) == [(1, 5), (5, 2)]
    assert sum(s.op_name == "reshape" for s in passed(of_reshaped, np.ones((4, 3, 5)), b).steps) == 1

"""Joins of many parts become writes, which mean the same; short joins stay."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from amount import crossed

import jitfuse as jf
from jitfuse.ir.analysis.verify import verify
from jitfuse.passes.array.joins import write_parts
from jitfuse.passes.pipeline import run_passes

KINDS = [np.sin, lambda v: v * v + 1, lambda v: v - 0.5, lambda v: v > 0]
ORDER = [k * 29 % 61 for k in range(61)]


def _values(x: Any, count: int) -> list[Any]:
    return [KINDS[k % 7 % 4](x[ORDER[k]]) for k in range(count)]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "numbers": lambda x: np.array(_values(x, 40)),
    "numbers_of_python": lambda x: np.array([x[3], 2, -0.0, math.nan, *_values(x, 30)]) * 2,
    "constants_alone": lambda x: np.array([0.5 * k for k in range(40)]) + x[0],
    "columns": lambda x: np.concatenate([v.reshape(1, 1) for v in _values(x, 40)], axis=1).T + x[:3],
    "rows_of_two": lambda x: np.array([[v, v * 2] for v in _values(x, 40)]),
    "stack": lambda x: np.stack(_values(x, 33)),
    "parts_of_all_lengths": lambda x: np.concatenate([x[k : 2 * k % 7 + k] * k for k in range(30)]),
    "columns_of_all_widths": lambda x: np.concatenate(
        [x.reshape(1, -1)[:, k : 2 * k % 3 + k] for k in range(30)] + [np.ones((1, 2))], axis=-1),
    "nothing": lambda x: np.concatenate([x[:0]] * 20),
    "written_to": lambda x: _written(np.array(_values(x, 36)), x),
}


def _written(y: Any, x: Any) -> Any:
    y[3:30] *= x[3:30]
    return y, y[::-1].sum()


@pytest.mark.parametrize(("name", "dtype"), crossed(
    2, FUNCTIONS, ["float64", "float32", "float16", "int8", "uint64", "bool", "complex128"]))
def test_results_are_numpys(name: str, dtype: str) -> None:
    x = (np.arange(61) % 5 - 2).astype(dtype)
    function = FUNCTIONS[name]
    try:
        expected = function(x)
    except TypeError as error:
        with pytest.raises(TypeError):
            jf.fuse(function)(x)
        assert "bool" in dtype, error
        return
    found = jf.fuse(function)(x)
    for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (found, expected)), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=2e-3 if dtype in ("float16", "int8") else 1e-6)


def test_the_pass_keeps_bits(traced: Callable[..., Any], assert_same: Callable[..., None]) -> None:
    for function in FUNCTIONS.values():
        t = traced(function, np.linspace(-1, 1, 61))
        program = write_parts(t.program)
        verify(program)
        assert_same(t.run(program), t.run(t.program))


def test_short_joins_stay(traced: Callable[..., Any]) -> None:
    def names(function: Callable[..., Any]) -> set[str]:
        return {s.op_name for s in run_passes(traced(function, np.linspace(-1, 1, 61)).program, False).steps}

    assert "concat" in names(lambda x: np.array(_values(x, 15)))
    assert "concat" not in names(lambda x: np.array(_values(x, 16)))
    assert "concat" not in names(lambda x: np.concatenate([x[k : k + 2] for k in range(40)]))


def test_joined_parts_keep_their_bits() -> None:
    x = np.array([-0.0, np.nan, -np.inf, 5e-324, 0.0, -np.nan] * 7)

    def function(x: np.ndarray) -> np.ndarray:
        return np.concatenate([x[k : k + 2] for k in range(0, 40, 2)])

    assert jf.fuse(function)(x).tobytes() == function(x).tobytes()

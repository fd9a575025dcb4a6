"""Random programs of Python loops over arrays, fused against plain NumPy, bit by bit, over several sizes and dtypes.

JITFUSE_TEST_SCALE multiplies the number of programs.
"""
from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loops_drawn import HEADER, loop_programs

import jitfuse as jf

SCALE = float(os.environ.get("JITFUSE_TEST_SCALE", "1"))
SIZES = (3, 4, 7, 12)
DTYPES = ("float64", "float64", "float32", "int64")


def arguments(n: int, dtype: str, seed: int) -> tuple[Any, ...]:
    """Return two vectors, a matrix and indices."""
    rng = np.random.default_rng(seed)
    a, b, m = ((rng.integers(-30, 30, shape) / 8).astype(dtype) for shape in (n, n, (n, n)))
    return a, b, m, rng.integers(0, n, n)


def outcome(function: Callable[..., Any], given: tuple[Any, ...]) -> tuple[Any, Any]:
    """Return what a call returns or raises, and what its arguments are afterwards."""
    try:
        return function(*given), given
    except (ValueError, TypeError, IndexError) as error:
        return [base for base in (ValueError, TypeError, IndexError) if isinstance(error, base)], None


def same(found: Any, expected: Any, where: str) -> None:
    """Compare types, dtypes, shapes and bits."""
    if isinstance(expected, dict):
        assert list(found) == list(expected), where
        found, expected = list(found.values()), list(expected.values())
    if isinstance(expected, list | tuple):
        assert type(found) is type(expected) and len(found) == len(expected), where
        for k, (f, e) in enumerate(zip(found, expected, strict=True)):
            same(f, e, f"{where}[{k}]")
    elif isinstance(expected, np.ndarray | np.generic):
        assert type(found) is type(expected), where
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape), where
        np.testing.assert_array_equal(found, expected, err_msg=where)
    else:
        assert type(found) is type(expected) and found == expected, where


def check(source: str, n: int, dtype: str, seed: int) -> None:
    """Run a program plain and fused, twice each with different data, and once with another size."""
    space: dict[str, Any] = {"np": np, "__name__": "drawn"}
    exec(compile(source, "<drawn>", "exec"), space)
    function = space["program"]
    fused = jf.fuse(function)
    with warnings.catch_warnings(action="ignore"):
        for k, size in enumerate((n, n, n + 1)):
            plain = arguments(size, dtype, seed + k)
            fed = copy.deepcopy(plain)
            expected, found = outcome(function, plain), outcome(fused, fed)
            same(found, expected, f"call {k} of\n{source}\n")


@settings(max_examples=int(30 * SCALE), deadline=None, suppress_health_check=list(HealthCheck))
@given(source=loop_programs(), n=st.sampled_from(SIZES), dtype=st.sampled_from(DTYPES), seed=st.integers(0, 2**16))
def test_programs_of_loops(source: str, n: int, dtype: str, seed: int) -> None:
    check(source, n, dtype, seed)


def test_programs_of_loops_that_are_rerolled() -> None:
    """The same loops with so many rounds that they are found again in the trace."""
    for k, step in enumerate(("a[i] = q(a[i - 1] * 0.5 + b[i])", "m[i] = q(m[i - 1] - b * 0.5)",
                              "acc[i] = q(m[i, :i].sum()); s = q(s + acc[i])", "b[1:] = q(b[:-1] + a[i])")):
        lines = "\n".join(f"        {part}" for part in step.split("; "))
        source = f"{HEADER}    for i in range(1, n - 1):\n{lines}\n    return a, b, m, acc, s\n"
        check(source, 70, "float64", k)

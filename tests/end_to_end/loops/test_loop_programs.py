"""Random programs of Python loops over arrays, fused against plain NumPy, bit by bit, over several sizes and dtypes.

JITFUSE_TEST_SCALE multiplies the number of programs.
"""
from __future__ import annotations

from typing import Any

import numpy as np
import oracle
import pytest
from amount import drawn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loops_drawn import HEADER, loop_programs

SIZES = (3, 4, 7, 12)
DTYPES = ("float64", "float64", "float32", "int64")


def arguments(n: int, dtype: str, seed: int) -> tuple[Any, ...]:
    """Return two vectors, a matrix and indices."""
    rng = np.random.default_rng(seed)
    a, b, m = ((rng.integers(-30, 30, shape) / 8).astype(dtype) for shape in (n, n, (n, n)))
    return a, b, m, rng.integers(0, n, n)


def check(source: str, n: int, dtype: str, seed: int) -> None:
    """Run a program plain and fused, twice each with different data, and once with another size."""
    space: dict[str, Any] = {"np": np, "__name__": "drawn"}
    exec(compile(source, "<drawn>", "exec"), space)
    function = space["program"]
    calls = [arguments(size, dtype, seed + k) for k, size in enumerate((n, n, n + 1))]
    oracle.check(function, *calls, errors=(ValueError, TypeError, IndexError), compiled=False, times=1)


@pytest.mark.full
@settings(max_examples=drawn(12), deadline=None, suppress_health_check=list(HealthCheck))
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

"""Functions that a kernel calls have the bits of those that are written out."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse.backends.llvm.math import FUNCTIONS, repeated
from jitfuse.backends.llvm.math.shared import FROM


def test_which_functions_are_called() -> None:
    operators = ["sin"] * FROM + ["exp"] * (FROM - 1) + ["sqrt"] * FROM + ["add"] * FROM
    assert repeated(operators, FUNCTIONS) == {"sin"}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["sin", "tan", "exp", "log1p", "power", "hypot", "remainder"])
def test_bits_of_called_functions(name: str, dtype: str) -> None:
    function: Any = getattr(np, name)
    edges = [0.0, -0.0, 1e300 if dtype == "float64" else 1e30, np.inf, np.nan, 5e-324, -3.0]
    x = np.concatenate([np.linspace(-4, 4, 1001), edges]).astype(dtype)
    shifts = [k * 0.125 for k in range(FROM)]

    def once(x: Any) -> Any:
        return function(x, x + 0.5) if function.nin == 2 else function(x)

    with np.errstate(all="ignore"):
        together = jf.fuse(lambda x: tuple(once(x + s) for s in shifts))(x)
        alone = [jf.fuse(lambda x, s: once(x + s))(x, s) for s in shifts]
    for a, b in zip(together, alone, strict=True):
        np.testing.assert_array_equal(np.asarray(a).view("u1"), np.asarray(b).view("u1"))

"""The comparison of what a split function returns with what the function itself does."""
from __future__ import annotations

from typing import Any

import numpy as np


def same(found: Any, expected: Any) -> None:
    """Compare results: types, dtypes, shapes and bits."""
    if isinstance(expected, dict):
        assert type(found) is dict and found.keys() == expected.keys()
        for key in expected:
            same(found[key], expected[key])
    elif isinstance(expected, list | tuple):
        assert type(found) is type(expected) and len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            same(a, b)
    elif isinstance(expected, np.ndarray | np.generic):
        assert type(found) is type(expected), (type(found), type(expected))
        assert found.dtype == expected.dtype and found.shape == expected.shape
        np.testing.assert_array_equal(found, expected)
    else:
        assert type(found) is type(expected) and (found == expected or found is expected or found != found)


def checked(fused: Any, function: Any, calls: int, largest: float, late: int) -> int:
    """Compare so many calls with arrays and tolerances of different sizes; return the traces of those after `late`."""
    rng = np.random.default_rng(3)
    before = 0
    for k in range(calls):
        x, tol = np.round(rng.random(3) * rng.choice([1, 50, largest]), 3), float(rng.choice([0.01, 1.0, 30.0]))
        same(fused(x.copy(), tol), function(x.copy(), tol))
        if k == late:
            before = fused.stats()["traces"]
    return int(fused.stats()["traces"] - before)

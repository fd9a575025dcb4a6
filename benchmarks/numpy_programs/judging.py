"""How far one program's results are from another's: arrays in any nesting."""
from __future__ import annotations

from typing import Any

import numpy as np


def difference(expected: Any, actual: Any) -> float:
    """Return the largest difference relative to the largest magnitude of its array; inf where something else differs.

    Shapes, dtypes, nesting, integers and what is not finite must be equal.
    """
    if isinstance(expected, tuple | list):
        if not isinstance(actual, tuple | list) or len(actual) != len(expected):
            return float("inf")
        return max((difference(e, a) for e, a in zip(expected, actual)), default=0.0)
    if isinstance(expected, dict):
        if not isinstance(actual, dict) or list(actual) != list(expected):
            return float("inf")
        return max((difference(e, actual[k]) for k, e in expected.items()), default=0.0)
    if expected is None or actual is None:
        return 0.0 if expected is actual else float("inf")
    e, a = np.asarray(expected), np.asarray(actual)
    if e.shape != a.shape or e.dtype != a.dtype:
        return float("inf")
    if e.dtype.kind not in "fc" or not e.size:
        return 0.0 if np.array_equal(e, a) else float("inf")
    finite = np.isfinite(e)
    if not np.array_equal(e[~finite], a[~finite], equal_nan=True) or not np.isfinite(a[finite]).all():
        return float("inf")
    scale = np.max(np.abs(e[finite]), initial=0.0)
    return float(np.max(np.abs(e[finite] - a[finite]), initial=0.0) / (scale or 1.0))

"""Loops that are replicated or vectorised, against plain Python: results, errors, and what is written."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from oracle import LOOPS, ULPS, check


def replicated(function: Callable[..., Any], *arrays: np.ndarray[Any, Any]) -> None:
    """Compare three calls with different elements."""
    calls = [tuple((a * factor).astype(a.dtype) for a in arrays) for factor in (1, 2, 1)]
    check(function, *calls, within=LOOPS, errors=Exception, compiled=False, times=1)


def vectorised(function: Callable[..., Any], *arguments: Any) -> None:
    """Compare two calls."""
    check(function, arguments, within=ULPS, errors=Exception, compiled=False)

"""Loops that are captured, replicated or vectorised, against plain Python: results, errors, and what is written."""
from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from oracle import LOOPS, ULPS, check, outcome, same, same_outcome


def replicated(function: Callable[..., Any], *arrays: np.ndarray[Any, Any]) -> None:
    """Compare three calls with different elements."""
    calls = [tuple((a * factor).astype(a.dtype) for a in arrays) for factor in (1, 2, 1)]
    check(function, *calls, within=LOOPS, errors=Exception, compiled=False, times=1)


def vectorised(function: Callable[..., Any], *arguments: Any) -> None:
    """Compare two calls."""
    check(function, arguments, within=ULPS, errors=Exception, compiled=False)


def agrees(fused: Any, program: Callable[..., Any], args: Any) -> None:
    """Compare a fused function's call with plain Python's: the result or error, and what is written."""
    expected, found = copy.deepcopy(args), copy.deepcopy(args)
    result = outcome(program, *expected)
    same_outcome(outcome(fused, *found), result)
    same(found, args if isinstance(result, Exception) else expected)  # written as a whole or not at all

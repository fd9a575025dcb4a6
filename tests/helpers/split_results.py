"""Split functions against plain Python: each call of the fused function must do what the function itself does."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from oracle import arguments, outcome, outcome_without_warnings, same, same_outcome

import jitfuse as jf


def check(
    function: Callable[..., Any], *calls: Any, iterations: int = 3, writes: bool = True,
    budget: jf.Budget | None = None,
) -> jf.FusedFunction:
    """Run a function fused and plain on several calls, all of them so many times; return the fused function."""
    fused = jf.fuse(function, budget=budget)
    for _ in range(iterations):
        for call in calls:
            args = call if isinstance(call, tuple) else (call,)
            plain, ours = arguments(args), arguments(args)
            want, got = outcome(function, *plain), outcome_without_warnings(fused, *ours)
            assert not isinstance(want, Exception) or type(got) is type(want), (got, want)
            assert str(got).split("\n")[0] == str(want).split("\n")[0] or not isinstance(want, Exception)
            same_outcome(got, want)
            if not isinstance(want, Exception) and writes:
                same(ours, plain)
    return fused


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

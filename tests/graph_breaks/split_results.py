"""The comparison of what a split function returns with what the function itself does."""
from __future__ import annotations

from typing import Any

import numpy as np
from oracle import same


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

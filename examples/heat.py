"""Heat flow on a plate: one fused kernel for each time step, writing into the caller's array.

    python examples/heat.py [size] [steps]
"""
from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

import jitfuse as jf


def step(u: Any, conductivity: float) -> Any:
    """Advance the temperatures `u` (n, n) by one step; the rim keeps its temperature."""
    inner = u[1:-1, 1:-1]
    flow = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * inner
    result = u.copy()
    result[1:-1, 1:-1] = inner + conductivity * flow
    return result


def simulate(advance: Any, size: int, steps: int) -> tuple[Any, float]:
    """Return the final temperatures and the seconds that all steps after the first took."""
    u = np.zeros((size, size), np.float32)
    u[0] = 100.0  # one hot edge
    u = advance(u, 0.2)
    start = time.perf_counter()
    for _ in range(steps - 1):
        u = advance(u, 0.2)
    return u, time.perf_counter() - start


if __name__ == "__main__":
    size, steps = (int(a) for a in (*sys.argv[1:], *("2000", "50")[len(sys.argv) - 1 :]))
    fused = jf.fuse(step)
    plain, plain_seconds = simulate(step, size, steps)
    fast, fast_seconds = simulate(fused, size, steps)
    print(f"NumPy {plain_seconds:.3f} s, jitfuse {fast_seconds:.3f} s")
    print("bit for bit equal:", bool((plain == fast).all()))
    print(fused.stats())

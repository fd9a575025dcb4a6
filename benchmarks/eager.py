"""What functions and operators of eager arrays (`jf.asarray`) cost beyond the library below, on 16 elements.

usage: eager.py [numpy | torch] [PART OF AN EXPRESSION]

Prints nanoseconds for each expression of `eager_rows.py` that takes more than 2,000 ns beyond what NumPy, or torch,
takes for the same, the worst first, and how many these are; with a part of an expression all that have it. Each is the
least of many rounds that alternate between the two.
"""
from __future__ import annotations

import operator
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from eager_rows import GROUPS, NUMPY, TORCH

import jitfuse as jf

ROUNDS, CALLS, LIMIT = 25, 40, 2000


def best(calls: list[Callable[[], Any]]) -> list[float]:
    """Return the least nanoseconds of each call over rounds in which all take their turn."""
    least = [float("inf")] * len(calls)
    for _ in range(ROUNDS):
        for k, call in enumerate(calls):
            begin = time.perf_counter_ns()
            for _ in range(CALLS):
                call()
            least[k] = min(least[k], (time.perf_counter_ns() - begin) / CALLS)
    return least


def arrays() -> dict[str, Any]:
    """Return NumPy's arrays by the names that expressions have for them."""
    x = np.linspace(0.1, 1, 16)
    m = np.random.default_rng(1).normal(size=(4, 4)) + 4 * np.eye(4)
    i = np.arange(16)
    return {
        "x": x, "y": x[::-1].copy(), "i": i, "j": i % 5 + 1, "b": x < 0.5, "m": m, "p": m + 1, "h": m @ m.T + np.eye(4),
        "c": m[:, :1].copy(), "r": x.reshape(1, 16), "t": np.array([1.0, 2.0, 3.0]), "k": np.array([0, 2, 1]),
        "s": np.array(1.5), "w": x.copy(), "v": i.copy(), "u": m.copy(), "one": np.ones(16), "unit": np.eye(4),
    }


def measured(backend: str, only: str) -> list[tuple[float, float, str, str]]:
    """Return nanoseconds beyond the backend's own, those of the backend, the kind and the expression, of each row."""
    held: dict[str, Any] = arrays()
    library: Any = np
    own = NUMPY
    if backend == "torch":
        import torch

        library, own = torch, TORCH
        held = {name: torch.from_numpy(value) for name, value in held.items()}
    common = {"operator": operator, "number": 2.0, "numbers": [float(k) for k in range(16)]}
    dtypes = ("float32", "float64", "int64")
    plain = {**common, **held, "xp": library, "np": np, backend: library, **{d: getattr(library, d) for d in dtypes}}
    eager = {**common, **{name: jf.asarray(value) for name, value in held.items()}, "xp": jf,
             **{d: getattr(jf, d) for d in dtypes}}
    found = []
    for kind, rows in GROUPS.items():
        for row in rows:
            if only not in row:
                continue
            try:
                below = eval(f"lambda: {own.get(row, row)}", plain)
                below()
            except (AttributeError, TypeError):  # the library has nothing like it: the whole counts
                below = int
            least = best([below, eval(f"lambda: {row}", eager)])
            found.append((least[1] - least[0], least[0], kind, row))
    return sorted(found, reverse=True)


def main() -> None:
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    chosen = [a for a in sys.argv[1:] if a in ("numpy", "torch")] or ["numpy", "torch"]
    only = next((a for a in sys.argv[1:] if a not in ("numpy", "torch")), "")
    for backend in chosen:
        rows = measured(backend, only)
        print(f"{backend:12} {'':34} {backend:>8} {'beyond':>8}   ns")
        for beyond, below, kind, row in rows:
            if only or beyond > LIMIT:
                print(f"{kind:12} {row:34} {below:8.0f} {beyond:8.0f}")
        above = sum(r[0] > LIMIT for r in rows)
        print(f"{backend}: {above} of {len(rows)} take more than {LIMIT} ns beyond {backend}'s own, the median "
              f"{sorted(r[0] for r in rows)[len(rows) // 2]:.0f}")


if __name__ == "__main__":
    main()

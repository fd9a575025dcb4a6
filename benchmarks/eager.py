"""What functions and operators of eager arrays (`jf.asarray`) cost beyond the library below, on 16 elements.

usage: eager.py [numpy | torch] [PART OF AN EXPRESSION]

Operands are the same arrays in each call: what an array does once only, such as its way to NumPy, is not seen.
Prints nanoseconds for each expression of `eager_rows.py` that takes more than 3,000 ns beyond what NumPy, or torch,
takes for the same, the worst first, and how many these are; with a part of an expression all that have it. Each is the
least of many rounds that alternate between the two. Where torch's own function gives something else (`OTHERS` in
`eager_rows.py`), the row counts beyond the shortest torch that gives the same, and is printed beyond that function too.
"""
from __future__ import annotations

import operator
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from eager_rows import GROUPS, NUMPY, OTHERS, TORCH

import jitfuse as jf

PASSES, ITERATIONS, CALLS, LIMIT = 6, 6, 40, 3000
"""Passes over all rows lie seconds apart: on a shared machine one of them finds it quiet."""


def best(calls: list[Callable[[], Any]]) -> list[float]:
    """Return the least nanoseconds of each call over rounds in which all take their turn."""
    least = [float("inf")] * len(calls)
    for _ in range(ITERATIONS):
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


def unique_with_places(x: Any) -> Any:
    """Return what `unique_all` returns, in torch, which has no places of what is unique."""
    import torch

    values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
    return values, torch.argsort(inverse, stable=True)[torch.cumsum(counts, 0) - counts], inverse, counts


class Row(NamedTuple):
    """Nanoseconds of an expression."""

    beyond: float
    below: float
    kind: str
    text: str
    other: float | None
    """Beyond the library's own function where that gives something else."""


def measured(backend: str, only: str) -> list[Row]:
    """Return the rows of a backend, the worst first."""
    held: dict[str, Any] = arrays()
    library: Any = np
    own = NUMPY
    if backend == "torch":
        import torch

        library, own = torch, TORCH
        held = {name: torch.from_numpy(value) for name, value in held.items()}
    common = {"operator": operator, "number": 2.0, "numbers": [float(k) for k in range(16)]}
    dtypes = ("float32", "float64", "int64")
    plain = {**common, **held, "xp": library, "np": np, backend: library, "unique_with_places": unique_with_places,
             **{d: getattr(library, d) for d in dtypes}}
    wrapped = {**common, **{name: jf.asarray(value) for name, value in held.items()}, "xp": jf,
               **{d: getattr(jf, d) for d in dtypes}}
    others = OTHERS if backend == "torch" else {}
    rows, calls = [], []
    for kind, row in ((kind, row) for kind, rows_of_kind in GROUPS.items() for row in rows_of_kind if only in row):
        try:
            below = eval(f"lambda: {own.get(row, row)}", plain)
            below()
        except (AttributeError, TypeError):  # the library has nothing like it: the whole counts
            below = int
        rows.append((kind, row))
        calls.append([eval(f"lambda: {row}", wrapped), below])
        if row in others:
            calls[-1].append(eval(f"lambda: {others[row]}", plain))
    least = [[float("inf")] * len(of_row) for of_row in calls]
    for _ in range(PASSES):
        for k, of_row in enumerate(calls):
            least[k] = [min(pair) for pair in zip(least[k], best(of_row), strict=True)]
    return sorted((Row(eager - same[-1], same[-1], *row, eager - same[0] if len(same) > 1 else None)
                   for row, (eager, *same) in zip(rows, least, strict=True)), reverse=True)


def main() -> None:
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    chosen = [a for a in sys.argv[1:] if a in ("numpy", "torch")] or ["numpy", "torch"]
    only = next((a for a in sys.argv[1:] if a not in ("numpy", "torch")), "")
    for backend in chosen:
        rows = measured(backend, only)
        print(f"{backend:12} {'':34} {backend:>8} {'beyond':>8}   ns")
        for row in rows:
            if only or row.beyond > LIMIT:
                print(f"{row.kind:12} {row.text:34} {row.below:8.0f} {row.beyond:8.0f}")
        above = sum(row.beyond > LIMIT for row in rows)
        print(f"{backend}: {above} of {len(rows)} take more than {LIMIT} ns beyond {backend}'s own, the median "
              f"{sorted(row.beyond for row in rows)[len(rows) // 2]:.0f}")
        for row in (row for row in rows if row.other is not None):
            print(f"{row.kind:12} {row.text:34} {row.other:17.0f} beyond what {backend} has, which is something else")


if __name__ == "__main__":
    main()

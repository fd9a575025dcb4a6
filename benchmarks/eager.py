"""What an operator on an eager array (`jf.asarray`) costs beyond NumPy's own, on 16 elements.

usage: eager.py

Prints for each operator the nanoseconds of NumPy, of the eager array, and the difference: the least of many rounds that
alternate between the two. The aim is at most 2,000 ns beyond NumPy.
"""
from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import jitfuse as jf

ROUNDS, CALLS = 60, 300


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


def main() -> None:
    x: Any = np.linspace(0.1, 1, 16)
    t: Any = jf.asarray(x)
    operators: dict[str, Callable[[Any, Any], Any]] = {
        "x + x": lambda x, xp: x + x,
        "x < x": lambda x, xp: x < x,
        "x // x": lambda x, xp: x // x,
        "exp": lambda x, xp: xp.exp(x),
        "sum": lambda x, xp: xp.sum(x),
        "reshape": lambda x, xp: xp.reshape(x, (4, 4)),
        "x[2:5]": lambda x, xp: x[2:5],
        "where": lambda x, xp: xp.where(x < 0.5, x, x),
        "zeros": lambda x, xp: xp.zeros((4, 4)),
    }
    print(f"{'':10} {'NumPy':>8} {'eager':>8} {'beyond':>8}   ns")
    for name, operator in operators.items():
        plain, eager = best([lambda op=operator: op(x, np), lambda op=operator: op(t, jf)])  # type: ignore[misc]
        print(f"{name:10} {plain:8.0f} {eager:8.0f} {eager - plain:8.0f}")


if __name__ == "__main__":
    main()

"""Partition functions of n x n grids of binary variables beside opt_einsum and cotengra at their best path, warm.

usage: factor_grids.py [N ...] [--rounds R] [--repeats P] [--scale S]

Each row is one grid with random float64 couplings. Systems take turns in one process, and a row has the least of the
rounds in milliseconds: for us `log_partition()`, for the others the contraction of the same tables along a path that
was found before: the best of P random greedy searches of each library, of cotengra also by partitions or labels
where kahypar is installed. Results of all systems are compared. "all marginals" is ours, of all n * n variables.
"""
from __future__ import annotations

import argparse
import importlib.util
import math
import sys
import time
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from jitfuse import factors

TOLERANCE = 1e-9
Site = tuple[int, int]
Tables = list[tuple[tuple[Site, Site], np.ndarray]]


def grid(n: int, scale: float, seed: int = 1) -> Tables:
    """Return a table exp(J s t) of each edge."""
    draw, spins = np.random.default_rng(seed), np.array([[1.0, -1.0], [-1.0, 1.0]])
    down = [((i, j), (i + 1, j)) for i, j in product(range(n - 1), range(n))]
    right = [((i, j), (i, j + 1)) for i, j in product(range(n), range(n - 1))]
    return [(edge, np.exp(scale * draw.normal() * spins)) for edge in down + right]


def ours(n: int, tables: Tables) -> dict[str, Callable[[], float]]:
    """Return our calls, of one graph whose first calls are reported."""
    graph = factors.FactorGraph(dict.fromkeys(product(range(n), repeat=2), 2), tables)

    def marginals() -> float:
        return float(graph.marginals()[0, 0][0])

    calls = {"jitfuse": lambda: float(graph.log_partition()), "all marginals": marginals}
    for name, call in calls.items():
        began = time.perf_counter()
        call()
        print(f"  {n}x{n} first call of {name}: {time.perf_counter() - began:.3f} s", flush=True)
    return calls


def with_opt_einsum(tables: Tables, repeats: int) -> dict[str, Callable[[], float]]:
    import opt_einsum

    symbols = {site: k for k, site in enumerate(sorted({site for edge, _ in tables for site in edge}))}
    inputs = [[symbols[a], symbols[b]] for (a, b), _ in tables]
    text = ",".join("".join(map(opt_einsum.get_symbol, scope)) for scope in inputs) + "->"
    search = opt_einsum.RandomGreedy(max_repeats=repeats, minimize="flops")
    contract = opt_einsum.contract_expression(text, *[(2, 2)] * len(tables), optimize=search)
    return {"opt_einsum": lambda arrays: contract(*arrays)}  # type: ignore[dict-item]


def with_cotengra(tables: Tables, repeats: int) -> dict[str, Callable[[], float]]:
    import cotengra

    inputs = [edge for edge, _ in tables]
    sizes = {site: 2 for edge in inputs for site in edge}
    methods = ["greedy", "labels", *(["kahypar"] if importlib.util.find_spec("kahypar") else [])]
    search = cotengra.HyperOptimizer(
        methods=methods, max_repeats=repeats, parallel=False, progbar=False, minimize="flops", optlib="random")
    tree = cotengra.array_contract_tree(inputs, (), sizes, optimize=search)
    print(f"  cotengra: width {tree.contraction_width():.0f}, 10^{tree.contraction_cost(log=10):.1f} operations")
    return {"cotengra": tree.contract}  # type: ignore[dict-item]


def others(tables: Tables, repeats: int) -> dict[str, Callable[[], float]]:
    """Return the calls of what is installed, each with NumPy and with torch; those that fail say so."""
    arrays = [table for _, table in tables]
    backends: dict[str, Any] = {"numpy": arrays}
    try:
        import torch
        backends["torch"] = [torch.from_numpy(array) for array in arrays]
    except ImportError:
        print("  torch is not installed")
    calls: dict[str, Callable[[], float]] = {}
    for make in (with_opt_einsum, with_cotengra):
        try:
            found: dict[str, Any] = make(tables, repeats)
        except ImportError as error:
            print(f"  {error}")
            continue
        for name, contract in found.items():
            for backend, given in backends.items():
                calls[f"{name} {backend}"] = lambda contract=contract, given=given: math.log(float(contract(given)))
    return calls


def measure(n: int, rounds: int, repeats: int, scale: float) -> dict[str, float | str]:
    """Return the least seconds of each system's rounds, or why it has none."""
    tables = grid(n, scale)
    calls = {**ours(n, tables), **others(tables, repeats)}
    expected = calls["jitfuse"]()
    least: dict[str, float | str] = {}
    for name, call in calls.items():
        try:
            result = call()
        except Exception as error:
            least[name] = f"{type(error).__name__}: {str(error).splitlines()[0][:60]}"
            continue
        if name != "all marginals" and abs(result - expected) > TOLERANCE * abs(expected):
            least[name] = f"differs: {result!r}, not {expected!r}"
    running = {name: call for name, call in calls.items() if name not in least}
    for _ in range(rounds):
        for name, call in running.items():
            began = time.perf_counter()
            call()
            least[name] = min(time.perf_counter() - began, float(least.get(name, math.inf)))
    return least


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("n", nargs="*", type=int, default=[8, 12, 16, 20])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--repeats", type=int, default=64)
    parser.add_argument("--scale", type=float, default=0.5)
    options = parser.parse_args(arguments)
    behind = 0
    for n in options.n:
        least = measure(n, options.rounds, options.repeats, options.scale)
        base = float(least["jitfuse"])
        for name, found in least.items():
            text = found if isinstance(found, str) else f"{1e3 * found:10.2f} ms  {found / base:7.2f} of ours"
            print(f"{n:3}x{n:<3} {name:18} {text}", flush=True)
            behind += isinstance(found, float) and found < base
    return int(behind > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""A binary tree of cliques in one thread and in two: what branches that run at the same time save.

usage: factor_trees.py [--depth D] [--rounds R]

Half of the cliques have `size` binary variables, the others seven fewer, so that tables differ by a factor of 100.
Each number of threads has a process of its own; they take turns, and a row has the least of all rounds in milliseconds.
"""
from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

import numpy as np

from jitfuse import factors

SIZES = (14, 17)


def tree(depth: int, size: int) -> factors.FactorGraph:
    """Return a tree in which half of the variables of a clique come from its parent."""
    draw = np.random.default_rng(0)
    level, count, scopes = [[*range(size)]], size, [[*range(size)]]
    for _ in range(depth):
        below = []
        for above in [each for each in level for _ in range(2)]:
            own = size if draw.random() < 0.5 else size - 7
            below.append([*draw.permutation(above)[: own - own // 2].tolist(), *range(count, count + own // 2)])
            count += own // 2
        level = below
        scopes += level
    return factors.FactorGraph([2] * count, [(tuple(s), draw.random((2,) * len(s)) + 0.1) for s in scopes])


def least(depth: int) -> list[float]:
    """Return the milliseconds of log Z and of all marginals of each tree."""
    found = []
    for size in SIZES:
        graph = tree(depth, size)
        for call in (graph.log_partition, graph.marginals):
            call()
            times = []
            for _ in range(15):
                began = time.perf_counter()
                call()
                times.append(time.perf_counter() - began)
            found.append(1e3 * min(times))
    return found


def main() -> None:
    """Print a row for each tree and query."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depth", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--once", action="store_true", help="print the numbers of this process")
    args = parser.parse_args()
    if args.once:
        print(*least(args.depth))
        return
    command = [sys.executable, __file__, "--once", "--depth", str(args.depth)]
    runs: dict[int, list[list[float]]] = {1: [], 2: []}
    for _ in range(args.rounds):
        for threads, rows in runs.items():
            done = subprocess.run(command, env={**os.environ, "JITFUSE_NUM_THREADS": str(threads)}, check=True,
                                  capture_output=True, text=True)
            rows.append([*map(float, done.stdout.split())])
    names = [f"{size} and {size - 7} variables, {query}" for size in SIZES for query in ("log Z", "all marginals")]
    for name, one, two in zip(names, *(map(min, zip(*rows)) for rows in runs.values())):
        print(f"{name:<40} one thread {one:7.2f}  two {two:7.2f}  ratio {one / two:.2f}")


if __name__ == "__main__":
    main()

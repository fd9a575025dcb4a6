"""Time the problems of GradBench in jitfuse and under torch's autograd, each derivative beside its objective.

    python benchmarks/gradbench.py [--only NAME ...] [--rounds 7] [--tensors] [--json FILE]

The problems are those of https://github.com/gradbench/gradbench at some of its sizes, from a seed. `function` is the
objective in jitfuse, `torch` the derivative by torch's autograd in the same source over tensors. A derivative of
jitfuse that differs from torch's by more than 1e-6 of the largest value is refused. Systems take turns within a round;
what is printed is the median over rounds, and jitfuse's derivative over torch's and over its own objective.
"""
from __future__ import annotations

import argparse
import copy
import sys
import time
from collections.abc import Callable
from typing import Any

from gradbench_problems.table import PROBLEMS, Problem, difference, over_torch, to_torch
from peers import awake, seconds
from side_by_side import Comparison, Found, Trial

SECONDS_PER_SAMPLE = 0.05
PAUSE = 0.05
TOLERANCE = 1e-6
ROWS = {f"{problem.name} {' x '.join(map(str, size))}".rstrip(): (problem, size)
        for problem in PROBLEMS for size in problem.sizes}


def _call(problem: Problem, system: str, arguments: Any, tensors: bool) -> Callable[[], Any] | None:
    """Return a system's call; None for the objective of a problem that has none."""
    if system == "torch":
        there, derivative = to_torch(arguments), problem.eager()
        return lambda: derivative(*there)
    module = over_torch(problem.module) if tensors else problem.module
    function = problem.fused(module) if system == "jitfuse" else problem.function(module)
    given = to_torch(arguments) if tensors else arguments
    return None if function is None else lambda: function(*given)


def measure(name: str, options: argparse.Namespace) -> Found:
    """Return what each system takes for a row of the table."""
    problem, size = ROWS[name]
    arguments = problem.arguments(problem.tiny if options.small else size)
    calls = {s: _call(problem, s, copy.deepcopy(arguments), options.tensors) for s in options.systems}
    expected: list[Any] = []

    def begin(system: str) -> Trial:
        call = calls[system]
        assert call is not None
        start = time.perf_counter()
        result = call()
        first = time.perf_counter() - start
        if system == "torch":
            expected.append(result)
        wrong = difference(expected[0], result) if expected and system == "jitfuse" else 0.0
        repeats = max(1, round(SECONDS_PER_SAMPLE / max(seconds(call, 1), 1e-7)))
        return Trial(first, wrong, lambda: awake(call, repeats))

    return COMPARISON.take_turns([s for s in options.systems if calls[s] is not None], begin, TOLERANCE, options.rounds,
                                 PAUSE)


COMPARISON = Comparison(
    script=__file__, about=__doc__, systems=("torch", "jitfuse", "function"), programs=list(ROWS),
    measure=measure, caches=("JITFUSE_CACHE_DIR",), limit=600,
    add_options=lambda parser: parser.add_argument("--tensors", action="store_true", help="jitfuse over torch too"),
)

if __name__ == "__main__":
    sys.exit(COMPARISON.main(sys.argv[1:]))

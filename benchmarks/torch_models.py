"""Run torch models and functions unchanged: eager, under jitfuse, and under torch.compile where that works.

    python benchmarks/torch_models.py [--only NAME ...] [--rounds 7] [--small] [--systems eager jitfuse compile]
                                      [--threads N] [--json FILE]

One process for each program, with an empty cache, under `torch.no_grad()`: systems take turns within a round, so that a
slow moment of the machine hits all of them. Printed are the median of calls (milliseconds), the first call (seconds),
and jitfuse's time over the others'. Results are compared with eager torch's; those that differ, and programs that a
system refuses, are left out of the geometric means and said. torch.compile needs a C++ compiler.
"""
from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import torch
from optree import tree_flatten
from side_by_side import Comparison, Found, Trial
from torch_programs import PROGRAMS

SECONDS_PER_SAMPLE: Final = 0.02
PAUSE: Final = 0.05
"""Seconds between systems: idle threads of one library spin for a while, and would take the other's processors."""


def compiled(system: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function under a system; raises what the system raises."""
    if system == "jitfuse":
        import jitfuse

        return jitfuse.fuse(function)  # type: ignore[no-any-return]
    if system == "compile":
        return torch.compile(function)
    return function


def difference(expected: Any, result: Any) -> float:
    """Return the largest difference of two trees of tensors, relative to the largest magnitude; inf for other trees."""
    (wanted, spec), (found, other) = tree_flatten(expected), tree_flatten(result)
    if spec != other:
        return math.inf
    largest = 0.0
    for a, b in zip(wanted, found, strict=True):
        if a.dtype != b.dtype or a.shape != b.shape:
            return math.inf
        x, y = a.double(), b.double()
        same = (x == y) | (x.isnan() & y.isnan())
        apart = torch.where(same, 0.0, (x - y).abs())
        if a.numel():
            scale = x.abs().nan_to_num(0.0, 0.0, 0.0).max().clamp(min=1e-30)
            largest = max(largest, float((apart / scale).nan_to_num(math.inf).max()))
    return largest


def measure(name: str, options: argparse.Namespace) -> Found:
    """Return what was found for a program in this process."""
    if options.threads:
        torch.set_num_threads(options.threads)
    program = next(p for p in PROGRAMS if p.name == name)
    torch.manual_seed(0)
    with torch.no_grad():
        function, arguments = program.make("small" if options.small else "large")
        expected = function(*arguments)

        def begin(system: str) -> Trial:
            call = compiled(system, function)
            start = time.perf_counter()
            result = call(*arguments)
            first = time.perf_counter() - start
            wrong = difference(expected, result)
            call(*arguments)
            return Trial(first, wrong, lambda: _seconds(call, arguments))

        return COMPARISON.take_turns(options.systems, begin, program.tolerance, options.rounds, PAUSE)


def _seconds(call: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    """Return the seconds of one call, over as many as a sample takes."""
    call(*arguments)
    start, count = time.perf_counter(), 0
    while count == 0 or time.perf_counter() - start < SECONDS_PER_SAMPLE:
        call(*arguments)
        count += 1
    return (time.perf_counter() - start) / count


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threads", type=int, default=0, help="torch's threads; 0: its own choice")


COMPARISON = Comparison(
    script=__file__, about=__doc__, systems=("eager", "jitfuse", "compile"), programs=[p.name for p in PROGRAMS],
    measure=measure, caches=("JITFUSE_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"), limit=300, add_options=add_options,
)

if __name__ == "__main__":
    sys.exit(COMPARISON.main(sys.argv[1:]))

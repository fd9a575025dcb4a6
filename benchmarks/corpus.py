"""Run existing NumPy programs unchanged in NumPy, under jitfuse, and under Numba where that compiles them.

    python benchmarks/corpus.py [--only NAME ...] [--rounds 7] [--small] [--systems numpy jitfuse numba] [--json FILE]

One process for each program, with an empty cache: systems take turns within a round, so that a slow moment of the
machine hits all of them. Printed are the median of calls with fresh copies of the same arguments (copying is not timed;
milliseconds), the first call (seconds of the processor, the import of what compiles included), and jitfuse's time over
the others'. Programs whose results differ from NumPy's, and programs that a system refuses, are left out of the
geometric means and said.
"""
from __future__ import annotations

import argparse
import copy
import sys
import time
import types
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy_programs import PROGRAMS, Program
from numpy_programs.judging import difference
from side_by_side import Comparison, Found, Trial

SECONDS_PER_SAMPLE = 0.01
PAUSE = 0.1
"""Seconds between systems: idle threads of one library's products spin for a while, and take the other's processors."""


# ---------------------------------------------------------------------- the systems
def compiled(system: str, program: Program) -> Callable[..., Any]:
    """Return the program's entry under a system; raises what the system raises."""
    if system == "jitfuse":
        import jitfuse

        return jitfuse.fuse(program.function)
    if system == "numba":
        return _under_numba(program.function)
    return program.function


def _under_numba(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function with all functions of its module that it can reach compiled, which is what a user decorates."""
    import numba

    assert isinstance(function, types.FunctionType)
    names = dict(function.__globals__)
    made = {
        name: numba.njit(types.FunctionType(value.__code__, names, name, value.__defaults__, value.__closure__))
        for name, value in function.__globals__.items()
        if isinstance(value, types.FunctionType) and value.__module__ == function.__module__
    }
    names.update(made)
    entry: Callable[..., Any] = made[function.__name__]
    return entry


# ---------------------------------------------------------------------- measuring
def measure(name: str, options: argparse.Namespace) -> Found:
    """Return what was found for a program in this process."""
    program = next(p for p in PROGRAMS if p.name == name)
    arguments = program.inputs(program.small if options.small else program.large, np.random.default_rng(0))
    plain = copy.deepcopy(arguments)
    expected = program.function(*plain), plain

    def begin(system: str) -> Trial:
        own = copy.deepcopy(arguments)
        start = time.process_time()
        call = compiled(system, program)
        result = call(*own)
        first = time.process_time() - start
        wrong = difference(expected, (result, own))
        again = copy.deepcopy(arguments)
        wrong = max(wrong, difference(expected, (call(*again), again)))
        return Trial(first, wrong, lambda: _seconds(call, arguments))

    return COMPARISON.take_turns(options.systems, begin, program.tolerance, options.rounds, PAUSE)


def _seconds(call: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    """Return the seconds of one call, over as many as a sample takes; each has arguments of its own."""
    total, count = 0.0, 0
    while total < SECONDS_PER_SAMPLE and count < 1000:
        own = copy.deepcopy(arguments)
        start = time.perf_counter()
        call(*own)
        total += time.perf_counter() - start
        count += 1
    return total / count


COMPARISON = Comparison(
    script=__file__, about=__doc__, systems=("numpy", "jitfuse", "numba"), programs=[p.name for p in PROGRAMS],
    measure=measure, caches=("JITFUSE_CACHE_DIR",), limit=120,
)

if __name__ == "__main__":
    sys.exit(COMPARISON.main(sys.argv[1:]))

"""Run existing NumPy programs unchanged in NumPy, under jitfuse, and under Numba where that compiles them.

    python benchmarks/corpus.py [--only NAME ...] [--rounds 7] [--small] [--systems numpy jitfuse numba] [--json FILE]

One process for each program, with an empty cache: systems take turns within a round, so that a slow moment of the
machine hits all of them. Printed are the first call (processor time, the import of what compiles included), the median
of calls with fresh copies of the same arguments (copying is not timed), and jitfuse's time over the others'. Programs
whose results differ from NumPy's, and programs that a system refuses, are left out of the geometric means and said.
"""
from __future__ import annotations

import argparse
import copy
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
import types
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy_programs import PROGRAMS, Program
from numpy_programs.judging import difference

SYSTEMS: Final = ("numpy", "jitfuse", "numba")
SECONDS_PER_SAMPLE = 0.01
LIMIT = 120
"""Seconds that one program may take, all systems together."""


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
def measure(program: Program, systems: Sequence[str], rounds: int, size: int) -> dict[str, Any]:
    """Return for each system {"first", "call"} in seconds, or {"refused": why}."""
    arguments = program.inputs(size, np.random.default_rng(0))
    plain = copy.deepcopy(arguments)
    expected = program.function(*plain)
    found: dict[str, Any] = {}
    calls: dict[str, Callable[..., Any]] = {}
    for system in systems:
        try:
            call, first, wrong = _first_call(system, program, arguments, (expected, plain))
        except Exception as error:
            found[system] = {"refused": f"{type(error).__name__}: {str(error).strip().splitlines()[0][:160]}"}
            continue
        if wrong > program.tolerance:
            found[system] = {"refused": f"differs from NumPy by {wrong:.1e}"}
            continue
        found[system], calls[system] = {"first": first}, call
    samples: dict[str, list[float]] = {system: [] for system in calls}
    if "jitfuse" in calls:
        time.sleep(0.3)  # what was compiled beside the first calls
    for _ in range(rounds):
        for system, call in calls.items():
            samples[system].append(_timed(call, arguments))
    for system, times in samples.items():
        found[system]["call"] = statistics.median(times)
    return found


def _first_call(
    system: str, program: Program, arguments: tuple[Any, ...], expected: Any
) -> tuple[Callable[..., Any], float, float]:
    own = copy.deepcopy(arguments)
    start = time.process_time()
    call = compiled(system, program)
    result = call(*own)
    first = time.process_time() - start
    wrong = difference(expected, (result, own))
    again = copy.deepcopy(arguments)
    return call, first, max(wrong, difference(expected, (call(*again), again)))


def _timed(call: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    """Return the seconds of one call, over as many as a sample takes; each has arguments of its own."""
    total, count = 0.0, 0
    while total < SECONDS_PER_SAMPLE and count < 1000:
        own = copy.deepcopy(arguments)
        start = time.perf_counter()
        call(*own)
        total += time.perf_counter() - start
        count += 1
    return total / count


def in_a_process(name: str, options: argparse.Namespace, systems: Sequence[str]) -> dict[str, Any]:
    """Measure one program in a new process with an empty cache; without Numba where that ends the process."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--one", name, "--rounds", str(options.rounds), "--systems",
                   *systems, *(["--small"] if options.small else [])]
        environment = {**os.environ, "JITFUSE_CACHE_DIR": folder}
        try:
            ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            return {"jitfuse": {"refused": f"more than {LIMIT} s"}}
    if ran.returncode:
        why = f"the process ended with {ran.returncode}: {ran.stderr.strip()[-160:]}"
        if "numba" not in systems:
            return {"jitfuse": {"refused": why}}
        return {**in_a_process(name, options, [s for s in systems if s != "numba"]), "numba": {"refused": why}}
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


# ---------------------------------------------------------------------- the table
def row(name: str, found: dict[str, Any], systems: Sequence[str]) -> str:
    """Return one line of the table: milliseconds, first calls in seconds, ratios."""
    cells = [f"{name:22s}"]
    for system in systems:
        cells.append(f"{found[system]['call'] * 1e3:10.3f}" if "call" in found.get(system, {}) else f"{'-':>10s}")
    cells += [f"{found[s]['first']:8.2f}" if "first" in found.get(s, {}) else f"{'-':>8s}"
              for s in systems if s != "numpy"]
    cells += [f"{ratio(found, s):8.2f}" if ratio(found, s) else f"{'-':>8s}" for s in systems if s != "jitfuse"]
    return " ".join(cells)


def ratio(found: dict[str, Any], system: str) -> float:
    """Return jitfuse's time over a system's; 0 where there is none."""
    ours, theirs = (found.get(s, {}).get("call") for s in ("jitfuse", system))
    return ours / theirs if ours and theirs else 0.0


def summary(results: dict[str, dict[str, Any]], systems: Sequence[str]) -> list[str]:
    """Return the lines under the table: geometric means, first calls, what was refused."""
    lines = []
    for system in systems:
        ratios = [r for found in results.values() if (r := ratio(found, system))]
        if system != "jitfuse" and ratios:
            mean = math.exp(statistics.fmean(map(math.log, ratios)))
            lines.append(f"jitfuse over {system}: geometric mean {mean:.3f} of {len(ratios)} programs, slower in "
                         f"{sum(r > 1 for r in ratios)}")
        firsts = [found[system]["first"] for found in results.values() if "first" in found.get(system, {})]
        if system != "numpy" and firsts:
            lines.append(f"first call under {system}: median {statistics.median(firsts):.2f} s, longest "
                         f"{max(firsts):.2f} s, below one second in {sum(f < 1 for f in firsts)} of {len(firsts)}")
    lines += [f"  {system} refused {name}: {found[system]['refused']}" for system in systems
              for name, found in results.items() if "refused" in found.get(system, {})]
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", default=[p.name for p in PROGRAMS])
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--small", action="store_true", help="the sizes that the tests use")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--one", metavar="NAME", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    programs = {p.name: p for p in PROGRAMS}
    if options.one:
        program = programs[options.one]
        size = program.small if options.small else program.large
        with warnings.catch_warnings(action="ignore"):
            print(json.dumps(measure(program, options.systems, options.rounds, size)))
        return 0
    systems = options.systems
    print(" ".join([f"{'milliseconds':22s}", *(f"{s:>10s}" for s in systems),
                    *(f"{'first s':>8s}" for s in systems if s != "numpy"),
                    *(f"{'/' + s:>8s}" for s in systems if s != "jitfuse")]))
    results: dict[str, dict[str, Any]] = {}
    for name in options.only:
        results[name] = in_a_process(name, options, systems)
        print(row(name, results[name], systems), flush=True)
    print(*summary(results, systems), sep="\n")
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Run torch models and functions unchanged: eager, under jitfuse, and under torch.compile where that works.

    python benchmarks/torch_models.py [--only NAME ...] [--rounds 7] [--small] [--systems eager jitfuse compile]
                                      [--threads N] [--json FILE]

One process for each program, with an empty cache, under `torch.no_grad()`: systems take turns within a round, so that a
slow moment of the machine hits all of them. Printed are the first call (seconds), the median of calls (milliseconds),
and jitfuse's time over the others'. Results are compared with eager torch's; those that differ, and programs that a
system refuses, are left out of the geometric means and said. torch.compile needs a C++ compiler.
"""
from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

SYSTEMS: Final = ("eager", "jitfuse", "compile")
SECONDS_PER_SAMPLE: Final = 0.02
PAUSE: Final = 0.05
"""Seconds between systems: idle threads of one library spin for a while, and would take the other's processors."""
LIMIT: Final = 300
"""Seconds that one program may take, all systems together."""


def compiled(system: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function under a system; raises what the system raises."""
    if system == "jitfuse":
        import jitfuse

        return jitfuse.fuse(function)  # type: ignore[no-any-return]
    if system == "compile":
        import torch

        return torch.compile(function)
    return function


def difference(expected: Any, result: Any) -> float:
    """Return the largest difference of two trees of tensors, relative to the largest magnitude; inf for other trees."""
    import torch
    from optree import tree_flatten

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


def measure(name: str, systems: Sequence[str], rounds: int, size: str) -> dict[str, Any]:
    """Return for each system {"first", "call"} in seconds, or {"refused": why}."""
    import torch
    from torch_programs import PROGRAMS

    program = next(p for p in PROGRAMS if p.name == name)
    torch.manual_seed(0)
    found: dict[str, Any] = {}
    calls: dict[str, Callable[..., Any]] = {}
    with torch.no_grad():
        function, arguments = program.make(size)
        expected = function(*arguments)
        for system in systems:
            try:
                call = compiled(system, function)
                start = time.perf_counter()
                result = call(*arguments)
                first = time.perf_counter() - start
                wrong = difference(expected, result)
                call(*arguments)
            except Exception as error:
                found[system] = {"refused": f"{type(error).__name__}: {str(error).strip().splitlines()[0][:160]}"}
                continue
            if wrong > program.tolerance:
                found[system] = {"refused": f"differs from eager torch by {wrong:.1e}"}
                continue
            found[system], calls[system] = {"first": first}, call
        time.sleep(0.3)  # what was compiled beside the first calls
        samples: dict[str, list[float]] = {system: [] for system in calls}
        for _ in range(rounds):
            for system, call in calls.items():
                samples[system].append(_timed(call, arguments))
                time.sleep(PAUSE)
    for system, times in samples.items():
        found[system]["call"] = statistics.median(times)
    return found


def _timed(call: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    """Return the seconds of one call, over as many as a sample takes."""
    call(*arguments)
    start, count = time.perf_counter(), 0
    while count == 0 or time.perf_counter() - start < SECONDS_PER_SAMPLE:
        call(*arguments)
        count += 1
    return (time.perf_counter() - start) / count


def in_a_process(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Measure one program in a new process with empty caches."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--one", name, "--rounds", str(options.rounds), "--threads",
                   str(options.threads), "--systems", *options.systems, *(["--small"] if options.small else [])]
        environment = {**os.environ, "JITFUSE_CACHE_DIR": folder, "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor"}
        try:
            ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            return {"jitfuse": {"refused": f"more than {LIMIT} s"}}
    if ran.returncode:
        return {"jitfuse": {"refused": f"the process ended with {ran.returncode}: {ran.stderr.strip()[-160:]}"}}
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def row(name: str, found: dict[str, Any], systems: Sequence[str]) -> str:
    """Return one line of the table: milliseconds, first calls in seconds, ratios."""
    cells = [f"{name:20s}"]
    cells += [f"{found[s]['call'] * 1e3:10.3f}" if "call" in found.get(s, {}) else f"{'-':>10s}" for s in systems]
    cells += [f"{found[s]['first']:10.2f}" if "first" in found.get(s, {}) else f"{'-':>10s}"
              for s in systems if s != "eager"]
    cells += [f"{ratio(found, s):10.2f}" if ratio(found, s) else f"{'-':>10s}" for s in systems if s != "jitfuse"]
    return " ".join(cells)


def ratio(found: dict[str, Any], system: str) -> float:
    """Return jitfuse's time over a system's; 0 where there is none."""
    ours, theirs = (found.get(s, {}).get("call") for s in ("jitfuse", system))
    return ours / theirs if ours and theirs else 0.0


def summary(results: dict[str, dict[str, Any]], systems: Sequence[str]) -> list[str]:
    """Return the lines under the table: geometric means, and what was refused."""
    lines = []
    for system in systems:
        ratios = [r for found in results.values() if (r := ratio(found, system))]
        if system != "jitfuse" and ratios:
            mean = math.exp(statistics.fmean(map(math.log, ratios)))
            lines.append(f"jitfuse over {system}: geometric mean {mean:.3f} of {len(ratios)} programs, slower in "
                         f"{sum(r > 1 for r in ratios)}")
    return lines + [f"  {system} refused {name}: {found[system]['refused']}" for system in systems
                    for name, found in results.items() if "refused" in found.get(system, {})]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=0, help="torch's threads; 0: its own choice")
    parser.add_argument("--small", action="store_true", help="the sizes that the tests use")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--one", metavar="NAME", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        if options.threads:
            import torch

            torch.set_num_threads(options.threads)
        with warnings.catch_warnings(action="ignore"):
            print(json.dumps(measure(options.one, options.systems, options.rounds,
                                     "small" if options.small else "large")))
        return 0
    from torch_programs import PROGRAMS

    systems = options.systems
    print(" ".join([f"{'milliseconds':20s}", *(f"{s:>10s}" for s in systems),
                    *(f"{'first ' + s[:4]:>10s}" for s in systems if s != "eager"),
                    *(f"{'/' + s:>10s}" for s in systems if s != "jitfuse")]))
    results: dict[str, dict[str, Any]] = {}
    for name in options.only or [p.name for p in PROGRAMS]:
        results[name] = in_a_process(name, options)
        print(row(name, results[name], systems), flush=True)
    print(*summary(results, systems), sep="\n")
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())

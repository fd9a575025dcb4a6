"""The same programs under several systems: the table that a benchmark prints, each program in a process of its own.

Systems take turns within a round, so that a slow moment of the machine hits all of them. Owns the command line, the
processes, the rounds and the table. Does not own the programs, or what a system makes of one.
"""
from __future__ import annotations

import argparse
import compileall
import importlib.util
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OURS = "jitfuse"
SETTLE = 0.3
"""Seconds for what is compiled beside the first calls."""
Found = dict[str, dict[str, Any]]
"""For each system {"first", "call"} in seconds, or {"refused": why}."""


def first_line(error: Exception, width: int = 160) -> str:
    """Return an error's type and what it says first, in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:width]}" if lines else type(error).__name__


def medians(samples: dict[str, Callable[[], float]], iterations: int, pause: float = 0.0) -> dict[str, float]:
    """Return the median of what each returns, over rounds in which all take their turn after a pause."""
    times: dict[str, list[float]] = {name: [] for name in samples}
    for _ in range(iterations):
        for name, sample in samples.items():
            time.sleep(pause)
            times[name].append(sample())
    return {name: statistics.median(found) for name, found in times.items()}


def compile_modules() -> None:
    """Write the bytecode of our own modules, as installing a package does: a first call in a checkout, or where Python
    is told to write none, would have Python compile them, which takes as long as many a first call."""
    spec = importlib.util.find_spec(OURS)
    for root in map(Path, spec.submodule_search_locations or () if spec else ()):
        for folder in (root, *(p for p in root.iterdir() if p.is_symlink() and p.is_dir())):
            compileall.compile_dir(folder, quiet=2)


@dataclass(frozen=True)
class Trial:
    """A first call: its seconds, how far its result is from the plain one, and what returns the seconds of another."""

    first: float
    difference: float
    sample: Callable[[], float]


@dataclass(frozen=True)
class Comparison:
    """What is compared.

    script       the file that is run once more for each program
    about        what its help says
    systems      their names; the first is the plain one, whose results count as right
    programs     the names of all programs
    measure      a program's name and the options -> what was found
    caches       variables of the environment that name a folder, where systems keep what they compiled
    limit        seconds that one program may take, all systems together
    add_options  adds to the options those of this comparison
    """

    script: str
    about: str
    systems: tuple[str, ...]
    programs: Sequence[str]
    measure: Callable[[str, argparse.Namespace], Found]
    caches: tuple[str, ...]
    limit: int
    add_options: Callable[[argparse.ArgumentParser], object] = lambda parser: None

    def main(self, arguments: Sequence[str]) -> int:
        """Measure and print; returns the exit status."""
        parser = argparse.ArgumentParser(description=self.about, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--only", nargs="+", metavar="NAME", choices=self.programs, default=self.programs)
        parser.add_argument("--systems", nargs="+", choices=self.systems, default=list(self.systems))
        parser.add_argument("--rounds", type=int, default=7)
        parser.add_argument("--small", action="store_true", help="the sizes that the tests use")
        parser.add_argument("--json", metavar="FILE")
        parser.add_argument("--one", metavar="NAME", help=argparse.SUPPRESS)
        self.add_options(parser)
        options = parser.parse_args(arguments)
        if options.one:
            with warnings.catch_warnings(action="ignore"):
                print(json.dumps(self.measure(options.one, options)))
            return 0
        compile_modules()
        print(self.header(options.systems))
        results: dict[str, Found] = {}
        for name in options.only:
            results[name] = self.in_a_process(name, arguments, options.systems)
            print(self.row(name, results[name], options.systems), flush=True)
        print(*self.summary(results, options.systems), sep="\n")
        if options.json:
            Path(options.json).write_text(json.dumps(results, indent=1))
        return 0

    # ------------------------------------------------------------------ measuring
    def in_a_process(self, name: str, arguments: Sequence[str], systems: Sequence[str]) -> Found:
        """Measure one program in a new process with empty caches; without the peers where one ends the process."""
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, self.script, *arguments, "--one", name, "--systems", *systems]
            environment = {**os.environ, **{cache: str(Path(folder, cache)) for cache in self.caches}}
            try:
                ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=self.limit)
            except subprocess.TimeoutExpired:
                return {OURS: {"refused": f"more than {self.limit} s"}}
        if ran.returncode:
            refused = {"refused": f"the process ended with {ran.returncode}: {ran.stderr.strip()[-160:]}"}
            peers = [s for s in systems if s not in (OURS, self.systems[0])]
            if not peers:
                return {OURS: refused}
            rest = [s for s in systems if s not in peers]
            return {**self.in_a_process(name, arguments, rest), **dict.fromkeys(peers, refused)}
        found: Found = json.loads(ran.stdout.splitlines()[-1])
        return found

    def take_turns(
        self, systems: Iterable[str], begin: Callable[[str], Trial], tolerance: float, iterations: int,
        pause: float = 0.0,
    ) -> Found:
        """Measure one program in this process: `begin` makes the first call under a system, or raises what it raises.

        A system whose result differs by more than the tolerance is refused.
        """
        found: Found = {}
        samples: dict[str, Callable[[], float]] = {}
        for system in systems:
            try:
                trial = begin(system)
            except Exception as error:
                found[system] = {"refused": first_line(error)}
                continue
            if trial.difference > tolerance:
                found[system] = {"refused": f"differs from {self.systems[0]} by {trial.difference:.1e}"}
                continue
            found[system], samples[system] = {"first": trial.first}, trial.sample
        if OURS in samples:
            time.sleep(SETTLE)
        for system, call in medians(samples, iterations, pause).items():
            found[system]["call"] = call
        return found

    # ------------------------------------------------------------------ the table
    def header(self, systems: Sequence[str]) -> str:
        """Return the line above the table: milliseconds of a call, seconds of the first, ratios."""
        return " ".join([f"{'milliseconds':22s}", *(f"{s:>10s}" for s in systems),
                         *(f"{s + ' s':>10s}" for s in systems if s != self.systems[0]),
                         *(f"{'/' + s:>10s}" for s in systems if s != OURS)])

    def row(self, name: str, found: Found, systems: Sequence[str]) -> str:
        """Return one line of the table."""
        calls = {s: found.get(s, {}).get("call", 0.0) * 1e3 for s in systems}
        firsts = {s: found.get(s, {}).get("first", 0.0) for s in systems if s != self.systems[0]}
        ratios = {s: ratio(found, s) for s in systems if s != OURS}
        return " ".join([f"{name:22s}", *(f"{t:10.3f}" if t else f"{'-':>10s}" for t in calls.values()),
                         *(f"{t:10.2f}" if t else f"{'-':>10s}" for t in (*firsts.values(), *ratios.values()))])

    def summary(self, results: dict[str, Found], systems: Sequence[str]) -> list[str]:
        """Return the lines under the table: geometric means, first calls, what was refused."""
        lines = []
        for system in systems:
            ratios = [r for found in results.values() if (r := ratio(found, system))]
            if system != OURS and ratios:
                mean = math.exp(statistics.fmean(map(math.log, ratios)))
                lines.append(f"{OURS} over {system}: geometric mean {mean:.3f} of {len(ratios)} programs, slower in "
                             f"{sum(r > 1 for r in ratios)}")
            firsts = [found[system]["first"] for found in results.values() if "first" in found.get(system, {})]
            if system != self.systems[0] and firsts:
                lines.append(f"first call under {system}: median {statistics.median(firsts):.2f} s, longest "
                             f"{max(firsts):.2f} s, below one second in {sum(f < 1 for f in firsts)} of {len(firsts)}")
        lines += [f"  {system} refused {name}: {found[system]['refused']}" for system in systems
                  for name, found in results.items() if "refused" in found.get(system, {})]
        return lines


def ratio(found: Found, system: str) -> float:
    """Return jitfuse's time over a system's; 0 where there is none."""
    ours, theirs = (found.get(s, {}).get("call") for s in (OURS, system))
    return ours / theirs if ours and theirs else 0.0

"""The process in which a part of a batch is judged: it may be killed, and says before each case which one it begins.

It writes lines of JSON to a pipe: ``["ready"]``, ``["begin", number]``, ``["end", number, finding or null]``. A case
that takes more processor time than is allowed ends the process with SIGPROF, whatever code it is in.
"""
from __future__ import annotations

import contextlib
import json
import random
import resource
import signal
import traceback
from pathlib import Path
from typing import IO, Any

from tests.mutations.kinds import Kind, load

SECONDS = 5
MEGABYTES = 500
_SPARE = 512
"""MiB of addresses above the limit of what is used: what a reader takes and never touches costs nothing."""


def work(name: str, seed: int, numbers: range, out: IO[str]) -> None:
    """Judge the cases with these numbers; the same seed and number are the same case in every process."""
    def say(*line: Any) -> None:
        print(json.dumps(line), file=out, flush=True)

    kind = load(name)
    seeds = kind.seeds()
    for valid in seeds:  # also loads what the readers need, which is not counted as the memory of a case
        if (finding := _judged(kind, valid, valid)) is not None:
            raise RuntimeError(f"a seed of {name} is refused: {finding}")
    baseline = _status("VmSize")
    resource.setrlimit(resource.RLIMIT_AS, (baseline + (MEGABYTES + _SPARE << 20),) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    say("ready")
    for number in numbers:
        say("begin", number)
        valid, mutated = case(kind, seeds, name, seed, number)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        before = _reset_peak()
        finding = _judged(kind, valid, mutated)
        signal.setitimer(signal.ITIMER_PROF, 0)
        grown = (_status("VmHWM") - before) >> 20
        if finding is None and grown > MEGABYTES:
            finding = f"it took {grown} MB"
        say("end", number, finding)


def case(kind: Kind, seeds: list[bytes], name: str, seed: int, number: int) -> tuple[bytes, bytes]:
    """Return the seed of a case, and its mutation."""
    draw = random.Random(f"{name} {seed} {number}")
    valid = draw.choice(seeds)
    return valid, kind.mutate(valid, draw)


def _judged(kind: Kind, valid: bytes, mutated: bytes) -> str | None:
    try:
        return kind.judge(valid, mutated)
    except Exception:  # what reaches us here is no typed verdict
        return traceback.format_exc(limit=-6)


def _status(name: str) -> int:
    """Return a size of this process in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) << 10
    raise RuntimeError(f"no {name} in /proc/self/status")


def _reset_peak() -> int:
    """Begin to count the largest memory anew, and return what is used now."""
    with contextlib.suppress(OSError):  # where it is not allowed the peak of all cases is reported with the first
        Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")

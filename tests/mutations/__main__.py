"""``python -m tests.mutations archives --count 20000 --seed 1``: mutations of real inputs, thrown at their readers.

Each case must give a typed error or an equal result, end no process by a signal, and take at most 5 seconds of
processor time and 500 MB of memory beyond what the process had. Cases run in child processes, `--batch` to each; a
child that dies is replaced by one that goes on behind the case that killed it. `--save DIR` keeps the inputs that
failed. Exit code 1 where a case failed.
"""
from __future__ import annotations

import argparse
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.mutations import child
from tests.mutations.kinds import KINDS, load

WALL_SECONDS = 600
"""After which a case counts as stuck: it waits for something, else its processor time would have ended it."""
_START_SECONDS = 600
_SHOWN = 20


class Failure(NamedTuple):
    """A case that was judged wrong."""

    kind: str
    number: int
    finding: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the judge and return its exit code."""
    options = _parser().parse_args(arguments)
    if options.child is not None:
        with os.fdopen(options.child, "w") as out:
            child.work(options.kinds[0], options.seed, range(options.first, options.first + options.count), out)
        return 0
    with tempfile.TemporaryDirectory(prefix="jitfuse-mutations-") as folder:  # one cache, so that seeds are made once
        os.environ.update(JITFUSE_CACHE_DIR=f"{folder}/cache", TMPDIR=folder)
        os.environ.pop("JITFUSE_CACHE_PATH", None)
        failures = [failure for name in options.kinds or list(KINDS) for failure in _judge(name, options)]
        if options.save:
            _save(failures, options.seed, Path(options.save))
    for failure in failures[:_SHOWN]:
        print(f"\n{failure.kind} --seed {options.seed} --first {failure.number} --count 1\n{failure.finding.rstrip()}")
    return 1 if failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tests.mutations", description=__doc__.partition("\n\n")[2])
    parser.add_argument("kinds", nargs="*", metavar="kind", choices=[*KINDS, []],
                        help=f"{', '.join(KINDS)} (default: all)")
    parser.add_argument("--count", type=int, default=500, metavar="N", help="cases of each kind (default: 500)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="which cases (default: 0)")
    parser.add_argument("--first", type=int, default=0, metavar="K", help="the number of the first case (default: 0)")
    parser.add_argument("--batch", type=int, default=500, metavar="N", help="cases for each process (default: 500)")
    parser.add_argument("--save", metavar="DIR", help="write the inputs that failed to this folder")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    return parser


def _judge(name: str, options: argparse.Namespace) -> list[Failure]:
    """Judge all cases of a kind, and say how far it is."""
    start, failures = time.monotonic(), list[Failure]()
    numbers = range(options.first, options.first + options.count)
    for first in numbers[:: options.batch]:
        batch = range(first, min(first + options.batch, numbers.stop))
        failures += _batch(name, options.seed, batch)
        print(f"{name}: {batch.stop - options.first:,} of {options.count:,} cases, {len(failures)} failed, "
              f"{time.monotonic() - start:.0f} s", flush=True)
    return failures


def _batch(name: str, seed: int, numbers: range) -> Iterator[Failure]:
    """Judge a batch, in as many processes as it takes."""
    while numbers:
        reached = numbers.start
        for kind, *values in _events(name, seed, numbers):
            if kind == "end":
                number, finding = values
                reached = number + 1
                if finding is not None:
                    yield Failure(name, number, finding)
            elif kind == "died":
                yield Failure(name, reached, values[0])
                reached += 1
        numbers = range(reached, numbers.stop)


def _events(name: str, seed: int, numbers: range) -> Iterator[list[Any]]:
    """Run one process, and yield what it says; ``["died", why]`` last where it does not come to its end.

    Raises RuntimeError where it dies before the first case: then the judge is broken.
    """
    source, sink = os.pipe()
    command = [sys.executable, "-m", "tests.mutations", name, "--seed", str(seed), "--first", str(numbers.start),
               "--count", str(len(numbers)), "--child", str(sink)]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, pass_fds=[sink], stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)
        os.close(sink)
        ready, last = False, ""
        with os.fdopen(source, "rb", buffering=0) as pipe:
            for line in _lines(pipe):
                event = json.loads(line)
                last = event[0]
                ready = ready or last != "stuck"
                if last != "stuck":
                    yield event
        try:
            code = process.wait(0 if last == "stuck" else WALL_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        if code == 0:
            return
        errors.seek(0)
        tail = errors.read()[-2000:].decode(errors="replace")
        if not ready:
            raise RuntimeError(f"the process did not begin:\n{tail}")
        yield ["died", f"the process ended with {code} (-27: more than {child.SECONDS} s of processor time)\n{tail}"]


def _lines(pipe: Any) -> Iterator[bytes]:
    """Yield whole lines until the pipe ends, or nothing comes for too long: then the last line is ``["stuck"]``."""
    held, seconds = b"", _START_SECONDS
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while selector.select(seconds):
            data = os.read(pipe.fileno(), 1 << 16)
            if not data:
                return
            seconds = WALL_SECONDS
            *whole, held = (held + data).split(b"\n")
            yield from whole
        yield b'["stuck"]'


def _save(failures: Sequence[Failure], seed: int, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for failure in failures:
        kind = load(failure.kind)
        _, mutated = child.case(kind, kind.seeds(), failure.kind, seed, failure.number)
        (folder / f"{failure.kind}-{seed}-{failure.number}").write_bytes(mutated)


if __name__ == "__main__":
    sys.exit(main())

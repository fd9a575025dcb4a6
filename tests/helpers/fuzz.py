"""Mass runs: `python tests/helpers/fuzz.py --n 20000 --seed 0` prints a minimal program for each failure.

Programs run in worker processes, so that a crash is found, not suffered. Owns the workers and the making smaller
of failing programs.
"""
from __future__ import annotations

import argparse
import collections
import faulthandler
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from compare import Failure, check
from generate import draw_program
from programs import GLOBALS, LAYOUTS, Program, literal, quiet


def program_of(seed: int, number: int, max_steps: int, large: bool) -> Program:
    """Return one program of a run; every tenth is over arrays that overlap."""
    return draw_program(random.Random(f"{seed}/{number}"), max_steps, large=large, overlapping=number % 10 == 9)


# ---------------------------------------------------------------- making smaller
def smaller(program: Program) -> Iterator[Program]:
    """Yield programs that are a little smaller: fewer outputs, statements cut off or turned into arguments."""
    if len(program.outputs) > 1:
        for k in range(len(program.outputs)):
            yield replace(program, outputs=program.outputs[:k] + program.outputs[k + 1 :]).live()
    for k in reversed(range(len(program.statements))):
        s = program.statements[k]
        rest = program.statements[:k] + program.statements[k + 1 :]
        if s.changes:
            yield replace(program, statements=rest).live()
        elif s.target not in program.outputs or any(s.target in t.reads for t in rest):
            yield from _cut(program, k)
    if program.container != "single" and len(program.outputs) == 1:
        yield replace(program, container="single")
    for k, s in enumerate(program.statements):
        if not s.changes and program.outputs != (s.target,) and s.target not in program.outputs:
            yield replace(program, statements=program.statements[: k + 1], outputs=(s.target,)).live()
    for k, source in enumerate(program.sources):
        if "make(" in source.text:
            for old, new in (("'special'", "'plain'"), *((f"'{x}'", "'C'") for x in LAYOUTS[1:])):
                if old in source.text:
                    changed = replace(source, text=source.text.replace(old, new))
                    yield replace(program, sources=program.sources[:k] + (changed,) + program.sources[k + 1 :])


def _cut(program: Program, k: int) -> Iterator[Program]:
    """Turn the k-th statement's value into an argument."""
    values = dict(zip((s.name for s in program.sources), program.arguments(), strict=True))
    try:
        with quiet():
            for s in program.statements[: k + 1]:
                exec(s.text, dict(GLOBALS), values)
    except Exception:
        return
    name = program.statements[k].target
    value = values[name]
    if getattr(value, "size", 1) > 300:
        source = f"make({value.shape}, '{value.dtype}', {k})"
        sources = (*program.sources, replace(literal(name, 0), text=source))
    else:
        sources = (*program.sources, literal(name, value))
    yield replace(program, sources=sources, statements=program.statements[:k] + program.statements[k + 1 :]).live()


def minimal(program: Program, failure: Failure) -> tuple[Program, Failure]:
    """Return the smallest program that fails in the same way."""
    begin, found = time.time(), True
    while found and time.time() - begin < 20:
        found = False
        for candidate in smaller(program):
            try:
                other = check(candidate)
            except Exception:
                continue
            if other is not None and other.kind == failure.kind:
                program, failure, found = candidate, other, True
                break
    return program, failure


# ---------------------------------------------------------------- workers
MEMORY, SECONDS = 6 << 30, 40
"""Bytes that a worker may take, and seconds that a program may compute: planning without end is found, not suffered."""


class TooSlowError(BaseException):
    """A program took longer than SECONDS; no Exception, so that nothing between takes it for the program's own."""


def _too_slow(*_: Any) -> None:
    raise TooSlowError


def work(seed: int, begin: int, end: int, max_steps: int, large: bool, shrink: bool) -> None:
    """Run programs in this process; one line to stdout before each."""
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGVTALRM, _too_slow)
    for number in range(begin, end):
        print(f"@{number}", flush=True)
        program = program_of(seed, number, max_steps, large)
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        try:
            failure = check(program)
        except TooSlowError:
            failure = Failure("slow", f"more than {SECONDS} s")
        except Exception as error:
            failure = Failure("test", f"the test itself failed: {error!r}")
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        if failure is None:
            continue
        if shrink and failure.kind != "slow":
            program, failure = minimal(program, failure)
        print(f"--- program {number}: {failure.kind}\n{program.script()}\n# {failure.details}\n", flush=True)


def run(seed: int, n: int, begin: int, max_steps: int, large: bool, shrink: bool) -> int:
    """Run n programs in restarted workers; return the number of failures."""
    failures: collections.Counter[str] = collections.Counter()
    number, end, clock = begin, begin + n, time.time()
    while number < end:
        stop = min(end, number + 500)
        numbers = {"--seed": seed, "--begin": number, "--n": stop - number, "--steps": max_steps}
        command = [sys.executable, __file__, "--worker", *(str(v) for pair in numbers.items() for v in pair)]
        command += ["--large"] * large + ["--keep"] * (not shrink)
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert worker.stdout is not None
        last, tail = number, collections.deque(maxlen=40)
        for line in worker.stdout:
            if line.startswith("@"):
                last = int(line[1:])
                tail.clear()
            else:
                tail.append(line)
                print(line, end="", flush=True)
                if line.startswith("--- "):
                    failures[line.split(": ", 1)[1].strip()] += 1
        if worker.wait() != 0:
            failures["crash"] += 1
            script = program_of(seed, last, max_steps, large).script()
            print(f"--- program {last}: crash ({worker.returncode})\n{script}\n", flush=True)
            number = last + 1
        else:
            number = stop
    total = sum(failures.values())
    print(f"{n} programs from seed {seed}, {total} failures {dict(failures)}, {time.time() - clock:.0f} s")
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--begin", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--large", action="store_true", help="large arrays: threads, chunks, split reductions")
    parser.add_argument("--keep", action="store_true", help="print failing programs whole")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(args.seed, args.begin, args.begin + args.n, args.steps, args.large, not args.keep)
        return 0
    folder = tempfile.mkdtemp(prefix="jitfuse-fuzz-")
    os.environ.setdefault("JITFUSE_DEBUG", "1")
    os.environ.setdefault("JITFUSE_CACHE_DIR", folder)
    try:
        return 1 if run(args.seed, args.n, args.begin, args.steps, args.large, not args.keep) else 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())

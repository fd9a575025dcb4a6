"""Trace, compile, call and drop many programs in one process, and watch what stays.

    python benchmarks/soak.py [functions | shapes | values] [--count 10000] [--warm 300] [--samples 10] [--json FILE]

functions: as many functions, each with kernels of its own, dropped after two calls. shapes: one function, as many
shapes of its argument. values: one function, as many values of a static argument. Each line has resident memory
(also after giving free memory back, which tells leaks from fragmentation), memory that is in use in malloc, memory
mappings, what Python has allocated, and programs per second. Growth counts from the end of the warm-up.

Kernels are compiled, not found: the cache is a temporary folder unless JITFUSE_CACHE_DIR is set. Linux alone.
"""
from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

import jitfuse as jf

UNARY: Final = ("abs", "ceil", "floor", "negative", "rint", "sqrt", "square", "trunc")
BINARY: Final = ("+", "-", "*")
DEPTH: Final = 3
FUNCTIONS: Final = (len(UNARY) * len(BINARY)) ** DEPTH
"""How many distinct functions there are, all of the same size."""


class Sample(NamedTuple):
    """What the process holds after `programs` of them; memory in KiB."""

    programs: int
    resident: int
    trimmed: int
    in_use: int
    mappings: int
    blocks: int
    per_second: float


class _Malloc(ctypes.Structure):
    """struct mallinfo2 of glibc."""

    _fields_ = tuple(
        (name, ctypes.c_size_t) for name in
        ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    )


# ---------------------------------------------------------------------- the work
def source(k: int) -> str:
    """Return the source of the k-th function; no two have the same kernels."""
    text = "x"
    for _ in range(DEPTH):
        k, choice = divmod(k, len(UNARY) * len(BINARY))
        text = f"(np.{UNARY[choice // len(BINARY)]}({text}) {BINARY[choice % len(BINARY)]} y)"
    return f"def f(x, y):\n    return {text}\n"


def functions() -> Callable[[int], None]:
    """Make, call twice and drop a function."""
    namespace: dict[str, Any] = {"np": np}
    x, y = np.linspace(0.0, 1.0, 16), np.ones(16)

    def run(k: int) -> None:
        local: dict[str, Any] = {}
        exec(source(k % FUNCTIONS), namespace, local)
        fused = jf.fuse(local["f"])
        fused(x, y)
        fused(x, y)

    return run


def shapes() -> Callable[[int], None]:
    """Call one function with a new shape."""
    fused = jf.fuse(lambda x: np.sin(x) * 2.5 + x)
    return lambda k: fused(np.ones(k + 1))


def values() -> Callable[[int], None]:
    """Call one function with a new static value."""
    fused = jf.fuse(lambda x, n: x * 2.5 + n, static_argnames=("n",))
    x = np.ones(16)
    return lambda k: fused(x, k)


WORK: Final = {"functions": functions, "shapes": shapes, "values": values}


# ---------------------------------------------------------------------- what is held
def resident() -> int:
    """Return the KiB of memory of its own that the process has in RAM: of files the system holds what it likes."""
    text = Path("/proc/self/status").read_text()
    return int(text.split("RssAnon:")[1].split()[0])


def sample(programs: int, seconds: float) -> Sample:
    """Measure; cycles are collected and free memory is given back meanwhile."""
    before = resident()
    gc.collect()
    in_use = 0
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)
    if hasattr(library, "mallinfo2"):
        library.mallinfo2.restype = _Malloc
        found = library.mallinfo2()
        in_use = (found.uordblks + found.hblkhd) >> 10
    mappings = Path("/proc/self/maps").read_text().count("\n")
    return Sample(
        programs, before, resident(), in_use, mappings, sys.getallocatedblocks(), programs / max(seconds, 1e-9)
    )


def soak(run: Callable[[int], None], count: int, warm: int, samples: int) -> Iterator[Sample]:
    """Run `warm` programs and then up to `count`, and yield a sample after the warm-up and at equal distances."""
    due = {warm + (count - warm) * k // samples for k in range(samples + 1)}
    begin = time.perf_counter()
    for k in range(count):
        run(k)
        if k + 1 in due:
            yield sample(k + 1, time.perf_counter() - begin)


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", choices=WORK, nargs="?", default="functions")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--warm", type=int, default=300)
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    if not Path("/proc/self/maps").exists():
        print("memory is read from /proc, which this system does not have")
        return 1
    # the pool of threads and their stacks come with the first work that is shared
    large = np.ones(1 << 18)
    jf.fuse(lambda x: x * 2.0 + 1.0)(large)
    del large
    print(f"{'programs':>8} {'resident':>9} {'trimmed':>9} {'malloc':>8} {'mappings':>8} {'blocks':>8} {'per s':>7}")
    seen: list[Sample] = []
    for s in soak(WORK[options.work](), options.count, options.warm, options.samples):
        seen.append(s)
        print(f"{s.programs:8d} {s.resident:9d} {s.trimmed:9d} {s.in_use:8d} {s.mappings:8d} {s.blocks:8d} "
              f"{s.per_second:7.1f}", flush=True)
    first, last = seen[0], seen[-1]
    print(f"growth over {last.programs - first.programs} programs: {(last.trimmed - first.trimmed) / 1024:.1f} MiB, "
          f"{last.mappings - first.mappings} mappings, {last.blocks - first.blocks} blocks")
    if options.json is not None:
        options.json.write_text(json.dumps([s._asdict() for s in seen]))
    return 0


if __name__ == "__main__":
    if any(os.environ.get(name) for name in ("JITFUSE_CACHE_DIR", "JITFUSE_CACHE_PATH")):
        sys.exit(main())
    with tempfile.TemporaryDirectory(prefix="jitfuse-soak-") as folder:
        os.environ["JITFUSE_CACHE_DIR"] = folder
        sys.exit(main())

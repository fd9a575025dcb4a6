"""Small kernels for the tests of the runtime, and running Python in a process of its own."""
from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from functools import cache
from typing import Any

from jitfuse.backends.llvm import jit
from jitfuse.backends.llvm.loader import Library, load
from jitfuse.backends.llvm.runtime import native
from jitfuse.backends.llvm.text.builder import Module, Value

Parallel = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64
)
MAX_THREADS = 64
SCRATCH_STRIDE = 64


def _kernels() -> str:
    """Write the kernels' text.

    ``count``: words = [bytes*, delay]: adds 1 to the byte of every unit (each after `delay` rounds of a
    loop), and to the first word of its scratch block, non-atomically, so that a shared block loses counts.
    ``status``: words = i64 per unit: returns the largest of its range.
    ``nested``: words = [jf_parallel*, count kernel*, its words*, units]: runs `count` inside each unit.
    """
    module = Module()
    params = [("words", "ptr"), ("begin", "i64"), ("end", "i64"), ("scratch", "ptr")]

    f = module.function("count", "i64", params, attributes=jit.KERNEL_ATTRIBUTES)
    words, begin, end, scratch = f.args
    data, delay = f.field("ptr", words, 0), f.field("i64", words, 8)
    with f.loop(begin, end) as unit:
        with f.loop(Value("0", "i64"), delay) as iteration:
            f.value("i64", f"load volatile i64, ptr {words.ref}")
            assert iteration.index.type == "i64"
        place = f.offset(data, unit.index)
        f.store(f.add(f.load("i8", place), f.const("i8", 1)), place)
        mine = f.value("i64", f"load volatile i64, ptr {scratch.ref}")
        f.emit(f"store volatile i64 {f.add(mine, f.const('i64', 1)).ref}, ptr {scratch.ref}")
    f.ret(Value("0", "i64"))

    f = module.function("status", "i64", params, attributes=jit.KERNEL_ATTRIBUTES)
    words, begin, end, _ = f.args
    with f.loop(begin, end) as unit:
        largest = unit.carry(Value("0", "i64"))
        mine = f.load("i64", f.offset(words, unit.index, "i64"))
        unit.update(0, f.intrinsic("umax", "i64", largest, mine))
    f.ret(unit.result(0))

    f = module.function("nested", "i64", params, attributes=jit.KERNEL_ATTRIBUTES)
    words, begin, end, scratch = f.args
    with f.loop(begin, end):
        f.call_pointer(
            f.field("ptr", words, 0), "i64",
            [f.field("ptr", words, 8), f.field("ptr", words, 16), f.field("i64", words, 24), f.const("i64", 0),
             scratch, Value("0", "i64")],
        )
    f.ret(Value("0", "i64"))
    return module.text()


_held: list[Library] = []
"""Threads that ask at once each get a library of their own; the cache keeps one, and the others' code runs, too."""


@cache
def kernels() -> Library:
    _held.append(load(jit.compile_text(_kernels())))
    return _held[-1]


def parallel() -> Any:
    return Parallel(native.runtime().address("jf_parallel"))


class Count:
    """One run of the `count` kernel: after it every byte must be 1 and the scratch counts must add up."""

    def __init__(self, units: int, delay: int = 0) -> None:
        self.units = units
        self.data = (ctypes.c_uint8 * (units + 1))()
        self.words = (ctypes.c_int64 * 2)(ctypes.addressof(self.data), delay)
        self.scratch = (ctypes.c_int64 * (MAX_THREADS * SCRATCH_STRIDE // 8))()

    def run(self, threads: int = 0) -> None:
        status = parallel()(
            kernels().address("count"), ctypes.addressof(self.words), self.units, threads,
            ctypes.addressof(self.scratch), SCRATCH_STRIDE,
        )
        assert status == 0

    def counts(self) -> list[int]:
        """Return how many units each thread did."""
        return [n for n in self.scratch if n]

    def check(self, times: int = 1) -> None:
        assert bytes(self.data) == bytes([times % 256]) * self.units + b"\0"
        assert sum(self.counts()) == times * self.units


def only_worker() -> int:
    """Give the pool two threads, and return the number of the one that it starts.

    Nothing else may start or end threads meanwhile: call this before the first call of a fused function, behind which
    others build the runtime and store kernels.
    """
    native.runtime().set_threads(2)
    first = Count(2)
    kernels()
    before = set(os.listdir("/proc/self/task"))
    first.run()
    (worker,) = set(os.listdir("/proc/self/task")) - before
    return int(worker)


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code that may hang or crash; it can import this module as `kernels`."""
    path = os.pathsep.join(p for p in (os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")) if p)
    return subprocess.run(
        [sys.executable, "-W", "error", "-X", "faulthandler", "-c", code], capture_output=True, text=True,
        timeout=900, env={**os.environ, "PYTHONPATH": path, **environment}, check=False,
    )

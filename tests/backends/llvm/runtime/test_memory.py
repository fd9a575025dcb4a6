from __future__ import annotations

import ctypes
import gc
import random
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import kernels
import numpy as np
import pytest
from amount import drawn

from jitfuse.backends.llvm.runtime import native

HEADER = 64


class Allocator:
    """The runtime's allocator through ctypes."""

    def __init__(self) -> None:
        runtime = native.runtime()
        self.alloc = runtime.function("jf_alloc", ctypes.c_void_p, ctypes.c_int64)
        self.free = runtime.function("jf_free", None, ctypes.c_void_p, ctypes.c_int64)

    @property
    def statistics(self) -> dict[str, int]:
        return native.runtime().memory_statistics()


@pytest.fixture
def memory() -> Iterator[Allocator]:
    gc.collect()
    runtime = native.runtime()
    runtime.trim_memory()
    live = runtime.memory_statistics()["live_bytes"]
    yield Allocator()
    runtime.set_memory_limit(1 << 30)
    gc.collect()
    assert runtime.memory_statistics()["live_bytes"] == live
    runtime.trim_memory()
    assert runtime.memory_statistics()["cached_bytes"] == 0


HUGE = 2 << 20
SIZES = [0, 1, 63, 64, 65, 511, 512, 513, 576, 577, 640, 4096, 100_000, HUGE - 1, HUGE, HUGE + 1, 5_000_000]


@pytest.mark.parametrize("size", SIZES)
def test_buffers_are_aligned_writable_and_recycled(size: int, memory: Allocator) -> None:
    before = memory.statistics
    data = memory.alloc(size)
    assert data and data % 64 == 0
    taken = memory.statistics["live_bytes"] - before["live_bytes"]
    assert max(size, 1) <= taken <= max(64, size * 9 // 8 + 64)
    ctypes.memset(data, 0xA5, taken)
    memory.free(data, size)
    assert memory.statistics["cached_bytes"] == taken
    assert memory.alloc(size) == data
    assert memory.statistics["reuses"] == before["reuses"] + 1
    memory.free(data, size)


def test_large_buffers_start_near_a_huge_page(memory: Allocator) -> None:
    buffers = [memory.alloc(16 << 20) for _ in range(8)]
    starts = [data % HUGE for data in buffers]
    assert all(HEADER <= start < 4096 for start in starts)
    assert len(set(starts)) == len(starts)
    for data in buffers:
        memory.free(data, 16 << 20)


@pytest.mark.parametrize("size", [-1, -(2**63), 2**47 + 1, 2**63 - 1])
def test_impossible_sizes_give_null(size: int, memory: Allocator) -> None:
    assert memory.alloc(size) is None


def test_what_the_system_refuses_gives_null(memory: Allocator) -> None:
    assert memory.alloc(2**47) is None  # all of the address space


def test_free_of_null_does_nothing(memory: Allocator) -> None:
    memory.free(None, 0)


def test_kept_bytes_stay_below_the_limit(memory: Allocator) -> None:
    native.runtime().set_memory_limit(1 << 20)
    buffers = [(memory.alloc(n), n) for n in (1000, 300_000, 700_000, 50_000, 300_000, 8 << 20)]
    for data, n in buffers:
        memory.free(data, n)
        assert memory.statistics["cached_bytes"] <= 1 << 20
    assert memory.statistics["cached_bytes"] > 0
    native.runtime().set_memory_limit(0)
    assert memory.statistics["cached_bytes"] == 0
    data = memory.alloc(100)
    memory.free(data, 100)
    assert memory.statistics["cached_bytes"] == 0


def test_random_allocations_never_overlap(memory: Allocator) -> None:
    generator = random.Random(7)
    held: list[tuple[int, int, int]] = []
    native.runtime().set_memory_limit(4 << 20)
    for step in range(drawn(4000)):
        if held and generator.random() < 0.5:
            data, size, mark = held.pop(generator.randrange(len(held)))
            edge = min(size, 64)
            assert ctypes.string_at(data, edge) == bytes([mark]) * edge
            assert ctypes.string_at(data + size - edge, edge) == bytes([mark]) * edge
            memory.free(data, size)
        elif len(held) < 200:
            size = int(2 ** generator.uniform(0, 22))
            data = memory.alloc(size)
            mark = step % 251
            ctypes.memset(data, mark, size)
            held.append((data, size, mark))
    extents = sorted((data, data + size) for data, size, _ in held)
    assert all(a_end <= b_start for (_, a_end), (b_start, _) in pairwise(extents))
    for data, size, _ in held:
        memory.free(data, size)


def test_threads_share_the_allocator(memory: Allocator, in_threads: Any) -> None:
    def work(k: int) -> None:
        generator = random.Random(k)
        for _ in range(drawn(300)):
            held = [(memory.alloc(n), n) for n in generator.choices((8, 64, 1000, 70_000, 3 << 20), k=4)]
            for data, n in held:
                ctypes.memset(data, k, min(n, 4096))
            for data, n in held:
                assert ctypes.string_at(data, min(n, 4096)) == bytes([k]) * min(n, 4096)
                memory.free(data, n)

    in_threads(16, work)


# ---------------------------------------------------------------------- NumPy
def _numpy_api(index: int) -> int:
    from numpy._core import _multiarray_umath  # type: ignore[attr-defined]

    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    table = pointer(_multiarray_umath._ARRAY_API, None)
    return int(ctypes.c_void_p.from_address(table + 8 * index).value or 0)


@contextmanager
def numpy_allocates_here() -> Iterator[None]:
    """Have NumPy take all array data from the runtime (PyDataMem_SetHandler)."""
    set_handler: Any = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(_numpy_api(304))
    before = set_handler(native.runtime().memory_handler)
    try:
        yield
    finally:
        set_handler(before)


def test_handler_names_itself(memory: Allocator) -> None:
    from numpy._core.multiarray import get_handler_name, get_handler_version

    with numpy_allocates_here():
        x = np.empty(5)
    assert get_handler_name(x) == "jitfuse"
    assert get_handler_version(x) == 1
    del x


def test_views_keep_buffers_alive(memory: Allocator) -> None:
    with numpy_allocates_here():
        x = np.arange(1000.0)
    view = x[10:20].reshape(2, 5)
    export = memoryview(view[1])
    taken = memory.statistics["live_bytes"]
    del x, view
    gc.collect()
    assert memory.statistics["live_bytes"] == taken
    assert export.tolist() == [15.0, 16.0, 17.0, 18.0, 19.0]
    export.release()
    gc.collect()
    assert memory.statistics["live_bytes"] < taken
    assert memory.statistics["cached_bytes"] >= 8000


def test_results_are_aligned_and_recycled(memory: Allocator) -> None:
    with numpy_allocates_here():
        x = np.empty(1000)
        address = x.ctypes.data
        assert address % 64 == 0
        del x
        y = np.ones(1000)
    assert y.ctypes.data == address
    assert y.sum() == 1000.0


def test_zeros_of_recycled_memory_are_zero(memory: Allocator) -> None:
    with numpy_allocates_here():
        for n in (1, 100, 10_000, 400_000):
            np.full(n, 7.0)
            assert not np.zeros(n).any()
        assert np.zeros((0, 3)).shape == (0, 3)
        with pytest.raises((MemoryError, ValueError)):
            np.zeros(2**44, np.float64)


def test_resize_keeps_content(memory: Allocator) -> None:
    generator = random.Random(3)
    with numpy_allocates_here():
        x = np.arange(10)
        for _ in range(50):
            n = int(2 ** generator.uniform(0, 20))
            kept = min(n, x.size)
            before = x[:kept].copy()
            x.resize(n, refcheck=False)
            assert (x[:kept] == before).all()
            assert x.size == n and not x[kept:].any()
    del x, before


def test_arrays_of_objects_work_too(memory: Allocator) -> None:
    with numpy_allocates_here():
        x = np.array([object(), None, "text"] * 100, dtype=object)
        assert x[1] is None and x[2] == "text"
        del x


def test_arrays_freed_by_other_threads(memory: Allocator, in_threads: Any) -> None:
    with numpy_allocates_here():
        arrays = [np.full(1000, k) for k in range(64)]

    def work(k: int) -> None:
        for i in range(4):
            assert (arrays[4 * k + i] == 4 * k + i).all()
            arrays[4 * k + i] = np.empty(0)

    in_threads(16, work)


@pytest.mark.full
def test_fork_while_other_threads_allocate() -> None:
    done = kernels.run_python("""
import ctypes, os, threading, warnings
warnings.simplefilter("ignore")
from jitfuse.backends.llvm.runtime import native
runtime = native.runtime()
alloc = runtime.function("jf_alloc", ctypes.c_void_p, ctypes.c_int64)
free = runtime.function("jf_free", None, ctypes.c_void_p, ctypes.c_int64)
stop = threading.Event()
def work():
    while not stop.is_set():
        for n in (100, 5000, 3 << 20):
            free(alloc(n), n)
threads = [threading.Thread(target=work) for _ in range(3)]
for t in threads: t.start()
for _ in range(20):
    child = os.fork()
    if child == 0:
        for n in (100, 5000, 3 << 20) * 10:
            data = alloc(n)
            ctypes.memset(data, 1, n)
            free(data, n)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
for t in threads: t.join()
""")
    assert done.returncode == 0, done.stderr


def test_arrays_that_outlive_everything_at_exit() -> None:
    done = kernels.run_python("""
import ctypes, sys
import numpy as np
from jitfuse.backends.llvm.runtime import native
from numpy._core import _multiarray_umath
prototype = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
table = prototype(("PyCapsule_GetPointer", ctypes.pythonapi))(_multiarray_umath._ARRAY_API, None)
address = ctypes.c_void_p.from_address(table + 8 * 304).value
set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(address)
set_handler(native.runtime().memory_handler)
sys.late = np.ones(1000), np.ones(10**6)
cycle = [np.ones(10)]
cycle.append(cycle)
""")
    assert done.returncode == 0 and done.stderr == "", done.stderr

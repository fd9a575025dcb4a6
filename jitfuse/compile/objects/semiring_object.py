"""The native code of semirings: a function for each carrier and dtype, from the cache or compiled when first asked for.

Owns the memory that it is given. Does not own its code (`jitfuse.backends.llvm.semirings.module`), nor the records that
it runs.
"""
from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from jitfuse.backends.llvm.loader import load
from jitfuse.backends.llvm.runtime.layout import ARRAY_DATA
from jitfuse.backends.llvm.target import machine_identity
from jitfuse.compile.objects.keys import LEVEL
from jitfuse.compile.objects.runtime_object import load_runtime_object, native_runtime

Run = Callable[[int, int, Any, float, int], int]
LARGE: Final = 1 << 17
"""Numbers from which on memory is recycled."""


def run_records(
    carrier: str, code: np.ndarray, count: int, workspace: np.ndarray, result: np.ndarray,
    stacks: Sequence[np.ndarray], *, one: float, modulus: int = 0, threads: bool = False,
) -> float:
    """Run a table of records; return the least number but 0 of tensors over their scales, of scales, and of inverses.

    Args:
        carrier: the arithmetic, one of `jitfuse.ir.semirings.words.CARRIERS`.
        code: the words of all records.
        count: number of records.
        workspace: the memory of the workspace.
        result: that of the result.
        stacks: the operands; all arrays are contiguous, and of one dtype.
        one: the semiring's one.
        modulus: that of residues.
        threads: whether units may be handed out to threads.
    """
    dtype = result.dtype
    least = np.array([np.inf], dtype)
    memories = (workspace, np.array([one], dtype), least, result, *stacks)
    addresses = (ctypes.c_int64 * len(memories))(*map(_address, memories))
    semiring_function(carrier, _NAMES[dtype])(
        _address(code), count, addresses, float(modulus or 1), parallel_address() if threads else 0)
    return float(least[0])


_NAMES: Final = {np.dtype(name): name for name in ("float64", "float32")}


def _address(array: np.ndarray) -> int:
    """Return where an array's elements are, in a tenth of the time of `__array_interface__`."""
    return ctypes.c_int64.from_address(id(array) + ARRAY_DATA).value


@cache
def semiring_function(carrier: str, dtype: str) -> Run:
    """Return the function that runs records: (their address, their number, the memories' addresses, modulus, pool).

    `pool` is `parallel_address`, or 0: one thread.

    Args:
        carrier: one of `jitfuse.ir.semirings.words.CARRIERS`.
        dtype: "float64" or "float32".
    """
    parts: dict[str, str | int] = {"level": LEVEL, "machine": " ".join(machine_identity())}
    library = load_runtime_object(f"semiring {carrier} {dtype}", lambda: _text(carrier, dtype), parts, load)
    _held.append(library)
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    made: Any = ctypes.CFUNCTYPE(number, pointer, number, pointer, ctypes.c_double, pointer)(
        library.address("jf_semiring"))
    return made  # type: ignore[no-any-return]


_held: list[Any] = []
"""Code in use is never unloaded."""


def _text(carrier: str, dtype: str) -> str:
    from jitfuse.backends.llvm.jit import host_target
    from jitfuse.backends.llvm.semirings.module import module_text

    target = host_target()
    return module_text(carrier, dtype, target.vector_bytes, target.has_fma)


@cache
def parallel_address() -> int:
    """Return the address of `jf_parallel`, which hands units out to threads."""
    from jitfuse.backends.llvm.runtime.native import expect_threads

    expect_threads()
    address: int = native_runtime().address("jf_parallel")
    return address


def empty(count: int, dtype: Any) -> np.ndarray:
    """Return an array without values: a large one in memory that the runtime keeps for the next when it is dropped.

    The system hands out new memory page by page, which takes as long as some passes over it.
    """
    if count < LARGE:
        return np.empty(count, dtype)
    alloc, free = _allocator()
    size = count * np.dtype(dtype).itemsize
    address = alloc(size)
    if not address:
        raise MemoryError(f"no memory for {size:,} bytes of messages")
    buffer = (ctypes.c_char * size).from_address(address)
    weakref.finalize(buffer, free, address, size).atexit = False
    return np.frombuffer(buffer, dtype)


@cache
def _allocator() -> tuple[Any, Any]:
    runtime = native_runtime()
    return (runtime.function("jf_alloc", ctypes.c_void_p, ctypes.c_int64),
            runtime.function("jf_free", None, ctypes.c_void_p, ctypes.c_int64))

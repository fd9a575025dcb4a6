"""Compile one math function into a loop over arrays, for the tests and timings of this folder."""
from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from jitfuse.backends.llvm import math
from jitfuse.backends.llvm.text.builder import Module, Value, vector
from jitfuse.ir.operators import ops

llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
ARITY = {op.name: op.arity for op in ops.table() if op.name in math.FUNCTIONS}
HOST = llvm.get_process_triple()
_HOST_CPU = (HOST, llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())
# target name: (triple, cpu, features, has_fma)
TARGETS = {
    "host": (*_HOST_CPU, True),
    "host without fma": (*_HOST_CPU, False),
    "x86-64": ("x86_64-unknown-linux-gnu", "x86-64", "", False),
    "x86-64-v3": ("x86_64-unknown-linux-gnu", "x86-64-v3", "", True),
    "x86-64-v4": ("x86_64-unknown-linux-gnu", "x86-64-v4", "", True),
    "aarch64": ("aarch64-unknown-linux-gnu", "generic", "", True),
}


def element_of(dtype: Any) -> str:
    return "float" if np.dtype(dtype) == np.float32 else "double"


def source(name: str, element: str, lanes: int, has_fma: bool, together: int = 1) -> str:
    """Return LLVM assembly of `kernel(operands..., result, n)`, n vectors, `together` of them interleaved."""
    module = Module()
    params = [(f"p{k}", "ptr") for k in range(ARITY[name] + 1)]
    f = module.function("kernel", "void", [*params, ("n", "i64")])
    *pointers, count = f.args
    type_ = vector(element, lanes)
    size = 4 if element == "float" else 8
    with f.loop(Value("0", "i64"), count, together) as loop:
        base = f.mul(loop.index, Value(str(lanes), "i64"))
        at = [f.offset(p, base, element) for p in pointers]
        operands = [
            [f.load(type_, f.offset(p, u * lanes, element), size) for p in at[:-1]] for u in range(together)
        ]
        for u, result in enumerate(math.emit_many(f, name, operands, has_fma=has_fma)):
            f.store(result, f.offset(at[-1], u * lanes, element), size)
    f.ret()
    return module.text()


def target_machine(target: str) -> llvm.TargetMachine:
    triple, cpu, features, _ = TARGETS[target]
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=features, opt=2, reloc="pic", codemodel="default"
    )


def compile_object(name: str, dtype: Any, lanes: int, target: str) -> bytes:
    module = llvm.parse_assembly(source(name, element_of(dtype), lanes, TARGETS[target][3]))
    module.verify()
    return target_machine(target).emit_object(module)


class Kernel:
    """A math function on whole arrays."""

    def __init__(self, name: str, dtype: Any, lanes: int, target: str, together: int = 1) -> None:
        self.dtype = np.dtype(dtype)
        self.step = lanes * together
        self.together = together
        self.arity = ARITY[name]
        module = llvm.parse_assembly(source(name, element_of(dtype), lanes, TARGETS[target][3], together))
        module.verify()
        self._engine = llvm.create_mcjit_compiler(module, target_machine(target))
        self._engine.finalize_object()
        prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (self.arity + 1), ctypes.c_int64)
        self.entry = prototype(self._engine.get_function_address("kernel"))

    def __call__(self, *operands: np.ndarray) -> np.ndarray:
        n = operands[0].size
        steps = -(-n // self.step)
        padded = [np.resize(x.astype(self.dtype, copy=False), steps * self.step) for x in operands]
        out = np.empty_like(padded[0])
        self.entry(*[a.ctypes.data for a in (*padded, out)], steps * self.together)
        return out[:n]


@cache
def make_kernel(
    name: str, dtype: Any, lanes: int | None = None, target: str = "host", together: int = 1
) -> Kernel:
    return Kernel(name, dtype, lanes or (16 if np.dtype(dtype) == np.float32 else 8), target, together)


def undefined_symbols(elf: bytes) -> list[str]:
    """Return the names that a relocatable ELF64 object leaves to the linker."""
    assert elf[:6] == b"\x7fELF\x02\x01"
    (offset,) = struct.unpack_from("<Q", elf, 0x28)
    size, count = struct.unpack_from("<HH", elf, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, offset + k * size) for k in range(count)]
    names = []
    for _, kind, _, _, start, length, link, _, _, _ in sections:
        if kind != 2:  # SHT_SYMTAB
            continue
        strings = sections[link][4]
        for at in range(start + 24, start + length, 24):  # after the null symbol
            name, _, _, section = struct.unpack_from("<IBBH", elf, at)
            if section == 0:
                end = elf.index(b"\0", strings + name)
                names.append(elf[strings + name : end].decode())
    return names


def ulp_errors(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Return |got - exact| in units of the last place of got's type, infinite for a wrong special value.

    `exact` is float64 of enough precision; the signs of zeros count.
    """
    dtype = got.dtype
    with np.errstate(all="ignore"):
        rounded = exact.astype(dtype)
        unit = np.spacing(np.abs(np.where(np.isfinite(rounded), rounded, 1).astype(dtype))).astype(np.float64)
        errors = np.abs(got.astype(np.float64) - exact) / unit
    same = (got == rounded) & (np.signbit(got) == np.signbit(rounded)) | np.isnan(got) & np.isnan(rounded)
    plain = np.isfinite(got) & np.isfinite(rounded) & (np.signbit(got) == np.signbit(exact))
    return np.where(plain, errors, np.where(same, 0.0, np.inf))


@pytest.fixture(scope="session")
def kernel() -> Callable[..., Kernel]:
    return make_kernel


@pytest.fixture(scope="session")
def ulps() -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    return ulp_errors


@pytest.fixture(scope="session")
def object_symbols() -> Callable[..., list[str]]:
    """Return a function from (name, dtype, lanes, target) to the undefined symbols of the object."""
    return lambda *case: undefined_symbols(compile_object(*case))

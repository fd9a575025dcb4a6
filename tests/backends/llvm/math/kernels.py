"""Compile one math function into a loop over arrays, for tests and timing alone."""
from __future__ import annotations

import ctypes
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np

from jitfuse.backends.llvm import math
from jitfuse.backends.llvm.builder import Module, Value, vector

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
ARITY = {"power": 2, "fmod": 2, "remainder": 2, "floor_divide": 2}
# target name: (cpu, features, has_fma)
TARGETS = {
    "host": (llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(), True),
    "sse2": ("x86-64", "", False),
    "avx2": ("x86-64-v3", "", True),
    "host-no-fma": (llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(), False),
}


def source(name: str, element: str, lanes: int, has_fma: bool, unroll: int = 1) -> str:
    """Return LLVM assembly of `kernel(operands..., result, n)`; n counts vectors."""
    module = Module()
    arity = ARITY.get(name, 1)
    params = [(f"p{k}", "ptr") for k in range(arity + 1)] + [("n", "i64")]
    f = module.function("kernel", "void", params)
    type_ = vector(element, lanes)
    size = 4 if element == "float" else 8
    with f.loop(Value("0", "i64"), f.args[-1], unroll) as loop:
        base = f.mul(loop.index, Value(str(lanes), "i64"))
        at = [f.offset(p, base, element) for p in f.args[:-1]]
        operands = [
            [f.load(type_, f.offset(p, u * lanes, element), size) for p in at[:-1]] for u in range(unroll)
        ]
        for u, result in enumerate(math.emit_many(f, name, operands, has_fma=has_fma)):
            f.store(result, f.offset(at[-1], u * lanes, element), size)
    f.ret()
    return module.text()


@cache
def target_machine(target: str) -> llvm.TargetMachine:
    cpu, features, _ = TARGETS[target]
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=cpu, features=features, opt=2, reloc="pic", codemodel="default"
    )


def compile_object(name: str, element: str, lanes: int, target: str, unroll: int = 1) -> bytes:
    text = source(name, element, lanes, TARGETS[target][2], unroll)
    module = llvm.parse_assembly(text)
    module.verify()
    return target_machine(target).emit_object(module)


class Kernel:
    """A callable on whole arrays."""

    def __init__(self, name: str, element: str, lanes: int, target: str = "host", unroll: int = 1) -> None:
        self.dtype = np.dtype(np.float32 if element == "float" else np.float64)
        self.lanes = lanes
        module = llvm.parse_assembly(source(name, element, lanes, TARGETS[target][2], unroll))
        module.verify()
        cpu, features, _ = TARGETS[target]
        machine = llvm.Target.from_default_triple().create_target_machine(cpu=cpu, features=features, opt=2)
        self._engine = llvm.create_mcjit_compiler(module, machine)
        self._engine.finalize_object()
        self.arity = ARITY.get(name, 1)
        prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (self.arity + 1), ctypes.c_int64)
        self.entry = prototype(self._engine.get_function_address("kernel"))

    def __call__(self, *operands: np.ndarray) -> np.ndarray:
        n = max(x.size for x in operands)
        count = -(-n // self.lanes)
        padded = []
        for x in operands:
            full = np.zeros(count * self.lanes, self.dtype)
            full[:n] = x
            padded.append(full)
        out = np.empty_like(padded[0])
        self.entry(*[a.ctypes.data for a in (*padded, out)], count)
        return out[:n]


@cache
def kernel(name: str, dtype: type, lanes: int | None = None, target: str = "host") -> Kernel:
    element = "float" if np.dtype(dtype) == np.float32 else "double"
    return Kernel(name, element, lanes or (16 if element == "float" else 8), target)


def undefined_symbols(obj: bytes) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.o"
        path.write_bytes(obj)
        listing = subprocess.run(["nm", "-u", str(path)], capture_output=True, text=True, check=True).stdout
    return [line.split()[-1] for line in listing.splitlines()]

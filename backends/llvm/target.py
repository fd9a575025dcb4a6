"""The machine that code is made for, told without LLVM.

Owns: `machine_identity`, the part of cache keys that says where native code may be used again. Does not own
LLVM's own answer, `jitfuse.backends.llvm.jit.host_target`, which only compiling needs.
"""
from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from importlib.util import find_spec
from typing import Final

from jitfuse.backends.llvm.loader import OWN_LOADER
from jitfuse.backends.llvm.process import EXECUTE, PAGE, READ, Pages
from jitfuse.errors import CompileError


@cache
def machine_identity() -> tuple[str, ...]:
    """Return words that are equal in two processes only where LLVM makes the same code for both.

    They are the system, what its processor says of itself, and the build of llvmlite, whose LLVM looks at
    nothing else: no environment variable, no file. Raises CompileError where llvmlite is not installed.
    """
    return (sys.platform, *(_processor() if OWN_LOADER else _as_llvm_says()), *_llvm_build())


def _as_llvm_says() -> tuple[str, ...]:
    from jitfuse.backends.llvm.jit import host_target

    target = host_target()
    return (target.triple, target.cpu, target.features)


# ---------------------------------------------------------------------- x86-64
_CPUID: Final = bytes.fromhex("53 4989d0 89f8 89f1 0fa2 418900 41895804 41894808 4189500c 5b c3")
"""void cpuid(uint32 leaf, uint32 subleaf, uint32 out[4]), which keeps %rbx as its caller wants."""
_XGETBV: Final = bytes.fromhex("31c9 0f01d0 48c1e220 4809d0 c3")
"""uint64 xgetbv(void): the registers that the system saves."""
_XGETBV_AT: Final = 64

_A, _B, _C, _D = range(4)
_LEAVES: Final = (
    (0x0, 0, (_B, _C, _D)),
    (0x1, 0, (_A, _C, _D)),  # B tells the core that runs this
    (0x7, 0, (_A, _B, _C, _D)),
    (0x7, 1, (_A, _B, _C, _D)),
    (0xD, 1, (_A,)),
    (0x14, 0, (_B,)),
    (0x19, 0, (_B,)),
    (0x1E, 1, (_A,)),
    (0x24, 0, (_B,)),
    (0x29, 0, (_B,)),
    (0x80000001, 0, (_A, _B, _C, _D)),
    (0x80000008, 0, (_B,)),
    (0x80000021, 0, (_A,)),
)
"""(leaf, subleaf, registers) with the vendor, the model and every feature that LLVM 22's Host.cpp asks for."""


def _processor() -> tuple[str, ...]:
    """Return what CPUID says, as LLVM reads it.

    The flags of /proc/cpuinfo are not enough: the kernel leaves out those that it does not know or does not
    use, as shstk, and LLVM does not.
    """
    pages = Pages(PAGE)
    pages.fill(_CPUID.ljust(_XGETBV_AT, b"\xcc") + _XGETBV, [(0, PAGE, READ | EXECUTE)])
    cpuid = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)(pages.address)
    out = (ctypes.c_uint32 * 4)()
    last = {}
    for first in (0x0, 0x80000000):
        cpuid(first, 0, ctypes.addressof(out))
        last[first] = out[_A]
    words = []
    for leaf, subleaf, registers in _LEAVES:
        if leaf > last[leaf & 0x80000000]:
            continue  # a processor answers for another leaf then
        cpuid(leaf, subleaf, ctypes.addressof(out))
        words.append(f"{leaf:x}.{subleaf}:" + ",".join(f"{out[r]:x}" for r in registers))
        if leaf == 0x1 and out[_C] >> 27 & 1:
            xgetbv = ctypes.CFUNCTYPE(ctypes.c_uint64)(pages.address + _XGETBV_AT)
            words.append(f"xcr0:{xgetbv():x}")
    return ("x86_64", *words)


# ---------------------------------------------------------------------- llvmlite
def _llvm_build() -> tuple[str, ...]:
    """Return the version and revision of llvmlite, and the size of its library: builds differ in their LLVM."""
    folder = _llvmlite_folder()
    try:
        with open(os.path.join(folder, "_version.py"), "rb") as file:
            lines = [line.split(b"=", 1)[1].strip(b" '\"\r\n") for line in file if line.startswith(b"version_")]
        library = next(name for name in os.listdir(os.path.join(folder, "binding")) if "llvmlite." in name)
        size = os.stat(os.path.join(folder, "binding", library)).st_size
    except (OSError, StopIteration):
        lines = []
    if not lines:  # not laid out as its releases are
        import llvmlite  # type: ignore[import-untyped]

        return ("llvmlite", str(llvmlite.__version__))
    return ("llvmlite", *(line.decode("utf-8", "replace") for line in lines), str(size))


def _llvmlite_folder() -> str:
    """Return where llvmlite would be imported from; the folders of sys.path are looked at first, which is quick."""
    for place in sys.path:
        folder = os.path.join(place, "llvmlite")
        if os.path.isfile(os.path.join(folder, "__init__.py")):
            return folder
    spec = find_spec("llvmlite")
    if spec is None or not spec.submodule_search_locations:
        raise CompileError("native code needs llvmlite, which is not installed: pip install llvmlite")
    return spec.submodule_search_locations[0]

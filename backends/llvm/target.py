"""The machine that code is made for, identified without LLVM.

Owns: `machine_identity`, the part of cache keys that tells on which machines native code may be reused. Does not own
LLVM's description, `jitfuse.backends.llvm.jit.host_target`, which only compiling needs.
"""
from __future__ import annotations

import ctypes
import os
import struct
import sys
from array import array
from functools import cache
from importlib.util import find_spec
from typing import Final

from jitfuse.backends.llvm.load.process import EXECUTE, PAGE, READ, Pages, c_function
from jitfuse.backends.llvm.loader import OWN_LOADER
from jitfuse.errors import CompileError


@cache
def machine_identity() -> tuple[str, ...]:
    """Return strings that are equal in two processes only where LLVM makes the same code for both.

    They are the system, the processor's CPUID data, and the build of llvmlite. LLVM reads nothing else: no
    environment variable, no file. Raises CompileError where llvmlite is not installed.
    """
    return (sys.platform, *(_processor() if OWN_LOADER else _as_llvm_names()), *_llvm_build())


def _as_llvm_names() -> tuple[str, ...]:
    from jitfuse.backends.llvm.jit import host_target

    target = host_target()
    return (target.triple, target.cpu, target.features)


# ---------------------------------------------------------------------- x86-64
_CODE: Final = bytes.fromhex(
    "53 4989f8 4989f1"  # push %rbx; the rows to %r8, their number to %r9
    "418b00 3b07 7f15"  # the leaf in a row; skip a basic leaf beyond the last, which takes as long and has no data
    "418b4804 0fa2 418900 41895804 41894808 4189500c"  # CPUID of it, into the row
    "4983c010 49ffc9 75db"  # the next row, until there is none
    "f6471b08 740c 31c9 0f01d0 418900 41895004"  # XGETBV behind them, where leaf 1 has its bit set
    "5b c3"
)
"""void ask(uint32 rows[][4], uint64 count): overwrites each (leaf, subleaf) with its CPUID registers; then writes which
registers the system saves. The first rows are leaf 0 and leaf 1."""

_A: Final = 0xFFFFFFFF
_B, _C, _D = _A << 32, _A << 64, _A << 96
_LEAVES: Final = (
    (0x0, 0, _A | _B | _C | _D),
    (0x1, 0, _A | _C | _D),  # B tells the core that runs this
    (0x7, 0, _A | _B | _C | _D),
    (0x7, 1, _A | _B | _C | _D),
    (0xD, 1, _A),
    (0x14, 0, _B),
    (0x19, 0, _B),
    (0x1E, 1, _A),
    (0x24, 0, _B),
    (0x29, 0, _B),
    (0x80000000, 0, _A),
    (0x80000001, 0, _A | _B | _C | _D),
    (0x80000008, 0, _B),
    (0x80000021, 0, _A),
)
"""(leaf, subleaf, registers) with the vendor, the model and every feature that LLVM 22's Host.cpp reads."""
_ROW: Final = 16
_ROWS: Final = b"".join([struct.pack("<II8x", leaf, subleaf) for leaf, subleaf, _ in _LEAVES]) + bytes(8)
"""The code's input: a row for each leaf, and room for the saved registers."""
_KEPT: Final = sum([kept << 8 * _ROW * k for k, (_, _, kept) in enumerate(_LEAVES)]) | -1 << 8 * _ROW * len(_LEAVES)
_EXTENDED: Final = tuple([(leaf, 4 * k) for k, (leaf, _, _) in enumerate(_LEAVES) if leaf > 0x80000000])
"""Extended leaves, and where their rows begin, in words; the row before them has the number of the last one."""


def _processor() -> tuple[str, ...]:
    """Return the CPUID data that LLVM reads: the rows of `_LEAVES` and the saved registers, as one number.

    The flags of /proc/cpuinfo are not enough: the kernel omits those that it does not know or use, such as shstk, but
    LLVM reads them. Each leaf takes 5 µs in a virtual machine, where the host emulates the instruction: 0.03 to 0.3 ms
    in all, where reading the file takes 0.03 to 0.13 ms, and importing llvmlite to ask LLVM takes 18.
    """
    rows = array("I", _ROWS)
    pages = Pages(PAGE)
    pages.write(0, _CODE)
    pages.protect(PAGE, READ | EXECUTE)
    c_function(pages.address, None, ctypes.c_void_p, ctypes.c_size_t)(rows.buffer_info()[0], len(_LEAVES))
    last = rows[_EXTENDED[0][1] - 4]
    for leaf, at in _EXTENDED:
        if leaf > last:  # beyond the last leaf, a processor returns the data of another one
            rows[at] = rows[at + 1] = rows[at + 2] = rows[at + 3] = 0
    return "x86_64", f"cpuid:{int.from_bytes(rows.tobytes(), 'little') & _KEPT:x}"


# ---------------------------------------------------------------------- llvmlite
def _llvm_build() -> tuple[str, ...]:
    """Return the version and revision of llvmlite, and the size of its library: builds differ in their LLVM."""
    folder = _llvmlite_folder()
    try:
        with open(f"{folder}{os.sep}_version.py", "rb", buffering=0) as file:
            lines = [line for line in file.read().splitlines() if line.startswith(b"version_")]
        size = _library_size(f"{folder}{os.sep}binding{os.sep}")
    except (OSError, StopIteration):
        lines = []
    if not lines:  # not laid out as its releases are
        import llvmlite  # type: ignore[import-untyped]

        return ("llvmlite", str(llvmlite.__version__))
    texts = [line.split(b"=", 1)[1].strip(b" '\"").decode("utf-8", "replace") for line in lines]
    return ("llvmlite", *texts, str(size))


def _library_size(folder: str) -> int:
    if not OWN_LOADER:
        return os.stat(folder + next(name for name in os.listdir(folder) if "llvmlite." in name)).st_size
    return os.stat(f"{folder}libllvmlite.so").st_size


def _llvmlite_folder() -> str:
    """Return where llvmlite would be imported from; searches the folders of sys.path first, which is quick."""
    for path in sys.path:
        folder = f"{path or os.curdir}{os.sep}llvmlite"
        if os.path.isfile(f"{folder}{os.sep}__init__.py"):
            return folder
    spec = find_spec("llvmlite")
    if spec is None or not spec.submodule_search_locations:
        raise CompileError("native code needs llvmlite, which is not installed: pip install llvmlite")
    return spec.submodule_search_locations[0]

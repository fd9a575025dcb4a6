"""Buffers of the recycling allocator as blocks of the system: their headers, sizes, allocation and release.

Every buffer has a header just before its 64-byte aligned data: the next free buffer of its class, the data's
capacity in bytes, the class, and where the block starts. So a free buffer's data is never touched, and
realloc can read the capacity. Classes: multiples of 64 bytes up to 512, then eight for each doubling. Each buffer
of 2 MiB and more has a mapping of its own at a multiple of 2 MiB, with huge pages where the system has them.
Large buffers start at different distances from a page (cache colouring): a kernel over seven arrays of 4 MiB
takes a third longer where all their addresses agree in the bits that select the cache set.
Does not own which buffers are free (`jitfuse.backends.llvm.runtime.memory`).
"""
from __future__ import annotations

import sys
from typing import Final

from jitfuse.backends.llvm.runtime.atomics import atomic_rmw
from jitfuse.backends.llvm.text.builder import Function, Module, Value

NEXT, CAPACITY, CLASS, _BLOCK, _BLOCK_BYTES = range(0, 40, 8)  # bytes from the header's start
CLASSES: Final = 8 + 8 * (47 - 9)
LARGEST: Final = 1 << 47
"""Bytes of the largest buffers."""

_HEADER = 64
_HUGE = 2 << 20
_COLOURED = 64 << 10
_COLOURS, _COLOUR_STEP = 8, 7 * 64
_MAP_FLAGS = 0x22 if sys.platform.startswith("linux") else 0x1002  # MAP_PRIVATE | MAP_ANONYMOUS
_MADV_HUGEPAGE = 14

_ZERO, _ONE = Value("0", "i64"), Value("1", "i64")
_COLOUR = Value("@jf_memory_colour", "ptr")


def emit_blocks(module: Module) -> None:
    """Add the functions that take buffers from the system and give them back to a module.

    ``ptr jf_memory_take(i64 class, i64 capacity)``: a buffer from the system, or null.
    ``void jf_memory_release(ptr data)``: give one buffer back to the system.
    """
    module.global_("jf_memory_colour", "internal global i64 0, align 64")
    _emit_take(module)
    _emit_map(module)
    _emit_release(module)


def size_class(f: Function, bytes_: Value) -> tuple[Value, Value]:
    """Return the size class of at least 1 byte, and the capacity of its buffers in bytes."""
    last = f.sub(bytes_, _ONE)
    small = f.icmp("ult", last, f.const("i64", 512))
    # the three bits after the leading one count eighths of a doubling
    top = f.sub(f.const("i64", 63), f.value("i64", f"call i64 @llvm.ctlz.i64(i64 {last.ref}, i1 false)"))
    f.module.declare("llvm.ctlz.i64", "i64", ["i64", "i1"])
    shift = f.select(small, f.const("i64", 6), f.sub(top, f.const("i64", 3)))
    step = f.lshr(last, shift)
    doubling = f.mul(f.sub(shift, f.const("i64", 6)), f.const("i64", 8))
    return f.add(doubling, step), f.shl(f.add(step, _ONE), shift)


def header(f: Function, data: Value) -> Value:
    """Return the header of a buffer."""
    return f.offset(data, -_HEADER)


def _emit_take(module: Module) -> None:
    f = module.function("jf_memory_take", "ptr", [("class", "i64"), ("capacity", "i64")], internal=True)
    class_, capacity = f.args
    colour = f.and_(atomic_rmw(f, "add", _COLOUR, _ONE, "monotonic"), f.const("i64", _COLOURS - 1))
    coloured = f.icmp("uge", capacity, f.const("i64", _COLOURED))
    pad = f.select(coloured, f.mul(colour, f.const("i64", _COLOUR_STEP)), _ZERO)
    bytes_ = f.add(f.add(capacity, pad), f.const("i64", _HEADER))
    f.cond_br(f.icmp("ult", capacity, f.const("i64", _HUGE)), "small", "large")
    f.label("small")
    slot = f.alloca("ptr")
    f.store(f.null, slot)
    f.call("posix_memalign", "i32", [slot, f.const("i64", 64), bytes_])
    small = f.load("ptr", slot)
    f.br("check")
    f.label("large")
    large = f.call("jf_memory_map", "ptr", [bytes_])
    f.label("check")
    block = f.phi("ptr", [(small, "small"), (large, "large")])
    with f.if_(f.icmp("eq", block, f.null), likely=False):
        f.ret(f.null)
    head = f.offset(block, pad)
    for value, offset in ((f.null, NEXT), (capacity, CAPACITY), (class_, CLASS), (block, _BLOCK),
                          (bytes_, _BLOCK_BYTES)):
        f.set_field(value, head, offset)
    f.ret(f.offset(head, _HEADER))


def _emit_map(module: Module) -> None:
    """``ptr jf_memory_map(i64 bytes)``: map pages at a multiple of 2 MiB, or return null."""
    f = module.function("jf_memory_map", "ptr", [("bytes", "i64")], internal=True)
    page, huge = f.const("i64", 4096), f.const("i64", _HUGE)
    bytes_ = _round_up(f, f.args[0], page)
    everything = f.add(bytes_, huge)
    read_write = f.const("i32", 3)
    mapped = f.call(
        "mmap", "ptr",
        [f.null, everything, read_write, f.const("i32", _MAP_FLAGS), f.const("i32", -1), _ZERO],
    )
    start = f.cast("ptrtoint", mapped, "i64")
    with f.if_(f.icmp("eq", start, f.const("i64", -1)), likely=False):
        f.ret(f.null)
    aligned = _round_up(f, start, huge)
    front = f.sub(aligned, start)
    block = f.offset(mapped, front)
    with f.if_(f.icmp("ne", front, _ZERO)):
        f.call("munmap", "i32", [mapped, front])
    back = f.sub(huge, front)
    with f.if_(f.icmp("ne", back, _ZERO)):
        f.call("munmap", "i32", [f.offset(block, bytes_), back])
    if sys.platform.startswith("linux"):
        f.call("madvise", "i32", [block, bytes_, f.const("i32", _MADV_HUGEPAGE)])
    f.ret(block)


def _round_up(f: Function, x: Value, multiple: Value) -> Value:
    mask = f.sub(multiple, _ONE)
    return f.and_(f.add(x, mask), f.not_(mask))


def _emit_release(module: Module) -> None:
    f = module.function("jf_memory_release", "void", [("data", "ptr")], internal=True)
    head = header(f, f.args[0])
    block = f.field("ptr", head, _BLOCK)
    mapped = f.icmp("uge", f.field("i64", head, CAPACITY), f.const("i64", _HUGE))
    f.cond_br(mapped, "large", "small")
    f.label("small")
    f.call("free", "void", [block])
    f.ret()
    f.label("large")
    f.call("munmap", "i32", [block, f.field("i64", head, _BLOCK_BYTES)])
    f.ret()

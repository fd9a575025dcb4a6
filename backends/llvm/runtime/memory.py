"""The recycling allocator under results and arenas, and its face as a NumPy memory handler.

Owns: size classes, the lists of free buffers, the limit on what they keep. Does not own who may use a buffer:
NumPy frees a result's buffer when the last owner of its array dies.

Every buffer has a header just before its 64-byte aligned data: the next free buffer of its class, the data's
capacity in bytes, the class, and where the block starts. So a free buffer's data is never touched, and
realloc knows what it has. Classes: multiples of 64 bytes up to 512, then eight for each doubling. Buffers of
2 MiB and more are mapped on their own at a multiple of 2 MiB, with huge pages where the system has them.
Large buffers start at different distances from a page (cache colouring): a kernel over seven arrays of 4 MiB
takes a third longer where all their addresses agree in the bits that choose the cache set.
Freed buffers are kept up to `jf_memory_limit` bytes; beyond it the largest kept buffers go back first.
"""
from __future__ import annotations

import sys

from jitfuse.backends.llvm.builder import Function, Module, Value
from jitfuse.backends.llvm.runtime.atomics import atomic_rmw, lock, unlock
from jitfuse.backends.llvm.runtime.layout import MEMORY_HANDLER, MEMORY_HANDLER_NAME, MEMORY_STATISTICS

DEFAULT_LIMIT = 1 << 30

_HEADER = 64
_NEXT, _CAPACITY, _CLASS, _BLOCK, _BLOCK_BYTES = range(0, 40, 8)
_HUGE = 2 << 20
_COLOURED = 64 << 10
_COLOURS, _COLOUR_STEP = 8, 7 * 64
_LARGEST = 1 << 47
_CLASSES = 8 + 8 * (47 - 9)
_MAP_FLAGS = 0x22 if sys.platform.startswith("linux") else 0x1002  # MAP_PRIVATE | MAP_ANONYMOUS
_MADV_HUGEPAGE = 14

_ZERO, _ONE = Value("0", "i64"), Value("1", "i64")
_LOCK = Value("@jf_memory_lock", "ptr")
_LIMIT = Value("@jf_memory_limit", "ptr")
_COLOUR = Value("@jf_memory_colour", "ptr")
_LISTS = Value("@jf_memory_lists", "ptr")
_COUNTERS = Value("@jf_memory_counters", "ptr")
_LIVE, _CACHED, _ALLOCATIONS, _REUSES = range(0, 32, 8)


def emit_memory(module: Module) -> None:
    """Add the allocator to a module.

    ``ptr jf_alloc(i64 bytes)``: a buffer aligned to 64 bytes, or null; 0 bytes give a buffer too.
    ``void jf_free(ptr, i64 bytes)``: give it back; null is ignored. `bytes` is not looked at.
    ``i64 jf_memory_limit``: how many bytes of free buffers may be kept.
    ``void jf_memory_trim(i64 keep)``: give free buffers back until at most `keep` bytes are left.
    ``void jf_memory_stats(ptr out)``: the words of `MEMORY_STATISTICS`.
    ``jf_memory_handler``: a PyDataMem_Handler, version 1, and ``jf_memory_handler_name``, its capsule's name.
    ``void jf_memory_before_fork()``, ``void jf_memory_after_fork()``: to be called around a fork, the second
    one in parent and child, so that the child finds the lists whole.
    """
    module.global_("jf_memory_limit", f"global i64 {DEFAULT_LIMIT}, align 64")
    module.global_("jf_memory_lock", "internal global i32 0, align 64")
    module.global_("jf_memory_colour", "internal global i64 0, align 64")
    module.global_("jf_memory_lists", f"internal global [{_CLASSES} x ptr] zeroinitializer, align 64")
    module.global_("jf_memory_counters", "internal global [4 x i64] zeroinitializer, align 64")
    _emit_alloc(module)
    _emit_new(module)
    _emit_map(module)
    _emit_free(module)
    _emit_trim(module)
    _emit_evict(module)
    _emit_release(module)
    _emit_fork(module)
    _emit_statistics(module)
    _emit_handler(module)


def _count(f: Function, offset: int, by: Value) -> Value:
    """Add to a counter, under the lock; returns what it is then."""
    now = f.add(f.field("i64", _COUNTERS, offset), by)
    f.set_field(now, _COUNTERS, offset)
    return now


def _size_class(f: Function, bytes_: Value) -> tuple[Value, Value]:
    """Return the class of a size of at least 1 byte, and the bytes that buffers of this class hold."""
    last = f.sub(bytes_, _ONE)
    small = f.icmp("ult", last, f.const("i64", 512))
    # the three bits after the leading one count eighths of a doubling
    top = f.sub(f.const("i64", 63), f.value("i64", f"call i64 @llvm.ctlz.i64(i64 {last.ref}, i1 false)"))
    f.module.declare("llvm.ctlz.i64", "i64", ["i64", "i1"])
    shift = f.select(small, f.const("i64", 6), f.sub(top, f.const("i64", 3)))
    step = f.lshr(last, shift)
    doubling = f.mul(f.sub(shift, f.const("i64", 6)), f.const("i64", 8))
    return f.add(doubling, step), f.shl(f.add(step, _ONE), shift)


def _list(f: Function, class_: Value) -> Value:
    return f.offset(_LISTS, class_, "ptr")


def _header(f: Function, data: Value) -> Value:
    return f.offset(data, -_HEADER)


def _emit_alloc(module: Module) -> None:
    f = module.function("jf_alloc", "ptr", [("bytes", "i64")])
    bytes_ = f.intrinsic("umax", "i64", f.args[0], _ONE)
    with f.if_(f.icmp("ugt", bytes_, f.const("i64", _LARGEST)), likely=False):
        f.ret(f.null)
    class_, capacity = _size_class(f, bytes_)
    list_ = _list(f, class_)
    lock(f, _LOCK)
    _count(f, _ALLOCATIONS, _ONE)
    _count(f, _LIVE, capacity)
    data = f.load("ptr", list_)
    f.cond_br(f.icmp("ne", data, f.null), "reuse", "none", likely=True)
    f.label("reuse")
    f.store(f.field("ptr", _header(f, data), _NEXT), list_)
    _count(f, _REUSES, _ONE)
    _count(f, _CACHED, f.sub(_ZERO, capacity))
    unlock(f, _LOCK)
    f.ret(data)
    f.label("none")
    unlock(f, _LOCK)
    f.ret(f.call("jf_memory_new", "ptr", [class_, capacity]))


def _emit_new(module: Module) -> None:
    """``ptr jf_memory_new(i64 class, i64 capacity)``: a buffer from the system, or null."""
    f = module.function("jf_memory_new", "ptr", [("class", "i64"), ("capacity", "i64")], internal=True)
    class_, capacity = f.args
    colour = f.and_(atomic_rmw(f, "add", _COLOUR, _ONE, "monotonic"), f.const("i64", _COLOURS - 1))
    coloured = f.icmp("uge", capacity, f.const("i64", _COLOURED))
    pad = f.select(coloured, f.mul(colour, f.const("i64", _COLOUR_STEP)), _ZERO)
    bytes_ = f.add(f.add(capacity, pad), f.const("i64", _HEADER))
    f.label("again")
    f.emit("%retry = phi i1 [ true, %entry ], [ false, %trim ]")
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
    f.cond_br(f.icmp("ne", block, f.null), "made", "full", likely=True)
    f.label("full")
    f.cond_br(Value("%retry", "i1"), "trim", "fail")
    f.label("trim")
    f.call("jf_memory_trim", "void", [_ZERO])
    f.br("again")
    f.label("fail")
    lock(f, _LOCK)
    _count(f, _LIVE, f.sub(_ZERO, capacity))
    unlock(f, _LOCK)
    f.ret(f.null)
    f.label("made")
    for value, offset in ((f.null, _NEXT), (capacity, _CAPACITY), (class_, _CLASS), (block, _BLOCK),
                          (bytes_, _BLOCK_BYTES)):
        f.set_field(value, f.offset(block, pad), offset)
    f.ret(f.offset(f.offset(block, pad), _HEADER))


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


def _emit_free(module: Module) -> None:
    f = module.function("jf_free", "void", [("data", "ptr"), ("bytes", "i64")])
    data = f.args[0]
    with f.if_(f.icmp("eq", data, f.null), likely=False):
        f.ret()
    header = _header(f, data)
    capacity = f.field("i64", header, _CAPACITY)
    list_ = _list(f, f.field("i64", header, _CLASS))
    lock(f, _LOCK)
    _count(f, _LIVE, f.sub(_ZERO, capacity))
    f.set_field(f.load("ptr", list_), header, _NEXT)
    f.store(data, list_)
    cached = _count(f, _CACHED, capacity)
    unlock(f, _LOCK)
    limit = f.load("i64", _LIMIT)
    with f.if_(f.icmp("ugt", cached, limit), likely=False):
        f.call("jf_memory_trim", "void", [limit])
    f.ret()


def _emit_trim(module: Module) -> None:
    f = module.function("jf_memory_trim", "void", [("keep", "i64")])
    lock(f, _LOCK)
    victims = f.call("jf_memory_evict", "ptr", [f.args[0]])
    unlock(f, _LOCK)
    # given back without the lock: unmapping a gigabyte takes milliseconds
    before = f.block
    f.label("next")
    data = f.phi("ptr", [(victims, before), (Value("%following", "ptr"), "release")])
    f.cond_br(f.icmp("ne", data, f.null), "release", "done")
    f.label("release")
    f.emit(f"%following = load ptr, ptr {_header(f, data).ref}")
    f.call("jf_memory_release", "void", [data])
    f.br("next")
    f.label("done")
    f.ret()


def _emit_evict(module: Module) -> None:
    """``ptr jf_memory_evict(i64 keep)``: unlink free buffers, largest first, down to `keep` bytes.

    The caller holds the lock; returns the unlinked buffers as a list.
    """
    f = module.function("jf_memory_evict", "ptr", [("keep", "i64")], internal=True)
    f.label("look")
    f.emit(f"%class = phi i64 [ {_CLASSES - 1}, %entry ], [ %lower, %empty ], [ %class, %take ]")
    f.emit("%victims = phi ptr [ null, %entry ], [ %victims, %empty ], [ %data, %take ]")
    class_, victims = Value("%class", "i64"), Value("%victims", "ptr")
    excess = f.icmp("ugt", f.field("i64", _COUNTERS, _CACHED), f.args[0])
    f.cond_br(f.and_(excess, f.icmp("sge", class_, _ZERO)), "examine", "done")
    f.label("examine")
    list_ = _list(f, class_)
    f.emit(f"%data = load ptr, ptr {list_.ref}")
    data = Value("%data", "ptr")
    f.cond_br(f.icmp("eq", data, f.null), "empty", "take")
    f.label("empty")
    f.emit("%lower = sub i64 %class, 1")
    f.br("look")
    f.label("take")
    header = _header(f, data)
    f.store(f.field("ptr", header, _NEXT), list_)
    f.set_field(victims, header, _NEXT)
    _count(f, _CACHED, f.sub(_ZERO, f.field("i64", header, _CAPACITY)))
    f.br("look")
    f.label("done")
    f.ret(victims)


def _emit_release(module: Module) -> None:
    """``void jf_memory_release(ptr data)``: give one buffer back to the system."""
    f = module.function("jf_memory_release", "void", [("data", "ptr")], internal=True)
    header = _header(f, f.args[0])
    block = f.field("ptr", header, _BLOCK)
    mapped = f.icmp("uge", f.field("i64", header, _CAPACITY), f.const("i64", _HUGE))
    f.cond_br(mapped, "large", "small")
    f.label("small")
    f.call("free", "void", [block])
    f.ret()
    f.label("large")
    f.call("munmap", "i32", [block, f.field("i64", header, _BLOCK_BYTES)])
    f.ret()


def _emit_fork(module: Module) -> None:
    f = module.function("jf_memory_before_fork", "void", [])
    lock(f, _LOCK)
    f.ret()
    f = module.function("jf_memory_after_fork", "void", [])
    unlock(f, _LOCK)
    f.ret()


def _emit_statistics(module: Module) -> None:
    f = module.function("jf_memory_stats", "void", [("out", "ptr")])
    lock(f, _LOCK)
    for offset in (_LIVE, _CACHED, _ALLOCATIONS, _REUSES):
        f.set_field(f.field("i64", _COUNTERS, offset), f.args[0], offset)
    unlock(f, _LOCK)
    f.set_field(f.load("i64", _LIMIT), f.args[0], 8 * MEMORY_STATISTICS.index("limit"))
    f.ret()


# ---------------------------------------------------------------------- NumPy
def _emit_handler(module: Module) -> None:
    """The C functions of a PyDataMem_Handler, and the handler itself (numpy/ndarraytypes.h)."""
    f = module.function("jf_numpy_malloc", "ptr", [("context", "ptr"), ("bytes", "i64")], internal=True)
    f.ret(f.call("jf_alloc", "ptr", [f.args[1]]))

    f = module.function(
        "jf_numpy_free", "void", [("context", "ptr"), ("data", "ptr"), ("bytes", "i64")], internal=True
    )
    f.call("jf_free", "void", list(f.args[1:]))
    f.ret()

    _emit_calloc(module)
    _emit_realloc(module)
    # NumPy compares the capsule's name, which must live as long as any array does: so it lies here
    module.global_(MEMORY_HANDLER_NAME, 'constant [12 x i8] c"mem_handler\\00"')
    name = "jitfuse"
    padding = "\\00" * (127 - len(name))
    module.global_(
        MEMORY_HANDLER,
        "constant { [127 x i8], i8, ptr, ptr, ptr, ptr, ptr } { "
        f'[127 x i8] c"{name}{padding}", i8 1, ptr null, ptr @jf_numpy_malloc, ptr @jf_numpy_calloc, '
        "ptr @jf_numpy_realloc, ptr @jf_numpy_free }, align 64",
    )


def _emit_calloc(module: Module) -> None:
    f = module.function(
        "jf_numpy_calloc", "ptr", [("context", "ptr"), ("count", "i64"), ("size", "i64")], internal=True
    )
    _, count, size = f.args
    f.module.declare("llvm.umul.with.overflow.i64", "{ i64, i1 }", ["i64", "i64"])
    pair = f.value(
        "{ i64, i1 }",
        f"call {{ i64, i1 }} @llvm.umul.with.overflow.i64(i64 {count.ref}, i64 {size.ref})",
    )
    bytes_ = f.value("i64", f"extractvalue {pair.type} {pair.ref}, 0")
    with f.if_(f.value("i1", f"extractvalue {pair.type} {pair.ref}, 1"), likely=False):
        f.ret(f.null)
    data = f.call("jf_alloc", "ptr", [bytes_])
    with f.if_(f.icmp("ne", data, f.null), likely=True):
        f.call("memset", "ptr", [data, f.const("i32", 0), bytes_])
    f.ret(data)


def _emit_realloc(module: Module) -> None:
    """Keep the buffer where the new size fits and is not less than half; else move it."""
    f = module.function(
        "jf_numpy_realloc", "ptr", [("context", "ptr"), ("data", "ptr"), ("bytes", "i64")], internal=True
    )
    _, data, bytes_ = f.args
    with f.if_(f.icmp("eq", data, f.null), likely=False):
        f.ret(f.call("jf_alloc", "ptr", [bytes_]))
    capacity = f.field("i64", _header(f, data), _CAPACITY)
    fits = f.icmp("ule", bytes_, capacity)
    with f.if_(f.and_(fits, f.icmp("uge", bytes_, f.lshr(capacity, _ONE)))):
        f.ret(data)
    moved = f.call("jf_alloc", "ptr", [bytes_])
    with f.if_(f.icmp("ne", moved, f.null), likely=True):
        f.call("memcpy", "ptr", [moved, data, f.intrinsic("umin", "i64", capacity, bytes_)])
        f.call("jf_free", "void", [data, capacity])
    f.ret(moved)

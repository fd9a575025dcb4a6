"""The recycling allocator of results and arenas: which buffers are free, and how many are cached.

Owns: the lists of free buffers, the limit on their bytes. Does not own the layout of a buffer
(`jitfuse.backends.llvm.runtime.memory_blocks`), nor its lifetime: NumPy frees a result's buffer when the last owner
of its array dies (`jitfuse.backends.llvm.runtime.numpy_memory`).

Freed buffers are cached up to `jf_memory_limit` bytes; beyond it the largest go back to the system first.
"""
from __future__ import annotations

from jitfuse.backends.llvm.runtime.atomics import lock, unlock
from jitfuse.backends.llvm.runtime.layout import MEMORY_STATISTICS
from jitfuse.backends.llvm.runtime.memory_blocks import (
    CAPACITY,
    CLASS,
    CLASSES,
    LARGEST,
    NEXT,
    emit_blocks,
    header,
    size_class,
)
from jitfuse.backends.llvm.runtime.numpy_memory import emit_memory_handler
from jitfuse.backends.llvm.text.builder import Function, Module, Value

DEFAULT_LIMIT = 1 << 30

_ZERO, _ONE = Value("0", "i64"), Value("1", "i64")
_LOCK = Value("@jf_memory_lock", "ptr")
_LIMIT = Value("@jf_memory_limit", "ptr")
_LISTS = Value("@jf_memory_lists", "ptr")
_COUNTERS = Value("@jf_memory_counters", "ptr")
_LIVE, _CACHED, _ALLOCATIONS, _REUSES = range(0, 32, 8)


def emit_memory(module: Module) -> None:
    """Add the allocator to a module, with its memory handler for NumPy.

    ``ptr jf_alloc(i64 bytes)``: a buffer aligned to 64 bytes, or null; 0 bytes give a buffer too.
    ``void jf_free(ptr, i64 bytes)``: give it back; null is ignored, and so is `bytes`.
    ``i64 jf_memory_limit``: the most bytes of free buffers that are cached.
    ``void jf_memory_trim(i64 keep)``: give free buffers back until at most `keep` bytes are left.
    ``void jf_memory_stats(ptr out)``: the words of `MEMORY_STATISTICS`.
    ``void jf_memory_before_fork()``, ``void jf_memory_after_fork()``: to be called around a fork, the second
    one in parent and child, so that the child finds the lists whole.
    """
    module.global_("jf_memory_limit", f"global i64 {DEFAULT_LIMIT}, align 64")
    module.global_("jf_memory_lock", "internal global i32 0, align 64")
    module.global_("jf_memory_lists", f"internal global [{CLASSES} x ptr] zeroinitializer, align 64")
    module.global_("jf_memory_counters", "internal global [4 x i64] zeroinitializer, align 64")
    emit_blocks(module)
    _emit_alloc(module)
    _emit_new(module)
    _emit_free(module)
    _emit_trim(module)
    _emit_evict(module)
    _emit_fork(module)
    _emit_statistics(module)
    emit_memory_handler(module)


def _count(f: Function, offset: int, by: Value) -> Value:
    """Add to a counter, under the lock; returns its new value."""
    now = f.add(f.field("i64", _COUNTERS, offset), by)
    f.set_field(now, _COUNTERS, offset)
    return now


def _list(f: Function, class_: Value) -> Value:
    return f.offset(_LISTS, class_, "ptr")


def _emit_alloc(module: Module) -> None:
    f = module.function("jf_alloc", "ptr", [("bytes", "i64")])
    bytes_ = f.intrinsic("umax", "i64", f.args[0], _ONE)
    with f.if_(f.icmp("ugt", bytes_, f.const("i64", LARGEST)), likely=False):
        f.ret(f.null)
    class_, capacity = size_class(f, bytes_)
    list_ = _list(f, class_)
    lock(f, _LOCK)
    _count(f, _ALLOCATIONS, _ONE)
    _count(f, _LIVE, capacity)
    data = f.load("ptr", list_)
    f.cond_br(f.icmp("ne", data, f.null), "reuse", "none", likely=True)
    f.label("reuse")
    f.store(f.field("ptr", header(f, data), NEXT), list_)
    _count(f, _REUSES, _ONE)
    _count(f, _CACHED, f.sub(_ZERO, capacity))
    unlock(f, _LOCK)
    f.ret(data)
    f.label("none")
    unlock(f, _LOCK)
    f.ret(f.call("jf_memory_new", "ptr", [class_, capacity]))


def _emit_new(module: Module) -> None:
    """``ptr jf_memory_new(i64 class, i64 capacity)``: a buffer from the system, or null.

    Where the system has none, free buffers are given back first.
    """
    f = module.function("jf_memory_new", "ptr", [("class", "i64"), ("capacity", "i64")], internal=True)
    data = f.call("jf_memory_take", "ptr", list(f.args))
    with f.if_(f.icmp("ne", data, f.null), likely=True):
        f.ret(data)
    f.call("jf_memory_trim", "void", [_ZERO])
    again = f.call("jf_memory_take", "ptr", list(f.args))
    with f.if_(f.icmp("eq", again, f.null)):
        lock(f, _LOCK)
        _count(f, _LIVE, f.sub(_ZERO, f.args[1]))
        unlock(f, _LOCK)
    f.ret(again)


def _emit_free(module: Module) -> None:
    f = module.function("jf_free", "void", [("data", "ptr"), ("bytes", "i64")])
    data = f.args[0]
    with f.if_(f.icmp("eq", data, f.null), likely=False):
        f.ret()
    head = header(f, data)
    capacity = f.field("i64", head, CAPACITY)
    list_ = _list(f, f.field("i64", head, CLASS))
    lock(f, _LOCK)
    _count(f, _LIVE, f.sub(_ZERO, capacity))
    f.set_field(f.load("ptr", list_), head, NEXT)
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
    # released without the lock: unmapping a gigabyte takes milliseconds
    before = f.block
    f.label("next")
    data = f.phi("ptr", [(victims, before), (Value("%following", "ptr"), "release")])
    f.cond_br(f.icmp("ne", data, f.null), "release", "done")
    f.label("release")
    f.emit(f"%following = load ptr, ptr {header(f, data).ref}")
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
    f.emit(f"%class = phi i64 [ {CLASSES - 1}, %entry ], [ %lower, %empty ], [ %class, %take ]")
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
    head = header(f, data)
    f.store(f.field("ptr", head, NEXT), list_)
    f.set_field(victims, head, NEXT)
    _count(f, _CACHED, f.sub(_ZERO, f.field("i64", head, CAPACITY)))
    f.br("look")
    f.label("done")
    f.ret(victims)


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

"""The allocator as a NumPy memory handler, through which results own their buffers.

Does not own the allocator (`jitfuse.backends.llvm.runtime.memory`): malloc, calloc, realloc and free call it.
"""
from __future__ import annotations

from jitfuse.backends.llvm.runtime.layout import MEMORY_HANDLER, MEMORY_HANDLER_NAME
from jitfuse.backends.llvm.runtime.memory_blocks import CAPACITY, header
from jitfuse.backends.llvm.text.builder import Module, Value


def emit_memory_handler(module: Module) -> None:
    """Add to a module the handler and its C functions (numpy/ndarraytypes.h).

    ``jf_memory_handler``: a PyDataMem_Handler, version 1, and ``jf_memory_handler_name``, its capsule's name.
    """
    f = module.function("jf_numpy_malloc", "ptr", [("context", "ptr"), ("bytes", "i64")], internal=True)
    f.ret(f.call("jf_alloc", "ptr", [f.args[1]]))

    f = module.function(
        "jf_numpy_free", "void", [("context", "ptr"), ("data", "ptr"), ("bytes", "i64")], internal=True
    )
    f.call("jf_free", "void", list(f.args[1:]))
    f.ret()

    _emit_calloc(module)
    _emit_realloc(module)
    # NumPy compares the capsule's name, which must live as long as any array: so it is a global of the runtime
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
    """Reuse the buffer where the new size fits and is at least half of its capacity; else move it."""
    f = module.function(
        "jf_numpy_realloc", "ptr", [("context", "ptr"), ("data", "ptr"), ("bytes", "i64")], internal=True
    )
    _, data, bytes_ = f.args
    with f.if_(f.icmp("eq", data, f.null), likely=False):
        f.ret(f.call("jf_alloc", "ptr", [bytes_]))
    capacity = f.field("i64", header(f, data), CAPACITY)
    fits = f.icmp("ule", bytes_, capacity)
    with f.if_(f.and_(fits, f.icmp("uge", bytes_, f.lshr(capacity, Value("1", "i64"))))):
        f.ret(data)
    moved = f.call("jf_alloc", "ptr", [bytes_])
    with f.if_(f.icmp("ne", moved, f.null), likely=True):
        f.call("memcpy", "ptr", [moved, data, f.intrinsic("umin", "i64", capacity, bytes_)])
        f.call("jf_free", "void", [data, capacity])
    f.ret(moved)

"""Where workers wake up: never on the processor that their caller runs on.

Virtual machines hide from the scheduler which of their processors are idle (one that has halted counts as preempted),
so that a worker is often queued behind the thread that woke it, and begins when that one is done or a few milliseconds
later, when the load is balanced. So the caller takes its own processor from those that workers may run on, when it
wakes them after it has moved. Owns the call that does this. Does not own who is woken (`pool`).
"""
from __future__ import annotations

from jitfuse.backends.llvm.builder import Function, Module, Value

_MASK_WORDS = 16
"""Affinity masks of up to 1,024 processors; larger systems refuse them, and then all stays as it is."""


def emit_placement(module: Module) -> None:
    """Add ``void jf_pool_keep_off(i32 processor, ptr handles, i64 workers)`` to a module.

    Workers 1 to `workers`, whose pthread handles begin at ``handles + 8``, may afterwards run wherever the calling
    thread may, but on this processor. Does nothing where there is no other processor.
    """
    f = module.function(
        "jf_pool_keep_off", "void", [("processor", "i32"), ("handles", "ptr"), ("workers", "i64")], internal=True
    )
    processor, handles, workers = f.args
    size = f.const("i64", 8 * _MASK_WORDS)
    mask = f.alloca("i64", _MASK_WORDS)
    failed = f.call("sched_getaffinity", "i32", [f.const("i32", 0), size, mask])
    known = f.and_(
        f.icmp("eq", failed, f.const("i32", 0)), f.icmp("ult", processor, f.const("i32", 64 * _MASK_WORDS))
    )
    with f.if_(known):
        at = f.cast("zext", processor, "i64")
        word = f.offset(mask, f.shl(f.lshr(at, f.const("i64", 6)), f.const("i64", 3)))
        bit = f.shl(f.const("i64", 1), f.and_(at, f.const("i64", 63)))
        f.store(f.and_(f.load("i64", word), f.xor(bit, f.const("i64", -1))), word)
        with f.if_(f.icmp("ne", _any_bit(f, mask), f.const("i64", 0))):
            first, last = f.const("i64", 1), f.add(workers, f.const("i64", 1))
            with f.loop(first, last) as loop:
                handle = f.load("i64", f.offset(handles, f.shl(loop.index, f.const("i64", 3))))
                f.call("pthread_setaffinity_np", "i32", [handle, size, mask])
    f.ret()


def _any_bit(f: Function, mask: Value) -> Value:
    total = f.load("i64", mask)
    for k in range(1, _MASK_WORDS):
        total = f.or_(total, f.field("i64", mask, 8 * k))
    return total

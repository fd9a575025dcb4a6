"""Where workers wake up: not on the processor that their caller runs on.

Virtual machines hide from the scheduler which of their processors are idle (a halted one counts as preempted). A
worker is then often queued behind the thread that woke it, and starts late: when that thread is done, or a few
milliseconds later, when the load is balanced. So a caller that wakes workers from another processor than last time
removes its own from those that workers may run on. Owns: the workers' affinity masks. Does not own who is woken
(`pool`).
"""
from __future__ import annotations

from jitfuse.backends.llvm.text.builder import Function, Module, Value

MOST_WORKERS = 8
"""The scheduler places the workers of larger pools: one late worker matters less, and moving each takes 1 µs."""
_WORDS = 16
"""64-bit words of an affinity mask, for up to 1,024 processors; larger systems reject it, and nothing changes."""
_SIZE = 8 * _WORDS
_HOME, _SET = Value("@jf_pool_home", "ptr"), Value("@jf_pool_set", "ptr")


def emit_placement(module: Module) -> None:
    """Add ``void jf_pool_keep_off(i32 processor, ptr handles, i64 workers)`` to a module.

    Workers 1 to `workers`, whose pthread handles begin at ``handles + 8``, may afterwards run on their home processors
    without this one, or on all of them where there is no other. The home processors are the first worker's affinity
    mask when it was created, or a mask that other code has set for it since.
    """
    for state in (_HOME, _SET):
        module.global_(state.ref[1:], f"internal global [{_WORDS} x i64] zeroinitializer, align 8")
    f = module.function(
        "jf_pool_keep_off", "void", [("processor", "i32"), ("handles", "ptr"), ("workers", "i64")], internal=True
    )
    processor, handles, workers = f.args
    mask = f.alloca("i64", _WORDS)
    size = f.const("i64", _SIZE)
    failed = f.call("pthread_getaffinity_np", "i32", [f.load("i64", f.offset(handles, 8)), size, mask])
    known = f.and_(f.icmp("eq", failed, f.const("i32", 0)), f.icmp("ult", processor, f.const("i32", 64 * _WORDS)))
    with f.if_(known):
        with f.if_(f.icmp("ne", _any_bit(f, mask, _SET), f.const("i64", 0)), likely=False):
            f.call("memcpy", "ptr", [_HOME, mask, size])
        f.call("memcpy", "ptr", [mask, _HOME, size])
        _clear_bit(f, mask, f.cast("zext", processor, "i64"))
        with f.if_(f.icmp("eq", _any_bit(f, mask), f.const("i64", 0)), likely=False):
            f.call("memcpy", "ptr", [mask, _HOME, size])
        f.call("memcpy", "ptr", [_SET, mask, size])
        with f.loop(f.const("i64", 1), f.add(workers, f.const("i64", 1))) as loop:
            handle = f.load("i64", f.offset(handles, f.shl(loop.index, f.const("i64", 3))))
            f.call("pthread_setaffinity_np", "i32", [handle, size, mask])
    f.ret()


def _clear_bit(f: Function, mask: Value, bit: Value) -> None:
    word = f.offset(mask, f.shl(f.lshr(bit, f.const("i64", 6)), f.const("i64", 3)))
    one = f.shl(f.const("i64", 1), f.and_(bit, f.const("i64", 63)))
    f.store(f.and_(f.load("i64", word), f.xor(one, f.const("i64", -1))), word)


def _any_bit(f: Function, mask: Value, other: Value | None = None) -> Value:
    """Return a word that is 0 where no bit of a mask is set, or where it equals another mask."""
    total: Value | None = None
    for k in range(_WORDS):
        word = f.field("i64", mask, 8 * k)
        if other is not None:
            word = f.xor(word, f.field("i64", other, 8 * k))
        total = word if total is None else f.or_(total, word)
    assert total is not None
    return total

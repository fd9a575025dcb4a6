"""Shared vocabulary of the native runtime: atomic instructions, futexes, spin locks, the clock.

Owns: how these read in LLVM assembly on this operating system and processor. Does not own any state.
"""
from __future__ import annotations

import platform
import sys

from jitfuse.backends.llvm.text.builder import Function, Value
from jitfuse.errors import CompileError

_FUTEX_NUMBER = {"x86_64": 202, "aarch64": 98}
_FUTEX_WAIT_PRIVATE = 128
_FUTEX_WAKE_PRIVATE = 129
_CLOCK_MONOTONIC = 1
_SPINS_BEFORE_YIELD = 200


def atomic_load(f: Function, type_: str, pointer: Value, order: str = "acquire") -> Value:
    """Load an integer atomically."""
    size = int(type_[1:]) // 8
    return f.value(type_, f"load atomic {type_}, ptr {pointer.ref} {order}, align {size}")


def atomic_store(f: Function, x: Value, pointer: Value, order: str = "release") -> None:
    """Store an integer atomically."""
    f.emit(f"store atomic {x.type} {x.ref}, ptr {pointer.ref} {order}, align {int(x.type[1:]) // 8}")


def atomic_rmw(f: Function, op: str, pointer: Value, x: Value, order: str = "seq_cst") -> Value:
    """Apply `op` (``add sub xchg umax`` ...) to memory and return what was there before."""
    return f.value(x.type, f"atomicrmw {op} ptr {pointer.ref}, {x.type} {x.ref} {order}")


def compare_exchange(f: Function, pointer: Value, expected: Value, new: Value) -> tuple[Value, Value]:
    """Replace `expected` by `new`; returns what was there before and whether it was replaced."""
    pair = f.value(
        f"{{ {new.type}, i1 }}",
        f"cmpxchg ptr {pointer.ref}, {expected.type} {expected.ref}, {new.type} {new.ref} seq_cst seq_cst",
    )
    before = f.value(new.type, f"extractvalue {pair.type} {pair.ref}, 0")
    return before, f.value("i1", f"extractvalue {pair.type} {pair.ref}, 1")


def pause(f: Function) -> None:
    """Tell the processor that this thread is spinning."""
    if platform.machine() == "x86_64":
        f.call("llvm.x86.sse2.pause", "void", [])
    else:
        f.call("llvm.aarch64.hint", "void", [Value("1", "i32")])


def nanoseconds(f: Function) -> Value:
    """Return the monotonic clock in nanoseconds."""
    time = f.alloca("i64", 2)
    f.call("clock_gettime", "i32", [f.const("i32", _CLOCK_MONOTONIC), time])
    seconds = f.mul(f.load("i64", time), f.const("i64", 1_000_000_000))
    return f.add(seconds, f.field("i64", time, 8))


def futex_wait(f: Function, word: Value, expected: Value) -> None:
    """Sleep while the i32 at `word` is `expected`, until woken; may return early."""
    _futex(f, word, _FUTEX_WAIT_PRIVATE, expected)


def futex_wake_all(f: Function, word: Value) -> None:
    """Wake every thread that sleeps on `word`."""
    _futex(f, word, _FUTEX_WAKE_PRIVATE, f.const("i32", 2**31 - 1))


def _futex(f: Function, word: Value, operation: int, x: Value) -> None:
    if not sys.platform.startswith("linux") or platform.machine() not in _FUTEX_NUMBER:
        raise CompileError(f"the thread pool needs Linux futexes; this is {sys.platform}")
    number = _FUTEX_NUMBER[platform.machine()]
    f.module.declare("syscall", "i64", ["i64"], variadic=True)
    f.value(
        "i64",
        f"call i64 (i64, ...) @syscall(i64 {number}, ptr {word.ref}, i64 {operation}, i32 {x.ref}, ptr null)",
    )


def lock(f: Function, word: Value) -> None:
    """Take the spin lock at `word` (an i32); yields the processor where its holder does not seem to run."""
    try_, spin, yield_, got = (f.fresh(n) for n in ("try", "spin", "yield", "locked"))
    before = f.block
    f.label(try_)
    count = Value("%" + f.fresh("spins"), "i64")
    following = Value("%" + f.fresh("spins"), "i64")
    f.emit(f"{count.ref} = phi i64 [ 0, %{before} ], [ {following.ref}, %{spin} ], [ 0, %{yield_} ]")
    free = f.icmp("eq", atomic_rmw(f, "xchg", word, f.const("i32", 1), "acquire"), f.const("i32", 0))
    f.cond_br(free, got, spin, likely=True)
    f.label(spin)
    pause(f)
    f.emit(f"{following.ref} = add i64 {count.ref}, 1")
    f.cond_br(f.icmp("slt", following, f.const("i64", _SPINS_BEFORE_YIELD)), try_, yield_)
    f.label(yield_)
    f.call("sched_yield", "i32", [])
    f.br(try_)
    f.label(got)


def unlock(f: Function, word: Value) -> None:
    """Release the spin lock."""
    atomic_store(f, f.const("i32", 0), word)

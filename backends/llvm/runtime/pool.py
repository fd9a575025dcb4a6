"""The native thread pool: one job at a time, its units handed out in shrinking chunks.

Owns: the worker threads, their sleep and wake-up, `jf_parallel`. Does not own the memory that kernels use,
nor the decision whether a launch uses threads.

A job is published by one store to the word NEXT: the number of threads that may take part (high 16 bits) and
the units not handed out yet (low 48). A thread takes a chunk by a compare-exchange on that word and reads the
job's other fields only afterwards: they cannot change before the chunk is reported as done. A thread that
comes late finds no units left, or takes part in the next job, and both are right. The caller takes part too
and waits only for units that a worker has taken, never for a thread that is still asleep.
Chunks are half of an even share of the remaining units (guided self-scheduling, Polychronopoulos and Kuck 1987),
because cores are noisy; kernels give the same bits for any boundaries.
"""
from __future__ import annotations

from jitfuse.backends.llvm.runtime.atomics import (
    atomic_load,
    atomic_rmw,
    atomic_store,
    compare_exchange,
    futex_wait,
    futex_wake_all,
    nanoseconds,
    pause,
)
from jitfuse.backends.llvm.runtime.placement import MOST_WORKERS, emit_placement
from jitfuse.backends.llvm.text.builder import Function, Module, Value

MAX_THREADS = 1024
SPIN_NANOSECONDS = 50_000
_CHUNKS_PER_THREAD = 8
"""The smallest chunk is a thread's even share divided by this number."""

# byte offsets in the pool's state; fields that different threads write are 128 bytes apart (prefetchers take pairs)
_NEXT, _KERNEL, _WORDS, _UNITS, _SCRATCH, _STRIDE, _CHUNK, _AVOIDED = range(0, 64, 8)
_DONE, _STATUS, _WAITING, _DONE_EVENTS = 128, 136, 144, 148
_SLEEPERS, _WAKE = 256, 260
_BUSY, _WORKERS, _THREADS = 384, 392, 400
_STATE_BYTES = 512
_LIMIT_SHIFT = 48

_ZERO, _ONE = Value("0", "i64"), Value("1", "i64")
_HANDLES = Value("@jf_pool_handles", "ptr")


def emit_pool(module: Module) -> None:
    """Add the pool to a module.

    ``i64 jf_parallel(ptr kernel, ptr words, i64 units, i64 threads, ptr scratch, i64 scratch_stride)`` runs
    ``kernel(words, begin, end, scratch + k * scratch_stride)`` over [0, units), with k < `threads` different
    for every thread, and returns the largest status. `threads` 0 means all of ``jf_pool_threads()``.
    It runs in the calling thread alone for one thread or one unit, and where the pool is busy:
    used by another caller, or by this very thread further up the stack.
    ``void jf_pool_configure(i64 threads)``, ``i64 jf_pool_threads()``: how many, the caller included.
    ``void jf_pool_after_fork()``: to be called in a forked child, where the workers do not exist.
    """
    module.global_("jf_pool", f"internal global [{_STATE_BYTES // 8} x i64] zeroinitializer, align 128")
    module.global_("jf_pool_handles", f"internal global [{MAX_THREADS} x i64] zeroinitializer, align 8")
    emit_placement(module)
    _emit_work(module)
    _emit_worker(module)
    _emit_start(module)
    _emit_parallel(module)
    _emit_configuration(module)


def _at(f: Function, offset: int) -> Value:
    return f.offset(Value("@jf_pool", "ptr"), offset)


def _emit_work(module: Module) -> None:
    """``i64 jf_pool_work(i64 slot)``: take and run chunks until none is left; returns the units done."""
    f = module.function("jf_pool_work", "i64", [("slot", "i64")], internal=True)
    slot, = f.args
    next_ = _at(f, _NEXT)
    f.label("again")
    f.emit("%total = phi i64 [ 0, %entry ], [ %sum, %ran ]")
    first = atomic_load(f, "i64", next_)
    f.label("try")
    f.emit(f"%word = phi i64 [ {first.ref}, %again ], [ %before, %take ]")
    word = Value("%word", "i64")
    limit, remaining = _split(f, word)
    available = f.and_(f.icmp("ugt", limit, slot), f.icmp("ne", remaining, _ZERO))
    f.cond_br(available, "take", "exhausted")
    f.label("take")
    share = f.udiv(remaining, f.shl(limit, _ONE))
    # possibly the smallest chunk of an earlier job: any chunk from 1 to `remaining` is right
    smallest = f.intrinsic("umax", "i64", atomic_load(f, "i64", _at(f, _CHUNK), "monotonic"), _ONE)
    count = f.intrinsic("umin", "i64", f.intrinsic("umax", "i64", share, smallest), remaining)
    before, taken = compare_exchange(f, next_, word, f.sub(word, count))
    f.emit(f"%before = add i64 {before.ref}, 0")
    f.cond_br(taken, "run", "try")
    f.label("run")
    begin = f.sub(f.load("i64", _at(f, _UNITS)), remaining)
    scratch = f.offset(f.load("ptr", _at(f, _SCRATCH)), f.mul(slot, f.load("i64", _at(f, _STRIDE))))
    status = f.call_pointer(
        f.load("ptr", _at(f, _KERNEL)), "i64",
        [f.load("ptr", _at(f, _WORDS)), begin, f.add(begin, count), scratch],
    )
    with f.if_(f.icmp("ne", status, _ZERO), likely=False):
        atomic_rmw(f, "umax", _at(f, _STATUS), status)
    f.label("ran")
    f.emit(f"%sum = add i64 %total, {count.ref}")
    f.br("again")
    f.label("exhausted")
    f.ret(Value("%total", "i64"))


def _split(f: Function, word: Value) -> tuple[Value, Value]:
    """Return the thread limit and the remaining units that a NEXT word holds."""
    mask = f.const("i64", (1 << _LIMIT_SHIFT) - 1)
    return f.lshr(word, f.const("i64", _LIMIT_SHIFT)), f.and_(word, mask)


def _offers(f: Function, slot: Value, order: str) -> Value:
    """Return whether there is a chunk for the worker of this slot."""
    limit, remaining = _split(f, atomic_load(f, "i64", _at(f, _NEXT), order))
    return f.and_(f.icmp("ugt", limit, slot), f.icmp("ne", remaining, _ZERO))


def _emit_worker(module: Module) -> None:
    """``ptr jf_pool_worker(ptr slot)``: a worker's life: work, spin a while, sleep."""
    f = module.function("jf_pool_worker", "ptr", [("argument", "ptr")], internal=True)
    slot = f.cast("ptrtoint", f.args[0], "i64")
    f.label("work")
    units = f.call("jf_pool_work", "i64", [slot])
    with f.if_(f.icmp("ne", units, _ZERO)):
        atomic_rmw(f, "add", _at(f, _DONE), units)
        waiting = atomic_load(f, "i32", _at(f, _WAITING), "seq_cst")
        with f.if_(f.icmp("ne", waiting, f.const("i32", 0)), likely=False):
            atomic_rmw(f, "add", _at(f, _DONE_EVENTS), f.const("i32", 1))
            futex_wake_all(f, _at(f, _DONE_EVENTS))
    deadline = f.add(nanoseconds(f), f.const("i64", SPIN_NANOSECONDS))
    f.label("spin")
    with f.loop(_ZERO, f.const("i64", 64)):
        stay = f.fresh("stay")
        f.cond_br(_offers(f, slot, "acquire"), "work", stay)
        f.label(stay)
        pause(f)
    f.cond_br(f.icmp("slt", nanoseconds(f), deadline), "spin", "sleep")
    f.label("sleep")
    seen = atomic_load(f, "i32", _at(f, _WAKE), "seq_cst")
    atomic_rmw(f, "add", _at(f, _SLEEPERS), f.const("i32", 1))
    # a job published before SLEEPERS counted this thread wakes no thread, so check once more
    with f.if_(f.not_(_offers(f, slot, "seq_cst"))):
        futex_wait(f, _at(f, _WAKE), seen)
    atomic_rmw(f, "sub", _at(f, _SLEEPERS), f.const("i32", 1))
    f.br("work")


def _emit_start(module: Module) -> None:
    """``void jf_pool_start(i64 workers)``: create workers up to this number, or as many as the system allows.

    Workers are detached and block all signals, which the threads that run Python handle.
    """
    f = module.function("jf_pool_start", "void", [("wanted", "i64")], internal=True)
    attributes, everything, mask = (f.alloca("i64", 16) for _ in range(3))
    f.call("sigfillset", "i32", [everything])
    sig_setmask = f.const("i32", 2)
    f.call("pthread_sigmask", "i32", [sig_setmask, everything, mask])
    f.call("pthread_attr_init", "i32", [attributes])
    f.call("pthread_attr_setdetachstate", "i32", [attributes, f.const("i32", 1)])
    first = f.add(f.load("i64", _at(f, _WORKERS)), _ONE)
    with f.loop(first, f.add(f.args[0], _ONE)) as loop:
        handle = f.offset(_HANDLES, f.shl(loop.index, f.const("i64", 3)))
        failed = f.call(
            "pthread_create", "i32",
            [handle, attributes, Value("@jf_pool_worker", "ptr"), f.cast("inttoptr", loop.index, "ptr")],
        )
        created = f.fresh("created")
        f.cond_br(f.icmp("eq", failed, f.const("i32", 0)), created, "stop")
        f.label(created)
        f.store(loop.index, _at(f, _WORKERS))
    f.label("stop")
    f.call("pthread_attr_destroy", "i32", [attributes])
    f.call("pthread_sigmask", "i32", [sig_setmask, mask, f.null])
    f.ret()


def _emit_parallel(module: Module) -> None:
    f = module.function(
        "jf_parallel", "i64",
        [("kernel", "ptr"), ("words", "ptr"), ("units", "i64"), ("threads", "i64"), ("scratch", "ptr"),
         ("stride", "i64")],
    )
    kernel, words, units, threads, scratch, stride = f.args
    configured = f.call("jf_pool_threads", "i64", [])
    asked = f.select(f.icmp("eq", threads, _ZERO), configured, threads)
    most = f.intrinsic("smin", "i64", f.intrinsic("smin", "i64", asked, configured), units)
    f.cond_br(f.icmp("sgt", most, _ONE), "acquire", "serial")

    f.label("acquire")
    busy = _at(f, _BUSY)
    _, free = compare_exchange(f, busy, f.const("i32", 0), f.const("i32", 1))
    f.cond_br(free, "own", "serial", likely=True)
    f.label("own")
    before = f.load("i64", _at(f, _WORKERS))
    with f.if_(f.icmp("slt", f.add(before, _ONE), most), likely=False):
        f.call("jf_pool_start", "void", [f.sub(configured, _ONE)])
    there = f.load("i64", _at(f, _WORKERS))
    with f.if_(f.icmp("ne", before, there), likely=False):
        f.store(_ZERO, _at(f, _AVOIDED))
        _place_workers(f)
    limit = f.intrinsic("smin", "i64", most, f.add(there, _ONE))
    f.cond_br(f.icmp("sgt", limit, _ONE), "publish", "alone", likely=True)
    f.label("alone")
    atomic_store(f, f.const("i32", 0), busy)
    f.br("serial")

    f.label("publish")
    job = ((kernel, _KERNEL), (words, _WORDS), (units, _UNITS), (scratch, _SCRATCH), (stride, _STRIDE))
    for value, offset in job:
        f.set_field(value, _at(f, 0), offset)
    smallest = f.udiv(units, f.mul(limit, f.const("i64", _CHUNKS_PER_THREAD)))
    atomic_store(f, smallest, _at(f, _CHUNK), "monotonic")
    atomic_store(f, _ZERO, _at(f, _DONE), "monotonic")
    atomic_store(f, _ZERO, _at(f, _STATUS), "monotonic")
    atomic_store(f, f.const("i32", 0), _at(f, _WAITING), "monotonic")
    word = f.or_(f.shl(limit, f.const("i64", _LIMIT_SHIFT)), units)
    atomic_rmw(f, "xchg", _at(f, _NEXT), word)
    sleepers = atomic_load(f, "i32", _at(f, _SLEEPERS), "seq_cst")
    with f.if_(f.icmp("ne", sleepers, f.const("i32", 0)), likely=False):
        _place_workers(f)
        atomic_rmw(f, "add", _at(f, _WAKE), f.const("i32", 1))
        futex_wake_all(f, _at(f, _WAKE))
    own = f.call("jf_pool_work", "i64", [_ZERO])
    _join(f, f.sub(units, own))
    status = atomic_load(f, "i64", _at(f, _STATUS), "monotonic")
    atomic_store(f, f.const("i32", 0), busy)
    f.ret(status)

    f.label("serial")
    with f.if_(f.icmp("sgt", units, _ZERO), likely=True):
        f.ret(f.call_pointer(kernel, "i64", [words, _ZERO, units, scratch]))
    f.ret(_ZERO)


def _place_workers(f: Function) -> None:
    """Keep the workers of small pools off the caller's processor, if it changed since last time (0: none yet)."""
    processor = f.call("sched_getcpu", "i32", [])
    workers = f.load("i64", _at(f, _WORKERS))
    processor_number = f.add(f.cast("zext", processor, "i64"), _ONE)
    moved = f.icmp("ne", processor_number, f.load("i64", _at(f, _AVOIDED)))
    with f.if_(f.and_(moved, f.icmp("sle", workers, f.const("i64", MOST_WORKERS))), likely=False):
        f.store(processor_number, _at(f, _AVOIDED))
        f.call("jf_pool_keep_off", "void", [processor, _HANDLES, workers])


def _join(f: Function, units: Value) -> None:
    """Wait until the workers have reported this many units: spin a while, then sleep."""
    done, waiting, events = _at(f, _DONE), _at(f, _WAITING), _at(f, _DONE_EVENTS)

    def finished() -> Value:
        return f.icmp("eq", atomic_load(f, "i64", done, "seq_cst"), units)

    f.cond_br(finished(), "joined", "wait")
    f.label("wait")
    deadline = f.add(nanoseconds(f), f.const("i64", SPIN_NANOSECONDS))
    f.label("join_spin")
    with f.loop(_ZERO, f.const("i64", 64)):
        stay = f.fresh("stay")
        f.cond_br(finished(), "joined", stay)
        f.label(stay)
        pause(f)
    f.cond_br(f.icmp("slt", nanoseconds(f), deadline), "join_spin", "join_sleep")
    f.label("join_sleep")
    seen = atomic_load(f, "i32", events, "seq_cst")
    atomic_rmw(f, "xchg", waiting, f.const("i32", 1))
    f.cond_br(finished(), "joined", "join_wait")
    f.label("join_wait")
    futex_wait(f, events, seen)
    f.br("join_sleep")
    f.label("joined")


def _emit_configuration(module: Module) -> None:
    f = module.function("jf_pool_configure", "void", [("threads", "i64")])
    bounded = f.intrinsic("smax", "i64", f.args[0], _ONE)
    atomic_store(f, f.intrinsic("smin", "i64", bounded, f.const("i64", MAX_THREADS)), _at(f, _THREADS))
    f.ret()

    f = module.function("jf_pool_threads", "i64", [])
    f.ret(f.intrinsic("smax", "i64", atomic_load(f, "i64", _at(f, _THREADS), "monotonic"), _ONE))

    f = module.function("jf_pool_after_fork", "void", [])
    for offset in range(0, _THREADS, 8):
        f.store(_ZERO, _at(f, offset))
    f.ret()

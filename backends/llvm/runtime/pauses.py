"""Emits the pauses of loops in a plan, in which Python handles signals and other threads run.

Jumps backwards count down; at zero `jf_pause` reads the clock. A call that has held the GIL for `RELEASE_NANOSECONDS`
releases it until an op needs it. Every `SIGNAL_NANOSECONDS` it takes the GIL for a moment and Python handles signals,
so that an endless loop can be interrupted. Owns: `jf_pause`, `jf_take_gil`, the block that they share.
"""
from __future__ import annotations

from typing import Final

from jitfuse.backends.llvm.runtime import layout
from jitfuse.backends.llvm.runtime.atomics import nanoseconds
from jitfuse.backends.llvm.runtime.layout import PauseField
from jitfuse.backends.llvm.runtime.pyobject import ONE, ZERO, address, word
from jitfuse.backends.llvm.text.builder import Function, Module, Value

RELEASE_NANOSECONDS: Final = 50_000
SIGNAL_NANOSECONDS: Final = 20_000_000
_LONGEST_PERIOD: Final = 1024


def start_pauses(f: Function, block: Value) -> None:
    """Fill a block of `PAUSE_WORDS` words for a run that holds the GIL."""
    starts = {PauseField.LAUNCHES: ZERO, PauseField.THREAD: ZERO, PauseField.SINCE: ZERO, PauseField.COUNTDOWN: ONE,
        PauseField.PERIOD: ONE,
              PauseField.READ: ZERO}
    for at, value in starts.items():
        f.set_field(value, block, at * layout.WORD)


def emit_pauses(module: Module) -> None:
    """Add ``i32 jf_pause(ptr block)`` and ``void jf_take_gil(ptr block)``.

    The first returns not 0, with the GIL held, where a signal handler raised. The second is for a block that holds a
    saved thread state."""
    f = module.function("jf_take_gil", "void", [("block", "ptr")], internal=True)
    f.call("PyEval_RestoreThread", "void", [address(f, f.args[0], PauseField.THREAD)])
    f.set_field(f.null, f.args[0], PauseField.THREAD * layout.WORD)
    f.ret()
    _emit_pause(module)


def _emit_pause(module: Module) -> None:
    f = module.function("jf_pause", "i32", [("block", "ptr")], internal=True)
    block, = f.args
    now, since, period = nanoseconds(f), word(f, block, PauseField.SINCE), word(f, block, PauseField.PERIOD)
    passed, gap = f.sub(now, since), f.sub(now, word(f, block, PauseField.READ))
    # short iterations need not read the clock each time; where they get long it is read more often
    longer = f.intrinsic("umin", "i64", f.shl(period, ONE), f.const("i64", _LONGEST_PERIOD))
    shorter = f.intrinsic("umax", "i64", f.lshr(period, f.const("i64", 2)), ONE)
    quick, slow = (f.icmp("slt", gap, f.const("i64", n)) for n in (RELEASE_NANOSECONDS, SIGNAL_NANOSECONDS // 4))
    first = f.icmp("eq", since, ZERO)
    following = f.select(first, ONE, f.select(quick, longer, f.select(slow, period, shorter)))
    for at, value in ((PauseField.PERIOD, following), (PauseField.COUNTDOWN, following), (PauseField.READ, now)):
        f.set_field(value, block, at * layout.WORD)
    with f.if_(first):
        f.set_field(now, block, PauseField.SINCE * layout.WORD)
        f.ret(f.const("i32", 0))
    thread = address(f, block, PauseField.THREAD)
    f.cond_br(f.icmp("eq", thread, f.null), "holding", "without")
    f.label("holding")
    with f.if_(f.icmp("slt", passed, f.const("i64", RELEASE_NANOSECONDS))):
        f.ret(f.const("i32", 0))
    f.br("signals")
    f.label("without")
    with f.if_(f.icmp("slt", passed, f.const("i64", SIGNAL_NANOSECONDS))):
        f.ret(f.const("i32", 0))
    f.call("jf_take_gil", "void", [block])
    f.label("signals")
    f.set_field(now, block, PauseField.SINCE * layout.WORD)
    with f.if_(f.icmp("ne", f.call("PyErr_CheckSignals", "i32", []), f.const("i32", 0)), likely=False):
        f.ret(f.const("i32", 1))
    f.set_field(f.call("PyEval_SaveThread", "ptr", []), block, PauseField.THREAD * layout.WORD)
    f.ret(f.const("i32", 0))

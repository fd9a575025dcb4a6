"""Emits the ops of a plan that call no kernel and no Python: jumps, moved values, copies, counters, allocations.

Does not own kernels, host steps, observations and ends (ops.py), nor the pauses of loops for signals and other
threads (pauses.py).
"""
from __future__ import annotations

from jitfuse.backends.llvm.runtime import layout
from jitfuse.backends.llvm.runtime.layout import PauseField, SpecField
from jitfuse.backends.llvm.runtime.op_basis import OpBasis
from jitfuse.backends.llvm.runtime.pyobject import ONE, ZERO, item, set_item, word
from jitfuse.backends.llvm.runtime.results import output_spec
from jitfuse.backends.llvm.text.builder import Value


class Moves(OpBasis):
    """Each method appends the blocks of one op."""

    # ------------------------------------------------------------------ jumps
    def jump(self) -> None:
        """Continue at another op."""
        self.jumps.append((self.word(2), self.f.block))
        self.f.br("jump")

    def branch(self) -> None:
        """Jump where the truth of a byte is the expected one."""
        f = self.f
        byte = f.cast("zext", f.load("i8", self.data(self.rest(2))), "i64")
        self.jump_where(f.icmp("eq", byte, self.word(4)), 5)

    def less(self) -> None:
        """Jump where one number is less than another."""
        f = self.f
        a, b = (f.load("i64", self.data(self.rest(at))) for at in (2, 4))
        self.jump_where(f.icmp("slt", a, b), 6)

    def match(self) -> None:
        """Jump where memory equals given bytes."""
        f = self.f
        order = f.call("memcmp", "i32", [self.data(self.rest(2)), self.address(4), self.word(5)])
        self.jump_where(f.icmp("eq", order, f.const("i32", 0)), 6)

    def jump_where(self, condition: Value, at: int) -> None:
        """Jump to the op that word `at` names where a condition holds, else continue."""
        f = self.f
        self.jumps.append((self.word(at), f.block))
        f.cond_br(condition, "jump", "advance")

    def count_down(self) -> None:
        """Count a jump backwards, and pause now and then for signals and other threads."""
        f = self.f
        left = f.sub(word(f, self.pause, PauseField.COUNTDOWN), ONE)
        f.store(left, f.offset(self.pause, PauseField.COUNTDOWN * layout.WORD))
        with f.if_(f.icmp("sle", left, ZERO), likely=False):
            failed = f.call("jf_pause", "i32", [self.pause])
            with f.if_(f.icmp("ne", failed, f.const("i32", 0)), likely=False):
                f.ret(f.null)

    # ------------------------------------------------------------------ values and memory
    def move(self) -> None:
        """Set the addresses of values."""
        f = self.f
        table = self.rest(3)
        with f.loop(ZERO, self.word(2)) as loop:
            triple = f.offset(table, f.mul(loop.index, f.const("i64", 3)), "i64")
            set_item(f, self.data(f.offset(triple, layout.WORD)), self.values, word(f, triple, 0))
        f.br("advance")

    def swap(self) -> None:
        """Swap the addresses of pairs of values."""
        f = self.f
        table = self.rest(3)
        with f.loop(ZERO, self.word(2)) as loop:
            pair = f.offset(table, f.shl(loop.index, ONE), "i64")
            a, b = word(f, pair, 0), word(f, pair, 1)
            first, second = item(f, self.values, a), item(f, self.values, b)
            set_item(f, second, self.values, a)
            set_item(f, first, self.values, b)
        f.br("advance")

    def copy(self) -> None:
        """Copy memory."""
        f = self.f
        target, source = (self.data(self.rest(at)) for at in (2, 4))
        with f.if_(f.icmp("ne", target, source), likely=True):
            f.call("memmove", "ptr", [target, source, self.word(6)])
        f.br("advance")

    def strided(self) -> None:
        """Copy strided runs of memory along two axes."""
        f = self.f
        target, source = (self.data(self.rest(at)) for at in (2, 4))
        run = self.word(6)
        words = f.icmp("eq", run, f.const("i64", layout.WORD))
        with f.loop(ZERO, self.word(7)) as outer:
            rows = [f.offset(p, f.mul(outer.index, self.word(at))) for p, at in ((target, 8), (source, 9))]
            with f.loop(ZERO, self.word(10)) as inner:
                to, from_ = (f.offset(row, f.mul(inner.index, self.word(11 + k))) for k, row in enumerate(rows))
                word_, bytes_, done = f.fresh("word"), f.fresh("bytes"), f.fresh("copied")
                f.cond_br(words, word_, bytes_)
                f.label(word_)
                f.store(f.load("i64", from_, 1), to, 1)
                f.br(done)
                f.label(bytes_)
                f.call("memmove", "ptr", [to, from_, run])
                f.label(done)
        f.br("advance")

    def count(self) -> None:
        """Add to a number in memory."""
        f = self.f
        address = self.data(self.rest(2))
        f.store(f.add(f.load("i64", address), self.word(4)), address)
        f.br("advance")

    def alloc(self) -> None:
        """Allocate an output that is not allocated yet."""
        f = self.f
        spec = output_spec(f, self.plan, self.word(2))
        with f.if_(f.icmp("eq", item(f, self.values, word(f, spec, SpecField.VALUE)), f.null), likely=True):
            data = f.call("jf_alloc", "ptr", [word(f, spec, SpecField.NBYTES)])
            self.end_where_no_memory(data)
            set_item(f, data, self.values, word(f, spec, SpecField.VALUE))
        f.br("advance")

"""Emits the op for loops of launches only: kernel arguments are written once, and kernels count iterations.

Does not own single launches (ops.py), nor the pauses of loops for signals and other threads (pauses.py).
"""
from __future__ import annotations

from typing import Final

from jitfuse.backends.llvm.runtime import layout
from jitfuse.backends.llvm.runtime.layout import PauseField, SweepWord
from jitfuse.backends.llvm.runtime.op_moves import Moves
from jitfuse.backends.llvm.runtime.pyobject import ONE, ZERO, address, item, set_item, word
from jitfuse.backends.llvm.text.builder import Loop, Value

_THREE: Final = Value("3", "i64")


class Sweeps(Moves):
    """Appends the blocks of the op."""

    def sweep(self) -> None:
        """Run the launches of each iteration in order; the work area holds the kernel arguments of each launch."""
        f = self.f
        begin, piece, launches = (self.word(k) for k in range(2, 5))
        low, high = (f.load("i64", self.data(self.rest(k))) for k in (5, 7))
        end = f.select(f.icmp("slt", low, high), f.sub(high, low), ZERO)
        first = self.rest(9)
        with f.loop(ZERO, launches) as loop:
            record, work = loop.carry(first), loop.carry(self.work)
            self._lay_out(record, work)
            self._next(loop, record, work)
        with f.loop(begin, end, piece) as iterations:
            stop = f.intrinsic("smin", "i64", f.add(iterations.index, piece), end)
            with f.loop(ZERO, launches) as loop:
                record, work = loop.carry(first), loop.carry(self.work)
                kernel, units = address(f, record, SweepWord.KERNEL), word(f, record, SweepWord.UNITS)
                bounds = f.mul(iterations.index, units), f.mul(stop, units)
                status = f.call_pointer(kernel, "i64", [work, *bounds, f.null])
                self.end_where_status(status, word(f, record, SweepWord.SITE))
                self._turn(record, work)
                self._next(loop, record, work)
            counted = f.offset(self.pause, PauseField.LAUNCHES * layout.WORD)
            f.store(f.add(f.load("i64", counted), launches), counted)
            self.count_down()
        f.br("advance")

    def _next(self, loop: Loop, record: Value, work: Value) -> None:
        """Advance to the next launch: its record, and the address of its kernel arguments."""
        f = self.f
        patches, turns = word(f, record, SweepWord.PATCHES), word(f, record, SweepWord.TURNS)
        length = f.add(f.shl(patches, ONE), f.mul(turns, _THREE))
        loop.update(0, f.offset(f.offset(record, SweepWord.TABLE * layout.WORD), length, "i64"))
        loop.update(1, f.offset(work, f.add(word(f, record, SweepWord.WORDS), turns), "i64"))

    def _turns(self, record: Value, work: Value) -> tuple[Value, Value]:
        """Return the table of a launch's alternating arguments, and the address of the xors of their values."""
        f = self.f
        patches = f.shl(word(f, record, SweepWord.PATCHES), ONE)
        table = f.offset(f.offset(record, SweepWord.TABLE * layout.WORD), patches, "i64")
        return table, f.offset(work, word(f, record, SweepWord.WORDS), "i64")

    def _lay_out(self, record: Value, work: Value) -> None:
        """Write the kernel arguments of a launch, and for alternating ones the xor of their two values."""
        f = self.f
        total, patches = word(f, record, SweepWord.WORDS), word(f, record, SweepWord.PATCHES)
        template, table = address(f, record, SweepWord.TEMPLATE), f.offset(record, SweepWord.TABLE * layout.WORD)
        with f.loop(ZERO, patches) as loop:
            set_item(f, self.data(table, f.shl(loop.index, ONE)), work, loop.index)
        with f.loop(patches, total) as loop:
            set_item(f, item(f, template, loop.index), work, loop.index)
        turns, changes = self._turns(record, work)
        with f.loop(ZERO, word(f, record, SweepWord.TURNS)) as loop:
            turn = f.offset(turns, f.mul(loop.index, _THREE), "i64")
            here = item(f, work, word(f, turn, 0))
            there = self.data(f.offset(turn, layout.WORD))
            change = f.xor(f.cast("ptrtoint", here, "i64"), f.cast("ptrtoint", there, "i64"))
            f.store(change, f.offset(changes, loop.index, "i64"))

    def _turn(self, record: Value, work: Value) -> None:
        """Switch the alternating arguments of a launch to their other values."""
        f = self.f
        turns, changes = self._turns(record, work)
        with f.loop(ZERO, word(f, record, SweepWord.TURNS)) as loop:
            which = f.load("i64", f.offset(turns, f.mul(loop.index, _THREE), "i64"))
            address = f.offset(work, which, "i64")
            change = f.load("i64", f.offset(changes, loop.index, "i64"))
            f.store(f.xor(f.load("i64", address), change), address)

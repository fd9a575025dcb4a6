"""Emits the op of loops that are nothing but launches: their words are laid out once, and move on in place.

Does not own single launches (ops.py), nor what a loop owes to signals and other threads (pauses.py).
"""
from __future__ import annotations

from typing import Final

from jitfuse.backends.llvm.builder import Loop, Value
from jitfuse.backends.llvm.runtime import layout
from jitfuse.backends.llvm.runtime.layout import Pause, SweepWord
from jitfuse.backends.llvm.runtime.op_moves import Moves
from jitfuse.backends.llvm.runtime.pyobject import ONE, ZERO, address, item, set_item, word

_TWO: Final = Value("2", "i64")


class Sweeps(Moves):
    """Appends the blocks of the op."""

    def sweep(self) -> None:
        """Run launches one after the other, again and again; the words of each are laid out in the work area."""
        f = self.f
        count, launches = self.word(2), self.word(3)
        first = self.rest(4)
        with f.loop(ZERO, launches) as loop:
            record, work = loop.carry(first), loop.carry(self.work)
            self._lay_out(record, work)
            self._next(loop, record, work)
        place = f.offset(self.pause, Pause.LAUNCHES * layout.WORD)
        f.store(f.add(f.load("i64", place), f.mul(count, launches)), place)
        with f.loop(ZERO, count):
            with f.loop(ZERO, launches) as loop:
                record, work = loop.carry(first), loop.carry(self.work)
                kernel, units = address(f, record, SweepWord.KERNEL), word(f, record, SweepWord.UNITS)
                status = f.call_pointer(kernel, "i64", [work, ZERO, units, f.null])
                self.end_where_status(status, word(f, record, SweepWord.SITE))
                self._move_on(record, work)
                self._next(loop, record, work)
            self.count_down()
        f.br("advance")

    def _next(self, loop: Loop, record: Value, work: Value) -> None:
        """Go on to the next launch: its record, and where its words are."""
        f = self.f
        patches, moves = word(f, record, SweepWord.PATCHES), word(f, record, SweepWord.MOVES)
        length = f.add(f.shl(patches, ONE), f.shl(moves, _TWO))
        loop.update(0, f.offset(f.offset(record, SweepWord.TABLE * layout.WORD), length, "i64"))
        loop.update(1, f.offset(work, f.add(word(f, record, SweepWord.WORDS), f.shl(moves, ONE)), "i64"))

    def _moves(self, record: Value, work: Value) -> tuple[Value, Value]:
        """Return the table of a launch's words that move, and how each does: (step, flip) pairs in the work area."""
        f = self.f
        patches = f.shl(word(f, record, SweepWord.PATCHES), ONE)
        table = f.offset(f.offset(record, SweepWord.TABLE * layout.WORD), patches, "i64")
        return table, f.offset(work, word(f, record, SweepWord.WORDS), "i64")

    def _lay_out(self, record: Value, work: Value) -> None:
        """Write the words of a launch, and how they move: by a step, or between two places."""
        f = self.f
        total, patches = word(f, record, SweepWord.WORDS), word(f, record, SweepWord.PATCHES)
        template, table = address(f, record, SweepWord.TEMPLATE), f.offset(record, SweepWord.TABLE * layout.WORD)
        with f.loop(ZERO, patches) as loop:
            set_item(f, self.data(table, f.shl(loop.index, ONE)), work, loop.index)
        with f.loop(patches, total) as loop:
            set_item(f, item(f, template, loop.index), work, loop.index)
        moves, course = self._moves(record, work)
        with f.loop(ZERO, word(f, record, SweepWord.MOVES)) as loop:
            move = f.offset(moves, f.shl(loop.index, _TWO), "i64")
            pair = f.offset(course, f.shl(loop.index, ONE), "i64")
            f.store(word(f, move, 1), pair)
            f.store(ZERO, f.offset(pair, layout.WORD))
            with f.if_(f.icmp("sge", word(f, move, 2), ZERO)):
                here = f.load("i64", f.offset(work, word(f, move, 0), "i64"))
                there = f.cast("ptrtoint", self.data(f.offset(move, 2 * layout.WORD)), "i64")
                f.store(f.xor(here, there), f.offset(pair, layout.WORD))

    def _move_on(self, record: Value, work: Value) -> None:
        """Move the words of a launch on."""
        f = self.f
        moves, course = self._moves(record, work)
        with f.loop(ZERO, word(f, record, SweepWord.MOVES)) as loop:
            place = f.offset(work, f.load("i64", f.offset(moves, f.shl(loop.index, _TWO), "i64")), "i64")
            pair = f.offset(course, f.shl(loop.index, ONE), "i64")
            stepped = f.add(f.load("i64", place), word(f, pair, 0))
            f.store(f.xor(stepped, word(f, pair, 1)), place)

"""Emits the base of the runtime's interpreters: each reads records of words, and dispatches on their kind.

Owns: `RecordReader`. Does not own the kinds of records, nor how one record follows another.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping

from jitfuse.backends.llvm.runtime import layout
from jitfuse.backends.llvm.runtime.pyobject import address, word
from jitfuse.backends.llvm.text.builder import Function, Value


class RecordReader:
    """An interpreter under construction, in the block of one record: `%record` of the function."""

    def __init__(self, f: Function) -> None:
        self.f = f
        self.record = Value("%record", "ptr")

    def dispatch(self, kinds: Mapping[int, Callable[[], None]], otherwise: str) -> None:
        """Continue in the block of the record's kind, its first word; the functions of `kinds` append the blocks."""
        self.f.switch(self.word(0), otherwise, [(kind, f"kind{kind}") for kind in kinds])
        for kind, emit in kinds.items():
            self.f.label(f"kind{kind}")
            emit()

    def word(self, index: int) -> Value:
        """Load a word of the record."""
        return word(self.f, self.record, index)

    def address(self, index: int) -> Value:
        """Load a word of the record that is an address."""
        return address(self.f, self.record, index)

    def rest(self, index: int) -> Value:
        """Return the address of the record's words from `index` on."""
        return self.f.offset(self.record, index * layout.WORD)

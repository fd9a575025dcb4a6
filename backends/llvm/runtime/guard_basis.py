"""Emits the steps common to all guards: read words and objects, continue, fail, or fill a slot.

Owns: `GuardBasis`. Does not own the kinds of guards (guards.py, guard_data.py).
"""
from __future__ import annotations

from jitfuse.backends.llvm.runtime.pyobject import (
    incref,
    item,
    set_item,
)
from jitfuse.backends.llvm.runtime.record_reader import RecordReader
from jitfuse.backends.llvm.text.builder import Module, Value


class GuardBasis(RecordReader):
    """The function `jf_guards` under construction, in the block of one guard."""

    def __init__(self, module: Module) -> None:
        parameters = [("entry_words", "ptr"), ("objects", "ptr"), ("cells", "ptr"), ("values", "ptr")]
        super().__init__(module.function("jf_guards", "i64", parameters, internal=True))
        self.entry, self.objects, self.cells, self.values = self.f.args
        self.found: list[tuple[Value, str]] = []

    def source(self, index: int = 1) -> Value:
        """Return the object in the slot that a word of the guard names."""
        return item(self.f, self.objects, self.word(index))

    def require(self, condition: Value, otherwise: str = "failed") -> None:
        """Continue where the condition holds, else go to the block `otherwise`."""
        following = self.f.fresh("ok")
        self.f.cond_br(condition, following, otherwise, likely=True)
        self.f.label(following)

    def find(self, target: Value) -> None:
        """Fill the next slot with a new reference."""
        self.found.append((target, self.f.block))
        self.f.br("found")

    def find_borrowed(self, target: Value) -> None:
        """Fill the next slot with a borrowed reference, after taking one."""
        incref(self.f, target)
        self.find(target)

    def pass_if(self, condition: Value) -> None:
        """Pass where the condition holds, else fail."""
        self.f.cond_br(condition, "pass", "failed", likely=True)

    def scalar_cell(self) -> Value:
        """Return the scalar's cell; sets the guard's value to its address."""
        cell = self.f.offset(self.cells, self.word(2), "i64")
        set_item(self.f, cell, self.values, self.word(3))
        return cell

"""Emits the steps common to all ops of a plan: read words, find memory, leave through the handler, take the GIL.

Owns: `jf_handle`, `OpBasis`. Does not own the ops (op_moves.py, ops.py).
"""
from __future__ import annotations

from typing import Final

from jitfuse.backends.llvm.runtime import layout
from jitfuse.backends.llvm.runtime.layout import EntryField, PauseField, PlanField
from jitfuse.backends.llvm.runtime.pyobject import (
    ZERO,
    address,
    call_object,
    decref,
    decref_range,
    item,
    set_item,
    word,
)
from jitfuse.backends.llvm.runtime.record_reader import RecordReader
from jitfuse.backends.llvm.text.builder import Module, Value

LEFT: Final = Value("inttoptr (i64 2 to ptr)", "ptr")
"""The result of a call's ops where the handler returned: the call goes to the miss handler."""


def emit_handle(module: Module) -> None:
    """``ptr jf_handle(ptr entry, i64 site, i64 status)``: call the handler of an entry, which raises for a status.

    Returns null with an exception set, or `LEFT` where the handler returns: the call goes to the miss handler.
    """
    parameters = [("entry_words", "ptr"), ("site", "i64"), ("status", "i64")]
    f = module.function("jf_handle", "ptr", parameters, internal=True)
    entry, *numbers = f.args
    count = len(numbers)
    arguments = f.alloca("ptr", count)
    complete = f.const("i1", True)
    for i, number in enumerate(numbers):
        made = f.call("PyLong_FromLongLong", "ptr", [number])
        set_item(f, made, arguments, f.const("i64", i))
        complete = f.and_(complete, f.icmp("ne", made, f.null))
    with f.if_(f.not_(complete), likely=False):
        for i in range(count):
            f.call("Py_DecRef", "void", [address(f, arguments, i)])
        f.ret(f.null)
    answer = call_object(f, address(f, entry, EntryField.HANDLER), arguments, f.const("i64", count))
    decref_range(f, arguments, ZERO, f.const("i64", count))
    with f.if_(f.icmp("eq", answer, f.null), likely=True):
        f.ret(f.null)
    decref(f, answer)
    f.ret(LEFT)


class OpBasis(RecordReader):
    """The function `jf_ops` under construction, in the block of one op."""

    def __init__(self, module: Module) -> None:
        parameters = [("plan", "ptr"), ("entry_words", "ptr"), ("state", "ptr"), ("frame", "ptr"),
                      ("values", "ptr"), ("owners", "ptr"), ("pause", "ptr")]
        super().__init__(module.function("jf_ops", "ptr", parameters, internal=True))
        self.plan, self.caller, self.state, self.frame, self.values, self.owners, self.pause = self.f.args
        self.base = address(self.f, self.plan, PlanField.OPS)
        self.work = self.f.offset(self.frame, word(self.f, self.plan, PlanField.WORK), "i64")
        self.jumps: list[tuple[Value, str]] = []

    def data(self, table: Value, index: Value | int = 0) -> Value:
        """Return the address that two words (value, offset) of a table describe."""
        f = self.f
        pair = f.offset(table, index, "i64")
        return f.offset(item(f, self.values, f.load("i64", pair)), f.field("i64", pair, layout.WORD))

    def end_where_status(self, status: Value, site: Value) -> None:
        """Leave through the handler where a status is not 0."""
        f = self.f
        with f.if_(f.icmp("ne", status, ZERO), likely=False):
            self.with_gil()
            f.ret(f.call("jf_handle", "ptr", [self.caller, site, status]))

    def end_where_no_memory(self, memory: Value) -> None:
        """Leave the call where an allocation has failed."""
        f = self.f
        with f.if_(f.icmp("eq", memory, f.null), likely=False):
            self.with_gil()
            f.ret(f.call("PyErr_NoMemory", "ptr", []))

    def with_gil(self) -> None:
        """Take the GIL back where a loop has released it: the next instructions use Python objects."""
        f = self.f
        with f.if_(f.icmp("ne", address(f, self.pause, PauseField.THREAD), f.null), likely=False):
            f.call("jf_take_gil", "void", [self.pause])

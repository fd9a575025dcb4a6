"""Emits the kernel of batches: launches of one kernel that run as one launch, one job of the pool.

Owns: `jf_batch`, how it reads a batch's table. Does not own which launches are batched, nor how a launch is divided.
"""
from __future__ import annotations

from jitfuse.backends.llvm.runtime import layout
from jitfuse.backends.llvm.runtime.layout import BatchField
from jitfuse.backends.llvm.runtime.pyobject import ONE, ZERO, address, item, set_item, word
from jitfuse.backends.llvm.text.builder import Function, Module, Value


def emit_batch(module: Module) -> None:
    """Add ``i64 jf_batch(ptr words, i64 begin, i64 end, ptr scratch)``, a kernel.

    Its units are those of all launches, one launch after the other. Its arguments are the address of the batch's table,
    and the operands' addresses of every launch.
    """
    f = module.function("jf_batch", "i64", [("words", "ptr"), ("begin", "i64"), ("end", "i64"), ("scratch", "ptr")])
    words, begin, end, scratch = f.args
    table = f.load("ptr", words)
    kernel = address(f, table, BatchField.KERNEL)
    operands, more = word(f, table, BatchField.OPERANDS), word(f, table, BatchField.WORDS)
    rows, length = f.offset(table, BatchField.ROWS * layout.WORD), f.add(more, ONE)
    arguments = f.alloca("i64", f.add(operands, more))
    first = _row_of(f, begin, rows, word(f, table, BatchField.LAUNCHES), length)
    f.label("launch")
    f.emit(f"%row = phi i64 [ {first.ref}, %found ], [ %row_next, %ran ]")
    f.emit(f"%at = phi i64 [ {begin.ref}, %found ], [ %stop, %ran ]")
    row, at = Value("%row", "i64"), Value("%at", "i64")
    record = f.offset(rows, f.mul(row, length), "i64")
    start, following = f.load("i64", record), f.load("i64", f.offset(record, length, "i64"))
    stop = f.intrinsic("smin", "i64", end, following)
    f.emit(f"%stop = add i64 {stop.ref}, 0")
    addresses = f.offset(words, f.add(ONE, f.mul(row, operands)), "i64")
    with f.loop(ZERO, operands) as loop:
        set_item(f, item(f, addresses, loop.index), arguments, loop.index)
    with f.loop(ZERO, more) as loop:
        value = item(f, record, f.add(loop.index, ONE))
        set_item(f, value, arguments, f.add(operands, loop.index))
    status = f.call_pointer(kernel, "i64", [arguments, f.sub(at, start), f.sub(stop, start), scratch])
    with f.if_(f.icmp("ne", status, ZERO), likely=False):
        f.ret(status)
    f.label("ran")
    f.emit(f"%row_next = add i64 {row.ref}, 1")
    f.cond_br(f.icmp("slt", stop, end), "launch", "done")
    f.label("done")
    f.ret(ZERO)


def _row_of(f: Function, unit: Value, rows: Value, count: Value, length: Value) -> Value:
    """Return the number of the row with a unit, by bisection; goes on in the block `found`."""
    f.label("bisect")
    f.emit("%low = phi i64 [ 0, %entry ], [ %low_next, %half ]")
    f.emit(f"%high = phi i64 [ {count.ref}, %entry ], [ %high_next, %half ]")
    low, high = Value("%low", "i64"), Value("%high", "i64")
    f.cond_br(f.icmp("sgt", f.sub(high, low), ONE), "half", "found")
    f.label("half")
    middle = f.lshr(f.add(low, high), ONE)
    above = f.icmp("sgt", f.load("i64", f.offset(rows, f.mul(middle, length), "i64")), unit)
    f.emit(f"%low_next = select i1 {above.ref}, i64 {low.ref}, i64 {middle.ref}")
    f.emit(f"%high_next = select i1 {above.ref}, i64 {middle.ref}, i64 {high.ref}")
    f.br("bisect")
    f.label("found")
    return low

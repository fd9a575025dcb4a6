"""Emits the guards that read data: numbers, arrays, tensors, and whether their memory overlaps.

Does not own the guards of objects (guards.py).
"""
from __future__ import annotations

from jitfuse.backends.llvm.runtime import exchange, layout
from jitfuse.backends.llvm.runtime.guard_basis import GuardBasis
from jitfuse.backends.llvm.runtime.layout import Config, ReadingField, SpanField
from jitfuse.backends.llvm.runtime.pyobject import (
    I32_ZERO,
    ONE,
    ZERO,
    address,
    config,
    decref,
    has_type,
    item,
    set_item,
    type_of,
    word,
)
from jitfuse.backends.llvm.text.builder import Value

NATIVE_ORDER = (ord("="), ord("|"))


class DataGuards(GuardBasis):
    """Each method appends the blocks of one kind of guard."""

    def float_(self) -> None:
        """Read a Python float."""
        source = self.source()
        self.require(has_type(self.f, source, Config.FLOAT))
        self.f.store(self.f.field("double", source, layout.FLOAT_VALUE), self.scalar_cell())
        self.f.br("pass")

    def int_(self) -> None:
        """Read a Python int within bounds."""
        f = self.f
        source = self.source()
        self.require(has_type(f, source, Config.INT))
        overflow = f.alloca("i32")
        x = f.call("PyLong_AsLongLongAndOverflow", "i64", [source, overflow])
        self.require(f.icmp("eq", f.load("i32", overflow), I32_ZERO))
        self.require(f.and_(f.icmp("sge", x, self.word(4)), f.icmp("sle", x, self.word(5))))
        f.store(x, self.scalar_cell())
        f.br("pass")

    def bool_(self) -> None:
        """Read a Python bool."""
        f = self.f
        source = self.source()
        true = f.icmp("eq", source, config(f, Config.TRUE))
        self.require(f.or_(true, f.icmp("eq", source, config(f, Config.FALSE))))
        f.store(f.cast("zext", true, "i64"), self.scalar_cell())
        f.br("pass")

    def numpy_scalar(self) -> None:
        """Copy the bytes of a NumPy scalar of one type."""
        f = self.f
        source = self.source()
        self.require(f.icmp("eq", type_of(f, source), self.address(4)))
        cell = self.scalar_cell()
        data = f.offset(source, layout.SCALAR_VALUE)
        with f.loop(ZERO, self.word(5)) as loop:
            f.store(f.load("i8", f.offset(data, loop.index)), f.offset(cell, loop.index))
        f.br("pass")

    def array(self) -> None:
        """Require the dtype, extents, flags and strides of an ndarray, and find its memory."""
        f = self.f
        array = self.source()
        self.require(has_type(f, array, Config.NDARRAY))
        ndim = f.cast("sext", f.field("i32", array, layout.ARRAY_NDIM), "i64")
        self.require(f.icmp("eq", ndim, self.word(4)))
        flags = self.word(7)
        have = f.cast("zext", f.field("i32", array, layout.ARRAY_FLAGS), "i64")
        self.require(f.icmp("eq", f.and_(have, flags), flags))
        self.descr(f.field("ptr", array, layout.ARRAY_DESCR), self.address(3))
        self.extents(f.field("ptr", array, layout.ARRAY_DIMS), self.address(5), ndim)
        strides = self.address(6)
        with f.if_(f.icmp("ne", strides, f.null)):
            self.extents(f.field("ptr", array, layout.ARRAY_STRIDES), strides, ndim)
        set_item(f, f.field("ptr", array, layout.ARRAY_DATA), self.values, self.word(2))
        f.br("pass")

    def descr(self, have: Value, want: Value) -> None:
        """Require the same dtype object, or one of the same type number in native byte order."""
        f = self.f
        with f.if_(f.icmp("ne", have, want), likely=False):
            number = layout.DESCR_TYPE_NUM
            self.require(f.icmp("eq", f.field("i32", have, number), f.field("i32", want, number)))
            order = f.field("i8", have, layout.DESCR_BYTEORDER)
            a, b = (f.icmp("eq", order, f.const("i8", c)) for c in NATIVE_ORDER)
            self.require(f.or_(a, b))

    def extents(self, have: Value, want: Value, count: Value) -> None:
        """Require `count` equal words."""
        f = self.f
        with f.loop(ZERO, count) as loop:
            a, b = (f.load("i64", f.offset(t, loop.index, "i64")) for t in (have, want))
            self.require(f.icmp("eq", a, b))

    def tensor(self) -> None:
        """Read a tensor of torch's through DLPack's exchange table."""
        f = self.f
        target, reading = self.source(), self.address(7)
        types = (address(f, reading, ReadingField.TENSOR), address(f, reading, ReadingField.PARAMETER))
        type_ = type_of(f, target)
        self.require(f.or_(*(f.icmp("eq", type_, t) for t in types)))
        read = f.alloca("i64", exchange.TENSOR_WORDS)
        failed = f.call_pointer(address(f, reading, ReadingField.FUNCTION), "i32", [target, read])
        self.require(f.icmp("eq", failed, I32_ZERO), "raised")
        self.require(f.icmp("eq", f.field("i64", read, exchange.DEVICE), f.const("i64", exchange.CPU)))
        kind = f.field("i64", read, exchange.RANK_AND_DTYPE)
        self.require(f.icmp("eq", kind, self.word(3)))
        ndim = f.cast("zext", f.cast("trunc", kind, "i32"), "i64")
        self.extents(f.field("ptr", read, exchange.SHAPE), self.address(4), ndim)
        strides, wanted = f.field("ptr", read, exchange.STRIDES), self.address(5)
        with f.loop(ZERO, ndim) as loop:
            have, want = (f.load("i64", f.offset(t, loop.index, "i64")) for t in (strides, wanted))
            self.require(f.or_(f.icmp("eq", want, f.const("i64", layout.ANY_STRIDE)), f.icmp("eq", have, want)))
        data = f.field("i64", read, exchange.DATA)
        self.require(f.icmp("eq", f.and_(data, word(f, reading, ReadingField.MASK)), ZERO))
        questions = address(f, reading, ReadingField.QUESTIONS)
        with f.loop(ZERO, word(f, reading, ReadingField.QUESTION_COUNT)) as loop:
            self.answer_no(item(f, questions, loop.index), target)
        set_item(f, data, self.values, self.word(2))
        f.br("pass")

    def answer_no(self, question: Value, target: Value) -> None:
        """Require that a callable returns False for an object."""
        f = self.f
        answer = f.call("PyObject_CallOneArg", "ptr", [question, target])
        self.require(f.icmp("ne", answer, f.null), "raised")
        decref(f, answer)  # True and False stay alive
        self.require(f.icmp("eq", answer, config(f, Config.FALSE)))

    def no_grad(self) -> None:
        """Pass where gradients are off, or the tensor needs none."""
        f = self.f
        enabled = f.fresh("enabled")
        f.cond_br(f.icmp("eq", self.source(2), config(f, Config.FALSE)), "pass", enabled)
        f.label(enabled)
        self.answer_no(self.address(3), self.source(1))
        f.br("pass")

    def disjoint(self) -> None:
        """Pass where written memory is disjoint, from itself and from other memory: sort it, then bisect.

        It is sorted in the guard's own table, under the GIL: in the next call it most often lies as in this one.
        """
        f = self.f
        written, count, others, other_count = self.address(1), self.word(2), self.address(3), self.word(4)
        with f.loop(ONE, count) as loop:
            self._insert(written, loop.index)
        with f.loop(ONE, count) as loop:
            end = self._bound(written, f.sub(loop.index, ONE), SpanField.HIGH)
            self.require(f.icmp("sle", end, self._bound(written, loop.index, SpanField.LOW)))
        with f.loop(ZERO, other_count) as loop:
            begin, end = (self._bound(others, loop.index, side) for side in (SpanField.LOW, SpanField.HIGH))
            with f.if_(f.icmp("slt", self._bound(written, ZERO, SpanField.LOW), end)):
                last = self._last_before(written, count, end)
                self.require(f.icmp("sle", self._bound(written, last, SpanField.HIGH), begin))
        f.br("pass")

    def _bound(self, spans: Value, number: Value, side: int) -> Value:
        """Return the address at which a span begins or ends."""
        f = self.f
        span = f.offset(spans, f.mul(number, f.const("i64", layout.SPAN_WORDS)), "i64")
        base = f.cast("ptrtoint", item(f, self.values, word(f, span, SpanField.VALUE)), "i64")
        return f.add(base, word(f, span, side))

    def _insert(self, spans: Value, number: Value) -> None:
        """Move a span forward to its place among those before it, which are in order."""
        f = self.f
        check, move, there, before = (f.fresh(name) for name in ("check", "move", "there", "before"))
        came, at, behind = f.block, f.fresh("at"), f.fresh("behind")
        f.label(before)
        f.emit(f"%{at} = phi i64 [ {number.ref}, %{came} ], [ %{behind}, %{move} ]")
        here = Value(f"%{at}", "i64")
        f.cond_br(f.icmp("sgt", here, ZERO), check, there)
        f.label(check)
        previous = f.sub(here, ONE)
        low = self._bound(spans, here, SpanField.LOW)
        f.cond_br(f.icmp("sgt", self._bound(spans, previous, SpanField.LOW), low), move, there, likely=False)
        f.label(move)
        f.emit(f"%{behind} = add i64 {previous.ref}, 0")
        first, second = (
            f.offset(spans, f.mul(k, f.const("i64", layout.SPAN_WORDS)), "i64") for k in (previous, here))
        for k in range(layout.SPAN_WORDS):
            a, b = word(f, first, k), word(f, second, k)
            f.set_field(a, second, k * layout.WORD)
            f.set_field(b, first, k * layout.WORD)
        f.br(before)
        f.label(there)

    def _last_before(self, spans: Value, count: Value, address: Value) -> Value:
        """Return the number of the last span in order that begins before an address; the first one does."""
        f = self.f
        bisect, half, found = (f.fresh(name) for name in ("bisect", "half", "found"))
        low, high, next_low, next_high = (f.fresh(name) for name in ("low", "high", "low", "high"))
        came = f.block
        f.label(bisect)
        f.emit(f"%{low} = phi i64 [ 0, %{came} ], [ %{next_low}, %{half} ]")
        f.emit(f"%{high} = phi i64 [ {count.ref}, %{came} ], [ %{next_high}, %{half} ]")
        first, end = Value(f"%{low}", "i64"), Value(f"%{high}", "i64")
        f.cond_br(f.icmp("sgt", f.sub(end, first), ONE), half, found)
        f.label(half)
        middle = f.lshr(f.add(first, end), ONE)
        before = f.icmp("slt", self._bound(spans, middle, SpanField.LOW), address)
        f.emit(f"%{next_low} = select i1 {before.ref}, i64 {middle.ref}, i64 {first.ref}")
        f.emit(f"%{next_high} = select i1 {before.ref}, i64 {end.ref}, i64 {middle.ref}")
        f.br(bisect)
        f.label(found)
        return first

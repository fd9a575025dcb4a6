"""Emits the guard interpreter: decides whether an entry stands for a call, and reads what it needs.

Owns: `jf_guards`. Does not own which guards an entry has (tables.py), nor the release of what guards found.

Guards may run any Python code (properties, ``__getitem__``, ``__eq__``), which may call fused functions, add
entries or let other threads run: so each object that a guard finds is held by a reference of its own.
"""
from __future__ import annotations

from jitfuse.backends.llvm.builder import Module, Value
from jitfuse.backends.llvm.runtime import exchange, layout
from jitfuse.backends.llvm.runtime.layout import Config, Entry, Guard, Reading
from jitfuse.backends.llvm.runtime.pyobject import (
    I32_ZERO,
    ZERO,
    address,
    config,
    decref,
    equal,
    has_type,
    incref,
    item,
    set_item,
    type_of,
    word,
)

NATIVE_ORDER = (ord("="), ord("|"))


def emit_guards(module: Module) -> None:
    """Add ``i64 jf_guards(ptr entry, ptr objects, ptr cells, ptr values)``.

    Runs the entry's guards; the argument slots of `objects` are filled already. Returns how many slots are
    filled in the end, or ~count where a guard fails: the caller releases those beyond the arguments.
    No exception is set on return.
    """
    _Guards(module).emit()


class _Guards:
    """The function under construction: each method appends the blocks of one kind of guard."""

    def __init__(self, module: Module) -> None:
        parameters = [("entry_words", "ptr"), ("objects", "ptr"), ("cells", "ptr"), ("values", "ptr")]
        self.f = module.function("jf_guards", "i64", parameters, internal=True)
        self.entry, self.objects, self.cells, self.values = self.f.args
        self.record = Value("%record", "ptr")
        self.found: list[tuple[Value, str]] = []

    def emit(self) -> None:
        f = self.f
        table = address(f, self.entry, Entry.GUARDS)
        size = f.mul(word(f, self.entry, Entry.GUARD_COUNT), f.const("i64", layout.GUARD_WORDS * layout.WORD))
        end = f.offset(table, size)
        first = f.add(word(f, self.entry, Entry.POSITIONAL), word(f, self.entry, Entry.KEYWORD_COUNT))
        f.label("next")
        f.emit(f"%record = phi ptr [ {table.ref}, %entry ], [ %following, %advance ]")
        f.emit(f"%filled = phi i64 [ {first.ref}, %entry ], [ %filled_next, %advance ]")
        f.cond_br(f.icmp("eq", self.record, end), "passed", "dispatch")
        f.label("dispatch")
        kinds = {
            Guard.CONST: self.const, Guard.DICT: self.dict_item, Guard.ABSENT: self.absent,
            Guard.CELL: self.cell, Guard.ATTR: self.attribute, Guard.KEY: self.item, Guard.INDEX: self.index,
            Guard.TYPE: self.type_, Guard.IS: self.identity, Guard.EQ: self.equal, Guard.LEN: self.length,
            Guard.FLOAT: self.float_, Guard.INT: self.int_, Guard.BOOL: self.bool_,
            Guard.NPSCALAR: self.numpy_scalar, Guard.ARRAY: self.array, Guard.OVERLAP: self.overlap,
            Guard.CALL: self.call, Guard.SAME: self.same, Guard.TENSOR: self.tensor, Guard.NO_GRAD: self.no_grad,
        }
        f.switch(self.word(0), "failed", [(op, f"guard{op}") for op in kinds])
        for op, emit in kinds.items():
            f.label(f"guard{op}")
            emit()
        f.label("found")
        target = f.phi("ptr", self.found)
        set_item(f, target, self.objects, Value("%filled", "i64"))
        f.emit("%one_more = add i64 %filled, 1")
        f.br("advance")
        f.label("pass")
        f.br("advance")
        f.label("advance")
        f.emit("%filled_next = phi i64 [ %filled, %pass ], [ %one_more, %found ]")
        f.emit(f"%following = getelementptr i8, ptr %record, i64 {layout.GUARD_WORDS * layout.WORD}")
        f.br("next")
        f.label("raised")
        f.call("PyErr_Clear", "void", [])
        f.br("failed")
        f.label("failed")
        f.ret(f.not_(Value("%filled", "i64")))
        f.label("passed")
        f.ret(Value("%filled", "i64"))

    # ------------------------------------------------------------------ parts
    def word(self, index: int) -> Value:
        return word(self.f, self.record, index)

    def address(self, index: int) -> Value:
        return address(self.f, self.record, index)

    def source(self, index: int = 1) -> Value:
        return item(self.f, self.objects, self.word(index))

    def require(self, condition: Value, otherwise: str = "failed") -> None:
        """Go on where the condition holds."""
        following = self.f.fresh("ok")
        self.f.cond_br(condition, following, otherwise, likely=True)
        self.f.label(following)

    def find(self, target: Value) -> None:
        """Fill the next slot with a new reference."""
        self.found.append((target, self.f.block))
        self.f.br("found")

    def find_borrowed(self, target: Value) -> None:
        incref(self.f, target)
        self.find(target)

    def pass_if(self, condition: Value) -> None:
        self.f.cond_br(condition, "pass", "failed", likely=True)

    def scalar_cell(self) -> Value:
        """Return the scalar's cell, with the guard's value pointing there."""
        cell = self.f.offset(self.cells, self.word(2), "i64")
        set_item(self.f, cell, self.values, self.word(3))
        return cell

    # ------------------------------------------------------------------ objects
    def const(self) -> None:
        self.find_borrowed(self.address(2))

    def dict_item(self) -> None:
        target = self.f.call("PyDict_GetItemWithError", "ptr", [self.address(2), self.address(3)])
        self.require(self.f.icmp("ne", target, self.f.null), "raised")
        self.find_borrowed(target)

    def absent(self) -> None:
        f = self.f
        found = f.call("PyDict_Contains", "i32", [self.address(1), self.address(2)])
        self.require(f.icmp("sge", found, I32_ZERO), "raised")
        self.pass_if(f.icmp("eq", found, I32_ZERO))

    def cell(self) -> None:
        target = self.f.field("ptr", self.address(2), layout.CELL_CONTENT)
        self.require(self.f.icmp("ne", target, self.f.null))
        self.find_borrowed(target)

    def attribute(self) -> None:
        target = self.f.call("PyObject_GetAttr", "ptr", [self.source(2), self.address(3)])
        self.require(self.f.icmp("ne", target, self.f.null), "raised")
        self.find(target)

    def item(self) -> None:
        f = self.f
        source, key = self.source(2), self.address(3)
        exact, general = f.fresh("exact"), f.fresh("general")
        f.cond_br(has_type(f, source, Config.DICT), exact, general)
        f.label(exact)
        target = f.call("PyDict_GetItemWithError", "ptr", [source, key])
        self.require(f.icmp("ne", target, f.null), "raised")
        self.find_borrowed(target)
        f.label(general)
        target = f.call("PyObject_GetItem", "ptr", [source, key])
        self.require(f.icmp("ne", target, f.null), "raised")
        self.find(target)

    def call(self) -> None:
        target = self.f.call("PyObject_CallOneArg", "ptr", [self.address(3), self.source(2)])
        self.require(self.f.icmp("ne", target, self.f.null), "raised")
        self.find(target)

    def index(self) -> None:
        f = self.f
        source, position = self.source(2), self.word(3)
        in_tuple, other, in_list = f.fresh("tuple"), f.fresh("other"), f.fresh("list")
        f.cond_br(has_type(f, source, Config.TUPLE), in_tuple, other)
        f.label(in_tuple)
        self.require(f.icmp("slt", position, f.field("i64", source, layout.VAR_SIZE)))
        self.find_borrowed(item(f, f.offset(source, layout.TUPLE_ITEMS), position))
        f.label(other)
        f.cond_br(has_type(f, source, Config.LIST), in_list, "failed")
        f.label(in_list)
        self.require(f.icmp("slt", position, f.field("i64", source, layout.VAR_SIZE)))
        self.find_borrowed(item(f, f.field("ptr", source, layout.LIST_ITEMS), position))

    # ------------------------------------------------------------------ conditions
    def type_(self) -> None:
        self.pass_if(self.f.icmp("eq", type_of(self.f, self.source()), self.address(2)))

    def identity(self) -> None:
        self.pass_if(self.f.icmp("eq", self.source(), self.address(2)))

    def same(self) -> None:
        self.pass_if(self.f.icmp("eq", self.source(1), self.source(2)))

    def equal(self) -> None:
        f = self.f
        source, constant = self.source(), self.address(2)
        other, general = f.fresh("other"), f.fresh("general")
        f.cond_br(f.icmp("eq", source, constant), "pass", other)
        f.label(other)
        self.require(f.icmp("eq", type_of(f, source), type_of(f, constant)))
        for type_, words in ((Config.FLOAT, 1), (Config.COMPLEX, 2)):
            bits, other = f.fresh("bits"), f.fresh("other")
            f.cond_br(has_type(f, source, type_), bits, other)
            f.label(bits)
            same = f.const("i1", True)
            for i in range(words):
                at = layout.FLOAT_VALUE + i * layout.WORD
                same = f.and_(same, f.icmp("eq", f.field("i64", source, at), f.field("i64", constant, at)))
            self.pass_if(same)
            f.label(other)
        f.label(general)
        self.pass_if(equal(f, source, constant))

    def length(self) -> None:
        f = self.f
        source = self.source()
        exact = f.const("i1", False)
        for type_ in (Config.LIST, Config.TUPLE, Config.DICT):
            exact = f.or_(exact, has_type(f, source, type_))
        self.require(exact)
        self.pass_if(f.icmp("eq", f.field("i64", source, layout.VAR_SIZE), self.word(2)))

    # ------------------------------------------------------------------ data
    def float_(self) -> None:
        source = self.source()
        self.require(has_type(self.f, source, Config.FLOAT))
        self.f.store(self.f.field("double", source, layout.FLOAT_VALUE), self.scalar_cell())
        self.f.br("pass")

    def int_(self) -> None:
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
        f = self.f
        source = self.source()
        true = f.icmp("eq", source, config(f, Config.TRUE))
        self.require(f.or_(true, f.icmp("eq", source, config(f, Config.FALSE))))
        f.store(f.cast("zext", true, "i64"), self.scalar_cell())
        f.br("pass")

    def numpy_scalar(self) -> None:
        f = self.f
        source = self.source()
        self.require(f.icmp("eq", type_of(f, source), self.address(4)))
        cell = self.scalar_cell()
        data = f.offset(source, layout.SCALAR_VALUE)
        with f.loop(ZERO, self.word(5)) as loop:
            f.store(f.load("i8", f.offset(data, loop.index)), f.offset(cell, loop.index))
        f.br("pass")

    def array(self) -> None:
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
        types = (address(f, reading, Reading.TENSOR), address(f, reading, Reading.PARAMETER))
        type_ = type_of(f, target)
        self.require(f.or_(*(f.icmp("eq", type_, t) for t in types)))
        read = f.alloca("i64", exchange.TENSOR_WORDS)
        failed = f.call_pointer(address(f, reading, Reading.FUNCTION), "i32", [target, read])
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
        self.require(f.icmp("eq", f.and_(data, word(f, reading, Reading.MASK)), ZERO))
        questions = address(f, reading, Reading.QUESTIONS)
        with f.loop(ZERO, word(f, reading, Reading.QUESTION_COUNT)) as loop:
            self.answer_no(item(f, questions, loop.index), target)
        set_item(f, data, self.values, self.word(2))
        f.br("pass")

    def answer_no(self, question: Value, target: Value) -> None:
        """Require that a callable returns False for an object."""
        f = self.f
        answer = f.call("PyObject_CallOneArg", "ptr", [question, target])
        self.require(f.icmp("ne", answer, f.null), "raised")
        decref(f, answer)  # True and False outlive it
        self.require(f.icmp("eq", answer, config(f, Config.FALSE)))

    def no_grad(self) -> None:
        """Pass where gradients are off, or the tensor needs none."""
        f = self.f
        enabled = f.fresh("enabled")
        f.cond_br(f.icmp("eq", self.source(2), config(f, Config.FALSE)), "pass", enabled)
        f.label(enabled)
        self.answer_no(self.address(3), self.source(1))
        f.br("pass")

    def overlap(self) -> None:
        f = self.f
        a, b = (f.cast("ptrtoint", item(f, self.values, self.word(i)), "i64") for i in (1, 2))
        low_a, high_a = f.add(a, self.word(3)), f.add(a, self.word(4))
        low_b, high_b = f.add(b, self.word(5)), f.add(b, self.word(6))
        apart = f.or_(f.icmp("sle", high_a, low_b), f.icmp("sle", high_b, low_a))
        delta = self.word(7)
        as_before = f.and_(f.not_(apart), f.icmp("eq", f.sub(a, b), delta))
        any_ = f.icmp("eq", delta, f.const("i64", -(1 << 63)))
        self.pass_if(f.or_(f.and_(any_, apart), f.and_(f.not_(any_), as_before)))

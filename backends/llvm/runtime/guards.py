"""Emits the guard interpreter: it decides whether an entry answers a call, and reads the call's objects.

Owns: `jf_guards`, the guards of objects. Does not own those of data (guard_data.py), which guards an entry has
(entry_builder.py), nor the release of the objects that guards found.

Guards may run any Python code (properties, ``__getitem__``, ``__eq__``), which may call fused functions, add
entries or let other threads run. So a guard takes a reference to each object that it finds.
"""
from __future__ import annotations

from jitfuse.backends.llvm.runtime import layout
from jitfuse.backends.llvm.runtime.guard_data import DataGuards
from jitfuse.backends.llvm.runtime.layout import Config, EntryField, GuardCode
from jitfuse.backends.llvm.runtime.pyobject import (
    I32_ZERO,
    address,
    call_object,
    equal,
    has_type,
    item,
    set_item,
    type_of,
    word,
)
from jitfuse.backends.llvm.text.builder import Module, Value


def emit_guards(module: Module) -> None:
    """Add ``i64 jf_guards(ptr entry, ptr objects, ptr cells, ptr values)``.

    Runs the entry's guards; the argument slots of `objects` are filled already. Returns the number of filled
    slots, or ~count where a guard fails: the caller releases those beyond the arguments.
    No exception is set on return.
    """
    _Guards(module).emit()


class _Guards(DataGuards):
    """Builds `jf_guards`: each method appends the blocks of one kind of guard."""

    def emit(self) -> None:
        f = self.f
        table = address(f, self.entry, EntryField.GUARDS)
        size = f.mul(word(f, self.entry, EntryField.GUARD_COUNT), f.const("i64", layout.GUARD_WORDS * layout.WORD))
        end = f.offset(table, size)
        first = f.add(word(f, self.entry, EntryField.POSITIONAL), word(f, self.entry, EntryField.KEYWORD_COUNT))
        f.label("next")
        f.emit(f"%record = phi ptr [ {table.ref}, %entry ], [ %following, %advance ]")
        f.emit(f"%filled = phi i64 [ {first.ref}, %entry ], [ %filled_next, %advance ]")
        f.cond_br(f.icmp("eq", self.record, end), "passed", "dispatch")
        f.label("dispatch")
        kinds = {
            GuardCode.CONST: self.const, GuardCode.DICT: self.dict_item, GuardCode.ABSENT: self.absent,
            GuardCode.CELL: self.cell, GuardCode.ATTR: self.attribute, GuardCode.KEY: self.item,
            GuardCode.INDEX: self.index,
            GuardCode.TYPE: self.type_, GuardCode.IS: self.identity, GuardCode.EQ: self.equal,
            GuardCode.LEN: self.length,
            GuardCode.FLOAT: self.float_, GuardCode.INT: self.int_, GuardCode.BOOL: self.bool_,
            GuardCode.NPSCALAR: self.numpy_scalar, GuardCode.ARRAY: self.array, GuardCode.DISJOINT: self.disjoint,
            GuardCode.CALL: self.call, GuardCode.SAME: self.same, GuardCode.DISTINCT: self.distinct,
            GuardCode.TENSOR: self.tensor,
            GuardCode.NO_GRAD: self.no_grad,
        }
        self.dispatch(kinds, "failed")
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
        f = self.f
        arguments = f.alloca("ptr", 2)
        f.store(self.source(4), arguments)
        f.store(self.source(5), f.offset(arguments, layout.WORD))
        target = call_object(f, self.address(2), arguments, self.word(3))
        self.require(f.icmp("ne", target, f.null), "raised")
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

    def distinct(self) -> None:
        self.pass_if(self.f.icmp("ne", self.source(1), self.source(2)))

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

"""Emits the functions that make Python objects from a call's memory: arrays, views, scalars, containers.

Owns: `jf_array`, `jf_view`, `jf_owner`, `jf_result`. Does not own when they are called (driver.py) or the
structure of a result (result_tree.py).

A buffer that becomes visible to Python belongs to exactly one ndarray, its owner. It is made when it is first needed
and recorded in the frame. The frame's reference to it is released with the frame, in place of the buffer.
"""
from __future__ import annotations

from collections.abc import Callable

from jitfuse.backends.llvm.runtime import layout
from jitfuse.backends.llvm.runtime.layout import Config, PlanField, ResultCode, SpecField
from jitfuse.backends.llvm.runtime.memory_owner import own
from jitfuse.backends.llvm.runtime.picking import emit_picking
from jitfuse.backends.llvm.runtime.pyobject import (
    I32_ZERO,
    ONE,
    ZERO,
    address,
    call_object,
    config,
    decref,
    decref_range,
    incref,
    item,
    set_item,
    word,
)
from jitfuse.backends.llvm.runtime.record_reader import RecordReader
from jitfuse.backends.llvm.text.builder import Function, Module, Value


def emit_results(module: Module) -> None:
    """Add the functions that this module owns."""
    _emit_array(module)
    _emit_view(module)
    _emit_owner(module)
    emit_picking(module)
    _ResultsBuilder(module).emit()


def output_spec(f: Function, plan: Value, index: Value) -> Value:
    """Return the spec of an output."""
    return item(f, address(f, plan, PlanField.OUTPUT_SPECS), index)


def _return_null_where_null(f: Function, target: Value) -> None:
    with f.if_(f.icmp("eq", target, f.null), likely=False):
        f.ret(f.null)


def _emit_array(module: Module) -> None:
    """``ptr jf_array(ptr descr, i64 ndim, ptr dims, ptr strides, ptr data, i64 flags)``: an array that does not own
    its data, or null with the exception set; strides null for C order.
    """
    parameters = [("descr", "ptr"), ("ndim", "i64"), ("dims", "ptr"), ("strides", "ptr"), ("data", "ptr"),
                  ("flags", "i64")]
    f = module.function("jf_array", "ptr", parameters, internal=True)
    descr, ndim, dims, strides, data, flags = f.args
    incref(f, descr)  # PyArray_NewFromDescr steals the reference, also where it fails
    f.ret(f.call_pointer(
        config(f, Config.NEW_FROM_DESCR), "ptr",
        [config(f, Config.NDARRAY), descr, f.cast("trunc", ndim, "i32"), dims, strides, data,
         f.cast("trunc", flags, "i32"), f.null],
    ))


def _array_of_spec(f: Function, spec: Value, data: Value, flags: Value) -> Value:
    return f.call("jf_array", "ptr", [
        address(f, spec, SpecField.DESCR), word(f, spec, SpecField.NDIM), address(f, spec, SpecField.DIMS),
        address(f, spec, SpecField.STRIDES), data, flags,
    ])


def _emit_view(module: Module) -> None:
    """``ptr jf_view(ptr spec, ptr data, i64 flags, ptr base)``: an array that keeps `base` alive, or null.

    `base` null means that an exception is set.
    """
    parameters = [("spec", "ptr"), ("data", "ptr"), ("flags", "i64"), ("base", "ptr")]
    f = module.function("jf_view", "ptr", parameters, internal=True)
    spec, data, flags, base = f.args
    _return_null_where_null(f, base)
    array = _array_of_spec(f, spec, data, flags)
    _return_null_where_null(f, array)
    incref(f, base)  # PyArray_SetBaseObject steals the reference, also where it fails
    failed = f.call_pointer(config(f, Config.SET_BASE_OBJECT), "i32", [array, base])
    with f.if_(f.icmp("slt", failed, I32_ZERO), likely=False):
        decref(f, array)
        f.ret(f.null)
    f.ret(array)


def _emit_owner(module: Module) -> None:
    """``ptr jf_owner(ptr plan, ptr values, ptr owners, i64 k)``: the array that owns a buffer of the frame.

    `k` 0 is the arena (an array of bytes), k output k - 1. Returns a borrowed reference, or null.
    """
    parameters = [("plan", "ptr"), ("values", "ptr"), ("owners", "ptr"), ("k", "i64")]
    f = module.function("jf_owner", "ptr", parameters, internal=True)
    plan, values, owners, k = f.args
    known = item(f, owners, k)
    with f.if_(f.icmp("ne", known, f.null)):
        f.ret(known)
    flags = f.const("i64", layout.FLAGS_CARRAY)
    f.cond_br(f.icmp("eq", k, ZERO), "arena", "output", likely=False)
    f.label("arena")
    size = f.offset(plan, PlanField.ARENA * layout.WORD)
    bytes_ = f.call("jf_array", "ptr", [
        config(f, Config.BYTE_DESCR), ONE, size, f.null, f.load("ptr", values), flags,
    ])
    f.br("made")
    f.label("output")
    spec = output_spec(f, plan, f.sub(k, ONE))
    output = _array_of_spec(f, spec, item(f, values, word(f, spec, SpecField.VALUE)), flags)
    f.label("made")
    array = f.phi("ptr", [(bytes_, "arena"), (output, "output")])
    _return_null_where_null(f, array)
    own(f, array)
    set_item(f, array, owners, k)
    f.ret(array)


class _ResultsBuilder(RecordReader):
    """Builds `jf_result`: a stack machine over the records of a result table."""

    def __init__(self, module: Module) -> None:
        parameters = [("plan", "ptr"), ("objects", "ptr"), ("values", "ptr"), ("owners", "ptr"),
                      ("stack", "ptr"), ("table", "ptr"), ("count", "i64")]
        super().__init__(module.function("jf_result", "ptr", parameters, internal=True))
        self.plan, self.objects, self.values, self.owners, self.stack, self.table, self.count = self.f.args
        self.height = Value("%height", "i64")
        self.made: list[tuple[Value, Value, str]] = []
        self.failed: list[tuple[Value, str]] = []

    def emit(self) -> None:
        """``ptr jf_result(ptr plan, ptr objects, ptr values, ptr owners, ptr stack, ptr table, i64 count)``:
        the object that the table describes, or null with the exception set.
        """
        f = self.f
        record_bytes = layout.RESULT_WORDS * layout.WORD
        end = f.offset(self.table, f.mul(self.count, f.const("i64", record_bytes)))
        f.label("next")
        f.emit(f"%record = phi ptr [ {self.table.ref}, %entry ], [ %following, %push ]")
        f.emit("%height = phi i64 [ 0, %entry ], [ %taller, %push ]")
        f.cond_br(f.icmp("eq", self.record, end), "done", "dispatch")
        f.label("dispatch")
        kinds: dict[int, Callable[[], None]] = {
            ResultCode.ARRAY: self.array, ResultCode.SCALAR: self.scalar, ResultCode.SLOT: self.slot,
            ResultCode.OBJECT: self.object_, ResultCode.VIEW: self.view, ResultCode.TUPLE: self.tuple_,
            ResultCode.LIST: self.list_, ResultCode.DICT: self.dict_, ResultCode.CALL: self.call,
            ResultCode.APPLY: self.apply,
            ResultCode.PICK: self.pick,
        }
        self.dispatch(kinds, "invalid")
        f.label("push")
        target = f.phi("ptr", [(x, block) for x, _, block in self.made])
        height = f.phi("i64", [(h, block) for _, h, block in self.made])
        set_item(f, target, self.stack, height)
        f.emit(f"%taller = add i64 {height.ref}, 1")
        f.emit(f"%following = getelementptr i8, ptr %record, i64 {record_bytes}")
        f.br("next")
        f.label("failed")
        left = f.phi("i64", self.failed)
        decref_range(f, self.stack, ZERO, left)
        f.ret(f.null)
        f.label("invalid")
        f.unreachable()
        f.label("done")
        f.ret(f.load("ptr", self.stack))

    # ------------------------------------------------------------------ parts
    def push(self, target: Value, height: Value) -> None:
        """Push a new reference on top of the first `height` objects."""
        self.made.append((target, height, self.f.block))
        self.f.br("push")

    def fail_where_null(self, target: Value, height: Value) -> None:
        """Release the first `height` objects and return null where `target` is null."""
        f = self.f
        good = f.fresh("good")
        self.failed.append((height, f.block))
        f.cond_br(f.icmp("ne", target, f.null), good, "failed", likely=True)
        f.label(good)

    def operands(self) -> tuple[Value, Value, Value]:
        """Return the number of topmost objects that a record takes, where they start, the height below."""
        n = self.word(1)
        rest = self.f.sub(self.height, n)
        return n, self.f.offset(self.stack, rest, "ptr"), rest

    def move(self, source: Value, target: Value, count: Value) -> None:
        """Copy `count` references."""
        with self.f.loop(ZERO, count) as loop:
            set_item(self.f, item(self.f, source, loop.index), target, loop.index)

    # ------------------------------------------------------------------ leaves
    def array(self) -> None:
        f = self.f
        owner = f.call("jf_owner", "ptr", [self.plan, self.values, self.owners, f.add(self.word(1), ONE)])
        self.fail_where_null(owner, self.height)
        incref(f, owner)
        self.push(owner, self.height)

    def scalar(self) -> None:
        f = self.f
        data = f.offset(item(f, self.values, self.word(1)), self.word(2))
        descr = self.address(3)
        scalar = f.call_pointer(config(f, Config.SCALAR), "ptr", [data, descr, f.null])
        self.fail_where_null(scalar, self.height)
        self.push(scalar, self.height)

    def slot(self) -> None:
        target = item(self.f, self.objects, self.word(1))
        incref(self.f, target)
        self.push(target, self.height)

    def object_(self) -> None:
        target = self.address(1)
        incref(self.f, target)
        self.push(target, self.height)

    def view(self) -> None:
        f = self.f
        base, spec = item(f, self.objects, self.word(1)), self.address(2)
        data = f.offset(f.field("ptr", base, layout.ARRAY_DATA), self.word(3))
        flags = f.cast("zext", f.field("i32", base, layout.ARRAY_FLAGS), "i64")
        allowed = f.or_(flags, f.const("i64", ~layout.FLAG_WRITEABLE))
        view = f.call("jf_view", "ptr", [spec, data, f.and_(word(f, spec, SpecField.FLAGS), allowed), base])
        self.fail_where_null(view, self.height)
        self.push(view, self.height)

    # ------------------------------------------------------------------ containers
    def tuple_(self) -> None:
        n, items, rest = self.operands()
        target = self.f.call("PyTuple_New", "ptr", [n])
        self.fail_where_null(target, self.height)
        self.move(items, self.f.offset(target, layout.TUPLE_ITEMS), n)
        self.push(target, rest)

    def new_list(self, n: Value, items: Value) -> Value:
        target = self.f.call("PyList_New", "ptr", [n])
        self.fail_where_null(target, self.height)
        self.move(items, self.f.field("ptr", target, layout.LIST_ITEMS), n)
        return target

    def list_(self) -> None:
        n, items, rest = self.operands()
        self.push(self.new_list(n, items), rest)

    def dict_(self) -> None:
        f = self.f
        n, items, rest = self.operands()
        keys = self.address(2)
        target = f.call("PyDict_New", "ptr", [])
        self.fail_where_null(target, self.height)
        with f.loop(ZERO, n) as loop:
            failed = f.call(
                "PyDict_SetItem", "i32", [target, item(f, keys, loop.index), item(f, items, loop.index)]
            )
            with f.if_(f.icmp("slt", failed, I32_ZERO), likely=False):
                decref(f, target)
                self.failed.append((self.height, f.block))
                f.br("failed")
        decref_range(f, items, ZERO, n)
        self.push(target, rest)

    def apply(self) -> None:
        f = self.f
        below = f.sub(self.height, ONE)
        argument = item(f, self.stack, below)
        target = f.call("PyObject_CallOneArg", "ptr", [self.address(1), argument])
        decref(f, argument)
        self.fail_where_null(target, below)
        self.push(target, below)

    def pick(self) -> None:
        f = self.f
        below = f.sub(self.height, f.const("i64", 2))
        operands = f.offset(self.stack, below, "ptr")
        whole, mask = item(f, operands, ZERO), item(f, operands, ONE)
        target = f.call("jf_pick", "ptr", [whole, mask, self.word(1), self.word(2), self.address(3)])
        decref(f, whole)
        decref(f, mask)
        self.fail_where_null(target, below)
        self.push(target, below)

    def call(self) -> None:
        f = self.f
        n, items, rest = self.operands()
        arguments = self.new_list(n, items)
        argument = f.alloca("ptr")
        f.store(arguments, argument)
        target = call_object(f, self.address(2), argument, ONE)
        decref(f, arguments)
        self.fail_where_null(target, rest)
        self.push(target, rest)

"""Emits the operations on Python objects that all parts of the native call path share.

Owns: reference counts, types, the runtime's configuration words, and the few CPython idioms that several
parts share. Does not own control flow of the call path.
"""
from __future__ import annotations

from jitfuse.backends.llvm.runtime import layout
from jitfuse.backends.llvm.runtime.layout import Config
from jitfuse.backends.llvm.text.builder import Function, Module, Value

ZERO, ONE = Value("0", "i64"), Value("1", "i64")
I32_ZERO = Value("0", "i32")
_CONFIG = Value("@jf_config", "ptr")
CONFIG_WORDS = Config.ERROR_STATE + 1


def emit_configure(module: Module) -> None:
    """Add ``void jf_configure(ptr words)``: copies the block made by `words.configuration`.

    It must be called before any other function of the runtime, once for each process and loaded runtime.
    """
    module.global_("jf_config", f"internal global [{CONFIG_WORDS} x ptr] zeroinitializer, align 64")
    f = module.function("jf_configure", "void", [("words", "ptr")])
    with f.loop(ZERO, f.const("i64", CONFIG_WORDS)) as loop:
        f.store(f.load("ptr", f.offset(f.args[0], loop.index, "ptr")), f.offset(_CONFIG, loop.index, "ptr"))
    f.ret()


def config(f: Function, index: int) -> Value:
    """Load an address of the runtime's configuration."""
    return f.field("ptr", _CONFIG, index * layout.WORD)


def word(f: Function, table: Value, index: int) -> Value:
    """Load a 64-bit word of a table."""
    return f.field("i64", table, index * layout.WORD)


def address(f: Function, table: Value, index: int) -> Value:
    """Load a word of a table that is an address."""
    return f.field("ptr", table, index * layout.WORD)


def item(f: Function, table: Value, index: Value) -> Value:
    """Load an address at a position known at run time."""
    return f.load("ptr", f.offset(table, index, "ptr"))


def set_item(f: Function, x: Value, table: Value, index: Value) -> None:
    """Store an address or word at a position known at run time."""
    f.store(x, f.offset(table, index, "ptr"))


def add_to_word(f: Function, table: Value, index: int, by: int) -> None:
    """Add to a word of a table; the caller holds the GIL."""
    address = f.offset(table, index * layout.WORD)
    f.store(f.add(f.load("i64", address), f.const("i64", by)), address)


def incref(f: Function, target: Value) -> None:
    """Take a reference to an object that is not null."""
    if layout.IMMORTAL_OBJECTS:
        f.call("Py_IncRef", "void", [target])
    else:
        f.store(f.add(f.load("i64", target), ONE), target)


def decref(f: Function, target: Value) -> None:
    """Release a reference to an object that is not null; may run any Python code."""
    if layout.IMMORTAL_OBJECTS:
        f.call("Py_DecRef", "void", [target])
        return
    count = f.sub(f.load("i64", target), ONE)
    f.store(count, target)
    with f.if_(f.icmp("eq", count, ZERO)):
        f.call("_Py_Dealloc", "void", [target])


def decref_range(f: Function, table: Value, start: Value, stop: Value) -> None:
    """Release the objects of a table at start <= i < stop."""
    with f.loop(start, stop) as loop:
        decref(f, item(f, table, loop.index))


def type_of(f: Function, target: Value) -> Value:
    """Load an object's type."""
    return f.field("ptr", target, layout.OB_TYPE)


def has_type(f: Function, target: Value, index: int) -> Value:
    """Compare an object's exact type with one of the configured types."""
    return f.icmp("eq", type_of(f, target), config(f, index))


def call_object(f: Function, function: Value, arguments: Value, count: Value) -> Value:
    """Call a Python callable with a table of positional arguments; returns a new reference or null."""
    return f.call("PyObject_Vectorcall", "ptr", [function, arguments, count, f.null])


def equal(f: Function, a: Value, b: Value) -> Value:
    """Return whether two objects are the same or equal; an exception in the comparison counts as unequal."""
    result = f.call("PyObject_RichCompareBool", "i32", [a, b, f.const("i32", layout.PY_EQ)])
    with f.if_(f.icmp("slt", result, I32_ZERO), likely=False):
        f.call("PyErr_Clear", "void", [])
    return f.icmp("eq", result, f.const("i32", 1))

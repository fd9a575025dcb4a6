"""Emits masked selection: the elements of an array where a mask holds, for results of data-dependent shape.

Owns: `jf_pick`. No branch depends on an element: each is stored at the next free position, which advances only where
the mask holds. So an irregular mask costs as much as any other. Does not own results (results.py).
"""
from __future__ import annotations

from jitfuse.backends.llvm.runtime import layout
from jitfuse.backends.llvm.runtime.layout import PICKED_SIZES
from jitfuse.backends.llvm.runtime.memory_owner import own
from jitfuse.backends.llvm.runtime.pyobject import ONE, ZERO
from jitfuse.backends.llvm.text.builder import Function, Module, Value

_FEW = 256
"""Below so many elements NumPy takes as long."""
_WORD = 8
_ONES = 0x0101010101010101


def emit_picking(module: Module) -> None:
    """Add ``ptr jf_pick(ptr whole, ptr mask, i64 count, i64 size, ptr descr)``.

    Returns a new array of the elements of `whole` where a mask of the same shape holds; `count` elements of `size`
    bytes. NumPy computes it for strided and small arrays and other element sizes (`size` 0). Returns null with the
    exception set where there is no memory.
    """
    for nbytes in PICKED_SIZES:
        _emit_compress(module, nbytes)
    _emit_count(module)
    parameters = [("whole", "ptr"), ("mask", "ptr"), ("count", "i64"), ("size", "i64"), ("descr", "ptr")]
    f = module.function("jf_pick", "ptr", parameters, internal=True)
    whole, mask, count, size, descr = f.args
    flags = f.and_(f.field("i32", whole, layout.ARRAY_FLAGS), f.field("i32", mask, layout.ARRAY_FLAGS))
    strided = f.icmp("eq", f.and_(flags, f.const("i32", layout.FLAG_C_CONTIGUOUS)), f.const("i32", 0))
    small = f.or_(f.icmp("slt", count, f.const("i64", _FEW)), f.icmp("eq", size, ZERO))
    with f.if_(f.or_(strided, small)):
        f.ret(f.call("PyObject_GetItem", "ptr", [whole, mask]))
    source, holds = (f.field("ptr", x, layout.ARRAY_DATA) for x in (whole, mask))
    extent = f.alloca("i64")
    f.store(f.call("jf_count_true", "i64", [holds, count]), extent)
    room = f.mul(f.load("i64", extent), size)
    data = f.call("jf_alloc", "ptr", [f.add(room, f.const("i64", PICKED_SIZES[-1]))])
    with f.if_(f.icmp("eq", data, f.null), likely=False):
        f.ret(f.call("PyErr_NoMemory", "ptr", []))
    f.switch(size, "made", [(n, f"of{n}") for n in PICKED_SIZES])
    for n in PICKED_SIZES:
        f.label(f"of{n}")
        f.call(f"jf_compress{n}", "void", [data, source, holds, count])
        f.br("made")
    f.label("made")
    carray = f.const("i64", layout.FLAGS_CARRAY)
    array = f.call("jf_array", "ptr", [descr, ONE, extent, f.null, data, carray])
    with f.if_(f.icmp("eq", array, f.null), likely=False):
        f.call("jf_free", "void", [data, room])
        f.ret(f.null)
    own(f, array)
    f.ret(array)


def _emit_count(module: Module) -> None:
    """``i64 jf_count_true(ptr mask, i64 count)``: how many of so many bytes are not zero."""
    f = module.function("jf_count_true", "i64", [("mask", "ptr"), ("count", "i64")], internal=True)
    mask, count = f.args
    module.declare("llvm.ctpop.i64", "i64", ["i64"])
    words = f.lshr(count, f.const("i64", 3))
    with f.loop(ZERO, words) as loop:
        found = loop.carry(ZERO)
        bits = _truths(f, f.load("i64", f.offset(mask, loop.index, "i64")))
        loop.update(0, f.add(found, f.call("llvm.ctpop.i64", "i64", [bits])))
    with f.loop(f.shl(words, f.const("i64", 3)), count) as rest:
        found = rest.carry(loop.result(0))
        rest.update(0, f.add(found, _truth(f, f.offset(mask, rest.index))))
    f.ret(rest.result(0))


def _truths(f: Function, word: Value) -> Value:
    """Return a word with 1 in each byte that is not zero; bools that are views of other dtypes may hold any byte."""
    low = f.const("i64", 0x7F * _ONES)
    carried = f.or_(f.add(f.and_(word, low), low), word)
    return f.and_(f.lshr(carried, f.const("i64", 7)), f.const("i64", _ONES))


def _truth(f: Function, address: Value) -> Value:
    return f.cast("zext", f.icmp("ne", f.load("i8", address), f.const("i8", 0)), "i64")


def _emit_compress(module: Module, size: int) -> None:
    """``void jf_compress8(ptr target, ptr source, ptr mask, i64 count)``: store the elements where the mask holds.

    They become adjacent; the target has room for one more.
    """
    parameters = [("target", "ptr"), ("source", "ptr"), ("mask", "ptr"), ("count", "i64")]
    f = module.function(f"jf_compress{size}", "void", parameters, internal=True)
    target, source, mask, count = f.args
    cursor = f.alloca("ptr")
    f.store(target, cursor)
    words = f.lshr(count, f.const("i64", 3))
    with f.loop(ZERO, words) as loop:
        holds = _truths(f, f.load("i64", f.offset(mask, loop.index, "i64")))
        with f.if_(f.icmp("ne", holds, ZERO)):
            first = f.offset(source, f.mul(loop.index, f.const("i64", _WORD * size)))
            at = f.load("ptr", cursor)
            for k in range(_WORD):
                _copy(f, size, f.offset(first, k * size), at)
                chosen = f.and_(f.lshr(holds, f.const("i64", 8 * k)), ONE)
                at = f.offset(at, f.mul(chosen, f.const("i64", size)))
            f.store(at, cursor)
    with f.loop(f.shl(words, f.const("i64", 3)), count) as rest:
        at = f.load("ptr", cursor)
        _copy(f, size, f.offset(source, f.mul(rest.index, f.const("i64", size))), at)
        chosen = _truth(f, f.offset(mask, rest.index))
        f.store(f.offset(at, f.mul(chosen, f.const("i64", size))), cursor)
    f.ret()


def _copy(f: Function, size: int, source: Value, target: Value) -> None:
    """Copy an element; elements of 16 bytes need not be aligned to 16 bytes."""
    for at in range(0, size, 8):
        type_ = f"i{8 * min(size, 8)}"
        f.store(f.load(type_, f.offset(source, at)), f.offset(target, at))

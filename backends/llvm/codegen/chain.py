"""Chained contractions: a block of rows of the first, then the same rows of the second, which reads them from scratch.

Each form becomes a function of its own. The chained kernel calls both for each unit, and moves the address of the
intermediate value so that its current block lies at the start of scratch. Owns: that loop.
"""
from __future__ import annotations

from jitfuse.backends.llvm.codegen.elements.types import i64
from jitfuse.backends.llvm.codegen.gemm import emit_contraction
from jitfuse.backends.llvm.codegen.gemm_tile import tiles_of
from jitfuse.backends.llvm.jit import KERNEL_ATTRIBUTES, Target
from jitfuse.backends.llvm.text.builder import Function, Module, Value
from jitfuse.ir.kernels.blocking import row_axis
from jitfuse.ir.kernels.form import KernelForm
from jitfuse.ir.kernels.launch_arguments import chained_words


def emit_chain(module: Module, name: str, form: KernelForm, target: Target) -> None:
    """Write a form with a second one after it as a function, as `kernel.emit_kernel` does."""
    second = form.then
    assert second is not None and form.contraction is not None
    parts = form.replace(then=None), second
    for k, part in enumerate(parts):
        emit_contraction(module, f"{name}_{k}", part, target, internal=True)
    f = module.function(
        name, "i64", [("words", "ptr"), ("begin", "i64"), ("end", "i64"), ("scratch", "ptr")],
        attributes=KERNEL_ATTRIBUTES,
    )
    words, begin, end, scratch = f.args
    blocks = _split(f, words, form)
    first = parts[0]
    rows = f.field("i64", blocks[0], 8 * first.words.size(row_axis(first)))
    count = f.field("i64", blocks[0], 8 * first.words.blocks)
    stride = f.field("i64", blocks[0], 8 * first.words.stride(form.link[0], row_axis(first)))
    tile = i64(tiles_of(form.contraction, target).whole.rows)
    block = f.udiv(f.add(rows, f.sub(count, i64(1))), count)
    block = f.mul(f.udiv(f.add(block, f.sub(tile, i64(1))), tile), tile)
    rest = f.offset(scratch, f.field("i64", words, 8 * (form.words.count - 1)))
    with f.loop(begin, end) as loop:
        status = loop.carry(i64(0))
        before = f.mul(f.mul(f.urem(loop.index, count), block), stride)
        address = f.cast("ptrtoint", f.offset(scratch, f.sub(i64(0), before)), "i64")
        for k, block_words in enumerate(blocks):
            f.set_field(address, block_words, 8 * form.link[k])
            following = f.add(loop.index, i64(1))
            code = f.call(f"{name}_{k}", "i64", [block_words, loop.index, following, rest])
            status = f.intrinsic("umax", "i64", status, code)
        loop.update(0, status)
    f.ret(loop.result(0))


def _split(f: Function, words: Value, form: KernelForm) -> tuple[Value, Value]:
    """Copy the kernel arguments to those of both forms, except the addresses of the intermediate value."""
    assert form.then is not None
    parts = form.replace(then=None), form.then
    copies = []
    for part, sources in zip(parts, chained_words(form), strict=True):
        copy = f.alloca("i64", part.words.count)
        for k, source in enumerate(sources):
            if source is not None:
                f.set_field(f.field("i64", words, 8 * source), copy, 8 * k)
        copies.append(copy)
    return copies[0], copies[1]

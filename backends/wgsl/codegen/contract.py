"""Contractions: a sum of products for every grid and inner point, stored in scratch row 0.

Each invocation sums for its own inner points, in order within blocks of `CONTRACTION_BLOCK`, then the blocks in order.
Owns: the loops. Does not own bodies.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jitfuse.backends.wgsl.codegen.body import Numbered, ShaderBody
from jitfuse.backends.wgsl.codegen.operators import UnknownOperatorError, apply, constant
from jitfuse.backends.wgsl.codegen.types import REGISTER
from jitfuse.ir.kernels.stages import Contraction
from jitfuse.ir.kernels.sum_tree import CONTRACTION_BLOCK

_COMBINES: Final = {"sum": "add"}


def emit_contraction(
    body: ShaderBody, instructions: Numbered, contraction: Contraction, enter: Callable[[str], None], loop: str
) -> None:
    """Write the contraction of one grid point; `loop` is the head of a loop over inner points by ``element``."""
    text, dtype = body.text, contraction.dtype
    type_ = REGISTER[dtype]
    if contraction.combine not in _COMBINES:
        raise UnknownOperatorError(f"a contraction that combines by {contraction.combine} has no WGSL version")
    combine = _COMBINES[contraction.combine]
    total, part, block, k, count = (text.fresh(n) for n in ("total", "part", "block", "k", "count"))
    text.line(f"let {count} = {_product(body)};")
    with text.block(loop):
        enter("element")
        text.line(f"var {total}: {type_} = {constant(0, type_)};")
        with text.block(f"for (var {block} = 0u; {block} < {count}; {block} += {CONTRACTION_BLOCK}u)"):
            text.line(f"var {part}: {type_} = {constant(0, type_)};")
            stop = f"min({block} + {CONTRACTION_BLOCK}u, {count})"
            with text.block(f"for (var {k} = {block}; {k} < {stop}; {k}++)"):
                _enter_contracted(body, k)
                body.run(instructions)
                left, right = body.value(contraction.left, type_), body.value(contraction.right, type_)
                one = apply(contraction.multiply, dtype, type_, [left, right])
                text.line(f"{part} = {apply(combine, dtype, type_, [part, one])};")
            text.line(f"{total} = {apply(combine, dtype, type_, [total, part])};")
        text.line(f"{body.slot(0)} = {total};")
    for axis in _contracted_axes(body):
        del body.positions[axis]


def _contracted_axes(body: ShaderBody) -> range:
    form = body.form
    return range(len(form.axes) - len(form.contracted), len(form.axes))


def _product(body: ShaderBody) -> str:
    return " * ".join(body.words.extent(axis) for axis in _contracted_axes(body))


def _enter_contracted(body: ShaderBody, element: str) -> None:
    """Set the positions along the contracted axes, the last one the fastest."""
    axes = _contracted_axes(body)
    rest = element
    for axis in reversed(axes):
        if axis == axes[0]:
            body.positions[axis] = rest
            continue
        extent = body.words.extent(axis)
        name, following = body.text.fresh("c"), body.text.fresh("rest")
        body.text.line(f"let {name} = {rest} % {extent};")
        body.text.line(f"let {following} = {rest} / {extent};")
        body.positions[axis] = name
        rest = following

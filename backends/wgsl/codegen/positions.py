"""Reductions that find a position: argmin and argmax, by one invocation or by a workgroup.

Pairs of an element and its position combine in any order: NaN wins over numbers, the extreme element over others, the
smaller position among equals. Owns: these loops, for whole reductions only.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jitfuse.backends.wgsl.codegen.body import Numbered
from jitfuse.backends.wgsl.codegen.operators import UnknownOperatorError, constant
from jitfuse.backends.wgsl.codegen.types import FLOATS, REGISTER
from jitfuse.ir.kernels.stages import Reduction

if TYPE_CHECKING:
    from jitfuse.backends.wgsl.codegen.reduce import Reducer

_NOWHERE: Final = "0xffffffffu"


class Position:
    """One element and its position under reduction."""

    def __init__(self, number: int, value: int, reduction: Reduction) -> None:
        if reduction.phase != "whole":
            raise UnknownOperatorError(f"{reduction.combine} in parts has no WGSL version")
        self.number, self.value = number, value
        self.type = REGISTER[reduction.dtype]
        self.smallest = reduction.combine == "argmin"

    def wins(self, x: str, px: str, y: str, py: str) -> str:
        """Return whether the pair (y, py) replaces (x, px)."""
        a, b = (y, x) if self.smallest else (x, y)
        if self.type in FLOATS:
            s = "" if self.type == "f32" else "_64"
            better = f"jf_less{s}({a}, {b}) || (jf_is_nan{s}({y}) && !jf_is_nan{s}({x}))"
            equal = f"(jf_equal{s}({x}, {y}) || (jf_is_nan{s}({x}) && jf_is_nan{s}({y})))"
        elif self.type == "bool":
            better, equal = f"(!{a} && {b})", f"({x} == {y})"
        else:
            better, equal = f"{a} < {b}", f"({x} == {y})"
        return f"{py} != {_NOWHERE} && ({px} == {_NOWHERE} || {better} || ({equal} && {py} < {px}))"


def positions(number: int, reduction: Reduction) -> list[Position]:
    """Return the positions under reduction, one for each operand."""
    return [Position(number + k, v, reduction) for k, v in enumerate(reduction.values)]


def find(reducer: Reducer, instructions: Numbered, p: Position, head: str, at: str, *, effects: bool) -> None:
    """Find a position; `head` is the head of the loop over this invocation's elements, counted by `at`."""
    body, text = reducer.body, reducer.text
    best, position = text.fresh("best"), text.fresh("place")
    text.line(f"var {best}: {p.type} = {constant(0, p.type)};")
    text.line(f"var {position} = {_NOWHERE};")
    with text.block(head):
        reducer.enter(at)
        body.run(instructions, effects=effects)
        x = body.value(p.value, p.type)
        with text.block(f"if ({p.wins(best, position, x, at)})"):
            text.line(f"{best} = {x};")
            text.line(f"{position} = {at};")
    if reducer.in_group:
        position = _folded(reducer, p, best, position)
    name = text.fresh(f"v{p.number}")
    type_ = body.types[p.number]
    text.line(f"let {name} = {type_}({position});")
    body.define(p.number, name)


def _folded(reducer: Reducer, p: Position, best: str, position: str) -> str:
    """Combine the pairs of the invocations of a workgroup, by halves; returns the position."""
    text = reducer.text
    shared_type = "u32" if p.type == "bool" else p.type
    values, positions = f"shared_{shared_type}", "shared_places"
    own = f"select(0u, 1u, {best})" if p.type == "bool" else best
    text.line(f"{values}[local] = {own};")
    text.line(f"{positions}[local] = {position};")
    half = reducer.group // 2
    while half:
        text.line("workgroupBarrier();")
        other = f"{values}[local + {half}u]"
        y = f"({other} != 0u)" if p.type == "bool" else other
        with text.block(f"if (local < {half}u)"):
            condition = p.wins(best, position, y, f"{positions}[local + {half}u]")
            with text.block(f"if ({condition})"):
                text.line(f"{best} = {y};")
                text.line(f"{position} = {positions}[local + {half}u];")
                text.line(f"{values}[local] = {other};")
                text.line(f"{positions}[local] = {position};")
        half //= 2
    text.line("workgroupBarrier();")
    found = text.fresh("found")
    text.line(f"let {found} = {positions}[0];")
    text.line("workgroupBarrier();")
    return found

"""Pads: stack memory that holds the last, partial group of vectors of a block as if it were a whole one.

A loop over whole groups then serves it too. Owns: that memory, and the copies to it and back. Does not own the
loop (`jitfuse.backends.llvm.codegen.columns`).
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence

from jitfuse.backends.llvm.codegen.body import KernelBody
from jitfuse.backends.llvm.codegen.cells import spread
from jitfuse.backends.llvm.codegen.elements.types import MEMORY, cell_type, i64
from jitfuse.backends.llvm.codegen.frame import Address, VectorGroup
from jitfuse.backends.llvm.text.builder import Value
from jitfuse.ir.kernels.values import access

_LINE = 64


class Pads:
    """A pad for each operand that is adjacent along the lanes, for positions of one unit from `first` on."""

    def __init__(self, body: KernelBody, unit: VectorGroup, first: Value, masks: Sequence[Value]) -> None:
        """Reserve the pads; `masks` are the lanes of each vector that exist."""
        self._body, self._unit, self._first, self._masks = body, unit, first, masks
        form = body.analysis.form
        moves = [i for _, instructions, _ in form.numbered for _, i in instructions if i.op in ("load", "store")]
        self._operands = {o: p for o, p in enumerate(form.operands) if p.strides[form.lane_axis] == "1"}
        self._read, self._written = (
            sorted({access(i).operand for i in moves if i.op == op} & self._operands.keys()) for op in ("load", "store")
        )
        count = len(masks) * body.lanes
        self._at = {o: body.f.alloca(MEMORY[p.dtype], count * p.cell, _LINE) for o, p in self._operands.items()}

    def fill(self, position: Value) -> None:
        """Copy the operands that are read, from position `position` on, to the pads; 0 in missing lanes."""
        memory = self._body.memory
        for o in self._read:
            dtype = self._operands[o].dtype
            x = memory.load_each(dtype, self._address(o, position), self._masks)
            memory.store_lanes(x, dtype, self._at[o])

    def deliver(self, position: Value) -> None:
        """Copy the written pads to the operands, from position `position` on."""
        memory = self._body.memory
        for o in self._written:
            dtype, masks = self._operands[o].dtype, spread(memory, self._masks, self._operands[o].cell)
            x = memory.load_lanes(dtype, self._at[o], len(masks))
            memory.store_each(x, dtype, self._address(o, position), masks)

    def pointers(self, whole: Value) -> Mapping[int, Value]:
        """Return the operands' addresses at position 0: their own if `whole`, else such that pads are at `first`."""
        f, back = self._body.f, self._body.f.sub(i64(0), self._first)
        chosen = dict(self._unit.pointers)
        for o, pad in self._at.items():
            type_ = cell_type(self._operands[o].dtype, self._operands[o].cell)
            chosen[o] = f.select(whole, chosen[o], f.offset(pad, back, type_))
        return chosen

    def _address(self, operand: int, position: Value) -> Address:
        launch = self._body.launch
        return Address("next", launch.moved(self._unit.pointers[operand], operand, launch.form.lane_axis, position))

"""Where the last, partial group of vectors of a block lies: in memory of the kernel's own, as if it were a whole one.

A loop over whole groups then serves it too. Owns that memory, and the way of elements to it and back. Does not own the
loop (`jitfuse.backends.llvm.codegen.columns`).
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence

from jitfuse.backends.llvm.codegen.body import KernelBody
from jitfuse.backends.llvm.codegen.elements.types import MEMORY, i64
from jitfuse.backends.llvm.codegen.frame import Address, VectorGroup
from jitfuse.backends.llvm.text.builder import Value
from jitfuse.ir.kernels.values import access

_LINE = 64


class Pads:
    """A group of vectors of each operand that lies along the lanes of one unit, for positions from `first` on."""

    def __init__(self, body: KernelBody, unit: VectorGroup, first: Value, masks: Sequence[Value]) -> None:
        """Take the lanes, of as many vectors as there are masks, that are there at all."""
        self._body, self._unit, self._first, self._masks = body, unit, first, masks
        form = body.analysis.form
        moves = [i for _, instructions, _ in form.numbered for _, i in instructions if i.op in ("load", "store")]
        self._dtypes = {o: p.dtype for o, p in enumerate(form.operands) if p.strides[form.lane_axis] == "1"}
        self._read, self._written = (
            sorted({access(i).operand for i in moves if i.op == op} & self._dtypes.keys()) for op in ("load", "store")
        )
        count = len(masks) * body.lanes
        self._at = {o: body.f.alloca(MEMORY[dtype], count, _LINE) for o, dtype in self._dtypes.items()}

    def fill(self, place: Value) -> None:
        """Copy what is read from position `place` on, and 0 in lanes that are not there."""
        memory = self._body.memory
        for o in self._read:
            x = memory.load_each(self._dtypes[o], self._address(o, place), self._masks)
            memory.store_lanes(x, self._dtypes[o], self._at[o])

    def deliver(self, place: Value) -> None:
        """Copy what has been written to position `place` on."""
        memory = self._body.memory
        for o in self._written:
            x = memory.load_lanes(self._dtypes[o], self._at[o], len(self._masks))
            memory.store_each(x, self._dtypes[o], self._address(o, place), self._masks)

    def pointers(self, whole: Value) -> Mapping[int, Value]:
        """Return the operands' addresses at position 0: their own where `whole` holds, else such that the pads are at
        `first`.
        """
        f, back = self._body.f, self._body.f.sub(i64(0), self._first)
        chosen = dict(self._unit.pointers)
        for o, pad in self._at.items():
            chosen[o] = f.select(whole, chosen[o], f.offset(pad, back, MEMORY[self._dtypes[o]]))
        return chosen

    def _address(self, operand: int, place: Value) -> Address:
        launch = self._body.launch
        return Address("next", launch.moved(self._unit.pointers[operand], operand, launch.form.lane_axis, place))

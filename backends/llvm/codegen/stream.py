"""Outputs that bypass the caches: which stores of a launch are non-temporal.

Owns: the decision at run time, for each unit. The body of a kernel is emitted once; only its stores have two
variants, behind a well-predicted branch.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence

from jitfuse.backends.llvm.codegen.analysis import Analysis
from jitfuse.backends.llvm.codegen.elements.types import ITEMSIZE, cell_type, i64
from jitfuse.backends.llvm.text.builder import Function, Value
from jitfuse.ir.kernels.values import access

LINE = 64
"""Bytes of a cache line, the alignment of non-temporal stores."""


def streamed(analysis: Analysis) -> tuple[int, ...]:
    """Return the outputs that are adjacent along the lanes and written once, in that order, as a whole."""
    form = analysis.form
    if len(analysis.varying) != 1 or (analysis.lanes_on_grid and form.inner):
        return ()
    stores = [access(i) for s in form.stages for i in s.body if i.op == "store"]
    return tuple(
        o for o, operand in enumerate(form.operands)
        if operand.strides[form.lane_axis] == "1"
        and [(a.offset, a.mask) for a in stores if a.operand == o] == [(False, False)]
    )


class Streams:
    """The streamed outputs of a kernel; without any, no code is emitted."""

    def __init__(self, f: Function, analysis: Analysis, flag: Value) -> None:
        """Take the launch's flag: whether its outputs are too large for the caches."""
        self._f = f
        self._flag = flag
        outputs = {o: analysis.form.operands[o] for o in streamed(analysis)}
        self._types = {o: cell_type(operand.dtype, operand.cell) for o, operand in outputs.items()}

    def of_unit(self, pointers: Sequence[Value], first: Value) -> Mapping[int, Value]:
        """Return for each streamed output whether to bypass the caches.

        The launch must ask for it, and the unit's first element, at position `first` along the lanes, must begin a
        cache line.
        """
        f = self._f
        result = {}
        for o, type_ in self._types.items():
            address = f.cast("ptrtoint", f.offset(pointers[o], first, type_), "i64")
            aligned = f.icmp("eq", f.and_(address, i64(LINE - 1)), i64(0))
            result[o] = f.and_(self._flag, aligned)
        return result

    def finish(self) -> None:
        """Order the non-temporal stores before whatever the caller does next."""
        if self._types:
            with self._f.if_(self._flag):
                self._f.emit("fence seq_cst")


def alignment(dtype: str, lanes: int) -> int:
    """Return the alignment of vectors in a row that starts at a cache line."""
    return min(LINE, ITEMSIZE[dtype] * lanes)

"""Scans: each element combined with all before it along the inner axes.

Owns: the running value of a scan, which lies in stack memory between iterations of its stage's loops, and the scan of
the lanes of a vector. Does not own those loops; they must visit the inner points in order.

Where lanes lie along the inner axes, sums and products of floats go lane by lane, strictly from left to right.
Scans whose result does not depend on the order go by shifts of 1, 2, 4 ... lanes (Hillis and Steele, "Data parallel
algorithms", 1986).
"""
from __future__ import annotations

from collections.abc import Sequence

from jitfuse.backends.llvm.codegen.combine import identity
from jitfuse.backends.llvm.codegen.elements import elementwise
from jitfuse.backends.llvm.codegen.elements.narrow_floats import ONE, narrowed, widened
from jitfuse.backends.llvm.codegen.elements.types import KIND, REGISTER, SMALLEST, is_tree
from jitfuse.backends.llvm.math.lockstep import Batch, Context
from jitfuse.backends.llvm.text.builder import Value, lanes, vector
from jitfuse.ir.kernels.stages import Instr

_OPERATORS = {"sum": "add", "prod": "multiply", "min": "minimum", "max": "maximum"}


def _nothing(combine: str, dtype: str) -> float | int | bool:
    """Return the initial value of a scan; for 16-bit floats, its bits."""
    if KIND[dtype] == "bits":
        return ONE[dtype] if combine == "prod" else SMALLEST["int16"]  # -0.0
    return identity(combine, dtype)


class Scans:
    """The scans of a kernel. `along`: whether the lanes of a vector follow each other along the inner axes."""

    def __init__(self, context: Context, width: int, along: bool) -> None:
        self._context = context
        self._f = context.f
        self._width = width
        self._along = along
        self._slots: dict[tuple[int, int], Value] = {}

    def begin(self, body: Sequence[tuple[int, Instr]], count: int) -> None:
        """Write the initialisation of a stage's scans, for groups of `count` vectors."""
        for number, instr in body:
            if instr.op == "scan":
                type_ = self._type(instr)
                for k in range(1 if self._along else count):
                    slot = self._slots[number, k] = self._f.alloca(type_, 1, align=64)
                    self._f.store(self._f.const(type_, _nothing(str(instr.imm), instr.dtype)), slot)

    def _type(self, instr: Instr) -> str:
        return REGISTER[instr.dtype] if self._along else vector(REGISTER[instr.dtype], self._width)

    def step(self, number: int, instr: Instr, x: Batch) -> Batch:
        """Return the scan at the elements `x`, which follow those of earlier calls."""
        combine, type_ = str(instr.imm), self._type(instr)
        made: list[Value] = []
        if not self._along:
            for k, v in enumerate(x.values):
                before = self._f.load(type_, self._slots[number, k])
                made.append(self._join(combine, instr.dtype, before, v))
                self._f.store(made[-1], self._slots[number, k])
            return self._context.batch(made)
        before = self._f.load(type_, self._slots[number, 0])
        for v in x.values:
            if is_tree(combine, instr.dtype):
                v, before = self._one_by_one(combine, instr.dtype, before, v)
            else:
                v, before = self._by_shifts(combine, instr.dtype, before, v)
            made.append(v)
        self._f.store(before, self._slots[number, 0])
        return self._context.batch(made)

    def _join(self, combine: str, dtype: str, a: Value, b: Value) -> Value:
        pair = [self._context.batch([a]), self._context.batch([b])]
        if KIND[dtype] == "bits":  # rounded at every element, as NumPy does
            wide = elementwise.apply(_OPERATORS[combine], "float32", [widened(x, dtype) for x in pair])
            return narrowed(wide, dtype).values[0]
        return elementwise.apply(_OPERATORS[combine], dtype, pair).values[0]

    def _one_by_one(self, combine: str, dtype: str, before: Value, v: Value) -> tuple[Value, Value]:
        if lanes(v.type) == 1:
            before = self._join(combine, dtype, before, v)
            return before, before
        result = self._f.undef(v.type)
        for lane in range(lanes(v.type)):
            before = self._join(combine, dtype, before, self._f.extract(v, lane))
            result = self._f.insert(result, before, lane)
        return result, before

    def _by_shifts(self, combine: str, dtype: str, before: Value, v: Value) -> tuple[Value, Value]:
        width = lanes(v.type)
        if width == 1:
            before = self._join(combine, dtype, before, v)
            return before, before
        nothing = self._f.const(v.type, _nothing(combine, dtype))
        shift = 1
        while shift < width:
            moved = self._f.shuffle(nothing, v, [*range(shift), *range(width, 2 * width - shift)])
            v = self._join(combine, dtype, moved, v)
            shift *= 2
        v = self._join(combine, dtype, self._f.splat(before, width), v)
        return v, self._f.extract(v, width - 1)

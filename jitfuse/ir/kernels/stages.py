"""What a kernel does: instructions, reductions, a contraction, and the stages that hold them.

Instructions (`op`, `dtype` of the result, `args` value numbers, `imm`):
  param k        the k-th scalar parameter
  const v        a literal that the form specialises on: -1, 0, 1, 2, static exponents and shift counts
  index axis     int64 position along an axis (grid axes first, then inner axes)
  load (operand, offset?, mask?)   args: a byte offset to add to the affine address (int64) if `offset`, then a bool
                 if `mask`: lanes that are off touch no memory and give 0
  store (operand, offset?, mask?)  args: the value, then the same; makes no usable value
  keep k / kept k   store an inner value in scratch row k for later stages / load it at the same point
  random         args (seed, counter, call index, element) int64: Philox-4x32-10 in [0, 1), see the reference
  scan combine   in scan stages: the argument from the first inner point up to this one, combined by sum, prod, min or
                 max; strictly from left to right, the earlier part on the left, the first element unchanged. min and
                 max give the first NaN from its position on, and of equal elements the later one
  require status args (value, bool): the value; if the bool is off at some point, the kernel returns the status
                 (`jitfuse.ir.statuses`) and its outputs are meaningless
  bounded k      args (index, extent, mask?): an int64 index, negative ones counted from the end of the extent; out of
                 the extent, the launch's status says so (`jitfuse.ir.statuses`) and the index is 0; k numbers
                 the checks of a form
  astype         cast of its one argument
  any elementwise operator of the op table, all operands already in the loop's dtypes
Values are real. A complex operand holds pairs (real, imaginary). A load of it has a fourth immediate, 0 or 1, for the
component that it gives in the component's dtype; a store to it takes two values in place of one. A store to an operand
with cells takes the values of all elements of a cell, in order.
Reductions run over the inner axes in row-major order, by a tree that depends only on the number of elements: see
`jitfuse.ir.kernels.sum_tree`.

Does not own the index space and the operands (`jitfuse.ir.kernels.form`).
"""
from __future__ import annotations

from typing import Any, Final

from jitfuse.base.records import NamedTuple
from jitfuse.dtypes import itemsize
from jitfuse.ir.kernels.sum_tree import sum_lanes

POSITIONS: Final = ("argmin", "argmax")
"""Reductions that find a position."""


class Instr(NamedTuple):
    """One SSA instruction; see the module's docstring for the operations."""

    op: str
    dtype: str
    args: tuple[int, ...] = ()
    imm: Any = None


class Reduction(NamedTuple):
    """One reduction of a stage: `combine` is sum, prod, min, max, any, all, argmin or argmax over a tuple of values.

    There is one result for each value.

    A product of floats uses the same tree as a sum; missing elements count as 1.0. min and max give NaN if there is
    one, and order -0.0 below 0.0, so that the order of evaluation does not show. argmin and argmax reduce pairs of an
    element and its row-major position among the inner points. Their result is the position (int64) of the first NaN if
    there is one, else of the first of the extreme elements (-0.0 and 0.0 are equal). `dtype` is that of the elements.

    `phase` whole: the result is a point value. partial: the last grid axis counts chunks of the single inner axis, and
    the partial result of a chunk is stored to `store_to`: operands whose address at a grid point is its start. That is
    a row of W = sum_lanes lanes; for argmin and argmax one element and one position. final: the single inner axis
    counts chunks, and their partial results are read from `load_from`; `values` is empty.
    """

    combine: str
    dtype: str
    values: tuple[int, ...]
    phase: str = "whole"
    store_to: tuple[int, ...] = ()
    load_from: tuple[int, ...] = ()

    @property
    def result_dtype(self) -> str:
        """The dtype of each result."""
        return "int64" if self.combine in POSITIONS else self.dtype

    @property
    def partial_rows(self) -> tuple[tuple[str, int], ...]:
        """The partial result of a chunk in memory: (dtype, elements) of each operand."""
        if self.combine in POSITIONS:
            return ((self.dtype, 1), ("int64", 1))
        return ((self.dtype, sum_lanes(itemsize(self.dtype))),)


class Contraction(NamedTuple):
    """A sum of products over the contracted axes, in general `combine` of `multiply`, for all grid and inner points.

    `left` is a value that does not move along the lane axis, `right` one that moves along no other axis of the result.
    Both have `dtype`, in which products are formed and summed. The result is left in scratch row 0. Elements are
    combined in order within blocks of `CONTRACTION_BLOCK`, then the blocks in order. A product and its sum may be
    rounded once (fused multiply-add).
    """

    combine: str
    multiply: str
    dtype: str
    left: int
    right: int


class Stage(NamedTuple):
    """A body, and its reductions or contraction; kind is point, map, reduce, scan or contract."""

    kind: str
    body: tuple[Instr, ...]
    reductions: tuple[Reduction, ...] = ()
    contraction: Contraction | None = None


class NumberedStage(NamedTuple):
    """A stage, its instructions with their numbers, its reductions with the numbers of their first results."""

    stage: Stage
    body: list[tuple[int, Instr]]
    reductions: list[tuple[int, Reduction]]

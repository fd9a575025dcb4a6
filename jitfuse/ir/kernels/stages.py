"""What a kernel does: instructions, reductions, a contraction, and the stages that hold them.

Instructions (`op`, `dtype` of the result, `args` value numbers, `imm`):
  param k        the k-th scalar parameter
  const v        a literal that the form specialises on: -1, 0, 1, 2, static exponents and shift counts
  index axis     int64 position along an axis (grid axes first, then inner axes)
  load (operand, offset?, mask?)   args: byte offset added to the affine address (int64) where offset, then a
                 bool where mask: lanes that are off touch no memory and give 0
  store (operand, offset?, mask?)  args: the value, then the same; makes no usable value
  keep k / kept k   put an inner value into scratch row k for later stages / take it out at the same point
  random         args (seed, counter, call index, element) int64: Philox-4x32-10 in [0, 1), see the reference
  scan combine   in scan stages: the argument at the first inner point up to this one, combined by sum, prod, min or
                 max; strictly from left to right, the older part on the left, the first element as it is. min and
                 max give the first NaN from where it is on, and of equal elements the later one
  require status args (value, bool): the value; where the bool is off at some point, the kernel returns the status
                 (`jitfuse.ir.statuses`) and its outputs mean nothing
  bounded k      args (index, extent, mask?): an int64 index, negative ones counted from the end of the extent; where
                 it leaves the extent the launch's status says so (`jitfuse.ir.statuses`) and the index is 0; k counts
                 the checks of a form
  astype         cast of its one argument
  any elementwise operator of the op table, all operands already in the loop's dtypes
Values are real. A complex operand holds pairs (real, imaginary): a load of it has a fourth immediate, 0 or 1, the
component that it gives in the component's dtype, and a store to it takes two values in place of one.
Reductions are over the inner axes in row-major order, by a tree that depends on the number of elements alone:
see `jitfuse.ir.kernels.sum_tree`.

Does not own the index space and the operands that they work on (`jitfuse.ir.kernels.form`).
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
    """One reduction of a stage: `combine` is sum, prod, min, max, any, all, argmin or argmax; a tuple of values, one
    result each.

    A product of floats is defined by the same tree as a sum, missing elements counting as 1.0. min and max give NaN
    where there is one, and take -0.0 to be below 0.0, so that no order shows. argmin and argmax reduce pairs of an
    element and its row-major position among the inner points; the result is the position (int64) of the first NaN
    where there is one, else of the first of the extreme elements (-0.0 and 0.0 are equal). `dtype` is that of the
    elements.

    `phase` whole: the result is a point value. partial: the last grid axis counts chunks of the single inner
    axis, and what a chunk comes to goes straight to `store_to`: operands whose addresses at a grid point are where
    it begins. That is a row of W = sum_lanes lanes, for argmin and argmax one element and one position. final: the
    single inner axis counts chunks, and the same is read from `load_from`; `values` is empty.
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
        """What a chunk comes to in memory: (dtype, elements) of each operand."""
        if self.combine in POSITIONS:
            return ((self.dtype, 1), ("int64", 1))
        return ((self.dtype, sum_lanes(itemsize(self.dtype))),)


class Contraction(NamedTuple):
    """A sum of products over the contracted axes, in general `combine` of `multiply`, for all grid and inner points.

    `left` is a value that does not move along the lane axis, `right` one that moves along no other axis of the
    result; both have `dtype`, in which products are formed and summed. The result is left in scratch row 0. Elements
    are combined in order within blocks of `CONTRACTION_BLOCK`, then the blocks in order; a product and its sum may be
    rounded once.
    """

    combine: str
    multiply: str
    dtype: str
    left: int
    right: int


class Stage(NamedTuple):
    """A body, and what is reduced or contracted there; kind is point, map, reduce, scan or contract."""

    kind: str
    body: tuple[Instr, ...]
    reductions: tuple[Reduction, ...] = ()
    contraction: Contraction | None = None


class NumberedStage(NamedTuple):
    """A stage, its instructions with their numbers, its reductions with the numbers of their first results."""

    stage: Stage
    body: list[tuple[int, Instr]]
    reductions: list[tuple[int, Reduction]]

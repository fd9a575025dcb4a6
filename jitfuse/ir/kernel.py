"""The kernel form: the only thing that a backend sees.

A kernel runs over independent *grid* axes. At each grid point it carries out a sequence of stages; `map`,
`reduce` and `scan` stages loop over the *inner* axes, which all stages share, `point` stages do not loop. A `scan`
stage holds scans, and reductions too where there are some: its inner points come one after the other, in row-major
order. Bodies are SSA: values are numbered through all stages, each instruction and each reduction result taking the
next number.
A kernel may begin with a `contract` stage: it sweeps *contracted* axes besides, and leaves a sum of products for
every grid and inner point in scratch row 0, from where later stages take it (`kept`).
Sizes, strides and scalar literals are run-time words, so that a form stands for every shape of its class.

Exact sizes never appear: an extent is None (a run-time size) or a static extent from 1 to 4. A stride class
per operand and axis is ``"0"`` (the axis does not move the operand), ``"1"`` (adjacent elements), ``"2"`` to ``"4"``
(that many elements apart, along the lanes of what is read) or ``"n"`` (a run-time stride in bytes). Does not own how
forms are made (`jitfuse.plans`) or run (`jitfuse.backends`).

Words of a launch, 64 bits each, in this order: one address for each operand; the byte strides of every
``"n"`` axis, operand by operand; the extent of every axis of run-time size; the scalar parameters (floats as
their own bits in the low bytes); with a contraction, the number of blocks along its rows and along its lanes
(`jitfuse.ir.blocking`); one word of flags (bit 0: outputs are too large for the caches, store past
them).

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
see `SUM_LANES`.
"""
from __future__ import annotations

from typing import Any, Final, NamedTuple

from jitfuse.digests import hex_digest
from jitfuse.dtypes import itemsize
from jitfuse.lazy import cached_property
from jitfuse.records import Record

FORM_VERSION: Final = 2
MAX_STATIC_EXTENT: Final = 4

SUM_DEPTH: Final = 16
POSITIONS: Final = ("argmin", "argmax")
"""Reductions that find a position."""
CHUNK: Final = 65_536
"""Elements that one partial reduction covers."""
CONTRACTION_BLOCK: Final = 256
"""Products that are summed before they are added to the result."""


def sum_lanes(itemsize: int) -> int:
    """Return W, the number of virtual lanes of a float sum.

    The sum of x[0..n) is defined as follows, whatever the strides, threads or vector width. Blocks of
    ``SUM_DEPTH * W`` elements: lane l of a block adds its elements l, l + W, l + 2W, ... in order. Blocks are
    combined lane by lane as a binary counter does (block k is merged with as many finished groups as k has
    trailing one bits, the older group on the left; at the end the groups left over are folded from the
    youngest to the oldest). Then the lanes are folded in halves: l with l + W/2, and so on to one, and 0.0 is
    added to that: a sum of nothing, or of negative zeros, is 0.0 as in NumPy. Missing elements count as -0.0,
    which changes no bit. Worst-case error as in pairwise summation. A chunk of `CHUNK`
    elements is a whole subtree, so that splitting a reduction into partial ones changes no bit either.
    """
    return 128 // itemsize


class Axis(NamedTuple):
    """One axis of the index space: run-time extent (None) or a static one from 1 to 4."""

    extent: int | None = None


class Operand(NamedTuple):
    """One memory operand: an address, a stride class for every axis (grid, then inner), and its direction."""

    dtype: str
    strides: tuple[str, ...]
    out: bool = False

    def elements_apart(self, axis: int) -> int | None:
        """Return the stride along an axis in elements, None where only a launch knows it."""
        return None if self.strides[axis] == "n" else int(self.strides[axis])


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


class KernelForm(Record, frozen=True, eq=False):
    """A kernel for every shape of its class. `lane_axis` is the axis that vector lanes run along.

    `then`: a second form over the same grid that runs after this one, block of rows by block of rows; what this one
    stores to its operand `link[0]` the second one loads from its operand `link[1]`, and no memory but scratch ever
    holds it. Such a launch has the addresses of all other operands, then the other words of the first form, of the
    second, and the bytes of scratch between them.
    """

    grid: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    lane_axis: int
    operands: tuple[Operand, ...]
    params: tuple[str, ...]
    stages: tuple[Stage, ...]
    keeps: tuple[str, ...] = ()
    contracted: tuple[Axis, ...] = ()
    then: KernelForm | None = None
    link: tuple[int, int] = (0, 0)
    version: int = FORM_VERSION

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Grid axes, then inner axes, then contracted axes."""
        return self.grid + self.inner + self.contracted

    @property
    def contraction(self) -> Contraction | None:
        """The contraction that the kernel begins with, if there is one."""
        return self.stages[0].contraction if self.stages else None

    @cached_property
    def numbered(self) -> tuple[NumberedStage, ...]:
        """The stages with the numbers of their values."""
        number, result = 0, []
        for stage in self.stages:
            body = list(enumerate(stage.body, number))
            number += len(stage.body)
            reductions = []
            for r in stage.reductions:
                reductions.append((number, r))
                number += max(1, len(r.values))
            result.append(NumberedStage(stage, body, reductions))
        return tuple(result)

    @cached_property
    def instructions(self) -> tuple[Instr | Reduction, ...]:
        """What makes each value number: an instruction, or the reduction whose result it is."""
        made: list[Instr | Reduction] = []
        for stage in self.stages:
            made += stage.body
            for r in stage.reductions:
                made += [r] * max(1, len(r.values))
        return tuple(made)

    @cached_property
    def stride_words(self) -> tuple[tuple[int, int], ...]:
        """The (operand, axis) pairs that have a stride word, in word order."""
        return tuple(
            (o, a) for o, operand in enumerate(self.operands) for a, c in enumerate(operand.strides) if c == "n"
        )

    @cached_property
    def size_words(self) -> tuple[int, ...]:
        """The axes that have a size word, in word order."""
        return tuple(a for a, axis in enumerate(self.axes) if axis.extent is None)

    @cached_property
    def chained_words(self) -> tuple[tuple[int | None, ...], tuple[int | None, ...]]:
        """For both forms of a chain, which of the launch's words each of its words is; None for what is linked."""
        assert self.then is not None
        forms = self.replace(then=None), self.then
        following, result = 0, []
        for form, linked in zip(forms, self.link, strict=True):
            places: list[int | None] = [None] * form.word_count
            for k in range(len(form.operands)):
                if k != linked:
                    places[k], following = following, following + 1
            result.append(places)
        for form, places in zip(forms, result, strict=True):
            for k in range(len(form.operands), form.word_count):
                places[k], following = following, following + 1
        return tuple(result[0]), tuple(result[1])

    @property
    def word_count(self) -> int:
        """Number of 64-bit words of a launch."""
        if self.then is not None:
            return self.replace(then=None).word_count + self.then.word_count - 1
        blocks = 2 if self.contracted else 0
        return len(self.operands) + len(self.stride_words) + len(self.size_words) + len(self.params) + blocks + 1

    def stride_word(self, operand: int, axis: int) -> int:
        """Return the word index of a run-time stride."""
        return len(self.operands) + self.stride_words.index((operand, axis))

    def size_word(self, axis: int) -> int:
        """Return the word index of a run-time extent."""
        return len(self.operands) + len(self.stride_words) + self.size_words.index(axis)

    def param_word(self, k: int) -> int:
        """Return the word index of the k-th scalar parameter."""
        return len(self.operands) + len(self.stride_words) + len(self.size_words) + k

    @property
    def blocks_word(self) -> int:
        """Return the word index of the number of blocks along a contraction's rows; that along its lanes follows."""
        return self.word_count - 3

    @property
    def flags_word(self) -> int:
        """Return the word index of the flags."""
        return self.word_count - 1

    @cached_property
    def canonical_bytes(self) -> bytes:
        """The form as canonical text; equal forms give equal bytes in every process."""
        return repr(_plain(self)).encode()

    @cached_property
    def content_hash(self) -> str:
        """The digest of the canonical bytes, in hexadecimal."""
        return hex_digest(self.canonical_bytes)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, KernelForm):
            return NotImplemented
        return self.canonical_bytes == other.canonical_bytes

    def __hash__(self) -> int:
        return hash(self.content_hash)

    def __str__(self) -> str:
        from jitfuse.ir.kernel_text import form_text

        return form_text(self)


def _plain(value: Any) -> Any:
    if isinstance(value, KernelForm):
        return {
            "version": value.version, "grid": _plain(value.grid), "inner": _plain(value.inner),
            "lane_axis": value.lane_axis, "operands": _plain(value.operands), "params": list(value.params),
            "stages": _plain(value.stages), "keeps": list(value.keeps), "contracted": _plain(value.contracted),
            "then": _plain(value.then), "link": list(value.link),
        }
    if isinstance(value, Axis):
        return value.extent
    if isinstance(value, Operand):
        return [value.dtype, "".join(value.strides), value.out]
    if isinstance(value, Instr):
        return [value.op, value.dtype, list(value.args), _plain(value.imm)]
    if isinstance(value, Reduction):
        places = [list(value.store_to), list(value.load_from)]
        return [value.combine, value.dtype, list(value.values), value.phase, *places]
    if isinstance(value, Stage):
        return [value.kind, _plain(value.body), _plain(value.reductions), value.contraction and [*value.contraction]]
    if isinstance(value, float):
        return ["f", value.hex()]
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    return value

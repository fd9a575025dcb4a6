"""Facts about a form that codegen needs before it writes code: where each value is computed, and in which width.

Owns: the scope of values (once per kernel, once per unit, in the loops), whether all lanes share a value, the
number of lanes of a vector, the number of vectors at once. Does not own addresses or code.
"""
from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from jitfuse.backends.llvm.codegen.elements.types import COMPONENT, ITEMSIZE, KIND, is_tree
from jitfuse.base.lazy import cached_property
from jitfuse.base.records import NamedTuple, Record
from jitfuse.ir.kernels.form import KernelForm
from jitfuse.ir.kernels.stages import Instr, Stage
from jitfuse.ir.kernels.values import access, may_report
from jitfuse.ir.operators.op import get

SIMPLE_EXPONENTS: Final = (2, 1, 0, 0.5, -1)
"""Exponents that NumPy treats as other operations when they are scalars."""

ENTRY: Final = 0
UNIT: Final = 1
POINT: Final = 2
"""Different in every lane, where lanes lie on the grid, but equal along the inner axes."""
BODY: Final = 3

_LONG_CHAIN: Final = 24
"""Instructions in a loop body from which on fewer than 16 independent chains do not hide latencies."""
_MAX_TEXT: Final = 6000
"""The most instructions of a loop body, over all vectors at once: more compile too slowly."""
_SHORT_TEXT: Final = 500
"""Instructions below which long operators are interleaved by four rather than two, which takes longer to compile."""
_LONG_TEXT: Final = 50
"""Machine instructions of a long operator, roughly."""
ROW_BYTES: Final = 128
"""Bytes of all the virtual lanes of a float sum: the upper limit of a vector's size."""
_UNROLL_LIMIT: Final = 8
"""The most points of a static inner space whose loop is unrolled."""


class Info(NamedTuple):
    """Where a value is computed, and whether it is the same in every lane."""

    scope: int
    uniform: bool


class Pressure(NamedTuple):
    """The vector instructions of all loop bodies, the most vector values live at once, the long instructions."""

    length: int
    live: int
    long: int


class Analysis(Record, frozen=True, eq=False):
    """Facts about a form."""

    form: KernelForm

    @cached_property
    def lanes_on_grid(self) -> bool:
        """Whether vector lanes run along a grid axis; else along the inner axes in row-major order."""
        return self.form.lane_axis < len(self.form.grid)

    @cached_property
    def inner_axes(self) -> tuple[int, ...]:
        """Numbers of the inner axes."""
        return tuple(range(len(self.form.grid), len(self.form.grid) + len(self.form.inner)))

    @cached_property
    def varying(self) -> frozenset[int]:
        """The axes along which the lanes of a vector lie."""
        return frozenset((self.form.lane_axis,)) if self.lanes_on_grid else frozenset(self.inner_axes)

    @cached_property
    def unrolled(self) -> bool:
        """Whether the inner loops are unrolled: lanes on the grid, and few inner points, in a static number."""
        points = 1
        for axis in self.form.inner:
            points *= axis.extent or _UNROLL_LIMIT + 1
        return self.lanes_on_grid and bool(self.form.inner) and points <= _UNROLL_LIMIT and not self.has_phases

    @cached_property
    def handed_on(self) -> frozenset[int]:
        """The operands that are not loaded, but carried from the previous iteration."""
        sweep = self.form.sweep
        return frozenset() if sweep is None else frozenset((*(read for read, _ in sweep.carried), *sweep.counted))

    @cached_property
    def single(self) -> bool:
        """Whether a unit is one point of values that all lanes share."""
        form = self.form
        return (
            self.lanes_on_grid and form.axes[form.lane_axis].extent == 1 and not form.inner and not form.contracted
            and all(info.uniform for info in self.info)
        )

    @cached_property
    def has_phases(self) -> bool:
        """Whether some reduction is partial or final."""
        return any(r.phase != "whole" for s in self.form.stages for r in s.reductions)

    @cached_property
    def partial(self) -> bool:
        """Whether the last grid axis counts chunks of the inner axis."""
        return any(r.phase == "partial" for s in self.form.stages for r in s.reductions)

    @cached_property
    def loops_inside(self) -> bool:
        """Whether lanes lie on the grid and each lane runs through a loop over inner axes."""
        return self.lanes_on_grid and bool(self.form.inner) and not self.unrolled

    # ------------------------------------------------------------------ scopes
    @cached_property
    def info(self) -> list[Info]:
        """Scope and uniformity of every value."""
        result: list[Info] = []
        point = Info(POINT, False) if self.lanes_on_grid else Info(UNIT, True)
        for stage, body, reductions in self.form.numbered:
            for _, instr in body:
                result.append(self._info(instr, stage, result))
            for _, r in reductions:
                result += [point] * max(1, len(r.values))
        return result

    def _info(self, instr: Instr, stage: Stage, known: list[Info]) -> Info:
        args = [known[a] for a in instr.args]
        scope = max((a.scope for a in args), default=ENTRY)
        uniform = all(a.uniform for a in args)
        if instr.op in ("keep", "kept", "scan"):
            return Info(BODY, False)
        if instr.op == "index":
            moved = {int(instr.imm)}
        elif instr.op in ("load", "store"):
            classes = self.form.operands[access(instr).operand].strides
            moved = {axis for axis, c in enumerate(classes) if c != "0"}
            if instr.op == "load" and access(instr).operand in self.handed_on:
                moved.add(0)
        else:
            return Info(scope, uniform)
        shared = uniform and not moved & self.varying
        if instr.op == "store":
            once = stage.kind == "point" or not self.form.inner
            return Info((POINT if self.lanes_on_grid else UNIT) if once else BODY, shared)
        if moved & set(self.inner_axes):
            scope = BODY
        elif moved & self.varying:
            scope = max(scope, POINT)
        elif moved:
            scope = max(scope, UNIT)
        return Info(scope, shared)

    @cached_property
    def splatted(self) -> frozenset[int]:
        """Numbers of the values that are computed outside the loops and read by vector instructions inside."""
        used: set[int] = set()
        for _, body, reductions in self.form.numbered:
            for number, instr in body:
                if self.in_lanes(number) or instr.op == "store":
                    used.update(instr.args)
            for _, r in reductions:
                used.update(r.values)
        return frozenset(n for n in used if self.info[n].uniform and self.info[n].scope < POINT)

    def in_lanes(self, number: int) -> bool:
        """Return whether a value is computed in vectors."""
        return self.info[number].scope >= POINT and not self.info[number].uniform

    # ------------------------------------------------------------------ widths
    def lanes(self, vector_bytes: int) -> int:
        """Return the number of lanes of a vector: as many as fill one register with the narrowest dtype.

        The widest dtype must not take more than `ROW_BYTES`; wider values take several registers. Bools are masks,
        and count only where there is no other dtype. Elements that are not adjacent are moved one by one: more lanes
        than a register has of 32 bits would lengthen the code without gain.
        """
        sizes = self._sizes
        narrowest = max(min(sizes, default=1), 4 if self._has_distances else 1)
        return min(vector_bytes // narrowest, ROW_BYTES // max(sizes, default=1))

    @cached_property
    def _has_distances(self) -> bool:
        """Whether some elements of one vector are not adjacent in memory."""
        moves = [i for _, body, _ in self.form.numbered for _, i in body if i.op in ("load", "store")]
        return any(
            access(i).offset
            or any(self.form.operands[access(i).operand].strides[a] not in ("0", "1") for a in self.varying)
            for i in moves
        )

    @cached_property
    def _sizes(self) -> list[int]:
        """Bytes of every dtype in which vectors are loaded, computed, reduced or stored, except bool."""
        dtypes = [COMPONENT.get(o.dtype, o.dtype) for o in self.form.operands]
        for _, body, reductions in self.form.numbered:
            dtypes += [i.dtype for n, i in body if not self.info[n].uniform and i.op not in ("index", "store")]
            dtypes += [d for _, r in reductions for d in (r.dtype, r.result_dtype)]
        return [ITEMSIZE[d] for d in dtypes if d != "bool"]

    def vectors(self, vector_bytes: int, loop: Sequence[tuple[int, Instr]] | None = None) -> int:
        """Return how many vectors to work on at once, a power of two: enough to hide latencies, few enough
        to stay in registers and to keep the text short.

        `loop`: the instructions of a stage that has a loop of its own.
        """
        lanes = self.lanes(vector_bytes)
        registers = 32 if vector_bytes == 64 else 16
        width = max([1] + [-(-size * lanes // vector_bytes) for size in self._sizes])
        length, live, long = self._pressure
        if loop is not None:
            long = sum(self.is_long(i) for n, i in loop if self.in_lanes(n))
        if long or self.masked_only:
            if width > 1 or self._text >= _MAX_TEXT:
                return 1
            # float32 functions work on two registers of float64 each, mostly; four chains hide nearly all latency
            doubles = all(ITEMSIZE[o.dtype] == 8 for o in self.form.operands)
            return 4 if registers == 32 and self._text < _SHORT_TEXT and doubles else 2
        most = 16 if length > _LONG_CHAIN else 8
        if self.loops_inside and live * width <= 2 and length <= 8:
            # take longer pieces of rows that are far apart: their elements are memory operands of the additions
            live, most = 1, 16
        fitting = min(most, (registers - 4) // (live * width), _MAX_TEXT // max(1, length))
        return 1 << max(1, fitting).bit_length() - 1

    def tail_vectors(self, vectors: int) -> int:
        """Return how many masked vectors to work on at once in the rest behind whole groups."""
        return vectors if self.masked_only else max(1, vectors // 4)

    @cached_property
    def masked_only(self) -> bool:
        """Whether the loop body is so long that it is emitted only once, masked, unless the rest has pads."""
        return self._text > _MAX_TEXT // 4

    @cached_property
    def pads(self) -> bool:
        """Whether the rest behind whole groups of vectors is copied to memory of its own (`Pads`).

        The kernel then has a single loop body, without masks. This is worth it where the body is long, because its
        compilation takes most of a kernel's time. All elements must be adjacent and unchecked, because elements
        behind the rest are computed too.
        """
        form = self.form
        moves = [i for _, body, _ in form.numbered for _, i in body if i.op in ("load", "store")]
        return (
            (self._pressure.long > 0 or self.masked_only) and self.lanes_on_grid
            and not (form.inner or form.contracted or self._has_distances or self.reports)
            and not any(access(i).mask or form.operands[access(i).operand].dtype in COMPONENT for i in moves)
        )

    @cached_property
    def reports(self) -> bool:
        """Whether the kernel may return a status."""
        return may_report(self.form)

    @property
    def _text(self) -> int:
        """Return roughly how many instructions the loop bodies become, for one vector."""
        length, _, long = self._pressure
        return length + _LONG_TEXT * long

    @cached_property
    def _pressure(self) -> Pressure:
        order: list[tuple[int, tuple[int, ...]]] = []
        long = 0
        for _, body, reductions in self.form.numbered:
            for number, instr in body:
                if self.in_lanes(number):
                    order.append((number, instr.args))
                    long += self.is_long(instr)
            order += [(n, r.values) for n, r in reductions]
        last = {a: at for at, (_, args) in enumerate(order) for a in args}
        alive: set[int] = set()
        # reductions in loops of their own hold one accumulator for each vector all the time
        held = sum(len(r.values) for s in self.form.stages for r in s.reductions) if self.loops_inside else 0
        most = 1
        for at, (number, args) in enumerate(order):
            alive -= {a for a in args if last[a] == at}
            if last.get(number, at) > at:
                alive.add(number)
            most = max(most, len(alive))
        return Pressure(len(order), most + held, long)

    def is_long(self, instr: Instr) -> bool:
        """Return whether an instruction becomes a long chain of machine instructions."""
        if instr.op == "power":
            exponent = self.form.instructions[instr.args[1]]
            known = exponent.imm if isinstance(exponent, Instr) and exponent.op == "const" else None
            if known is not None:
                return known not in SIMPLE_EXPONENTS if KIND[instr.dtype] == "float" else known < 0
        if instr.op == "scan":
            return not self.lanes_on_grid and is_tree(str(instr.imm), instr.dtype)
        row = get(instr.op)
        return instr.op == "random" or (row is not None and row.is_long)


@lru_cache(maxsize=64)
def analysis_of(form: KernelForm) -> Analysis:
    """Return the facts about a form, cached for forms that many launches share."""
    return Analysis(form)

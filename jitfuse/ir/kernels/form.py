"""The kernel form: all that a backend sees.

A kernel runs over independent *grid* axes. At each grid point it runs a sequence of stages. `map`, `reduce` and `scan`
stages loop over the *inner* axes, which all stages share; `point` stages do not loop. A `scan` stage holds scans, and
may hold reductions; it visits its inner points one after the other, in row-major order. Bodies are SSA: values are
numbered through all stages, and each instruction and each reduction result takes the next number.
A kernel may begin with a `contract` stage. It also sweeps *contracted* axes, and leaves a sum of products for every
grid and inner point in scratch row 0, which later stages read (`kept`).
Sizes, strides and scalar literals are kernel arguments, so that one form serves every shape of its class.

Exact sizes never appear: an extent is None (a run-time size) or a static extent from 1 to 4. Each operand has a stride
class per axis: ``"0"`` (the axis does not move the operand), ``"1"`` (adjacent elements), ``"2"`` to ``"4"`` (that many
elements apart, along the lanes of operands that are read) or ``"n"`` (a run-time stride in bytes). An operand that is
written may have *cells*: adjacent elements, which one store writes together. It then moves by whole cells.

Owns a form's canonical bytes and its text too. Does not own how forms are read back (`jitfuse.ir.kernels.decoding`),
made (`jitfuse.plans`) or run (`jitfuse.backends`).

What stages hold, and which instructions there are: `jitfuse.ir.kernels.stages`. The order of kernel arguments:
`jitfuse.ir.kernels.launch_arguments`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from jitfuse.base.digests import hex_digest
from jitfuse.base.floats import float_text
from jitfuse.base.lazy import cached_property
from jitfuse.base.records import NamedTuple, Record
from jitfuse.ir.kernels.launch_arguments import LaunchArguments
from jitfuse.ir.kernels.stages import Contraction, Instr, NumberedStage, Reduction, Stage

FORM_VERSION: Final = 3
MAX_STATIC_EXTENT: Final = 4
MAX_CELL: Final = 16
"""The most elements of a cell."""


class KernelAxis(NamedTuple):
    """One axis of the index space: run-time extent (None) or a static one from 1 to 4."""

    extent: int | None = None


class Operand(NamedTuple):
    """One memory operand: an address, a stride class for every axis (grid, then inner), its direction, its cells.

    `cell`: how many adjacent elements a store writes. Class "1" means adjacent cells.
    """

    dtype: str
    strides: tuple[str, ...]
    out: bool = False
    cell: int = 1

    def element_distance(self, axis: int) -> int | None:
        """Return the stride along an axis in elements, or None if only a launch knows it."""
        return None if self.strides[axis] == "n" else int(self.strides[axis]) * self.cell


class Sweep(NamedTuple):
    """How a loop moves the operands of the kernel that runs it.

    carried  pairs (read, written) of operands of one element: after the first iteration, a load from the first gives
             what the last iteration stored to the second. Each iteration is then one unit
    steps    for each operand the number of the launch's step, in bytes, by which each iteration moves it; None for none
    counted  operands whose value in an iteration is the number in memory plus the iteration number
    """

    carried: tuple[tuple[int, int], ...]
    steps: tuple[int | None, ...]
    counted: tuple[int, ...] = ()

    @property
    def step_count(self) -> int:
        """How many steps a launch has."""
        return 1 + max((step for step in self.steps if step is not None), default=-1)


class KernelForm(Record, frozen=True, eq=False):
    """A kernel for every shape of its class. `lane_axis` is the axis along which vector lanes run.

    `then`: a second form over the same grid that runs after this one, block of rows by block of rows. It loads from its
    operand `link[1]` what this form stores to its operand `link[0]`; only scratch memory ever holds that value. Such a
    launch has the addresses of all other operands, then the other arguments of the first form, those of the second, and
    the bytes of scratch between them.

    `sweep`, if not None: the first grid axis counts the iterations of a loop, which run in order in one thread. Later
    iterations load what earlier ones stored, and the first that reports a status ends the launch. An operand that moves
    along this axis, or whose memory is written meanwhile, has the class "n" there.
    """

    grid: tuple[KernelAxis, ...]
    inner: tuple[KernelAxis, ...]
    lane_axis: int
    operands: tuple[Operand, ...]
    params: tuple[str, ...]
    stages: tuple[Stage, ...]
    keeps: tuple[str, ...] = ()
    contracted: tuple[KernelAxis, ...] = ()
    then: KernelForm | None = None
    link: tuple[int, int] = (0, 0)
    sweep: Sweep | None = None
    version: int = FORM_VERSION

    @property
    def axes(self) -> tuple[KernelAxis, ...]:
        """Grid axes, then inner axes, then contracted axes."""
        return self.grid + self.inner + self.contracted

    @property
    def contraction(self) -> Contraction | None:
        """The contraction with which the kernel begins, if there is one."""
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
        """The maker of each value number: an instruction, or the reduction whose result it is."""
        made: list[Instr | Reduction] = []
        for stage in self.stages:
            made += stage.body
            for r in stage.reductions:
                made += [r] * max(1, len(r.values))
        return tuple(made)

    @cached_property
    def words(self) -> LaunchArguments:
        """The indices of a launch's kernel arguments."""
        return LaunchArguments(self)

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
        kinds = zip("gic", (self.grid, self.inner, self.contracted))
        letters = [f"{letter}{k}" for letter, axes in kinds for k in range(len(axes))]
        extents = [str(a.extent) if a.extent else "n" for a in self.axes]
        space = ", ".join(
            f"{name}<{n}{' lanes' if k == self.lane_axis else ''}" for k, (name, n) in enumerate(zip(letters, extents))
        )
        lines = [f"kernel over {space}"]
        if self.sweep is not None:
            moving = [f"#{k} by step {step}" for k, step in enumerate(self.sweep.steps) if step is not None]
            carried = [f"#{read} is #{written} of the one before" for read, written in self.sweep.carried]
            counted = [f"#{k} plus g0" for k in self.sweep.counted]
            lines.append(f"  g0 in order: {', '.join(moving + carried + counted)}")
        for k, o in enumerate(self.operands):
            cells = f" in cells of {o.cell}" if o.cell > 1 else ""
            lines.append(f"  {'out' if o.out else 'in '} #{k}: {o.dtype} strides {' '.join(o.strides)}{cells}")
        for stage, body, reductions in self.numbered:
            lines.append(f"  {stage.kind}")
            for number, i in body:
                imm = "" if i.imm is None else f" {i.imm}"
                lines.append(f"    v{number}: {i.dtype} = {i.op}{imm}({_listed(i.args)})")
            for number, r in reductions:
                lines.append(f"    v{number}: {r.result_dtype} = reduce {r.combine} {r.phase}({_listed(r.values)})")
            if (c := stage.contraction) is not None:
                lines.append(f"    row 0: {c.dtype} = {c.combine} of {c.multiply}(v{c.left}, v{c.right})")
        if self.then is not None:
            lines.append(f"then, where #{self.link[1]} is #{self.link[0]} in scratch, for the same rows:")
            lines.append(str(self.then))
        return "\n".join(lines)


def _plain(value: Any) -> Any:
    """Return a part of a form in Python's plain types; `jitfuse.ir.kernels.decoding` reads them back."""
    if isinstance(value, KernelForm):
        return {
            "version": value.version, "grid": _plain(value.grid), "inner": _plain(value.inner),
            "lane_axis": value.lane_axis, "operands": _plain(value.operands), "params": list(value.params),
            "stages": _plain(value.stages), "keeps": list(value.keeps), "contracted": _plain(value.contracted),
            "then": _plain(value.then), "link": list(value.link),
            "sweep": _plain(value.sweep),
        }
    if isinstance(value, KernelAxis):
        return value.extent
    if isinstance(value, Operand):
        return [value.dtype, "".join(value.strides), value.out, *([value.cell] if value.cell != 1 else [])]
    if isinstance(value, Instr):
        return [value.op, value.dtype, list(value.args), _plain(value.imm)]
    if isinstance(value, Reduction):
        operands = [list(value.store_to), list(value.load_from)]
        return [value.combine, value.dtype, list(value.values), value.phase, *operands]
    if isinstance(value, Stage):
        return [value.kind, _plain(value.body), _plain(value.reductions), value.contraction and [*value.contraction]]
    if isinstance(value, float):
        return ["f", float_text(value)]
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    return value


def _listed(values: Sequence[int]) -> str:
    return ", ".join(f"v{a}" for a in values)

"""Where a group of vectors lies: lane positions, active lanes, and the address of each operand there.

Owns: address arithmetic. `LoadedLaunch` holds the kernel arguments, `VectorGroup` one position in the index space for
a number of vectors at once. Does not own loads and stores (`jitfuse.backends.llvm.codegen.accesses`).
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jitfuse.backends.llvm.codegen.analysis import Analysis
from jitfuse.backends.llvm.codegen.elements.types import ITEMSIZE, cell_type, i64
from jitfuse.backends.llvm.codegen.odometer import decode
from jitfuse.backends.llvm.text.builder import Function, Value
from jitfuse.base.records import NamedTuple, Record, fresh
from jitfuse.ir.kernels.form import KernelForm


class LoadedLaunch:
    """The kernel arguments of a launch, loaded at the kernel's entry, and vectors that depend on them alone."""

    def __init__(self, f: Function, analysis: Analysis, words: Value, lanes: int) -> None:
        self.f = f
        self.analysis = analysis
        self.form: KernelForm = analysis.form
        self.words = words
        self.lanes = lanes
        form = self.form
        self.addresses = [f.field("ptr", words, 8 * o) for o in range(len(form.operands))]
        self._strides = {
            (o, a): f.field("i64", words, 8 * form.words.stride(o, a)) for o, a in form.words.strides
        }
        self._steps = [
            f.field("i64", words, 8 * form.words.step(k)) for k in range(form.sweep.step_count if form.sweep else 0)
        ]
        self.extents = [
            i64(axis.extent) if axis.extent else f.field("i64", words, 8 * form.words.size(a))
            for a, axis in enumerate(form.axes)
        ]
        self.inner_total = i64(1)
        for a in analysis.inner_axes:
            self.inner_total = multiply(f, self.inner_total, self.extents[a])
        self.iota = f.vector_const("i64", range(lanes)) if lanes > 1 else i64(0)
        self.lane_steps = self._lane_steps()

    def _lane_steps(self) -> dict[int, Value]:
        """Return, for each operand with a stride along single lanes, the byte offsets of a vector's lanes."""
        result = {}
        if len(self.analysis.varying) == 1:
            axis, = self.analysis.varying
            for o, operand in enumerate(self.form.operands):
                if operand.strides[axis] not in ("0", "1"):
                    result[o] = self.f.mul(self.f.splat(self.stride(o, axis), self.lanes), self.iota)
        return result

    def flag(self) -> Value:
        """Return whether outputs should be stored past the caches."""
        flags = self.f.field("i64", self.words, 8 * self.form.words.flags)
        return self.f.cast("trunc", flags, "i1")

    def stride(self, operand: int, axis: int) -> Value:
        """Return a stride in bytes: a constant where the form has it."""
        o, sweep = self.form.operands[operand], self.form.sweep
        if sweep is not None and not axis:
            step = sweep.steps[operand]
            return i64(0) if step is None else self._steps[step]
        distance = o.element_distance(axis)
        return self._strides[operand, axis] if distance is None else i64(distance * ITEMSIZE[o.dtype])

    def moved(self, pointer: Value, operand: int, axis: int, index: Value) -> Value:
        """Return a pointer moved to a position along an axis."""
        o = self.form.operands[operand]
        if o.strides[axis] == "0" or index.ref == "0":
            return pointer
        if o.strides[axis] == "1":
            return self.f.offset(pointer, index, cell_type(o.dtype, o.cell))
        offset = multiply(self.f, index, self.stride(operand, axis))
        return pointer if offset.ref == "0" else self.f.offset(pointer, offset)


def multiply(f: Function, a: Value, b: Value) -> Value:
    """Multiply 64-bit integers, without an instruction where both are constants or one is 0 or 1."""
    for x, y in ((a, b), (b, a)):
        if x.ref in ("0", "1"):
            return x if x.ref == "0" else y
    if a.ref[0] != "%" and b.ref[0] != "%":
        return i64(int(a.ref) * int(b.ref))
    return f.mul(a, b)


class Address(Record):
    """The address of a group of vectors.

    `base` is the address of lane 0 of vector 0. `kind` says where the other lanes are:

    "same"  all lanes share the base
    "next"  lanes are adjacent
    "step"  lanes are `stride` bytes apart (`distance` elements, where known); `steps` are the offsets within a vector
    "free"  lanes are at `offsets` bytes from the base, one vector of offsets for each vector
    "runs"  lanes sweep several axes, and are evenly spaced only within one run of the last axis
            (`VectorGroup.straight`, `VectorGroup.bent`)
    """

    kind: str
    base: Value
    steps: Value | None = None
    stride: Value | None = None
    offsets: Sequence[Value] = ()
    distance: int | None = None


class Piece(NamedTuple):
    """A vector in two pieces: its start if all of it lay in the first run, or in the second; lanes in the first run."""

    first: Value
    second: Value
    left: Value


class VectorGroup(Record):
    """A group of `count` vectors whose first lane is at position `first` along the lanes.

    `pointers` are the operands' addresses at position 0 of the lanes, and of the inner axes that lanes do not
    run along; `inner` has the positions along the latter. `masks`: the active lanes, None for all.
    `keeps`: the address of each kept row at lane 0. `streams`: whether outputs are stored past the caches.
    """

    launch: LoadedLaunch
    count: int
    first: Value
    pointers: Mapping[int, Value]
    masks: Sequence[Value] | None = None
    inner: Mapping[int, Value] = fresh(default_factory=dict)
    indices: Mapping[int, Value] = fresh(default_factory=dict)
    keeps: Sequence[Value] = ()
    streams: Mapping[int, Value] = fresh(default_factory=dict)
    _lane_pointers: dict[int, Address] = fresh(default_factory=dict)
    _axis_vectors: dict[int, list[Value]] = fresh(default_factory=dict)
    _run: tuple[Value, list[Value]] | None = None
    pairs: dict[Any, Any] = fresh(default_factory=dict)
    """The components of values loaded from complex operands here, by load."""
    scalars: dict[int, Value] = fresh(default_factory=dict)
    """Conditions that have one value for all lanes here (`Bounds`)."""

    def group(self, count: int, first: Value, masks: Sequence[Value] | None = None) -> VectorGroup:
        """Return another group of vectors at the same grid point and inner position."""
        return VectorGroup(
            self.launch, count, first, self.pointers, masks, self.inner, self.indices, self.keeps, self.streams
        )

    def at(self, inner: Mapping[int, Value], keeps: Sequence[Value]) -> VectorGroup:
        """Return the frame at a position along the inner axes, with the lane addresses of `prepare`."""
        return VectorGroup(
            self.launch, self.count, self.first, self.pointers, self.masks, inner, self.indices, keeps,
            self.streams, dict(self._lane_pointers),
        )

    def prepare(self) -> VectorGroup:
        """Compute every operand's address in the current block, for use in all following blocks."""
        for operand in range(len(self.launch.form.operands)):
            self._lane_pointers[operand] = self._lane_address(operand)
        return self

    def address(self, operand: int) -> Address:
        """Return an operand's address at this position."""
        known = self._lane_pointers.get(operand)
        if known is None:
            known = self._lane_pointers[operand] = self._lane_address(operand)
        base = known.base
        for axis, index in self.inner.items():
            base = self.launch.moved(base, operand, axis, index)
        return known.replace(base=base)

    def _lane_address(self, operand: int) -> Address:
        launch = self.launch
        base = self.pointers[operand]
        strides = launch.form.operands[operand].strides
        moving = [axis for axis in sorted(launch.analysis.varying) if strides[axis] != "0"]
        if not moving:
            return Address("same", base)
        if len(launch.analysis.varying) == 1:
            axis = moving[0]
            base = launch.moved(base, operand, axis, self.first)
            if strides[axis] == "1":
                return Address("next", base)
            distance = launch.form.operands[operand].element_distance(axis)
            return Address("step", base, launch.lane_steps[operand], launch.stride(operand, axis), distance=distance)
        return Address("runs", base)

    # ------------------------------------------------------------------ lanes over several axes
    def run(self) -> tuple[Value, list[Value]]:
        """Return whether the group lies in one run of the last axis, and its first lane's position on each axis."""
        if self._run is None:
            f, axes = self.launch.f, sorted(self.launch.analysis.varying)
            positions = decode(f, self.first, [self.launch.extents[a] for a in axes])
            end = f.add(positions[-1], i64(self.count * self.launch.lanes))
            self._run = f.icmp("sle", end, self.launch.extents[axes[-1]]), positions
        return self._run

    def straight(self, operand: int, base: Value) -> Address:
        """Return the address of a group within one run."""
        launch, f = self.launch, self.launch.f
        axes = sorted(launch.analysis.varying)
        for axis, position in zip(axes, self.run()[1], strict=True):
            base = launch.moved(base, operand, axis, position)
        moved = launch.form.operands[operand].strides[axes[-1]]
        if moved in ("0", "1"):
            return Address("next" if moved == "1" else "same", base)
        distance = launch.form.operands[operand].element_distance(axes[-1])
        stride = launch.stride(operand, axes[-1])
        return Address("step", base, f.mul(f.splat(stride, launch.lanes), launch.iota), stride, distance=distance)

    def breaks(self, operand: int) -> bool:
        """Return whether an operand is adjacent along the last of two axes: its vectors break between runs."""
        axes = sorted(self.launch.analysis.varying)
        return len(axes) == 2 and self.launch.form.operands[operand].strides[axes[-1]] == "1"

    def runs_are_long(self) -> Value:
        """Return whether a vector passes from one run to the next at most once."""
        last = max(self.launch.analysis.varying)
        return self.launch.f.icmp("sge", self.launch.extents[last], i64(self.launch.lanes))

    def pieces(self, operand: int, base: Value) -> list[Piece]:
        """Return where the two pieces of each vector lie, for runs at least as long as a vector."""
        launch, f = self.launch, self.launch.f
        outer, last = sorted(launch.analysis.varying)
        extent, (row, at) = launch.extents[last], self.run()[1]
        result = []
        for j in range(self.count):
            if j:
                at = f.add(at, i64(launch.lanes))
                passed = f.icmp("sge", at, extent)
                at = f.select(passed, f.sub(at, extent), at)
                row = f.add(row, f.cast("zext", passed, "i64"))
            left = f.sub(extent, at)
            here = launch.moved(launch.moved(base, operand, outer, row), operand, last, at)
            following = launch.moved(base, operand, outer, f.add(row, i64(1)))
            result.append(Piece(here, launch.moved(following, operand, last, f.sub(i64(0), left)), left))
        return result

    def bent(self, operand: int, base: Value, *, here: bool = False) -> Address:
        """Return the address of a group at any position; `here`: in a block that does not dominate later code."""
        launch, f = self.launch, self.launch.f
        axes = sorted(launch.analysis.varying)
        if here:
            vectors = self._decoded(axes)
        else:
            vectors = {a: self.positions(a) for a in axes}
        offsets = []
        for j in range(self.count):
            total: Value | None = None
            for axis in axes:
                if launch.form.operands[operand].strides[axis] != "0":
                    part = f.mul(vectors[axis][j], f.splat(launch.stride(operand, axis), launch.lanes))
                    total = part if total is None else f.add(total, part)
            assert total is not None
            offsets.append(total)
        return Address("free", base, offsets=offsets)

    def linear(self) -> list[Value]:
        """Return the positions of all lanes along the lane axis, or in the row-major order of several."""
        launch, f = self.launch, self.launch.f
        lanes = launch.lanes
        start = f.add(f.splat(self.first, lanes), launch.iota)
        return [start] + [f.add(start, f.const(start.type, j * lanes)) for j in range(1, self.count)]

    def positions(self, axis: int) -> list[Value]:
        """Return the positions of all lanes along one of the axes that lanes run along."""
        if axis not in self._axis_vectors:
            axes = sorted(self.launch.analysis.varying)
            if len(axes) == 1:
                self._axis_vectors[axis] = self.linear()
            else:
                self._axis_vectors.update(self._decoded(axes))
        return self._axis_vectors[axis]

    def _decoded(self, axes: Sequence[int]) -> dict[int, list[Value]]:
        vectors, rest = {}, self.linear()
        for axis in reversed(axes[1:]):
            extent = self.launch.extents[axis]
            parts = [self._divide(x, extent) for x in rest]
            vectors[axis] = [r for _, r in parts]
            rest = [q for q, _ in parts]
        vectors[axes[0]] = rest
        return vectors

    def _divide(self, x: Value, extent: Value) -> tuple[Value, Value]:
        # positions stay below 2**52, where the rounded float64 quotient is never the next integer
        f = self.launch.f
        divisor = f.splat(extent, self.launch.lanes)
        floats = x.type.replace("i64", "double")
        quotient = f.fdiv(f.cast("sitofp", x, floats), f.cast("sitofp", divisor, floats))
        q = f.cast("fptosi", quotient, x.type)
        return q, f.sub(x, f.mul(q, divisor))

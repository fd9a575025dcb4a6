"""Register programs as tables of records for native code: where each register lies, and what is done with it.

Owns the layout of memory, and what is left out: loads, units and slots are only names of tensors. Does not own the
loops of a record (`jitfuse.ir.semirings.loops`).
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Final

import numpy as np

from jitfuse.base.records import NamedTuple, Record
from jitfuse.factors.branches import Part, parts_of
from jitfuse.factors.heap import Heap
from jitfuse.factors.ir.dataflow import Dataflow
from jitfuse.factors.ir.schema import Axis, AxisKey, AxisType, Instruction, OpCode, SlotKey, TensorSpec
from jitfuse.factors.semirings import Array
from jitfuse.ir.semirings.loops import Operand, branches, extremes, extremes_of_parts, sum_of_products
from jitfuse.ir.semirings.words import ONE, PARALLEL, RESULT, STACKS, WORKSPACE

PART: Final = 1 << 14
"""Elements of a part of a tensor whose extremes are found on their own, at most: it is read twice."""


class Tensor(NamedTuple):
    """Elements in memory: those of a batch are neighbours, so that strides of axes are multiples of it.

    `factor` is a number that is still to be multiplied in: what is normalized is multiplied where it is read, together
    with small tables.
    """

    memory: int
    first: int
    spec: TensorSpec
    batched: bool
    factor: Tensor | None = None

    def read(self, elements: Array, batch: int) -> Array:
        """Return the tensor, a batch in front, from the elements that begin where it does."""
        if not self.batched:
            return elements[: self.spec.size].reshape(self.spec.shape)
        return np.moveaxis(elements[: self.spec.size * batch].reshape((*self.spec.shape, batch)), -1, 0)


UNIT: Final = Tensor(ONE, 0, TensorSpec(()), False)


class Assembled(Record, frozen=True, eq=False):
    """A table of records.

    code       the words of all records, one after the other
    count      number of records
    workspace  elements of the registers' memory
    size       elements of the result
    threads    whether any record has work for several threads
    slots      where in the result each wanted slot is
    batch      number of models that run at the same time
    starts     for each place from which on all may run again its first word, and how many records come before it
    """

    code: np.ndarray
    count: int
    workspace: int
    size: int
    threads: bool
    slots: Mapping[SlotKey, Tensor]
    batch: int
    starts: tuple[tuple[int, int], ...]


class Layout(NamedTuple):
    """Where tables are: for each factor (stack, row), and for each stack whether every row is one of a batch."""

    place: Callable[[int], tuple[int, int]]
    batched: Sequence[bool]
    batch: int


def assemble(
    flow: Dataflow, layout: Layout, wanted: Callable[[SlotKey], bool], *, heap: Heap | None = None, threads: int = 1,
    order: Sequence[int] | None = None, begins: Sequence[int] = (0,),
) -> Assembled:
    """Return the table of programs that run one after the other; of their slots those that are wanted stay.

    Args:
        flow: the programs without FREE: the upward one first, a downward one last.
        layout: where tables are.
        wanted: whether a slot is.
        heap: the memory of registers, if not a new one whose registers give theirs to others.
        threads: how many may share branches out; one where anything may run again.
        order: that in which all run, in one thread; None: one with branches, or as they are.
        begins: numbers in this order from which on all may run again: what they read of earlier ones keeps its memory.
    """
    parts = parts_of(flow, threads, layout.batch) if order is None else [[list(order)]]
    last_uses = flow.last_uses([place for part in parts for branch in part for place in branch], begins)
    writer = _Assembler(flow, layout, wanted, last_uses, heap or Heap())
    for part in parts:
        writer.part(part)
    before = [*writer.before, writer.count]
    words = np.cumsum([0, *map(len, writer.records)])
    starts = tuple([(int(words[before[place]]), before[place]) for place in begins])
    code = np.concatenate(writer.records) if writer.records else np.zeros(0, np.int64)
    slots = {key: tensor for key, tensor in writer.slots.items() if wanted(key)}
    any_threads = any(record[PARALLEL] for record in writer.records)
    return Assembled(code, writer.count, writer.heap.size, writer.size, any_threads, slots, layout.batch, starts)


class _Assembler:
    """The records written so far, and where each live tensor is."""

    def __init__(
        self, flow: Dataflow, layout: Layout, wanted: Callable[[SlotKey], bool], last_uses: Mapping[int, list[int]],
        heap: Heap,
    ) -> None:
        self.flow, self.layout, self.wanted, self.last_uses, self.heap = flow, layout, wanted, last_uses, heap
        self._kept = {flow.inputs[place][0] for place, step in enumerate(flow.steps)
                      if step.op is OpCode.STORE_SLOT and wanted(step.args["slot"])}
        """Those whose tensors lie in the result."""
        self.records: list[np.ndarray] = []
        self.count = 0
        """Records that are in no branch."""
        self.before: list[int] = []
        """How many records come before each step."""
        self.size = 0
        self.slots: dict[SlotKey, Tensor] = {}
        self._tensors: dict[int, Tensor] = {}
        """By the places of the instructions that make them."""

    def part(self, lists: Part) -> None:
        """Write what a list of steps does; several lists are branches."""
        start, lengths = len(self.records), []
        for places in lists:
            first = len(self.records)
            with self.heap.apart() if len(lists) > 1 else nullcontext():
                for place in places:
                    self.before.append(len(self.records))
                    self.step(place, self.flow.steps[place])
            lengths.append([len(record) for record in self.records[first:]])
        if len(lists) > 1:
            self.heap.join()
            self.records.insert(start, branches(lengths))
            self.count += 1
        else:
            self.count += len(self.records) - start

    def step(self, place: int, step: Instruction) -> None:
        """Write what one instruction does."""
        inputs = [self._tensors[i] for i in self.flow.inputs[place]]
        if step.op is OpCode.STORE_SLOT:
            (made,) = inputs
            if self.wanted(step.args["slot"]) and (made.memory != RESULT or made.factor is not None):
                made = self._contracted(inputs, made.spec, RESULT)
            self.slots[step.args["slot"]] = made
        else:
            made = self._made(step, inputs, RESULT if place in self._kept else WORKSPACE)
        self._tensors[place] = made
        for i in self.last_uses.get(place, ()):
            self._free(self._tensors[i])

    def _made(self, step: Instruction, inputs: list[Tensor], memory: int) -> Tensor:
        assert step.spec is not None
        if step.op is OpCode.LOAD_FACTOR:
            stack, row = self.layout.place(step.args["factor_id"])
            batched = self.layout.batched[stack]
            first = row * step.spec.size * (self.layout.batch if batched else 1)
            return Tensor(STACKS + stack, first, step.spec, batched)
        if step.op is OpCode.LOAD_SLOT:
            return inputs[0]
        if step.op is OpCode.UNIT:
            return Tensor(ONE, 0, step.spec, False)
        if step.op is OpCode.NORMALIZE:
            return self._normalized(inputs[0], step)
        return self._contracted(inputs, step.spec, memory)

    # ------------------------------------------------------------------ records
    def _normalized(self, given: Tensor, step: Instruction) -> Tensor:
        """Write what finds the divisor and its reciprocal, one behind the other."""
        if given.memory == ONE or given.factor is not None:  # the scale is that of elements as they are in memory
            given = self._contracted([given], given.spec, WORKSPACE)
        number = TensorSpec(())
        memory = RESULT if self.wanted(step.args["scale"]) else WORKSPACE
        scales = self._new(TensorSpec((Axis(0, AxisType.TOPOLOGICAL, 2),)), given.batched, memory)
        batch = self.layout.batch if given.batched else 1
        self.slots[step.args["scale"]] = scales._replace(spec=number)
        self._extremes(Operand(scales.memory, scales.first, ()), given, batch)
        return given._replace(factor=scales._replace(first=scales.first + batch, spec=number))

    def _extremes(self, out: Operand, given: Tensor, batch: int) -> None:
        source, size = Operand(given.memory, given.first, ()), given.spec.size
        parts = 1
        for axis in given.spec.axes:
            parts *= axis.size if size * batch > parts * PART else 1
        if parts == 1:
            self.records.append(extremes(out, source, source, size, batch))
            return
        found = self._new(TensorSpec((Axis(0, AxisType.TOPOLOGICAL, 2 * parts),)), given.batched, WORKSPACE)
        largest = Operand(found.memory, found.first, ())
        self.records.append(extremes_of_parts(largest, source, parts, size // parts, batch))
        smallest = largest._replace(first=largest.first + parts * batch)
        self.records.append(extremes(out, largest, smallest, parts, batch))
        self._free(found)

    def _contracted(self, inputs: list[Tensor], spec: TensorSpec, memory: int) -> Tensor:
        """Write the product of tensors, summed over the axes that `spec` lacks: two at a time."""
        factors = [t.factor for t in inputs if t.factor is not None]
        inputs = [*factors, *(t._replace(factor=None) for t in inputs)]
        left = sorted(inputs, key=lambda t: t.spec.size)
        while len(left) > 2:
            product = self._pair(left[0], left[1], _union(left[0].spec, left[1].spec), WORKSPACE)
            for used in left[:2]:
                self._free_if_own(used, inputs)
            left[:2] = [product]
            left.sort(key=lambda t: t.spec.size)
        made = self._pair(left[0], left[1] if len(left) > 1 else UNIT, spec, memory)
        for used in left:
            self._free_if_own(used, inputs)
        return made

    def _free_if_own(self, tensor: Tensor, inputs: Sequence[Tensor]) -> None:
        if tensor not in inputs:
            self._free(tensor)

    def _pair(self, a: Tensor, b: Tensor, spec: TensorSpec, memory: int) -> Tensor:
        """Write the sum of a product."""
        out = self._new(spec, a.batched or b.batched, memory)
        whole, batch = _union(_union(out.spec, a.spec), b.spec), self.layout.batch
        result, first, second = (_operand(t, whole.keys, batch, out.batched) for t in (out, a, b))
        between: list[tuple[int, int]] = []

        def new(size: int) -> tuple[int, int]:
            between.append((self.heap.take(size), size))
            return WORKSPACE, between[-1][0]

        extents = [*whole.shape, *([batch] if out.batched else [])]
        self.records += sum_of_products(result, first, second, extents, new)
        for place in between:
            self.heap.give(*place)
        return out

    # ------------------------------------------------------------------ memory
    def _new(self, spec: TensorSpec, batched: bool, memory: int) -> Tensor:
        size = spec.size * (self.layout.batch if batched else 1)
        if memory == RESULT:
            self.size += size
            return Tensor(RESULT, self.size - size, spec, batched)
        return Tensor(WORKSPACE, self.heap.take(size), spec, batched)

    def _free(self, tensor: Tensor) -> None:
        if tensor.memory == WORKSPACE:
            self.heap.give(tensor.first, tensor.spec.size * (self.layout.batch if tensor.batched else 1))


def _operand(tensor: Tensor, keys: Iterable[AxisKey], batch: int, with_batch: bool) -> Operand:
    strides: dict[AxisKey, int] = {}
    step = batch if tensor.batched else 1
    if tensor.memory != ONE:
        for axis in reversed(tensor.spec.axes):
            strides[axis.key] = step
            step *= axis.size
    own = [strides.get(key, 0) for key in keys]
    return Operand(tensor.memory, tensor.first, tuple([*own, int(tensor.batched)] if with_batch else own))


def _union(a: TensorSpec, b: TensorSpec) -> TensorSpec:
    """Return the axes of both: those that only the second one has come before the next one that both have."""
    keys = list(a.keys)
    known = set(keys)
    if known.issuperset(b.keys):
        return a
    axes, at = list(a.axes), len(keys)
    for axis in reversed(b.axes):
        if axis.key in known:
            at = keys.index(axis.key)
        else:
            axes.insert(at, axis)
            keys.insert(at, axis.key)
    return TensorSpec(tuple(axes))

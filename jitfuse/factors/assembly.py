"""Register programs as tables of records for native code: where each register lies, and what is done with it.

Owns the layout of memory, and what is left out: loads, units and slots are only names of tensors. Does not own the
loops of a record (`jitfuse.ir.semirings.loops`).
"""
from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Final

import numpy as np

from jitfuse.base.records import NamedTuple, Record
from jitfuse.factors.ir.schema import Axis, AxisKey, AxisType, Instruction, OpCode, Program, SlotKey, TensorSpec
from jitfuse.factors.semirings import Array
from jitfuse.ir.semirings.loops import MOST_OFFSETS, Operand, extremes, sum_of_products
from jitfuse.ir.semirings.words import ONE, PARALLEL, RESULT, STACKS, WORKSPACE

ALIGNED: Final = 8
"""Elements that every register begins at a multiple of."""


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
    """

    code: np.ndarray
    count: int
    workspace: int
    size: int
    threads: bool
    slots: Mapping[SlotKey, Tensor]
    batch: int


class Layout(NamedTuple):
    """Where tables are: for each factor (stack, row), and for each stack whether every row is one of a batch."""

    place: Callable[[int], tuple[int, int]]
    batched: Sequence[bool]
    batch: int


def assemble(
    programs: Sequence[Program], layout: Layout, wanted: Callable[[SlotKey], bool], *, reuses: bool = True
) -> Assembled:
    """Return the table of programs that run one after the other; of their slots those that are wanted stay.

    `reuses`: registers that nothing reads any more give their memory to others.
    """
    steps = [(number, step) for number, program in enumerate(programs) for step in program.instructions]
    writer = _Assembler(layout, wanted, *_lifetimes(steps, wanted), Heap(reuses=reuses))
    for place, (number, step) in enumerate(steps):
        writer.step(place, number, step)
    code = np.concatenate(writer.records) if writer.records else np.zeros(0, np.int64)
    slots = {key: tensor for key, tensor in writer.slots.items() if wanted(key)}
    threads = any(record[PARALLEL] for record in writer.records)
    return Assembled(code, len(writer.records), writer.heap.size, writer.size, threads, slots, layout.batch)


Value = tuple[int, int]
"""A register: the number of its program, and its own. Loads of slots have that of what was stored."""


def _lifetimes(
    steps: Sequence[tuple[int, Instruction]], wanted: Callable[[SlotKey], bool]
) -> tuple[dict[int, list[Value]], set[Value]]:
    """Return for each place the registers that nothing reads behind it, and those that lie in the result."""
    names: dict[Value, Value] = {}
    kept: set[Value] = set()
    slots: dict[SlotKey, Value] = {}
    last: dict[Value, int] = {}
    for place, (number, step) in enumerate(steps):
        if step.op is OpCode.LOAD_SLOT:
            assert step.dst is not None
            names[number, step.dst] = slots[step.args["slot"]]
        elif step.op is OpCode.NORMALIZE:  # lies where it is read from
            assert step.dst is not None
            names[number, step.dst] = names[number, step.args["src"]]
        elif step.dst is not None:
            names[number, step.dst] = number, step.dst
            last[number, step.dst] = place
        for register in step.reads:
            last[names[number, register]] = place
        if step.op is OpCode.STORE_SLOT:
            slots[step.args["slot"]] = names[number, step.args["src"]]
            if wanted(step.args["slot"]) and names[number, step.args["src"]] == (number, step.args["src"]):
                kept.add((number, step.args["src"]))
    found: dict[int, list[Value]] = {}
    for value, place in last.items():
        found.setdefault(place, []).append(value)
    return found, kept


class _Assembler:
    """The records written so far, and where each live tensor is."""

    def __init__(
        self, layout: Layout, wanted: Callable[[SlotKey], bool], dying: Mapping[int, list[Value]], kept: set[Value],
        heap: Heap,
    ) -> None:
        self.layout, self.wanted, self.dying, self.kept, self.heap = layout, wanted, dying, kept, heap
        self.records: list[np.ndarray] = []
        self.size = 0
        self.slots: dict[SlotKey, Tensor] = {}
        self._tensors: dict[Value, Tensor] = {}

    def step(self, place: int, number: int, step: Instruction) -> None:
        """Write what one instruction does."""
        op, args, spec = step.op, step.args, step.spec
        if op is OpCode.STORE_SLOT:
            tensor = self._tensors[number, args["src"]]
            if self.wanted(args["slot"]) and (tensor.memory != RESULT or tensor.factor is not None):
                tensor = self._contracted([tensor], tensor.spec, RESULT)
            self.slots[args["slot"]] = tensor
        elif step.dst is not None and spec is not None:
            memory = RESULT if (number, step.dst) in self.kept else WORKSPACE
            made = self._made(step, [self._tensors[number, register] for register in step.reads], memory)
            self._tensors[number, step.dst] = made
        for value in self.dying.get(place, ()):
            self._free(self._tensors[value])

    def _made(self, step: Instruction, inputs: list[Tensor], memory: int) -> Tensor:
        assert step.spec is not None
        if step.op is OpCode.LOAD_FACTOR:
            stack, row = self.layout.place(step.args["factor_id"])
            batched = self.layout.batched[stack]
            first = row * step.spec.size * (self.layout.batch if batched else 1)
            return Tensor(STACKS + stack, first, step.spec, batched)
        if step.op is OpCode.LOAD_SLOT:
            return self.slots[step.args["slot"]]
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
        out, source = (Operand(t.memory, t.first, ()) for t in (scales, given))
        self.records.append(extremes(out, source, given.spec.size, batch))
        return given._replace(factor=scales._replace(first=scales.first + batch, spec=number))

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
        """Write one record; more where so many indices are summed that some are summed first."""
        out = self._new(spec, a.batched or b.batched, memory)
        self._write(out, a, b)
        return out

    def _write(self, out: Tensor, a: Tensor, b: Tensor) -> None:
        whole = _union(_union(out.spec, a.spec), b.spec)
        summed = [axis for axis in whole.axes if not out.spec.has_key(axis.key)]
        record = self._record(out, a, b, whole, MOST_OFFSETS if len(summed) > 1 else sys.maxsize)
        if record is not None:
            self.records.append(record)
            return
        between = self._new(TensorSpec((*out.spec.axes, *summed[: len(summed) // 2])), out.batched, WORKSPACE)
        self._write(between, a, b)
        self._write(out, between, UNIT)
        self._free(between)

    def _record(self, out: Tensor, a: Tensor, b: Tensor, whole: TensorSpec, most: int) -> np.ndarray | None:
        batch = self.layout.batch
        keys, extents = whole.keys, [*whole.shape, *([batch] if out.batched else [])]
        result, first, second = (_operand(t, keys, batch, out.batched) for t in (out, a, b))
        return sum_of_products(result, first, second, extents, most)

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
    """Return the axes of both, those that only the second one has behind."""
    known = set(a.keys)
    new = [axis for axis in b.axes if axis.key not in known]
    return TensorSpec((*a.axes, *new)) if new else a


class Heap:
    """Memory in elements: what is given back is taken again, the first place that fits; neighbours become one.

    Without `reuses` nothing is taken twice.
    """

    def __init__(self, *, reuses: bool = True) -> None:
        self.size, self._reuses = 0, reuses
        self._sizes: dict[int, int] = {}
        """The size of each free place, by its first element."""
        self._firsts: dict[int, int] = {}
        """The first element of each free place, by where it ends."""
        self._alike: dict[int, dict[int, list[int]]] = {}
        """The first elements of free places by the bits of their size and by their size, as heaps."""
        self._levels: dict[int, list[int]] = {}
        """The same by the bits of their size alone. What is gone is dropped when it is met."""

    def take(self, size: int) -> int:
        """Return the first element of `size` elements that nobody holds."""
        size = _aligned(size)
        bits = size.bit_length()
        fits = [self._lowest(heap, free) for free, heap in self._alike.get(bits, {}).items() if free >= size]
        fits += [self._lowest(heap, level, bits=True) for level, heap in self._levels.items() if level > bits]
        first = min([first for first in fits if first is not None], default=None)
        if first is None:
            first = self._firsts.get(self.size, self.size)
            if first < self.size:
                self._remove(first)
            self.size = first + size
        elif (free := self._remove(first)) > size:
            self._add(first + size, free - size)
        return first

    def give(self, first: int, size: int) -> None:
        """Give elements back."""
        if not self._reuses:
            return
        size = _aligned(size)
        if first + size in self._sizes:
            size += self._remove(first + size)
        if first in self._firsts:
            first = self._firsts[first]
            size += self._remove(first)
        self._add(first, size)

    def _add(self, first: int, size: int) -> None:
        self._sizes[first], self._firsts[first + size] = size, first
        heappush(self._alike.setdefault(size.bit_length(), {}).setdefault(size, []), first)
        heappush(self._levels.setdefault(size.bit_length(), []), first)

    def _remove(self, first: int) -> int:
        """Take a place from the free ones; return its size."""
        size = self._sizes.pop(first)
        del self._firsts[first + size]
        return size

    def _lowest(self, firsts: list[int], wanted: int, *, bits: bool = False) -> int | None:
        """Return the first of places that are still free and of exactly this size, or of so many bits."""
        while firsts:
            size = self._sizes.get(firsts[0], 0)
            if (size.bit_length() if bits else size) == wanted:
                return firsts[0]
            heappop(firsts)
        return None


def _aligned(size: int) -> int:
    return -(-max(size, 1) // ALIGNED) * ALIGNED

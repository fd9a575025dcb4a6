"""Register programs as tables of records for native code: where each register lies, and what is done with it.

Owns the layout of memory, and what is left out: loads, units and slots are only names of tensors. Does not own the
loops of a record (`jitfuse.ir.semirings.loops`).
"""
from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Final

import numpy as np

from jitfuse.base.records import NamedTuple, Record
from jitfuse.factors.branches import parts_of
from jitfuse.factors.ir.schema import Axis, AxisKey, AxisType, Instruction, OpCode, Program, SlotKey, TensorSpec
from jitfuse.factors.semirings import Array
from jitfuse.ir.semirings.loops import MOST_OFFSETS, Operand, branches, extremes, extremes_of_parts, sum_of_products
from jitfuse.ir.semirings.words import ONE, PARALLEL, RESULT, STACKS, WORKSPACE

ALIGNED: Final = 8
"""Elements that every register begins at a multiple of."""
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
    programs: Sequence[Program], layout: Layout, wanted: Callable[[SlotKey], bool], *, reuses: bool = True,
    threads: int = 1, begins: Sequence[int] = (0,),
) -> Assembled:
    """Return the table of programs that run one after the other; of their slots those that are wanted stay.

    Args:
        programs: the upward one first, a downward one last.
        layout: where tables are.
        wanted: whether a slot is.
        reuses: registers that nothing reads any more give their memory to others.
        threads: how many may share branches out; one where anything may run again.
        begins: numbers of the instructions but FREE from which on all may run again, in order: what they read of
            earlier ones keeps its memory.
    """
    given = [(number, step) for number, program in enumerate(programs) for step in program.instructions
             if step.op is not OpCode.FREE]
    parts = parts_of(given, threads if reuses else 1, layout.batch)
    steps = [given[place] for part in parts for branch in part for place in branch]
    writer = _Assembler(layout, wanted, *_lifetimes(steps, wanted, begins), Heap(reuses=reuses))
    done = count = 0
    before_step: list[int] = []
    for part in parts:
        before, lengths = len(writer.records), []
        for branch in part:
            first = len(writer.records)
            with writer.heap.apart() if len(part) > 1 else nullcontext():
                for place in range(done, done + len(branch)):
                    before_step.append(len(writer.records))
                    writer.step(place, *steps[place])
            done += len(branch)
            lengths.append([len(record) for record in writer.records[first:]])
        count += len(writer.records) - before
        if len(part) > 1:
            writer.heap.join()
            writer.records.insert(before, branches(lengths))
            count -= sum(map(len, lengths)) - 1
    before_step.append(count)
    words = np.cumsum([0, *map(len, writer.records)])
    starts = tuple([(int(words[before_step[place]]), before_step[place]) for place in begins])
    code = np.concatenate(writer.records) if writer.records else np.zeros(0, np.int64)
    slots = {key: tensor for key, tensor in writer.slots.items() if wanted(key)}
    any_threads = any(record[PARALLEL] for record in writer.records)
    return Assembled(code, count, writer.heap.size, writer.size, any_threads, slots, layout.batch, starts)


Value = tuple[int, int]
"""A register: the number of its program, and its own. Loads of slots have that of what was stored."""


def _lifetimes(
    steps: Sequence[tuple[int, Instruction]], wanted: Callable[[SlotKey], bool], begins: Sequence[int]
) -> tuple[dict[int, list[Value]], set[Value]]:
    """Return for each place the registers that nothing reads behind it, and those that lie in the result.

    The memory of a register that is read by what may run again without it is never given back.
    """
    names: dict[Value, Value] = {}
    kept: set[Value] = set()
    slots: dict[SlotKey, Value] = {}
    made: dict[Value, int] = {}
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
            last[number, step.dst] = made[number, step.dst] = place
        for register in step.reads:
            last[names[number, register]] = place
        if step.op is OpCode.STORE_SLOT:
            slots[step.args["slot"]] = names[number, step.args["src"]]
            if wanted(step.args["slot"]) and names[number, step.args["src"]] == (number, step.args["src"]):
                kept.add((number, step.args["src"]))
    found: dict[int, list[Value]] = {}
    for value, place in last.items():
        if bisect_right(begins, place) == bisect_right(begins, made[value]):
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
        first = summed[: len(summed) // 2]  # what is left are rows
        rest = TensorSpec(tuple([axis for axis in whole.axes if axis not in first]))
        between = self._new(rest, out.batched, WORKSPACE)
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
    """Return the axes of both: those that only the second one has come before the next one that both have."""
    axes, keys = list(a.axes), list(a.keys)
    at = len(axes)
    for axis in reversed(b.axes):
        if a.has_key(axis.key):
            at = keys.index(axis.key)
        else:
            axes.insert(at, axis)
            keys.insert(at, axis.key)
    return TensorSpec(tuple(axes))


class Heap:
    """Memory in elements: what is given back is taken again, the first place that fits; neighbours become one.

    Without `reuses` nothing is taken twice.
    """

    def __init__(self, *, reuses: bool = True) -> None:
        self.size, self._reuses, self._floor = 0, reuses, 0
        self._free: list[tuple[int, int]] = []
        self._late: list[tuple[int, int]] = []

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Take only memory that nobody had before, and that no other branch takes: they run at the same time."""
        outside, self._free, self._floor = self._free, [], self.size
        yield
        self._late += self._free
        self._free, self._floor = outside, 0

    def join(self) -> None:
        """All branches have run: what they gave back may be taken again."""
        late, self._late = self._late, []
        for first, size in late:
            self.give(first, size)

    def take(self, size: int) -> int:
        """Return the first element of `size` elements that nobody holds."""
        size = _aligned(size)
        for k, (first, free) in enumerate(self._free):
            if free >= size:
                self._free[k : k + 1] = [(first + size, free - size)] if free > size else []
                return first
        if self._free and sum(self._free[-1]) == self.size:
            first = self._free.pop()[0]
        else:
            first = self.size
        self.size = first + size
        return first

    def give(self, first: int, size: int) -> None:
        """Give elements back."""
        if not self._reuses:
            return
        if first < self._floor:  # other branches may still read it
            self._late.append((first, size))
            return
        stop = first + _aligned(size)
        k = next((k for k, (other, _) in enumerate(self._free) if other > first), len(self._free))
        if k < len(self._free) and self._free[k][0] == stop:
            stop += self._free.pop(k)[1]
        if k and sum(self._free[k - 1]) == first:
            k -= 1
            first = self._free.pop(k)[0]
        self._free.insert(k, (first, stop - first))


def _aligned(size: int) -> int:
    return -(-max(size, 1) // ALIGNED) * ALIGNED

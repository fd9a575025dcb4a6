"""The register machine: runs a program over arrays of any kind, in any semiring.

Over NumPy's arrays it is the plain reference; over traced arrays it writes the steps of a fused function. Every tensor
has its axes in the order of elimination. So a sum always goes over the first axes, what is read lies in memory as the
loops go, and axes that stay together merge into one.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from jitfuse.factors.ir.schema import AxisKey, Instruction, OpCode, Program, SlotKey, TensorSpec
from jitfuse.factors.semirings import Array, Semiring

Load = Callable[[int], Array]


def run(
    program: Program, semiring: Semiring, load_factor: Load, slots: dict[SlotKey, Array], *,
    load_selector: Load | None = None, dtype: Any = np.float64,
) -> None:
    """Run a program: what it stores is in `slots` afterwards.

    Args:
        program: a valid program.
        semiring: what product and sum are.
        load_factor: the array of a factor, with axes as the instruction says, behind any number of batch axes.
        slots: what earlier programs stored.
        load_selector: the array of a selector.
        dtype: that of ones.
    """
    machine = _Machine(semiring, load_factor, load_selector, slots, dtype)
    for instruction in program.instructions:
        machine.registers_of[instruction.op](machine, instruction)


class _Machine:
    def __init__(
        self, semiring: Semiring, load_factor: Load, load_selector: Load | None, slots: dict[SlotKey, Array], dtype: Any
    ) -> None:
        self.semiring, self.slots, self.dtype = semiring, slots, dtype
        self.load_factor, self.load_selector = load_factor, load_selector
        self.registers: dict[int, Array] = {}
        self.specs: dict[int, TensorSpec] = {}

    def _keep(self, step: Instruction, array: Array) -> None:
        assert step.dst is not None and step.spec is not None
        self.registers[step.dst], self.specs[step.dst] = array, step.spec

    def unit(self, step: Instruction) -> None:
        assert step.spec is not None
        self._keep(step, np.full(step.spec.shape, self.semiring.one, self.dtype))

    def factor(self, step: Instruction) -> None:
        self._keep(step, self.load_factor(step.args["factor_id"]))

    def selector(self, step: Instruction) -> None:
        assert self.load_selector is not None, "a program with selectors needs them"
        self._keep(step, self.load_selector(step.args["selector_id"]))

    def load(self, step: Instruction) -> None:
        self._keep(step, self.slots[step.args["slot"]])

    def store(self, step: Instruction) -> None:
        self.slots[step.args["slot"]] = self.registers[step.args["src"]]

    def contract(self, step: Instruction) -> None:
        assert step.spec is not None
        inputs = step.args["inputs"]
        specs = [self.specs[r] for r in inputs]
        self._keep(step, contraction(self.semiring, [self.registers[r] for r in inputs], specs, step.spec))

    def eliminate(self, step: Instruction) -> None:
        assert step.spec is not None
        source = step.args["src"]
        self._keep(step, contraction(self.semiring, [self.registers[source]], [self.specs[source]], step.spec))

    def normalize(self, step: Instruction) -> None:
        array = self.registers[step.args["src"]]
        axes = tuple(range(array.ndim - self.specs[step.args["src"]].ndim, array.ndim))
        largest = array.max(axes)
        divisor = np.where((largest > 0) & np.isfinite(largest), largest, largest.dtype.type(1))
        self.slots[step.args["scale"]] = divisor
        self._keep(step, array / divisor.reshape(divisor.shape + (1,) * len(axes)))

    def free(self, step: Instruction) -> None:
        for register in step.args["srcs"]:
            del self.registers[register]

    registers_of: Mapping[OpCode, Callable[[_Machine, Instruction], None]] = {
        OpCode.UNIT: unit, OpCode.LOAD_FACTOR: factor, OpCode.LOAD_SELECTOR: selector, OpCode.LOAD_SLOT: load,
        OpCode.STORE_SLOT: store, OpCode.CONTRACT: contract, OpCode.ELIMINATE: eliminate, OpCode.NORMALIZE: normalize,
        OpCode.FREE: free,
    }


def contraction(semiring: Semiring, arrays: Sequence[Array], specs: Sequence[TensorSpec], out: TensorSpec) -> Array:
    """Return the semiring's product of arrays, summed over the axes that `out` does not have.

    Axes that the same arrays have side by side are one axis here: a tensor of thirty variables has some four.
    """
    loops = _Loops(specs, out)
    batch = max((a.shape[: a.ndim - s.ndim] for a, s in zip(arrays, specs)), key=len)
    product = None
    for which, (array, spec) in enumerate(zip(arrays, specs)):
        own = array.shape[: array.ndim - spec.ndim]
        if (places := loops.places(spec)) is not None:
            array = array.transpose(*range(len(own)), *[len(own) + p for p in places])
        shape = tuple([size if which in readers else 1 for size, readers, _ in loops.blocks])
        merged = array.reshape((own or (1,) * len(batch)) + shape)
        product = merged if product is None else semiring.multiply(product, merged)
    summed = tuple([len(batch) + i for i, block in enumerate(loops.blocks) if not block[2]])
    return semiring.sum(product, summed).reshape(batch + out.shape)


class _Loops:
    """The loops of a contraction: all axes in one order, and in runs with the same readers.

    `blocks` has for each run its size, the inputs that have it, and whether the result has it.
    """

    def __init__(self, specs: Sequence[TensorSpec], out: TensorSpec) -> None:
        self._readers: dict[AxisKey, set[int]] = {}
        sizes: dict[AxisKey, int] = {}
        for which, spec in enumerate(specs):
            for axis in spec.axes:
                self._readers.setdefault(axis.key, set()).add(which)
                sizes[axis.key] = axis.size
        self._out = out
        self._rank = {key: place for place, key in enumerate(self._ordered([out, *specs]))}
        self.blocks: list[tuple[int, frozenset[int], bool]] = []
        last: tuple[frozenset[int], bool] | None = None
        for key in self._rank:
            kind = self._kind(key)
            if kind == last:
                self.blocks[-1] = (self.blocks[-1][0] * sizes[key], *kind)
            else:
                self.blocks.append((sizes[key], *kind))
            last = kind

    def _kind(self, key: AxisKey) -> tuple[frozenset[int], bool]:
        return frozenset(self._readers[key]), self._out.has_key(key)

    def _ordered(self, specs: Sequence[TensorSpec]) -> list[AxisKey]:
        """Return all axes in the order of every specification, equal kinds together; if there is none, those that stay
        in the order of the result behind the others.
        """
        before: dict[AxisKey, int] = dict.fromkeys(self._readers, 0)
        after: dict[AxisKey, list[AxisKey]] = {key: [] for key in before}
        for spec in specs:
            for first, second in pairwise(spec.keys):
                after[first].append(second)
                before[second] += 1
        ready = [key for key, count in before.items() if not count]
        order: list[AxisKey] = []
        while ready:
            last = self._kind(order[-1]) if order else None
            key = next((k for k in ready if self._kind(k) == last), ready[0])
            ready.remove(key)
            order.append(key)
            for other in after[key]:
                before[other] -= 1
                if not before[other]:
                    ready.append(other)
        if len(order) < len(before):
            order = [*(key for key in before if not self._out.has_key(key)), *self._out.keys]
        return order

    def places(self, spec: TensorSpec) -> list[int] | None:
        """Return how the axes of an input are transposed into the order of the loops; None: not at all."""
        places = sorted(range(spec.ndim), key=lambda i: self._rank[spec.keys[i]])
        return places if places != list(range(spec.ndim)) else None

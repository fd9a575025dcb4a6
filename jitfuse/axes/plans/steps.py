"""Symbolic steps: the primitive instructions of a plan, with fixed numbers of operands and results.

| step | operands -> results | does |
|---|---|---|
| view | 1 -> 1 | takes a diagonal |
| reshape, permute | 1 -> 1 | |
| split, concat | 1 -> N, N -> 1 | cuts along an axis, joins along one |
| expand, reduce | 1 -> 1 | |
| promote | N -> N | gives arrays that are multiplied their common dtype |
| einsum, contract | N -> 1 | sums products: by the library's einsum, or by a product of matrices |
| reindex | N -> 1 | puts arrays to their places in a new one |

A step knows its axes by keys; sizes come with the context. `specialize` writes it for one call, `score` says what it
costs. Owns what all steps share. The steps are in `jitfuse.axes.plans.structural` and `jitfuse.axes.plans.products`.
"""
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from jitfuse.axes.layouts import Layout, Shape
from jitfuse.axes.libraries import Library, compiled
from jitfuse.axes.parts import Keys
from jitfuse.base.records import NamedTuple, Record

Dims = tuple[Keys, ...]
Slot = int


class SpecializationContext(Record, frozen=True, eq=False):
    """What a call brings: the arrays' layouts, the size of each key, and the library that computes."""

    layouts: tuple[Layout, ...]
    sizes: Mapping[str, int]
    library: Library

    def size(self, keys: Sequence[str]) -> int:
        """Return the number of elements of a product of axes."""
        return math.prod(self.sizes[key] for key in keys)

    def shape(self, dims: Dims) -> Shape:
        """Return the shape of an array with these axes."""
        return tuple(map(self.size, dims))


class StepScore(NamedTuple):
    """What a step costs: elements of a sum of products, elements that are stored, arrays made, passes over data."""

    einsum_numel: int = 0
    materialized: int = 0
    allocations: int = 0
    kernels: int = 0


FREE = StepScore()


def stored(layout: Layout) -> tuple[Layout, StepScore]:
    """Return a new array's layout and what it costs to write."""
    return layout, StepScore(0, layout.elements, 1, 1)


class Step(Record, frozen=True):
    """One instruction, from slots to slots."""

    operands: tuple[Slot, ...]
    results: tuple[Slot, ...]

    @property
    def input_arity(self) -> int:
        """The number of arrays it takes."""
        return len(self.operands)

    @property
    def output_arity(self) -> int:
        """The number of arrays it gives."""
        return len(self.results)


class RuntimeStep(Step, frozen=True, eq=False):
    """One executable instruction: lines of Python over the variables v0, v1, .. of slots."""

    name: str
    lines: tuple[str, ...]
    names: Mapping[str, Any]

    def run(self, tensors: tuple[Any, ...]) -> tuple[Any, ...]:
        """Carry the step out on its own."""
        outputs = "".join(f"v{s}, " for s in self.results)
        held = dict(zip(self.operands, tensors))  # an operand may stand there twice
        function = compiled(self.lines, [f"v{s}" for s in held], f"({outputs})", self.names)
        made: tuple[Any, ...] = function(*held.values())
        return made


class SymbolicStep(Step, frozen=True):
    """One instruction of a symbolic plan."""

    name: ClassVar[str]

    @property
    def feasible(self) -> bool:
        """Whether libraries can carry the step out."""
        return True

    def specialize(self, context: SpecializationContext) -> RuntimeStep:
        """Return the step as it runs in one call."""
        lines = tuple(self._write(context))
        return RuntimeStep(self.operands, self.results, self.name, lines, self._constants(context))

    def _write(self, context: SpecializationContext) -> list[str]:
        """Return the lines of a call."""
        raise NotImplementedError

    def _constants(self, context: SpecializationContext) -> Mapping[str, Any]:
        """Return the objects that the lines name."""
        return context.library.functions

    def score(self, context: SpecializationContext, layouts: Sequence[Layout]) -> tuple[list[Layout], StepScore]:
        """Return the layouts of the results, for operands of these, and what the step costs."""
        raise NotImplementedError

    def _line(self, text: str) -> list[str]:
        return [f"v{self.results[0]} = {text}"]

    @property
    def _operand(self) -> str:
        return f"v{self.operands[0]}"

"""Sums of products as steps: the library's einsum, or a product of matrices of reshaped operands.

Owns the steps and their feasibility. Does not own the order in which operands meet (`jitfuse.axes.plans.paths`).
"""
from __future__ import annotations

import math
import string
from collections.abc import Sequence
from typing import ClassVar, Final

from jitfuse.axes.layouts import Layout, contiguous, reshaped
from jitfuse.axes.plans.steps import FREE, Dims, SpecializationContext, StepScore, SymbolicStep
from jitfuse.base.records import NamedTuple

MAX_LABELS: Final = len(string.ascii_letters)
"""Axes that an einsum has letters for."""


class Einsum(SymbolicStep, frozen=True):
    """The sum of products of arrays: `terms` are the axes of each, `output` those of the result."""

    terms: tuple[Dims, ...]
    output: Dims
    name: ClassVar[str] = "einsum"

    @property
    def feasible(self) -> bool:
        """Whether there are letters for all axes."""
        return len({keys for dims in self.terms for keys in dims}) <= MAX_LABELS

    def _write(self, context: SpecializationContext) -> list[str]:
        letters = dict(zip(dict.fromkeys(keys for dims in self.terms for keys in dims), string.ascii_letters))
        inputs = ",".join("".join(map(letters.__getitem__, dims)) for dims in self.terms)
        equation = f"{inputs}->{''.join(map(letters.__getitem__, self.output))}"
        return self._line(context.library.einsum(equation, [f"v{s}" for s in self.operands]))

    def score(self, context: SpecializationContext, layouts: Sequence[Layout]) -> tuple[list[Layout], StepScore]:
        """Return the result, with all that is multiplied as its cost."""
        space = math.prod(map(context.size, {keys for dims in self.terms for keys in dims}))
        return [contiguous(context.shape(self.output))], StepScore(space, 0, 1, 1)


class Promote(SymbolicStep, frozen=True):
    """Arrays in their common dtype, before they are multiplied or summed: nothing where they have one."""

    name: ClassVar[str] = "promote"

    def _write(self, context: SpecializationContext) -> list[str]:
        xs, made = ([f"v{s}" for s in slots] for slots in (self.operands, self.results))
        same = " is ".join(f"{x}.dtype" for x in dict.fromkeys(xs))
        given = ", ".join(xs)
        return [f"{', '.join(made)} = ({given}) if {same} else promoted({given})"]

    def score(self, context: SpecializationContext, layouts: Sequence[Layout]) -> tuple[list[Layout], StepScore]:
        """Return the layouts as they are: conversions are no part of a plan's choice."""
        return list(layouts), FREE


class Roles(NamedTuple):
    """What the axes of two operands are to a product of matrices: of both and the result, of one, summed."""

    batch: Dims
    rows: Dims
    columns: Dims
    summed: Dims


def roles(a: Dims, b: Dims, output: Dims) -> Roles:
    """Return the roles of two operands' axes; the operands' own order is kept."""
    return Roles(
        tuple(k for k in a if k in b and k in output), tuple(k for k in a if k not in b),
        tuple(k for k in b if k not in a), tuple(k for k in a if k in b and k not in output),
    )


def is_matrix_product(found: Roles) -> bool:
    """Return whether a product of matrices does this at its speed: else einsum, or a product of elements, is faster."""
    return bool(found.summed) and (not found.batch or bool(found.rows and found.columns))


def product_order(a: Dims, b: Dims, output: Dims) -> Dims:
    """Return the axes of the result of `Contract`, in its order."""
    found = roles(a, b, output)
    if not found.summed:
        return output
    return (*found.batch, *found.rows, *found.columns)


class Contract(SymbolicStep, frozen=True):
    """The sum of products of two arrays, by a product of matrices; without summed axes, the product of elements."""

    terms: tuple[Dims, Dims]
    output: Dims
    name: ClassVar[str] = "contract"

    def _write(self, context: SpecializationContext) -> list[str]:
        a, b = self.terms
        found = roles(a, b, self.output)
        xs = [f"v{s}" for s in self.operands]
        if not found.summed:
            one, other = (self._aligned(context, x, dims) for x, dims in zip(xs, self.terms))
            return self._line(f"times({one}, {other})")
        left = self._matrix(context, xs[0], a, found.batch, found.rows, found.summed)
        right = self._matrix(context, xs[1], b, found.batch, found.summed, found.columns)
        made = context.library.matmul(left, right)
        if len(found.rows) > 1 or len(found.columns) > 1:
            made = context.library.reshape(made, context.shape(self.output))
        return self._line(made)

    def _matrix(self, context: SpecializationContext, x: str, dims: Dims, batch: Dims, *groups: Dims) -> str:
        """Return the operand as a stack of matrices, or as a vector: groups without axes are left out."""
        groups = tuple(group for group in groups if group)
        order = (*batch, *(keys for group in groups for keys in group))
        if order != dims:
            x = context.library.permute(x, tuple(map(dims.index, order)))
        if all(len(group) == 1 for group in groups):
            return x
        merged = (*map(context.size, batch), *(math.prod(map(context.size, group)) for group in groups))
        return context.library.reshape(x, merged)

    def _aligned(self, context: SpecializationContext, x: str, dims: Dims) -> str:
        """Return the operand with its axes in the order of the result, and axes of size 1 where it has none."""
        order = tuple(keys for keys in self.output if keys in dims)
        if order != dims:
            x = context.library.permute(x, tuple(map(dims.index, order)))
        first = self.output.index(order[0]) if order else len(self.output)
        wanted = self.output[first:]
        if order == wanted:
            return x
        return context.library.reshape(x, tuple(context.size(keys) if keys in dims else 1 for keys in wanted))

    def score(self, context: SpecializationContext, layouts: Sequence[Layout]) -> tuple[list[Layout], StepScore]:
        """Return the result, and copies where the operands are no matrices as they lie."""
        a, b = self.terms
        found = roles(a, b, self.output)
        result = contiguous(context.shape(self.output))
        if not found.summed:
            return [result], StepScore(0, result.elements, 1, 1)
        copied = self._copied(context, layouts[0], a, found.batch, found.rows, found.summed)
        copied += self._copied(context, layouts[1], b, found.batch, found.summed, found.columns)
        copies = bool(copied)
        return [result], StepScore(result.elements, copied, 1 + copies, 1 + copies)

    def _copied(
        self, context: SpecializationContext, layout: Layout, dims: Dims, batch: Dims, *groups: Dims
    ) -> int:
        """Return how many elements are copied to make matrices of an operand."""
        order = [dims.index(keys) for keys in (*batch, *(keys for group in groups for keys in group))]
        permuted = Layout(tuple(layout.shape[k] for k in order), tuple(layout.strides[k] for k in order))
        merged = (*map(context.size, batch), *(math.prod(map(context.size, group)) for group in groups if group))
        return 0 if reshaped(permuted, merged) is not None else layout.elements

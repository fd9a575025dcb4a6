"""Symbolic plans: one way of computing an operation, and its six-integer score."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitfuse.axes.layouts import Layout
from jitfuse.axes.libraries import compiled
from jitfuse.axes.plans.steps import RuntimeStep, Slot, SpecializationContext, SymbolicStep
from jitfuse.axes.plans.structural import Reindex
from jitfuse.base.records import NamedTuple, Record


class Score(NamedTuple):
    """Lower is better, field by field; of equal plans the first candidate wins.

    A product of elements without a sum is no einsum: it counts as what it stores.
    A product of matrices counts with the elements of its result in `peak_einsum_numel`, an einsum with all that it
    multiplies: a library's product of matrices runs in cache, its einsum loop does not.
    """

    peak_einsum_numel: int
    pre_einsum_materialize_numel: int
    post_einsum_materialize_numel: int
    allocation_count: int
    kernel_count: int
    step_count: int


class SymbolicPlan(Record, frozen=True):
    """An ordered tuple of symbolic steps, from the slots 0, 1, .. of the arrays to those of the results."""

    kind: str
    input_arity: int
    outputs: tuple[Slot, ...]
    steps: tuple[SymbolicStep, ...]

    @property
    def output_arity(self) -> int:
        """The number of results."""
        return len(self.outputs)

    @property
    def writes(self) -> bool:
        """Whether a step writes into an array that another one has made."""
        return any(isinstance(step, Reindex) for step in self.steps)

    def traced(self, context: SpecializationContext) -> tuple[list[Layout], Score]:
        """Return the layouts of the results, and the score; both follow the strides of every step."""
        layouts = dict(enumerate(context.layouts))
        peak = before = behind = allocations = kernels = 0
        last = max((k for k, step in enumerate(self.steps) if step.name in ("einsum", "contract")), default=-1)
        for k, step in enumerate(self.steps):
            made, cost = context.scored(step, layouts)
            layouts.update(zip(step.results, made))
            peak = max(peak, cost.einsum_numel)
            if k <= last:
                before += cost.materialized
            else:
                behind += cost.materialized
            allocations += cost.allocations
            kernels += cost.kernels
        return [layouts[s] for s in self.outputs], Score(peak, before, behind, allocations, kernels, len(self.steps))

    def score(self, context: SpecializationContext) -> Score:
        """Return the score."""
        return self.traced(context)[1]

    def specialize(self, context: SpecializationContext) -> tuple[RuntimeStep, ...]:
        """Return the steps as they run for arrays of these shapes."""
        return tuple(step.specialize(context) for step in self.steps)

    def function(self, steps: Sequence[RuntimeStep], *, single: bool) -> Callable[..., Any]:
        """Return the chain of runtime steps as one function of the arrays; `single`: of one result, not of a tuple."""
        lines = [line for step in steps for line in step.lines]
        names: dict[str, Any] = {}
        for step in steps:
            names.update(step.names)
        results = ", ".join(f"v{s}" for s in self.outputs)
        returned = results if single else f"({results},)"
        return compiled(lines, [f"v{k}" for k in range(self.input_arity)], returned, names)

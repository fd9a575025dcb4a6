"""Bind a call plan to the native call path: its steps and results as a plan's tables.

Owns outputs and result trees. Does not own steps (`jitfuse.compile.bind.steps`), the tables' format
(`jitfuse.backends.llvm.runtime.tables`), kernels or plans.
"""
from __future__ import annotations

import functools
import math
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jitfuse.backends.llvm.runtime.plan_table import PlanBuilder
from jitfuse.backends.llvm.runtime.result_tree import (
    AppliedResult,
    ArrayResult,
    CallResult,
    DictResult,
    ListResult,
    ObjectResult,
    Output,
    PickedResult,
    ResultTree,
    ScalarResult,
    SlotResult,
    TupleResult,
    ViewResult,
)
from jitfuse.base.later import Later
from jitfuse.compile.bind.steps import Location, PlanMemory, StepBinder
from jitfuse.compile.call_plans.call_plan import CallPlan
from jitfuse.compile.guards.guard_tables import BoundEntry
from jitfuse.compile.objects.kernel_object import Kernels
from jitfuse.dtypes import itemsize, numpy_dtype
from jitfuse.tracing.record.foreign import array_as_tensor
from jitfuse.tracing.results.returned import (
    NUMBERS,
    AccessPathLeaf,
    ConstantLeaf,
    OutputLeaf,
    PickedCopy,
    ResultLeaf,
    SameLeaf,
    ViewLeaf,
    rebuilding,
    tree_of,
)
from jitfuse.tracing.results.returned import ResultTree as Tree

control_ops = Later("jitfuse.compile.bind.control_ops")


class Outputs:
    """The output buffers of a plan, and the results made of them; `make` takes dtype, shape and strides."""

    def __init__(self, plan: CallPlan, make: Callable[..., Output]) -> None:
        self.plan = plan
        self._strided = _strided_results(plan)
        self.made = {v: self._made(v, make) for v in plan.outputs}

    def _made(self, value: int, make: Callable[..., Output]) -> Output:
        dtype, view = numpy_dtype(self.plan.outputs[value][0]), self._strided.get(value)
        return make(dtype, self._shape(value)) if view is None else make(dtype, view.shape, view.strides)

    @property
    def locations(self) -> dict[int, Location]:
        """Where the outputs lie."""
        return {v: (output.value, 0) for v, output in self.made.items()}

    def _shape(self, value: int) -> tuple[int, ...]:
        """Return the shape of an output's buffer: that of a result that fills it, so that it needs no other view."""
        shapes = [v.shape for v in self.plan.views.values() if v.buffer == ("value", value) and v.contiguous]
        itself = any(value == result for result, _ in self.plan.results.values())
        return self.plan.outputs[value][1] if itself or not shapes else shapes[0]

    def result(self, path: str, kind: str, memory: PlanMemory) -> ResultTree:
        """Return the result at a path of the program, of a kind as in `OutputLeaf`."""
        value, dtype = self.plan.results[path]
        if kind == "array":
            return self._array(value)
        view = self.plan.views.get(value)
        location = memory.location(("value", value)) if view is None else memory.location(view.buffer, view.offset)
        return scalar_result(location, dtype, kind)

    def _array(self, value: int) -> ResultTree:
        view = self.plan.views.get(value)
        if view is None:
            return ArrayResult(self.made[value])
        whole = ArrayResult(self.made[view.buffer[1]])
        if view is self._strided.get(view.buffer[1]):
            return whole
        if view.contiguous and view.shape == self._shape(view.buffer[1]):
            return whole
        shape, strides = view.shape, view.strides
        return CallResult(lambda items: np.ndarray(shape, items[0].dtype, items[0], 0, strides), (whole,))


def _strided_results(plan: CallPlan) -> dict[int, Any]:
    """Return, by buffer, the results that fill it with permuted axes and are all that is delivered of it."""
    read = [(v, plan.views.get(v)) for v in {value for value, _ in plan.results.values()}]
    users = Counter(v if view is None else view.buffer[1] for v, view in read)
    return {
        view.buffer[1]: view for _, view in read
        if view is not None and view.offset == 0 and users[view.buffer[1]] == 1 and len(view.shape) > 1
        and math.prod(view.shape) == math.prod(plan.outputs[view.buffer[1]][1]) and not view.contiguous
        and all(s > 0 for s in view.strides)
    }


def step_binder(bound: BoundEntry, builder: PlanBuilder, kernels: Kernels | None = None) -> StepBinder:
    """Return the binder of all kinds of steps; few plans have loops or branches."""
    return StepBinder(bound, builder, kernels, lambda *step: control_ops.bind_control(*step))


class PlanBinder:
    """Writes the plan of one mode of a function under a bound entry; `tree` is what calls return.

    The tables hold addresses in `kernels` and `constants`: the caller keeps both as long as the plan is used.
    """

    def __init__(
        self, bound: BoundEntry, tree: Tree, plan: CallPlan, kernels: Kernels | None,
        constants: Mapping[int, np.ndarray[Any, Any]],
    ) -> None:
        self.bound, self.tree, self.plan = bound, tree, plan
        self._builder = bound.entry.plan_builder()
        self._outputs = Outputs(plan, self._builder.output)
        self._binder = step_binder(bound, self._builder, kernels)
        self._memory = PlanMemory(
            plan, {feed: (value, 0) for feed, value in bound.feed_values.items()}, self._outputs.locations,
            self._binder.constants(constants), self._binder.reserve(plan.arena_bytes),
        )

    def build(self) -> Any:
        """Return the plan's tables."""
        self._binder.steps((*self.plan.steps, *self.plan.commits), self._memory)
        self._builder.finish(delivered(self.bound, self.tree, [self._leaf(leaf) for leaf in self.tree.leaves]))
        return self._builder.build(cost=self._binder.cost)

    def _leaf(self, leaf: ResultLeaf) -> ResultTree:
        bound = self.bound
        if isinstance(leaf, SameLeaf) and leaf.feed in bound.tensors:
            return SlotResult(bound.feed_slots[leaf.feed])
        if isinstance(leaf, ViewLeaf) and leaf.feed in bound.tensors:
            return _tensor_view(bound.feed_slots[leaf.feed], leaf, bound.entrance.feeds[leaf.feed].meta.dtype)
        if isinstance(leaf, OutputLeaf):
            made = self._outputs.result(leaf.path, leaf.kind, self._memory)
        else:
            made = known_result(bound, leaf)
        return _as_tensor(leaf, made) if bound.torch else made


def known_result(bound: BoundEntry, leaf: ResultLeaf) -> ResultTree:
    """Return the result of a leaf that needs no computation."""
    if isinstance(leaf, ConstantLeaf):
        return ObjectResult(leaf.value)
    if isinstance(leaf, AccessPathLeaf):
        return SlotResult(bound.slot(leaf.chain))
    if isinstance(leaf, SameLeaf):
        return SlotResult(bound.feed_slots[leaf.feed])
    assert isinstance(leaf, ViewLeaf)
    element = numpy_dtype(bound.entrance.feeds[leaf.feed].meta.dtype)
    return ViewResult(bound.feed_slots[leaf.feed], element, leaf.shape, leaf.strides, leaf.offset)


def scalar_result(location: Location, dtype: str, kind: str) -> ResultTree:
    """Return the number at a location, as NumPy's ("scalar") or as Python's."""
    scalar = ScalarResult(location[0], numpy_dtype(dtype), location[1])
    return scalar if kind == "scalar" else AppliedResult(NUMBERS[dtype], scalar)


# ---------------------------------------------------------------- torch tensors
def _as_tensor(leaf: ResultLeaf, made: ResultTree) -> ResultTree:
    """Return a leaf as a torch tensor, if it is an array or a NumPy scalar."""
    if isinstance(leaf, ConstantLeaf):
        return AppliedResult(array_as_tensor, made) if isinstance(leaf.value, np.ndarray | np.generic) else made
    if isinstance(leaf, OutputLeaf) and leaf.kind == "python":
        return made
    if not isinstance(leaf, OutputLeaf) or leaf.dtype == "bfloat16" or not isinstance(made, ArrayResult | ScalarResult):
        return AppliedResult(_if_array, made)
    array = made if isinstance(made, ArrayResult) else AppliedResult(np.array, made)
    return AppliedResult(sys.modules["torch"].from_numpy, array)


def _if_array(value: Any) -> Any:
    return array_as_tensor(value) if isinstance(value, np.ndarray | np.generic) else value


def _tensor_view(slot: int, leaf: ViewLeaf, dtype: str) -> ResultTree:
    """Return the view of a tensor in a slot."""
    element = itemsize(dtype)
    shape, strides = leaf.shape, tuple(s // element for s in leaf.strides)
    offset = leaf.offset // element

    def view(tensor: Any) -> Any:
        return tensor.as_strided(shape, strides, tensor.storage_offset() + offset)

    return AppliedResult(view, SlotResult(slot))


def delivered(bound: BoundEntry, tree: Tree, leaves: list[Any]) -> Any:
    """Return the tree of a result table for a delivery: plain containers natively; others, and effects on Python
    state, through the tree."""
    if tree.effects:
        from jitfuse.tracing.results.effects import delivery  # few functions write state

        return CallResult(delivery(tree), (*leaves, *(SlotResult(bound.slot(chain)) for chain in tree.owners)))
    if not tree.needs_settling:
        return _assembled(tree.spec, leaves, tree.rebuild)
    copies = [view for view in tree.picked if isinstance(view, PickedCopy) and not view.axis]
    if tree.chosen or len(copies) < len(tree.picked) or bound.torch:
        return CallResult(rebuilding(tree), tuple(leaves))
    for view in copies:
        leaves[view.at] = PickedResult(
            leaves[view.whole], leaves[view.mask], numpy_dtype(view.dtype), view.extent, view.is_whole
        )
    return _assembled(tree.spec, leaves[: len(tree.result_leaves)], functools.partial(tree_of, tree.spec))


def _assembled(spec: Any, leaves: list[Any], rebuild: Callable[[list[Any]], Any]) -> Any:
    if spec is None or spec.is_leaf(strict=True):
        return leaves[0]
    children = spec.children()
    if spec.type in (tuple, list) and all(c.is_leaf(strict=True) for c in children):
        make = TupleResult if spec.type is tuple else ListResult
        return make(tuple(leaves))
    if spec.type is dict and all(c.is_leaf(strict=True) for c in children):
        return _dict_result(spec, leaves)
    return CallResult(rebuild, tuple(leaves))


def _dict_result(spec: Any, leaves: list[Any]) -> Any:
    import optree

    # optree flattens dicts in sorted order and rebuilds them in their own
    order: Any = optree.tree_unflatten(spec, list(range(len(leaves))))
    return DictResult(tuple(order), tuple(leaves[k] for k in order.values()))

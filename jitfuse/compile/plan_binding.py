"""Bind a call plan to the native call path: its steps and results as a plan's tables.

Owns outputs and result trees. Does not own steps (`jitfuse.compile.step_binding`), the tables' format
(`jitfuse.backends.llvm.runtime.tables`), kernels or plans.
"""
from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jitfuse.backends.llvm.runtime.result_tree import (
    AppliedResult,
    ArrayResult,
    CallResult,
    DictResult,
    ListResult,
    ObjectResult,
    ScalarResult,
    SlotResult,
    TupleResult,
    ViewResult,
)
from jitfuse.compile.bind import BoundEntry
from jitfuse.compile.call_plan import CallPlan
from jitfuse.compile.objects import KernelObject
from jitfuse.compile.step_binding import Memory, StepBinder
from jitfuse.dtypes import itemsize, numpy_dtype
from jitfuse.tracing.foreign import array_as_tensor
from jitfuse.tracing.results import ConstantLeaf, OutputLeaf, SameLeaf, ViewLeaf


class PlanBinder:
    """Writes the plan of one mode of the function `name` under a bound entry.

    The tables hold addresses in `kernels` and `constants`: the caller keeps both for as long as the plan is used.
    """

    def __init__(
        self, bound: BoundEntry, plan: CallPlan, kernels: KernelObject | None,
        constants: Mapping[int, np.ndarray[Any, Any]], name: str,
    ) -> None:
        self.bound = bound
        self.plan = plan
        self._builder = bound.entry.plan_builder()
        self._outputs = {v: self._output(v) for v in plan.outputs}
        self._binder = StepBinder(bound, self._builder, kernels, name)
        self._memory = Memory(
            plan, {feed: (value, 0) for feed, value in bound.feed_values.items()},
            {v: (output.value, 0) for v, output in self._outputs.items()}, self._binder.constants(constants),
            self._binder.reserve(plan.arena_bytes),
        )

    def _output(self, value: int) -> Any:
        return self._builder.output(numpy_dtype(self.plan.outputs[value][0]), self._shape(value))

    def _shape(self, value: int) -> tuple[int, ...]:
        """Return the shape of an output's buffer: of a result that is the whole of it, at best without another view."""
        shapes = [v.shape for v in self.plan.views.values() if v.buffer == ("value", value) and v.contiguous]
        itself = any(value == result for result, _ in self.plan.results.values())
        return self.plan.outputs[value][1] if itself or not shapes else shapes[0]

    def build(self) -> Any:
        """Return the plan's tables."""
        self._binder.steps((*self.plan.steps, *self.plan.commits), self._memory)
        self._builder.finish(self._result())
        return self._builder.build(cost=self._binder.cost)

    # ------------------------------------------------------------------ results
    def _result(self) -> Any:
        tree = self.bound.trace.result
        leaves = [self._leaf(leaf) for leaf in tree.leaves]
        return assemble(tree.spec, leaves, tree.rebuild)

    def _leaf(self, leaf: Any) -> Any:
        if isinstance(leaf, SameLeaf) and leaf.feed in self.bound.tensors:
            return SlotResult(self.bound.feed_slots[leaf.feed])
        if isinstance(leaf, ViewLeaf) and leaf.feed in self.bound.tensors:
            return _tensor_view(self.bound.feed_slots[leaf.feed], leaf, self.bound.trace.feeds[leaf.feed].meta.dtype)
        made = self._as_numpy(leaf)
        return _as_tensor(leaf, made) if self.bound.torch else made

    def _as_numpy(self, leaf: Any) -> Any:
        """Return a leaf as the program has it: an array, a NumPy scalar, a Python object."""
        if isinstance(leaf, ConstantLeaf):
            return ObjectResult(leaf.value)
        if isinstance(leaf, SameLeaf):
            return SlotResult(self.bound.feed_slots[leaf.feed])
        if isinstance(leaf, ViewLeaf):
            element = numpy_dtype(self.bound.trace.feeds[leaf.feed].meta.dtype)
            return ViewResult(self.bound.feed_slots[leaf.feed], element, leaf.shape, leaf.strides, leaf.offset)
        assert isinstance(leaf, OutputLeaf)
        value, dtype = self.plan.results[leaf.path]
        if leaf.kind == "array":
            return self._array(value)
        place, offset = self._memory.place(("value", value))
        scalar = ScalarResult(place, numpy_dtype(dtype), offset)
        return scalar if leaf.kind == "scalar" else CallResult(_python_scalar, (scalar,))

    def _array(self, value: int) -> Any:
        view = self.plan.views.get(value)
        if view is None:
            return ArrayResult(self._outputs[value])
        whole = ArrayResult(self._outputs[view.buffer[1]])
        if view.contiguous and view.shape == self._shape(view.buffer[1]):
            return whole
        shape, strides = view.shape, view.strides
        return CallResult(lambda items: np.ndarray(shape, items[0].dtype, items[0], 0, strides), (whole,))


# ---------------------------------------------------------------- torch tensors
def _as_tensor(leaf: Any, made: Any) -> Any:
    """Return a leaf as a tensor of torch's, where it is an array or a NumPy scalar."""
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


def _tensor_view(slot: int, leaf: ViewLeaf, dtype: str) -> Any:
    """Return the view of a tensor in a slot."""
    element = itemsize(dtype)
    shape, strides = leaf.shape, tuple(s // element for s in leaf.strides)
    offset = leaf.offset // element

    def view(tensor: Any) -> Any:
        return tensor.as_strided(shape, strides, tensor.storage_offset() + offset)

    return AppliedResult(view, SlotResult(slot))


def assemble(spec: Any, leaves: list[Any], rebuild: Callable[[list[Any]], Any]) -> Any:
    """Return the result table's tree for a tree spec: plain containers natively, others through `rebuild`."""
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


def _python_scalar(items: list[Any]) -> Any:
    return items[0].item()

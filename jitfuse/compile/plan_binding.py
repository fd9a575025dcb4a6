"""Bind a call plan to the native call path: launches, library calls and results as a plan's tables.

Owns the placing of buffers, the choice of threads, and result trees. Does not own the tables' format
(`jitfuse.backends.llvm.runtime.tables`), kernels or plans.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from jitfuse.backends.llvm.runtime.plan_table import HostArray
from jitfuse.backends.llvm.runtime.result_tree import (
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
from jitfuse.compile.call_plan import CallPlan, KernelCall, LibraryCall, Window
from jitfuse.compile.host_functions import host_function
from jitfuse.compile.objects import KernelObject
from jitfuse.dtypes import numpy_dtype
from jitfuse.tracing.results import ConstantLeaf, OutputLeaf, SameLeaf, ViewLeaf

PARALLEL_NS: Final = 3_000
"""Launches estimated below this run in the calling thread: waking a hot pool costs a tenth of it."""
RELEASE_GIL_NS: Final = 50_000
"""Launches estimated above this let other Python threads run meanwhile."""


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
        self._kernels = kernels
        self._builder = bound.entry.plan_builder()
        self._constants = constants
        self._name = name
        if plan.arena_bytes:
            self._builder.arena(plan.arena_bytes)
        self._outputs = {v: self._output(v) for v in plan.outputs}

    def _output(self, value: int) -> Any:
        dtype, shape = self.plan.outputs[value]
        alias = next((view for view in self.plan.views.values() if view.buffer == ("value", value)), None)
        if alias is not None and alias.contiguous:
            shape = alias.shape
        return self._builder.output(numpy_dtype(dtype), shape)

    def build(self) -> Any:
        """Return the plan's tables."""
        cost = 0
        for step in (*self.plan.steps, *self.plan.commits):
            cost += self._launch(step) if isinstance(step, KernelCall) else self._host(step)
        self._builder.finish(self._result())
        return self._builder.build(cost=cost)

    # ------------------------------------------------------------------ steps
    def _place(self, buffer: Any, offset: int) -> tuple[int, int]:
        """Return (value, byte offset) of a place in a buffer."""
        kind, number = buffer
        if kind == "feed":
            return self.bound.feed_values[number], offset
        if kind == "const":
            return self.bound.anchor_value, self._constants[number].ctypes.data - self.bound.anchor + offset
        if kind == "value" and number in self._outputs:
            return self._outputs[number].value, offset
        return 0, self.plan.offsets[buffer] + offset

    def _launch(self, launch: KernelCall) -> int:
        cost = launch.cost_ns
        assert self._kernels is not None
        self._builder.launch(
            self._kernels.address(launch.kernel), launch.units,
            operands=[self._place(b, o) for b, o in launch.buffers], words=launch.words,
            threads=0 if cost >= PARALLEL_NS and launch.units > 1 else 1,
            scratch=launch.scratch, gil=cost >= RELEASE_GIL_NS, site=len(self.bound.checks),
        )
        self.bound.checks.append(launch.checks)
        return cost

    def _host(self, step: LibraryCall) -> int:
        arrays = [self._host_array(o, False) for o in step.inputs] + [self._host_array(o, True) for o in step.outputs]
        bodies = None
        if step.bodies:
            from jitfuse.compile.bodies import bodies_of

            bodies = bodies_of(step, self._kernels, self._name)
        self._builder.host(host_function(step, bodies), arrays, site=step.step)
        return 2_000

    def _host_array(self, operand: Window, writeable: bool) -> Any:
        value, offset = self._place(operand.buffer, operand.offset)
        kind, number = operand.buffer
        slots = {"feed": self.bound.feed_slots.get(number), "const": self.bound.anchor_slot}
        slot = slots.get(kind)
        strides = None if operand.contiguous else operand.strides
        return HostArray(value, numpy_dtype(operand.dtype), operand.shape, strides, offset, slot, writeable)

    # ------------------------------------------------------------------ results
    def _result(self) -> Any:
        tree = self.bound.trace.result
        leaves = [self._leaf(leaf) for leaf in tree.leaves]
        return assemble(tree.spec, leaves, tree.rebuild)

    def _leaf(self, leaf: Any) -> Any:
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
        place, offset = self._place(("value", value), 0)
        scalar = ScalarResult(place, numpy_dtype(dtype), offset)
        return scalar if leaf.kind == "scalar" else CallResult(_python_scalar, (scalar,))

    def _array(self, value: int) -> Any:
        view = self.plan.views.get(value)
        if view is None:
            return ArrayResult(self._outputs[value])
        whole = ArrayResult(self._outputs[view.buffer[1]])
        if view.contiguous:
            return whole
        shape, strides = view.shape, view.strides
        return CallResult(lambda items: np.ndarray(shape, items[0].dtype, items[0], 0, strides), (whole,))


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

"""Bind a trace to the native call path: guards, feeds and results as tables.

Owns the translation of chains, feed sources and result trees into an entry, and of a runtime plan into the
plan of one mode. Does not own the tables' format (`jitfuse.backends.llvm.runtime.tables`), kernels or plans.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from jitfuse.backends.llvm.codegen.layout import cost_ns, scratch_bytes, units
from jitfuse.backends.llvm.runtime.tables import (
    ArrayResult,
    CallResult,
    DictResult,
    EntryBuilder,
    Handler,
    HostArray,
    ListResult,
    ObjectResult,
    ScalarResult,
    SlotResult,
    TupleResult,
    ViewResult,
)
from jitfuse.compile.objects import KernelObject
from jitfuse.ir.program import RANDOM_STATE, FusedProgram, Meta
from jitfuse.plans import HostCall, HostOperand, Launch, RuntimePlan
from jitfuse.plans.layout import Layout
from jitfuse.tracing.results import ConstantLeaf, OutputLeaf, SameLeaf, ViewLeaf
from jitfuse.tracing.tracer import Trace
from jitfuse.tracing.view import Chain, Guard

PARALLEL_NS: Final = 3_000
"""Launches estimated below this run in the calling thread: waking a hot pool costs a tenth of it."""
RELEASE_GIL_NS: Final = 50_000

class BoundEntry:
    """The entry of one trace under construction, and where each feed's data is found in it."""

    def __init__(
        self, trace: Trace, state: Mapping[str, np.ndarray[Any, Any]], handler: Handler
    ) -> None:
        self.trace = trace
        self._state = state
        self._builder = EntryBuilder(trace.positional, trace.keywords, handler=handler)
        self._slots: dict[Chain, int] = {}
        self.feed_slots: dict[int, int] = {}
        self.feed_values: dict[int, int] = {}
        self._exact = {g.chain for g in trace.guards if g.kind == "TYPE" and g.expected in (list, tuple, dict)}
        self._bind_arguments_first()
        for guard in trace.guards:
            self._bind_guard(guard)
        for chain, feed in trace.aliases:
            self._builder.guard_same(self.slot(chain), self.feed_slots[feed])
        self._guard_overlaps()
        self._anchor = np.zeros(8, np.int64)
        self.anchor_slot = self._builder.constant(self._anchor)
        self.anchor_value = self._builder.guard_array(self.anchor_slot, "int64", (8,))
        self.entry = self._builder.build()

    @property
    def anchor(self) -> int:
        """An address that the anchor value stands for: constants are found at an offset from it."""
        return int(self._anchor.ctypes.data)

    # ------------------------------------------------------------------ guards
    def _bind_arguments_first(self) -> None:
        """Guard the feeds, plain arguments before others: shapes tell entries apart fastest."""
        def depth(item: tuple[int, Any]) -> tuple[bool, int]:
            source = item[1].source
            return (not isinstance(source, Chain) or source.parent is not None, item[0])

        for feed, _ in sorted(self.trace.feeds.items(), key=depth):
            self._bind_feed(feed)

    def slot(self, chain: Chain) -> int:
        """Return the slot with the object at the end of a chain."""
        found = self._slots.get(chain)
        if found is None:
            found = self._slots[chain] = self._new_slot(chain)
        return found

    def _new_slot(self, chain: Chain) -> int:
        b = self._builder
        if chain.parent is not None:
            owner = self.slot(chain.parent)
            if chain.kind == "attr":
                return b.attribute(owner, chain.value)
            return b.item(owner, chain.value) if chain.kind == "key" else b.index(owner, chain.value)
        if chain.kind == "arg":
            return b.argument(chain.value) if isinstance(chain.value, int) else b.keyword(chain.value)
        if chain.kind == "global":
            return b.dict_item(*chain.value)
        return b.cell(chain.value) if chain.kind == "cell" else b.constant(chain.value)

    def _bind_guard(self, guard: Guard) -> None:
        b = self._builder
        slot = self.slot(guard.chain)
        if guard.kind == "IS":
            b.guard_identity(slot, guard.expected)
        elif guard.kind == "TYPE":
            b.guard_type(slot, guard.expected)
        elif guard.kind == "EQ":
            b.guard_equal(slot, guard.expected)
        elif guard.kind == "LEN":
            if guard.chain in self._exact:
                b.guard_length(slot, guard.expected)
            else:
                b.guard_equal(b.call(slot, len), guard.expected)
        elif guard.kind == "KEYS":
            b.guard_equal(b.call(slot, tuple), guard.expected)
        elif guard.chain.kind == "object" and type(guard.chain.value) is dict:
            b.guard_absent(guard.chain.value, guard.expected)
        else:
            b.guard_identity(b.call(slot, _has(guard.expected)), False)

    # ------------------------------------------------------------------ feeds
    def _bind_feed(self, feed: int) -> None:
        trace, b = self.trace, self._builder
        source = trace.feeds[feed]
        if source.kind == "state":
            assert source.source == RANDOM_STATE
            state = self._state[RANDOM_STATE]
            slot = b.constant(state)
            self.feed_values[feed] = b.guard_array(slot, state.dtype, state.shape, writeable=True)
            self.feed_slots[feed] = slot
            return
        slot = self.feed_slots[feed] = self.slot(source.source)
        if source.kind == "array":
            exact = None if is_c_order(source.meta, source.strides) else source.strides
            self.feed_values[feed] = b.guard_array(
                slot, source.meta.dtype, source.meta.shape, exact, writeable=feed in trace.program.writes
            )
        elif source.kind == "numpy":
            self.feed_values[feed] = b.guard_numpy_scalar(slot, source.meta.dtype)
        else:
            self._bind_number(feed, slot)

    def _bind_number(self, feed: int, slot: int) -> None:
        b, dtype = self._builder, self.trace.feeds[feed].meta.dtype
        if feed in self.trace.guarded_values:
            b.guard_equal(slot, self.trace.guarded_values[feed])
        if dtype == "float64":
            self.feed_values[feed] = b.guard_float(slot)
        elif dtype == "bool":
            self.feed_values[feed] = b.guard_bool(slot)
        else:
            self.feed_values[feed] = b.guard_int(slot, *self.trace.int_ranges.get(feed, ()))

    def _guard_overlaps(self) -> None:
        """Have written arguments lie apart from every other array, as they did in the trace."""
        arrays = {f: s for f, s in self.trace.feeds.items() if s.kind == "array"}
        written = [f for f in self.trace.program.writes if f in arrays]
        for a in written:
            for other in arrays:
                if other != a and (other not in written or a < other):
                    self._builder.guard_overlap(
                        self.feed_values[a], self.feed_values[other],
                        extent_a=_extent(arrays[a].meta, arrays[a].strides),
                        extent_b=_extent(arrays[other].meta, arrays[other].strides),
                    )


def _has(key: Any) -> Callable[[Any], bool]:
    return lambda mapping: key in mapping


def is_c_order(meta: Meta, strides: tuple[int, ...]) -> bool:
    """Return whether elements follow each other in row-major order, whatever the strides of extents of 1."""
    expected = np.dtype(meta.dtype).itemsize
    if 0 in meta.shape:
        return True
    for extent, stride in zip(reversed(meta.shape), reversed(strides), strict=True):
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True


def _extent(meta: Meta, strides: tuple[int, ...]) -> tuple[int, int]:
    """Return (first byte, one past the last byte) of an array relative to its data pointer."""
    if 0 in meta.shape:
        return 0, 0
    reach = [(n - 1) * s for n, s in zip(meta.shape, strides, strict=True)]
    return sum(r for r in reach if r < 0), sum(r for r in reach if r > 0) + np.dtype(meta.dtype).itemsize


# ---------------------------------------------------------------- plans
class PlanBinder:
    """Writes the plan of one mode under a bound entry.

    The tables hold addresses in `kernels` and `constants`: the caller keeps both for as long as the plan is used.
    """

    def __init__(
        self, bound: BoundEntry, plan: RuntimePlan, kernels: KernelObject | None, index: Mapping[str, int],
        constants: Mapping[int, np.ndarray[Any, Any]],
    ) -> None:
        self.bound = bound
        self.plan = plan
        self._kernels = kernels
        self._index = index
        self._builder = bound.entry.plan_builder()
        self._constants = constants
        if plan.arena_bytes:
            self._builder.arena(plan.arena_bytes)
        self._outputs = {v: self._output(v) for v in plan.outputs}

    def _output(self, value: int) -> Any:
        meta = self.plan.program.meta[value]
        shape = meta.shape
        aliases = [v for v, view in self.plan.views.items() if view.base == value and v in self._delivered()]
        if aliases and self.plan.views[aliases[0]].layout.contiguous:
            shape = self.plan.views[aliases[0]].layout.shape
        return self._builder.output(meta.dtype, shape)

    def _delivered(self) -> set[int]:
        return set(self.plan.program.outputs.values())

    def build(self) -> Any:
        """Return the plan's tables."""
        cost = 0
        for step in (*self.plan.steps, *self.plan.commits):
            cost += self._launch(step) if isinstance(step, Launch) else self._host(step)
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

    def _launch(self, launch: Launch) -> int:
        count, cost = units(launch.form, launch.sizes), cost_ns(launch.form, launch.sizes)
        assert self._kernels is not None
        self._builder.launch(
            self._kernels.address(self._index[launch.form.content_hash]), count,
            operands=[self._place(b, o) for b, o in launch.buffers], words=launch.words,
            threads=0 if cost >= PARALLEL_NS and count > 1 else 1,
            scratch=scratch_bytes(launch.form, launch.sizes), gil=cost >= RELEASE_GIL_NS, site=0,
        )
        return cost

    def _host(self, step: HostCall) -> int:
        arrays = [*(self._host_array(o, False) for o in step.inputs), self._host_array(step.output, True)]
        self._builder.host(HOST_FUNCTIONS[step.name], arrays, site=step.step)
        return 2_000

    def _host_array(self, operand: HostOperand, writeable: bool) -> Any:
        value, offset = self._place(operand.buffer, operand.offset)
        kind, number = operand.buffer
        slots = {"feed": self.bound.feed_slots.get(number), "const": self.bound.anchor_slot}
        slot = slots.get(kind)
        layout: Layout = operand.layout
        strides = None if layout.contiguous else layout.strides
        return HostArray(value, operand.dtype, layout.shape, strides, offset, slot, writeable)

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
            dtype = self.bound.trace.feeds[leaf.feed].meta.dtype
            return ViewResult(self.bound.feed_slots[leaf.feed], dtype, leaf.shape, leaf.strides, leaf.offset)
        assert isinstance(leaf, OutputLeaf)
        value = self.plan.program.outputs[leaf.path]
        if leaf.kind == "array":
            return self._array(value)
        place, offset = self._place(("value", value), 0)
        scalar = ScalarResult(place, self.plan.program.meta[value].dtype, offset)
        return scalar if leaf.kind == "scalar" else CallResult(_python_scalar, (scalar,))

    def _array(self, value: int) -> Any:
        view = self.plan.views.get(value)
        if view is None:
            return ArrayResult(self._outputs[value])
        whole = ArrayResult(self._outputs[view.base])
        if view.layout.contiguous:
            return whole
        shape, strides = view.layout.shape, view.layout.strides
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


def literal_arrays(program: FusedProgram) -> dict[int, np.ndarray[Any, Any]]:
    """Return the literal arrays that a program's steps read, by value."""
    arrays = {}
    for step in program.steps:
        if step.op_name == "constant":
            data = np.frombuffer(step.attr("data"), np.dtype(step.attr("dtype")).newbyteorder("<"))
            arrays[step.result_id] = data.astype(step.attr("dtype"))
    return arrays


def _matmul(a: Any, b: Any, out: Any) -> None:
    np.matmul(a, b, out=out)


HOST_FUNCTIONS: Final[Mapping[str, Callable[..., None]]] = {"matmul": _matmul}
"""The library calls that a program may make, by operator."""

"""Emit the bodies of one kernel: from program values under index maps to SSA nodes in stages.

A value is requested under an index map. A value that is not in memory is computed on the spot: that is fusion. The
same value under the same map is computed once per stage. Does not own index maps (`jitfuse.plans.index_maps`), which
values share a kernel (`jitfuse.plans.groups`) or the final form (`jitfuse.plans.form`).
"""
from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any, Final

from jitfuse.dtypes import COMPONENT, component, kind
from jitfuse.ir.operators import ops
from jitfuse.ir.program import FusedProgram, Meta, OpStep
from jitfuse.plans.accesses import Accesses
from jitfuse.plans.contraction import products, sides, summed_in
from jitfuse.plans.frame import Frame, MisalignedError, ValueKey, reduced_axes
from jitfuse.plans.layout import Flat, IndexMap, Layout, along
from jitfuse.plans.nodes import INNER, POINT, Node
from jitfuse.plans.stages import StageDraft

KEEP_COST: Final = 8
"""Inner values of at least this cost are kept in scratch for later stages, not recomputed."""

_COMBINERS: Final = {
    "sum": "add", "prod": "multiply", "min": "minimum", "max": "maximum", "any": "logical_or", "all": "logical_and",
}
_NEUTRAL: Final = {"add": 0, "multiply": 1}
_SCANS: Final = {"cumsum": "sum", "cumprod": "prod", "cummin": "min", "cummax": "max"}
_STATIC_SECOND: Final = ("power", "bitwise_left_shift", "bitwise_right_shift")

Locate = Callable[[int], "tuple[Any, Layout] | None"]


class BodyBuilder(Accesses):
    """Builds the stages of one kernel. `locate(value)` returns where a value lies in memory, as (buffer, layout)."""

    def __init__(
        self, program: FusedProgram, frame: Frame, locate: Locate, fused_reductions: frozenset[int],
        unrolled: Container[int], *, keep: bool, contraction: OpStep | None = None, in_cells: bool = False,
    ) -> None:
        super().__init__(program, frame, in_cells=in_cells)
        self.contraction = contraction
        if contraction is not None:
            self.extents = (*frame.extents, products(program, contraction))
        self.keeps: list[Node] = []
        self.results: dict[int, Node] = {}
        self._complex = not program.dtypes.isdisjoint(COMPONENT)
        self._locate = locate
        self._fused = fused_reductions
        self._unrolled = unrolled
        self._keep = keep
        self._memo: dict[ValueKey, Node] = {}
        self._past: dict[ValueKey, tuple[int, Node]] = {}
        self._dependencies: dict[ValueKey, list[ValueKey]] = {}

    def in_cells(self, lead: int) -> BodyBuilder:
        """Return a builder for the same map over its first axes alone, which is to write cells."""
        made = BodyBuilder(
            self.program, Frame(self.frame.shape[:lead], ()), self._locate, frozenset(), self._unrolled, keep=False,
            in_cells=True,
        )
        made.open_stage()
        return made

    # ------------------------------------------------------------------ stages
    def open_stage(self) -> StageDraft:
        """Start a stage: inner values of earlier stages cannot be used from here on."""
        number = len(self.stages) - 1
        in_rows = bool(self.stages) and self.stages[-1].contraction is None  # sides of products are not gone through so
        for key, node in self._memo.items():
            if node.level == INNER and in_rows:
                self._past[key] = (number, node)
        self._memo = {k: n for k, n in self._memo.items() if n.level < INNER}
        self._dependencies.clear()  # masks and computed indices belong to their stage
        self.forget_indices()
        stage = StageDraft()
        self.stages.append(stage)
        return stage

    def contract(self) -> None:
        """Form the sums of products that the kernel begins with, in the current stage, which is the first."""
        step = self.contraction
        assert step is not None and not self.keeps
        dtype = summed_in(self.program.meta[step.result_id].dtype)
        assert dtype is not None
        left, right = (self._in_dtype(self.value(key), dtype) for key in sides(self.program, step, self.frame))
        self.stages[-1].contraction = left, right
        self.keeps.append(Node("contracted", dtype, (), None, INNER))

    def _in_dtype(self, node: Node, dtype: str) -> Node:
        return node if node.dtype == dtype else self.node("astype", dtype, (node,))

    def reduce(self, step: OpStep) -> None:
        """Reduce a step's operand over the inner axes in the current stage."""
        operand = self.value(ValueKey(step.input_ids[0], self.frame.full_map()))
        result = Node("result", self.program.meta[step.result_id].dtype, (), step.result_id, POINT)
        self.stages[-1].reductions.append((step, operand, result))
        self.results[step.result_id] = result

    # ------------------------------------------------------------------ values
    def value(self, key: ValueKey) -> Node:
        """Return the node of a value, computing its operands first (depth first, without recursion)."""
        memo, past = self._memo, self._past if self._keep else {}
        # with what it is computed from, once that is made
        stack: list[tuple[ValueKey, list[ValueKey] | None]] = [(key, None)]
        while stack:
            top, parts = stack.pop()
            if parts is not None:
                memo[top] = self._build(top, [memo[d] for d in parts])
                continue
            if top in memo:
                continue
            in_memory, before = self._locate(top.value), past.get(top) if past else None
            if before is not None and before[1].cost >= KEEP_COST:
                memo[top] = self._kept(*before)
            elif in_memory is not None:
                memo[top] = self.load(top, *in_memory)
            elif ahead := [k for k in self.index_keys(top) if k not in memo]:
                stack += [(top, None), *[(k, None) for k in reversed(ahead)]]
            else:
                parts = self.dependencies(top)
                stack += [(top, parts), *[(d, None) for d in reversed(parts) if d not in memo]]
        return memo[key]

    def dependencies(self, key: ValueKey) -> list[ValueKey]:
        """Return the operands of a value under its map; nothing for values in memory or reduced here.

        Raises MisalignedError if a reduction of this kernel is needed at another grid point than its own.
        """
        found = self._dependencies.get(key)
        if found is None:
            found = self._dependencies[key] = self._find_dependencies(key)
        return found

    def _kept(self, stage: int, node: Node) -> Node:
        if node not in self.keeps:
            self.keeps.append(node)
            self.stages[stage].nodes.append(Node("keep", node.dtype, (node,), self.keeps.index(node), INNER))
        return self.node("kept", node.dtype, (), self.keeps.index(node), INNER)

    def _find_dependencies(self, key: ValueKey) -> list[ValueKey]:
        if self._locate(key.value) is not None:
            return []
        step = self.program.producers[key.value]
        op = ops.get(step.op_name)
        assert op is not None
        if op.kind == ops.REDUCTION:
            if step.result_id in self._unrolled:
                return self.elements(step, key)
            self._check_aligned(step, key.where)
            return []
        if op.kind == ops.CONTRACTION:
            if step is not self.contraction or key.where != self.frame.full_map():
                raise MisalignedError
            return []
        if op.kind == ops.SCAN:
            self._check_scanned(step, key.where)
            return [ValueKey(step.input_ids[0], key.where)]
        return self._operand_parts(step, key)

    def _operand_parts(self, step: OpStep, key: ValueKey) -> list[ValueKey]:
        """Return the operands of a step that reads elements; of complex ones only the parts that it needs."""
        meta = self.program.meta
        if self._complex and meta[key.value].dtype in COMPONENT and key.part is None:
            return [key._replace(part=0), key._replace(part=1)]
        keys = self.operand_keys(step, key)
        if not self._complex:
            return keys
        if step.op_name == "make_complex":
            assert key.part is not None
            return [keys[key.part]]
        part = {"real": 0, "imag": 1}.get(step.op_name, key.part)
        return [k._replace(part=part) if meta[k.value].dtype in COMPONENT else k for k in keys]

    def _check_aligned(self, step: OpStep, index: IndexMap) -> None:
        axes, keepdims = reduced_axes(self.program, step), step.attr("keepdims")
        rank = len(self.program.meta[step.input_ids[0]].shape)
        kept = range(rank) if keepdims else [k for k in range(rank) if k not in axes]
        if step.result_id not in self._fused or isinstance(index, Flat):
            raise MisalignedError
        for part, k in zip(index, kept, strict=True):
            if k not in axes and part != along(self.frame.position(k)):
                raise MisalignedError

    def _check_scanned(self, step: OpStep, index: IndexMap) -> None:
        """Check that a scan is needed along its own inner axis. A mask does not suspend the scan."""
        here = self.frame.reduced == reduced_axes(self.program, step) and index == self.frame.full_map()
        if step.result_id not in self._fused or not here:
            raise MisalignedError

    def _unrolled_result(self, step: OpStep, elements: list[Node]) -> Node:
        """Combine four elements by the lane tree of sum_lanes: (x0 + x2) + (x1 + x3), + 0.0 for float sums.

        Missing elements count as -0.0 in sums, as 1 in products, and as the first element in idempotent reductions.
        """
        op, first = _COMBINERS[step.op_name], elements[0]
        neutral = first
        if op in _NEUTRAL:
            is_float_sum = op == "add" and kind(first.dtype) == "float"
            neutral = self.node("const", first.dtype, (), -0.0 if is_float_sum else _NEUTRAL[op])
        x0, x1, x2, x3 = (
            e if k < 2 else self.node("where", e.dtype, (self.exists[step.result_id, k], e, neutral))
            for k, e in enumerate(elements)
        )
        even, odd = self.node(op, first.dtype, (x0, x2)), self.node(op, first.dtype, (x1, x3))
        total = self.node(op, first.dtype, (even, odd))
        if op == "add" and first.dtype.startswith("float"):
            total = self.node(op, first.dtype, (total, self.node("const", first.dtype, (), 0.0)))
        return total

    # ------------------------------------------------------------------ nodes of steps
    def _build(self, key: ValueKey, inputs: list[Node]) -> Node:
        step = self.program.producers[key.value]
        meta = self.program.meta[key.value]
        if key.part is not None:
            meta = Meta(meta.shape, component(meta.dtype))
        op = ops.get(step.op_name)
        assert op is not None
        if op.kind == ops.REDUCTION:
            return self._result(step) if not inputs else self._unrolled_result(step, inputs)
        if op.kind == ops.CONTRACTION:
            if not self.keeps:
                return self._result(step)
            return self._in_dtype(self.node("kept", self.keeps[0].dtype, (), 0, INNER), meta.dtype)
        if op.kind == ops.SCAN:
            return self.node("scan", meta.dtype, tuple(inputs), _SCANS[step.op_name], INNER)
        if op.kind == ops.ELEMENTWISE:
            return self._elementwise(step, meta, inputs, key.mask)
        if step.op_name in ("concat", "update_slice"):
            keys = self.dependencies(key)
            result = inputs[-1]
            for piece, k in zip(reversed(inputs[:-1]), reversed(keys[:-1]), strict=True):
                assert k.mask is not None
                result = self.node("where", meta.dtype, (k.mask, piece, result))
            return result
        if step.op_name == "update_at":
            target, value, number = inputs
            lead = meta.shape[: len(meta.shape) - len(self.program.meta[step.input_ids[1]].shape)]
            where = key.where.index if isinstance(key.where, Flat) and lead == meta.shape else self.position_of(
                lead, self.unflatten(key.where, meta.shape)[: len(lead)])
            here = self.node("equal", "bool", (self.index_node(where), number))
            return self.node("where", meta.dtype, (here, value, target))
        if op.kind == ops.VIEW:
            return inputs[-1]  # a gather's indices come first
        builder: Callable[[OpStep, ValueKey], Node] = getattr(self, f"_make_{step.op_name}")
        return builder(step, key)

    def _result(self, step: OpStep) -> Node:
        """Return the node of a reduction's or contraction's result.

        A probe reduces nothing: it requests results that indices need, which get a node here.
        """
        found = self.results.get(step.result_id)
        if found is None:
            dtype = self.program.meta[step.result_id].dtype
            found = self.results[step.result_id] = Node("result", dtype, (), step.result_id, POINT)
        return found

    def _elementwise(self, step: OpStep, meta: Meta, inputs: list[Node], mask: Node | None) -> Node:
        if step.op_name in ("copy", "real", "imag", "make_complex", "python_number"):
            return inputs[0]
        if step.op_name == "astype":
            return inputs[0] if inputs[0].dtype == meta.dtype else self.node("astype", meta.dtype, (inputs[0],))
        if step.op_name == "require":
            if mask is not None:  # lanes that are off must not raise
                ok = self.node("where", "bool", (mask, inputs[1], self.node("const", "bool", (), 1)))
                inputs = [inputs[0], ok]
            return self.node("require", meta.dtype, tuple(inputs), step.attr("status"))
        if step.op_name in _STATIC_SECOND:
            maker = self.program.producers.get(step.input_ids[1])
            if maker is not None and maker.op_name == "full":
                static = self.node("const", inputs[1].dtype, (), maker.attr("value"))
                inputs = [inputs[0], static]
        if step.op_name == "power" and mask is not None and meta.dtype.startswith("int"):
            # lanes that are off hold no exponent of the user's: they must not raise
            nothing = self.node("const", inputs[1].dtype, (), 0)
            inputs = [inputs[0], self.node("where", inputs[1].dtype, (mask, inputs[1], nothing))]
        return self.node(step.op_name, meta.dtype, tuple(inputs))

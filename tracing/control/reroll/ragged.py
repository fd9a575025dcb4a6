"""Sums over rows whose length differs between iterations: `a[i, :j] @ x[:j]` in loops over triangles.

Ops of different shapes are no equal iterations. But a sum over a part of a row equals one over the whole row where all
other elements count as zero. Then iterations have equal shapes, and the length is a literal that differs. Owns which
sums are rewritten so, and the resulting graph. Does not own whether that makes loops
(`jitfuse.tracing.control.reroll.rerolling`).
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from jitfuse.base.records import NamedTuple
from jitfuse.ir.operators import ops
from jitfuse.ir.program import Meta, make_attrs
from jitfuse.tracing.control.reroll.run import attr
from jitfuse.tracing.record.graph import OpNode, ProcessGraph
from jitfuse.tracing.schedule.translator import Boundary

_LONGEST: Final = 512
"""Length up to which rows are always read whole: that takes no more time than to launch a kernel for a part."""
_WASTE: Final = 4
"""Of longer rows, at least one in this many elements must count."""
_LENGTHS: Final = 4
"""Fewest different lengths for which sums are rewritten."""
_DTYPES: Final = frozenset({"float32", "float64", "int64"})
_ELEMENTS: Final = frozenset({"add", "subtract", "multiply", "negative", "abs", "square"})
"""Operators that may be applied to elements that do not count: they never raise, and take equal time for all values."""
_DEEP: Final = 6
"""Most of these operators in a chain: a longer one comes from an inner loop."""
_SUMS: Final = frozenset({"sum", "einsum", "matmul"})
_UNKNOWN: Final = -1


class _RaggedRow(NamedTuple):
    """`size` elements from `start` on along an axis of an array, at `starts` along the other axes.

    Of a single element the axis may be `_UNKNOWN`.
    """

    array: int
    shape: tuple[int, ...]
    starts: tuple[int, ...]
    axis: int
    size: int

    def along(self, axis: int) -> _RaggedRow | None:
        """Return the row along this axis; None where it lies along another."""
        return self if self.axis == axis else self._replace(axis=axis) if self.axis == _UNKNOWN else None

    @property
    def start(self) -> int:
        return self.starts[self.axis]

    @property
    def length(self) -> int:
        return self.shape[self.axis]


class _Sum(NamedTuple):
    """A sum over parts of rows, with the row of each value."""

    op: OpNode
    rows: dict[int, _RaggedRow]


def with_whole_rows(graph: ProcessGraph, boundary: Boundary, least: int, worth: int) -> ProcessGraph | None:
    """Return a graph with sums over whole rows in place of those over parts; None where there are too few.

    At least `least` sums of one line and form must differ in length; over all lines they must span at least `worth`
    ops. Tensors keep their numbers.
    """
    live = graph.live_ops(boundary.delivered())
    families: dict[Any, list[_Sum]] = {}
    for op in live:
        summed = _summed(graph, op) if op.op_name in _SUMS else ()
        if summed:
            rows: dict[int, _RaggedRow] = {}
            form = tuple([_form(graph, value, rows) for value in summed])
            if None not in form and rows:
                families.setdefault((op.source, op.op_name, form, len(rows)), []).append(_Sum(op, rows))
    masked = {line: found for line, family in families.items() if (found := dict(_masked(family, least)))}
    if sum([max(found) - min(found) for found in masked.values()]) < worth:
        return None
    return _Writing(graph).written(live, {op: mask for found in masked.values() for op, mask in found.items()})


def _summed(graph: ProcessGraph, op: OpNode) -> tuple[int, ...]:
    """Return the values whose sum, or sum of products, an op computes; () for other ops."""
    metas = graph.metas
    if op.op_name == "sum":
        fits = attr(op, "axis") in (None, 0, (0,)) and not attr(op, "keepdims")
    elif op.op_name == "einsum":
        fits = len(op.input_ids) == 2 and attr(op, "subscripts") in ("A,A->", "a,a->")
    else:
        fits = metas[op.result_ids[0]].shape == ()
    alike = {(metas[t].ndim, metas[t].dtype, metas[t].weak) for t in op.input_ids} if fits else set()
    one = len(alike) == 1 and next(iter(alike)) in [(1, dtype, False) for dtype in _DTYPES]
    return op.input_ids if one and metas[op.result_ids[0]].dtype == metas[op.input_ids[0]].dtype else ()


def _form(graph: ProcessGraph, value: int, rows: dict[int, _RaggedRow], deep: int = _DEEP) -> Any:
    """Return how a value is computed from parts of rows, which are added to `rows`; None for other values.

    None, too, for a chain of more than `deep` operators.
    """
    meta, op = graph.metas[value], graph.node(value)
    if not meta.shape:
        return "number", meta
    row = _row(graph, value)
    if row is not None:
        rows[value] = row
        return "row", row.shape, meta.dtype
    if op is None or op.op_name not in _ELEMENTS or not deep:
        return None
    parts = tuple([_form(graph, i, rows, deep - 1) for i in op.input_ids])
    return None if None in parts else (op.op_name, meta.dtype, parts)


def _row(graph: ProcessGraph, value: int) -> _RaggedRow | None:
    """Return the part of a row that a value is; None for other values."""
    op = graph.node(value)
    if op is not None and op.op_name == "reshape" and graph.metas[value].ndim == 1:
        op = graph.node(op.input_ids[0])
    if op is None or op.op_name != "slice":
        return None
    counts, starts, steps = attr(op, "counts"), attr(op, "starts"), attr(op, "steps")
    (array,), shape = op.input_ids, graph.metas[op.input_ids[0]].shape
    long = [axis for axis, count in enumerate(counts) if count != 1] if len(counts) > 1 else [0]
    if len(long) > 1 or graph.metas[value].ndim != 1 or (long and steps[long[0]] != 1):
        return None
    axis = long[0] if long else _UNKNOWN
    return _RaggedRow(array, shape, starts, axis, graph.metas[value].shape[0])


class _Mask(NamedTuple):
    """Which elements of whole rows count: those from `start` on and before `stop`, where these are given."""

    rows: Mapping[int, _RaggedRow]
    start: int | None
    stop: int | None


def _masked(family: list[_Sum], least: int) -> Iterator[tuple[int, _Mask]]:
    """Yield the op and mask of each sum of a family whose rows lie along the same axes, where it pays."""
    known = (tuple([row.axis for row in s.rows.values()]) for s in family)
    axes = next((found for found in known if _UNKNOWN not in found), None)
    if axes is None or len(family) < least:
        return
    fitting = [(s.op.id, rows) for s in family if (rows := _along(s.rows, axes)) is not None]
    one = [next(iter(rows.values())) for _, rows in fitting]
    total = sum([row.size for row in one])
    if len(fitting) < least or len({row.size for row in one}) < _LENGTHS:
        return
    if one[0].length > _LONGEST and one[0].length * len(one) > _WASTE * total:
        return
    begins = all(row.start == 0 or not row.size for row in one)
    ends = not begins and all(row.start + row.size == row.length or not row.size for row in one)
    for (op, rows), row in zip(fitting, one, strict=True):
        start = row.length - row.size if ends else row.start
        yield op, _Mask(rows, None if begins else start, None if ends else row.size if begins else start + row.size)


def _along(rows: Mapping[int, _RaggedRow], axes: tuple[int, ...]) -> dict[int, _RaggedRow] | None:
    """Return rows along these axes; None where they lie along others, or differ in start or length."""
    found: dict[int, _RaggedRow] = {}
    for (value, row), axis in zip(rows.items(), axes, strict=True):
        found_row = row.along(axis)
        if found_row is None:
            return None
        found[value] = found_row
    parts = {(row.start if row.size else 0, row.size, row.length) for row in found.values()}
    return found if len(parts) == 1 else None


class _Writing:
    """A graph under construction: the old one's tensors, and new ones after them."""

    def __init__(self, graph: ProcessGraph) -> None:
        self._old = graph
        self._new = ProcessGraph()
        self._new.metas = list(graph.metas)
        self._new.feed_names = dict(graph.feed_names)
        self._ops: list[OpNode] = []
        self._given: dict[Any, int] = {}
        """The tensors of numbers and index ranges, which come before all other ops, once each."""
        self._literals: list[OpNode] = []

    def written(self, live: list[OpNode], masks: Mapping[int, _Mask]) -> ProcessGraph:
        """Return the graph in which these ops sum whole rows."""
        for op in live:
            mask = masks.get(op.id)
            if mask is None:
                self._ops.append(op)
            else:
                self._sum(op, mask)
        new = self._new
        new.ops = [op._replace(id=k) for k, op in enumerate([*self._literals, *self._ops])]
        new.producer = [None] * len(new.metas)
        for op in new.ops:
            for t in op.result_ids:
                new.producer[t] = op.id
        return new

    def _sum(self, op: OpNode, mask: _Mask) -> None:
        made: dict[int, int] = {}
        rows = [self._whole(value, mask.rows, made, op) for value in op.input_ids]
        whole = rows[0] if len(rows) == 1 else self._op("multiply", tuple(rows), {}, op)
        dtype, (length,) = self._new.metas[whole].dtype, self._new.metas[whole].shape
        positions = self._one("arange", {"start": 0, "step": 1, "count": length, "dtype": "int64"}, op)
        conditions = [
            self._op(name, (positions, self._bound(bound, length, op)), {}, op)
            for name, bound in (("greater_equal", mask.start), ("less", mask.stop)) if bound is not None
        ]
        counts = conditions[0] if len(conditions) == 1 else self._op("logical_and", tuple(conditions), {}, op)
        zero = self._number(0, "int64", op) if dtype == "int64" else self._number(0.0, "float64", op)
        counted = self._op("where", (counts, whole, zero), {}, op)
        attrs = make_attrs({"axis": (0,), "keepdims": False})
        self._ops.append(op._replace(op_name="sum", input_ids=(counted,), attrs=attrs))

    def _whole(self, value: int, rows: Mapping[int, _RaggedRow], made: dict[int, int], by: OpNode) -> int:
        """Return the value computed from whole rows in place of their parts."""
        if not self._old.metas[value].shape:
            return value
        if value not in made:
            row = rows.get(value)
            if row is None:
                op = self._old.node(value)
                assert op is not None
                inputs = tuple([self._whole(i, rows, made, by) for i in op.input_ids])
                made[value] = self._op(op.op_name, inputs, dict(op.attrs), op)
            else:
                starts = tuple([0 if k == row.axis else start for k, start in enumerate(row.starts)])
                counts = tuple([row.length if k == row.axis else 1 for k in range(len(starts))])
                region = {"starts": starts, "counts": counts, "steps": (1,) * len(starts)}
                made[value] = self._op("slice", (row.array,), region, by)
                if len(counts) > 1:
                    made[value] = self._op("reshape", (made[value],), {"shape": (row.length,)}, by)
        return made[value]

    def _bound(self, value: int, length: int, op: OpNode) -> int:
        """Return a bound, read at its index from a range of all bounds, so that only a slice moves between iterations.

        So bodies of loops contain no numbers that differ, and are equal.
        """
        bounds = self._one("arange", {"start": 0, "step": 1, "count": length + 1, "dtype": "int64"}, op)
        row = self._op("slice", (bounds,), {"starts": (value,), "counts": (1,), "steps": (1,)}, op)
        return self._op("reshape", (row,), {"shape": ()}, op)

    def _number(self, value: float, dtype: str, op: OpNode) -> int:
        return self._one("full", {"shape": (), "value": value, "dtype": dtype, "weak": True}, op)

    def _one(self, name: str, attrs: dict[str, Any], by: OpNode) -> int:
        """Return a tensor that comes before all other ops, created on first use."""
        key = name, tuple(attrs.values())
        if key not in self._given:
            made = self._made(name, (), attrs, by)
            self._literals.append(made)
            self._given[key] = made.result_ids[0]
        return self._given[key]

    def _op(self, name: str, inputs: tuple[int, ...], attrs: dict[str, Any], by: OpNode) -> int:
        self._ops.append(self._made(name, inputs, attrs, by))
        return self._ops[-1].result_ids[0]

    def _made(self, name: str, inputs: tuple[int, ...], attrs: dict[str, Any], by: OpNode) -> OpNode:
        row = ops.get(name)
        assert row is not None
        metas = self._new.metas
        meta: Meta = row.result_meta([metas[t] for t in inputs], attrs)
        metas.append(meta)
        return OpNode(0, name, inputs, make_attrs(attrs), (len(metas) - 1,), False, by.source)

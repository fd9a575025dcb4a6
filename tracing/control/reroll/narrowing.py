"""Narrows loops to the parts of arrays that they touch, so that the inner loops of an outer one become equal.

The loop over row i has other windows than the one over row i + 1. Over a part of the array both are the same loop,
between a slice and an update that move as all slices do. Owns these parts. Does not own where loops are found
(`jitfuse.tracing.control.reroll.rerolling`).
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from jitfuse.base.records import NamedTuple
from jitfuse.ir.program import FusedProgram, Meta, make_attrs
from jitfuse.ir.semantics.rerolled import IterationWindow, accesses
from jitfuse.tracing.control.reroll.arrays import MovingRegion, hull_of, in_order
from jitfuse.tracing.control.reroll.run import GraphTensors
from jitfuse.tracing.record.graph import OpNode


class Narrowed(NamedTuple):
    """The ops that replace a loop, and the new tensors for its results."""

    ops: list[OpNode]
    renamed: dict[int, int]


class _TouchedPart(NamedTuple):
    """The part of an operand that a loop touches, with the regions of its windows in it."""

    box: MovingRegion
    written: MovingRegion | None


class _TouchedRows(NamedTuple):
    """A narrowed loop, for reuse: the first rows that it touches, its parts and attributes."""

    rows: tuple[int, ...]
    parts: dict[int, _TouchedPart]
    attrs: Any


class Narrowing:
    """Narrows the loops of one line. Of loops that differ only in their rows, one is analysed."""

    def __init__(self, tensors: GraphTensors) -> None:
        self._tensors = tensors
        self._met: dict[Any, _TouchedRows] = {}

    def narrowed(self, op: OpNode) -> Narrowed | None:
        """Return the loop over the parts of its operands that it touches; None where it touches all of each."""
        loop = _NarrowedLoop(self._tensors, op)
        rows, key = loop.by_rows()
        met = self._met.get(key)
        parts = None if met is None else loop.moved(met.parts, [a - b for a, b in zip(rows, met.rows, strict=True)])
        if met is None or parts is None:
            parts = {n: part for n in range(len(loop.sources)) if (part := loop.part(n)) is not None}
            if not parts:
                return None
            met = self._met[key] = _TouchedRows(rows, parts, loop.narrow_attrs(parts))
        return loop.over(parts, met.attrs)


class _NarrowedLoop:
    """A `rolled_loop`, by its windows."""

    def __init__(self, tensors: GraphTensors, op: OpNode) -> None:
        self.tensors, self.op, self.metas = tensors, op, tensors.metas
        self.attrs: dict[str, Any] = dict(op.attrs)
        self.carries, self.arrays, self.length = (self.attrs[k] for k in ("carries", "arrays", "length"))
        self.sources = op.input_ids[self.carries :]
        self.body: FusedProgram = self.attrs["body"]
        self.feeds = self.body.ordered_feeds[self.carries + len(self.attrs["reads"]) :]

    @cached_property
    def reads(self) -> list[IterationWindow]:
        """The windows that are read."""
        return accesses(self.attrs["reads"])

    @cached_property
    def writes(self) -> list[IterationWindow]:
        """The windows that are written."""
        return accesses(self.attrs["writes"])

    def by_rows(self) -> tuple[tuple[int, ...], Any]:
        """Return the first row of each operand, and a key that is equal for loops that differ only in these rows."""
        shapes = [self.metas[t].shape for t in self.sources]
        widths = [math.prod(shape[1:]) or 1 for shape in shapes]
        reads, writes = self.attrs["reads"], self.attrs["writes"]
        low: dict[int, int] = {}
        for operand, offset, *_ in (*reads, *writes):
            low[operand] = min(offset, low.get(operand, offset))
        rows = tuple([low.get(n, 0) // width for n, width in enumerate(widths)])
        windows = [(a[0], a[1] - rows[a[0]] * widths[a[0]], a[2:]) for a in (*reads, *writes)]
        literal = [t in self.tensors.literals for t in self.sources]
        return rows, (self.body, self.carries, self.arrays, self.length, len(reads), *shapes, *literal, *windows)

    def moved(self, parts: dict[int, _TouchedPart], rows: Sequence[int]) -> dict[int, _TouchedPart] | None:
        """Return the parts for a loop `rows` further on; None where they would leave an array."""
        found = {}
        for operand, (box, written) in parts.items():
            by = rows[operand]
            if not 0 <= box.starts[0] + by <= self.metas[self.sources[operand]].shape[0] - box.counts[0]:
                return None
            found[operand] = _TouchedPart(_shifted(box, by), None if written is None else _shifted(written, by))
        return found

    def part(self, operand: int) -> _TouchedPart | None:
        """Return the part of an operand that the loop touches; None where that is all of it, or unknown."""
        shape = self.metas[self.sources[operand]].shape
        feed = self.feeds[operand]
        windows = [a for a in (*self.reads, *self.writes) if a.operand == operand]
        if not windows or self.body.consumers.get(feed) or feed in self.body.outputs.values():
            return None
        if self.sources[operand] in self.tensors.literals:
            return None
        regions = [self._swept(a, shape) for a in windows]
        known = [r for r in regions if r is not None]
        if len(known) < len(regions):
            return None
        box = hull_of(known, shape)
        if box.counts == shape:
            return None
        written = [r for a, r in zip(windows, known, strict=True) if any(a is w for w in self.writes)]
        return _TouchedPart(box, hull_of(written) if written else None)

    def _swept(self, access: IterationWindow, shape: tuple[int, ...]) -> MovingRegion | None:
        """Return the box that a window covers over all iterations; None where its axes are not the array's."""
        _, offset, step, _, extents, strides = access
        rows = in_order(shape)
        if not extents:  # one element
            extents, strides = (1,) * len(shape), rows
        if len(extents) != len(shape) or 0 in extents or 0 in shape or not self.length:
            return None
        begins, ends_at = _indices(offset, rows), _indices(offset + (self.length - 1) * step, rows)
        low: list[int] = []
        high: list[int] = []
        for n, stride, extent, tensors, end, whole in zip(extents, strides, shape, begins, ends_at, rows, strict=True):
            if n > 1 and stride % whole:
                return None
            reach = (n - 1) * (stride // whole)
            ends = (tensors, end, tensors + reach, end + reach)
            if min(ends) < 0 or max(ends) >= extent:
                return None
            low.append(min(ends))
            high.append(max(ends))
        counts = tuple(b - a + 1 for a, b in zip(low, high, strict=True))
        return MovingRegion(counts, tuple(low), (1,) * len(low), (0,) * len(low))

    # ------------------------------------------------------------------ the loop over parts
    def over(self, parts: dict[int, _TouchedPart], attrs: Any) -> Narrowed:
        """Return the loop over parts of operands, with slices before it and updates after it."""
        made: list[OpNode] = []
        inputs = list(self.op.input_ids)
        for operand, part in parts.items():
            inputs[self.carries + operand] = self._add(made, "slice", (self.sources[operand],), part.box)
        metas = [self.metas[t] for t in inputs[: self.carries + self.arrays]]
        results = tuple(self.tensors.tensor(Meta(m.shape, m.dtype, m.device)) for m in metas)
        made.append(self.op._replace(input_ids=tuple(inputs), attrs=attrs, result_ids=results))
        renamed = dict(zip(self.op.result_ids, results, strict=True))
        for operand in range(self.arrays):
            if operand in parts:
                box, written = parts[operand]
                result, old = results[self.carries + operand], self.op.result_ids[self.carries + operand]
                assert written is not None
                if written != box:
                    inside = written._replace(
                        starts=tuple(a - b for a, b in zip(written.starts, box.starts, strict=True)))
                    result = self._add(made, "slice", (result,), inside)
                renamed[old] = self._add(made, "update_slice", (self.sources[operand], result), written)
        return Narrowed(made, renamed)

    def narrow_attrs(self, parts: dict[int, _TouchedPart]) -> Any:
        """Return the attributes of the loop over parts."""
        def moved(access: IterationWindow) -> tuple[int, ...]:
            part = parts.get(access.operand)
            if part is None:
                return access.coded()
            return self._rebased(access, part.box).coded()

        meta = dict(self.body.meta)
        for operand, part in parts.items():
            old = meta[self.feeds[operand]]
            meta[self.feeds[operand]] = Meta(part.box.counts, old.dtype, old.device)
        return make_attrs({
            **self.attrs, "body": self.body.replace(meta=meta),
            "reads": [moved(a) for a in self.reads], "writes": [moved(a) for a in self.writes],
        })

    def _rebased(self, access: IterationWindow, box: MovingRegion) -> IterationWindow:
        """Return a window of an operand as a window of its part."""
        shape = self.metas[self.sources[access.operand]].shape
        whole, part = in_order(shape), in_order(box.counts)
        first, second = (_indices(access.offset + k * access.step, whole) for k in (0, min(1, self.length - 1)))
        offset = sum((p - s) * stride for p, s, stride in zip(first, box.starts, part, strict=True))
        step = sum((b - a) * stride for a, b, stride in zip(first, second, part, strict=True))
        strides = tuple(s // w * p for s, w, p in zip(access.strides, whole, part, strict=bool(access.shape)))
        return access._replace(offset=offset, step=step, strides=strides)

    def _add(self, made: list[OpNode], name: str, inputs: tuple[int, ...], region: MovingRegion) -> int:
        first = self.metas[inputs[0]]
        shape = region.counts if name == "slice" else first.shape
        result = self.tensors.tensor(Meta(shape, first.dtype, first.device))
        attrs = make_attrs({"counts": region.counts, "starts": region.starts, "steps": region.steps})
        made.append(self.op._replace(op_name=name, input_ids=inputs, attrs=attrs, result_ids=(result,)))
        return result


def _shifted(box: MovingRegion, rows: int) -> MovingRegion:
    """Return a region moved by some rows."""
    return box._replace(starts=(box.starts[0] + rows, *box.starts[1:]))


def _indices(offset: int, strides: Sequence[int]) -> list[int]:
    """Return the index along each axis of an element of an array in C order, with these strides."""
    found = []
    for stride in strides:
        index, offset = divmod(offset, stride)
        found.append(index)
    return found

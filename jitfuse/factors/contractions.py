"""One contraction: how the product of tensors, summed over some axes, is written in steps of arrays.

A kernel is compiled for each pattern of axes, so patterns must be few whatever the graph. There are four ways:

broadcast  adjacent axes that the same tensors have merge into one, and the product is one of broadcast arrays: for
           large tensors of which few axes are left
rows       the last axes of the result lie in memory as they do there in every tensor that has them: rows are taken by
           number, and computed along
elements   every element is taken by number: all other large tensors
small      the same with a table of all numbers: these share one kernel, whatever their axes are

A number is a sum of offsets, one for the axes that are summed, one for the first and one for the last axes of the
result, which lie in short tables. So tensors of any number of axes in any order need no transposed copy.
"""
from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Final, Literal

import numpy as np

from jitfuse.base.records import NamedTuple
from jitfuse.factors.ir.schema import Axis, AxisKey, TensorSpec
from jitfuse.factors.semirings import Array, Semiring
from jitfuse.tracing.abstract import AbstractTensor

FEW_BLOCKS: Final = 4
"""Merged axes up to which a contraction of large tensors is one of broadcast arrays."""
LARGE: Final = 1 << 12
"""Elements of the result times summed elements, from which on a contraction may have a kernel of its own."""
ROW: Final = 32
"""Elements of a row, from which on rows are taken."""
_stored: Final = AbstractTensor.copy  # type: ignore[attr-defined]


class Row(NamedTuple):
    """A tensor that is one row of an array [batch, rows, *shape of the tensor]; batch may be missing."""

    stack: Array
    row: int

    def alone(self, ndim: int) -> Array:
        """Return the tensor, of so many axes, behind its batch axes."""
        return self.stack[(..., self.row, *(slice(None),) * ndim)]


Way = Literal["broadcast", "rows", "elements", "small"]


class Contraction:
    """A contraction of tensors with these axes into one with those.

    `tables` are the numbers that it reads; `start` is where they begin among those of all contractions of a program.
    `rows` has for each tensor its row, if it is one of several (`Row`).
    """

    def __init__(self, specs: Sequence[TensorSpec], out: TensorSpec, start: int, rows: Sequence[int | None]) -> None:
        self.specs, self.out = tuple(specs), out
        self.tables = np.zeros(0, np.int64)
        self._blocks: list[Block] = []
        self._places: list[list[int] | None] = []
        self._row = self._row_size = 0
        loops = Loops(specs, out)
        sizes = {axis.key: axis.size for spec in specs for axis in spec.axes}
        self._summed = tuple([Axis(key[1], key[0], sizes[key]) for key in loops.order if not out.has_key(key)])
        work = out.size * prod([axis.size for axis in self._summed])
        row = _row(self.specs, out)
        row_size = prod([a.size for a in out.axes[out.ndim - row :]])
        if work < LARGE:
            self.way: Way = "small"
        elif len(loops.blocks) <= FEW_BLOCKS:
            self.way = "broadcast"
            self._blocks = loops.blocks
            self._places = [loops.places(spec) for spec in specs]
            return
        elif row_size >= ROW:
            self.way = "rows"
            self._row, self._row_size = row, row_size
        else:
            self.way = "elements"
        self._fill(start, rows)

    def __call__(self, semiring: Semiring, arrays: Sequence[Array | Row], offsets: Array) -> Array:
        """Return the result; arrays may have batch axes in front. `offsets` are the tables of all contractions."""
        if self._blocks:
            arrays = [a.alone(s.ndim) if isinstance(a, Row) else a for a, s in zip(arrays, self.specs)]
        leads = [_lead(array, spec) for array, spec in zip(arrays, self.specs)]
        batch = max(leads, key=len)
        parts = self._broadcast(arrays, leads) if self._blocks else self._taken(arrays, leads, offsets)
        product = parts[0]
        for part in parts[1:]:
            product = semiring.multiply(product, part)
        summed = tuple([len(batch) + i for i, block in enumerate(self._blocks) if not block.stays])
        if not self._blocks and self._summed:
            summed = (len(batch),)
        result = semiring.sum(product, summed).reshape(batch + self.out.shape)
        # stored: it is read several times, and a kernel that computed it anew would be one more kernel to compile
        return _stored(result) if isinstance(result, AbstractTensor) else result

    def _broadcast(self, arrays: Sequence[Array], leads: Sequence[tuple[int, ...]]) -> list[Array]:
        parts = []
        batch = max(map(len, leads))
        for which, (array, own, places) in enumerate(zip(arrays, leads, self._places)):
            if places is not None:
                array = array.transpose(*range(len(own)), *[len(own) + p for p in places])
            shape = tuple([block.size if which in block.readers else 1 for block in self._blocks])
            parts.append(array.reshape((own or (1,) * batch) + shape))
        return parts

    # ------------------------------------------------------------------ rows and elements
    def _fill(self, start: int, rows: Sequence[int | None]) -> None:
        """Fill the tables: for each tensor the offsets of the summed axes, of the first and of the last axes."""
        axes = self.out.axes[: self.out.ndim - self._row]
        last = _half(axes) if self.way == "elements" else 0
        groups: list[tuple[Axis, ...]] = [(*self._summed, *axes)] if self.way == "small" else [
            self._summed, axes[: len(axes) - last], *([axes[len(axes) - last :]] if last else [])]
        self._ranges: list[list[tuple[int, int]]] = []
        tables, end = [], start
        for spec, row in zip(self.specs, rows):
            unit = self._row_size if self._is_wide(spec) else 1
            ranges = []
            for number, group in enumerate(groups):
                first = (row or 0) * spec.size if number == 0 else 0
                table = (_offsets_of(spec, group) + first) // unit
                tables.append(table)
                ranges.append((end, end + len(table)))
                end += len(table)
            self._ranges.append(ranges)
        self.tables = np.concatenate(tables)

    def _is_wide(self, spec: TensorSpec) -> bool:
        """Whether a tensor has the axes of the rows."""
        return bool(self._row) and spec.has_key(self.out.axes[-1].key)

    def _taken(
        self, arrays: Sequence[Array | Row], leads: Sequence[tuple[int, ...]], offsets: Array
    ) -> list[Array]:
        """Return of each tensor the elements or rows that are multiplied: [batch, summed, first, last or row]."""
        parts = []
        batch = max(map(len, leads))
        for array, own, spec, ranges in zip(arrays, leads, self.specs, self._ranges):
            wide = self._is_wide(spec)
            whole = array.stack if isinstance(array, Row) else array
            flat = whole.reshape((*(own or (1,) * batch), -1, *((self._row_size,) if wide else ())))
            numbers = self._numbers([offsets[start:stop] for start, stop in ranges])
            part = flat[(..., numbers, slice(None)) if wide else (..., numbers)]
            parts.append(part[..., None] if self._row and not wide else part)
        return parts

    def _numbers(self, tables: Sequence[Array]) -> Array:
        """Return the numbers of what is taken of a tensor: [summed, result] or [summed, first, last]."""
        if self.way == "small":
            return tables[0].reshape(-1, self.out.size) if self._summed else tables[0]
        number = tables[0][:, None] + tables[1]
        if len(tables) > 2:
            number = number[:, :, None] + tables[2]
        return number if self._summed else number[0]


def _lead(array: Array | Row, spec: TensorSpec) -> tuple[int, ...]:
    """Return the shape of an array's batch axes."""
    if isinstance(array, Row):
        return tuple(array.stack.shape[: array.stack.ndim - spec.ndim - 1])
    return tuple(array.shape[: array.ndim - spec.ndim])


class Block(NamedTuple):
    """Adjacent axes with the same readers: their size together, the tensors that have them, if the result does."""

    size: int
    readers: frozenset[int]
    stays: bool


def _row(specs: Sequence[TensorSpec], out: TensorSpec) -> int:
    """Return how many last axes of the result are, in the same order, the last ones of every tensor that has any."""
    row = 0
    while row < out.ndim:
        tail = out.keys[out.ndim - row - 1 :]
        if any(spec.keys[-row - 1 :] != tail and any(map(spec.has_key, tail)) for spec in specs):
            break
        row += 1
    return row


def _half(axes: Sequence[Axis]) -> int:
    """Return how many last axes have a table: at least 64 elements if there are, at most about the root of all."""
    whole, size, count = prod([a.size for a in axes]), 1, 0
    for axis in reversed(axes):
        if size >= 64 and (size * axis.size) ** 2 > whole:
            break
        size *= axis.size
        count += 1
    return count


def _offsets_of(spec: TensorSpec, axes: Sequence[Axis]) -> np.ndarray:
    """Return for each index of some axes, in C order, the offset in a tensor: zero along axes that it does not have."""
    strides: dict[AxisKey, int] = {}
    step = 1
    for axis in reversed(spec.axes):
        strides[axis.key] = step
        step *= axis.size
    offsets = np.zeros(1, np.int64)
    for axis in axes:
        offsets = (offsets[:, None] + np.arange(axis.size, dtype=np.int64) * strides.get(axis.key, 0)).reshape(-1)
    return offsets


class Loops:
    """The loops of a contraction: all axes in one order, and in runs with the same readers.

    `order` has all axes, `blocks` the runs.
    """

    def __init__(self, specs: Sequence[TensorSpec], out: TensorSpec) -> None:
        self._readers: dict[AxisKey, set[int]] = {}
        sizes: dict[AxisKey, int] = {}
        for which, spec in enumerate(specs):
            for axis in spec.axes:
                self._readers.setdefault(axis.key, set()).add(which)
                sizes[axis.key] = axis.size
        self._out = out
        self.order = self._ordered([out, *specs])
        self._rank = {key: place for place, key in enumerate(self.order)}
        self.blocks: list[Block] = []
        last: tuple[frozenset[int], bool] | None = None
        for key in self.order:
            kind = self._kind(key)
            if kind == last:
                self.blocks[-1] = Block(self.blocks[-1].size * sizes[key], *kind)
            else:
                self.blocks.append(Block(sizes[key], *kind))
            last = kind

    def _kind(self, key: AxisKey) -> tuple[frozenset[int], bool]:
        return frozenset(self._readers[key]), self._out.has_key(key)

    def _ordered(self, specs: Sequence[TensorSpec]) -> list[AxisKey]:
        """Return all axes in the order of every specification, equal kinds together; if there is none, those that stay
        in the order of the result behind the others.
        """
        before: dict[AxisKey, int] = dict.fromkeys(self._readers, 0)
        after: dict[AxisKey, list[AxisKey]] = {key: [] for key in before}
        for spec in specs:
            for first, second in pairwise(spec.keys):
                after[first].append(second)
                before[second] += 1
        ready = [key for key, count in before.items() if not count]
        order: list[AxisKey] = []
        while ready:
            last = self._kind(order[-1]) if order else None
            key = next((k for k in ready if self._kind(k) == last), ready[0])
            ready.remove(key)
            order.append(key)
            for other in after[key]:
                before[other] -= 1
                if not before[other]:
                    ready.append(other)
        if len(order) < len(before):
            order = [*(key for key in before if not self._out.has_key(key)), *self._out.keys]
        return order

    def places(self, spec: TensorSpec) -> list[int] | None:
        """Return how the axes of an input are transposed into the order of the loops; None: not at all."""
        places = sorted(range(spec.ndim), key=lambda i: self._rank[spec.keys[i]])
        return places if places != list(range(spec.ndim)) else None

"""The ops of a trace as arrays, with a copy of each slice before every op that reads it.

The tracer reads an element once, as long as it is not written: a second loop over an array has no slices of its own.
With copies of these, equal iterations look equal. Copies, and the ops that read them, are created on demand: most
disappear in loops. Owns these arrays and copies. Does not own runs (`jitfuse.tracing.control.reroll.rerolling`).
"""
from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import Any, Final, overload

import numpy as np

from jitfuse.base.records import NamedTuple, made
from jitfuse.ir.program import Meta
from jitfuse.tracing.record.graph import OpNode

_SLICE: Final = 1
"""A slice of a tensor that is no view."""
_RESHAPE: Final = 2
"""A reshape of such a slice."""


class OpColumns(NamedTuple):
    """Ops in order. `origin` maps each op to the recorded op that it is, or is a copy of.

    `read` and `made` are concatenated lists of tensors, with `arity` and `widths` items for each op.
    """

    ops: Sequence[OpNode]
    recorded: Sequence[OpNode]
    origin: Any
    read: Any
    arity: Any
    made: Any
    widths: Any

    @property
    def first(self) -> Any:
        """The first result of each op."""
        return self.made[_begins(self.widths)]


def columns_of(line: list[OpNode]) -> OpColumns:
    """Return ops as arrays."""
    read, arity = flat_of([op.input_ids for op in line])
    results, widths = flat_of([op.result_ids for op in line])
    return OpColumns(line, line, np.arange(len(line)), read, arity, results, widths)


def written_out(columns: OpColumns, metas: list[Meta], delivered: Collection[int]) -> OpColumns:
    """Return ops, each after its own copies of the slices, and of reshapes of these, that it reads.

    A slice that is read once is moved there instead. New tensors are added to `metas`.
    """
    _, recorded, _, read, arity, results, widths = columns
    count, tensors = len(recorded), len(metas)
    first, order = columns.first, np.arange(count)
    maker = np.full(tensors, -1)
    maker[results] = np.repeat(order, widths)
    view, of = _views(columns, maker[read], delivered)
    if not view.any():
        return columns
    reads = np.bincount(read, minlength=tensors)
    once = reads[first] == 1
    once &= (view != _RESHAPE) | once[of]

    # for each read of a view by another op: where the view's copies go before the reader. An op that reads one view
    # twice may read two in other iterations: `p[i] - p[j]`
    reader, viewed = np.repeat(order, arity), maker[read]
    at = np.flatnonzero((viewed >= 0) & (view[viewed] > 0) & (view[reader] == 0))
    by, source = reader[at], viewed[at]
    two = view[source] == _RESHAPE
    size = 1 + two
    added = np.bincount(by, weights=size, minlength=count).astype(np.int64)
    rank = np.cumsum(view == 0) - 1
    position = rank + np.cumsum(added)  # of ops that are no views
    start = rank[by] + _begins(size)  # of copies
    origin = np.empty(int(np.count_nonzero(view == 0) + size.sum()), np.int64)
    stays = np.flatnonzero(view == 0)
    origin[position[stays]] = stays
    origin[start], origin[start + two] = np.where(two, of[source], source), source

    new_arity, new_widths = arity[origin], widths[origin]
    new_read = read[_ranges(_begins(arity)[origin], new_arity)]
    new_results = results[_ranges(_begins(widths)[origin], new_widths)]
    inputs, outputs = _begins(new_arity), _begins(new_widths)
    again = np.flatnonzero(~once[source])
    begins = np.repeat(tensors + _begins(size[again]), size[again])
    copies = _ranges(start[again], size[again])
    metas += [metas[t] for t in new_results[outputs[copies]].tolist()]
    new_results[outputs[copies]] = begins + _within(size[again])
    new_read[inputs[start[two] + 1]] = new_results[outputs[start[two]]]
    new_read[inputs[position[by]] + at - _begins(arity)[by]] = new_results[outputs[start + two]]
    ops = _LazyOps(recorded, origin, (new_read, inputs), (new_results, outputs))
    return OpColumns(ops, recorded, origin, new_read, new_arity, new_results, new_widths)


def _views(columns: OpColumns, makers: Any, delivered: Collection[int]) -> tuple[Any, Any]:
    """Return for each op its kind of view, 0 for none, and the op that makes its first operand."""
    kept = set(delivered)
    names = [op.op_name for op in columns.recorded]
    of = np.zeros(len(names), np.int64)
    some = columns.arity > 0
    of[some] = makers[_begins(columns.arity)[some]]
    found = [0] * len(names)
    near = [k for k, name in enumerate(names) if name == "slice" or name == "reshape"]
    for k, maker, result in zip(near, of[near].tolist(), columns.first[near].tolist(), strict=True):
        if result not in kept:
            what = found[maker] if maker >= 0 else 0
            if names[k] == "slice":
                found[k] = 0 if what else _SLICE
            elif what == _SLICE:
                found[k] = _RESHAPE
    return np.array(found, np.int64), of


def flat_of(tuples: list[tuple[int, ...]]) -> tuple[Any, Any]:
    """Return the items of all tuples, and how many each tuple has."""
    lengths = np.fromiter(map(len, tuples), np.int64, len(tuples))
    return np.fromiter(itertools.chain.from_iterable(tuples), np.int64, int(lengths.sum())), lengths


def _begins(lengths: Any) -> Any:
    """Return where each of these consecutive stretches begins."""
    return np.cumsum(lengths) - lengths


def _within(lengths: Any) -> Any:
    """Return the index of each item within its stretch."""
    return np.arange(int(lengths.sum())) - np.repeat(_begins(lengths), lengths)


def _ranges(begins: Any, lengths: Any) -> Any:
    """Return the indices of all items of stretches that begin there."""
    return np.repeat(begins, lengths) + _within(lengths)


class _LazyOps(Sequence[OpNode]):
    """Ops created on demand: recorded ones with other operands and results.

    The operands and results are in arrays, each with the offsets at which those of an op begin.
    """

    def __init__(
        self, recorded: Sequence[OpNode], origin: Any, read: tuple[Any, Any], results: tuple[Any, Any]
    ) -> None:
        self._recorded = recorded
        self._origin = origin
        self._read, self._from = read
        self._results, self._begins = results
        self._met: dict[int, OpNode] = {}

    def __len__(self) -> int:
        return len(self._origin)

    @overload
    def __getitem__(self, at: int) -> OpNode: ...
    @overload
    def __getitem__(self, at: slice) -> list[OpNode]: ...
    def __getitem__(self, at: int | slice) -> OpNode | list[OpNode]:
        if isinstance(at, slice):
            return [self[k] for k in range(*at.indices(len(self)))]
        found = self._met.get(at)
        if found is None:
            op = self._recorded[self._origin.item(at)]
            begin = self._from.item(at)
            inputs = tuple(self._read[begin : begin + len(op[2])].tolist()) if op[2] else ()
            begin = self._begins.item(at)
            results = tuple(self._results[begin : begin + len(op[4])].tolist())
            found = made(OpNode, (op[0], op[1], inputs, op[3], results, op[5], op[6]))
            self._met[at] = found
        return found

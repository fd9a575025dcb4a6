"""The ops of a trace as arrays, and each element or row that is read beside the op that reads it.

The tracer reads a place of an array once, as long as nobody writes there: a second sweep over an array has no slices of
its own. With copies of them, equal iterations look equal. Ops that are copies, or read some, are made when somebody
looks at them: most disappear in loops. Owns these arrays and copies. Does not own runs
(`jitfuse.tracing.control.reroll.rerolling`).
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
"""A view of what is no view."""
_RESHAPE: Final = 2
"""What reshapes such a slice."""


class OpColumns(NamedTuple):
    """Ops in order. `origin` says which of the ops that were recorded each one is, or is a copy of.

    What they read and make stands one after the other, as many numbers for each as `arity` and `widths` say.
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
    """Return ops with the slices that each of them reads, and what reshapes them, made again before it.

    What is read once is moved there as it is. New tensors are added to `metas`.
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

    # each read of a view by what is none: a place for the view's ops before the reader. What reads one view twice may
    # read two in other iterations: `p[i] - p[j]`
    reader, viewed = np.repeat(order, arity), maker[read]
    at = np.flatnonzero((viewed >= 0) & (view[viewed] > 0) & (view[reader] == 0))
    by, source = reader[at], viewed[at]
    two = view[source] == _RESHAPE
    size = 1 + two
    added = np.bincount(by, weights=size, minlength=count).astype(np.int64)
    rank = np.cumsum(view == 0) - 1
    place = rank + np.cumsum(added)  # of what is no view
    start = rank[by] + _begins(size)  # of a copy
    origin = np.empty(int(np.count_nonzero(view == 0) + size.sum()), np.int64)
    stays = np.flatnonzero(view == 0)
    origin[place[stays]] = stays
    origin[start], origin[start + two] = np.where(two, of[source], source), source

    new_arity, new_widths = arity[origin], widths[origin]
    new_read = read[_spread(_begins(arity)[origin], new_arity)]
    new_results = results[_spread(_begins(widths)[origin], new_widths)]
    inputs, outputs = _begins(new_arity), _begins(new_widths)
    again = np.flatnonzero(~once[source])
    begins = np.repeat(tensors + _begins(size[again]), size[again])
    copies = _spread(start[again], size[again])
    metas += [metas[t] for t in new_results[outputs[copies]].tolist()]
    new_results[outputs[copies]] = begins + _within(size[again])
    new_read[inputs[start[two] + 1]] = new_results[outputs[start[two]]]
    new_read[inputs[place[by]] + at - _begins(arity)[by]] = new_results[outputs[start + two]]
    ops = _LazyOps(recorded, origin, (new_read, inputs), (new_results, outputs))
    return OpColumns(ops, recorded, origin, new_read, new_arity, new_results, new_widths)


def _views(columns: OpColumns, makers: Any, delivered: Collection[int]) -> tuple[Any, Any]:
    """Return for each op what view it is, 0 for none, and which op makes what it reads first."""
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
    """Return the items of all tuples, and how many each has."""
    lengths = np.fromiter(map(len, tuples), np.int64, len(tuples))
    return np.fromiter(itertools.chain.from_iterable(tuples), np.int64, int(lengths.sum())), lengths


def _begins(lengths: Any) -> Any:
    """Return where each stretch begins when they stand one after the other."""
    return np.cumsum(lengths) - lengths


def _within(lengths: Any) -> Any:
    """Return the place of each item within its stretch."""
    return np.arange(int(lengths.sum())) - np.repeat(_begins(lengths), lengths)


def _spread(begins: Any, lengths: Any) -> Any:
    """Return the numbers of stretches that begin there, one after the other."""
    return np.repeat(begins, lengths) + _within(lengths)


class _LazyOps(Sequence[OpNode]):
    """Ops that are made when somebody looks at them: recorded ones with other operands and results.

    What they read and make stands in arrays, and where that of each op begins.
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

"""Writes each element or row that is read beside the op that reads it, so that equal iterations look equal.

The tracer reads a place of an array once, as long as nobody writes there: a second sweep over an array has no slices of
its own. Owns the copies of such slices, and making equal ones one again. Does not own runs (`jitfuse.tracing.rolling`).
"""
from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any, Final

from jitfuse.ir.program import Meta
from jitfuse.tracing.graph import OpNode

_VIEWS: Final = ("slice", "reshape")


def written_out(line: list[OpNode], metas: list[Meta], delivered: Collection[int]) -> list[OpNode]:
    """Return the ops with the slices that each of them reads, and what reshapes them, made again before it.

    What is read once is moved there as it is.
    """
    reads = Counter(itertools.chain.from_iterable([op.input_ids for op in line]))
    views: dict[int, OpNode] = {}
    kept = set(delivered)
    made: list[OpNode] = []
    for op in line:
        if op.op_name in _VIEWS and _is_view(op, views) and op.result_ids[0] not in kept:
            views[op.result_ids[0]] = op
            continue
        again: dict[int, int] = {}
        for t in op.input_ids:
            if t in views and t not in again:
                for view in _chain(t, views):
                    (old,) = view.result_ids
                    again[old] = new = _copied(old, metas) if max(reads[old], reads[t]) > 1 else old
                    made.append(_renamed(view, again) if new == old else _renamed(view, again, (new,)))
        made.append(_renamed(op, again) if again else op)
    return made


def _copied(tensor: int, metas: list[Meta]) -> int:
    metas.append(metas[tensor])
    return len(metas) - 1


def _renamed(op: OpNode, again: dict[int, int], results: tuple[int, ...] | None = None) -> OpNode:
    """Return an op that reads what has been made again, itself where all of that has kept its name."""
    inputs = tuple([again.get(t, t) for t in op.input_ids])
    if results is None and inputs == op.input_ids:
        return op
    return op._replace(input_ids=inputs, result_ids=op.result_ids if results is None else results)


def _is_view(op: OpNode, views: dict[int, OpNode]) -> bool:
    """Return whether an op is a slice of what is no such view, or a reshape of such a slice."""
    if op.op_name == "slice":
        return op.input_ids[0] not in views
    return op.op_name == "reshape" and op.input_ids[0] in views and views[op.input_ids[0]].op_name == "slice"


def _chain(tensor: int, views: dict[int, OpNode]) -> Iterator[OpNode]:
    view = views[tensor]
    if view.input_ids[0] in views:
        yield views[view.input_ids[0]]
    yield view


def made_once(line: list[OpNode]) -> list[OpNode]:
    """Return the ops with equal slices and reshapes made once."""
    first: dict[Any, int] = {}
    same: dict[int, int] = {}
    kept = []
    for op in line:
        if not same.keys().isdisjoint(op.input_ids):
            op = op._replace(input_ids=tuple([same.get(t, t) for t in op.input_ids]))
        if op.op_name in ("slice", "reshape"):
            found = first.setdefault(op.signature, op.result_ids[0])
            if found != op.result_ids[0]:
                same[op.result_ids[0]] = found
                continue
        kept.append(op)
    return kept

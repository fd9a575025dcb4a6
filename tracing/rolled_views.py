"""Writes each element or row that is read beside the op that reads it, so that equal iterations look equal.

The tracer reads a place of an array once, as long as nobody writes there: a second sweep over an array has no slices of
its own. Owns the copies of such slices, and making equal ones one again. Does not own runs (`jitfuse.tracing.rolling`).
"""
from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection
from typing import Any, Final

from jitfuse.ir.program import Meta
from jitfuse.records import made
from jitfuse.tracing.graph import OpNode

_VIEWS: Final = ("slice", "reshape")


def written_out(line: list[OpNode], metas: list[Meta], delivered: Collection[int]) -> list[OpNode]:
    """Return the ops with the slices that each of them reads, and what reshapes them, made again before it.

    What is read once is moved there as it is.
    """
    reads = Counter(itertools.chain.from_iterable([op.input_ids for op in line]))
    views: dict[int, OpNode] = {}
    kept = set(delivered)
    ops: list[OpNode] = []
    for op in line:
        _, name, inputs, _, results, _, _ = op
        if name in _VIEWS and results[0] not in kept and _is_view(name, inputs[0], views):
            views[results[0]] = op
            continue
        if views.keys().isdisjoint(inputs):
            ops.append(op)
            continue
        again: dict[int, int] = {}
        for t in inputs:
            if t in views and t not in again:
                _write_again(t, views, reads, metas, again, ops)
        ops.append(_renamed(op, again, results))
    return ops


def _write_again(
    tensor: int, views: dict[int, OpNode], reads: Counter[int], metas: list[Meta], again: dict[int, int],
    ops: list[OpNode],
) -> None:
    """Write a view, and the slice that it reshapes, as new tensors where they are read more than once."""
    view = views[tensor]
    of = views.get(view.input_ids[0])
    for op in (view,) if of is None else (of, view):
        (old,) = op.result_ids
        again[old] = new = _copied(old, metas) if reads[old] > 1 or reads[tensor] > 1 else old
        ops.append(_renamed(op, again, (new,)))


def _copied(tensor: int, metas: list[Meta]) -> int:
    metas.append(metas[tensor])
    return len(metas) - 1


def _renamed(op: OpNode, again: dict[int, int], results: tuple[int, ...]) -> OpNode:
    """Return an op that reads what has been made again, itself where all of that has kept its name."""
    number, name, old, attrs, before, mode_sensitive, source = op
    inputs = tuple([again.get(t, t) for t in old])
    if results == before and inputs == old:
        return op
    return made(OpNode, (number, name, inputs, attrs, results, mode_sensitive, source))


def _is_view(name: str, of: int, views: dict[int, OpNode]) -> bool:
    """Return whether a slice is one of what is no such view, a reshape one of such a slice."""
    found = views.get(of)
    return found is None if name == "slice" else found is not None and found.op_name == "slice"


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

"""Writes each element or row that is read beside the op that reads it, so that equal iterations look equal.

The tracer reads a place of an array once, as long as nobody writes there: a second sweep over an array has no slices of
its own. Owns the copies of such slices, and making equal ones one again. Does not own runs (`jitfuse.tracing.rolling`).
"""
from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection
from typing import Any

from jitfuse.ir.program import Meta
from jitfuse.records import NamedTuple, made
from jitfuse.tracing.graph import OpNode


class _View(NamedTuple):
    """A view of what is no view: a slice, or a slice and what reshapes it; and whether one op alone reads each."""

    ops: tuple[OpNode, ...]
    once: bool


def written_out(line: list[OpNode], metas: list[Meta], delivered: Collection[int]) -> list[OpNode]:
    """Return the ops with the slices that each of them reads, and what reshapes them, made again before it.

    What is read once is moved there as it is.
    """
    reads = Counter(itertools.chain.from_iterable([op.input_ids for op in line]))
    views: dict[int, _View] = {}
    kept = set(delivered)
    ops: list[OpNode] = []
    add = ops.append
    for op in line:
        _, name, inputs, _, results, _, _ = op
        if name == "slice" or name == "reshape":
            of = views.get(inputs[0])
            is_view = of is None if name == "slice" else of is not None and len(of.ops) == 1
            if is_view and results[0] not in kept:
                once = reads[results[0]] == 1
                views[results[0]] = _View((op,), once) if of is None else _View((*of.ops, op), once and of.once)
                continue
        again: dict[int, int] = {}
        for t in inputs:
            if t in views:
                view = views[t]
                if view.once:
                    ops += view.ops
                elif t not in again:
                    again[t] = _write_again(view.ops, metas, ops)
        if again:
            op = made(OpNode, (*op[:2], tuple([again.get(t, t) for t in inputs]), *op[3:]))
        add(op)
    return ops


def _write_again(view: tuple[OpNode, ...], metas: list[Meta], ops: list[OpNode]) -> int:
    """Write the ops of a view as new tensors; return the last of these."""
    inputs = view[0].input_ids
    for number, name, _, attrs, (old,), mode_sensitive, source in view:
        metas.append(metas[old])
        new = len(metas) - 1
        ops.append(made(OpNode, (number, name, inputs, attrs, (new,), mode_sensitive, source)))
        inputs = (new,)
    return new


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

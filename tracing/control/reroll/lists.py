"""Lists that a loop fills and that become an array: each value is written into the array where it is computed.

`np.array(kept)` after ten thousand `kept.append(x)` joins ten thousand values, one of each iteration. If each iteration
writes a row of an array instead, the loop can be re-rolled. A returned list of numbers is such an array too, from which
each number is read at the end. Owns this rewriting, which is undone where the writes do not disappear in loops. Does
not own runs (`jitfuse.tracing.control.reroll.rerolling`).
"""
from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import Any, Final

from jitfuse.base.records import NamedTuple
from jitfuse.ir.operators.elementwise import PYTHON_DTYPES
from jitfuse.ir.program import Meta, make_attrs
from jitfuse.tracing.control.reroll.run import FEW_ITERATIONS, RerollLimits, attr
from jitfuse.tracing.record.graph import OpNode

_LEFT: Final = 16
"""Most writes outside of loops, for each list, with which the rewriting is kept."""


class Joined(NamedTuple):
    """Ops that join returned numbers and read them from there; `renamed` maps the old tensors to the new ones."""

    line: list[OpNode]
    renamed: dict[int, int]


class Rewritten(NamedTuple):
    """Ops that write the values of lists into arrays, and the results of these writes."""

    line: list[OpNode]
    writes: frozenset[int]
    lists: int

    def fits(self, line: Collection[OpNode]) -> bool:
        """Return whether most of the writes have disappeared in loops."""
        left = sum(op.result_ids[0] in self.writes for op in line)
        return left <= _LEFT * self.lists and 2 * left <= len(self.writes)


def numbers_joined(
    line: list[OpNode], metas: list[Meta], limits: RerollLimits, delivered: Collection[int]
) -> Joined | None:
    """Return the ops with joins of the delivered numbers that many iterations compute; None where there are none."""
    if len(delivered) < FEW_ITERATIONS:
        return None
    wanted = set(delivered)
    groups: dict[Any, list[int]] = {}
    position: dict[int, int] = {}
    for k, op in enumerate(line):
        for t in op.result_ids:
            position[t] = k
            if t in wanted and metas[t].shape == () and (not metas[t].weak or metas[t].dtype in PYTHON_DTYPES):
                groups.setdefault((op.op_name, op.attrs, op.source, metas[t]), []).append(t)
    strong: dict[int, OpNode] = {}
    added: list[OpNode] = []
    renamed: dict[int, int] = {}
    for numbers in groups.values():
        count = len(numbers)
        if count < FEW_ITERATIONS:
            continue
        if count < limits.least((position[numbers[-1]] - position[numbers[0]]) // (count - 1)):
            continue
        joined = _Joining(numbers, metas, line[position[numbers[-1]]].source)
        strong.update((position[t], cast) for t, cast in zip(numbers, joined.casts))
        added += joined.ops
        renamed.update(joined.renamed)
    if not renamed:
        return None
    inside = [made for k, op in enumerate(line) for made in ((op, strong[k]) if k in strong else (op,))]
    return Joined(inside + added, renamed)


class _Joining:
    """Ops that join numbers of one kind and read them again; Python numbers are first cast to the array's dtype."""

    def __init__(self, numbers: list[int], metas: list[Meta], source: str) -> None:
        self._metas, self._source = metas, source
        self.casts: list[OpNode] = []
        self.ops: list[OpNode] = []
        self.renamed: dict[int, int] = {}
        meta, values = metas[numbers[0]], numbers
        number = meta._replace(weak=False)
        if meta.weak:
            values = [self._add(self.casts, "astype", (t,), number, dtype=meta.dtype) for t in numbers]
        whole = self._add(self.ops, "stack", tuple(values), number._replace(shape=(len(values),)), axis=0)
        for k, t in enumerate(numbers):
            row = self._add(self.ops, "slice", (whole,), number._replace(shape=(1,)), starts=(k,), counts=(1,),
                            steps=(1,))
            read = self._add(self.ops, "reshape", (row,), number, shape=())
            self.renamed[t] = self._add(self.ops, "python_number", (read,), meta) if meta.weak else read

    def _add(self, ops: list[OpNode], name: str, inputs: tuple[int, ...], meta: Meta, **attrs: Any) -> int:
        tensor = _new(self._metas, meta)
        ops.append(OpNode(0, name, inputs, make_attrs(attrs), (tensor,), False, self._source))
        return tensor


def lists_written(
    line: list[OpNode], metas: list[Meta], limits: RerollLimits, delivered: Collection[int]
) -> Rewritten | None:
    """Return the ops with writes in place of joins of values from many iterations; None where there are none."""
    joins = [op for op in line if op.op_name in ("concat", "stack") and len(op.input_ids) >= FEW_ITERATIONS]
    if not joins:
        return None
    position = {t: k for k, op in enumerate(line) for t in op.result_ids}
    joins = [op for op in joins if len(op.input_ids) >= limits.least(_iteration_length(op, line, position))]
    added: dict[int, list[OpNode]] = {}
    gone: set[int] = set()
    writes: set[int] = set()
    count = 0
    for join in joins:
        parts = _parts(join, line, position, metas)
        if parts is None:
            continue
        count += 1
        gone.add(join.result_ids[0])
        for at, ops in parts:
            added.setdefault(at, []).extend(ops)
            writes.update(op.result_ids[0] for op in ops if op.op_name == "update_slice")
    if not count:
        return None
    made = added.get(-1, [])
    for k, op in enumerate(line):
        if op.result_ids[0] not in gone:
            made.append(op)
        made += added.get(k, ())
    return Rewritten(_needed(made, delivered), frozenset(writes), count)


def _iteration_length(join: OpNode, line: list[OpNode], position: dict[int, int]) -> int:
    """Return the average number of ops between two values of a join."""
    first, last = (position.get(_joined(t, line, position), -1) for t in (join.input_ids[0], join.input_ids[-1]))
    return (last - first) // (len(join.input_ids) - 1)


def _joined(tensor: int, line: list[OpNode], position: dict[int, int]) -> int:
    """Return the value of which a join has a reshaped part."""
    source = line[position[tensor]] if tensor in position else None
    return source.input_ids[0] if source is not None and source.op_name == "reshape" else tensor


def _needed(line: list[OpNode], delivered: Collection[int]) -> list[OpNode]:
    live = set(delivered)
    kept = []
    for op in reversed(line):
        if not live.isdisjoint(op.result_ids):
            live.update(op.input_ids)
            kept.append(op)
    return kept[::-1]


def _parts(
    join: OpNode, line: list[OpNode], position: dict[int, int], metas: list[Meta]
) -> list[tuple[int, list[OpNode]]] | None:
    """Return the ops that write each value, and the position after which these go; None where order forbids it."""
    whole = metas[join.result_ids[0]]
    if any((metas[t].dtype, metas[t].weak) != (whole.dtype, False) for t in join.input_ids):
        return None
    axis = attr(join, "axis") % len(whole.shape)
    array = _new(metas, whole)
    attrs = make_attrs({"shape": whole.shape, "dtype": whole.dtype})
    parts = [(-1, [join._replace(op_name="zeros", input_ids=(), attrs=attrs, result_ids=(array,))])]
    start = 0
    for number, t in enumerate(join.input_ids, 1):
        value = _joined(t, line, position)
        shape = list(whole.shape)
        shape[axis] = 1 if join.op_name == "stack" else metas[t].shape[axis]
        counts, ops = tuple(shape), []
        if metas[value].shape != counts:
            row = _new(metas, Meta(counts, whole.dtype, whole.device))
            ops.append(join._replace(
                op_name="reshape", input_ids=(value,), attrs=make_attrs({"shape": counts}), result_ids=(row,)))
            value = row
        region = {"starts": tuple(start * (a == axis) for a in range(len(counts))), "counts": counts,
                  "steps": (1,) * len(counts)}
        result = join.result_ids[0] if number == len(join.input_ids) else _new(metas, whole)
        ops.append(join._replace(
            op_name="update_slice", input_ids=(array, value), attrs=make_attrs(region), result_ids=(result,)))
        parts.append((position.get(ops[0].input_ids[-1], -1), ops))
        array, start = result, start + counts[axis]
    in_order = all(a <= b for (a, _), (b, _) in itertools.pairwise(parts))
    return parts if in_order else None


def _new(metas: list[Meta], meta: Meta) -> int:
    metas.append(meta)
    return len(metas) - 1

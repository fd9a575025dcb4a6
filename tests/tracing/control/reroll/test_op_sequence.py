"""Slices beside the ops that read them, found by arrays, against the same found one op after the other."""
from __future__ import annotations

import random
from collections import Counter

import pytest

from jitfuse.ir.program import Meta, make_attrs
from jitfuse.tracing.control.reroll.op_sequence import columns_of, written_out
from jitfuse.tracing.record.graph import OpNode

META = Meta((2,), "float64")
NAMES = ("slice", "slice", "reshape", "reshape", "add", "update_slice", "stack", "split", "zeros")


def one_by_one(line: list[OpNode], delivered: set[int]) -> list[tuple[str, tuple[object, ...], object]]:
    """Return (operator, operands, result) of each op, with new tensors named by the ops that make them again."""
    reads = Counter(t for op in line for t in op.input_ids)
    views: dict[int, list[OpNode]] = {}
    made: list[tuple[str, tuple[object, ...], object]] = []
    for op in line:
        of = views.get(op.input_ids[0]) if op.input_ids else None
        if op.result_ids[0] not in delivered:
            if op.op_name == "slice" and of is None:
                views[op.result_ids[0]] = [op]
                continue
            if op.op_name == "reshape" and of is not None and len(of) == 1:
                views[op.result_ids[0]] = [*of, op]
                continue
        inputs: list[object] = []
        for t in op.input_ids:
            if t not in views:
                inputs.append(t)
                continue
            once = all(reads[v.result_ids[0]] == 1 for v in views[t])
            source: object = views[t][0].input_ids[0]
            for view in views[t]:
                result: object = view.result_ids[0] if once else (len(made), "again")
                made.append((view.op_name, (source,), result))
                source = result
            inputs.append(source)
        made.append((op.op_name, tuple(inputs), op.result_ids))
    return made


def drawn(seed: int, count: int) -> tuple[list[OpNode], int]:
    """Return random ops over three feeds, and how many tensors there are."""
    r = random.Random(seed)
    tensors, line = 3, []
    for k in range(count):
        name = r.choice(NAMES)
        arity = {"add": 2, "update_slice": 2, "stack": r.randint(1, 5), "zeros": 0}.get(name, 1)
        near = range(max(0, tensors - r.choice([2, 6, 50])), tensors)
        inputs = tuple(r.choice(near) for _ in range(arity))
        results = tuple(range(tensors, tensors + (2 if name == "split" else 1)))
        tensors += len(results)
        line.append(OpNode(k, name, inputs, make_attrs({"axis": k % 3}), results, False, "line"))
    return line, tensors


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("count", [0, 1, 2, 5, 40, 300])
def test_views_are_written_beside_their_readers(seed: int, count: int) -> None:
    line, tensors = drawn(seed, count)
    delivered = set(random.Random(seed).sample(range(tensors), min(seed % 4, tensors)))
    metas = [META] * tensors
    found = written_out(columns_of(line), metas, delivered)
    expected = one_by_one(line, delivered)
    assert len(found.ops) == len(expected)
    renamed: dict[object, int] = {}
    for op, (name, inputs, result) in zip(found.ops, expected, strict=True):
        assert op.op_name == name
        assert op.input_ids == tuple(renamed.get(t, t) for t in inputs)
        if isinstance(result, tuple) and "again" in result:
            assert op.result_ids[0] >= tensors
            assert renamed.setdefault(result, op.result_ids[0]) == op.result_ids[0]
        elif isinstance(result, int):
            assert op.result_ids == (result,)
        else:
            assert op.result_ids == result
    assert sorted(renamed.values()) == list(range(tensors, len(metas)))
    assert found.ops[: len(expected)] == [found.ops[k] for k in range(len(expected))]
    flat = [t for op in found.ops for t in op.input_ids], [t for op in found.ops for t in op.result_ids]
    assert (found.read.tolist(), found.made.tolist()) == flat

"""Makes `rolled_loop` steps of a run of equal ops: where an iteration begins, and the step's inputs and outputs.

Values that an iteration reads from earlier ones are carried, and so are those used after the loop. Where values of an
iteration in the middle are used too, one loop ends there and another begins. Does not own finding runs
(`jitfuse.tracing.control.reroll.rerolling`), nor the body (`jitfuse.tracing.control.reroll.body`).
"""
from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np

from jitfuse.base.records import NamedTuple
from jitfuse.ir.operators import ops
from jitfuse.ir.program import Meta, make_attrs
from jitfuse.tracing.control.reroll.arrays import WrittenArrays
from jitfuse.tracing.control.reroll.body import BodyWriter
from jitfuse.tracing.control.reroll.run import (
    FEW_ITERATIONS,
    LONG_ITERATION,
    SAMPLE,
    Carry,
    GraphTensors,
    Iterations,
    Line,
    NoLoopError,
    PeriodicRun,
)
from jitfuse.tracing.control.reroll.stored_values import stored_values
from jitfuse.tracing.record.graph import OpNode

FUSED_OPS = LONG_ITERATION
"""Most ops of merged iterations: these are launched once, and read and write their carried values once."""
_ATTEMPTS: Final = 6
"""Most positions that are tried as the begin of an iteration."""


class LoopOrigin(NamedTuple):
    """The origin of a loop: the `period` ops from `begin` on are one iteration.

    `hoisted` are the phases of its leading views, `operands` maps phases of regions to the operands of their windows.
    Along `whole` axes of operands, a window covers the whole axis, wherever regions start.
    """

    begin: int
    period: int
    hoisted: tuple[int, ...]
    operands: dict[int, int]
    whole: tuple[tuple[int, int], ...]


class RerolledLoop(NamedTuple):
    """The ops that replace begin <= k < end, and the new tensors for theirs.

    The loop is the last op. `origin` is None where more than its windows depends on where its regions start.
    """

    begin: int
    end: int
    ops: list[OpNode]
    renamed: dict[int, int]
    origin: LoopOrigin | None = None


def reroll_run(tensors: GraphTensors, line: Line, run: PeriodicRun) -> list[RerolledLoop]:
    """Return the loops that a run becomes: none, one, or several where values of iterations in the middle are used."""
    found: list[RerolledLoop] = []
    while run.end - run.begin >= run.least * run.period:
        loop = _first_loop(tensors, line, run)
        if loop is None:
            break
        found.append(loop)
        run = run._replace(begin=loop.end, first=loop.end)
    return found


def _first_loop(tensors: GraphTensors, line: Line, run: PeriodicRun) -> RerolledLoop | None:
    for begin in _beginnings(line, run)[:_ATTEMPTS]:
        count = (run.end - begin) // run.period
        for times in dict.fromkeys((_at_once(line, run, count) if run.merges else 1, 1)):
            period = times * run.period
            least = max(run.least // times, FEW_ITERATIONS)
            fused = PeriodicRun(begin, begin + count // times * period, period, begin, least, run.merges)
            try:
                return _rerolled(Iterations(tensors, line, fused))
            except NoLoopError:
                continue
    return None


def _at_once(line: Line, run: PeriodicRun, count: int) -> int:
    """Return how many of `count` iterations to merge into one of the loop, so that few are left over."""
    most = min(FUSED_OPS // run.period, count // FEW_ITERATIONS)
    rows = (ops.get(op.op_name) for op in line.ops[run.begin : run.begin + run.period])
    kinds = {row.kind for row in rows if row is not None}
    if most < 2 or not kinds.isdisjoint(ops.ON_HOST):
        return 1
    return min(range(most // 2 + 1, most + 1), key=lambda n: (count % n, -n))


def _beginnings(line: Line, run: PeriodicRun) -> list[int]:
    """Return where an iteration may begin: first the positions that the fewest values cross, early ones first.

    A value that was written into an array crosses with the array. The iteration before the run is part of it from the
    op on after which all are of the kinds of the next one: a sum may start with a number of Python's.
    """
    period = run.period
    base = min(run.begin + SAMPLE * period, run.end - period)
    written = {op.input_ids[1]: (k, op.result_ids[0])
               for k, op in enumerate(line.ops[run.begin : base + period], run.begin) if op.op_name == "update_slice"}
    reach: dict[tuple[int, int], int] = {}
    for k in range(base, base + period):
        for t in line.ops[k].input_ids:
            at, array = written.get(t, (k, t))
            t = array if at < k else t
            made = line.made.item(t)
            if made >= run.begin:
                producer = (made - run.begin) % period, t - line.ops[made].result_ids[0]
                reach[producer] = max(reach.get(producer, 0), k - made)
    crossing = [0] * period
    for (phase, _), far in reach.items():
        for cut in range(phase + 1, phase + 1 + far):
            crossing[cut % period] += 1
    kinds = line.kinds
    others = np.flatnonzero(kinds[run.first : run.begin] != kinds[run.first + period : run.begin + period])
    first = run.first + int(others[-1]) + 1 if len(others) else run.first
    return sorted(range(first, run.begin + period), key=lambda k: (crossing[(k - run.begin) % period], k))


def _rerolled(run: Iterations) -> RerolledLoop:
    """Return a loop that replaces a run; raises NoLoopError."""
    tensors = run.tensors
    stored = stored_values(run)
    arrays, escaping = _arrays(run, {found.array for found in stored.values()})
    made = list(run.hoisted.values())
    carries = [key for key in sorted(run.initial) if key[0] not in arrays.number and key not in stored]
    initial = [run.initial[key] for key in carries]
    for key in escaping:
        if key not in run.initial and key[0] not in arrays.number:
            carries.append(key)
            initial.append(_zeros(run, key, made))
    body = BodyWriter(run, arrays, carries, stored)
    program = body.program()
    attrs = make_attrs({
        "body": program, "carries": len(carries), "arrays": len(arrays.chains), "length": run.count,
        "reads": [access.coded() for access in body.reads], "writes": [access.coded() for access in body.writes],
    })
    inputs = (*initial, *(arrays.initial(k) for k in range(len(arrays.chains))), *body.others)
    row = ops.get("rolled_loop")
    assert row is not None
    metas = row.result_metas([tensors.metas[t] for t in inputs], dict(attrs))
    results = tuple(tensors.tensor(meta) for meta in metas)
    made.append(OpNode(0, "rolled_loop", inputs, attrs, results, False, run.ops[0].source))
    after = dict(zip(carries, results, strict=False))
    after |= {(chain[-1], 0, 1): result for chain, result in zip(arrays.chains, results[len(carries) :], strict=True)}
    for key in escaping.keys() & stored.keys():
        after[key] = after[stored[key].array]
        for name, region, meta in stored[key].views(tensors.metas[after[key]], tensors.metas[escaping[key]]):
            made.append(OpNode(0, name, (after[key],), region, (tensors.tensor(meta),), False, run.ops[key[0]].source))
            after[key] = made[-1].result_ids[0]
    origin = None if stored else LoopOrigin(
        run.begin, run.period, tuple(run.hoisted), body.operands, tuple(arrays.whole_axes()))
    return RerolledLoop(run.begin, run.end, made, {tensor: after[key] for key, tensor in escaping.items()}, origin)


def _arrays(run: Iterations, carried: Collection[Carry]) -> tuple[WrittenArrays, dict[Carry, int]]:
    """Return the arrays that a loop writes, and the values used after it; raises NoLoopError.

    Only where it must, a loop carries an array as a whole that it always writes at one position.
    """
    try:
        arrays = WrittenArrays(run, carried, still=True)
        return arrays, _escaping(run, arrays)
    except NoLoopError:
        arrays = WrittenArrays(run, carried, still=False)
        return arrays, _escaping(run, arrays)


def _escaping(run: Iterations, arrays: WrittenArrays) -> dict[Carry, int]:
    """Return the tensors that are used after the loop, by the carried value of each; raises NoLoopError."""
    found: dict[Carry, int] = {}
    for tensor in sorted(run.used):
        iteration, phase, result = run.producer_of(tensor)
        if iteration >= run.count:
            continue
        key = phase, result, run.count - iteration
        last = [(chain[-1], 0, 1) for chain in arrays.chains]
        if (key not in last) if phase in arrays.number else (key[2] > 1 and key not in run.initial):
            raise NoLoopError
        found[key] = tensor
    return found


def _zeros(run: Iterations, key: Carry, made: list[OpNode]) -> int:
    """Return a start for a carried value that is only used after the loop."""
    meta = run.tensors.metas[run.ops[key[0]].result_ids[key[1]]]
    if meta.weak:
        raise NoLoopError
    tensor = run.tensors.tensor(Meta(meta.shape, meta.dtype, meta.device))
    attrs = make_attrs({"shape": meta.shape, "dtype": meta.dtype})
    made.append(OpNode(0, "zeros", (), attrs, (tensor,), False, run.ops[0].source))
    return tensor

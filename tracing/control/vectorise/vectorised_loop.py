"""Vectorised loops: their iterations become axes of arrays.

``for i in ...: for j in ...: d[i, j] = f(x[i], x[j])`` computes what ``d[:, :] = f(x[:, None], x[None, :])`` does, in
any order. A loop is vectorised where three conditions hold. Each iteration has its own part of every array that the
loop writes, and reads no other part of it. Carried numbers are only added to, floats in the order of the loops. Ranges
and indices are known. Then all operators of the body are computed for all iterations at once. An inner loop is
vectorised too, or runs in order over the values of all outer iterations; one that ends by data runs until it has ended
in all. The results are those of the loop, to the bit.

Owns which loops are vectorised, and the result. Does not own the operators (`jitfuse.tracing.control.vectorise.steps`),
inner loops that run in order (`jitfuse.tracing.control.vectorise.ordered_loops`), nor the capture of Python loops
(`jitfuse.tracing.control.loop_capture`).
"""
from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Final

from jitfuse.dtypes import kind
from jitfuse.errors import JitfuseError
from jitfuse.ir.operators import ops
from jitfuse.ir.program import FusedProgram, Meta, OpStep
from jitfuse.tracing.control.loop_ranges import WIDEST
from jitfuse.tracing.control.vectorise.ordered_loops import InOrder
from jitfuse.tracing.control.vectorise.values import (
    LoopValue,
    NotVectorisedError,
    OwnPartError,
    Taken,
    Total,
    raise_not_vectorised,
)
from jitfuse.tracing.numbers.linear import Linear
from jitfuse.tracing.record.recorder import Recorder

_WRITTEN_OUT: Final = 8
_STEPS: Final = 256
"""Most steps, over all iterations, of an inner loop that is unrolled; it has at most `_WRITTEN_OUT` iterations."""


def vectorise(
    run: Recorder, body: FusedProgram, low: int, high: int, starts: Sequence[int], captured: Sequence[int]
) -> list[int] | None:
    """Record a loop for all its iterations at once; return the tensors of its results.

    `body`, `starts` and `captured` are those of a `fori_loop` that counts from `low` to below `high`. Returns None
    where the iterations must run in order; the steps recorded by then are unused.
    """
    work = VectorisedLoop(run)
    metas = run.graph.metas
    values = [LoopValue(t, 0, metas[t].ndim, _literal(run, t)) for t in (*starts, *captured)]
    try:
        results = work.loop_axis(body, low, high - low, values[: len(starts)], values[len(starts) :])
        return [work.cast(v.tensor, metas[start].dtype) for v, start in zip(results, starts, strict=True)]
    except NotVectorisedError:
        return None
    except JitfuseError:  # Python raises it, or another one, when it runs the loop
        if os.environ.get("JITFUSE_DEBUG") == "1":
            raise
        return None


def _literal(run: Recorder, tensor: int) -> Linear | None:
    node = run.graph.node(tensor)
    if node is None or node.op_name != "full":
        return None
    attrs = dict(node.attrs)
    value = attrs["value"]
    return Linear(value) if type(value) is int and not attrs["shape"] and attrs["dtype"] == "int64" else None


def _is_literal(program: FusedProgram, value: int) -> bool:
    """Return whether a number is the same literal in all iterations."""
    maker = program.producers.get(value)
    return maker is not None and maker.op_name == "full" and not program.meta[value].shape


class VectorisedLoop(InOrder):
    """One loop while it is vectorised, with the loops in it."""

    def body(self, program: FusedProgram, feeds: Mapping[int, LoopValue]) -> list[LoopValue]:
        """Return the results of a body for the values of its feeds."""
        values = dict(feeds)
        for step in program.steps:
            self.source = program.sources.get(step.step_id)
            inputs = [values[i] for i in step.input_ids]
            if step.op_name in ops.HOLD_PROGRAMS and any(v.only for v in inputs):
                raise_not_vectorised()
            if step.op_name == "fori_loop":
                values.update(zip(step.result_ids, self._counted(step, inputs), strict=True))
            elif step.op_name == "while_loop":
                values.update(zip(step.result_ids, self.repeated(step, inputs), strict=True))
            elif step.op_name in ops.HOLD_PROGRAMS:
                raise_not_vectorised()
            else:
                values[step.result_ids[0]] = self.step(program, step, values)
        return [values[i] for i in program.outputs.values()]

    # ------------------------------------------------------------------ the axis of a loop
    def loop_axis(
        self, program: FusedProgram, low: int, count: int, starts: Sequence[LoopValue], captured: Sequence[LoopValue],
        bounds: tuple[LoopValue, LoopValue] | None = None,
    ) -> list[LoopValue]:
        """Return the final carried values of a loop, whose iterations become a new loop axis.

        `bounds`: the range over which each outer iteration counts, if it differs between them.
        """
        loop_axis, mask = len(self.extents), self.mask
        size = count
        for n in self.extents:
            size *= n
        if count < 1 or size > WIDEST or (loop_axis and self._adds_floats(program, starts)):
            raise_not_vectorised()
        taken: dict[int, Taken] = {}
        while True:
            self.extents.append(count)
            try:
                return self._loop_axis(program, low, starts, captured, taken, bounds)
            except OwnPartError as found:
                if found.loop_axis != loop_axis:
                    raise
                taken[found.carry] = Taken(found.axis, found.at)
            finally:
                del self.extents[loop_axis:]
                self.mask = mask

    def _adds_floats(self, program: FusedProgram, starts: Sequence[LoopValue]) -> bool:
        """Return whether iterations carry a float or complex number of their own, so that they must run in order."""
        handed = zip(program.ordered_feeds[1:], program.outputs.values(), starts)
        return any(
            feed != end and feed in program.consumers and start.total is None and not (start.rank or start.taken)
            and not _is_literal(program, end) and kind(self.meta(start.tensor).dtype) in ("float", "complex")
            for feed, end, start in handed)

    def _loop_axis(
        self, program: FusedProgram, low: int, starts: Sequence[LoopValue], captured: Sequence[LoopValue],
        taken: Mapping[int, Taken], bounds: tuple[LoopValue, LoopValue] | None,
    ) -> list[LoopValue]:
        loop_axis, outer = len(self.extents) - 1, self.mask
        index, *feeds = program.ordered_feeds
        carried, others = feeds[: len(starts)], feeds[len(starts) :]
        outputs = list(program.outputs.values())
        now = self.count(loop_axis, low)
        values = {index: now, **dict(zip(others, captured, strict=True))}
        for k, (feed, start) in enumerate(zip(carried, starts, strict=True)):
            maker = program.producers.get(outputs[k])
            if outputs[k] == feed:
                values[feed] = start
            elif _is_literal(program, outputs[k]) and start.is_plain:
                assert maker is not None
                first = self.among("equal", now, self.constant(low) if bounds is None else bounds[0])
                values[feed] = self.chosen(first, start, self.step(program, maker, {}))
            else:
                is_python = maker is not None and maker.op_name == "require"  # only ints have a bound check
                values[feed] = self._begun(loop_axis, k, start, taken.get(k), is_python)
        if bounds is not None:
            self.mask = self.within(now, *bounds)
        made = self.body(program, values)
        self.mask = outer
        there = None if bounds is None else self.among("less", *bounds)
        ended = []
        for k, (feed, start) in enumerate(zip(carried, starts, strict=True)):
            if outputs[k] == feed:
                ended.append(start)
            elif there is not None and _is_literal(program, outputs[k]) and start.is_plain:
                ended.append(self.chosen(self.mask, self.chosen(there, made[k], start), start))
            else:
                ended.append(self._ended(loop_axis, k, start, made[k], taken.get(k), bounds is not None))
        return ended

    def _begun(self, loop_axis: int, carry: int, start: LoopValue, taken: Taken | None, is_python: bool) -> LoopValue:
        """Return a carried value as it is in each iteration."""
        if start.total is not None or not (start.rank or start.taken):
            zero = self.run.scalar(0, self.meta(start.tensor).dtype)
            return LoopValue(zero, total=Total(loop_axis, carry, is_python=is_python))
        names = start.names or tuple(range(start.rank))
        start = start._replace(names=names)
        if names != tuple(range(len(names))):
            raise_not_vectorised()  # a view of an array that an outer loop carries
        if taken is None:
            return start._replace(pending=(*start.pending, (loop_axis, carry)))
        axis = self.axis_of(start, taken.axis)
        if not self.is_within(taken.at, self.own(start)[axis]):
            raise_not_vectorised()
        return self.part(start, [(axis, taken.at)])._replace(taken=(*start.taken, taken))

    def _ended(
        self, loop_axis: int, carry: int, start: LoopValue, end: LoopValue, taken: Taken | None, has_bounds: bool
    ) -> LoopValue:
        """Return a carried value after the last iteration."""
        if taken is not None:
            if (end.taken, end.pending) != ((*start.taken, taken), start.pending) or end.only:
                raise_not_vectorised()
            start = start._replace(names=start.names or tuple(range(start.rank)))
            if end.names != start.names:
                raise_not_vectorised()
            return self._put_back(loop_axis, start, end, taken)
        if end.only:
            raise_not_vectorised()
        if end.total is not None:
            if (end.total.loop_axis, end.total.carry) != (loop_axis, carry):
                raise_not_vectorised()
            return self._added_up(loop_axis, start, end) if end.total.is_begun else start
        if not end.is_plain or has_bounds or end.rank or not start.is_plain:
            raise_not_vectorised()
        last = self._last(loop_axis, end)
        return last if self.mask is None else self.chosen(self.mask, last, start)

    def _last(self, loop_axis: int, value: LoopValue) -> LoopValue:
        """Return a value in the last iteration."""
        over, own = self.over(value), self.own(value)
        if len(over) <= loop_axis:
            return LoopValue(value.tensor, value.loop_axes, value.rank)
        tensor, n = value.tensor, over[loop_axis]
        if any(m != 1 for m in over[loop_axis + 1 :]):
            raise_not_vectorised()
        if n > 1:
            shape = (*over, *own)
            starts = tuple([n - 1 if k == loop_axis else 0 for k in range(len(shape))])
            counts = tuple([1 if k == loop_axis else m for k, m in enumerate(shape)])
            attrs = {"starts": starts, "counts": counts, "steps": (1,) * len(shape)}
            tensor = self.emit("slice", (tensor,), attrs)
        return LoopValue(self.reshaped(tensor, (*over[:loop_axis], *own)), loop_axis, value.rank)

    def _put_back(self, loop_axis: int, start: LoopValue, end: LoopValue, taken: Taken) -> LoopValue:
        """Return an array with the parts of all iterations written back."""
        axis, over, own = self.axis_of(start, taken.axis), self.over(end), self.own(end)
        if len(over) > loop_axis + 1:
            if any(n != 1 for n in over[loop_axis + 1 :]):
                raise_not_vectorised()
            over = over[: loop_axis + 1]
        tensor = self.reshaped(end.tensor, (*over, *own))
        order = [*range(loop_axis), *range(loop_axis + 1, len(over) + len(own))]
        order.insert(loop_axis + axis, loop_axis)
        if order != sorted(order):
            tensor = self.emit("transpose", (tensor,), {"axes": order})
        whole = self.own(start)
        assert taken.at.loop_axis is not None
        step, begin = taken.at.loop_axis[1], taken.at.constant
        if (begin, step, over[loop_axis]) != (0, 1, whole[axis]):
            starts, counts, steps = [0] * len(whole), list(whole), [1] * len(whole)
            starts[axis], counts[axis], steps[axis] = begin, over[loop_axis], step
            before = self.broadcast_along(start, over[:loop_axis])
            tensor = self.emit("update_slice", (before, tensor), self.region(over[:loop_axis], starts, counts, steps))
        return start._replace(tensor=tensor, loop_axes=loop_axis, rank=len(whole), known=None)

    def _added_up(self, loop_axis: int, start: LoopValue, added: LoopValue) -> LoopValue:
        """Return a number with the additions of all iterations."""
        assert added.total is not None
        dtype = self.meta(added.tensor).dtype
        if added.total.parts:
            parts = self._one_after_the_other(loop_axis, added.total.parts)
            if start.total is not None:
                return self.more(start, parts)
            if loop_axis:
                raise_not_vectorised()
            return self._in_order(start, parts.tensor, self.own(parts)[0])
        if added.total.how:
            how = added.total.how
            found = self.emit(how, (self._over_loop_axis(loop_axis, added._replace(total=None)),), {
                "axis": loop_axis, "keepdims": False})
            both = "logical_and" if how == "all" else "logical_or"
            more = LoopValue(found, loop_axis)
            return self.held(start, more, how) if start.total is not None else self.among(both, start, more)
        whole = self.emit("sum", (self._over_loop_axis(loop_axis, added._replace(total=None)),), {
            "axis": loop_axis, "keepdims": False})
        more = LoopValue(self.cast(whole, dtype), loop_axis)
        return self.more(start, more) if start.total is not None else self.among("add", start, more)

    def _over_loop_axis(self, loop_axis: int, value: LoopValue) -> int:
        """Return a value's tensor with all iterations of the innermost loop axis along it."""
        over = [*self.over(value), *(1,) * (loop_axis + 1 - value.loop_axes)]
        if any(n != 1 for n in over[loop_axis + 1 :]):
            raise_not_vectorised()
        return self.broadcast_along(value, (*over[:loop_axis], self.extents[loop_axis]))

    def _one_after_the_other(self, loop_axis: int, parts: Sequence[LoopValue]) -> LoopValue:
        """Return what the iterations of the innermost loop axis add to a number, in order along an axis."""
        tensors = []
        for part in parts:
            many = part if part.rank else part._replace(
                tensor=self.reshaped(part.tensor, (*self.meta(part.tensor).shape, 1)), rank=1)
            tensors.append(LoopValue(self._over_loop_axis(loop_axis, many), loop_axis + 1, 1))
        over = self.joint(tensors)
        broadcast = [self.broadcast_along(v, over) for v in tensors]
        joined = broadcast[0] if len(broadcast) == 1 else self.emit("concat", broadcast, {"axis": loop_axis + 1})
        shape = self.meta(joined).shape
        if math.prod(shape) > WIDEST:
            raise_not_vectorised()
        return LoopValue(
            self.reshaped(joined, (*shape[:loop_axis], shape[loop_axis] * shape[loop_axis + 1])), loop_axis, 1
        )

    def _in_order(self, start: LoopValue, parts: int, count: int) -> LoopValue:
        """Return a float after adding numbers in order."""
        low, high = (self.run.scalar(n, "int64") for n in (0, count))
        meta = self.meta(start.tensor)

        def iteration(index: int, carried: Sequence[int]) -> list[int]:
            part = self.emit("gather", (parts, index), {"axes": (0,), "place": 0})
            return [self.emit("add", (carried[0], part))]

        (made,) = self.looped((low, high), [start.tensor], [Meta((), meta.dtype)], iteration)
        return LoopValue(made)

    # ------------------------------------------------------------------ loops within
    def _counted(self, step: OpStep, values: Sequence[LoopValue]) -> Sequence[LoopValue]:
        """Return the results of an inner loop over a range."""
        low, high, *rest = values
        program, carries = step.attr("body"), step.attr("carries")
        starts, captured = rest[:carries], rest[carries:]
        if not (low.loop_axes or high.loop_axes) and (low.known is None or high.known is None):
            return self.one_by_one(program, low, high, starts, captured, None)
        if low.known is None or high.known is None:
            raise_not_vectorised()
        least, most = low.known.ends(self.extents)[0], high.known.ends(self.extents)[1]
        count, bounds = most - least, (low, high) if low.known.steps or high.known.steps else None
        if count < 1:
            return starts
        source = self.source
        try:
            return self.loop_axis(program, least, count, starts, captured, bounds)
        except NotVectorisedError:
            self.source = source
        if bounds is None and count <= _WRITTEN_OUT and count * len(program.steps) <= _STEPS:
            return self.written_out(program, least, count, starts, captured)
        ends = self.constant(least), self.constant(most)
        return self.one_by_one(program, *ends, starts, captured, bounds)

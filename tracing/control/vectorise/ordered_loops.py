"""Loops that run in order inside of vectorised ones, each step over the values of all outer iterations.

The values that such a loop carries may differ along the outer loop axes. Its iteration is recorded again until their
shapes no longer change. Inactive iterations, outside of the bounds of a triangle or past the end of their loop, keep
their values. Owns the recording of these loops as loop steps. Does not own which loops run in order
(`jitfuse.tracing.control.vectorise.vectorised_loop`).
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from jitfuse.ir.program import FusedProgram, Meta, OpStep
from jitfuse.tracing.control.vectorise.steps import Steps
from jitfuse.tracing.control.vectorise.values import LoopValue, raise_not_vectorised
from jitfuse.tracing.record.regions import TracedBody, body_of, close, program_of
from jitfuse.tracing.record.session import TracedRegion

_SHAPES: Final = 8
"""Most attempts to record a loop whose carried values turn out to differ along more loop axes."""
_COUNT: Final = Meta((), "int64")


class InOrder(Steps):
    """Inner loops that run in order over loop axes."""

    def body(self, program: FusedProgram, feeds: Mapping[int, LoopValue]) -> list[LoopValue]:
        """Return the results of a body for the values of its feeds."""
        raise NotImplementedError

    def within(self, now: LoopValue, low: LoopValue, high: LoopValue) -> LoopValue:
        """Return which of the active iterations are within the bounds."""
        there = self.among("logical_and", self.among("greater_equal", now, low), self.among("less", now, high))
        return there if self.mask is None else self.among("logical_and", self.mask, there)

    def written_out(
        self, program: FusedProgram, low: int, count: int, starts: Sequence[LoopValue], captured: Sequence[LoopValue]
    ) -> Sequence[LoopValue]:
        """Return the carried values after a few unrolled iterations."""
        index, *feeds = program.ordered_feeds
        for k in range(low, low + count):
            starts = self.body(program, {index: self.constant(k), **dict(zip(feeds, (*starts, *captured)))})
        return starts

    def one_by_one(
        self, program: FusedProgram, low: LoopValue, high: LoopValue, starts: Sequence[LoopValue],
        captured: Sequence[LoopValue],
        bounds: tuple[LoopValue, LoopValue] | None,
    ) -> Sequence[LoopValue]:
        """Return the results of a loop that runs in order, over the values of all outer iterations.

        `bounds`: the range over which each outer iteration counts, as in `VectorisedLoop.loop_axis`.
        """
        index, *feeds = program.ordered_feeds
        outputs = list(program.outputs.values())
        moving = [k for k, start in enumerate(starts) if outputs[k] != feeds[k]]
        fixed = {feeds[k]: start for k, start in enumerate(starts) if k not in moving}
        fixed.update(zip(feeds[len(starts) :], captured, strict=True))

        def iteration(now: LoopValue, carried: Sequence[LoopValue]) -> list[LoopValue]:
            if bounds is not None:
                self.mask = self.within(now, *bounds)
            made = self.body(program, {index: now, **fixed, **{feeds[k]: v for k, v in zip(moving, carried)}})
            return [self._kept(made[k], old) if bounds is not None else made[k] for k, old in zip(moving, carried)]

        def loop(carried: Sequence[LoopValue], tensors: Sequence[int]) -> Sequence[int]:
            def in_region(index: int, parameters: Sequence[int]) -> list[int]:
                now = [v._replace(tensor=t) for v, t in zip(carried, parameters)]
                return self._alike(now, iteration(LoopValue(index), now))

            return self.looped((low.tensor, high.tensor), tensors, self._strong(tensors), in_region)

        made = dict(zip(moving, self._settled([starts[k] for k in moving], loop)))
        return [made.get(k, start) for k, start in enumerate(starts)]

    def _kept(self, new: LoopValue, old: LoopValue) -> LoopValue:
        """Return the new number where iterations are active, else the old one; arrays are masked when written."""
        if new.taken or old.taken:
            return new
        return self.chosen(self.mask, new, old)

    def _alike(self, before: Sequence[LoopValue], after: Sequence[LoopValue]) -> list[int]:
        """Return the tensors that an iteration leaves, in the shapes with which it began."""
        for old, new in zip(before, after, strict=True):
            if (new.taken, new.pending, new.names, new.rank) != (old.taken, old.pending, old.names, old.rank):
                raise_not_vectorised()
            if new.total is not None or new.only:
                raise_not_vectorised()
        overs = [self.joint(both) for both in zip(before, after)]
        if overs != [self.over(v) for v in before]:
            raise _WiderError(overs)
        return [self.cast(self.broadcast_along(v, over), self.meta(old.tensor).dtype)
                for old, v, over in zip(before, after, overs)]

    def _settled(
        self, starts: Sequence[LoopValue],
        loop: Callable[[Sequence[LoopValue], Sequence[int]], Sequence[int]],
    ) -> list[LoopValue]:
        """Return the results for carried values, with the loop axes that an iteration turns out to give them."""
        if any(v.total is not None for v in starts):
            raise_not_vectorised()
        mask, source, may_end = self.mask, self.source, self.may_end
        overs: Sequence[tuple[int, ...]] = [self.over(v) for v in starts]
        for _ in range(_SHAPES):
            tensors = [self.broadcast_along(v, over) for v, over in zip(starts, overs)]
            carried = [
                v._replace(tensor=t, loop_axes=len(over), known=None) for v, t, over in zip(starts, tensors, overs)
            ]
            try:
                results = loop(carried, tensors)
                return [v._replace(tensor=t) for v, t in zip(carried, results, strict=True)]
            except _WiderError as wider:
                overs = wider.overs
            finally:
                self.mask, self.source, self.may_end = mask, source, may_end
        raise_not_vectorised()

    def repeated(self, step: OpStep, values: Sequence[LoopValue]) -> Sequence[LoopValue]:
        """Return the results of a loop that ends by data: it runs until it has ended in all outer iterations."""
        condition, program, carries = step.attr("condition"), step.attr("body"), step.attr("carries")
        starts, captured = values[:carries], values[carries:]
        feeds, outputs = program.ordered_feeds, list(program.outputs.values())
        moving = [k for k in range(carries) if outputs[k] != feeds[k]]

        def holds(now: Sequence[LoopValue]) -> LoopValue:
            (made,) = self.body(condition, dict(zip(condition.ordered_feeds, (*now, *captured), strict=True)))
            if made.rank or not made.is_plain or made.only:
                raise_not_vectorised()
            return made if self.mask is None else self.among("logical_and", self.mask, made)

        def all_of(carried: Sequence[LoopValue]) -> list[LoopValue]:
            moved = dict(zip(moving, carried))
            return [moved.get(k, start) for k, start in enumerate(starts)]

        def iteration(on: LoopValue, carried: Sequence[LoopValue]) -> list[LoopValue]:
            self.mask, self.may_end = on, True
            made = self.body(program, dict(zip(feeds, (*all_of(carried), *captured), strict=True)))
            kept = [self._kept(made[k], old) for k, old in zip(moving, carried)]
            return [holds(all_of(kept)), *kept]

        def loop(carried: Sequence[LoopValue], tensors: Sequence[int]) -> Sequence[int]:
            def in_region(parameters: Sequence[int]) -> list[int]:
                now = [v._replace(tensor=t) for v, t in zip(carried, parameters[1:])]
                made = self._alike(now, iteration(now[0], now[1:]))
                return [self.any_of(made[0]), *made]

            goes_on = self.any_of(tensors[0])
            metas = self._strong((goes_on, *tensors))
            body = self._region(metas, in_region)
            ends = self._region(metas, lambda parameters: [parameters[0]])
            captured = sorted(body.captured)
            slots = list(zip(body.parameters, metas))
            attrs = {
                "body": program_of(self.run.session, body, slots, captured), "carries": len(metas),
                "condition": program_of(
                    self.run.session, ends, [(t if k == 0 else None, m) for k, (t, m) in enumerate(
                        zip(ends.parameters, metas))], captured),
            }
            return self.run.emit_all("while_loop", (goes_on, *tensors, *captured), attrs)[1:]

        made = dict(zip(moving, self._settled([holds(starts), *(starts[k] for k in moving)], loop)[1:]))
        return [made.get(k, start) for k, start in enumerate(starts)]

    def _strong(self, tensors: Sequence[int]) -> list[Meta]:
        return [Meta(m.shape, m.dtype) for m in map(self.meta, tensors)]

    # ------------------------------------------------------------------ their bodies
    def looped(
        self, ends: tuple[int, int], starts: Sequence[int], metas: Sequence[Meta],
        iteration: Callable[[int, Sequence[int]], list[int]],
    ) -> Sequence[int]:
        """Record a loop over a range; `iteration` records its body."""
        body = self._region((_COUNT, *metas), lambda parameters: iteration(parameters[0], parameters[1:]))
        captured = sorted(body.captured)
        slots = list(zip(body.parameters, (_COUNT, *metas), strict=True))
        attrs = {"body": program_of(self.run.session, body, slots, captured), "carries": len(starts)}
        return self.run.emit_all("fori_loop", (*ends, *starts, *captured), attrs)

    def _region(self, metas: Sequence[Meta], record: Callable[[Sequence[int]], list[int]]) -> TracedBody:
        """Return the body that is recorded over parameters with these metas."""
        session = self.run.session
        region = session.region = TracedRegion("a loop", len(session.graph.ops), session.region, is_python=True)
        try:
            for meta in metas:
                tensor = session.graph.add_feed(meta, "carried")
                region.parameters.append(tensor)
                session.parameters[tensor] = region
            outputs = tuple(record(region.parameters))
        finally:
            session.region = region.outer
            close(session, region.start, len(session.graph.ops))
        return body_of(session, region, outputs)


class _WiderError(Exception):
    """The carried values of a loop differ along more loop axes than those with which it began."""

    def __init__(self, overs: Sequence[tuple[int, ...]]) -> None:
        super().__init__()
        self.overs = overs

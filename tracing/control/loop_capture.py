"""Loop capture: Python loops over data-dependent ranges as loop steps, by the calls of `rewrite.loop_statements`.

The body is traced once for any iteration. The loop variable is a traced int. Each number that an iteration changes, and
each outer array that it writes, is a carried tensor. The body is traced again where it turns out to write another
array, or to change a number's dtype; then it becomes a `fori_loop`. Names that may be unbound after the loop, or that
hold arrays of one iteration, are deleted: using one raises, and the loop is rejected. So is any other loop that cannot
be reproduced; Python then runs it.

Does not own which loops are captured (`jitfuse.tracing.rewrite.loop_statements`), nor carried numbers
(`jitfuse.tracing.control.carried_numbers`).
"""
from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from jitfuse.base.later import Later
from jitfuse.base.records import NamedTuple
from jitfuse.dtypes import itemsize
from jitfuse.ir.analysis.effort import LARGE
from jitfuse.ir.program import FusedProgram, Meta
from jitfuse.tracing.control import replication
from jitfuse.tracing.control.carried_numbers import BOUND, CarriedNumber
from jitfuse.tracing.control.loop_ranges import Range, may_loop, range_of, range_to_vectorise, site_within
from jitfuse.tracing.record.graph import OpNode
from jitfuse.tracing.record.memory import Storage
from jitfuse.tracing.record.recorder import Recorder
from jitfuse.tracing.record.regions import body_of, close, program_of
from jitfuse.tracing.record.session import TracedRegion
from jitfuse.tracing.scalars.branch_values import UNBOUND, as_python, is_number, truth_of
from jitfuse.tracing.tensor.traced import TracedTensor, fresh

if TYPE_CHECKING:
    from jitfuse.tracing.record.value_reads import Site

vectorised_loop = Later("jitfuse.tracing.control.vectorise.vectorised_loop")

_PASSES: Final = 12
_MOST: Final = 128
"""Most captured loops of one trace, inner ones not counted: a loop that Python runs captures one in each iteration,
which takes tens of milliseconds."""
_COUNT: Final = Meta((), "int64")
_BOOL: Final = Meta((), "bool")


class _Form(NamedTuple):
    """The kind of a loop: whether it may end early, has no other end, and is certain to have an iteration."""

    ends: bool
    endless: bool = False
    certain: bool = False
    vectorised: range | None = None
    """The range of a loop that is to be vectorised, or else to run as any Python loop."""


class CapturedLoop:
    """A loop while its iteration is traced: the inputs and outputs of one iteration."""

    def __init__(
        self, run: Recorder, frame: types.FrameType, site: Site, names: tuple[str, ...], over: Range, form: _Form
    ) -> None:
        self.site, self._run, self._names, self._form = site, run, names, form
        run.converted_sites.add(site)
        self._active_branches, run.active_branches = run.active_branches, []
        self._low, self._high, self._start, self._step = over
        if self._active_branches:  # no iterations where the branch's condition is false
            high = self._active_branches[-1].condition.call("where", fresh(run, self._high), fresh(run, self._low))
            self._high = high._id()
            self._form = form._replace(certain=False)
        self._goes_on: tuple[int, ...] = ()
        """Of a loop that may end early: the next count, and whether there is another iteration."""
        held = _locals_of(frame)
        self._values: dict[str, Any] = {n: held.get(n, UNBOUND) for n in names}
        """The values of names other than numbers where an iteration begins: the same objects in each."""
        self._held: list[Any] = list(self._values.values()) if form.vectorised is not None else []
        """The values of the names before the loop, in case Python has to run it."""
        self._numbers: dict[str, CarriedNumber] = {}
        for name, value in self._values.items():
            if is_number(value):
                carried = CarriedNumber.of(run, value)
                self._values[name] = UNBOUND
                if carried is not None:
                    self._numbers[name] = carried
        self._before: list[tuple[Storage, int, Any]] = []
        self._written: list[Storage] = []
        self._outputs: list[int] = []
        self._altered = run.environment.altered()
        self._rng_counts = run.random_calls, run.random_base, run.rng_calls
        self._again = False
        self.region: TracedRegion | None = None
        self.is_traced = True
        """Whether the iteration is traced; else Python runs the loop."""
        self._is_given_up = False
        """Whether Python is about to run the loop."""
        self.at: tuple[Any, ...] = ()
        """Where the loop is in the function's code, for `replication.profiled_range`."""
        self._found: Sequence[int] | None = None
        """The results of the loop, where it was vectorised."""

    def __iter__(self) -> Iterator[Any]:
        if not self._run.loops and self._form.vectorised is None:
            self._run.session.loops += 1
            if self._run.session.loops > _MOST:
                self._run.undo_conversion(self.site)
        begun = len(self._run.graph.ops)
        for _ in range(_PASSES):
            yield self._begin()
            if self._end():
                break
        else:
            self._run.undo_conversion(self.site)
        if self._form.vectorised is not None:
            self._found = self._vectorised(self._form.vectorised, begun)
            if self._found is None:
                self._is_given_up = True
                self._run.session.in_order.add(self.site)
                yield from self._in_python(self._form.vectorised)

    def _in_python(self, over: range) -> Iterator[int]:
        """Run the loop as Python does."""
        values = replication.profiled_range(self._run, over, *self.at) if self.at else over
        if not isinstance(values, replication.ReplicatedLoop):
            yield from values
            return
        while (k := values.following(sys._getframe(1))) is not None:
            yield k

    # ------------------------------------------------------------------ an iteration
    def _begin(self) -> TracedTensor:
        """Begin an iteration; return its loop variable."""
        run, session = self._run, self._run.session
        found = [(ref, s) for ref in run.born if (s := ref()) is not None]
        run.born[:] = [ref for ref, _ in found]
        alive = [s for _, s in found]
        self._before = [(s, s.value, s.cache) for s in (*alive, *run.storages.values())]
        self.region = session.region = TracedRegion("a loop", len(run.graph.ops), session.region, is_python=True)
        run.loops.append(self)
        for storage, _, _ in self._before:
            storage.cache = {}  # views read before the loop differ from those of an iteration
        self._count = self._parameter("index", _COUNT)
        if self._form.ends:
            self._parameter("goes on", _BOOL)
        for name, carried in self._numbers.items():
            carried.begin(self._parameter, name, self._count, self._low)
        for storage in self._written:
            storage.value = self._parameter("carried array", storage.meta)
        return self._variable(self._at(self._count))

    def _at(self, count: int) -> int:
        """Return the value of the loop variable at a count."""
        run = self._run
        if self._step != 1:
            count = run.emit("multiply", (count, run.scalar(self._step, "int64")))
        return count if self._start is None else run.emit("add", (count, self._start))

    def _variable(self, tensor: int) -> TracedTensor:
        now = as_python(fresh(self._run, tensor))
        self._run.session.ranges[now._id()] = -BOUND, BOUND
        return now

    def _parameter(self, label: str, meta: Meta) -> int:
        session, region = self._run.session, self.region
        assert region is not None
        tensor = self._run.graph.add_feed(meta, label)
        region.parameters.append(tensor)
        session.parameters[tensor] = region
        return tensor

    @property
    def numbers(self) -> Iterable[CarriedNumber]:
        """The numbers that the loop carries."""
        return self._numbers.values()

    def entered(self) -> list[Any]:
        """Return the values of the names where an iteration begins."""
        if self._is_given_up:
            held, self._held, self.is_traced = self._held, [], False
            return held
        return [self._numbers[n].value if n in self._numbers else self._values[n] for n in self._names]

    def left(self, held: dict[str, Any], stop: Any) -> None:
        """Record the values of the names where an iteration ends, and whether it ends the loop."""
        run = self._run
        rng_counts = run.random_calls, run.random_base, run.rng_calls
        altered = run.environment.altered()
        same = len(altered) == len(self._altered) and all(a is b for a, b in zip(altered, self._altered))
        if run.active_branches or run.loops[-1] is not self or rng_counts != self._rng_counts or not same:
            run.undo_conversion(self.site)
        if self._form.ends:
            self._goes_on = self._next(stop)
        self._again = False
        for name, before in self._values.items():
            value = held.get(name, UNBOUND)
            if name in self._numbers:
                carried = self._numbers[name]
                fits = is_number(value) and carried.end(value)
                self._again |= carried.changed
                if not fits:
                    del self._numbers[name]
                    self._again = True
            elif before is not UNBOUND and value is not before:
                self._values[name] = UNBOUND
                self._again = True

    def _next(self, stop: Any) -> tuple[int, int]:
        run = self._run
        count = run.emit("add", (self._count, run.scalar(1, "int64")))
        if type(stop) is TracedTensor:
            more = run.emit("logical_not", (truth_of(stop)._id(),))
        else:
            more = run.scalar(not stop, "bool")
        if not self._form.endless:
            more = run.emit("logical_and", (more, run.emit("less", (count, self._high))))
        return count, more

    def _end(self) -> bool:
        """End an iteration; return whether it is valid for all iterations."""
        run, session, region = self._run, self._run.session, self.region
        assert region is not None and run.loops[-1] is self
        run.loops.pop()
        met = {id(s) for s, _, _ in self._before}
        self._before += [(s, feed, {}) for feed, s in run.storages.items() if id(s) not in met]
        written = [s for s, value, _ in self._before if s.value != value]
        results = [s.value for s in self._written]
        for storage, value, cache in self._before:
            storage.value, storage.cache = value, cache
        self._before = []
        session.region = region.outer
        close(session, region.start, len(run.graph.ops))
        known = {id(s) for s in self._written}
        new = [s for s in written if id(s) not in known]
        if new or self._again:
            self._written += new
            return False
        self._outputs = [*self._goes_on, *(t for c in self._numbers.values() for t in c.outputs), *results]
        return True

    # ------------------------------------------------------------------ all of them
    def _starts(self) -> list[int]:
        return [t for c in self._numbers.values() for t in c.starts] + [s.value for s in self._written]

    def _program(self, starts: Sequence[int]) -> tuple[FusedProgram, list[int]]:
        """Return the iteration as a program, and the tensors that it captures beside the carried ones."""
        run, session = self._run, self._run.session
        assert self.region is not None
        body = body_of(session, self.region, tuple(self._outputs))
        if self._form.vectorised is None and any(_goes_over_much(run, op) for op in body.ops):
            run.undo_conversion(self.site)
        captured = sorted(body.captured)
        metas = [session.graph.metas[t] for t in starts]
        parameters = metas if self._form.ends else [_COUNT, *metas]
        return program_of(session, body, list(zip(body.parameters, parameters, strict=True)), captured), captured

    def _vectorised(self, over: range, begun: int) -> Sequence[int] | None:
        """Record all iterations as a vectorised loop; return its results, None where the iterations must run in order.

        `begun` is the first op of the traced iteration, which is outside of any loop then.
        """
        starts = self._starts()
        program, captured = self._program(starts)
        found = vectorised_loop.vectorise(self._run, program, 0, len(over), starts, captured)
        closed = self._run.session.closed
        while found is not None and closed and closed[-1][0] >= begun:
            closed.pop()
        return found

    def _recorded(self) -> Sequence[int]:
        """Record the loop as a loop step; return its results."""
        run = self._run
        starts = self._starts()
        if self._form.ends:
            starts = [self._low, run.emit("less", (self._low, self._high)), *starts]
        if not self._outputs:
            return ()
        program, captured = self._program(starts)
        attrs = {"body": program, "carries": len(starts)}
        if not self._form.ends:
            return run.emit_all("fori_loop", (self._low, self._high, *starts, *captured), attrs)
        metas = [run.graph.metas[t] for t in starts]
        return run.emit_all("while_loop", (*starts, *captured), {
            **attrs, "condition": self._condition(metas, captured)})

    def finished(self) -> list[Any]:
        """Record the loop; return the values of the names after it, with its variable last."""
        run = self._run
        made = iter(self._recorded() if self._found is None else self._found)
        end = next(made) if self._form.ends else self._high
        if self._form.ends:
            next(made)
        for carried in self._numbers.values():
            carried.finish(made, self._low, self._high, self._form.certain, self._found is not None)
        for storage in self._written:
            storage.value, storage.cache = next(made), {}
        run.active_branches = self._active_branches
        found = self.entered()
        if not self._form.endless:
            found.append(self._last(end) if self._form.certain else UNBOUND)
        self._values, self._numbers, self._written = {}, {}, []
        return found

    def _last(self, end: int) -> TracedTensor:
        """Return the value of the loop variable in the last iteration."""
        return self._variable(self._at(self._run.emit("subtract", (end, self._run.scalar(1, "int64")))))

    def _condition(self, metas: list[Meta], captured: list[int]) -> FusedProgram:
        """Return the program that computes whether there is another iteration."""
        session = self._run.session
        region = session.region = TracedRegion("a loop", len(session.graph.ops), session.region, is_python=True)
        goes_on = self._run.graph.add_feed(_BOOL, "goes on")
        region.parameters.append(goes_on)
        session.parameters[goes_on] = region
        session.region = region.outer
        slots = [(goes_on if k == 1 else None, meta) for k, meta in enumerate(metas)]
        return program_of(session, body_of(session, region, (goes_on,)), slots, captured)


def _goes_over_much(run: Recorder, op: OpNode) -> bool:
    """Return whether an op writes more than one element at computed indices: it then goes over a whole array."""
    if op.op_name != "scatter":
        return False
    whole, value, *indices = [run.graph.metas[i] for i in op.input_ids]
    one = not value.shape and len(indices) == len(whole.shape) and not any(i.shape for i in indices)
    return not one and whole.size * itemsize(whole.dtype) > LARGE


def is_loop(value: Any) -> bool:
    """Return whether a value is a captured loop whose iteration is valid for all."""
    return type(value) is CapturedLoop and value.is_traced


# ---------------------------------------------------------------- what rewritten code calls
def _loop(
    run: Recorder | None, frame: types.FrameType, loop_site: Site, form: tuple[bool, bool, bool, bool, bool],
    names: tuple[str, ...], made: Any, *args: Any,
) -> Any:
    """Return what a ``for`` over a range iterates over: the range, or the captured loop.

    `form`: whether the loop contains one that is captured or wanted, may end early, rebinds its variable, is to be
    captured though its range is known, and may be vectorised.
    """
    around, ends, rebinds, long, independent = form
    if run is not None and made is range:
        if independent:
            tried = range_to_vectorise(run, loop_site, args)
            if tried is not None:
                site, over, values = tried
                return CapturedLoop(run, frame, site, names, over, _Form(ends, certain=not rebinds, vectorised=values))
        found = range_of(run, loop_site, around, long, args)
        if found is not None:
            site, over, certain = found
            return CapturedLoop(run, frame, site, names, over, _Form(ends, certain=certain and not rebinds))
        if ends and (run.active_branches or run.loops):
            run.undo_conversion()
    return made(*args)


def _during(run: Recorder | None, frame: types.FrameType, site: Site, wanted: bool, names: tuple[str, ...]) -> Any:
    """Return the captured loop of a ``while``; None where Python runs it."""
    if run is not None and (wanted or run.loops) and may_loop(run, site := site_within(run, site)):
        over = run.scalar(0, "int64"), run.scalar(1, "int64"), None, 1
        return CapturedLoop(run, frame, site, names, over, _Form(ends=True, endless=True))
    if run is not None and (run.active_branches or run.loops):
        run.undo_conversion()
    return None


def _enter(run: Recorder | None, frame: types.FrameType, loop: CapturedLoop) -> Any:
    return _as_assigned(loop.entered())


def _leave(run: Recorder | None, frame: types.FrameType, loop: CapturedLoop, stop: Any) -> None:
    loop.left(_locals_of(frame), stop)


def _finish(run: Recorder | None, frame: types.FrameType, loop: CapturedLoop) -> Any:
    return _as_assigned(loop.finished())


def _locals_of(frame: types.FrameType) -> dict[str, Any]:
    """Return a copy of a frame's local variables. The frame keeps none, so that arrays of an iteration can die."""
    seen = frame.f_locals
    held = dict(seen)
    if type(seen) is dict:  # up to 3.12 CPython caches the dict of the last read
        seen.clear()
    return held


def _as_assigned(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else tuple(values)


STEPS: Final[dict[str, Callable[..., Any]]] = {
    "loop": _loop, "during": _during, "enter": _enter, "leave": _leave, "finish": _finish, "is_loop": is_loop,
}
"""The function for each step of a loop, as in `jitfuse.tracing.control.if_conversion.STEPS`."""

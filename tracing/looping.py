"""Loops of Python over ranges that are data, as loops of the program: what code of `view.loop_statements` calls.

The body is run on what stands for any iteration: a traced int for the loop's variable, a tensor for each number that
goes from one iteration to the next, and for each array from outside that is written. It is run again where it turns out
to write another array, or to leave a number of another dtype than it began with, and then becomes a `fori_loop`.
Names that need not be bound after the loop, or that are arrays of an iteration, are deleted: using one raises, and the
loop is refused. So is any loop in which something else cannot be kept; Python then goes through it. Does not own
which loops these are (`jitfuse.tracing.view.loop_statements`), nor numbers that are carried
(`jitfuse.tracing.looping_numbers`).
"""
from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from jitfuse.dtypes import integer_range, is_integer, itemsize
from jitfuse.ir import statuses
from jitfuse.ir.effort import LARGE
from jitfuse.ir.program import Meta
from jitfuse.tracing.choosing import UNBOUND, as_python, is_number, refuse
from jitfuse.tracing.graph import OpNode
from jitfuse.tracing.handlers import is_caught
from jitfuse.tracing.lifting import lift
from jitfuse.tracing.look import UnknownValueError, known_value
from jitfuse.tracing.looping_numbers import Carried
from jitfuse.tracing.memory import Storage
from jitfuse.tracing.observing import may_put_off
from jitfuse.tracing.recorder import Recorder
from jitfuse.tracing.regions import body_of, close, program_of
from jitfuse.tracing.session import Region
from jitfuse.tracing.traced import TracedTensor, fresh

if TYPE_CHECKING:
    from jitfuse.tracing.observing import Site

_FEW: Final = 4
"""Iterations up to which Python goes through a loop that it knows, within or around one that it does not."""
_BOUND: Final = 1 << 31
"""Where ranges that are data begin and end: further on plain Python answers."""
_PASSES: Final = 12
_COUNT: Final = Meta((), "int64")


class Loop:
    """A loop while its iteration is traced: what goes in and comes out of one."""

    def __init__(
        self, run: Recorder, frame: types.FrameType, place: Site, names: tuple[str, ...], over: _Range
    ) -> None:
        self.place, self._run, self._names = place, run, names
        run.branched.add(place)
        self._arms, run.arms = run.arms, []
        self._low, self._high, self._start, self._step = over
        if self._arms:  # where the arm is off there is no iteration
            high = self._arms[-1].condition.call("where", fresh(run, self._high), fresh(run, self._low))
            self._high = high._id()
        held = frame.f_locals
        self._values: dict[str, Any] = {n: held.get(n, UNBOUND) for n in names}
        """What names hold where an iteration begins, other than numbers: the same object in each."""
        self._numbers: dict[str, Carried] = {}
        for name, value in self._values.items():
            if is_number(value):
                carried = Carried.of(run, value)
                self._values[name] = UNBOUND
                if carried is not None:
                    self._numbers[name] = carried
        self._before: list[tuple[Storage, int, Any]] = []
        self._written: list[Storage] = []
        self._outputs: list[int] = []
        self._altered = run.view.altered()
        self._drawn = run.random_calls, run.random_base, run.draws
        self._again = False
        self.region: Region | None = None

    def __iter__(self) -> Iterator[Any]:
        for _ in range(_PASSES):
            yield self._begin()
            if self._end():
                return
        refuse(self._run, self.place)

    # ------------------------------------------------------------------ an iteration
    def _begin(self) -> TracedTensor:
        """Begin an iteration; return the loop's variable in it."""
        run, session = self._run, self._run.session
        alive = [s for ref in run.born if (s := ref()) is not None]
        self._before = [(s, s.value, s.cache) for s in (*alive, *run.storages.values())]
        self.region = session.region = Region("a loop", len(run.graph.ops), session.region, is_python=True)
        run.loops.append(self)
        for storage, _, _ in self._before:
            storage.cache = {}  # what views hold now is not what they hold in each iteration
        self._count = self._parameter("index", _COUNT)
        for name, carried in self._numbers.items():
            carried.begin(self._parameter, name, self._count, self._low)
        for storage in self._written:
            storage.value = self._parameter("carried array", storage.meta)
        at = self._count
        if self._step != 1:
            at = run.emit("multiply", (at, run.scalar(self._step, "int64")))
        if self._start is not None:
            at = run.emit("add", (at, self._start))
        now = as_python(fresh(run, at))
        run.session.ranges[now._id()] = -_BOUND, _BOUND
        return now

    def _parameter(self, label: str, meta: Meta) -> int:
        session, region = self._run.session, self.region
        assert region is not None
        tensor = self._run.graph.add_feed(meta, label)
        region.parameters.append(tensor)
        session.parameters[tensor] = region
        return tensor

    @property
    def numbers(self) -> Iterable[Carried]:
        """The numbers that go from one iteration to the next."""
        return self._numbers.values()

    def entered(self) -> list[Any]:
        """Return what the names hold where an iteration begins."""
        return [self._numbers[n].value if n in self._numbers else self._values[n] for n in self._names]

    def left(self, held: dict[str, Any]) -> None:
        """Hear what the names hold where an iteration ends."""
        run = self._run
        drawn = run.random_calls, run.random_base, run.draws
        altered = run.view.altered()
        same = len(altered) == len(self._altered) and all(a is b for a, b in zip(altered, self._altered))
        if run.arms or run.loops[-1] is not self or drawn != self._drawn or not same:
            refuse(run, self.place)
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

    def _end(self) -> bool:
        """End an iteration; return whether it stands for all."""
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
        self._outputs = [*(t for c in self._numbers.values() for t in c.outputs), *results]
        return True

    # ------------------------------------------------------------------ all of them
    def finished(self) -> list[Any]:
        """Record the loop; return what the names hold after it."""
        run, session = self._run, self._run.session
        results: tuple[int, ...] = ()
        starts = [t for c in self._numbers.values() for t in c.starts] + [s.value for s in self._written]
        if self._outputs:
            assert self.region is not None
            body = body_of(session, self.region, tuple(self._outputs))
            if any(_goes_over_much(run, op) for op in body.ops):
                refuse(run, self.place)
            captured = sorted(body.captured)
            metas = [_COUNT, *(session.graph.metas[t] for t in starts)]
            program = program_of(session, body, list(zip(body.parameters, metas, strict=True)), captured)
            attrs = {"body": program, "carries": len(starts)}
            results = run.emit_all("fori_loop", (self._low, self._high, *starts, *captured), attrs)
        made = iter(results)
        for carried in self._numbers.values():
            carried.finish(made, self._low, self._high)
        for storage in self._written:
            storage.value, storage.cache = next(made), {}
        run.arms = self._arms
        found = self.entered()
        self._values, self._numbers, self._written = {}, {}, []
        return found


def _goes_over_much(run: Recorder, op: OpNode) -> bool:
    """Return whether an operator writes more than an element at places of data: then it goes over a whole array."""
    if op.op_name != "scatter":
        return False
    whole, value, *indices = [run.graph.metas[i] for i in op.input_ids]
    one = not value.shape and len(indices) == len(whole.shape) and not any(i.shape for i in indices)
    return not one and whole.size * itemsize(whole.dtype) > LARGE


def is_loop(value: Any) -> bool:
    """Return whether a value is a loop that becomes one of the program."""
    return type(value) is Loop


# ---------------------------------------------------------------- ranges
_Range = tuple[int, int, int | None, int]
"""The tensors of int64 between which a loop counts; of its variable the first value, where that is not the count
itself, and the step."""


def _range_of(run: Recorder, place: Site, around: bool, args: tuple[Any, ...]) -> _Range | None:
    """Return what a loop counts over; None where Python had better go through it."""
    if run.splitter is None or not may_put_off(run) or run.splitter.decides(place) or run.session.torch or is_caught():
        return None
    start, stop, step = args if len(args) == 3 else (args[0], args[1], 1) if len(args) == 2 else (0, args[0], 1)
    start, stop, step = (_known(run, v) for v in (start, stop, step))
    if type(step) is not int or not 0 < abs(step) < _BOUND:
        return None
    if type(start) is type(stop) is int:
        length = len(range(start, stop, step)) if max(abs(start), abs(stop)) < _BOUND else 0
        if length < _FEW or not (around or (run.loops and length > _FEW)):
            return None
    low, high = _bound(run, start), _bound(run, stop)
    if low is None or high is None:
        return None
    if step == 1:
        return low, high, None, 1
    apart = run.emit("subtract", (high, low) if step > 0 else (low, high))
    apart = run.emit("add", (apart, run.scalar(abs(step) - 1, "int64")))
    count = run.emit("floor_divide", (apart, run.scalar(abs(step), "int64")))
    return run.scalar(0, "int64"), count, low, step


def _known(run: Recorder, value: Any) -> Any:
    """Return a number that Python knows while it traces as it is."""
    if type(value) is TracedTensor:
        try:
            found = known_value(run.session, value._id())
        except UnknownValueError:
            return value
        return found if type(found) is int else value
    return value


def _bound(run: Recorder, value: Any) -> int | None:
    """Return an end of a range as an int64 that is checked; None where it is none for Python, or too far off."""
    if type(value) is int:
        return run.scalar(value, "int64") if abs(value) < _BOUND else None
    if not is_number(value):
        return None
    x = lift(run, value)
    if not is_integer(x._meta.dtype):
        return None
    low, high = integer_range(x._meta.dtype)
    if low < -_BOUND or high > _BOUND:
        ok = run.emit("less_equal", (x._id(), run.literal(_BOUND)))
        if low < 0:
            ok = run.emit("logical_and", (ok, run.emit("greater_equal", (x._id(), run.literal(-_BOUND)))))
        x = fresh(run, run.emit("require", (x._id(), ok), {"status": statuses.WIDE_RANGE}))
    return run.fit(x._id(), (), "int64")


# ---------------------------------------------------------------- what rewritten code calls
def _loop(
    run: Recorder | None, frame: types.FrameType, place: Site, around: bool, names: tuple[str, ...], made: Any,
    *args: Any,
) -> Any:
    """Return what a ``for`` over a range goes over: the range, or the loop that it becomes."""
    if run is not None and made is range:
        over = _range_of(run, place, around, args)
        if over is not None:
            return Loop(run, frame, place, names, over)
    return made(*args)


def _enter(run: Recorder | None, frame: types.FrameType, loop: Loop) -> Any:
    return _as_assigned(loop.entered())


def _leave(run: Recorder | None, frame: types.FrameType, loop: Loop) -> None:
    loop.left(frame.f_locals)


def _finish(run: Recorder | None, frame: types.FrameType, loop: Loop) -> Any:
    return _as_assigned(loop.finished())


def _as_assigned(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else tuple(values)


STEPS: Final[dict[str, Callable[..., Any]]] = {"loop": _loop, "enter": _enter, "leave": _leave, "finish": _finish}
"""What takes a step of a loop in a frame, as `jitfuse.tracing.branching.STEPS`."""

"""A small symbolic tracer: values with the expression that recomputes them from re-read feeds."""
from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest

from jitfuse.tracing import known_libraries
from jitfuse.tracing.interception.chain import Chain, GuardLog
from jitfuse.tracing.interception.reader import TracingEnvironment


class Traced:
    """A stand-in: `now` is its value in the trace, `compute(read)` recomputes it from feeds read again."""

    def __init__(self, now: Any, compute: Callable[[Any], Any]) -> None:
        self.now, self.compute = now, compute

    def __getitem__(self, key: Any) -> Traced:
        return Traced(self.now[key], lambda read: self.compute(read)[key])

    def sum(self) -> Traced:
        return Traced(self.now.sum(), lambda read: self.compute(read).sum())

    @property
    def shape(self) -> Any:
        return self.now.shape

    def __neg__(self) -> Traced:
        return Traced(-self.now, lambda read: -self.compute(read))


def _operators() -> None:
    def two(function: Any, swapped: bool) -> Any:
        def method(self: Traced, other: Any) -> Traced:
            a, b = (other, self) if swapped else (self, other)
            return Traced(function(now(a), now(b)), lambda read: function(again(a, read), again(b, read)))

        return method

    for name in ("add", "sub", "mul", "truediv", "matmul", "pow"):
        function = getattr(operator, name)
        setattr(Traced, f"__{name}__", two(function, False))
        setattr(Traced, f"__r{name}__", two(function, True))


_operators()


def now(value: Any) -> Any:
    """The value at trace time, through containers."""
    return _map(value, lambda traced: traced.now)


def again(value: Any, read: Any) -> Any:
    """The value with feeds read again."""
    return _map(value, lambda traced: traced.compute(read))


def _map(value: Any, leaf: Any) -> Any:
    if isinstance(value, Traced):
        return leaf(value)
    if type(value) in {list, tuple}:
        return type(value)(_map(item, leaf) for item in value)
    return {key: _map(item, leaf) for key, item in value.items()} if type(value) is dict else value


@dataclass
class FakeHooks:
    """Records what the view asks; numbers and arrays become `Traced`."""

    substitutes: dict[int, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    view: TracingEnvironment | None = None
    chains: dict[int, Chain] = field(default_factory=dict)

    def is_array(self, value: Any) -> bool:
        return isinstance(value, np.ndarray)

    def knows(self, value: Any) -> bool | None:
        return known_libraries.knows(value)

    def is_module(self, value: Any) -> bool:
        return False

    def module(self, view: Any, chain: Chain, value: Any) -> None:
        raise NotImplementedError

    attribute: ClassVar[Any] = staticmethod(getattr)  # which has no frame

    def iterations(self, value: range, code: Any, line: int, column: int, counted: bool) -> Any:
        return value

    def is_traced(self, value: Any) -> bool:
        return type(value) is Traced

    def array(self, chain: Chain, value: Any) -> Any:
        self.asked.append(str(chain))
        traced = Traced(value, lambda read: read(chain))
        self.chains[id(traced)] = chain
        return traced

    number = numpy_scalar = array

    def substitute(self, value: Any) -> Any | None:
        return self.substitutes.get(id(value))

    def concrete(self, value: Any) -> Any:
        if isinstance(value.now, np.ndarray):
            raise TypeError("an array has no plain value")
        chain = self.chains.get(id(value))
        if chain is not None and self.view is not None:
            self.view.guard_value(chain, value.now)
        return value.now

    def called(self, value: Any) -> Any:
        return value

    def identified(self, *values: Any) -> tuple[Any, ...]:
        return values

    def writes(self) -> None:
        pass

    def counted(self, value: Any, name: str, by: int, frame: Any) -> Any:
        return value

    def iterated(self, value: Any, name: str, frame: Any) -> Any:
        return value

    def reject_generator(self, target: str, value: Any) -> None:
        pass

    def stored(self, target: str, value: Any) -> Any:
        return value if isinstance(value.now, np.ndarray) else self.concrete(value)


@dataclass
class Traces:
    """The outcome of one trace."""

    seen: Any
    guard_log: GuardLog
    hooks: FakeHooks
    view: TracingEnvironment
    args: tuple[Any, ...]

    @property
    def result(self) -> Any:
        return now(self.seen)

    def replay(self) -> Any:
        """The result from feeds that are read again, without running the function."""
        return again(self.seen, lambda chain: chain.resolve(self.args))

    @property
    def holds(self) -> bool:
        return self.guard_log.check(self.args)

    def guards(self) -> list[str]:
        return [str(guard) for guard in self.guard_log.guards]


def trace(fn: Any, *args: Any, substitutes: dict[Any, Any] | None = None, **kwargs: Any) -> Traces:
    """Run a function under a view with the small tracer, and commit."""
    hooks = FakeHooks({id(real): seen for real, seen in (substitutes or {}).items()})
    view = hooks.view = TracingEnvironment(hooks)
    seen = view.run(fn, [view.read(Chain.arg(i), arg) for i, arg in enumerate(args)], kwargs)
    view.commit(args, kwargs)
    return Traces(seen, view.guard_log, hooks, view, args)


@pytest.fixture(name="trace")
def _trace() -> Any:
    return trace


@pytest.fixture
def follows() -> Any:
    """Check that a change of state gives the new result: by a failing guard, or by a feed read again."""

    def check(fn: Any, change: Callable[[], Any], *args: Any, by: str | None = None) -> Traces:
        plain = fn(*args)
        code = getattr(fn, "__code__", None)
        got = trace(fn, *args)
        assert getattr(fn, "__code__", None) is code, "the function has its own code back"
        np.testing.assert_array_equal(got.result, plain)
        assert got.holds, got.guard_log.why_failed(got.args)
        np.testing.assert_array_equal(got.replay(), plain)
        change()
        fresh = fn(*args)
        assert not np.array_equal(fresh, plain), "the change must matter"
        if got.holds:
            np.testing.assert_array_equal(got.replay(), fresh)
            assert by != "guard"
        else:
            assert got.guard_log.why_failed(got.args)
            assert by != "feed"
        np.testing.assert_array_equal(trace(fn, *args).result, fresh)
        return got

    return check

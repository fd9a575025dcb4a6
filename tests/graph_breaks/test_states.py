"""What two looks must have in common for the way between them to be a loop, and what is kept of a look."""
from __future__ import annotations

import enum
import gc
import warnings
import weakref
from typing import Any, NamedTuple

import numpy as np
import pytest
from split_results import check

import jitfuse as jf
from jitfuse.graph_breaks import limits

UP, DOWN = np.arange(1.0, 6.0), -np.arange(1.0, 6.0)


class Counted(int):
    """A number with attributes."""

    n: int


class Kind(enum.Enum):
    """A choice."""

    FIRST = 1
    SECOND = 2


def bound_pop(x: Any) -> Any:
    pop = [float(k) for k in range(20)].pop
    while x.sum() > 1:
        x = x * 0.25 + pop() * 0.001
    return x


def bound_append(x: Any) -> Any:
    append: Any = [].append
    while x.sum() > 1:
        x = x * 0.5
        append(1)
    return x * len(append.__self__)


def generator_method(x: Any) -> Any:
    def numbers() -> Any:
        k = 0.0
        while True:
            yield k
            k += 1

    send = numbers().send
    send(None)  # type: ignore[arg-type]
    while x.sum() > 1:
        x = x * 0.25 + send(None) * 0.001  # type: ignore[arg-type]
    return x


def number_with_attributes(x: Any) -> Any:
    c = Counted(3)
    c.n = 0
    while x.sum() > 1:
        x = x * 0.5
        c.n += 1
    return x * c.n


def empty_ranges(x: Any) -> Any:
    r = range(0)
    while x.sum() > 1:
        x = x * 0.5
        r = range(r.start + 1, r.start + 1)
    return x * r.start


@pytest.mark.parametrize(
    "function", [bound_pop, bound_append, generator_method, number_with_attributes, empty_ranges],
    ids=lambda f: f.__name__,
)
def test_states_that_differ(function: Any) -> None:
    check(function, *(UP * 2.0**k for k in (0, 3, 5, 1)), DOWN)


def test_views_of_what_a_loop_has_written() -> None:
    def function(x: Any) -> Any:
        y = np.zeros(5)
        z = y[1:3]
        while x.sum() > 1:
            x = x * 0.5
            z += x[:2]
            y = y * 1
        return y, z

    fused = check(function, *(UP * 2.0**k for k in (0, 3, 5, 1)), DOWN)
    assert fused.stats()["traces"] <= 4


def test_members_and_functions_are_equal_states() -> None:
    def function(x: Any) -> Any:
        kind, halve = Kind.FIRST, np.multiply
        size = len
        while x.sum() > 1:
            kind = Kind.SECOND if kind is Kind.FIRST else Kind.FIRST
            x = halve(x, 0.5)
        return x * size(x), kind.value

    fused = check(function, *(UP * 2.0**k for k in (0, 9, 20)))
    assert fused.stats()["traces"] <= 4


def test_a_read_keeps_its_values_and_not_the_array() -> None:
    @jf.fuse
    def function(x: Any, y: Any) -> Any:
        values = x.tolist()
        return values if y.sum() > 0 else (values, y)

    x = np.array([1.0, 2.0])
    assert function(x, UP) == [1, 2]
    x[:] = 5
    assert function(np.array([1.0, 2.0]), DOWN)[0] == [1, 2]
    gone = weakref.ref(x)
    del x
    gc.collect()
    assert gone() is None


def test_a_read_of_memory_that_has_been_written_through_another_argument() -> None:
    def function(x: Any, y: Any) -> Any:
        x[:] = 0
        try:
            positive = bool(y.sum() > 0)
        except Exception as error:
            raise KeyError("nothing else raises") from error
        if positive:
            raise ValueError("positive")
        return x + 1

    fused = jf.fuse(function)
    for shared in (False, True, False, True):
        memory = np.arange(1.0, 7.0)
        if not shared:
            with pytest.raises(ValueError, match="positive"):
                fused(memory[:2], memory[3:])
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", jf.FallbackWarning)
            np.testing.assert_array_equal(fused(memory[:5], memory[1:5]), np.ones(5))
        np.testing.assert_array_equal(memory, [0, 0, 0, 0, 0, 6])


def test_signals_that_user_code_makes_other_errors_of() -> None:
    def function(x: Any) -> Any:
        try:
            while x[0] > 1:
                x = x / 2
        except BaseException as error:
            raise ValueError("no") from error
        return x

    check(function, *(np.array([2.0**k]) for k in (0, 1, 5, 40)))


def test_a_change_of_mode_that_user_code_catches() -> None:
    def function(x: Any, training: bool = False) -> Any:
        factor = 2.0 if training else 3.0
        try:
            x = x * factor if x.sum() > 0 else x - factor
        except BaseException:
            x = x * 0
        return x

    fused = jf.fuse(function)
    for _ in range(2):
        for x in (UP, DOWN):
            for training in (False, True):
                np.testing.assert_array_equal(fused(x, training=training), function(x, training=training))


@pytest.mark.parametrize(("subgraphs", "states"), [(10, 1), (3, 40)])
def test_trees_start_over(monkeypatch: Any, subgraphs: int, states: int) -> None:
    def function(x: Any) -> Any:
        n = 0
        for v in x:
            if v > 0:
                n += 1
        while x.sum() > 1:
            x = x * 0.5
        return x + n

    monkeypatch.setattr(limits, "STATES", states)
    budget = jf.Budget(subgraphs=subgraphs, seconds=1e6)  # what starts over is traced again
    calls = ([1.0 if k >> b & 1 else -1.0 for b in range(4)] * np.ones(4) for k in range(16))
    check(function, *calls, budget=budget)


class Flow(NamedTuple):
    density: Any
    speed: Any


def test_named_tuples_are_part_of_a_state() -> None:
    def advance(x: Any, until: float) -> Any:
        time, iterations = 0.0, 0
        flow = Flow(x, x * 0.5)
        while time < until:
            if (flow.density < 0).any():
                raise FloatingPointError("negative density")
            step = 0.5 / np.max(np.abs(flow.speed) + 1)
            flow = Flow(flow.density - step * 0.1 * flow.speed, flow.speed * 0.9)
            time += step
            iterations += 1
        return flow, time, iterations

    fused = check(advance, *((np.arange(1.0, 5.0) + k, 3.0 + 4 * k) for k in range(5)), (-UP, 3.0))
    assert fused.stats()["traces"] <= 12

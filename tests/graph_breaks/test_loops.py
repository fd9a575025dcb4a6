"""Loops whose end depends on data: few segments, no trace per round, and never a loop closed that is none."""
from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pytest
from split_results import check

import jitfuse as jf

STARTS = tuple(np.array([float(2**k), 1.0, 0.5]) for k in (0, 1, 3, 9, 2, 0, 30))


def halve(x: Any) -> Any:
    while np.abs(x).max() > 1:
        x = x * 0.5
    return x


def swap(x: Any) -> Any:
    a, b = x, x * 0 + 1
    while a[0] > b[0]:
        a, b = b * 1, a * 0.5
    return a, b


def fibonacci(x: Any) -> Any:
    a, b = x[1], x[2]
    while a < x[0]:
        a, b = b + 0.25, a + b
    return a, b


def two_reads(x: Any) -> Any:
    while x.max() > 1:
        x = x * 0.5 if x.sum() > 10 else x - 0.75
    return x


def nested_loops(x: Any) -> Any:
    y = x * 0
    while x.sum() > 2:
        while y.sum() < x.sum():
            y = y * 2 + 1
        x, y = x * 0.5, y * 0.25
    return x, y


def breaks(x: Any) -> Any:
    while True:
        x = x - 1
        if x[0] < 0:
            break
        if x[0] > 100:
            x = x / 4
            continue
        x = x * 0.75
    return x


def with_else(x: Any) -> Any:
    while x[0] > 1:
        x = x / 2
        if x[0] == 4:
            break
    else:
        x = x - 100
    return x


def counted(x: Any) -> Any:
    n = 0
    while x[0] > 1:
        x = x / 2
        n += 1
    return x, n


def counter_that_matters(x: Any) -> Any:
    n = 0
    while x[0] > 1:
        x = x / 2
        n += 1
        if n == 4:
            x = x + 10
    return x


def history(x: Any) -> Any:
    seen = []
    while x[0] > 1:
        x = x / 2
        seen.append(x.sum())
    return seen


def last_two(x: Any) -> Any:
    recent = [x[0], x[0]]
    while x[0] > 1:
        x = x / 2
        recent.pop(0)
        recent.append(x[0])
    return recent


def hidden_iterator(x: Any) -> Any:
    for w in [0.5, 0.5, 0.5, 0.25, 0.5, 0.5]:
        x = x * w
        if x[0] < 1:
            break
    return x


def visible_iterator(x: Any) -> Any:
    factors = itertools.repeat(0.5, 5)
    f = 0.5
    while x[0] > 1:
        f = next(factors, 0.25)
        x = x * f
        f = 0
    return x


def generator_state(x: Any) -> Any:
    def steps() -> Iterator[float]:
        yield 0.5
        yield 0.5
        yield 0.5
        while True:
            yield 0.25

    source = steps()
    while x[0] > 1:
        x = x * next(source)
    return x


def closure_state(x: Any) -> Any:
    n = 0

    def factor() -> float:
        nonlocal n
        n += 1
        return 0.5 if n < 3 else 0.25

    while x[0] > 1:
        x = x * factor()
    return x


def made_closure_state(x: Any) -> Any:
    def make() -> Callable[[], float]:
        n = 0

        def factor() -> float:
            nonlocal n
            n += 1
            return 0.5 if n < 3 else 0.25

        return factor

    factor = make()
    while x[0] > 1:
        x = x * factor()
    return x


@dataclass
class Point:
    at: Any
    step: Any


def objects(x: Any) -> Any:
    p = Point(x, x * 0 + 0.5)
    while p.at[0] > 1:
        p = Point(p.at * p.step, p.step)
    return p.at


def mutated_object(x: Any) -> Any:
    p = Point(x, 0)
    while p.at[0] > 1:
        p.at = p.at * 0.5
        p.step += 1
    return p.at, p.step


def shared_objects(x: Any) -> Any:
    a = [x]
    b = a
    while a[0][0] > 1:
        a[0] = a[0] / 2
        b = [a[0] + 1] if a[0][0] == 2 else b
    b[0] = b[0] * 0
    return a[0], b[0]


def in_place(x: Any) -> Any:
    y = x.copy()
    view = y[:2]
    while y[0] > 1:
        y[0] /= 2
        view[1] += 1
    return y, view


def maximum_of_three(x: Any) -> Any:
    best = max(x[0], x[1], x[2])
    while best > 1:
        best = best / 2
    return best * x


def reduced(x: Any) -> Any:
    return reduce(lambda a, b: a + b if a > b else a - b, x)


def in_helper(x: Any) -> Any:
    def done(y: Any) -> Any:
        return y[0] <= 1

    while not done(x):
        x = x / 2
    return x


def read_in_helper(x: Any) -> Any:
    def smaller(y: Any) -> Any:
        return y / 2 if y[0] > 8 else y - 1

    while x[0] > 1:
        x = smaller(x)
    return x


def on_the_stack(x: Any) -> Any:
    total = 0.0
    k = iter([1, 1, 1, 2, 3, 4, 5] * 9)
    while next(k) * x[0] > 1:
        x = x / 2
    return x, total


def unrolled(x: Any) -> Any:
    for k in range(60):
        if x[0] <= 1:
            return x, k
        x = x / 2
    return x


def early_return_inside(x: Any) -> Any:
    while True:
        if x[0] <= 1:
            return x
        x = x / 2


CLOSED = (halve, swap, fibonacci, two_reads, nested_loops, breaks, with_else, objects, in_place, maximum_of_three,
          early_return_inside, last_two)
UNROLLED = (counted, counter_that_matters, history, hidden_iterator, visible_iterator, generator_state, closure_state,
            made_closure_state, mutated_object, shared_objects, reduced, in_helper, read_in_helper, on_the_stack,
            unrolled)


@pytest.mark.parametrize("function", CLOSED + UNROLLED, ids=lambda f: f.__name__)
def test_loops(function: Any) -> None:
    check(function, *STARTS)


@pytest.mark.parametrize("function", CLOSED, ids=lambda f: f.__name__)
def test_more_iterations_trace_nothing(function: Any) -> None:
    fused = jf.fuse(function)
    for x in STARTS:
        fused(x)
    before = fused.stats()
    x = np.array([2.0**12, 1.0, 0.5])
    np.testing.assert_array_equal(fused(x)[0], function(x)[0])
    after = fused.stats()
    assert after["compiles"] == before["compiles"] and after["traces"] <= before["traces"] + 1


def test_a_thousand_iterations_are_three_subgraphs() -> None:
    fused = jf.fuse(halve)
    x = np.array([2.0**1000, 1.0, 0.5])
    np.testing.assert_array_equal(fused(x), halve(x))
    stats = fused.stats()
    assert stats["traces"] <= 2 and stats["splits"] == 3 and len(fused.parts.plain.breaks.subgraphs) <= 3
    np.testing.assert_array_equal(fused(x / 2**500), halve(x / 2**500))
    assert fused.stats()["traces"] == stats["traces"]
    assert "a loop" in fused.explain(x)


def test_random_numbers_in_a_loop() -> None:
    def function(x: Any) -> Any:
        while x.sum() < 8:
            x = x + jf.random.uniform(x.shape)
        return x

    fused = jf.fuse(function)
    found = []
    for _ in range(2):
        jf.random.seed(7)
        found.append([fused(np.zeros(3)) for _ in range(4)])
    np.testing.assert_array_equal(found[0], found[1])
    assert len({x.tobytes() for x in found[0]}) == 4

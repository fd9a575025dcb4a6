"""Loops that count: closed where all that is done with the counter is seen, and right where it is not."""
from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from oracle import same
from split_results import checked

import jitfuse as jf
from jitfuse.tracing.interception.assembler import parse
from jitfuse.tracing.interception.counters import counters_of

pytestmark = pytest.mark.usefixtures("natively")


def limited(x, tol):
    it = 0
    while np.abs(x).max() > tol and it < 100:
        x = x * 0.5 + 0.0
        it += 1
    return x, it


def downwards(x, tol):
    left = 60
    while left > 0:
        if np.abs(x).max() < tol:
            break
        x = x * 0.75
        left -= 3
    return {"x": x, "left": left}


def solver(x, tol):
    for k in range(80):  # noqa: B007
        new = x * 0.5 + 1
        if np.abs(new - x).max() < tol:
            break
        x = new
    return x, k


def with_else(x, tol):
    for k in range(3, 40, 2):
        if np.abs(x).max() < tol:
            return x, k
        x = x * 0.5
    else:
        x = x - 100
    return x


def backwards(x, tol):
    for k in range(30, -3, -1):
        if x.sum() > tol and k < 25:
            break
        x = x + 0.125
    return x, [k]


def now_and_then(x, tol):
    it = 1
    while x.max() > tol:
        x = x * 0.5
        it += 1
        if it % 5 == 0:
            x = x + 0.01
        if it % 7:
            x = x - 0.001
        if it > 70:
            break
    return x


def two_counters(x, tol):
    hits = 0
    iterations = 0
    while iterations < 90:
        iterations += 1
        if x[0] > tol:
            hits += 2
            x = x * 0.5
        else:
            x = x * 1.75 + 0.01
        if hits > 40:
            break
    return x, iterations, hits


def nested(x, tol):
    total = 0
    for k in range(7):
        for _ in range(9):
            if x[0] < tol:
                break
            x = x * 0.5
            total += 1
        x = x + 3
        if total > 20:
            return total, x, k
    return x, total, k


def against_arrays(x, tol):
    it = 0
    y = np.minimum(x, 40)
    while y[0] > it:
        it += 1
        y = y + 0.25
    return y, it


def again(x, tol):
    it = 0
    while x.sum() > tol:
        it += 1
        x = x * 0.5
    it = 0
    for it in range(5):
        if x[0] > it:
            x = x - 1
    return x, it


def two_reads_in_a_line(x, tol):
    last = 0.0
    for k in range(100):  # noqa: B007 -- it is returned
        total = np.abs(x).max()
        x = x * 0.5 + 0.25
        if np.abs(total - last) < tol * total or total < tol:
            break
        last = total
    return x, last, k


CLOSED = (limited, downwards, solver, with_else, backwards, now_and_then, two_counters, nested, against_arrays, again,
          two_reads_in_a_line)


@pytest.mark.parametrize("function", CLOSED)
def test_loops_are_detected(function: Any) -> None:
    fused = jf.fuse(function)
    assert checked(fused, function, 300, 1e12, late=150) < 12
    assert fused.stats()["traces"] < 60 and fused.stats()["fallbacks"] == 0


@pytest.mark.parametrize("iterations", [500, 5000])
def test_thousands_of_iterations_are_traced_once(iterations: int) -> None:
    def f(x):
        it = 0
        for _ in range(100_000):
            if x[0] < 1:
                break
            x = x - 1
            it += 1
        return x, it

    fused = jf.fuse(f)
    for n in (iterations, iterations // 3, iterations * 2):
        same(fused(np.array([n, 0.5])), f(np.array([n, 0.5])))
    assert fused.stats()["splits"] < 20


def test_ranges_end() -> None:
    def f(x, tol):
        n = 0
        for _ in range(20):
            x = x * 0.75
            if x[0] > tol:
                n += 1
        return x, n

    fused = jf.fuse(f)
    for k in range(40):
        x = np.array([k * 3.0, 1])
        same(fused(x, 2.0), f(x, 2.0))
    assert fused.stats()["splits"] < 30


def test_loops_that_cannot_be_detected_have_ints() -> None:
    def growing(x):
        kept = []
        for _ in range(6):
            if x[0] < 1:
                break
            kept.append(x)
            x = x * 0.5
        return x, len(kept)

    def helping(x):
        return next(map(lambda y: limited(y, 1.0), [x]))  # noqa: C417 -- C stands in between

    for function, looks in ((growing, 5), (helping, 5)):
        fused = jf.fuse(function)
        same(fused(np.array([9.0, 1])), function(np.array([9.0, 1])))
        assert fused.stats()["splits"] == looks


def keeps_a_list(x, tol):
    kept = []
    for k in range(12):
        if x[0] > tol:
            kept.append(k)
        x = x * 0.75
    return x, kept


def indexes(x, tol):
    total = x[0] * 0
    k = 0
    while k < 3:
        if x[k] > tol:
            total = total + x[k]
        k += 1
    return total


def shows(x, tol):
    k = 0
    text = ""
    while x[0] > tol and k < 9:
        text = text + str(k)
        x = x * 0.5
        k += 1
    return x, text


def calls(x, tol):
    def half(y):
        return y * 0.5

    k = 0
    while x[0] > tol and k < 9:
        x = half(x) + max(k, 2)
        k += 1
    return x


def conditional(x, tol):
    k = 0 if x[1] > tol else 5
    while x[0] > tol and k < 9:
        x = x * 0.5
        k += 1
    return x, k


def small_types(x, tol):
    y = x.astype(np.int8)
    k = 0
    while k < y[0] % 7 + 1:
        k += 1
        y = y + np.int8(1)
    return y, k


def closes_over(x, tol):
    k = 0

    def more():
        return k < 5

    while x[0] > tol and more():
        x = x * 0.5
        k += 1
    return x, k


def reflects(x, tol):
    k = 0
    while x[0] > tol and k < 9:
        x = x * 0.5
        k += 1
    return x, locals()["k"]


def catches(x, tol):
    k = 0
    while k < 10:
        try:
            if x[0] < tol:
                raise KeyError
            x = x * 0.5
        except KeyError:
            return x, k
        finally:
            k += 1
    return x


def last_and_one(numbers):
    for v in numbers:
        v += 1
    return v


def helped(x, tol):
    k = 0
    m = five = 5
    while x[0] > tol:
        m = last_and_one((4,))
        x = x * 0.5 if m is five else x * 0.25
        k += 1
    return x, k, m


OPEN = (helped, keeps_a_list, indexes, shows, calls, conditional, small_types, closes_over, reflects, catches)


@pytest.mark.parametrize("function", OPEN)
def test_other_uses(function: Any) -> None:
    fused = jf.fuse(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jf.FallbackWarning)
        for n in range(40):
            x = np.array([n % 9 + 0.5, n % 5, 2.5])
            same(fused(x.copy(), 1.0), function(x.copy(), 1.0))


def test_items_that_are_no_counters_stay_run_time_values() -> None:
    def f(x, a, b):
        for v in (a, b):
            v += 1
        return x, v

    fused = jf.fuse(f)
    for k in range(12):
        args = np.array([1.0, k]), k * 0.5, k
        same(fused(*args), f(*args))
    assert fused.stats()["traces"] == 1


def test_what_counters_are() -> None:
    def names(function: Any) -> tuple[int, int]:
        found = counters_of(function.__code__, parse(function.__code__))
        return len(found.stores), len(found.loops)

    assert [names(f) for f in (limited, downwards, solver, with_else, two_counters)] == [
        (2, 0), (2, 0), (0, 1), (0, 1), (4, 0)
    ]
    assert all(names(f) == (0, 0) for f in (indexes, shows, calls, closes_over, reflects))

    def parameter(k):
        while k < 3:
            k += 1
        return k

    def large():
        k = 0
        while k < 3:
            k += 1 << 40
        return k

    def generator():
        k = 0
        while k < 3:
            k += 1
            yield 1

    def text():
        k = 0
        while k < "3":
            k += 1

    assert all(names(f) == (0, 0) for f in (parameter, large, generator, text))


@pytest.mark.parametrize("begin", [
    "time, rounds = 0.0, 0", "y, rounds = x, 0", "y, time, rounds = x, 0.0, 0", "rounds, y = 0, x",
    "[rounds, y] = 0, x",
])
def test_counters_that_are_set_with_other_variables(begin: str) -> None:
    names: dict[str, Any] = {}
    source = (f"def function(x, until):\n    total = 0.0\n    {begin}\n    while x.sum() < until:\n"
              "        x = x * 1.5\n        rounds += 1\n    return x, rounds\n")
    exec(compile(source, "counters.py", "exec"), names)
    function = names["function"]
    fused = jf.fuse(function)
    with warnings.catch_warnings():
        warnings.simplefilter("error", jf.FallbackWarning)
        for until in (9.0, 1e3, 1e6, 5.0, 1e9):
            x = np.array([1.0, 2.0])
            a, b = fused(x, until), function(x, until)
            assert type(a[1]) is int and a[1] == b[1]
            np.testing.assert_array_equal(a[0], b[0])
    assert fused.stats()["splits"] <= 8

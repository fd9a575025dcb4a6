"""Loops in helpers: closed where Python has called the helper itself and nothing is hidden, and right elsewhere."""
from __future__ import annotations

import functools
import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from oracle import same
from split_results import checked

import jitfuse as jf

pytestmark = pytest.mark.usefixtures("natively")


def relaxed(x, tol):
    while np.abs(x).max() > tol:
        x = x * 0.5 + 0.0
    return x


def limited(x, tol):
    it = 0
    while np.abs(x).max() > tol and it < 100:
        x = x * 0.5 + 0.0
        it += 1
    return x, it


def ranged(x, tol, most=80):
    for k in range(most):
        new = x * 0.5 + 1
        if np.abs(new - x).max() < tol:
            return new, k
        x = new
    raise RuntimeError("no convergence")


def adaptive(f, y, end, tol):
    t, h, accepted = 0.0, 0.25, 0
    while t < end:
        h = min(h, end - t)
        k1 = f(t, y)
        k2 = f(t + h, y + h * k1)
        error = np.abs(k2 - k1).max() * h / tol
        if error <= 1:
            t, y = t + h, y + h / 2 * (k1 + k2)
            accepted += 1
        h = h * min(2.0, max(0.5, 0.9 / (error + 1e-9)))
    return t, y, accepted


class Solver:
    def __init__(self, f, tol):
        self.f, self.tol = f, tol

    def newton(self, x):
        k = 0
        while True:
            value = self.f(x)
            step = value / ((self.f(x + 1e-4) - value) / 1e-4)
            x = x - step
            k += 1
            if np.abs(step).max() < self.tol or k > 40:
                return x, k


class State(NamedTuple):
    x: Any
    iterations: Any


def returns_it(x, tol):
    return limited(x, tol)


def in_one_another(x, tol):
    def outer(y):
        total = 0.0
        for _ in range(5):
            y, n = limited(y + 3, tol)
            total = total + n
            if y[0] < tol / 2:
                break
        return y, total

    return outer(x)


def one_after_the_other(x, tol):
    a = relaxed(x, tol)
    b, n = limited(x + a, tol)
    c, m = ranged(b, tol / 100)
    return a, b, c, n * 10 + m, [n, {"m": m}]


def method_and_closure(x, tol):
    shift = x[0]
    return Solver(lambda z: z * z - 2 - np.abs(shift), 1e-9).newton(np.abs(x) + 1)


def ode(x, tol):
    t, y, accepted = adaptive(lambda t, y: -y * 0.3 + t * 0.1, x, 3.0, 0.05 * tol)
    return y + t, accepted  # t is Python's number or NumPy's, as min chooses


def calls_in_a_loop(x, tol):
    total = x[0] * 0
    for _ in range(12):
        y = relaxed(x, tol)
        total = total + y[0]
        x = x * 0.75
        if np.abs(x).max() < tol:
            break
    return total, x


def named(x, tol):
    def step(s):
        return State(s.x * 0.5, s.iterations + 1)

    def run(s):
        while s.x[0] > tol:
            s = step(s)
        return s

    return run(State(x, 0.0))


def recursive(x, tol):
    def halve(y, depth):
        while np.abs(y).max() > tol * (depth + 1):
            y = y * 0.5
        return y if depth == 0 else halve(y + depth, depth - 1)

    return halve(x, 3)


CLOSED = (returns_it, in_one_another, one_after_the_other, method_and_closure, ode, named, recursive)


@pytest.mark.parametrize("function", [*CLOSED, calls_in_a_loop])
def test_loops_in_helpers_are_detected(function: Any) -> None:
    fused = jf.fuse(function)
    late = checked(fused, function, 100, 1e6, late=60)
    assert fused.stats()["fallbacks"] == 0
    if function is not calls_in_a_loop:
        assert fused.stats()["traces"] < 60 and late < 15


def test_thousands_of_iterations_in_a_helper() -> None:
    def down(x):
        it = 0
        for _ in range(100_000):
            if x[0] < 1:
                break
            x = x - 1
            it += 1
        return x, it

    def f(x):
        y, n = down(x)
        return y, n / 2

    fused = jf.fuse(f)
    for n in (5000, 1700, 9000):
        same(fused(np.array([n, 0.5])), f(np.array([n, 0.5])))
    assert fused.stats()["splits"] < 20 and fused.stats()["fallbacks"] == 0


# ---------------------------------------------------------------- what is hidden while a helper runs
def mapped(x, tol):
    first = list(map(lambda s: limited(x * s, tol), (1.0, 2.0)))  # noqa: C417 -- C calls it
    return first[1][0], sum(relaxed(x * s, tol)[0] for s in (1.0, 3.0))


def of_sorted(x, tol):
    return sorted([2.0, 1.0, 3.0], key=lambda s: limited(x * s, tol)[1])


def of_partial(x, tol):
    return functools.partial(limited, tol=tol)(x)


def of_reduce(x, tol):
    return functools.reduce(lambda y, s: relaxed(y * s, tol), [3.0, 5.0, 7.0], x)


def of_accumulate(x, tol):
    return list(itertools.accumulate([x, x * 3, x * 5], lambda a, b: relaxed(a + b, tol)))


def comprehension(x, tol):
    return [limited(x * s, tol) for s in (1.0, 2.0, 4.0)]


def on_the_stack(x, tol):
    y = x * 3
    return y + relaxed(x, tol) * len([1, 2]), (y, relaxed(y, tol), x.max() + limited(x, tol)[1])


def starred(x, tol):
    return limited(*(x, tol)), ranged(x=x, tol=tol)


class Called:
    def __init__(self, tol):
        self.tol = tol

    def __call__(self, x):
        return relaxed(x, self.tol)

    @property
    def half(self):
        return relaxed(self.x, self.tol)

    def __getitem__(self, x):
        return relaxed(x, self.tol) * 2

    def __enter__(self):
        return self

    def __exit__(self, *rest):
        return False


def objects(x, tol):
    made = Called(tol)
    made.x = x * 2
    with made as entered:
        inside = entered(x)
        again = relaxed(x * 3, tol)
    try:
        caught = relaxed(x * 5, tol)
    finally:
        again = again + 1
    return inside, again, caught, made.half, made[x * 4]


def generated(x, tol):
    def iterations(y):
        while np.abs(y).max() > tol:
            y = y * 0.5
            yield y

    *_, last = [x, *iterations(x)]
    return last, next(iterations(x + tol * 3))


@functools.lru_cache(maxsize=4)
def remembered(n):
    return n + 1


def wrapped(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


def decorated(x, tol):
    return wrapped(limited)(x, tol), remembered(3)


HIDDEN = (mapped, of_sorted, of_partial, of_reduce, of_accumulate, comprehension, on_the_stack, starred, objects,
          generated, decorated)


@pytest.mark.parametrize("function", HIDDEN)
def test_what_is_hidden_while_a_helper_runs(function: Any) -> None:
    fused = jf.fuse(function)
    rng = np.random.default_rng(5)
    with warnings.catch_warnings(action="ignore"):
        for _ in range(25):
            x, tol = np.round(rng.random(3) * rng.choice([1, 50]), 3), float(rng.choice([0.1, 1.0, 30.0]))
            same(fused(x.copy(), tol), function(x.copy(), tol))


# ---------------------------------------------------------------- counters that a helper returns
def does(use: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def function(x, tol):
        y, n = limited(x, tol)
        _, k = ranged(x, tol)
        return y, use(n, x), use(k, x)

    return function


@pytest.mark.parametrize("use", [
    lambda n, x: n ** 20,
    lambda n, x: n << 40,
    lambda n, x: (n + 1) * 2**60,
    lambda n, x: x[n % 3],
    lambda n, x: list(range(n)),
    lambda n, x: {n: 1}[n],
    lambda n, x: f"{n}",
    lambda n, x: type(n) is int and isinstance(n, int),
    lambda n, x: n == 3,
    lambda n, x: x * n,
    lambda n, x: x.astype(np.int8) + n % 100,
    lambda n, x: math.sqrt(n),
    lambda n, x: -n // 3,
    lambda n, x: ~n,
    lambda n, x: [0] * n,
    lambda n, x: "a" * n,
    lambda n, x: x[:n],
    lambda n, x: np.zeros(n),
    lambda n, x: n or 7,
    lambda n, x: n is None,
    lambda n, x: n / (n + 1),
    lambda n, x: divmod(n, 4),
    lambda n, x: np.float32(2) * n,
    lambda n, x: np.array([n, n]),
    lambda n, x: max(n, 4),
    lambda n, x: np.full(2, n),
    lambda n, x: int(n) + round(n),
    lambda n, x: n.bit_length(),
    lambda n, x: n * True + False,
])
def test_counters_that_are_returned_are_ints(use: Any) -> None:
    function = does(use)
    fused = jf.fuse(function)
    rng = np.random.default_rng(7)
    with warnings.catch_warnings(action="ignore"):
        for _ in range(14):
            x, tol = np.round(rng.random(3) * rng.choice([1, 50, 1e5]), 3), float(rng.choice([0.1, 1.0, 30.0]))
            same(fused(x.copy(), tol), function(x.copy(), tol))

"""Numbers that are NumPy's or Python's by the way a call goes: results have plain Python's types and values."""
from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import same

import jitfuse as jf


def largest(x: Any, y: Any, s: Any) -> Any:
    best = 0.0
    for v in x:
        if v > best:
            best = v
    return best


def largest_from_an_int(x: Any, y: Any, s: Any) -> Any:
    best = 0
    at = -1
    for i in range(20):
        if x[i] > best:
            best = x[i]
            at = i
    return (best, at)


def times_an_array(x: Any, y: Any, s: Any) -> Any:
    best = 0.0
    for v in x:
        if v > best:
            best = v
    return best * y


def computed_with(x: Any, y: Any, s: Any) -> Any:
    best = 0.0
    for v in x:
        if v > best:
            best = v
    return (best * 2 + 1, best / 2, best > 0, -best, best ** 2)


def computed_with_an_int(x: Any, y: Any, s: Any) -> Any:
    best = 0
    for v in x:
        if v > best:
            best = v
    return (best * 2 + 1, best / 2, best > 0, -best, best // 1, isinstance(best, int), type(best))


def extremes(x: Any, y: Any, s: Any) -> Any:
    return (max(0.0, x[0]), min(x[0], 1), max(x[0], x[1], 0.5), max(0, x[0]))


def extremes_of_float32(x: Any, y: Any, s: Any) -> Any:
    return (max(0.0, y[0]), max(y[0], 0.1) * 0.3, max(y[0] - 1, 0.1) * 0.3)


def in_a_dict(x: Any, y: Any, s: Any) -> Any:
    r = {}
    for i in range(20):
        w = x[i] if x[i] > 1 else 0.5
        r[i] = w
    return r


def sum_of_some(x: Any, y: Any, s: Any) -> Any:
    t = 0
    for i in range(20):
        if x[i] > 1:
            t = t + x[i]
    return t


def handed_on(x: Any, y: Any, s: Any) -> Any:
    a = 0.0
    b = 1.0
    for v in x:
        if v > 1:
            a, b = (v, a)
    return (a, b)


def shown(x: Any, y: Any, s: Any) -> Any:
    best = 0.0
    for v in x:
        if v > best:
            best = v
    return (f"{best}", str(best), repr(best))


def made_an_array(x: Any, y: Any, s: Any) -> Any:
    best = 0
    for v in x:
        if v > best:
            best = v
    return (np.array([best]), np.array([best, 1]), np.full(2, best), np.asarray(best))


def largest_float32(x: Any, y: Any, s: Any) -> Any:
    best = 0.0
    for v in y:
        if v > best:
            best = v
    return best


def of_a_helper(x: Any, y: Any, s: Any) -> Any:

    def f(v: Any) -> Any:
        if v > 1:
            return v
        return 0
    return [f(v) for v in x]


def beside_float32(x: Any, y: Any, s: Any) -> Any:
    best = 0.0
    for v in x:
        if v > best:
            best = v
    k = best + y[0]
    return (k, y[0] * best)


def in_containers(x: Any, y: Any, s: Any) -> Any:
    best = 0
    for v in x:
        if v > best:
            best = v
    return [best, {"b": best}, (best, best + 1)]


def asked_for_its_shape(x: Any, y: Any, s: Any) -> Any:
    best = 0.0
    for v in x:
        if v > best:
            best = v
    return best.shape if hasattr(best, "shape") else "no"


def halved(x: Any, y: Any, s: Any) -> Any:
    w = 0.0
    for i in range(20):
        if x[i] > 1:
            w = x[i]
        else:
            w = w * 0.5
    return w


def from_an_argument(x: Any, y: Any, s: Any) -> Any:
    b = s
    for v in x:
        if v > b:
            b = v
    return b


def by_functions_of_numpy(x: Any, y: Any, s: Any) -> Any:
    best: Any = 0
    for v in x:
        if v > best:
            best = v
    low = max(0.25, x[0])
    return np.sqrt(best), np.maximum(best, 1), np.logical_not(best > 1), np.exp(low), np.abs(low), abs(low), not low > 1


def over_ranges_of_data(x: Any, y: Any, s: Any) -> Any:
    sums = []
    begin = np.array([0, 3, 3, 7, 20]) * int(x.size > 5)
    for i in range(4):
        total = 0.0
        for k in range(begin[i], begin[i + 1]):
            total += x[k]
        sums.append(total)
    return sums


def iterations_of_data(x: Any, y: Any, s: Any) -> Any:
    p = (np.abs(x[:8]) * 2).astype(int)
    last = 0.5
    total = 0
    for i in range(7):
        for k in range(p[i], p[i + 1]):
            if x[k] > last:
                last = x[k]
            total += x[k]
    return last, total


def within_a_loop_that_looks(x: Any, y: Any, s: Any) -> Any:
    best = 0.0
    while x.sum() > 1:
        for v in x:
            if v > best:
                best = v
        x = x * 0.5
    return best


PROGRAMS = [
    largest, largest_from_an_int, times_an_array, computed_with, computed_with_an_int, extremes,
    extremes_of_float32, in_a_dict, sum_of_some, handed_on, shown, made_an_array, largest_float32, of_a_helper,
    beside_float32, in_containers, asked_for_its_shape, halved, from_an_argument, over_ranges_of_data,
    iterations_of_data, within_a_loop_that_looks,
]


def _calls() -> list[tuple[Any, Any, float]]:
    calls = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        calls.append((rng.random(20) * 2 - (seed == 3) * 5, rng.random(20).astype(np.float32), float(seed)))
    calls.append((-np.ones(20), np.ones(20, np.float32), 2.0))
    return [*calls, (np.full(20, 5.0), np.zeros(20, np.float32), 0.0)]


@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
@pytest.mark.parametrize("program", PROGRAMS)
def test_results_have_the_types_of_plain_python(program: Callable[..., Any]) -> None:
    fused = jf.fuse(program)
    for _ in range(2):
        for x, y, s in _calls():
            same(fused(x, y, s), program(x, y, s))


class _Keeper:
    best: Any = None


_keeper = _Keeper()


def kept(x: Any) -> Any:
    best: Any = 0
    for v in x:
        if v > best:
            best = v
    _keeper.best = best
    return [best]


def test_what_is_put_into_state_has_the_types_of_plain_python() -> None:
    fused = jf.fuse(kept)
    for x, _, _ in _calls():
        got = fused(x)
        found, _keeper.best = _keeper.best, None
        same(got, kept(x))
        same(found, _keeper.best)
    assert fused.stats()["fallbacks"] == 0


def test_divisions_by_what_may_be_pythons() -> None:
    def divided(x: Any, y: Any, s: Any) -> Any:
        best = 0.0
        for v in x:
            if v > best:
                best = v
        return 1.0 / best

    fused = jf.fuse(divided)
    for x, y, s in _calls():
        if max(0.0, *x.tolist()) == 0:
            with pytest.raises(ZeroDivisionError):
                fused(x, y, s)
            continue
        with contextlib.suppress(ZeroDivisionError):
            same(fused(x, y, s), divided(x, y, s))


def test_eager_arrays_and_exports() -> None:
    def function(x: Any) -> Any:
        return max(0.0, x[0]) * 2

    fused = jf.fuse(function)
    assert float(fused(jf.asarray(np.array([-1.0, 2.0])))) == 0
    assert float(fused(jf.asarray(np.array([1.5, 2.0])))) == 3
    space: dict[str, Any] = {}
    exec(fused.export(np.array([1.5, 2.0])), space)
    assert space["function"](np.array([-1.5, 2.0])) == 0 and space["function"](np.array([1.5, 2.0])) == 3


@pytest.mark.parametrize("function", [
    np.add, np.subtract, np.multiply, np.divide, np.power, np.floor_divide, np.remainder, np.maximum, np.greater,
    np.logaddexp, np.hypot,
])
@pytest.mark.parametrize("floor", [0.0, 0, 0.5, 2])
def test_functions_of_numpys_give_numpys_numbers(function: Any, floor: Any) -> None:
    def left(x: Any) -> Any:
        return function(max(floor, x[0]), 2.0)

    def right(x: Any) -> Any:
        return function(1.0, max(floor, x[0]))

    def both(x: Any) -> Any:
        found = max(floor, x[0])
        return function(found, found), np.negative(found), np.sqrt(found)

    for program in (left, right, both):
        fused = jf.fuse(program)
        for first in (-1.0, 3.0, -2.0, 0.25):
            x = np.array([first, 1.0])
            with np.errstate(all="ignore"):
                got, want = fused(x), program(x)
            for a, b in zip(*(np.atleast_1d(t) if not isinstance(t, tuple) else t for t in (got, want)), strict=True):
                assert type(a) is type(b)
                np.testing.assert_allclose(a, b, rtol=1e-14)
            assert type(got) is type(want)

"""Branches in loops that Python decides by data go both ways: equal to plain Python, and never plain Python."""
from __future__ import annotations

import copy
import math
import operator
import warnings
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from amount import crossed
from oracle import BRANCHES, same

import jitfuse as jf

N = 24
THRESHOLD = 0.25


def counted(x: Any) -> Any:
    above = below = 0
    for i in range(len(x)):
        if x[i] > THRESHOLD:
            above += 1
        elif x[i] < -THRESHOLD:
            below += 1
    return above, below, (above - below) / N


def written(x: Any) -> Any:
    out = np.zeros(len(x))
    for i in range(1, len(x) - 1):
        if x[i] >= x[i - 1] and x[i] >= x[i + 1]:
            out[i] = x[i]
        elif not x[i] > 0 or 0.5 < x[i] <= 1.0:
            out[i] -= x[i]
            x[i] *= 2
        else:
            out[i], out[0] = 3.0, out[0] + 1
    return out


def best_of(x: Any) -> Any:
    best, at = -np.inf, -1
    for i in range(len(x)):
        if x[i] > best:
            best, at = x[i], i
    return best, at


def best_tuple(x: Any) -> Any:
    best = (math.inf, -1, 0.5)
    for i in range(len(x)):
        if abs(x[i]) < best[0]:
            best = (abs(x[i]), i, x[i])
    return best


def rows_replaced(x: Any) -> Any:
    w = np.zeros(4)
    for i in range(len(x) // 4):
        row = x[4 * i : 4 * i + 4]
        if row @ w <= 0:
            w = w + row
    return w


def rows_in_place(x: Any) -> Any:
    w = np.ones(4)
    other = w
    for i in range(len(x) // 4):
        row = x[4 * i : 4 * i + 4]
        if row.sum() > 0:
            w += row
            w[1:3] -= 0.5
        else:
            w[row > 0] = 7
    return w, other


def expressions(x: Any) -> Any:
    total, letters = 0, []
    for i in range(len(x)):
        total = total + (1 if x[i] > 0 else -2)
        v = x[i] if 0 < x[i] < 1 else np.sqrt(abs(x[i]))
        letters.append(v)
    return total, np.array(letters)


def sign_of(v: Any) -> Any:
    if v > 0:
        return 1.0
    return -1.0


def helped(x: Any) -> Any:
    total = 0.0
    for v in x:
        total += sign_of(v) * v
    return total


def skipping(x: Any) -> Any:
    total, n = 0.0, 0
    for v in x:
        if v < 0:
            continue
        total += math.sqrt(2.0) * v
        n += 1
    return total, n


def inner_loop(x: Any) -> Any:
    m = np.outer(x[:5], x[5:10])
    for k in range(5):
        if m[k, k] > 0:
            for j in range(5):
                if j != k:
                    m[j] = m[j] - 0.1 * m[k] * m[j, k]
    for _ in range(8):
        for k in range(5):
            if m[k, 0] > 1:
                m[k] /= 2
    return m


def temporaries(x: Any) -> Any:
    for i in range(len(x) - 1):
        if x[i] > x[i + 1]:
            t = x[i]
            x[i] = x[i + 1]
            x[i + 1] = t
    return x.sum()


def out_of_bounds(x: Any) -> Any:
    """The index is in bounds where its branch is taken."""
    total = 0.0
    for v in (x * 8).astype(int):
        if 0 <= v < len(x):
            total += x[v]
    return total


def divided(x: Any) -> Any:
    """A Python number is divided by where it is not 0."""
    n, found = 0, 0.0
    for v in x:
        if v > 0:
            n += 1
        if n > 0:
            found = 1.0 / n
    return found, n


def truths(x: Any) -> Any:
    seen = False
    after = 0
    for v in x:
        if seen:
            after += 1
        if v > 1:
            seen = True
    return seen, after


def changed_list(x: Any) -> Any:
    held = [0.0, 0.0, 0.0]
    for i in range(len(x)):
        if x[i] > 0:
            held[i % 3] = x[i]
    return held


def bubble(x: Any) -> Any:
    for i in range(len(x)):
        for j in range(len(x) - 1 - i):
            if x[j] > x[j + 1]:
                x[j], x[j + 1] = x[j + 1], x[j]


TRACED = [
    counted, written, best_of, best_tuple, rows_replaced, rows_in_place, expressions, helped, skipping, inner_loop,
    temporaries, out_of_bounds, divided, truths, changed_list, bubble,
]


class Counter:
    def __init__(self) -> None:
        self.n = 0

    @property
    def next(self) -> int:
        self.n += 1
        return self.n


def appended(x: Any) -> Any:
    found = []
    for i in range(len(x)):
        if x[i] > 0.5:
            found.append(i)
    return found


def called(x: Any) -> Any:
    counter, total = Counter(), 0
    for v in x:
        if v > 0:
            total = counter.next
    return total, counter.n


def filled(x: Any) -> Any:
    sums: Any = defaultdict(float)
    total = 0.0
    for k in range(len(x)):
        if x[k] > 0:
            total = total + sums[k]
    return total, len(sums)


def aliased(x: Any) -> Any:
    """What is chosen is one of two arrays that are written afterwards."""
    a, b = np.zeros(3), np.ones(3)
    for v in x:
        c = a
        if v > 0:
            c = b
        c[0] += 1
    return a, b


def unbound(x: Any) -> Any:
    for v in x:
        if v > 9:
            last = v
    try:
        return last
    except NameError:
        return x.sum()


def mixed_kinds(x: Any) -> Any:
    what: Any = None
    for v in x:
        if v > 0:
            what = v
    return 0.0 if what is None else what


def raising(x: Any) -> Any:
    n = 0
    for v in x:
        try:
            if v > 0.3:
                n = n + [1, 2][int(n > 50)] + [][n]
        except IndexError:
            n += 1
    return n


def truth_arithmetic(x: Any) -> Any:
    flag = False
    total = 0
    for v in x:
        if v > 0:
            flag = v > 1
        total = total + (flag + 1)
    return total


def large(x: Any) -> Any:
    n = 3
    for v in x:
        if v > -9:
            n = n * 1000003
    return n


def is_one(a: Any, b: Any) -> int:
    return int(a is b)


def have_one_id(a: Any, b: Any) -> int:
    return int(id(a) == id(b))


def are_two(a: Any, b: Any) -> int:
    return int(operator.is_not(a, b))


def identified(x: Any, ask: Callable[[Any, Any], int]) -> Any:
    first, last = x[0] * 2, x[-1] * 3
    best, place, found = first, 0, 0
    for i in range(len(x)):
        one = first if x[i] > 0.3 else last
        if x[i] > 1:
            best, place = last, i
        found = found + ask(best, first) + 3 * ask(one, last) + 50 * ask(place, i)
    return found


def identified_by_is(x: Any) -> Any:
    return identified(x, is_one)


def identified_by_id(x: Any) -> Any:
    return identified(x, have_one_id)


def identified_by_operator(x: Any) -> Any:
    return identified(x, are_two)


REFUSED = [appended, called, filled, aliased, unbound, mixed_kinds, raising, truth_arithmetic, large,
           identified_by_is, identified_by_id, identified_by_operator]


def data(seed: int, dtype: str = "float64") -> Any:
    x = np.random.default_rng(seed).normal(size=N)
    if seed == 2:
        x[::5], x[1::7] = 0.0, -0.0
    if seed == 3:
        x[4], x[9], x[10] = math.nan, math.inf, -math.inf
    if seed == 4:
        x = np.abs(x)
    return (x * 4 if dtype.startswith("int") else x).astype(dtype)


def assert_equal(function: Callable[..., Any], fused: Any, x: Any) -> None:
    ours, theirs = copy.deepcopy(x), copy.deepcopy(x)
    with np.errstate(all="ignore"):
        expected = function(theirs)
    found = fused(ours)
    same(found, expected, BRANCHES)
    same(ours, theirs, BRANCHES)


@pytest.mark.parametrize("function", TRACED)
def test_branches_are_if_converted(function: Callable[..., Any]) -> None:
    fused = jf.fuse(function)
    with warnings.catch_warnings(action="error"):
        for seed in (0, 1, 2, 4, 5, 0):
            assert_equal(function, fused, data(seed))
    if function is not out_of_bounds:
        with warnings.catch_warnings(action="error"):
            assert_equal(function, fused, data(3))
    assert fused.stats()["fallbacks"] == 0
    assert fused.stats()["traces"] <= 6  # and not one for each way through the branches


@pytest.mark.parametrize(("function", "dtype"), crossed(
    2, [counted, written, best_of, temporaries, bubble, changed_list], ["int64", "int16", "float32"]))
def test_dtypes(function: Callable[..., Any], dtype: str) -> None:
    fused = jf.fuse(function)
    for seed in (0, 1, 2):
        assert_equal(function, fused, data(seed, dtype))


@pytest.mark.parametrize("function", REFUSED)
def test_what_cannot_be_if_converted_is_decided_by_python(function: Callable[..., Any]) -> None:
    fused = jf.fuse(function)
    with warnings.catch_warnings(action="ignore"):
        for seed in (0, 1, 2, 4, 5):
            assert_equal(function, fused, data(seed))


@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_sizes(n: int) -> None:
    for function in (counted, best_of, skipping, bubble, expressions):
        fused = jf.fuse(function)
        if n or function is not expressions:
            assert_equal(function, fused, data(0)[:n])


@pytest.mark.full
def test_strides() -> None:
    for view in (slice(None, None, -1), slice(None, None, 2), slice(3, None, 3)):
        for function in (counted, best_of, temporaries, bubble):
            fused = jf.fuse(function)
            base = data(1)
            ours, theirs = base.copy()[view], base.copy()[view]
            same(fused(ours), function(theirs), BRANCHES)
            same(ours, theirs, BRANCHES)


def test_a_method_with_state_of_its_own() -> None:
    class Perceptron:
        def __init__(self, n: int) -> None:
            self.w = np.zeros(n)

        def fit(self, rows: Any, labels: Any) -> Any:
            w, errors = self.w, 0
            for _ in range(3):
                for row, label in zip(rows, labels):
                    if label * (row @ w) <= 0:
                        w = w + 0.1 * label * row
                        errors += 1
            return w, errors

    rows = np.random.default_rng(0).normal(size=(20, 3))
    labels = np.where(rows @ np.array([1.0, -2.0, 0.5]) > 0.1, 1, -1)
    fused = jf.fuse(Perceptron(3).fit)
    for sign in (1, -1):
        same(fused(rows, sign * labels), Perceptron(3).fit(rows, sign * labels), BRANCHES)
    assert fused.stats()["fallbacks"] == 0


def test_code_without_its_source_is_looked_at() -> None:
    text = "def function(x):\n    n = 0\n    for v in x:\n        if v > 0:\n            n += 1\n    return n\n"
    names: dict[str, Any] = {}
    exec(compile(text, "nowhere.py", "exec"), names)
    fused = jf.fuse(names["function"])
    for seed in (0, 1):
        assert fused(data(seed)) == names["function"](data(seed))


def test_strict_functions_say_where_they_break() -> None:
    with pytest.raises(jf.TracedValueError):
        jf.fuse(strict=True)(counted)(data(0))

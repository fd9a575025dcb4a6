"""`while`, and `break` in loops over ranges, by data: equal to plain Python, and traced once however they end."""
from __future__ import annotations

import copy
import importlib.util
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import amount
import numpy as np
import pytest
from drawn_loops import source_of
from hypothesis import given, settings
from hypothesis import strategies as st
from loops_run import agrees
from oracle import same

import jitfuse as jf


def numbers(seed: int, n: int) -> Any:
    return np.round(np.random.default_rng(seed).random(n), 2)


def whole(seed: int, n: int, most: int) -> Any:
    return np.random.default_rng(seed).integers(0, most, n)


# ---------------------------------------------------------------- programs
def sorted_by_insertion(x: Any) -> Any:
    for i in range(1, len(x)):
        v = x[i]
        j = i
        while j > 0 and x[j - 1] > v:
            x[j] = x[j - 1]
            j -= 1
        x[j] = v
    return x


def first_above(x: Any) -> Any:
    at = -1
    for k in range(len(x)):
        if x[k] > 0.9:
            at = k
            break
    return at


def variable_after_a_break(x: Any) -> Any:
    for k in range(0, 2 * len(x), 2):
        if x[k // 2] > 0.9:
            break
    return k


def roots(x: Any) -> Any:
    y = np.zeros_like(x)
    for i in range(len(x)):
        r, n = x[i], 0
        while n < 40 and abs(r * r - x[i]) > 1e-12:
            r = 0.5 * (r + x[i] / r)
            n += 1
        y[i] = r + n
    return y


def escaping(x: Any) -> Any:
    out = np.zeros(len(x), np.int64)
    for i in range(len(x)):
        re = im = 0.0
        for n in range(40):  # noqa: B007  # used afterwards
            if re * re + im * im > 4.0:
                break
            re, im = re * re - im * im + x[i], 2 * re * im + x[-1 - i]
        out[i] = n
    return out


def placed(x: Any) -> Any:
    ordered = np.sort(x)
    out = np.zeros(len(x), np.int64)
    for i in range(len(x)):
        low, high = 0, len(ordered)
        while low < high:
            middle = (low + high) // 2
            if ordered[middle] < x[i] * 0.7:
                low = middle + 1
            else:
                high = middle
        out[i] = low
    return out


def merged(x: Any) -> Any:
    a, b = np.sort(x[::2]), np.sort(x[1::2])
    out = np.empty(len(x))
    i = j = k = 0
    while i < len(a) and j < len(b):
        if a[i] <= b[j]:
            out[k] = a[i]
            i += 1
        else:
            out[k] = b[j]
            j += 1
        k += 1
    while i < len(a):
        out[k] = a[i]
        i += 1
        k += 1
    while j < len(b):
        out[k] = b[j]
        j += 1
        k += 1
    return out


def forever_until(x: Any) -> Any:
    y = np.zeros(len(x))
    for i in range(len(x)):
        v = x[i]
        while True:
            v = v * 0.5
            if v < 0.01:
                break
            if v > 0.3:
                continue
            y[i] += v
    return y


def breaks_in_both_branches(x: Any) -> Any:
    total, c = np.float64(0.0), 0
    for i in range(len(x)):
        for k in range(len(x)):
            c += 1
            if x[k] > 0.5:
                total += x[k]
                if x[i] < 0.2:
                    break
                total -= 0.25
            elif x[i] > 0.8:
                c += 10
                break
            total += 1.0
    return total, c


FLOATS = [sorted_by_insertion, first_above, variable_after_a_break, roots, escaping, placed, merged, forever_until,
          breaks_in_both_branches]


def divisors(a: Any, b: Any) -> Any:
    out = np.zeros(len(a), np.int64)
    for i in range(len(a)):
        x, y = a[i], b[i]
        while y != 0:
            x, y = y, x % y
        out[i] = x
    return out


def steps_to_one(a: Any, b: Any) -> Any:
    out = np.zeros(len(a), np.int64)
    for i in range(len(a)):
        k, c = a[i] + 1, 0
        while k != 1:
            k = k // 2 if k % 2 == 0 else 3 * k + 1
            c += 1
        out[i] = c
    return out


def roots_of_trees(a: Any, b: Any) -> Any:
    parent = np.minimum(a, np.arange(len(a)))
    out = np.zeros(len(b), np.int64)
    for i in range(len(b)):
        r = b[i] % len(parent)
        while parent[r] != r:
            parent[r] = parent[parent[r]]
            r = parent[r]
        out[i] = r
    return out, parent


def met(a: Any, b: Any) -> Any:
    a, b = np.sort(a), np.sort(b)
    i = j = n = 0
    while i < len(a) and j < len(b):
        if a[i] == b[j]:
            n, i, j = n + 1, i + 1, j + 1
        elif a[i] < b[j]:
            i += 1
        else:
            j += 1
    return n


WHOLE = [divisors, steps_to_one, roots_of_trees, met]


@pytest.mark.parametrize("program", FLOATS)
def test_loops_over_floats(program: Callable[..., Any]) -> None:
    fused = jf.fuse(program)
    for seed in range(11):
        agrees(fused, program, (numbers(seed, 24),))
    assert fused.stats()["fallbacks"] == 0
    for n in (0, 1, 2, 5, 17):
        agrees(fused, program, (numbers(n, n),))
        agrees(fused, program, (numbers(n, 3 * n)[::-3],))


@pytest.mark.parametrize("program", FLOATS)
@pytest.mark.parametrize("special", [np.nan, -0.0, np.inf])
def test_special_floats(program: Callable[..., Any], special: float) -> None:
    if special == np.inf and program is forever_until:
        return  # has no end
    fused = jf.fuse(program)
    with np.errstate(all="ignore"):
        for seed in range(3):
            x = numbers(seed, 12)
            agrees(fused, program, (x.copy(),))
            x[seed::5] = special
            if not (np.isnan(special) and program is forever_until):
                agrees(fused, program, (x,))


@pytest.mark.parametrize("program", WHOLE)
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
def test_loops_over_ints(program: Callable[..., Any], dtype: Any) -> None:
    fused = jf.fuse(program)
    for seed in range(8):
        if program is not steps_to_one or dtype != np.uint8:  # which would wrap, and go on forever
            agrees(fused, program, (whole(seed, 19, 60).astype(dtype), whole(seed + 50, 19, 60).astype(dtype)))


@pytest.mark.full
def test_nothing_is_traced_for_another_path_to_the_end() -> None:
    for program in (sorted_by_insertion, roots, escaping, placed):
        fused = jf.fuse(program)
        traces = set()
        for seed in range(20):
            agrees(fused, program, (numbers(seed, 40),))
            traces.add(fused.stats()["traces"])
        assert len(traces) == 1 and fused.stats()["fallbacks"] == 0
        assert "while_loop" in fused.explain(numbers(0, 40))


# ---------------------------------------------------------------- what is left to Python, and errors
def beyond_the_end(x: Any) -> Any:
    y = np.zeros(len(x))
    for i in range(len(x)):
        j = i
        while x[j] < 0.95:
            y[i] += x[j]
            j += 1
    return y


def divides_by_none(x: Any) -> Any:
    total, c = 0.0, 3
    for i in range(len(x)):
        while x[i] * c > 1:
            c -= 1
            total += 1 / c
    return total


def growing_ints(x: Any) -> Any:
    product = 1
    for i in range(len(x)):
        c = 0
        while x[i] > 0.1 * c:
            product = product * (c + 2)
            c += 1
    return product


def variable_of_no_round(x: Any) -> Any:
    total = 0.0
    for i in range(len(x)):
        for k in range(i):
            if x[k] > 0.5:
                break
        total += k
    return total


def variable_rebound(x: Any) -> Any:
    for k in range(len(x)):
        k = k * 2
        if x[k // 2] > 0.9:
            break
    return k


def arrays_rebound(x: Any) -> Any:
    y = x
    for i in range(len(x)):
        while y[i] > 0.2:
            y = y * 0.5
    return y


def with_lists(x: Any) -> Any:
    found = []
    for i in range(len(x)):
        j = i
        while j < len(x) and x[j] > 0.5:
            found.append(x[j])
            j += 1
    return found


def otherwise(x: Any) -> Any:
    total = 0
    for i in range(len(x)):
        for k in range(len(x)):
            if x[k] * x[i] > 0.5:
                break
        else:
            total += 1
        while x[i] > 0.5:
            x[i] -= 0.3
        else:
            total += 2
    return total


@pytest.mark.parametrize("program", [
    beyond_the_end, divides_by_none, growing_ints, variable_of_no_round, variable_rebound, arrays_rebound, with_lists,
    otherwise,
])
def test_other_loops(program: Callable[..., Any]) -> None:
    fused = jf.fuse(program)
    for seed in range(12):
        agrees(fused, program, (numbers(seed, 16),))
        agrees(fused, program, (np.append(numbers(seed, 15), 0.99),))
    for n in (0, 1):
        agrees(fused, program, (numbers(3, n),))


def test_random_numbers_are_drawn_once_where_a_call_begins_anew() -> None:
    def function(x: Any) -> Any:
        for i in range(12):
            if x[i] > 0.5:
                x = x + jf.random.uniform(x.shape)
            else:
                x = x * 0.5
        return x

    found = []
    for _ in range(2):
        jf.random.seed(3)
        fused = jf.fuse(function)
        found.append([fused(numbers(1, 12)) for _ in range(3)])
        found.append([fused(numbers(1, 12)) for _ in range(3)])
    same(found[0], found[2])
    same(found[1], found[3])
    jf.random.seed(3)
    same([fused(numbers(1, 12)) for _ in range(3)], found[0])


# ---------------------------------------------------------------- drawn
def compiled(path: Path, source: str) -> Any:
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.function


@settings(max_examples=amount.drawn(12), deadline=None)
@given(st.integers(0, 1 << 30))
def test_drawn_loops(tmp_path_factory: Any, seed: int) -> None:
    program = compiled(tmp_path_factory.mktemp("drawn") / f"loops_{seed}.py", source_of(seed))
    fused = jf.fuse(program)
    for k in range(5):
        given_ = numbers(seed + k, 8), whole(seed + k, 8, 8)
        expected, found = copy.deepcopy(given_), copy.deepcopy(given_)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                want = program(*expected)
            except Exception as error:
                with pytest.raises(type(error)):
                    fused(*found)
                continue
            got = fused(*found)
        for a, b in zip(got, want, strict=True):  # a number that may be Python's is NumPy's
            assert np.asarray(a).dtype == np.asarray(b).dtype and np.asarray(a).tobytes() == np.asarray(b).tobytes()
        same(found, expected)


def test_loops_in_iterations_of_many_others_are_left_to_python() -> None:
    def iterations(x: Any, k: Any) -> Any:
        total, text = 0.0, ""
        for n in range(400):
            text += "."  # such a loop is Python's
            j = k[n % len(k)]
            while j > 0 and x[j] < 2.0:
                total = total + x[j] * n
                j -= 1
        return total, len(text)

    x, k = np.linspace(0, 3, 40), np.arange(3, 30)
    fused = jf.fuse(iterations)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jf.FallbackWarning)
        for shift in range(3):
            got, want = fused(x + shift * 0.25, k), iterations(x + shift * 0.25, k)
            np.testing.assert_allclose(got, want, rtol=1e-12)
    assert fused.stats()["traces"] < 12

"""Bounds on what is traced and compiled for one call, and plain Python past them."""
from __future__ import annotations

import itertools
import pickle
import warnings
from typing import Any

import cloudpickle
import numpy as np
import pytest

import jitfuse as jf

X = np.array([0.3, -1.5, np.nan, -0.0, 2.0])


def chain(x: Any) -> Any:
    for k in range(30):
        x = (np.sin(x), x + k, np.abs(x), x * x, np.exp(-x))[k % 5] if k % 7 else x / (k + 1)
    return x


def looking(x: Any) -> Any:
    seen = []
    for k in range(30):
        x = np.sin(x) + 1 / (k + 2) if k % 3 else np.sqrt(np.abs(x - k))
        if x[0] > 0.5:
            seen.append(k)
    return x, seen


@pytest.mark.parametrize(("budget", "fn", "what", "traces"), [
    (jf.Budget(operators=20), chain, "more than 20 operators, last at ", 3),
    (jf.Budget(operators=20), looking, "more than 20 operators, last at ", 1),
    (jf.Budget(operators=200), chain, "more than 20 steps", 2),
    (jf.Budget(seconds=0.02), looking, "reads of data, last at ", 1),
    (jf.Budget(branches=20), looking, "reads data more than", 2),
])
def test_plain_python_takes_over(budget: jf.Budget, fn: Any, what: str, traces: int) -> None:
    """Before it does, loops are captured and branches if-converted, in traces of their own."""
    fused = jf.fuse(fn, budget=budget)
    with pytest.warns(jf.FallbackWarning, match=what):
        first = fused(X)
    with np.errstate(all="ignore"):
        want = fn(X)
        for got in (first, fused(X), fused(X)):
            for a, b in zip(got if isinstance(got, tuple) else (got,), want if isinstance(want, tuple) else (want,),
                            strict=True):
                np.testing.assert_array_equal(a, b)
    counts = fused.stats()
    assert (counts["traces"], counts["fallbacks"]) == (traces, 3)
    assert what.split(",")[0] in str(fused.explain(X))


def test_what_is_asked_for_is_traced() -> None:
    """Where plain Python must not take over, or there is no call to answer, all is traced."""
    budget = jf.Budget(operators=20)
    assert len(jf.fuse(chain, budget=budget).program(X).steps) > 20
    np.testing.assert_allclose(jf.fuse(chain, strict=True, budget=budget)(X), chain(X), rtol=1e-12)


def test_code_that_catches_all_does_not_go_on() -> None:
    def catching(x: Any) -> Any:
        try:
            return chain(x)
        except BaseException:
            return x

    with pytest.warns(jf.FallbackWarning):
        got = jf.fuse(catching, budget=jf.Budget(operators=20))(X)
    np.testing.assert_array_equal(got, chain(X))


def test_writes_at_places_of_data_into_large_arrays_are_plain_pythons() -> None:
    """Compiled they would go over the whole array each; where that is little beside the rest, or short, they are."""
    def count(x: Any, i: Any) -> Any:
        for k in range(len(i)):
            x[i[k]] += 1
        return x

    def count_and_compute(x: Any, i: Any) -> Any:
        for k in range(len(i)):
            x = np.tanh(x) * 0.25 + np.sqrt(x * x + 1) * 0.25
            x[i[k]] += 1
        return x

    places = np.random.default_rng(0).integers(0, 100_000, 100)
    for fn, size, fallbacks in ((count, 1000, 0), (count, 100_000, 2), (count_and_compute, 100_000, 0)):
        want, fused = fn(np.zeros(size), places % size), jf.fuse(fn)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for _ in range(2):
                np.testing.assert_allclose(fused(np.zeros(size), places % size), want, rtol=1e-12)
        assert fused.stats()["fallbacks"] == fallbacks
        assert ["np.add.at" in str(w.message) for w in said] == [True] * bool(fallbacks)


@pytest.mark.full
def test_long_traces_for_texts_that_are_new_in_each_call_come_to_an_end() -> None:
    def distance(a: str, b: str) -> Any:
        table = np.zeros((len(a) + 1, len(b) + 1), int)
        table[:, 0], table[0] = np.arange(len(a) + 1), np.arange(len(b) + 1)
        for i in range(len(a)):
            for j in range(len(b)):
                changed = table[i, j] + (a[i] != b[j])
                table[i + 1, j + 1] = min(changed, table[i, j + 1] + 1, table[i + 1, j] + 1)
        return table[-1, -1]

    rng = np.random.default_rng(3)
    words = ["".join(rng.choice(list("abc"), 30)) for _ in range(8)]
    fused = jf.fuse(distance)
    with pytest.warns(jf.FallbackWarning, match=r"new again and again, last args"):
        for a, b in itertools.pairwise(words):
            assert fused(a, b) == distance(a, b)
    traces = fused.stats()["traces"]
    assert traces < 6
    assert fused(*words[:2]) == distance(*words[:2]) and fused.stats()["traces"] == traces


@pytest.mark.full
def test_long_traces_for_floats_that_are_new_in_each_call_come_to_an_end() -> None:
    def integral(a: float, b: float, depth: int) -> Any:
        middle = (a + b) / 2
        if depth == 0 or b - a < 1e-9:
            return (b - a) * np.sin(middle) * np.exp(-middle) + (b - a) * np.cos(a)
        return integral(a, middle, depth - 1) + integral(middle, b, depth - 1)

    fused = jf.fuse(integral)
    with pytest.warns(jf.FallbackWarning, match=r"new again and again, last args"):
        for k in range(12):
            assert fused(0.0, 1 + k / 7, 9) == pytest.approx(integral(0.0, 1 + k / 7, 9))
    traces = fused.stats()["traces"]
    assert traces < 6
    assert fused(0.0, 1.0, 9) == integral(0.0, 1.0, 9) and fused.stats()["traces"] == traces


def test_long_runs_for_other_paths_in_each_call_come_to_an_end() -> None:
    """A function that has run long before it looks at data runs as long for each way on; known ways stay."""
    def picked(x: Any) -> Any:
        y = x
        for k in range(400):
            y = np.sin(y) * 0.5 + np.abs(y) / (k + 3) if k % 2 else y * 0.5 + k
        places = np.nonzero(x > 0)[0]
        return y[places], len(places)

    fused = jf.fuse(picked, budget=jf.Budget(seconds=0.1))
    calls = [np.where(np.arange(12) < n, 1.5, -0.5) for n in range(1, 9)]

    def check(x: Any) -> None:
        for ours, plain in zip(fused(x.copy()), picked(x.copy()), strict=True):
            np.testing.assert_allclose(ours, plain, rtol=1e-9)

    with pytest.warns(jf.FallbackWarning, match="take another path"):
        for x in calls:
            check(x)
    counts = fused.stats()
    assert 2 < counts["traces"] < 6
    for _ in range(10):
        check(calls[0])
    assert fused.stats()["traces"] == counts["traces"] and fused.stats()["fallbacks"] == counts["fallbacks"]
    for _ in range(3):
        for x in calls[-5:]:
            check(x)  # ways that are not known, one after the other, past what is tried
    assert fused.stats()["traces"] == counts["traces"]


def test_other_sizes_are_no_other_paths() -> None:
    def f(x: Any) -> Any:
        for k in range(40):
            x = np.sin(x) + k
        return x * 2 if x[0] > 0 else x

    fused = jf.fuse(f)
    for n in range(1, 9):
        np.testing.assert_allclose(fused(np.ones(n)), f(np.ones(n)), rtol=1e-9)
    assert fused.stats()["fallbacks"] == 0


def test_steps_of_complex_numbers_count_as_several() -> None:
    budget = jf.Budget(operators=60 * 10)

    def products(x: Any) -> Any:
        for k in range(20):
            x = x * (k + 0.5)
        return x

    with pytest.warns(jf.FallbackWarning, match="more than 60 steps"):
        np.testing.assert_array_equal(jf.fuse(products, budget=budget)(X + 1j), products(X + 1j))
    fused = jf.fuse(products, budget=budget)
    np.testing.assert_array_equal(fused(X), products(X))
    assert fused.stats()["fallbacks"] == 0


def test_a_run_that_goes_on_for_long_after_a_graph_break_is_ended(monkeypatch: Any) -> None:
    """Also before it looks again: what it records is counted all the time."""
    monkeypatch.setattr("jitfuse.tracing.record.recorder._NOTED", 64)

    def function(x: Any) -> Any:
        if x[0] > 0:
            for k in range(2000):
                x = np.sin(x) * (x.shape[0] + k) + np.cos(x * k)
        return x

    fused, x = jf.fuse(function, budget=jf.Budget(seconds=0.02)), np.arange(3.0) + 1
    with pytest.warns(jf.FallbackWarning, match="a call that reads data comes to more than [0-9,]+ operators"):
        np.testing.assert_array_equal(fused(x), function(x))
    assert fused.stats()["fallbacks"] == 1
    same = jf.fuse(lambda x: function(x + 0.0) if len(x) > 9 else x)
    np.testing.assert_array_equal(same(x), x)


@pytest.mark.parametrize("numbers", [
    {"seconds": 0}, {"seconds": float("nan")}, {"operators": 2.5}, {"branches": -1}, {"values": True},
    {"subgraphs": "9"},
])
def test_budgets_are_checked_where_they_are_made(numbers: dict[str, Any]) -> None:
    with pytest.raises(jf.ArgumentError, match=f"{next(iter(numbers))}=.*pass a positive"):
        jf.Budget(**numbers)


def test_a_budget_goes_with_its_function() -> None:
    budget = jf.Budget(seconds=9, values=2)
    fused = pickle.loads(cloudpickle.dumps(jf.fuse(looking, budget=budget)))
    assert fused.parts.definition.options.budget == budget
    fused(X)
    assert "of 9 s for " in fused.explain(X) and "2 values a line" in fused.explain(X)
    with pytest.raises(jf.ArgumentError, match=r"pass a jf.Budget"):
        jf.fuse(looking, budget=10)  # type: ignore[call-overload]


def test_values_are_those_of_the_budget() -> None:
    read = jf.fuse(lambda x: x * len(f"{int(x[0])}"), budget=jf.Budget(values=2))
    with pytest.warns(jf.FallbackWarning, match="more than 2 different values"):
        for n in range(5):
            np.testing.assert_array_equal(read(np.full(2, 10.0**n)), np.full(2, 10.0**n) * (n + 1))


def diffused(image: Any) -> Any:
    image = image.copy()
    for y in range(image.shape[0]):
        for x in range(image.shape[1]):
            old = image[y, x]
            image[y, x] = np.round(old)
            if x + 1 < image.shape[1]:
                image[y, x + 1] += (old - image[y, x]) * 0.5
            if y + 1 < image.shape[0]:
                image[y + 1, x] += (old - image[y, x]) * 0.5
    return image


def test_loops_are_captured_from_half_of_the_operators_on() -> None:
    image = np.random.default_rng(0).random((24, 24)) * 9
    recorded = []
    for operators in (180_000, 8_000):
        fused = jf.fuse(diffused, budget=jf.Budget(operators=operators))
        for _ in range(2):
            assert fused(image).tobytes() == diffused(image).tobytes()
        assert fused.stats()["fallbacks"] == 0
        recorded.append("fori_loop" in str(fused.program(image)))
    assert recorded == [False, True]

"""Creation functions inside the function, and what cannot be replayed."""
from __future__ import annotations

import random
import time

import numpy as np
import pytest

from jitfuse.errors import UnsupportedError, UntraceableError
from jitfuse.tracing.numpy_like import sampled_arrays, substitutes
from jitfuse.tracing.tracer import trace

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("make", [
    lambda: np.zeros(3), lambda: np.zeros((2, 3), dtype=np.int32), lambda: np.ones(3), lambda: np.ones((2,),
    "float32"),
    lambda: np.full(3, 2.5), lambda: np.full((2, 2), 7), lambda: np.full(2, 7, dtype=float), lambda: np.eye(3),
    lambda: np.eye(2, 4, k=1, dtype=np.float32), lambda: np.identity(3), lambda: np.arange(5),
    lambda: np.arange(2, 9, 3),
    lambda: np.arange(0.5, 3.0, 0.25), lambda: np.arange(5, 0, -2), lambda: np.arange(3.0), lambda: np.arange(0),
    lambda: np.arange(4, dtype="float32"), lambda: np.arange(1, stop=4), lambda: np.linspace(0, 1, 7),
    lambda: np.linspace(2.0, 5.0, 4, endpoint=False), lambda: np.linspace(0, 10, 5, dtype=int),
    lambda: np.linspace(1, 2, 1),
    lambda: np.array([1.0, 2.0]), lambda: np.array([[1, 2], [3, 4]]), lambda: np.array([1, 2], dtype=np.float32),
    lambda: np.array(3.5) + 0, lambda: np.array([True, False]), lambda: np.array([1.0], ndmin=2),
    lambda: np.asarray([1, 2]),
    lambda: np.ascontiguousarray([1.0, 2.0]), lambda: np.zeros_like([1, 2]), lambda: np.ones_like(np.zeros(2)),
    lambda: np.full_like(np.zeros(2), 3), lambda: np.empty(3).shape, lambda: np.array((1, 2.5)),
    lambda: np.arange(3, None, 1),
])
def test_creation(check, make):
    check(lambda: make())


def test_arrays_of_traced_values(check):
    check(lambda x, a: np.array([x[0], x[1] * 2, 3.0, a]), np.arange(3.0), 4.0)
    check(lambda x: np.array([[x[0], 1], [2, x[1]]]), np.arange(3.0))
    check(lambda x: np.array([x, x * 2]), np.arange(3.0))
    check(lambda x: np.stack([np.ones(3), x]), np.arange(3.0))
    check(lambda x: np.full(4, x[1]), np.arange(3.0))
    check(lambda x, n: np.full((n, 2), x[1]), np.arange(3.0), 3)
    check(lambda x: np.array(x, dtype=np.float32), np.arange(3.0))
    check(lambda x: np.linspace(x[0], x[2], 5), np.arange(3.0))


def test_item_assignment_of_traced_values(check):
    def fn(x):
        out = np.zeros(x.shape)
        for k in range(len(x)):
            out[k] = x[k] * k
        table = np.array([1.0, 2.0, 3.0])
        table[1] = x[0]
        out += table
        copy = np.array(out)
        copy[0] = 100
        same = np.asarray(out)
        same[2] = 50
        return out, copy

    check(fn, np.arange(3.0))


def test_bounds_that_python_reads_are_guarded(check):
    t = check(lambda x, n: x[:2] + np.arange(n) + np.zeros(n), np.arange(3.0), 2)
    assert list(t.guarded_values.values()) == [2]


@pytest.mark.parametrize("draw", [
    lambda: np.random.rand(3), lambda: np.random.default_rng(), lambda: np.random.normal(), lambda: random.random(),
    lambda: RNG.normal(size=3), lambda: random.gauss(0, 1), lambda: np.random.seed(0),
])
def test_random_numbers_name_the_way_out(draw):
    with pytest.raises(UntraceableError, match=r"jf\.random") as caught:
        trace(lambda x: x + draw(), (np.ones(3),), {})
    assert "test_substitutes.py:" in str(caught.value)


def test_every_function_of_np_random_is_recognised_before_it_is_looked_at() -> None:
    places = [np.random, np.random.mtrand, np.random.Generator, np.random.RandomState, RNG]
    members = [v for p in places for n in dir(p) if not n.startswith("_") and callable(v := getattr(p, n))]
    ours = [v for v in members if "random" in str(getattr(v, "__module__", None) or getattr(v, "__qualname__", ""))]
    assert len(ours) > 150
    assert not [v for v in ours if not substitutes._is_random(v)]
    others = (np.sin, np.zeros, len, [].append, "".join, random.random, test_clocks_take_a_graph_break)
    assert not any(map(substitutes._is_random, others))


def test_clocks_take_a_graph_break():
    for fn in (lambda x: x + time.time(), lambda x: x + time.perf_counter()):
        with pytest.raises(UnsupportedError, match="takes a graph break"):
            trace(fn, (np.ones(3),), {})


def test_the_functions_of_plain_numbers_are_listed_by_the_names_that_they_have() -> None:
    assert {original.__name__ for original, _ in sampled_arrays.replacements(True)} == substitutes.SAMPLED

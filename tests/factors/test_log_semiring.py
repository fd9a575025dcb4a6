"""Logarithms of huge range: results where a shift by the maximum alone gives -inf, against extended precision."""
from __future__ import annotations

import math

import amount
import numpy as np
import pytest
from factors import brute
from factors.brute import Model

from jitfuse import factors


def graph_of(model: Model) -> factors.FactorGraph:
    return factors.FactorGraph(model.sizes, list(model.factors), log=True)


def expected(model: Model) -> float:
    return float(brute.log_sum(brute.log_weights(model, {})))


def test_the_pair_that_a_common_shift_loses() -> None:
    model = Model({"a": 2}, [(("a",), [0.0, -1000.0]), (("a",), [-1000.0, 0.0])], log=True)
    assert graph_of(model).log_partition() == pytest.approx(-999.3068528194400547, rel=1e-14)
    assert graph_of(model).partition("log") == pytest.approx(-999.3068528194400547, rel=1e-14)
    assert graph_of(model).map() == ({"a": 0}, -1000.0)
    assert np.allclose(graph_of(model).marginals()["a"], 0.5)


@pytest.mark.parametrize("size", [2, 3, 50])
def test_the_pair_within_a_chain(size: int) -> None:
    """Rows whose largest terms meet the other operand's smallest: each entry needs a shift of its own."""
    ramp = 1000.0 * np.arange(size)
    crossed = -ramp[:, None] - ramp[None, ::-1]
    model = Model(dict.fromkeys(range(4), size), [((k, k + 1), crossed) for k in range(3)], log=True)
    if model.states <= brute.LARGEST:
        assert graph_of(model).log_partition() == pytest.approx(expected(model), rel=1e-13)
    assert np.isfinite(graph_of(model).log_partition())


def draw_tensors(seed: int) -> Model:
    """Return a product of log tensors with entries over a range of 1e4, some of them -inf."""
    draw = np.random.default_rng([27, seed])
    sizes = {v: int(draw.integers(2, 6)) for v in "abcde"}
    given = []
    for scope in [("a", "b", "c"), ("d", "c", "b"), ("e", "a"), ("d", "e"), ("c",)][: int(draw.integers(2, 6))]:
        shape = tuple(sizes[v] for v in scope)
        table = draw.uniform(-1e4, 0, size=shape) + (draw.uniform(-5e3, 5e3) if seed % 3 else 0)
        given.append((scope, np.where(draw.uniform(size=shape) < 0.2 * (seed % 4), -np.inf, table)))
    return Model(dict(sizes), given, log=True)


@pytest.mark.parametrize("part", range(10))
def test_random_tensors_of_huge_range(part: int) -> None:
    for seed in range(part * 100, part * 100 + amount.drawn(100)):
        model = draw_tensors(seed)
        assert graph_of(model).log_partition() == pytest.approx(expected(model), rel=1e-12), seed


def test_log_zero_is_certain_and_minus_infinity_is_impossible() -> None:
    graph = factors.FactorGraph({"a": 2, "b": 2}, [(("a", "b"), [[0.0, -np.inf], [-np.inf, -np.inf]])], log=True)
    assert graph.log_partition() == 0.0
    assert graph.partition("satisfiability") is True
    assert graph.map() == ({"a": 0, "b": 0}, 0.0)
    assert [np.asarray(m).tolist() for m in graph.marginals().values()] == [[1.0, 0.0], [1.0, 0.0]]
    assert graph.log_partition({"b": 1}) == -np.inf


def test_products_beyond_the_range_of_float64() -> None:
    """1e-300 a hundred times over, and 1e300 a hundred times over, and both in turn."""
    for values in ([1e-300, 2e-300], [1e300, 2e300]):
        graph = factors.FactorGraph([2], [((0,), values)] * 100)
        high = values[1] / values[0]
        exact = 100 * math.log(values[0]) + math.log1p(high**100) if high > 1 else 0
        assert graph.log_partition() == pytest.approx(exact, rel=1e-13)
        assert np.allclose(graph.marginals()[0], [1 / (1 + high**100), 1], rtol=1e-9)
    even = [((k % 3,), [(1e-300, 1e300)[k % 2]] * 2) for k in range(60)]
    graph = factors.FactorGraph([2] * 3, even)
    assert graph.partition() == pytest.approx(8, rel=1e-12)
    assert graph.log_partition() == pytest.approx(math.log(8), rel=1e-9)


def test_the_smallest_and_the_largest_numbers() -> None:
    least, most = float(np.nextafter(0, 1)), float(np.finfo(float).max)
    assert factors.FactorGraph([2], [((0,), [least, 0.0])]).log_partition() == pytest.approx(math.log(least), rel=1e-14)
    twice = factors.FactorGraph([2], [((0,), [most, most])])
    assert twice.log_partition() == pytest.approx(math.log(most) + math.log(2))
    crossed = factors.FactorGraph([2], [((0,), [least, 1.0]), ((0,), [1.0, 0.0]), ((0,), [most, 1.0])])
    assert crossed.log_partition() == pytest.approx(math.log(least) + math.log(most), rel=1e-13)
    assert np.asarray(crossed.marginals()[0]).tolist() == [1.0, 0.0]

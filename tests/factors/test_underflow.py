"""Products of probabilities that leave the range of floats: the answers are those of logs, or of known numbers."""
from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jitfuse import factors
from jitfuse.factors.given import Given
from jitfuse.factors.semirings import PROBABILITY

FACTORS = list[tuple[tuple[int, ...], Any]]
DTYPES = [np.float64, np.float32]


@contextmanager
def logs_alone() -> Iterator[None]:
    """Let every query run over logs."""
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(Given, "_scaled", lambda *args, **kwargs: None)
        yield


def is_scaled(graph: factors.FactorGraph) -> bool:
    """Whether log Z comes from probabilities."""
    plain = graph._plain
    return plain._scaled(plain.plan(), "scaled partition", PROBABILITY) is not None


def crossed(dtype: Any, distance: float) -> FACTORS:
    """Return two tables whose product is far below both, for each of 40 variables."""
    small = math.exp(-distance)
    return [((v,), np.array(table, dtype)) for v in range(40) for table in ([1, small], [small, 1])]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("distance", [0.1, 3, 20, 37, 70, 300, 690])
def test_conflicts_in_each_of_many_parts(dtype: Any, distance: float) -> None:
    """The scale of each part is tiny: one over the product of some would be infinite."""
    if dtype == np.float32 and distance > 80:
        distance /= 10
    graph = factors.FactorGraph([2] * 40, crossed(dtype, distance))
    small = float(dtype(math.exp(-distance)))
    near = 1e-12 if dtype == np.float64 else 1e-5
    assert graph.log_partition() == pytest.approx(40 * math.log(2 * small), rel=near)
    assert graph.marginals()[7] == pytest.approx([0.5, 0.5], abs=1e-6)


@pytest.mark.parametrize("count", [10, 500, 2000])
@pytest.mark.parametrize("size", [2, 3, 50])
def test_many_parts(count: int, size: int) -> None:
    """Numbers from 1 to 2, one for each part, have a product without bound."""
    graph = factors.FactorGraph([size] * count)
    assert graph.log_partition() == pytest.approx(count * math.log(size), rel=1e-13)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("leaves", [3, 60, 130, 500])
def test_many_children_of_one_node(dtype: Any, leaves: int) -> None:
    tables: FACTORS = [((0, leaf + 1), np.ones((2, 8), dtype)) for leaf in range(leaves)]
    graph = factors.FactorGraph([2] + [8] * leaves, tables)
    assert graph.log_partition() == pytest.approx(math.log(2) + leaves * math.log(8), rel=1e-6)
    found = graph.marginals()
    assert found[0] == pytest.approx([0.5, 0.5]) and found[leaves] == pytest.approx(np.full(8, 1 / 8))


def test_the_smallest_state_of_the_root_decides() -> None:
    """Each child prefers state 0, which is impossible; states 1 and 2 are e**-900 and e**-1200."""
    table = np.array([[1.0, 1.0], [math.exp(-9), math.exp(-9)], [math.exp(-12), math.exp(-12)]])
    tables: FACTORS = [((0, leaf + 1), table) for leaf in range(100)]
    graph = factors.FactorGraph([3] + [2] * 100, [*tables, ((0,), [0.0, 1.0, 1.0])])
    assert graph.log_partition() == pytest.approx(-900 + 100 * math.log(2), rel=1e-13)
    assert graph.marginals()[0] == pytest.approx([0, 1, math.exp(-300)], rel=1e-9)
    assert graph.marginals({1: 1})[0] == pytest.approx([0, 1, math.exp(-300)], rel=1e-9)


def test_logs_further_apart_than_any_float() -> None:
    graph = factors.FactorGraph([2], [((0,), [1e308, -1e308]), ((0,), [-np.inf, 0.0])], log=True)
    assert graph.log_partition() == -1e308
    assert graph.marginals()[0].tolist() == [0, 1]


@pytest.mark.full
def test_the_best_state_is_in_a_slice_of_no_weight() -> None:
    """Where variable 0 is 1 one state has e**-760; where it is 0 all weight is spread over 2**1200 states."""
    core: FACTORS = [((a, b), np.ones((2, 2))) for a in range(10) for b in range(a)]
    tables = core + [((0,), [1.0, math.exp(-380)])] * 2 + [((0, leaf), [[0.5, 0.5], [1.0, 0.0]])
                                                         for leaf in range(10, 1210)]
    graph = factors.FactorGraph([2] * 1210, tables, limit_bytes=14000)
    assert graph._plain.modes(all_messages=True)
    states, value = graph.map()
    assert value == pytest.approx(-760) and states[0] == 1


@st.composite
def extreme_models(draw: st.DrawFn) -> tuple[list[int], FACTORS]:
    """Return sizes and factors of a tree, a star or a grid, with tables as far apart as the range of floats allows."""
    random = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    dtype: Any = draw(st.sampled_from(DTYPES))
    n = draw(st.sampled_from([2, 5, 12, 30, 80]))
    kind = draw(st.sampled_from(["star", "tree", "chain", "grid", "apart"]))
    sizes = random.choice([2, 2, 3, 4, 9], size=n if kind != "grid" else 25).tolist()
    edges = {
        "star": [(0, k) for k in range(1, n)], "tree": [(int(random.integers(k)), k) for k in range(1, n)],
        "chain": [(k, k + 1) for k in range(n - 1)],
        "grid": [(k, k + s) for k in range(25) for s in (1, 5) if k + s < 25 and (s == 5 or k % 5 < 4)],
        "apart": [(k, k + 1) for k in range(0, n - 1, 2)],
    }[kind]
    scopes: list[tuple[int, ...]] = [*edges, *((int(v),) for v in random.integers(len(sizes), size=n // 2))]
    reach = draw(st.sampled_from([0.1, 3, 20, 60, 200])) * (1 if dtype == np.float64 else 0.12)
    zeros, spiked = draw(st.sampled_from([0, 0.02, 0.3])), draw(st.booleans())
    tables: FACTORS = []
    for scope in scopes:
        shape = tuple([sizes[v] for v in scope])
        logs = random.uniform(-reach, 0, shape)
        if spiked:
            logs = np.where(random.random(shape) < 0.7, 0, logs * 3)
        table = np.where(random.random(shape) < zeros, 0, np.exp(logs))
        tables.append((scope, np.asarray(table, dtype)))
    return sizes, tables


@given(model=extreme_models())
def test_the_same_as_by_logs(model: tuple[list[int], FACTORS]) -> None:
    graph, beside = factors.FactorGraph(*model), factors.FactorGraph(*model)
    single = graph._plain.dtype == np.float32
    with logs_alone():
        total, largest = beside.log_partition(), beside.partition("max")
        marginals = beside.marginals() if total > -np.inf else {}
    near, close = (1e-4, 2e-3) if single else (1e-11, 1e-9)
    assert graph.log_partition() == pytest.approx(total, rel=near, abs=near)
    assert graph.partition("max") == pytest.approx(largest, rel=0.05 if single else 1e-9, abs=1e-300)
    found = graph.marginals() if marginals else {}
    assert all(np.allclose(found[v], marginals[v], rtol=0, atol=close) for v in found)


def test_probabilities_are_used_where_they_can_be() -> None:
    """Otherwise the tests above would compare logs with logs."""
    mild: FACTORS = [((v, v + 1), np.full((3, 3), 1e-9) + np.eye(3)) for v in range(60)]
    assert is_scaled(factors.FactorGraph([3] * 61, mild))
    assert is_scaled(factors.FactorGraph([2] * 40, crossed(np.float64, 3)))
    assert not is_scaled(factors.FactorGraph([2] * 40, crossed(np.float64, 300)))

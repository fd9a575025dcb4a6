"""What is no model, no query, or too large is refused with an error that says which; ties go to the lowest state."""
from __future__ import annotations

import re
from itertools import product
from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse import factors
from jitfuse.errors import JitfuseError, ModelError


def pair() -> factors.FactorGraph:
    return factors.FactorGraph({"a": 2, "b": 3}, [(("a", "b"), np.ones((2, 3)))])


@pytest.mark.parametrize(("sizes", "given"), [
    ({"a": 2}, [(("b",), [1.0, 1.0])]),
    ({"a": 2}, [(("a",), [1.0, 1.0, 1.0])]),
    ({"a": 2}, [(("a",), 1.0)]),
    ({"a": 2}, [((), [1.0, 1.0])]),
    ({"a": 2}, [(("a",), [-1.0, 1.0])]),
    ({"a": 2}, [(("a",), [np.nan, 1.0])]),
    ({"a": 2}, [(("a",), [np.inf, 1.0])]),
    ({"a": 2}, [(("a",), [1j, 1.0])]),
    ({"a": 2}, [(("a",), ["x", "y"])]),
    ({"a": -1}, []),
    ({"a": 1.5}, []),
    ([2, 2], [((2,), [1.0, 1.0])]),
    ([2, 2], [((-1,), [1.0, 1.0])]),
], ids=["unknown variable", "wrong length", "no axis", "an axis too many", "negative", "nan", "infinite", "complex",
        "text", "negative size", "broken size", "unknown number", "negative number"])
def test_no_model(sizes: Any, given: Any) -> None:
    with pytest.raises((JitfuseError, TypeError, ValueError)):
        factors.FactorGraph(sizes, given).log_partition()


@pytest.mark.parametrize("table", [[np.nan, 0.0], [np.inf, 0.0]])
def test_no_logarithms(table: list[float]) -> None:
    with pytest.raises((JitfuseError, ValueError)):
        factors.FactorGraph({"a": 2}, [(("a",), table)], log=True).log_partition()


@pytest.mark.parametrize("evidence", [
    {"c": 0}, {"a": 2}, {"a": -1}, {"a": 0.5}, {"a": [1.0]}, {"a": [1.0, 1.0, 1.0]}, {"a": [-1.0, 1.0]},
    {"a": [np.nan, 1.0]}, {"a": [np.inf, 1.0]}, {"a": [0, 1]}, {"a": None}, {"a": "yes"},
], ids=str)
def test_no_evidence(evidence: Any) -> None:
    for query in (pair().log_partition, pair().marginals, pair().map):
        with pytest.raises((JitfuseError, TypeError, ValueError)):
            query(evidence)


def test_no_semiring_and_no_variable() -> None:
    with pytest.raises((JitfuseError, ValueError), match=r"probability.*log|log.*probability"):
        pair().partition("tropical")
    with pytest.raises((JitfuseError, KeyError, ValueError), match="c"):
        pair().marginal("a", "c")


@pytest.mark.parametrize("query", ["log_partition", "marginals"])
def test_a_batch_of_nothing(query: str) -> None:
    graph = factors.FactorGraph([2, 3], [((0, 1), np.ones((2, 3)))])
    with pytest.raises(ModelError, match="no evidence"):
        getattr(graph, query)({0: np.zeros((0, 2))})


def test_counting_of_what_are_no_integers() -> None:
    with pytest.raises((JitfuseError, TypeError, ValueError)):
        factors.FactorGraph({"a": 2}, [(("a",), [0.5, 1.0])]).partition("counting")


def test_too_large_a_grid_is_refused_with_figures() -> None:
    n = 60
    sites = dict.fromkeys(product(range(n), repeat=2), 2)
    down = [(((i, j), (i + 1, j)), np.ones((2, 2))) for i in range(n - 1) for j in range(n)]
    right = [(((i, j), (i, j + 1)), np.ones((2, 2))) for i in range(n) for j in range(n - 1)]
    graph = factors.FactorGraph(sites, down + right)
    with pytest.raises(factors.TooLargeError) as caught:
        graph.log_partition()
    assert re.search(r"\d", str(caught.value))
    assert issubclass(factors.TooLargeError, JitfuseError)


def test_too_large_a_joint_marginal_is_refused() -> None:
    graph = factors.FactorGraph([2] * 70, [((k, k + 1), np.ones((2, 2))) for k in range(69)])
    with pytest.raises((factors.TooLargeError, JitfuseError)):
        graph.marginal(*range(70))


def test_ties_go_to_the_lowest_state() -> None:
    for table in ([1.0, 1.0, 1.0], [0.0, 2.0, 2.0], [0.5, 3.0, 3.0]):
        assignment, value = factors.FactorGraph({"a": 3}, [(("a",), table)]).map()
        assert assignment == {"a": table.index(max(table))}
        assert value == pytest.approx(np.log(max(table)))
    free, value = factors.FactorGraph({"a": 3, "b": 4}, []).map()
    assert free == {"a": 0, "b": 0}
    assert value == 0


def test_states_are_integers_of_python() -> None:
    assignment, value = pair().map()
    assert all(type(state) is int for state in assignment.values())
    assert isinstance(value, float)


def test_no_samples_and_one() -> None:
    none = pair().sample(0, jf.random.key(0))
    assert [np.asarray(column).shape for column in none.values()] == [(0,), (0,)]
    one = pair().sample(1, jf.random.key(0))
    assert [np.asarray(column).shape for column in one.values()] == [(1,), (1,)]


def test_tables_of_the_caller_are_neither_changed_nor_watched() -> None:
    table = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    kept = table.copy()
    graph = factors.FactorGraph({"a": 2, "b": 3}, [(("a", "b"), table), (("a", "b"), table)])
    first = graph.log_partition()
    graph.marginals({"a": 1})
    assert np.array_equal(table, kept)
    marginals = graph.marginals()
    marginals["a"][...] = 7
    assert graph.log_partition() == first
    assert np.allclose(graph.marginals()["a"], (kept**2).sum(axis=1) / (kept**2).sum())


@pytest.mark.parametrize("n", [70, 300])
def test_more_variables_than_an_array_has_axes(n: int) -> None:
    """A star, a chain, and variables that are free: 64 axes, 52 letters and 32 dimensions are limits of others."""
    star = factors.FactorGraph([2] * n, [((0, k), [[1.0, 2.0], [3.0, 4.0]]) for k in range(1, n)])
    assert star.log_partition() == pytest.approx((n - 1) * np.log(7) + np.log1p((3 / 7) ** (n - 1)), rel=1e-12)
    chain = factors.FactorGraph([2] * n, [((k, k + 1), [[1.0, 1.0], [1.0, 0.0]]) for k in range(n - 1)])
    a, b = 2, 3
    for _ in range(n - 2):
        a, b = b, a + b
    assert chain.log_partition() == pytest.approx(float(np.log(float(b))) if n < 1000 else 0, rel=1e-12)
    assert factors.FactorGraph([3] * n, []).log_partition() == pytest.approx(n * np.log(3), rel=1e-12)
    assert len(chain.marginals()) == n


def test_one_factor_over_many_variables() -> None:
    table = np.random.default_rng(0).uniform(size=(2,) * 18)
    graph = factors.FactorGraph([2] * 18, [(tuple(range(18))[::-1], table)])
    assert graph.log_partition() == pytest.approx(float(np.log(table.sum())), rel=1e-12)
    assert np.allclose(graph.marginal(3, 16), table.sum(axis=tuple(k for k in range(18) if k not in (14, 1))).T
                       / table.sum())


@pytest.mark.parametrize("table", [[-1, 2**70], [0.5, 2**70]])
def test_objects_that_are_no_counts(table: list[object]) -> None:
    with pytest.raises(ModelError, match="factor 0: its table holds Python objects"):
        factors.FactorGraph([2], [((0,), np.array(table, object))])

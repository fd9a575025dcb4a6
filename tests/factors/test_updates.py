"""Graphs that keep their messages: answers are those of a graph that does not, and little is computed again."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitfuse.factors import FactorGraph


def grid(n: int, seed: int, log_scale: float = 1.0) -> FactorGraph:
    """Return a grid of binary variables with a field at each."""
    draw = np.random.default_rng(seed)
    edges = [((i, j), (i + di, j + dj)) for i in range(n) for j in range(n) for di, dj in ((0, 1), (1, 0))
             if i + di < n and j + dj < n]
    tables = [(edge, np.exp(log_scale * draw.normal(size=(2, 2)))) for edge in edges]
    return FactorGraph({(i, j): 2 for i in range(n) for j in range(n)}, tables)


def draw_evidence(graph: FactorGraph, draw: np.random.Generator) -> dict[Any, Any]:
    """Return states of some variables, and weights of others."""
    found: dict[Any, Any] = {}
    for v in graph.variables:
        if draw.random() < 0.2:
            found[v] = int(draw.integers(2)) if draw.random() < 0.5 else draw.random(2)
    return found


@pytest.mark.parametrize("scale", [1.0, 60.0])
def test_answers_are_those_without_memory(scale: float) -> None:
    plain = grid(4, 0, scale)
    kept = plain.updating()
    draw = np.random.default_rng(1)
    for _ in range(12):
        evidence = draw_evidence(plain, draw)
        assert kept.log_partition(evidence) == pytest.approx(plain.log_partition(evidence), rel=1e-12, abs=1e-12)
        expected = plain.marginals(evidence)
        for v, table in kept.marginals(evidence).items():
            np.testing.assert_allclose(table, expected[v], rtol=1e-9, atol=1e-12)
        assert kept.map(evidence)[1] == pytest.approx(plain.map(evidence)[1])


def test_only_what_evidence_reaches_is_computed() -> None:
    graph = grid(8, 2).updating()
    graph.log_partition({(0, 0): 0})
    updates = graph._updates
    assert updates is not None
    whole = updates.ran
    graph.log_partition({(0, 0): 0})
    assert updates.ran == 0
    ran = []
    for v in graph.variables:
        graph.log_partition({(0, 0): 0, v: np.array([0.3, 0.7])})
        ran.append(updates.ran)
        graph.log_partition({(0, 0): 0})
    assert 0 < min(ran) <= whole // 8
    assert np.mean(ran) < 0.7 * whole


def test_the_first_graph_keeps_nothing() -> None:
    graph = grid(3, 3)
    kept = graph.updating()
    kept.log_partition({(0, 0): 1})
    assert graph._updates is None
    assert kept.log_partition() == pytest.approx(graph.log_partition())


def test_batches_and_impossible_evidence() -> None:
    graph = FactorGraph([2, 3], [((0, 1), [[1.0, 0.0, 2.0], [0.0, 0.0, 4.0]])]).updating()
    assert graph.log_partition({1: 1}) == -np.inf
    assert graph.log_partition({1: 2}) == pytest.approx(np.log(6.0))
    np.testing.assert_allclose(np.exp(graph.log_partition({0: np.array([0, 1, 1])})), [3.0, 4.0, 4.0])
    assert graph.log_partition({1: 0}) == pytest.approx(0.0)


def test_messages_of_one_dtype_are_not_those_of_another() -> None:
    tables = np.random.default_rng(4).uniform(0.1, 1, (2, 3, 3)).astype(np.float32)
    plain = FactorGraph([3, 3, 3], [((0, 1), tables[0]), ((1, 2), tables[1])])
    kept = plain.updating()
    single = dict.fromkeys(range(3), np.array([1.0, 0.5, 0.25], np.float32))  # with these all tables are float32
    for evidence in ({}, single, {0: 1}, single):
        assert kept.log_partition(evidence) == pytest.approx(plain.log_partition(evidence), rel=1e-5)
        for v, table in kept.marginals(evidence).items():
            np.testing.assert_allclose(table, plain.marginals(evidence)[v], rtol=1e-5)

"""Evidence replaces weights of a graph that is made once: answers do not depend on what was asked before."""
from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from factors import brute
from factors.brute import Model

from jitfuse.factors import FactorGraph

EVIDENCE: list[dict[Any, Any]] = [
    {}, {0: 1, 3: 2}, {1: np.array([0.5, 0.0, 2.0])}, {0: np.array([0.3, 0.0, 1e-200]), 2: 0}, {2: 1},
    {v: np.array([0.5, 0.25, 1.0], np.float32) for v in range(4)}, {},
]


def loop(log: bool = False, dtype: Any = np.float64) -> Model:
    """Return a loop of four variables whose edges have one table, with a zero."""
    table = np.random.default_rng(7).uniform(0.1, 1, (3, 3))
    table[0, 1] = 0.0
    with np.errstate(divide="ignore"):
        table = (np.log(table) if log else table).astype(dtype)
    return Model(dict.fromkeys(range(4), 3), [((v, (v + 1) % 4), table) for v in range(4)], log)


def check(graph: FactorGraph, model: Model, evidence: dict[Any, Any], rtol: float = 1e-10) -> None:
    logs = brute.log_weights(model, evidence)
    assert graph.log_partition(evidence) == pytest.approx(float(brute.log_sum(logs)), rel=rtol)
    for v, table in graph.marginals(evidence).items():
        np.testing.assert_allclose(table, brute.joint(model, logs, [v]).astype(float), rtol=10 * rtol, atol=rtol)


@pytest.mark.parametrize("observed", [(), (2,), (1, 2), (0, 3), (0, 1, 3), (0, 1, 2, 3)])
def test_joint_marginals_of_observed_variables_have_all_axes(observed: tuple[int, ...]) -> None:
    """States that the graph itself knows leave it: their axes come back, wherever the query has them."""
    model, states = loop(), {v: 2 - v % 2 for v in observed}
    graph = FactorGraph(model.sizes, model.factors, evidence=states)
    batch = {v: np.array([[0.1, 0.2, 0.3], [1.0, 0.5, 5.0]]) for v in {0, 1, 2, 3}.difference(observed)}
    for wanted in (*permutations(range(4), 3), (3, 1, 2, 0)):
        expected = brute.joint(model, brute.log_weights(model, states), wanted).astype(float)
        np.testing.assert_allclose(graph.marginal(*wanted), expected, rtol=1e-10, atol=1e-14)
        for k in range(2 if batch else 0):
            logs = brute.log_weights(model, {**states, **{v: rows[k] for v, rows in batch.items()}})
            found = graph.marginal(*wanted, evidence=batch)[k]
            np.testing.assert_allclose(found, brute.joint(model, logs, wanted).astype(float), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("log", [False, True])
def test_one_evidence_after_the_other(log: bool, kept: bool) -> None:
    model = loop(log)
    graph = FactorGraph(model.sizes, model.factors, log=log)
    graph = graph.updating() if kept else graph
    for evidence in EVIDENCE:
        check(graph, model, evidence)
        batch = np.array([[0.1, 0.2, 0.3], [1.0, 0.0, 5.0]])
        expected = [float(brute.log_sum(brute.log_weights(model, {**evidence, 0: row}))) for row in batch]
        np.testing.assert_allclose(graph.log_partition({**evidence, 0: batch}), expected, rtol=1e-10)
        best = brute.log_weights(model, evidence)
        states, value = graph.map(evidence)
        assert value == pytest.approx(float(best.max())) == pytest.approx(float(best[tuple(states.values())]))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_logs_of_weights_are_not_those_of_fewer_bits(dtype: Any) -> None:
    model = loop(log=True)
    graph = FactorGraph(model.sizes, model.factors, log=True)
    for weights in ([1e-7, 3e-7, 2e-7], [0.3, 0.0, 0.7]):
        check(graph, model, {0: np.array(weights, dtype)}, 1e-12)


class AskedMeanwhile(dict[Any, Any]):
    """What is allowed for the weights asked with last, while another thread always asks with weights near 1."""

    def get(self, key: Any, default: Any = None) -> Any:
        found = super().get(key, default)
        self[key] = [], np.inf
        return found


def test_weights_of_another_thread_do_not_say_what_is_allowed() -> None:
    far = np.array([1.0, 1e-200])
    graph = FactorGraph([2, 2, 2], [((0,), far), ((0,), far[::-1]), ((0, 1), np.eye(2)), ((0, 2), np.eye(2))])
    evidence, expected = {1: far, 2: far[::-1]}, np.log(2.0) - 400 * np.log(10.0)
    assert graph.log_partition(evidence) == pytest.approx(expected)
    graph._open._allowed = AskedMeanwhile(graph._open._allowed)
    assert graph.log_partition(evidence) == pytest.approx(expected)


def test_threads_ask_one_graph() -> None:
    model = loop()
    expected = [float(brute.log_sum(brute.log_weights(model, evidence))) for evidence in EVIDENCE]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(3):
            graph = FactorGraph(model.sizes, model.factors)
            with ThreadPoolExecutor(3) as pool:
                found = list(pool.map(graph.log_partition, 10 * EVIDENCE))
            np.testing.assert_allclose(found, 10 * expected, rtol=1e-10)
    finally:
        sys.setswitchinterval(before)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda graph: pickle.loads(pickle.dumps(graph))])
@pytest.mark.parametrize("kept", [False, True])
def test_copies_of_graphs_that_were_asked(copied: Callable[[FactorGraph], FactorGraph], kept: bool) -> None:
    model = loop()
    graph = FactorGraph(model.sizes, model.factors)
    graph = graph.updating() if kept else graph
    check(graph, model, EVIDENCE[1])
    other = copied(graph)
    for evidence in EVIDENCE[:3]:
        check(other, model, evidence)
        check(graph, model, evidence)
    assert other._updates is not graph._updates or not kept


def test_tables_that_change_behind_the_graph() -> None:
    table = np.array([[1.0, 2.0], [3.0, 4.0]])
    graph = FactorGraph([2, 2], [((0, 1), table)])
    table[:] = 7.0
    assert graph.log_partition() == pytest.approx(np.log(10.0))
    assert graph.log_partition({0: 1}) == pytest.approx(np.log(7.0))


def test_what_float64_allows_is_not_allowed_in_float32() -> None:
    """Equal weights of another dtype: products of 1e-100 are in the range of float64 alone."""
    tables = [np.array(pair, np.float32) for pair in ([1, 1e-25], [1e-25, 1]) * 4]
    graph = FactorGraph([2], [((0,), table) for table in tables])
    for dtype in (np.float64, np.float32):
        found = graph.log_partition({0: np.array([0.5, 1.0], dtype)})
        assert found == pytest.approx(np.log(1.5) + 4 * np.log(1e-25), rel=1e-6)

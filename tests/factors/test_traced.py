"""Graphs of traced tables: log Z as steps of a fused function, its gradient as marginals; compiled and plain runs."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse import factors
from jitfuse.factors import graph as graph_module
from jitfuse.factors.ir.verify import check
from jitfuse.factors.plans import QUERIES, Plan, Question, plan_for
from jitfuse.factors.semirings import LOG
from jitfuse.factors.structure import Structure

SCOPES = ((0, 1), (1, 2), (2, 3), (3, 0), (1, 3), (2,))
SIZES = (2, 3, 2, 3)
RNG = np.random.default_rng(0)
TABLES = [RNG.random([SIZES[v] for v in scope]) + 0.1 for scope in SCOPES]


def log_partition(*tables: np.ndarray) -> np.ndarray:
    return factors.FactorGraph(SIZES, list(zip(SCOPES, tables))).log_partition()


def test_log_partition_in_a_fused_function() -> None:
    fused = jf.fuse(log_partition, strict=True)
    assert np.isclose(fused(*TABLES), log_partition(*TABLES), rtol=1e-13)
    assert len(fused.program(*TABLES).feeds) == len(TABLES)


def test_gradients_of_log_partition_are_marginals() -> None:
    grads = jf.grad(log_partition, argnums=tuple(range(len(TABLES))))(*TABLES)
    graph = factors.FactorGraph(SIZES, list(zip(SCOPES, TABLES)))
    for scope, table, grad in zip(SCOPES, TABLES, grads):
        assert np.allclose(grad * table, graph.marginal(*scope), rtol=1e-11)


def test_a_batch_is_as_one_by_one() -> None:
    graph = factors.FactorGraph(SIZES, list(zip(SCOPES, TABLES)))
    weights = np.random.default_rng(1).random((5, 3))
    batch = graph.log_partition({1: weights})
    assert batch.shape == (5,)
    assert np.allclose(batch, [graph.log_partition({1: row}) for row in weights], rtol=1e-13)
    together = graph.marginals({1: weights})
    alone = [graph.marginals({1: row}) for row in weights]
    assert all(np.allclose(together[v][k], alone[k][v], rtol=1e-12) for v in range(4) for k in range(5))


@pytest.mark.parametrize("limit", [None, 0], ids=["all evidence as weights", "states leave the graph"])
@pytest.mark.parametrize("query", [
    lambda graph, evidence: graph.entropy(2, 0, evidence=evidence),
    lambda graph, evidence: graph.entropy(2, given=(0,), evidence=evidence),
    lambda graph, evidence: graph.entropy(3, evidence=evidence),
    lambda graph, evidence: graph.marginal(3, 2, evidence=evidence),
    lambda graph, evidence: graph.marginal(3, evidence=evidence),
    lambda graph, evidence: graph.marginal(evidence=evidence),
    lambda graph, evidence: graph.partition("max", evidence),
    lambda graph, evidence: graph.partition("satisfiability", evidence),
])
def test_other_queries_of_a_batch_are_as_one_by_one(
    query: Callable[..., Any], limit: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if limit is not None:
        monkeypatch.setattr(graph_module, "SMALL", limit)
    graph = factors.FactorGraph(SIZES, list(zip(SCOPES, TABLES)))
    weights = np.random.default_rng(1).random((5, 3))
    found = query(graph, {1: weights, 3: 2})
    alone = [query(graph, {1: row, 3: 2}) for row in weights]
    assert np.shape(found) == np.shape(alone)
    assert np.allclose(found, alone, rtol=1e-12, atol=1e-15)


def test_entropy_in_a_fused_function() -> None:
    def entropy(*tables: np.ndarray) -> np.ndarray:
        return factors.FactorGraph(SIZES, list(zip(SCOPES, tables))).entropy(0, given=(2,))

    assert np.isclose(jf.fuse(entropy, strict=True)(*TABLES), entropy(*TABLES), rtol=1e-12)


def test_traced_states_as_evidence_are_refused_with_the_way_out() -> None:
    def clamped(table: np.ndarray, states: np.ndarray) -> np.ndarray:
        return factors.FactorGraph([2, 3], [((0, 1), table)]).log_partition({1: states})

    with pytest.raises(jf.errors.JitfuseError, match=r"np\.eye\(3\)\[states\]"):
        jf.fuse(clamped, strict=True)(np.ones((2, 3)), np.array([0, 1]))


@pytest.mark.parametrize("query", QUERIES)
def test_programs_are_valid_and_run_the_same_compiled_or_not(query: str) -> None:
    graph = factors.FactorGraph(SIZES, list(zip(SCOPES, TABLES)))
    tables = graph._plain.tables
    plan = plan_for(Question(Structure(SIZES, SCOPES), tuple(tables.places)))
    for name in QUERIES[query][0]:
        before = {} if "upward" in name else _stored(plan)
        check(Plan.programs[name](plan), factors=len(SCOPES), before=before)
    stacks = tables.logs(np.float64) if "scaled" not in query else tables.scaled(np.float64)[0]
    semiring = LOG if "scaled" not in query else factors.Semiring("p", np.add, np.multiply, 0.0, 1.0)
    compiled, plain = (plan.ask(query, semiring, stacks, np.float64, fused=fused) for fused in (True, False))
    for a, b in zip(_leaves(compiled), _leaves(plain), strict=True):
        assert np.allclose(a, b, rtol=1e-12)


def _stored(plan: Plan) -> dict:
    found = {}
    for program in (plan.upward, plan.scaled_upward):
        specs = {step.dst: step.spec for step in program.instructions if step.dst is not None}
        found.update({step.args["slot"]: specs[step.args["src"]] for step in program.instructions if "slot" in step.args
                      and "src" in step.args})
    return found


def _leaves(tree: object) -> list:
    return [leaf for part in tree for leaf in _leaves(part)] if isinstance(tree, list | tuple) else [tree]

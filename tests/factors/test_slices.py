"""Sums over slices beside the model as a whole: every query, any modes, what runs again and what is kept."""
from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jitfuse as jf
from jitfuse import factors
from jitfuse.errors import ModelError
from jitfuse.factors import nesting
from jitfuse.factors.conditioning import Slices
from jitfuse.factors.decoding import drawn_by
from jitfuse.factors.given import Given
from jitfuse.factors.ir.schema import OpCode
from jitfuse.factors.semirings import Semiring
from jitfuse.factors.structure import Structure
from tests.factors.orders.structures import grid, random_structure
from tests.factors.test_schemes import whole_table

MIN_SUM = Semiring("min_sum", np.minimum, np.add, np.inf, 0.0)


def drawn_graph(seed: int, *, zeros: float, log: bool, dtype: Any) -> factors.FactorGraph:
    """Return a graph of integers from 0 to 3, or logs of these; `zeros` is the share of more zeros."""
    rng = np.random.default_rng(seed)
    structure = random_structure(seed, most=6)
    found = []
    for scope in structure.scopes:
        table = rng.integers(0, 4, [structure.sizes[v] for v in scope]) * (rng.random() > zeros or rng.random(
            [structure.sizes[v] for v in scope]) > zeros)
        with np.errstate(divide="ignore"):
            found.append((scope, np.asarray(np.log(table) if log else table, dtype)))
    return factors.FactorGraph(structure.sizes, found, log=log)


def drawn_modes(sizes: tuple[int, ...], seed: int) -> tuple[int, ...]:
    rng = np.random.default_rng(seed)
    return tuple(sorted(rng.choice(len(sizes), min(len(sizes), int(rng.integers(1, 4))), replace=False).tolist()))


def has_modes(model: Given, modes: tuple[int, ...]) -> tuple[int, ...]:
    """Return those of some variables that any factor has."""
    return tuple([v for v in modes if any(v in f.scope for f in model.tables.factors)])


@given(seed=st.integers(0, 1 << 20), zeros=st.sampled_from([0.0, 0.5]), log=st.booleans(),
       dtype=st.sampled_from([np.float64, np.float32]), observed=st.booleans(), weighed=st.booleans())
@settings(deadline=None)
def test_every_query(seed: int, zeros: float, log: bool, dtype: Any, observed: bool, weighed: bool) -> None:
    graph = drawn_graph(seed, zeros=zeros, log=log, dtype=dtype)
    rng, sizes = np.random.default_rng(seed), tuple(graph.sizes.values())
    if not sizes:
        return
    free = rng.permutation(len(sizes)).tolist()
    evidence: dict[Any, Any] = {free[0]: int(rng.integers(sizes[free[0]]))} if observed else {}
    if weighed:
        evidence[free[-1]] = rng.random(sizes[free[-1]])
    graph._is_small = bool(seed % 2)
    model = graph._given(evidence)
    modes = has_modes(model, drawn_modes(sizes, seed))
    if not modes:
        return
    slices, near = Slices(model, modes), 1e-5 if dtype == np.float32 else 1e-12
    assert slices.log_partition() == pytest.approx(model.log_partition(), rel=near, abs=near)
    assert slices.partition() == pytest.approx(model.partition(), rel=near)
    assert slices.largest() == pytest.approx(model.largest(), rel=near)
    assert slices.satisfiable() == model.satisfiable()
    assert float(slices.custom(MIN_SUM)) == pytest.approx(float(model.custom(MIN_SUM)), rel=near, abs=near)
    if not log and not weighed:
        assert slices.count() == model.count()
    if not model.satisfiable():
        for query in (slices.marginals, slices.map, lambda: slices.marginal((0,)),
                      lambda: slices.sample(1, drawn_by(jf.random.key(0), 1))):
            with pytest.raises(ModelError, match="no state of the model has a positive probability"):
                query()
        return
    for mine, whole in zip(slices.marginals(), model.marginals(), strict=True):
        assert np.allclose(mine, whole, rtol=0, atol=10 * near) and mine.shape == whole.shape
    wanted = tuple(rng.permutation(len(sizes))[:3].tolist())
    assert np.allclose(slices.marginal(wanted), model.marginal(wanted), rtol=0, atol=10 * near)
    best, expected = slices.map(), model.map()
    assert best.states == expected.states and best.value == pytest.approx(expected.value, rel=near, abs=near)
    states = slices.sample(20, drawn_by(jf.random.key(seed), 20))
    for k in range(20):
        assert graph.partition("satisfiability", {v: int(states[v][k]) for v in graph.sizes})
        assert all(states[v][k] == state for v, state in evidence.items() if np.ndim(state) == 0)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("modes", [(5,), (1, 6, 7), (0, 4, 5, 9, 10)])
def test_what_a_mode_does_not_reach_runs_once(size: int, modes: tuple[int, ...], monkeypatch: Any) -> None:
    """Fewer records run than in all slices together, and the answer is the exact one; some modes have other sizes."""
    structure = grid(3, 4)
    sizes = tuple([size if v in modes[1:] else 2 for v in range(12)])
    rng = np.random.default_rng(0)
    tables = {f: rng.integers(1, 4, [sizes[v] for v in scope]).astype(float)
              for f, scope in enumerate(structure.scopes)}
    structure = Structure(sizes, structure.scopes)
    graph = factors.FactorGraph(sizes, [(scope, tables[f]) for f, scope in enumerate(structure.scopes)])
    ran: Counter[str] = Counter()

    def counted(carrier: str, code: Any, count: int, *args: Any, **options: Any) -> float:
        ran["records"] += count
        return run_records(carrier, code, count, *args, **options)

    from jitfuse.compile.objects.semiring_object import run_records
    monkeypatch.setattr("jitfuse.factors.native.run_records", counted)
    total, plan = whole_table(structure, tables).sum(), next(Slices(graph._plain, modes)._parts(np.arange(1)))[1].plan()
    records = []
    for worth in (nesting.WORTH, 0.0):
        monkeypatch.setattr(nesting, "WORTH", worth)
        plan._nested.clear()
        ran.clear()
        slices = Slices(graph._plain, modes)
        assert slices.partition() == pytest.approx(total, rel=1e-13)
        records.append(ran["records"])
        assert slices.count() == total and slices.log_partition() == pytest.approx(np.log(total), rel=1e-14)
    plan._nested.clear()
    assert records[0] < records[1]


def test_what_is_kept_stays_below_the_limit() -> None:
    """Where nothing more may be kept than one slice needs, more is computed again."""
    rng = np.random.default_rng(1)
    tables = [(scope, rng.random((2, 2))) for scope in grid(6, 6).scopes]
    graph, modes = factors.FactorGraph([2] * 36, tables), (14, 15, 20, 21)
    made = {}
    for limit in (1, 1500, 1 << 20):
        slices = Slices(factors.FactorGraph([2] * 36, tables)._plain, modes)
        _, part, _ = next(slices._parts(np.arange(1)))
        plan = part.plan()
        plan._nested.clear()
        plan.question = plan.question._replace(limit_bytes=limit)
        made[limit] = plan.nested("partition", slices._shared[3], (2,) * 4)
        assert slices.log_partition() == pytest.approx(graph.log_partition(), rel=1e-13)
        plan._nested.clear()
    small, middle, large = (made[limit].table.workspace for limit in made)
    assert small <= middle <= max(small, 1500 // 8) and middle <= large
    assert len(made[1].cuts) < len(made[1 << 20].cuts)


@pytest.mark.parametrize("limit", [40, 100, 120])
def test_graphs_with_a_limit(limit: int) -> None:
    rng = np.random.default_rng(1)
    tables = [(scope, rng.random((2, 2)) * (rng.random((2, 2)) > 0.1)) for scope in grid(3, 4).scopes]
    graph, whole = factors.FactorGraph([2] * 12, tables, limit_bytes=limit), factors.FactorGraph([2] * 12, tables)
    assert isinstance(graph._answering(None), Slices)
    evidence: dict[Any, Any]
    for evidence in ({}, {3: 1}, {2: np.array([0.3, 0.6]), 7: 0}):
        assert graph.log_partition(evidence) == pytest.approx(whole.log_partition(evidence), rel=1e-12)
        assert graph.partition("max", evidence) == pytest.approx(whole.partition("max", evidence), rel=1e-12)
        assert np.allclose(graph.marginal(7, 0, evidence=evidence), whole.marginal(7, 0, evidence=evidence))
        assert np.allclose(graph.marginal(evidence=evidence), 1) and graph.marginal(evidence=evidence).shape == ()
        assert graph.entropy(1, given=[5], evidence=evidence) == pytest.approx(
            whole.entropy(1, given=[5], evidence=evidence), rel=1e-10)
    batch = {5: rng.random((3, 2)), 6: np.array([0, 1, 1])}
    assert np.allclose(graph.log_partition(batch), whole.log_partition(batch), rtol=1e-12)
    assert np.allclose(graph.partition("max", batch), whole.partition("max", batch), rtol=1e-12)
    assert graph.partition("satisfiability", batch).tolist() == whole.partition("satisfiability", batch).tolist()
    assert np.allclose(graph.marginal(7, 0, evidence=batch), whole.marginal(7, 0, evidence=batch))
    with pytest.raises(ModelError, match="one evidence at a time"):
        Slices(graph._given(batch), (1,)).map()
    both = whole._given(batch)
    for a, b in zip(Slices(both, (1, 5)).marginals(), both.marginals(), strict=True):
        assert np.allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("limit", [110, 130])
def test_all_messages_with_a_limit(limit: int) -> None:
    rng = np.random.default_rng(limit)
    tables = [(scope, rng.random((2, 2))) for scope in grid(3, 4).scopes]
    graph, whole = factors.FactorGraph([2] * 12, tables, limit_bytes=limit), factors.FactorGraph([2] * 12, tables)
    assert isinstance(graph._answering(None, all_messages=True), Slices)
    for evidence in ({}, {3: 1}):
        for a, b in zip(graph.marginals(evidence).values(), whole.marginals(evidence).values(), strict=True):
            assert np.allclose(a, b, rtol=1e-12)
        assert graph.map(evidence) == whole.map(evidence)
        states = graph.sample(4000, jf.random.key(limit), evidence)
        again = graph.sample(4000, jf.random.key(limit), evidence)
        assert all(np.array_equal(states[v], again[v]) for v in states)
        for pair in [(0, 1), (5, 6), (2, 11)]:
            found = np.zeros((2, 2))
            np.add.at(found, tuple(states[v] for v in pair), 1 / 4000)
            assert np.abs(found - whole.marginal(*pair, evidence=evidence)).max() < 0.04


def test_a_fused_function_and_its_gradient() -> None:
    scopes = grid(3, 4).scopes
    tables = np.random.default_rng(2).random((len(scopes), 2, 2))

    def graph(values: Any, limit: int) -> factors.FactorGraph:
        return factors.FactorGraph([2] * 12, [(s, values[k]) for k, s in enumerate(scopes)], limit_bytes=limit)

    def answers(values: Any, limit: int) -> Any:
        model = graph(values, limit)
        return model.log_partition(), model.marginal(0, 7), model.log_partition({3: np.eye(2)})

    for mine, whole in zip(jf.fuse(lambda x: answers(x, 100))(tables), answers(tables, 1 << 20), strict=True):
        assert np.allclose(mine, whole, rtol=1e-12)
    assert np.allclose(jf.fuse(lambda x: graph(x, 250).marginals()[5])(tables), graph(tables, 1 << 20).marginals()[5])
    gradient = jf.grad(lambda x: graph(x, 100).log_partition())(tables)
    assert np.allclose(gradient, jf.grad(lambda x: graph(x, 1 << 20).log_partition())(tables), rtol=1e-10)


@given(seed=st.integers(0, 1 << 20))
def test_ties_between_slices(seed: int) -> None:
    """Small integers make many products equal: the lowest of all slices is found."""
    graph = drawn_graph(seed, zeros=0.0, log=False, dtype=np.float64)
    modes = has_modes(graph._plain, drawn_modes(tuple(graph.sizes.values()), seed))
    if modes and graph.partition("satisfiability"):
        assert Slices(graph._plain, modes).map().states == list(graph.map()[0].values())


def test_parts_depend_on_modes_alone() -> None:
    """A program's loads of factors without modes, and what is made of these, are all in the first part."""
    graph = factors.FactorGraph([2] * 12, [(scope, np.ones((2, 2))) for scope in grid(3, 4).scopes])
    slices = Slices(graph._plain, (5, 6))
    _, part, _ = next(slices._parts(np.arange(1)))
    nested = part.plan().nested("partition", slices._shared[3], (2, 2))
    loads = sum(step.op is OpCode.LOAD_FACTOR for step in part.plan().programs.program("upward").instructions)
    assert loads and nested.cuts and sorted(nested.order) == [0, 1]
    assert [count for _, count in map(nested.reached, range(2))] == sorted(
        [count for _, count in map(nested.reached, range(2))], reverse=True)
    assert nested.reached(0)[1] <= nested.table.count

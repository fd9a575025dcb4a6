"""Graphs of traced tables: log Z as steps of a fused function, its gradient as marginals; compiled and plain runs."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse import factors
from jitfuse.factors import graph as graph_module
from jitfuse.factors import plans
from jitfuse.factors.ir.verify import check
from jitfuse.factors.plans import Plan, Question
from jitfuse.factors.queries import QUERIES
from jitfuse.factors.semirings import LOG
from jitfuse.factors.structure import Structure
from jitfuse.ir.program import FusedProgram

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


def test_float32_tables_with_traced_evidence_are_computed_in_float32() -> None:
    tables = [table.astype(np.float32) for table in TABLES]
    weights = np.random.default_rng(1).random((5, 3)).astype(np.float32)

    def queries(weights: np.ndarray, *tables: np.ndarray) -> Any:
        graph = factors.FactorGraph(SIZES, list(zip(SCOPES, tables)))
        return graph.log_partition({1: weights, 0: 1}), graph.marginals({1: weights, 0: 1})[2]

    wanted = queries(weights.astype(float), *(table.astype(float) for table in tables))
    for found, value in zip(jf.fuse(queries, strict=True)(weights, *tables), wanted, strict=True):
        assert found.dtype == np.float32
        assert np.allclose(found, value, rtol=1e-5)


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
def test_programs_are_valid_and_steps_of_arrays_are_as_native_code(
    query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = factors.FactorGraph(SIZES, list(zip(SCOPES, TABLES)))._plain.tables
    plan = Plan(Question(Structure(SIZES, SCOPES), tuple(tables.places)))
    scaled = QUERIES[query].scaled
    for name in QUERIES[query].programs:
        before = {} if name == "upward" else _stored(plan, scaled)
        check(plan.programs.program(name, scaled=scaled), factors=len(SCOPES), before=before)
    if "scaled" in query:
        return
    stacks = tables.logs(np.float64)
    semiring = factors.Semiring("logs", np.logaddexp, np.add, -np.inf, 0.0)
    compiled = plan.ask(query, semiring, stacks, np.float64)
    monkeypatch.setattr(plans, "MOST_COMPILED", 0)
    plain = plan.ask(query, semiring, stacks, np.float64)
    native, _ = plan.run(query, LOG, stacks, np.float64)
    for a, b, c in zip(_leaves(compiled), _leaves(plain), _leaves(native), strict=True):
        assert np.allclose(a, c, rtol=1e-12) and np.allclose(b, c, rtol=1e-12)


def test_a_query_is_one_step_which_programs_keep_in_files() -> None:
    fused = jf.fuse(log_partition, strict=True)
    program = fused.program(*TABLES)
    assert [step.op_name for step in program.steps].count("semiring_sums") == 1
    for read in (FusedProgram.from_json(program.to_json()), FusedProgram.from_text(str(program))):
        assert read == program
        outputs = jf.ProgramRunner(read)(dict(zip(read.ordered_feeds, TABLES))).outputs
        assert np.isclose(next(iter(outputs.values())), log_partition(*TABLES), rtol=1e-13)


def whole(tables: Sequence[Any], *, log: bool = False) -> Any:
    """Return the product of all tables over all variables, by NumPy's broadcasting."""
    product: Any = 0.0 if log else 1.0
    for scope, table in zip(SCOPES, tables):
        turned = table.transpose(sorted(range(len(scope)), key=scope.__getitem__))
        table = turned.reshape([SIZES[v] if v in scope else 1 for v in range(len(SIZES))])
        product = product + table if log else product * table
    return product


WEIGHTS = [RNG.normal(size=size) for size in SIZES]


def of_marginals(*tables: Any) -> Any:
    found = factors.FactorGraph(SIZES, list(zip(SCOPES, tables))).marginals()
    return sum((w * found[v]).sum() for v, w in enumerate(WEIGHTS))


def of_marginals_by_hand(*tables: Any) -> Any:
    p = whole(tables)
    p = p / p.sum()
    return sum((w * p.sum(axis=tuple(u for u in range(4) if u != v))).sum() for v, w in enumerate(WEIGHTS))


PAIRS = [(log_partition, lambda *tables: np.log(whole(tables).sum())), (of_marginals, of_marginals_by_hand)]


@pytest.mark.parametrize(("function", "by_hand"), PAIRS, ids=["log Z", "marginals"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_values_and_derivatives_are_those_of_all_states(
    function: Callable[..., Any], by_hand: Callable[..., Any], dtype: Any
) -> None:
    tables = [table.astype(dtype) for table in TABLES]
    if dtype is np.float32:
        tables[1][0, 1] = tables[3][2, 0] = 0.0  # of float64 the second derivatives are compared, which are infinite
    places, rtol = tuple(range(len(TABLES))), 1e-11 if dtype is np.float64 else 2e-4
    assert np.isclose(jf.fuse(function, strict=True)(*tables), by_hand(*tables), rtol=rtol)
    found, wanted = (jf.grad(f, argnums=places)(*tables) for f in (function, by_hand))
    for a, b, table in zip(found, wanted, tables):
        assert a.dtype == dtype
        assert np.allclose(a, np.where(table > 0, b, 0), rtol=rtol, atol=rtol)  # at 0 the log has none
    if dtype is np.float64:
        along = [np.cos(np.arange(table.size)).reshape(table.shape) for table in tables]
        slopes = [jf.jvp(f, tuple(tables), tuple(along))[1] for f in (function, by_hand)]
        assert np.isclose(*slopes, rtol=1e-10)
        twice = [jf.grad(lambda *t, f=f: sum((g * d).sum() for g, d in zip(jf.grad(f, argnums=places)(*t), along)),
                         argnums=places)(*tables) for f in (function, by_hand)]
        assert all(np.allclose(a, b, rtol=1e-9, atol=1e-10) for a, b in zip(*twice, strict=True))


def test_second_derivatives_where_the_first_factor_is_zero() -> None:
    value = float(log_partition(*TABLES))
    found = [jf.grad(lambda *t, f=f: jf.grad(lambda *u: (f(*u) - value) ** 2)(*t).sum(), argnums=(1,))(*TABLES)
             for f in PAIRS[0]]
    assert np.abs(found[1]).max() > 0.1 and np.allclose(found[0], found[1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("distance", [0.0, 1e-12, -1e-6, 0.1])
@pytest.mark.parametrize("is_log", [True, False])
def test_third_derivatives_where_the_first_factor_is_near_zero(is_log: bool, distance: float) -> None:
    """Of (log Z - c)**2 they are six times the first times the second, plus twice the distance times the third."""
    tables = [np.log(table) for table in TABLES] if is_log else TABLES
    rng = np.random.default_rng(4)
    directions = [rng.standard_normal(table.shape) * 0.3 for table in tables]

    def value(t: Any) -> Any:
        moved = [table + t * d for table, d in zip(tables, directions)]
        return factors.FactorGraph(SIZES, list(zip(SCOPES, moved)), log=is_log).log_partition()

    first = jf.grad(value)
    second = jf.grad(first)
    third = jf.grad(second)
    middle = float(value(0.0)) - distance
    found = jf.grad(jf.grad(jf.grad(lambda t: (value(t) - middle) ** 2)))(0.0)
    want = 6 * first(0.0) * second(0.0) + 2 * distance * third(0.0)
    assert np.isclose(found, want, rtol=1e-6, atol=1e-7)


def test_impossible_models_have_no_gradient_and_are_no_nan() -> None:
    tables = [np.log(TABLES[0]), np.full((3, 2), -np.inf), *(np.log(t) for t in TABLES[2:])]

    def total(*logs: Any) -> Any:
        return factors.FactorGraph(SIZES, list(zip(SCOPES, logs)), log=True).log_partition()

    assert jf.fuse(total, strict=True)(*tables) == -np.inf
    assert all((grad == 0).all() for grad in jf.grad(total, argnums=tuple(range(6)))(*tables))


def test_gradients_of_a_batch_are_those_of_its_models() -> None:
    weights, signs = RNG.random((5, 3)), np.array([1.0, -2.0, 0.0, 0.5, 3.0])

    def total(weights: Any, *tables: Any) -> Any:
        found = factors.FactorGraph(SIZES, list(zip(SCOPES, tables))).log_partition({1: weights})
        return (found * signs).sum()

    found = jf.grad(total, argnums=tuple(range(7)))(weights, *TABLES)
    alone = [jf.grad(lambda w, *tables: factors.FactorGraph(SIZES, list(zip(SCOPES, tables))).log_partition({1: w}),
                     argnums=tuple(range(7)))(row, *TABLES) for row in weights]
    assert np.allclose(found[0], [sign * one[0] for sign, one in zip(signs, alone)], rtol=1e-11)
    for place in range(1, 7):
        assert np.allclose(found[place], sum(sign * one[place] for sign, one in zip(signs, alone)), rtol=1e-11)


def test_one_table_of_several_factors() -> None:
    def chain(moves: Any) -> Any:
        return factors.FactorGraph([3] * 5, [((t, t + 1), moves) for t in range(4)]).log_partition()

    moves = TABLES[4]
    by_hand = jf.grad(lambda m: np.log((m @ m @ m @ m).sum()))(moves)
    assert np.allclose(jf.grad(chain)(moves), by_hand, rtol=1e-12)


def test_models_of_one_variable() -> None:
    def total(table: Any) -> Any:
        return factors.FactorGraph([3], [((0,), table)]).log_partition()

    table = np.array([0.5, 0.0, 2.0])
    assert np.isclose(jf.fuse(total, strict=True)(table), np.log(2.5), rtol=1e-15)
    assert np.allclose(jf.grad(total)(table), [0.4, 0.0, 0.4], rtol=1e-14)


def test_the_largest_product_and_semirings_of_functions_in_a_fused_function() -> None:
    cheapest = factors.Semiring("min_sum", np.minimum, np.add, np.inf, 0.0)

    def both(*tables: Any) -> Any:
        graph = factors.FactorGraph(SIZES, list(zip(SCOPES, tables)))
        return graph.partition("max"), graph.partition(cheapest)

    found = jf.fuse(both, strict=True)(*TABLES)
    assert np.allclose(found, (whole(TABLES).max(), whole(TABLES, log=True).min()), rtol=1e-12)
    grads = jf.grad(lambda *tables: both(*tables)[1], argnums=tuple(range(6)))(*TABLES)
    best = np.unravel_index(np.argmin(whole(TABLES, log=True)), SIZES)
    for scope, grad in zip(SCOPES, grads):
        assert grad.sum() == grad[tuple(best[v] for v in scope)] == 1


def _stored(plan: Plan, scaled: bool) -> dict:
    program = plan.programs.program("upward", scaled=scaled)
    specs = {step.dst: step.spec for step in program.instructions if step.dst is not None}
    return {step.args["slot"]: specs[step.args["src"]] for step in program.instructions if "slot" in step.args
            and "src" in step.args}


def _leaves(tree: object) -> list:
    return [leaf for part in tree for leaf in _leaves(part)] if isinstance(tree, list | tuple) else [tree]


@pytest.mark.parametrize(("dtype", "factor"), [(np.float64, 1e-250), (np.float64, 1e200), (np.float32, 1e-30)])
def test_gradients_of_small_and_large_multiples_keep_their_digits(dtype: Any, factor: float) -> None:
    tables = [table.astype(dtype) for table in TABLES]
    plain, scaled = (jf.grad(lambda *t, c=c: log_partition(*t) * dtype(c), argnums=(0, 3))(*tables)
                     for c in (1, factor))
    for a, b in zip(plain, scaled):
        assert b.dtype == dtype and np.allclose(b / dtype(factor), a, rtol=30 * np.finfo(dtype).eps)

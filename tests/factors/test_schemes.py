"""Ways to sum: their scores beside the orders' costs, junction trees, and programs with modes beside enumeration."""
from __future__ import annotations

from itertools import product
from math import prod
from random import Random

import numpy as np
import pytest
from factors import brute
from factors.brute import Model
from factors.ir.executor import run

from jitfuse import factors
from jitfuse.factors.emit import emit_downward_program, emit_partition_program
from jitfuse.factors.ir.dataflow import dataflow
from jitfuse.factors.ir.schema import PARTITION, AxisType, OpCode, Program, marginal
from jitfuse.factors.ir.verify import verify
from jitfuse.factors.marginals import cheapest_marginals
from jitfuse.factors.orders.cost import cost
from jitfuse.factors.orders.search import best_order
from jitfuse.factors.rewrites.free_early import working
from jitfuse.factors.rewrites.pipeline import rewritten
from jitfuse.factors.rewrites.pooling import peak
from jitfuse.factors.schemes import junction_tree, schemes_of, score_of
from jitfuse.factors.structure import Structure
from jitfuse.factors.tree import NO_PARENT, Tree, bucket_tree
from jitfuse.factors.work import MESSAGE, STEP
from tests.factors.orders.structures import chain, complete, grid, random_structure

STRUCTURES = [random_structure(seed, most=6) for seed in range(60)]


def drawn_order(structure: Structure, seed: int) -> list[int]:
    order = list(range(len(structure.sizes)))
    Random(seed).shuffle(order)
    return order


def tables_of(structure: Structure, seed: int) -> dict[int, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {f: rng.integers(0, 4, [structure.sizes[v] for v in scope]).astype(float)
            for f, scope in enumerate(structure.scopes)}


def whole_table(structure: Structure, tables: dict[int, np.ndarray]) -> np.ndarray:
    """Return the product of all tables: integers, so that every sum is exact."""
    grid = np.ogrid[tuple(slice(size) for size in structure.sizes)]
    total = np.ones(structure.sizes)
    for f, scope in enumerate(structure.scopes):
        total = total * tables[f][tuple(grid[v] for v in scope)]
    return total


@pytest.mark.parametrize("structure", [*STRUCTURES, grid(5, 6), chain(30), complete(6)])
def test_scores_are_the_costs_of_orders(structure: Structure) -> None:
    order = best_order(structure, budget=100).order
    tree = bucket_tree(structure, order)
    score, expected = score_of(structure, tree, 0), cost(structure, order)
    numbers = [*(scope for scope in structure.scopes if not scope), *tree.nodes[tree.root].children]
    products = score.work - sum(
        MESSAGE + STEP * max(1, len(node.factors) + len(node.children) - 1) for node in tree.nodes)
    cliques = sum(prod([structure.sizes[v] for v in node.clique]) for node in tree.nodes)
    assert cliques <= products <= expected.operations + max(1, len(numbers))
    assert (score.peak, score.kept) == (8 * expected.numbers, 8 * expected.kept)


@pytest.mark.parametrize("step", [0, 100, STEP, 10**9])
def test_junction_trees_are_trees_of_cliques(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jitfuse.factors.work.STEP", step)
    fewer = 0
    for seed, structure in enumerate([*STRUCTURES, grid(4, 5)]):
        for keep in ((), tuple(range(len(structure.sizes)))[:2]):
            plain = bucket_tree(structure, drawn_order(structure, seed), keep)
            tree = junction_tree(structure, plain)
            is_a_tree(structure, tree, keep)
            assert all(prod([structure.sizes[v] for v in node.eliminated]) <= 16 for node in tree.nodes
                       if len(node.eliminated) > 1)
            assert score_of(structure, tree, 0).work <= score_of(structure, plain, 0).work
            fewer += len(tree.nodes) < len(plain.nodes)
    assert fewer > 10


@pytest.mark.parametrize(("size", "arity"), [(4, 3), (2, 4)])
@pytest.mark.parametrize("seed", [0, 2, 4])
def test_merged_nodes_make_no_large_products_of_small_tensors(size: int, arity: int, seed: int) -> None:
    """Small messages over different variables: what their products take is in the programs, as time and as memory."""
    chance, count = Random(seed), 24 + 6 * (arity - 3)
    scopes = [tuple(sorted(chance.sample(range(count), arity))) for _ in range(count * 13 // 10)]
    structure = Structure((size,) * count, tuple(scopes))
    plain = bucket_tree(structure, best_order(structure, budget=300).order)
    tree, figures = junction_tree(structure, plain), []
    for each in (plain, tree):
        program = rewritten(emit_partition_program(structure, each)).program
        flow = dataflow(working(program))
        figures.append((sum(map(flow.elements, range(len(flow.steps)))), peak(program)))
    (products, most), (merged_products, merged_most) = figures
    assert len(tree.nodes) < len(plain.nodes)
    assert merged_products <= products and merged_most <= 1.2 * most


def is_a_tree(structure: Structure, tree: Tree, keep: tuple[int, ...]) -> None:
    """Fail where a variable is summed out twice or where it is still needed, or a factor or message is lost."""
    gone = [v for node in tree.nodes for v in node.eliminated]
    assert sorted([*gone, *keep]) == list(range(len(structure.sizes)))
    assert sorted(f for node in tree.nodes for f in node.factors) == list(range(len(structure.scopes)))
    assert tree.nodes[-1].parent == NO_PARENT and {*tree.nodes[-1].clique} == {*keep}
    below: list[set[int]] = []
    for place, node in enumerate(tree.nodes):
        assert node.clique[len(node.eliminated):] == node.interface
        assert all(tree.nodes[c].parent == place > c for c in node.children)
        assert node.parent == NO_PARENT or place in tree.nodes[node.parent].children
        several = {v for v in node.clique if structure.sizes[v] > 1} | {*node.eliminated}
        needed = [structure.scopes[f] for f in node.factors] + [tree.nodes[c].interface for c in node.children]
        assert all(structure.sizes[v] == 1 or v in several for scope in needed for v in scope)
        below.append({*node.eliminated}.union(*(below[c] for c in node.children)))
        assert not {*node.interface} & below[-1]


def programs(structure: Structure, tree: Tree, modes: dict[int, int]) -> tuple[Program, Program]:
    """Return the program of the partition function and that of the marginals, which is to run after it."""
    first = rewritten(emit_partition_program(structure, tree, modes)).program
    wanted = cheapest_marginals(structure, tree)
    second = rewritten(emit_downward_program(structure, tree, wanted, modes=modes)).program
    specs = {step.dst: step.spec for step in first.instructions}
    stored = {step.args["slot"]: specs[step.args["src"]] for step in first.instructions
              if step.op is OpCode.STORE_SLOT}
    for program, before in ((first, {}), (second, stored)):
        assert verify(program, factors=len(structure.scopes), selectors=len(modes), before=before) == ()
    return first, second


@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize("seed", range(0, 60, 2))
def test_modes_sum_to_the_whole(seed: int, merge: bool) -> None:
    """With modes of all states in one run, of one state in a run for each slice, and of some of both."""
    structure = STRUCTURES[seed]
    tables, chance = tables_of(structure, seed), Random(seed)
    whole = whole_table(structure, tables)
    modes = tuple(sorted(chance.sample(range(whole.ndim), min(whole.ndim, 2))))
    tree = bucket_tree(structure, drawn_order(structure, seed), modes)
    tree = junction_tree(structure, tree) if merge else tree
    for together in [set(modes), set(), set(modes[:1])]:
        sizes = {v: structure.sizes[v] if v in together else 1 for v in modes}
        first, second = programs(structure, tree, sizes)
        marginals = [np.zeros(size) for size in structure.sizes]
        total = 0.0
        for states in product(*(range(structure.sizes[v] // sizes[v]) for v in modes)):
            selectors = {number: np.eye(structure.sizes[v])[:, state : state + sizes[v]]
                         for number, (v, state) in enumerate(zip(modes, states, strict=True))}
            slots = run(second, tables, run(first, tables, {}, selectors), selectors)
            total += float(slots[PARTITION])
            for v, found in enumerate(marginals):
                if v not in modes:
                    found += slots[marginal(v)]
        assert total == whole.sum()
        for v, found in enumerate(marginals):
            if v not in modes:
                assert np.array_equal(found, whole.sum(tuple(u for u in range(whole.ndim) if u != v)))


def test_the_choice_by_scores() -> None:
    """Steps decide where tables are small, products where they are large, memory before both."""
    def best(structure: Structure, limit: int) -> list[str]:
        ordered = best_order(structure, budget=100, limit_bytes=limit)
        found = schemes_of(structure, ordered, (), limit, kept=False, every=True)
        assert [each.score for each in found] == sorted(each.score for each in found)
        return [each.name for each in found]

    assert best(grid(6, 6), 1 << 30)[0] == "junction tree"
    star = Structure((50,) * 9, tuple((0, v) for v in range(1, 9)))
    assert best(star, 1 << 30)[:2] == ["contraction", "junction tree"]  # the same tree
    assert best(grid(6, 6), 300)[0] == "conditioning"
    assert best(grid(6, 6), 1 << 30)[2] == "conditioning"
    lines = str(factors.FactorGraph([2] * 9, [((k, (k + 1) % 9), np.ones((2, 2))) for k in range(9)]).plan())
    assert "conditioning on " in lines and "junction tree: 1 x " in lines
    assert "conditioning" not in str(factors.FactorGraph([], [((), 2.0)]).plan())


def test_a_plan_that_conditions_is_a_program_with_modes() -> None:
    """What it runs slice by slice is what the graph answers."""
    rng = np.random.default_rng(5)
    structure = grid(3, 4)
    tables = {f: rng.integers(1, 4, (2, 2)).astype(float) for f in range(len(structure.scopes))}
    model = Model(dict.fromkeys(range(12), 2), [(scope, tables[f]) for f, scope in enumerate(structure.scopes)])
    graph = factors.FactorGraph(model.sizes, model.factors, limit_bytes=60)
    report, program = graph.plan(), graph.program()
    way = report.plan.schemes[0]
    assert (way.name, way.score.runs) == ("conditioning", prod(2 for _ in way.modes))
    assert verify(program, factors=len(tables), selectors=len(way.modes)) == ()
    assert any(step.op is OpCode.LOAD_SELECTOR for step in program.instructions)
    assert all(axis.size == 1 for step in program.instructions if step.spec for axis in step.spec.axes
               if axis.kind is AxisType.TOPOLOGICAL)
    total = sum(float(run(program, tables, {}, {k: np.eye(2)[:, [s]] for k, s in enumerate(states)})[PARTITION])
                for states in product(range(2), repeat=len(way.modes)))
    assert np.log(total) == pytest.approx(graph.log_partition(), rel=1e-12)
    assert np.log(total) == pytest.approx(float(brute.log_sum(brute.log_weights(model, {}))), rel=1e-12)
    lines = str(report).splitlines()
    shown = [line.split(":")[0].split(" on ")[0].strip() for line in lines[lines.index("ways, the best first:") + 1 :]]
    assert shown[0] == "conditioning" and sorted(shown) == ["conditioning", "contraction", "junction tree"]
    assert "beyond the limit" in str(report)

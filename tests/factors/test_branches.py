"""Branches that run at the same time: the same bits as one after the other, and no memory that two of them touch."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import amount
import numpy as np
import pytest
from factors.judge import findings
from factors.models import TABLES, draw_model

from jitfuse import factors
from jitfuse.factors import assembly, branches, plans
from jitfuse.factors.assembly import Assembled
from jitfuse.ir.semirings import words as w


@pytest.fixture
def everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small programs have branches, too, and small tensors parts whose extremes are found on their own."""
    monkeypatch.setattr(assembly, "PART", 4)
    monkeypatch.setattr(branches, "_SAVED_NS", -np.inf)
    monkeypatch.setattr(branches, "_LEAST_NS", 0.0)
    monkeypatch.setattr(branches, "_BRANCH_NS", 0.0)
    monkeypatch.setattr(plans, "_PLANS", type(plans._PLANS)())
    use_threads(monkeypatch, 8)


def use_threads(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(plans, "_threads", lambda: count)


def wide_tree(depth: int, seed: int = 0) -> factors.FactorGraph:
    """Return a binary tree of cliques: some tables have a hundred times as many elements as others."""
    draw = np.random.default_rng(seed)
    sizes: list[int] = []

    def new(count: int) -> list[int]:
        sizes.extend(int(n) for n in draw.integers(2, 4, size=count))
        return list(range(len(sizes) - count, len(sizes)))

    level, scopes = [new(4)], []
    for _ in range(depth):
        level = [[*map(int, draw.permutation(above)[:2]), *new(int(draw.choice([1, 6])))]
                 for above in level for _ in range(2)]
        scopes += level
    tables = [(tuple(s), draw.uniform(0.1, 1, size=[sizes[v] for v in s])) for s in scopes]
    return factors.FactorGraph(sizes, tables)


def answers(graph: factors.FactorGraph, evidence: Any = None) -> list[Any]:
    return [graph.log_partition(evidence), graph.partition("max", evidence), *graph.marginals(evidence).values()]


@pytest.mark.parametrize("table", [table.__name__ for table in TABLES])
def test_random_models(everywhere: None, table: str) -> None:
    assert not [found for n in range(amount.drawn(1)) for found in findings(draw_model(3, n, table, limit=100))]


@pytest.mark.parametrize("batch", [0, 5])
def test_threads_change_no_bit(everywhere: None, monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    for seed in range(4):
        graph = wide_tree(3, seed)
        evidence = {0: np.random.default_rng(seed).integers(2, size=batch)} if batch else None
        shared = answers(graph, evidence)
        assert all(np.array_equal(a, b) for a, b in zip(shared, answers(graph, evidence), strict=True))
        use_threads(monkeypatch, 1)
        assert all(np.array_equal(a, b) for a, b in zip(shared, answers(graph, evidence), strict=True))
        use_threads(monkeypatch, 8)


def test_wide_trees_are_shared_out_and_small_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not lists(table_of(wide_tree(2), "scaled marginals", 2))
    up, down = lists(table_of(wide_tree(8), "scaled marginals", 2))
    assert len(up) >= 2 and len(down) >= 2
    assert not lists(table_of(wide_tree(8), "scaled marginals", 1))


def test_no_branch_touches_what_another_one_writes(everywhere: None) -> None:
    seen = 0
    for seed in range(6):
        for query in ("partition", "scaled marginals"):
            for group in lists(table_of(wide_tree(4, seed), query, 8)):
                written = [[block for record in branch for block in blocks(record)[:1]] for branch in group]
                touched = [[block for record in branch for block in blocks(record)] for branch in group]
                pairs = [(a, b) for k in range(len(group)) for j in range(len(group)) if j != k
                         for a in written[k] for b in touched[j]]
                seen += len(pairs)
                assert not [pair for pair in pairs if overlap(*pair)]
    assert seen


def table_of(graph: factors.FactorGraph, query: str, threads: int) -> Assembled:
    plan = graph._plain.plan(all_messages=True)
    return plan.table(query, (False,) * len(plan.ranks), 1, threads=threads)


def records_of(code: np.ndarray) -> Iterator[np.ndarray]:
    place = 0
    while place < len(code):
        yield code[place : place + int(code[place])]
        place += int(code[place])


def lists(table: Assembled) -> list[list[list[np.ndarray]]]:
    """Return for each BRANCHES the records of each branch."""
    records, found = list(records_of(table.code)), []
    starts = np.cumsum([0, *map(len, records)]).tolist()
    for number, record in enumerate(records):
        if record[w.KIND] == w.BRANCHES:
            pairs = record[w.LISTS :].reshape(-1, 2).tolist()
            first = [starts.index(starts[number + 1] + start) for start, _ in pairs]
            found.append([records[k : k + count] for k, (_, count) in zip(first, pairs, strict=True)])
            assert sum(len(r) for branch in found[-1] for r in branch) == record[w.INSIDE]
    return found


def blocks(record: np.ndarray) -> list[tuple[int, int, int]]:
    """Return the blocks that a record writes and reads: memory, first and last element."""
    if record[w.KIND] in (w.EXTREMES, w.PARTS):
        parts, batch, count = (int(record[at]) for at in (w.UNITS, w.EXTENT, w.OFFSETS))
        sizes = [2 * parts * batch - 1, parts * batch * count - 1, parts * batch * count - 1]
    else:
        axes = record[w.AXES : w.AXES + 4 * record[w.RANK]].reshape(-1, 4)
        inner = record[w.EXTENT : w.EXTENT + 4]
        offsets = record[w.AXES + 4 * record[w.RANK] :].reshape(-1, 2).max(axis=0)
        sizes = [sum((x[0] - 1) * x[1 + k] for x in (*axes, inner)) for k in range(3)]
        sizes = [sizes[0], sizes[1] + offsets[0], sizes[2] + offsets[1]]
    return [(int(record[at]), int(record[at + 1]), int(record[at + 1] + size))
            for at, size in zip((w.OUT, w.A, w.B), sizes, strict=True)]


def overlap(a: tuple[int, int, int], b: tuple[int, int, int]) -> bool:
    return a[0] == b[0] and a[1] <= b[2] and b[1] <= a[2]

"""The best order found beside the best there is, and how it is kept."""
from __future__ import annotations

from math import log2
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jitfuse.cache import default_store
from jitfuse.factors.orders import stored
from jitfuse.factors.orders.cost import cost
from jitfuse.factors.orders.greedy import Graph, weights_of
from jitfuse.factors.orders.improve import CliqueTree, improved
from jitfuse.factors.orders.parts import Part
from jitfuse.factors.orders.reductions import Reduced
from jitfuse.factors.orders.search import best_order
from jitfuse.factors.structure import Structure
from tests.factors.orders.structures import chain, complete, cycle, grid, least_states, random_structure, tree


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JITFUSE_CACHE_DIR", str(tmp_path / "cache"))
    stored._memory.clear()


@pytest.mark.parametrize("seed", range(150))
def test_never_below_the_best_and_nearly_always_equal(seed: int) -> None:
    structure = random_structure(seed)
    found = best_order(structure)
    least = log2(least_states(structure))
    assert sorted(found.order) == list(range(len(structure.sizes))) and found.cost == cost(structure, found.order)
    assert least - 1e-9 <= found.cost.states <= least + 1e-9  # none of these 150 is missed


@pytest.mark.parametrize(("structure", "width"), [
    (Structure((), ()), 0), (Structure((), ((),)), 0), (Structure((1, 1, 1), ((0, 1, 2),)), 1),
    (Structure((2,) * 4, ()), 1), (tree(200), 2), (chain(500), 2), (cycle(40), 3), (complete(12), 12),
    (grid(1, 9), 2), (grid(2, 9), 3), *((grid(n, n), n + 1) for n in (3, 4, 5, 8, 12, 16, 20)), (grid(5, 40), 6),
])
def test_known_widths(structure: Structure, width: int) -> None:
    assert best_order(structure, budget=1000).cost.width == width


@given(st.integers(0, 10_000), st.integers(2, 40), st.integers(0, 90))
def test_orders_of_any_graph(seed: int, count: int, edges: int) -> None:
    from random import Random

    chance = Random(seed)
    scopes = tuple(tuple(sorted(chance.sample(range(count), 2))) for _ in range(edges))
    structure = Structure(tuple(chance.choice((1, 2, 3, 7)) for _ in range(count)), scopes)
    found = best_order(structure, budget=2000)
    stored._memory.clear()
    assert sorted(found.order) == list(range(count)) and found == best_order(structure, budget=2000)
    if found.candidates:
        assert found.cost.states >= found.candidates[0].states - 0.1 and found.candidates == tuple(
            sorted(found.candidates, key=lambda each: each[1:]))


def test_improvement_finds_what_greedy_rules_miss_and_keeps_a_tree() -> None:
    structure = grid(10, 10)
    part = Part(list(range(100)), list(structure.neighbours), weights_of(structure.sizes))
    order = list(range(0, 100, 2)) + list(range(1, 100, 2))
    before = part.score(order)
    after = [improved(part, order, budget=30_000, seed=seed) for seed in (0, 0, 1)]
    assert after[0] == after[1] != after[2]
    for each in after:
        assert sorted(each) == list(range(100)) and part.score(each).weight < before.weight * 0.7
        tree = CliqueTree(part, each)
        assert max(tree.heavy) == part.score(each).weight == part.score(tree.order()).weight


@pytest.mark.parametrize("seed", range(60))
def test_safe_eliminations_lose_nothing(seed: int) -> None:
    structure = random_structure(seed)
    sizes = tuple(max(2, size) for size in structure.sizes)
    structure = Structure(sizes, structure.scopes)
    weight = weights_of(sizes)
    low = max((sum(weight[v] for v in scope) for scope in structure.scopes), default=0)
    reduced = Reduced(structure.neighbours, weight, low)
    if not reduced.parts():
        assert cost(structure, reduced.first).states == pytest.approx(log2(least_states(structure)))
    assert reduced.low <= round(256 * log2(least_states(structure))) + len(sizes)


def test_a_graph_counts_missing_edges() -> None:
    assert Graph([{1, 2, 3}, {0}, {0, 3}, {0, 2}], [1, 10, 100, 1000]).fill(0) == 10 * 100 + 10 * 1000


def test_an_order_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    structure = grid(6, 6)
    found = best_order(structure)
    monkeypatch.setattr("jitfuse.factors.orders.search._search", None)
    assert best_order(structure) == found
    stored._memory.clear()
    assert best_order(structure) == found  # from the folder
    with pytest.raises(TypeError):
        best_order(structure, budget=7)


@pytest.mark.parametrize("code", [
    b"", b"\xc1", b"\x00", b"\xff" * 9, b"\x80", b"\x81\xa5order\x93\x00\x01\x01", b"\x81\xa5order\xcb" + b"\x00" * 8,
    b"\x81\xa5order\x93\x00\x01\x02", b"\x82\xa5order\x93\x00\x01\x02\xaacandidates\x91\x01",
    b"\x82\xa5order\x93\x00\x01\xc3\xaacandidates\x90",
])
def test_what_is_no_order_is_found_anew(code: bytes) -> None:
    structure = Structure((2, 2, 2), ((0, 1), (1, 2), (0, 2)))
    found = best_order(structure)
    [path] = Path(default_store().read_folders()[0]).glob("*.jfc")
    entry = default_store().load(path.stem, None)
    assert entry is not None and entry.canonical == stored.canonical_form(structure)
    default_store().store(entry._replace(code=code))
    stored._memory.clear()
    assert best_order(structure) == found


def test_a_damaged_file_is_a_miss_and_no_folder_is_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    structure = grid(3, 4)
    found = best_order(structure)
    [path] = Path(default_store().read_folders()[0]).glob("*.jfc")
    path.write_bytes(path.read_bytes()[:-3])
    stored._memory.clear()
    with pytest.warns(UserWarning, match="damaged"):
        assert best_order(structure) == found
    monkeypatch.setenv("JITFUSE_CACHE_DIR", "/proc/none")
    stored._memory.clear()
    with pytest.warns(UserWarning):
        assert best_order(structure) == found

"""Of several most probable states the lowest, beside enumeration: tables of few values, so that there are many ties."""
from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest
from factors import brute
from factors.brute import Model

from jitfuse import factors
from jitfuse.factors import given


def draw(seed: int, values: tuple[float, ...]) -> Model:
    """Return a model of up to seven variables, in no order, with ones of one state and unused ones."""
    chance, rng = Random(seed), np.random.default_rng(seed)
    names = [f"x{k}" for k in range(chance.randint(1, 7))]
    sizes = {name: chance.choice((1, 2, 2, 3)) for name in names}
    scopes = [tuple(chance.sample(names, chance.randint(0, min(3, len(names))))) for _ in range(chance.randint(0, 9))]
    return Model(sizes, [(scope, rng.choice(values, [sizes[v] for v in scope])) for scope in scopes])


def exact(model: Model) -> tuple[dict[str, int], float]:
    """Return the first of the states with the largest product, in integers: NumPy's argmax takes it."""
    total = np.ones(tuple(model.sizes.values()), object)
    grid = brute.grid_of(model)
    for scope, table in model.factors:
        total = total * brute.values_of(table, [grid[v] for v in scope]).astype(np.int64).astype(object)
    best = total.max()
    place = np.unravel_index(next(i for i, value in enumerate(total.ravel()) if value == best), total.shape)
    return dict(zip(model.sizes, map(int, place))), float(best)  # type: ignore[arg-type]


@pytest.mark.parametrize("values", [(1.0, 2.0), (1.0, 2.0, 3.0, 6.0), (0.0, 1.0), (0.0, 2.0, 3.0, 4.0, 6.0, 12.0)])
def test_the_lowest_of_many(values: tuple[float, ...]) -> None:
    """2 times 3 is 6 times 1, but for rounding."""
    for seed in range(80):
        model = draw(seed, values)
        graph = factors.FactorGraph(model.sizes, model.factors)
        expected, value = exact(model)
        if value == 0:
            with pytest.raises(factors.ModelError):
                graph.map()
            continue
        states, log = graph.map()
        assert states == expected, seed
        assert log == pytest.approx(np.log(value), abs=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_the_lowest_of_slices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    edges = [(k, k + 1) for k in range(11) if k % 4 != 3] + [(k, k + 4) for k in range(8)]
    model = Model(dict.fromkeys(range(12), 2), [(edge, rng.choice((1.0, 2.0), (2, 2))) for edge in edges])
    graph = factors.FactorGraph(model.sizes, model.factors, limit_bytes=130)
    assert graph._plain.modes(all_messages=True)
    assert graph.map()[0] == exact(model)[0]


def test_the_lowest_with_evidence_from_a_compiled_program() -> None:
    rng = np.random.default_rng(3)
    sites = dict.fromkeys(product(range(3), repeat=2), 2)
    edges = [(a, b) for a in sites for b in sites if b in ((a[0] + 1, a[1]), (a[0], a[1] + 1))]
    model = Model(dict(sites), [(edge, np.array([[3, 1], [1, 3]])[:, :: rng.choice((1, -1))]) for edge in edges])
    graph = factors.FactorGraph(model.sizes, model.factors)
    assert graph.map()[0] == exact(model)[0]
    for site, state in [((1, 1), 1), ((0, 0), 1), ((2, 0), 0)]:
        observed = Model(model.sizes, [*model.factors, ((site,), np.arange(2) == state)])
        assert graph.map({site: state})[0] == exact(observed)[0]


def test_equal_states_of_many_variables() -> None:
    """2^120 states, all of the same product but for the last variable's: the lowest is 0, ..., 0, 1."""
    n = 120
    chain = [((k, k + 1), np.full((2, 2), 0.1)) for k in range(n - 1)]
    assert factors.FactorGraph([2] * n, [*chain, ((n - 1,), [1.0, 1.5])]).map()[0] == {**dict.fromkeys(range(n), 0),
                                                                                      n - 1: 1}
    differ = [((k, k + 1), np.array([[1.0, 3.0], [3.0, 1.0]])) for k in range(n - 1)]
    assert factors.FactorGraph([2] * n, differ).map()[0] == {k: k % 2 for k in range(n)}


def test_one_table_of_many_factors() -> None:
    """What is fixed for one variable is fixed for no other whose factor has the same array."""
    table = np.array([[1.0, 2.0], [2.0, 1.0]])
    edges = [(0, 3), (3, 1), (1, 4), (4, 2), (2, 5)]
    for flip in range(6):
        model = Model(dict.fromkeys(range(6), 2), [(edge, table) for edge in edges] + [((flip, (flip + 1) % 6), table)])
        assert factors.FactorGraph(model.sizes, model.factors).map()[0] == exact(model)[0]


def test_nothing_is_decided_again_without_a_tie(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given, "lowest", None)
    graph = factors.FactorGraph([2, 3], [((0, 1), [[1.0, 5.0, 2.0], [3.0, 4.0, 4.5]])])
    assert graph.map()[0] == {0: 0, 1: 1}
    almost = factors.FactorGraph([2], [((0,), [1.0, 1.0 + 1e-12])])
    assert almost.map()[0] == {0: 1}
    with pytest.raises(TypeError):
        factors.FactorGraph([2], [((0,), [1.0, 1.0])]).map()

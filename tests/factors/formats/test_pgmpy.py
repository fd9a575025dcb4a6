"""Models of pgmpy, and the networks in its wheel as pgmpy reads them. pgmpy is in no extra: run by hand."""
from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jitfuse.errors import ModelError
from jitfuse.factors.formats import bif, objects, uai
from jitfuse.factors.formats.model import Model

pgmpy: Any = pytest.importorskip("pgmpy", reason="pgmpy is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")
NETWORKS = sorted((Path(pgmpy.__file__).parent / "utils" / "example_models").glob("*.bif.gz"))


def same(left: Model, right: Model) -> None:
    """Assert that two models have equal variables and states, and equal factors in any order."""
    assert dict(left.sizes) == dict(right.sizes)
    assert dict(left.states) == dict(right.states)
    tables = dict(right.factors)
    assert len(left.factors) == len(right.factors) == len(tables)
    for scope, table in left.factors:
        np.testing.assert_array_equal(table, tables[scope])


@pytest.mark.parametrize("path", NETWORKS, ids=lambda path: path.name.partition(".")[0])
def test_networks(path: Path, tmp_path: Path) -> None:
    from pgmpy.readwrite import BIFReader

    ours = bif.read_model(path)
    theirs = BIFReader(string=gzip.decompress(path.read_bytes()).decode())
    assert {name: tuple(states) for name, states in theirs.variable_states.items()} == ours.states
    assert ours.sizes == {name: len(states) for name, states in theirs.variable_states.items()}
    assert len(ours.factors) == len(theirs.variable_cpds)
    for (*parents, child), table in ours.factors:
        assert theirs.variable_parents[child] == parents
        columns = table.reshape(-1, table.shape[-1]).T
        np.testing.assert_array_equal(columns, theirs.variable_cpds[child])
    bif.write_model(tmp_path / "again.bif.gz", ours)
    same(bif.read_model(tmp_path / "again.bif.gz"), ours)
    uai.write_model(tmp_path / "again.uai", ours, "BAYES")
    for (_, table), (_, again) in zip(ours.factors, uai.read_model(tmp_path / "again.uai").factors, strict=True):
        np.testing.assert_array_equal(table, again)


def by_hand() -> tuple[Any, Model]:
    """Return a Bayesian network of pgmpy and the same as a model; one table has its states in another order."""
    from pgmpy.factors.discrete import TabularCPD
    from pgmpy.models import DiscreteBayesianNetwork

    network = DiscreteBayesianNetwork([("a", "c"), ("b", "c")])
    names = {"a": ["x", "y"], "b": ["u", "v", "w"], "c": ["no", "yes"]}
    rows = np.arange(1, 7) / 10
    turned = np.stack([rows, 1 - rows])  # columns run over (b, a), with b's states as w, v, u
    network.add_cpds(
        TabularCPD("a", 2, [[0.2], [0.8]], state_names={"a": names["a"]}),
        TabularCPD("b", 3, [[0.1], [0.2], [0.7]], state_names={"b": names["b"]}),
        TabularCPD("c", 2, turned, ["b", "a"], [3, 2], {**names, "b": ["w", "v", "u"]}),
    )
    table = np.stack([rows.reshape(3, 2)[::-1], 1 - rows.reshape(3, 2)[::-1]], -1)
    factors = ((("a",), np.array([0.2, 0.8])), (("b",), np.array([0.1, 0.2, 0.7])), (("b", "a", "c"), table))
    return network, Model({"a": 2, "c": 2, "b": 3}, factors, {name: tuple(found) for name, found in names.items()}, {})


def test_bayesian_network() -> None:
    network, model = by_hand()
    same(objects.from_pgmpy(network), model)


def joint(model: Model) -> np.ndarray:
    """Return the product of all factors, axes in the order of the sorted names."""
    names = sorted(model.sizes)
    operands: list[Any] = []
    for scope, table in model.factors:
        operands += [table, [names.index(variable) for variable in scope]]
    return np.asarray(np.einsum(*operands, list(range(len(names)))))


def test_other_models() -> None:
    from pgmpy.factors.discrete import DiscreteFactor
    from pgmpy.models import DiscreteMarkovNetwork

    network = DiscreteMarkovNetwork([("a", "b"), ("b", "c")])
    rng = np.random.default_rng(0)
    network.add_factors(
        DiscreteFactor(["b", "a"], [3, 2], rng.random(6)), DiscreteFactor(["b", "c"], [3, 2], rng.random(6)),
    )
    model = objects.from_pgmpy(network)
    assert list(model.sizes) == ["a", "b", "c"]
    assert [scope for scope, _ in model.factors] == [("b", "a"), ("b", "c")]
    for other in (network.to_factor_graph(), network.to_junction_tree()):
        np.testing.assert_allclose(joint(objects.from_pgmpy(other)), joint(model), rtol=1e-12)
    alone = network.to_factor_graph()
    alone.add_node("d")
    with pytest.raises(ModelError, match="variable 'd' has no factor"):
        objects.from_pgmpy(alone)


def test_errors() -> None:
    from pgmpy.factors.continuous import LinearGaussianCPD
    from pgmpy.models import DiscreteBayesianNetwork, LinearGaussianBayesianNetwork

    with pytest.raises(ModelError, match="variable 'a' has no distribution"):
        objects.from_pgmpy(DiscreteBayesianNetwork([("a", "b")]))
    continuous = LinearGaussianBayesianNetwork([("a", "b")])
    continuous.add_cpds(LinearGaussianCPD("a", [1], 4))
    with pytest.raises(ModelError, match="LinearGaussianCPD: only discrete models"):
        objects.from_pgmpy(continuous)

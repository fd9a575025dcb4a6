"""A small Bayesian network with answers known by hand: "Asia" of S. Lauritzen and D. Spiegelhalter (1988)."""
from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from factors import brute
from factors.brute import Model

import jitfuse as jf
from jitfuse import factors
from jitfuse.errors import ModelError

NO_YES = ["asia", "tub", "smoke", "lung", "bronc", "either", "xray", "dysp"]
ASIA: list[tuple[tuple[str, ...], object]] = [
    (("asia",), [0.99, 0.01]),
    (("asia", "tub"), [[0.99, 0.01], [0.95, 0.05]]),
    (("smoke",), [0.5, 0.5]),
    (("smoke", "lung"), [[0.99, 0.01], [0.9, 0.1]]),
    (("smoke", "bronc"), [[0.7, 0.3], [0.4, 0.6]]),
    (("tub", "lung", "either"), [[[1, 0], [0, 1]], [[0, 1], [0, 1]]]),
    (("either", "xray"), [[0.95, 0.05], [0.02, 0.98]]),
    (("bronc", "either", "dysp"), [[[0.9, 0.1], [0.3, 0.7]], [[0.2, 0.8], [0.1, 0.9]]]),
]
"""State 0 is no, state 1 is yes; the last variable is conditioned on those before it."""
MODEL = Model(dict.fromkeys(NO_YES, 2), list(ASIA))


def asia() -> factors.FactorGraph:
    return factors.FactorGraph(dict.fromkeys(NO_YES, 2), ASIA)


def test_the_published_marginals() -> None:
    """To four digits as in the paper: tuberculosis 0.0104, lung cancer 0.055, bronchitis 0.45, dyspnoea 0.4360."""
    assert asia().log_partition() == pytest.approx(0, abs=1e-14)
    published = {"tub": 0.0104, "lung": 0.055, "bronc": 0.45, "either": 0.064828, "xray": 0.110290, "dysp": 0.435971}
    found = asia().marginals()
    assert {name: round(float(found[name][1]), 6) for name in published} == published


def test_the_published_posterior() -> None:
    """A visit to Asia and dyspnoea: tuberculosis 0.0878, lung cancer 0.0995, bronchitis 0.8114."""
    found = asia().marginals({"asia": 1, "dysp": 1})
    assert [round(float(found[name][1]), 4) for name in ("tub", "lung", "bronc")] == [0.0878, 0.0995, 0.8114]


def test_states_by_name() -> None:
    named = factors.FactorGraph(dict.fromkeys(NO_YES, 2), ASIA, states=dict.fromkeys(NO_YES, ("no", "yes")))
    numbers, names = asia().marginals({"asia": 1, "dysp": 1}), named.marginals({"asia": "yes", "dysp": "yes"})
    assert all(np.array_equal(numbers[name], names[name]) for name in NO_YES)
    assert np.array_equal(named.log_partition({"xray": ["no", "yes", "no"]}), asia().log_partition({"xray": [0, 1, 0]}))
    fixed = factors.FactorGraph(named.sizes, ASIA, states=named.states, evidence={"smoke": "yes"})
    assert fixed.log_partition() == pytest.approx(asia().log_partition({"smoke": 1}), rel=1e-14)
    with pytest.raises(ModelError, match="no state 'maybe'; its states are no, yes"):
        named.marginals({"asia": "maybe"})
    with pytest.raises(ModelError, match="have no names"):
        asia().marginals({"asia": "yes"})


@pytest.mark.parametrize("states", [{"x": ("a", "b")}, {"asia": "no"}, {"asia": ("no",)}, {"asia": ("no", "no")},
                                    {"asia": (0, 1)}], ids=str)
def test_names_of_states_that_do_not_fit(states: Any) -> None:
    with pytest.raises(ModelError, match="names"):
        factors.FactorGraph(dict.fromkeys(NO_YES, 2), ASIA, states=states)


def test_every_pair_of_findings() -> None:
    graph = asia()
    for (a, b), states in product(combinations(NO_YES, 2), product((0, 1), repeat=2)):
        evidence = dict(zip((a, b), states, strict=True))
        weights = brute.log_weights(MODEL, evidence)
        if np.all(weights == -np.inf):
            assert graph.log_partition(evidence) == -np.inf
            continue
        assert graph.log_partition(evidence) == pytest.approx(float(brute.log_sum(weights)), abs=1e-12)
        found = graph.marginals(evidence)
        assert all(np.allclose(found[name], brute.joint(MODEL, weights, [name]).astype(float)) for name in NO_YES)
        assert graph.map(evidence)[1] == pytest.approx(float(weights.max()), abs=1e-12)


@pytest.mark.parametrize("evidence", [{"tub": 1, "either": 0}, {"lung": 1, "either": 0}, {"lung": [0.0, 0.0]}])
def test_impossible_findings(evidence: dict[str, object]) -> None:
    graph = asia()
    assert graph.log_partition(evidence) == -np.inf
    assert graph.partition("satisfiability", evidence) is False
    with pytest.raises(jf.errors.ModelError):
        graph.marginals(evidence)
    assert graph.log_partition() == pytest.approx(0, abs=1e-14)


def test_a_soft_finding_of_evens_changes_nothing_and_one_of_certainty_is_hard() -> None:
    graph = asia()
    plain, even = graph.marginals(), graph.marginals({"xray": [0.3, 0.3]})
    assert all(np.allclose(plain[name], even[name], atol=1e-15) for name in NO_YES)
    hard, certain = graph.marginals({"xray": 1}), graph.marginals({"xray": np.array([0.0, 7.0])})
    assert all(np.allclose(hard[name], certain[name], atol=1e-15) for name in NO_YES)


def test_joint_chances_in_the_order_asked_for() -> None:
    weights = brute.log_weights(MODEL, {})
    for names in [("dysp", "asia"), ("lung", "smoke", "xray"), ("smoke", "lung"), ("bronc", "tub", "dysp", "asia")]:
        assert np.allclose(asia().marginal(*names), brute.joint(MODEL, weights, names).astype(float), atol=1e-15)


def test_samples() -> None:
    n = 50000
    drawn, again = asia().sample(n, jf.random.key(1)), asia().sample(n, jf.random.key(1))
    assert all(np.array_equal(drawn[name], again[name]) for name in NO_YES)
    other = asia().sample(n, jf.random.key(2))
    assert any(not np.array_equal(drawn[name], other[name]) for name in NO_YES)
    cells = np.bincount(np.ravel_multi_index([np.asarray(drawn[name]) for name in NO_YES], (2,) * 8), minlength=256)
    expected = n * np.exp(brute.log_weights(MODEL, {})).astype(float).ravel()
    assert not np.any(cells[expected == 0])
    likely = expected > 5
    statistic = np.sum((cells[likely] - expected[likely]) ** 2 / expected[likely])
    assert statistic < likely.sum() + 6 * np.sqrt(2 * likely.sum())

"""Hidden Markov models against factor graphs of the same chain, and against sums in plain NumPy."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse.factors import HiddenMarkovModel, ModelError

KINDS = ("random", "zeros", "logs", "wide logs", "far apart", "tiny", "one way")


def drawn(kind: str, steps: int, states: int) -> tuple[HiddenMarkovModel, np.ndarray]:
    """Return a model and likelihoods of one kind."""
    draw = np.random.default_rng([len(kind), steps, states])
    initial, moves = draw.dirichlet(np.ones(states)), draw.dirichlet(np.ones(states), size=states)
    seen = draw.random((steps, states))
    if kind == "zeros":
        moves[draw.random(moves.shape) < 0.4] = 0.0
        moves += 0.1 * np.eye(states)
        seen[draw.random(seen.shape) < 0.2] = 0.0
        seen[:, 0] = 0.5
        initial[0] = 0.5
    elif kind == "far apart":
        seen = np.where(draw.random(seen.shape) < 0.5, 1e-280, 1.0)
    elif kind == "tiny":
        seen *= 1e-300
    elif kind == "one way":  # what is lost can never come back, and is all that counts in the end
        moves = np.eye(states)
        seen = np.full((steps, states), 1e-20)
        seen[:, 0] = 1.0
        seen[-1] = 0.0
        seen[-1, -1] = 1.0
    if kind.endswith("logs"):
        scores = np.log(seen) if kind == "logs" else draw.normal(size=seen.shape) * 2000
        with np.errstate(divide="ignore"):
            return HiddenMarkovModel(np.log(initial), np.log(moves), log=True), scores
    return HiddenMarkovModel(initial, moves), seen


def passes(model: HiddenMarkovModel, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Return filter, smoother, log likelihood and the log of the best path, by logs in NumPy."""
    with np.errstate(divide="ignore"):
        first, moves, logs = (x if model.log else np.log(x) for x in (model.initial, model.transition, seen))
    ahead, best, behind = [first + logs[0]], first + logs[0], [np.zeros(model.states)]
    for now in logs[1:]:
        ahead.append(np.logaddexp.reduce(ahead[-1][:, None] + moves, axis=0) + now)
        best = (best[:, None] + moves).max(axis=0) + now
    for now in logs[:0:-1]:
        behind.append(np.logaddexp.reduce(moves + now + behind[-1], axis=1))
    total = float(np.logaddexp.reduce(ahead[-1]))
    filtered = [row - np.logaddexp.reduce(row) for row in ahead]
    smoothed = [row + back - total for row, back in zip(ahead, behind[::-1])]
    return np.exp(filtered), np.exp(smoothed), total, float(best.max())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("steps", "states"), [(1, 1), (1, 3), (2, 2), (5, 1), (7, 4), (40, 5), (33, 17)])
def test_against_numpy(kind: str, steps: int, states: int) -> None:
    model, seen = drawn(kind, steps, states)
    filtered, smoothed, total, best = passes(model, seen)
    assert model.log_likelihood(seen) == pytest.approx(total, rel=1e-11, abs=1e-11)
    np.testing.assert_allclose(model.filter(seen), filtered, rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(model.smooth(seen), smoothed, rtol=1e-9, atol=1e-13)
    path, value = model.decode(seen)
    assert value == pytest.approx(best, rel=1e-11, abs=1e-11)
    assert path_log(model, seen, path) == pytest.approx(best, rel=1e-11, abs=1e-11)


def path_log(model: HiddenMarkovModel, seen: np.ndarray, path: np.ndarray) -> float:
    """Return the log of the probability of states and what was seen."""
    with np.errstate(divide="ignore"):
        first, moves, logs = (x if model.log else np.log(x) for x in (model.initial, model.transition, seen))
    return float(first[path[0]] + moves[path[:-1], path[1:]].sum() + logs[np.arange(len(seen)), path].sum())


@pytest.mark.parametrize("kind", ["random", "zeros", "wide logs"])
def test_is_the_factor_graph(kind: str) -> None:
    model, seen = drawn(kind, 6, 3)
    graph = model.graph(6)
    evidence = {t: np.exp(row - row.max()) if model.log else row for t, row in enumerate(seen)}
    shift = seen.max(axis=1).sum() if model.log else 0.0
    if kind != "wide logs":  # whose weights underflow
        assert model.log_likelihood(seen) == pytest.approx(float(graph.log_partition(evidence)) + shift, rel=1e-12)
        np.testing.assert_allclose(model.smooth(seen), np.array(list(graph.marginals(evidence).values())), rtol=1e-9)


def test_lowest_states_of_equal_paths() -> None:
    model = HiddenMarkovModel([1.0, 1.0, 1.0], np.ones((3, 3)))
    path, value = model.decode(np.ones((5, 3)))
    assert path.tolist() == [0] * 5
    assert value == 0.0


def test_batches_are_sequences_on_their_own() -> None:
    model, _ = drawn("random", 1, 4)
    seen = np.random.default_rng(0).random((3, 6, 4))
    for name in ("log_likelihood", "filter", "smooth"):
        query: Any = getattr(model, name)
        np.testing.assert_array_equal(query(seen), np.array([query(one) for one in seen]))
    paths, values = model.decode(seen)
    assert paths.shape == (3, 6)
    assert values.tolist() == [model.decode(one)[1] for one in seen]


def test_gradients_are_expected_moves() -> None:
    model, seen = drawn("random", 6, 3)
    logs = np.log(seen)

    def likelihood(moves: Any, logs: Any) -> Any:
        return HiddenMarkovModel(np.log(model.initial), moves, log=True).log_likelihood(logs)

    moves = np.log(model.transition)
    by_moves, by_logs = jf.grad(likelihood, (0, 1))(moves, logs)
    np.testing.assert_allclose(by_logs, model.smooth(seen), rtol=1e-9)
    small = 1e-6
    for place in np.ndindex(3, 3):
        step = np.zeros((3, 3))
        step[place] = small
        high, low = (likelihood(moves + sign * step, logs) for sign in (1, -1))
        assert by_moves[place] == pytest.approx((high - low) / (2 * small), rel=1e-6)


def test_fused_batches() -> None:
    model, _ = drawn("random", 1, 4)
    seen = np.random.default_rng(1).random((3, 6, 4))
    fused = jf.fuse(model.log_likelihood)
    np.testing.assert_allclose(fused(seen), model.log_likelihood(seen), rtol=1e-12)
    np.testing.assert_allclose(fused(seen[0]), model.log_likelihood(seen[0]), rtol=1e-12)


@pytest.mark.parametrize("log", [False, True])
def test_what_is_impossible(log: bool) -> None:
    model, seen = drawn("logs" if log else "random", 4, 3)
    seen[2] = -np.inf if log else 0.0
    assert model.log_likelihood(seen) == -np.inf
    for query in (model.filter, model.smooth, model.decode):
        with pytest.raises(ModelError, match="positive probability"):
            query(seen)


def test_mistakes() -> None:
    with pytest.raises(ModelError, match=r"`transition` \(2, 3\)"):
        HiddenMarkovModel([0.5, 0.5], np.ones((2, 3)))
    with pytest.raises(ModelError, match="`transition` has a negative value"):
        HiddenMarkovModel([0.5, 0.5], -np.ones((2, 2)))
    model = HiddenMarkovModel([0.5, 0.5], np.ones((2, 2)))
    with pytest.raises(ModelError, match=r"give \[steps, 2\]"):
        model.filter(np.ones((4, 3)))
    with pytest.raises(ModelError, match="of one step at least"):
        model.filter(np.ones((0, 2)))
    with pytest.raises(ModelError, match="NaN"):
        model.smooth(np.full((4, 2), np.nan))
    with pytest.warns(jf.FallbackWarning, match="call it outside of fused functions"):
        jf.fuse(model.smooth)(np.ones((4, 2)))

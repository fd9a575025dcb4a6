"""Hidden Markov models as factor graphs against forward-backward and Viterbi recursions in plain NumPy."""
from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import jitfuse as jf
from jitfuse import factors


class Hidden(NamedTuple):
    """A hidden Markov model: first state, moves [from, to], symbols [state, symbol], and what was seen."""

    first: np.ndarray
    moves: np.ndarray
    symbols: np.ndarray
    seen: np.ndarray


def draw_hidden(steps: int, states: int, seed: int, zeros: bool = False) -> Hidden:
    draw = np.random.default_rng(seed)
    first, moves = (draw.dirichlet(np.ones(states), size=rows) for rows in (1, states))
    symbols = draw.dirichlet(np.ones(4), size=states)
    if zeros:
        moves *= draw.uniform(size=moves.shape) < 0.6
        moves += 0.1 * np.eye(states)
        moves /= moves.sum(axis=1, keepdims=True)
    return Hidden(first[0], moves, symbols, draw.integers(4, size=steps))


def graph_of(model: Hidden) -> factors.FactorGraph:
    """Return the chain with symbols as variables: x are states, y are symbols."""
    steps, states = len(model.seen), len(model.first)
    sizes = {("x", t): states for t in range(steps)} | {("y", t): 4 for t in range(steps)}
    chain = [((("x", t), ("x", t + 1)), model.moves) for t in range(steps - 1)]
    return factors.FactorGraph(sizes, [((("x", 0),), model.first), *chain, *(
        ((("x", t), ("y", t)), model.symbols) for t in range(steps))])


def seen_of(model: Hidden) -> dict[tuple[str, int], int]:
    return {("y", t): int(symbol) for t, symbol in enumerate(model.seen)}


def forward_backward(model: Hidden) -> tuple[float, np.ndarray]:
    """Return the log likelihood and the chances of each state at each step, by scaled recursions."""
    ahead, total = [], 0.0
    for t, symbol in enumerate(model.seen):
        now = (model.first if t == 0 else ahead[-1] @ model.moves) * model.symbols[:, symbol]
        total += np.log(now.sum())
        ahead.append(now / now.sum())
    behind = [np.ones(len(model.first))]
    for symbol in model.seen[:0:-1]:
        back = model.moves @ (model.symbols[:, symbol] * behind[-1])
        behind.append(back / back.sum())
    chances = np.array(ahead) * np.array(behind[::-1])
    return float(total), chances / chances.sum(axis=1, keepdims=True)


def viterbi(model: Hidden) -> tuple[list[int], float]:
    with np.errstate(divide="ignore"):
        moves, symbols, best = np.log(model.moves), np.log(model.symbols), np.log(model.first)
    best, pointers = best + symbols[:, model.seen[0]], []
    for symbol in model.seen[1:]:
        reached = best[:, None] + moves
        pointers.append(reached.argmax(axis=0))
        best = reached.max(axis=0) + symbols[:, symbol]
    path = [int(best.argmax())]
    for pointer in reversed(pointers):
        path.append(int(pointer[path[-1]]))
    return path[::-1], float(best.max())


@pytest.mark.parametrize(("steps", "states", "zeros"), [(1, 3, False), (2, 2, True), (50, 8, False), (50, 6, True)])
def test_likelihood_marginals_and_path(steps: int, states: int, zeros: bool) -> None:
    model = draw_hidden(steps, states, seed=steps + states, zeros=zeros)
    graph, evidence = graph_of(model), seen_of(model)
    likelihood, chances = forward_backward(model)
    assert graph.log_partition(evidence) == pytest.approx(likelihood, rel=1e-12)
    assert graph.partition("log", evidence) == pytest.approx(likelihood, rel=1e-12)
    assert graph.log_partition() == pytest.approx(0, abs=1e-11)
    found = graph.marginals(evidence)
    assert np.allclose([found["x", t] for t in range(steps)], chances, rtol=1e-10, atol=1e-13)
    assert all(found["y", t][symbol] == pytest.approx(1) for t, symbol in enumerate(model.seen))
    path, value = viterbi(model)
    assignment, best = graph.map(evidence)
    assert best == pytest.approx(value, rel=1e-12)
    assert [assignment["x", t] for t in range(steps)] == path
    assert all(assignment["y", t] == symbol for t, symbol in enumerate(model.seen))


def test_other_evidence_in_the_same_graph() -> None:
    states = 4
    model = draw_hidden(30, states, seed=5)
    graph = graph_of(model)
    for seed in range(5):
        other = model._replace(seen=np.random.default_rng(seed).integers(4, size=30))
        assert graph.log_partition(seen_of(other)) == pytest.approx(forward_backward(other)[0], rel=1e-12)
    fewer = {("y", t): s for (_, t), s in seen_of(model).items() if t % 2}
    halved = graph.log_partition({**fewer, ("x", 3): [0.5] * states})
    assert halved == pytest.approx(graph.log_partition(fewer) + np.log(0.5))


def test_the_chances_of_two_neighbours() -> None:
    model = draw_hidden(12, 3, seed=9)
    expected = np.linalg.matrix_power(model.moves.T, 6) @ model.first
    found = np.asarray(graph_of(model).marginal(("x", 7), ("x", 6)))
    assert np.allclose(found, (expected[:, None] * model.moves).T, atol=1e-13)


def test_samples_have_the_chain_s_frequencies() -> None:
    model = draw_hidden(5, 3, seed=2, zeros=True)
    drawn = graph_of(model).sample(40000, jf.random.key(3))
    pairs = np.zeros((3, 3))
    np.add.at(pairs, (np.asarray(drawn["x", 2]), np.asarray(drawn["x", 3])), 1)
    expected = 40000 * (np.linalg.matrix_power(model.moves.T, 2) @ model.first)[:, None] * model.moves
    assert not np.any(pairs[expected == 0])
    kept = expected > 0
    assert np.sum((pairs[kept] - expected[kept]) ** 2 / expected[kept]) < 40  # of at most 8 degrees: chance 3e-6

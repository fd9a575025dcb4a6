"""Hidden Markov models with many steps: filter, smoother and Viterbi beside hmmlearn and jax.lax.scan, warm.

usage: factor_hmm.py [--steps T] [--states K] [--symbols S] [--rounds R]

What was seen differs in each round; the likelihoods of states are looked up in each call, as hmmlearn does. hmmlearn's
`score`, `predict_proba` and `predict` and a scan of jax in float64 compute the same, the likelihood by a filter too;
results are compared. Systems take turns in one process; a row has the least of the rounds in milliseconds.
"""
from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from jitfuse import factors

TASKS = ("likelihood", "smoother", "viterbi")
Seen = np.ndarray
System = dict[str, Callable[[Seen], Any]]


class Hidden:
    """A hidden Markov model by chances: of the first state, of moves [from, to], of symbols [state, symbol]."""

    def __init__(self, states: int, symbols: int) -> None:
        draw = np.random.default_rng(1)
        self.first = draw.dirichlet(np.ones(states))
        self.moves = draw.dirichlet(np.ones(states), size=states)
        self.symbols = draw.dirichlet(np.ones(symbols), size=states)


def ours(model: Hidden) -> System:
    chain = factors.HiddenMarkovModel(model.first, model.moves)

    def likelihoods(seen: Seen) -> np.ndarray:
        return np.ascontiguousarray(model.symbols.T)[seen]

    return {
        "likelihood": lambda seen: chain.log_likelihood(likelihoods(seen)),
        "smoother": lambda seen: chain.smooth(likelihoods(seen)),
        "viterbi": lambda seen: chain.decode(likelihoods(seen))[0],
    }


def with_hmmlearn(model: Hidden) -> System:
    from hmmlearn import hmm

    theirs = hmm.CategoricalHMM(n_components=len(model.first), implementation="scaling")
    theirs.startprob_, theirs.transmat_, theirs.emissionprob_ = model.first, model.moves, model.symbols
    theirs.n_features = model.symbols.shape[1]
    return {
        "likelihood": lambda seen: theirs.score(seen[:, None]),
        "smoother": lambda seen: theirs.predict_proba(seen[:, None]),
        "viterbi": lambda seen: theirs.predict(seen[:, None]),
    }


def with_jax(model: Hidden) -> System:
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp

    first, moves, symbols = map(jnp.asarray, (model.first, model.moves, model.symbols))
    log_moves = jnp.log(moves)

    def forward(seen: Any) -> tuple[Any, Any]:
        def step(before: Any, likelihood: Any) -> tuple[Any, Any]:
            now = before @ moves * likelihood
            return now / now.sum(), (now / now.sum(), jnp.log(now.sum()))

        start = first * symbols[:, seen[0]]
        _, (ahead, logs) = jax.lax.scan(step, start / start.sum(), symbols.T[seen[1:]])
        return jnp.concatenate([(start / start.sum())[None], ahead]), jnp.log(start.sum()) + logs.sum()

    def smoother(seen: Any) -> Any:
        ahead, _ = forward(seen)

        def step(after: Any, likelihood: Any) -> tuple[Any, Any]:
            now = moves @ (likelihood * after)
            return now / now.sum(), now / now.sum()

        ones = jnp.ones(len(first))
        _, behind = jax.lax.scan(step, ones, symbols.T[seen[1:]], reverse=True)
        chances = ahead * jnp.concatenate([behind, ones[None]])
        return chances / chances.sum(axis=1, keepdims=True)

    def viterbi(seen: Any) -> Any:
        def step(best: Any, likelihood: Any) -> tuple[Any, Any]:
            reached = best[:, None] + log_moves
            return reached.max(axis=0) + likelihood, reached.argmax(axis=0)

        last, pointers = jax.lax.scan(step, jnp.log(first * symbols[:, seen[0]]), jnp.log(symbols.T[seen[1:]]))
        end = last.argmax()
        _, path = jax.lax.scan(lambda state, pointer: (pointer[state], pointer[state]), end, pointers, reverse=True)
        return jnp.append(path, end)

    compiled = {"likelihood": jax.jit(lambda seen: forward(seen)[1]), "smoother": jax.jit(smoother),
                "viterbi": jax.jit(viterbi)}
    return {task: lambda seen, call=call: np.asarray(call(seen)) for task, call in compiled.items()}


def agree(model: Hidden, task: str, seen: Seen, a: Any, b: Any) -> bool:
    """Return whether two results are the same; paths are the same where their likelihoods are."""
    if task != "viterbi":
        return bool(np.allclose(a, b, rtol=1e-9, atol=1e-9))
    moves, symbols = np.log(model.moves), np.log(model.symbols)
    values = [math.log(model.first[p[0]]) + moves[p[:-1], p[1:]].sum() + symbols[p, seen].sum() for p in (a, b)]
    return math.isclose(*values, rel_tol=1e-12)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--states", type=int, default=64)
    parser.add_argument("--symbols", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    model = Hidden(options.states, options.symbols)
    systems: dict[str, System] = {"jitfuse": ours(model)}
    for name, make in (("hmmlearn", with_hmmlearn), ("jax", with_jax)):
        try:
            systems[name] = make(model)
        except ImportError as error:
            print(error)
    behind = 0
    for task in TASKS:
        seen = np.random.default_rng(0).integers(options.symbols, size=options.steps)
        results, least = {}, dict.fromkeys(systems, math.inf)
        for name, system in systems.items():
            began = time.perf_counter()
            results[name] = system[task](seen)
            print(f"  {task}, first call of {name}: {time.perf_counter() - began:.2f} s", flush=True)
        for round_ in range(options.rounds):
            other = np.random.default_rng(round_ + 1).integers(options.symbols, size=options.steps)
            for name, system in systems.items():
                began = time.perf_counter()
                system[task](other)
                least[name] = min(least[name], time.perf_counter() - began)
        for name, seconds in least.items():
            same = agree(model, task, seen, results["jitfuse"], results[name])
            ratio = seconds / least["jitfuse"]
            print(f"{task:10} {name:9} {1e3 * seconds:10.1f} ms  {ratio:6.2f} of ours{'' if same else '  DIFFERS'}")
            behind += not same or ratio < 1
    return int(behind > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

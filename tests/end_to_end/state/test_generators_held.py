"""Generators that calls move on, and what else holds them: objects, other generators, functions, threads."""
from __future__ import annotations

import copy
import functools
import pickle
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pytest
from amount import PATIENCE
from generator_calls import Model, X, alone, same, told

import jitfuse as jf

HELD = np.random.default_rng(7)

@pytest.fixture(autouse=True)
def global_rng_state() -> Iterator[None]:
    before = np.random.get_state()
    yield
    np.random.set_state(before)


class Pair(NamedTuple):
    rng: Any
    x: Any


# ---------------------------------------------------------------- what else holds a generator
def draws_both(model: Any, rng: Any, x: Any) -> Any:
    return model.rng.random(3), rng.random(3), model.rng is rng, x


def asks(model: Any, rng: Any, x: Any) -> Any:
    y = rng.random(3)
    return (y, 1.0) if model.rng is rng else (y + x[:3], 2.0)


def keeps(model: Any, rng: Any, x: Any) -> Any:
    if model.rng is None:
        model.rng = rng
    return x + model.rng.random(6)


def swaps(model: Any, rng: Any, x: Any) -> Any:
    old, model.rng = model.rng, rng
    return old.random(2), rng.random(2)


def of_globals(model: Any, rng: Any, x: Any) -> Any:
    return rng.random(2), HELD is rng, rng == HELD, {rng: 1}.get(HELD)


@pytest.mark.parametrize("function", [draws_both, asks, keeps, swaps, of_globals])
def test_generators_that_objects_and_globals_hold(function: Callable[..., Any]) -> None:
    """They may be the one that is an argument: Python runs."""
    def one() -> list[Any]:
        HELD.bit_generator.state = np.random.default_rng(7).bit_generator.state
        return [Model(HELD), HELD]

    same(function, one, plain=True)
    if function is not of_globals:
        same(function, lambda: [Model(np.random.default_rng(1)), np.random.default_rng(2)], plain=True)


def in_turns(a: Any, b: Any, x: Any) -> Any:
    return a.random(3), b.random(3), a.normal(size=1), b.normal(size=1), np.random.rand(2), x


def test_generators_that_share_bits() -> None:
    """A draw from one moves the other on."""
    def pair(of: Any, bits: Any) -> Callable[[], list[Any]]:
        def make() -> list[Any]:
            shared = bits(1)
            return [of[0](shared), of[1](shared)]
        return make

    generator, legacy = np.random.Generator, np.random.RandomState
    same(in_turns, pair((generator, generator), np.random.PCG64), plain=None)
    same(in_turns, pair((legacy, legacy), np.random.MT19937), plain=None)
    same(in_turns, pair((legacy, generator), np.random.MT19937), plain=None)
    global_generator: Any = np.random.mtrand._rand
    same(in_turns, lambda: [global_generator, global_generator])
    same(in_turns, lambda: [global_generator, legacy(np.random.get_bit_generator())], plain=None)
    same(lambda g, b, x: (g.random(2), b.random_raw(), g.random(2)),
         lambda: (lambda g: [g, g.bit_generator])(np.random.default_rng(3)), plain=None)
    same(lambda g, draw, x: (g.random(2), draw(size=2), g.random(2)),
         lambda: (lambda g: [g, functools.partial(g.normal, 1.0)])(np.random.default_rng(3)), plain=None)


def test_generators_in_named_tuples() -> None:
    def make() -> list[Any]:
        g = np.random.default_rng(3)
        return [Pair(g, X), g]

    same(lambda pair, rng, x: (pair.rng.random(3) + pair.x[:3], rng.random(2), pair.rng is rng), make)


@functools.lru_cache
def cached_draw(rng: Any) -> Any:
    return rng.random(3)


@pytest.mark.parametrize("function", [
    lambda g, x: (copy.deepcopy(g).random(3), g.random(3)), lambda g, x: (copy.copy(g).random(3), g.random(2)),
    lambda g, x: (pickle.loads(pickle.dumps(g)).random(3), g.random(2)), lambda g, x: (str(g)[:9], g.random(2)),
    lambda g, x: (type(g).__name__, type(g) is np.random.Generator, g.__class__ is type(g), g.random(2)),
    lambda g, x: (hasattr(g, "integers"), hasattr(g, "randint"), g.random(2)),
    lambda g, x: (f"{g!r}"[:9], g.random(2)), lambda g, x: (g.random(2), setattr(g, "name", 3)),
    lambda g, x: [r.random(2) for r in [g, g]], lambda g, x: list(map(g.random, [1, 2])),
    lambda g, x: (g, g.random(2)), lambda g, x: {"x": g.random(2), "g": g}, lambda g, x: x + 1,
    lambda g, x: (np.random.default_rng(g).random(3), np.random.default_rng(g.integers(9)).random(2), g.random())
    if isinstance(g, np.random.Generator) else g.rand(2),
    lambda g, x: jf.fori_loop(0, 3, lambda i, c: c + g.random(6), x),
    lambda g, x: jf.cond(x.sum() > 0, lambda: g.random(6), lambda: x),
    lambda g, x: (g.shuffle(x), x), lambda g, x: x[int(10 * g.random()) % 6],
    lambda g, x: sum(g.random() for _ in range(1 + int(3 * g.random()))) + x, lambda g, x: (cached_draw(g), x),
])
@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_what_functions_ask_of_a_generator(function: Callable[..., Any], make: Any) -> None:
    same(function, alone(lambda: make(4)), plain=None, calls=4)


def test_classes_are_what_python_says() -> None:
    def function(x: Any) -> Any:
        return x + 1, type(x) is np.ndarray, x.__class__ is np.ndarray, type(x) in (list, np.ndarray), str(type(x)), {
            np.ndarray: 1}[type(x)], np.ndarray is np.ndarray, id(np.ndarray) == id(type(x)), type(x) is list

    fused = jf.fuse(function)
    for _ in range(3):
        assert told(fused(X)) == told(function(X))
    assert fused.stats()["fallbacks"] == 0


# ---------------------------------------------------------------- threads and looking inside
def test_threads_share_a_generator() -> None:
    """Fused and plain draws in several threads give each number once."""
    rng, again, x = np.random.default_rng(1), np.random.default_rng(1), np.zeros(8)
    fused, found = jf.fuse(lambda g, x: g.random(x.shape[0])), []

    def draw() -> None:
        for _ in range(20):
            found.extend(fused(rng, x).tolist())
            found.extend(rng.random(4).tolist())

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(found) == sorted(again.random(4 * 20 * 12).tolist())


def test_locks_are_free_while_code_of_the_users_runs() -> None:
    """Two generators in both orders, and a thread that the function waits for, which draws from its generator."""
    a, b, held = np.random.default_rng(1), np.random.default_rng(2), HELD

    def function(p: Any, q: Any, x: Any) -> Any:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: held.random()).result()
        return p.random(6) + q.random(6) + x

    fused = jf.fuse(function)

    def draw(p: Any, q: Any) -> None:
        for _ in range(30):
            fused(p, q, X)

    with warnings.catch_warnings(action="ignore"):
        pairs = [(a, b), (b, a), (held, a)]
        threads = [threading.Thread(target=draw, args=pair, daemon=True) for pair in pairs]
        for t in threads:
            t.start()
        for t in threads:
            t.join(PATIENCE)
    assert not any(t.is_alive() for t in threads)
    with a.bit_generator.lock:
        fused(a, b, X)


def test_looking_inside_draws_nothing() -> None:
    def function(model: Any, rng: Any, x: Any) -> Any:
        model.w = model.w + np.random.rand(6) * rng.random()
        return model.w * x

    fused, model, rng = jf.fuse(function), Model(), np.random.default_rng(1)
    before = told([model, rng, np.random.mtrand._rand])
    assert len(fused.program(model, rng, X).steps) > 3
    assert "generator_draw" in fused.explain(model, rng, X)
    fused.warm(model, rng, X)
    assert told([model, rng, np.random.mtrand._rand]) == before
    assert "generator" in jf.fuse(lambda x: x + np.random.rand(6)).export(X)


def test_an_exchanged_generator_behind_np_random_seed() -> None:
    fused, before = jf.fuse(lambda x: x + np.random.rand(6)), np.random.get_bit_generator()
    np.random.seed(1)
    want = X + np.random.rand(6)
    np.random.seed(1)
    np.testing.assert_array_equal(fused(X), want)
    try:
        with warnings.catch_warnings(action="ignore"):
            np.random.set_bit_generator(np.random.PCG64(1))
            got = fused(X)
            np.random.set_bit_generator(np.random.PCG64(1))
            np.testing.assert_array_equal(got, X + np.random.rand(6))
    finally:
        np.random.set_bit_generator(before)

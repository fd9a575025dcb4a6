"""Generators that outlive a call: arguments, and the one behind np.random.seed. Calls move them on as NumPy does."""
from __future__ import annotations

import copy
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from oracle import same

import jitfuse as jf

X = np.random.default_rng(0).random(6)


@pytest.fixture(autouse=True)
def global_rng_state() -> Iterator[None]:
    before = np.random.get_state()
    yield
    np.random.set_state(before)


def state() -> Any:
    return [np.asarray(part).tolist() for part in np.random.get_state()]


def same_of_global_rng(function: Callable[..., Any], *arguments: Any, fallbacks: int = 0) -> Any:
    """Fused draws NumPy's numbers and leaves NumPy's state, call by call, with draws of others in between."""
    fused = jf.fuse(function)
    np.random.seed(5)
    want = [(function(*copy.deepcopy(arguments)), state(), np.random.rand()) for _ in range(4)]
    np.random.seed(5)
    for expected, after, between in want:
        same(fused(*copy.deepcopy(arguments)), expected)
        assert state() == after
        assert np.random.rand() == between
    assert fused.stats()["fallbacks"] == fallbacks
    return fused


def legacy(x: Any) -> Any:
    y = np.random.rand(3) + np.random.uniform(0, 2, 3) * np.random.randn()
    order = np.random.permutation(6)
    np.random.shuffle(x)
    return y, x[order], np.random.randint(0, 9, 4), np.random.choice(x, 2), np.random.ranf(), np.random.sample(2)


def seeded(x: Any, seed: int) -> Any:
    np.random.seed(seed)
    return x * np.random.normal(size=6), np.random.standard_normal(3)


def test_the_functions_of_np_random() -> None:
    same_of_global_rng(legacy, X)


def test_a_seed_is_a_run_time_value_and_stays_set() -> None:
    fused = same_of_global_rng(seeded, X, 3)
    for seed in (4, 5):
        want, after = seeded(X, seed), state()
        same(fused(X, seed), want)
        assert state() == after
    assert fused.stats()["traces"] == 1


def test_draws_on_some_paths_alone() -> None:
    """What is drawn depends on data; a call that draws nothing moves nothing on."""
    def function(x: Any) -> Any:
        if x.sum() > 2:
            return x + np.random.rand(6)
        total = 0.0
        while x.max() > 0.1:
            x = x * np.random.uniform(0.2, 0.9)
            total = total + x.max()
        return x, total

    fused = jf.fuse(function)
    for scale in (1, 0.1, 0, 0.3, 2, 0.3, 1):
        np.random.seed(7)
        want, after = function(X * scale), state()
        np.random.seed(7)
        same(fused(X * scale), want)
        assert state() == after


def test_errors_and_plain_python_move_it_on_too() -> None:
    def raising(x: Any, at: int) -> Any:
        y = np.random.rand(3)
        if y[0] < 2:
            raise ValueError("now")
        return y[at]

    def opaque(x: Any) -> Any:
        return x * np.random.bytes(1)[0] + inner(x)

    @jf.fuse
    def inner(x: Any) -> Any:
        return x + np.random.rand(6)

    for function, arguments in ((raising, (X, 1)), (opaque, (X,)), (legacy, (X.copy(),))):
        np.random.seed(3)
        fused = jf.fuse(function)
        for _ in range(3):
            before = np.random.get_state()
            results = []
            for call in (function, fused):
                np.random.set_state(before)
                with warnings.catch_warnings(action="ignore"):
                    try:
                        results.append((call(*copy.deepcopy(arguments)), state()))
                    except ValueError as error:
                        results.append((str(error), state()))
            same(results[1], results[0])


def test_threads_take_turns() -> None:
    fused = jf.fuse(lambda n: np.random.rand(n))
    fused(8)
    np.random.seed(1)
    want = sorted(np.random.rand(8 * 40).tolist())
    np.random.seed(1)
    found: list[float] = []

    def draw() -> None:
        for _ in range(10):
            found.extend(fused(8).tolist())

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(found) == want


# ---------------------------------------------------------------- arguments
def walk(rng: Any, x: Any) -> Any:
    return np.cumsum(rng.normal(size=6)) + x, rng.uniform(), rng.choice(x, 3), rng.permutation(4)


def mixed(a: Any, b: Any, options: Any) -> Any:
    rng = options["rng"]
    return a.random(2) + b.random(2) + rng.random(2), a is b, a is rng, isinstance(a, np.random.Generator)


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_a_generator_as_an_argument(make: Any) -> None:
    plain, given, fused = make(3), make(3), jf.fuse(walk)
    for _ in range(4):
        same(fused(given, X), walk(plain, X))
        assert given.random() == plain.random()
    same(fused(make(9), X), walk(make(9), X))
    assert fused.stats()["fallbacks"] == 0
    assert fused.stats()["traces"] == 1


def test_one_generator_that_is_given_twice() -> None:
    fused = jf.fuse(mixed)
    for which in ((0, 0, 0), (0, 1, 2), (0, 1, 0), (0, 0, 0), (0, 1, 1)):
        results = []
        for call in (mixed, fused):
            made = [np.random.default_rng(k) for k in range(3)]
            with warnings.catch_warnings(action="ignore"):
                value = call(made[which[0]], made[which[1]], {"rng": made[which[2]]})
            results.append((value, [g.random() for g in made]))
        same(results[1], results[0])


def test_beside_a_tensor_and_in_objects() -> None:
    torch = pytest.importorskip("torch")

    def noisy(x: Any, rng: Any) -> Any:
        return x + float(rng.random())

    class Model:
        def __init__(self, rng: Any) -> None:
            self.rng = rng

        def step(self, x: Any) -> Any:
            return x + self.rng.random(6)

    def model(rng: Any, x: Any) -> Any:
        made = Model(rng)
        return made.step(made.step(x))

    plain, given = np.random.default_rng(1), np.random.default_rng(1)
    fused, of_model = jf.fuse(noisy), jf.fuse(model)
    for _ in range(4):
        with warnings.catch_warnings(action="ignore"):
            assert torch.equal(fused(torch.ones(3), given), noisy(torch.ones(3), plain))
        same(of_model(given, X), model(plain, X))
    assert given.random() == plain.random()
    assert of_model.stats()["fallbacks"] == 0


def test_what_is_left_to_python() -> None:
    """Other bit generators, generators that are returned or kept, and what they have beside draws."""
    kept: list[Any] = []

    def keep(rng: Any, x: Any) -> Any:
        kept.append(rng)
        return x + rng.random(6)

    def back(rng: Any, x: Any) -> Any:
        return rng, x + rng.random(6)

    def peek(rng: Any, x: Any) -> Any:
        rng.random()
        return x + float(str(rng.bit_generator.state).count("a"))

    for function in (walk, keep, back, peek):
        for bits in (np.random.PCG64, np.random.Philox):
            plain, given = np.random.Generator(bits(2)), np.random.Generator(bits(2))
            fused = jf.fuse(function)
            for _ in range(4):
                with warnings.catch_warnings(action="ignore"):
                    got, want = fused(given, X), function(plain, X)
                if function is back:
                    assert got[0] is given
                    got, want = got[1], want[1]
                same(got, want)
                assert given.random() == plain.random()
            if function is keep:
                assert kept[0] is given
                kept.clear()

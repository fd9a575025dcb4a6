"""Trees as tables of the native driver under threads, signals and forks, and where a function starts over."""
from __future__ import annotations

import os
import signal
from typing import Any

import numpy as np
import pytest
from native_trees import halving, native
from oracle import same

import jitfuse as jf

pytestmark = pytest.mark.usefixtures("natively")


def test_threads(in_threads: Any) -> None:
    def f(x):
        while x.sum() > 2:
            x = x * 0.5
        return x if x[0] > x[1] else x[::-1]

    fused = jf.fuse(f)

    def call(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(300):
            x = rng.random(2) * 2.0 ** rng.integers(0, 30)
            same(fused(x), f(x))

    in_threads(6, call)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
def test_an_endless_loop_can_be_interrupted() -> None:
    def f(x):
        while x.sum() > 2:
            x = x * 1.0 - 0.5 * (x > 5)
        return x

    fused = jf.fuse(f)
    x = np.array([0.5, 1.0, 0.0])
    for _ in range(3):
        same(fused(x), x)

    class StopError(Exception):
        pass

    def stop(*_: Any) -> None:
        raise StopError

    before = signal.signal(signal.SIGALRM, stop)
    try:
        for _ in range(3):
            with pytest.raises(StopError):
                signal.setitimer(signal.ITIMER_REAL, 0.2)
                fused(np.array([2.0, 2.0, 2.0]))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    same(fused(x), x)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forks() -> None:
    x = np.array([3.0, 4])
    fused = native(halving, (x, 1.0), (x * 100, 1.0))
    child = os.fork()
    if child == 0:
        good = all(np.array_equal(fused(x * k, 1.0), halving(x * k, 1.0)) for k in (1, 50, 1e-9))
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_giving_up_leaves_the_tables() -> None:
    def f(x):
        while x.sum() > 5:
            x = x * 0.5
        return x + len(range(int(x[0] * 4)))

    fused = jf.fuse(f)
    with pytest.warns(jf.FallbackWarning, match="more than 8"):
        for k in range(30):
            x = np.array([k * 0.25, 0.5])
            same(fused(x), f(x))
    fallbacks = fused.stats()["fallbacks"]
    assert fallbacks > 0
    same(fused(np.zeros(2)), np.zeros(2))
    assert fused.stats()["fallbacks"] == fallbacks + 1


@pytest.mark.parametrize(("subgraphs", "states"), [(2, 40), (6, 1)])
def test_starting_over(monkeypatch: pytest.MonkeyPatch, subgraphs: int, states: int) -> None:
    monkeypatch.setattr("jitfuse.graph_breaks.limits.STATES", states)

    def f(x):
        if x.shape[0] == 9:
            return x
        while x.sum() > 4:
            x = x * 0.5
        return x * 2 if x[0] > 1 else x

    fused = jf.fuse(f, budget=jf.Budget(subgraphs=subgraphs, seconds=1e6))
    for _ in range(4):
        for n in (1, 2, 3, 9):
            for k in range(4):
                x = np.arange(n) * 2.0**k
                same(fused(x), f(x))
                same(fused(x.astype(np.float32)), f(x.astype(np.float32)))

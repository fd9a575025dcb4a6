"""Training and evaluation: one trace, no compile after each mode's first call, reproducible dropout."""
from __future__ import annotations

from typing import Any

import numpy as np

import jitfuse as jf
from jitfuse.backends.llvm.runtime import native


def test_flipping_a_thousand_times() -> None:
    @jf.fuse
    def f(x: Any, training: bool = False) -> Any:
        h = jf.nn.dropout(np.tanh(x) * 2, 0.25)
        if training:
            h = h + 1
        return h, h.sum(axis=1)

    @jf.fuse
    def without(x: Any) -> Any:
        h = np.tanh(x) * 2
        return h, h.sum(axis=1)

    x = np.random.default_rng(0).standard_normal((50, 40))
    f(x, training=True), f(x)
    before = f.stats()
    expected = without(x)
    drawn = set()
    for k in range(1000):
        h, s = f(x, training=k % 2 == 0)
        if k % 2:
            np.testing.assert_array_equal(h, expected[0])
            np.testing.assert_array_equal(s, expected[1])
        else:
            drawn.add(h.tobytes())
    after = f.stats()
    assert after["traces"] == before["traces"] == 1
    assert {k: after[k] for k in ("compiles", "cache_hits", "cache_misses", "fallbacks")} == {
        k: before[k] for k in ("compiles", "cache_hits", "cache_misses", "fallbacks")
    }
    assert len(drawn) == 500


def test_dropout_is_reproducible_and_independent_of_threads() -> None:
    @jf.fuse(training=True)
    def f(x: Any) -> Any:
        return jf.nn.dropout(x, 0.3), jf.nn.dropout(x, 0.5) + jf.random.uniform(x.shape)

    x = np.ones((300, 500))
    runtime = native.runtime()
    before, results = runtime.threads, []
    try:
        for threads in (1, 2, 5):
            runtime.set_threads(threads)
            jf.random.seed(7)
            results.append([*f(x), *f(x)])
    finally:
        runtime.set_threads(before)
    for other in results[1:]:
        for a, b in zip(other, results[0], strict=True):
            np.testing.assert_array_equal(a, b)
    first, second = results[0][0], results[0][2]
    assert not np.array_equal(first, second)
    assert abs(np.mean(first == 0) - 0.3) < 0.01
    assert set(np.unique(first)) == {0.0, 1 / (1 - 0.3)}


def test_disabled_draws_the_same_numbers(monkeypatch: Any) -> None:
    def f(x: Any) -> Any:
        return jf.nn.dropout(x, 0.3, training=True)

    x = np.ones((30, 50))
    jf.random.seed(3)
    fused = jf.fuse(f)(x)
    monkeypatch.setenv("JITFUSE_DISABLE", "1")
    jf.random.seed(3)
    np.testing.assert_array_equal(jf.fuse(f)(x), fused)

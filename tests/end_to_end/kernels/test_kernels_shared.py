"""One kernel for every shape and scalar of its class; changed Python state gives new results."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitfuse as jf

OFFSET = 1.0
TABLE = np.arange(3.0)


def test_launches() -> None:
    def layer_norm(x: Any, g: Any, b: Any) -> Any:
        mean, var = np.mean(x, axis=-1, keepdims=True), np.var(x, axis=-1, keepdims=True)
        return (x - mean) / np.sqrt(var + 1e-5) * g + b

    def written_softmax(x: Any) -> Any:
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def image(x: Any, gain: Any, bias: Any, gamma: Any) -> Any:
        mean, var = np.mean(x, axis=(2, 3), keepdims=True), np.var(x, axis=(2, 3), keepdims=True)
        return np.clip((x - mean) / np.sqrt(var + 1e-5) * gain + bias, 0.0, 1.0) ** gamma

    x, c = np.random.default_rng(0).random((40, 300)), np.ones((3, 1, 1), "float32")
    frames = np.random.default_rng(1).random((3, 3, 400, 500), dtype="float32")
    for function, args, launches in (
        (lambda x, b: np.sin(x) * x + b, (x, 1.0), 1),
        (lambda x: jf.softmax(x, axis=-1), (x,), 1),
        (lambda x: jf.softmax(x * 2 + 1, axis=0), (x,), 1),
        (written_softmax, (x,), 1),
        (layer_norm, (x, np.ones(300), np.zeros(300)), 1),
        (lambda x: (x + 1, x * 2, np.sqrt(x).sum(axis=1)), (x,), 1),
        (image, (frames, c, c, 2.2), 3),
    ):
        fused = jf.fuse(function)
        result, expected = fused(*args), function(*args)
        for a, e in zip(*(r if isinstance(r, tuple) else (r,) for r in (result, expected)), strict=True):
            np.testing.assert_allclose(a, e, rtol=1e-4 if e.dtype == np.float32 else 1e-12, atol=1e-6)
        assert fused.stats()["launches"] <= launches, function
        assert fused.stats()["fallbacks"] == 0


def test_sixty_shapes_compile_once() -> None:
    rng = np.random.default_rng(2)

    def plain(x: Any, y: Any) -> Any:
        return np.exp(x - y.max(axis=-1, keepdims=True)) * y.T.sum(axis=0)[:, None] + 1

    f = jf.fuse(plain)
    for k in range(60):
        n, m = (int(v) for v in rng.integers(5, 300, 2))
        x, y = rng.random((n, m)), rng.random((n, m))
        np.testing.assert_allclose(f(x, y), plain(x, y), rtol=1e-11)
        if k == 0:
            first = f.stats()["compiles"] + f.stats()["cache_hits"]
    stats = f.stats()
    assert stats["compiles"] + stats["cache_hits"] == first, stats
    assert stats["traces"] <= 60


def test_sixty_scalars_trace_once() -> None:
    @jf.fuse
    def f(x: Any, a: Any, b: Any) -> Any:
        return x * a + b * 2 - a

    x = np.random.default_rng(3).random(100)
    for k in range(60):
        a, b = k * 0.37 - 5, float(k)
        np.testing.assert_array_equal(f(x, a, b), x * a + b * 2 - a)
    f(x, 1.0, 1.0), f(x, 0.0, -0.0), f(x, 2.0, 2.0)
    assert f.stats()["traces"] == 1 and f.stats()["compiles"] <= 1
    for k in range(60):
        np.testing.assert_array_equal(f(x, k, np.float64(k)), x * k + np.float64(k) * 2 - k)
    assert f.stats()["traces"] == 2


def test_a_changed_global_gives_a_new_result(monkeypatch: pytest.MonkeyPatch) -> None:
    @jf.fuse
    def f(x: Any) -> Any:
        return x * OFFSET + TABLE

    x = np.ones(3)
    for value in (1.0, 2.0, 5.0):
        monkeypatch.setitem(globals(), "OFFSET", value)
        monkeypatch.setitem(globals(), "TABLE", np.full(3, value))
        np.testing.assert_array_equal(f(x), np.full(3, 2 * value))
    TABLE[1] = 50
    np.testing.assert_array_equal(f(x), x * OFFSET + TABLE)
    assert f.stats()["traces"] == 1


def test_a_changed_closure_gives_a_new_result() -> None:
    number, array = 1.0, np.arange(4.0)

    @jf.fuse
    def f(x: Any) -> Any:
        return x * number + array

    x = np.ones(4)
    for k in range(5):
        number = k * 1.5
        array = array + 1
        np.testing.assert_array_equal(f(x), number + array)
    array[2] = -1
    np.testing.assert_array_equal(f(x), number + array)
    assert f.stats()["traces"] == 1

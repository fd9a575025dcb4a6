"""State outside the arguments: what changes between calls is seen, and numbers and arrays compile nothing new."""
from __future__ import annotations

import functools
import types
from typing import Any

import numpy as np
import pytest

import jitfuse as jf

X = np.array([1.0, 2.0, 3.0])

K = 3.0
A = np.arange(3.0)
CONFIG = types.SimpleNamespace(lr=0.5)
TABLE: dict[str, Any] = {"lr": 2.0, "nested": [1.0, {"deep": 4.0}]}
PARAMETERS = {"w": np.ones(3), "b": np.zeros(3)}


def helper(x: Any) -> Any:
    return x * K


MODULE = types.SimpleNamespace(helper=lambda x: helper(x) + 1)
SCALED = functools.partial(lambda x, by: x * by, by=2.0)


def plain(x: Any) -> Any:
    import numpy

    total = 0
    for name, value in PARAMETERS.items():
        total = total + value * len(name)
    deep = TABLE["nested"][1]["deep"]
    return helper(x) + CONFIG.lr + TABLE["lr"] * deep + A + numpy.sum(x) + total + MODULE.helper(x) + SCALED(x)


@pytest.fixture
def fused() -> Any:
    f = jf.fuse(plain)
    np.testing.assert_array_equal(f(X), plain(X))
    return f


def numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CONFIG, "lr", 7.0)
    monkeypatch.setitem(TABLE, "lr", 9.0)
    monkeypatch.setitem(TABLE["nested"][1], "deep", 11.0)
    monkeypatch.setitem(globals(), "K", 5.0)


def arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "A", A + 10)
    monkeypatch.setitem(PARAMETERS, "w", np.full(3, 100.0))
    PARAMETERS["b"][1] += 1


def functions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "helper", lambda x: x * K + 1)
    monkeypatch.setattr(MODULE, "helper", lambda x: x - 1)


def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PARAMETERS, "more", np.ones(3))


def order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "PARAMETERS", dict(reversed(PARAMETERS.items())))


def partials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "SCALED", functools.partial(lambda x, by: x / by, by=2.0))


@pytest.mark.parametrize(
    ("change", "retraces"),
    [(numbers, 0), (arrays, 0), (functions, 1), (keys, 1), (order, 1), (partials, 1)],
    ids=lambda v: getattr(v, "__name__", str(v)),
)
def test_a_change_is_seen(change: Any, retraces: int, fused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fused.stats()
    change(monkeypatch)
    np.testing.assert_array_equal(fused(X), plain(X))
    after = fused.stats()
    assert after["traces"] - before["traces"] == retraces and after["fallbacks"] == 0
    if not retraces:
        assert after["compiles"] + after["cache_hits"] == before["compiles"] + before["cache_hits"]


def test_closure_cells_and_defaults() -> None:
    scale, weights = 2.0, np.ones(3)

    def f(x: Any, shift: float = 1.0) -> Any:
        return x * scale + weights + shift

    fused = jf.fuse(f)
    np.testing.assert_array_equal(fused(X), f(X))
    scale, weights = 3.0, np.full(3, 5.0)
    np.testing.assert_array_equal(fused(X), f(X))
    f.__defaults__ = (9.0,)
    np.testing.assert_array_equal(fused(X), f(X))
    assert fused.stats()["fallbacks"] == 0


def test_dtype_and_shape_of_what_is_captured_may_change() -> None:
    box = {"v": np.arange(3.0)}
    fused = jf.fuse(lambda x: x + box["v"])
    for value in (np.arange(3, dtype=np.float32), np.float64(2), 3, True, np.ones((2, 3)), np.arange(6.0)[::2]):
        box["v"] = value
        got, want = fused(X), X + value
        np.testing.assert_array_equal(got, want)
        assert got.dtype == want.dtype


def test_writes_to_globals_are_real() -> None:
    namespace: dict[str, Any] = {"np": np, "seen": None}
    exec("def f(x):\n    global seen\n    seen = 'written'\n    return np.sin(x)", namespace)
    jf.fuse(namespace["f"])(X)
    assert namespace["seen"] == "written"

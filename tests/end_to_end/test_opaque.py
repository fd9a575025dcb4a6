"""Code and objects that tracing does not know run for real: each call gives what plain Python gives at that moment."""
from __future__ import annotations

import collections
import configparser
import io
import logging
import math
import multiprocessing
import os
import queue
import threading
import types
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.optimize
import scipy.signal
import scipy.sparse
import scipy.sparse.linalg
import scipy.stats

import jitfuse as jf

pytestmark = pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
X = np.arange(4.0) + 0.5


def follows(function: Callable[..., Any], change: Callable[[int], Any], *args: Any) -> jf.FusedFunction[..., Any]:
    """Compare three calls with plain Python's, with a change before each of the later two."""
    fused = jf.fuse(function)
    for k in range(3):
        np.testing.assert_array_equal(fused(*args), function(*args))
        change(k)
    return fused


class Settings:
    def __init__(self) -> None:
        self.start = np.datetime64("2020-01-02")


class WithArray:
    def __init__(self) -> None:
        self.values = np.arange(4.0)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.values


def first(held: Any, k: int) -> None:
    """Change the first item."""
    held[0] = k + 5.0


def under_k(held: Any, k: int) -> None:
    """Change the item under a key."""
    held["k"] = k + 5.0


def views() -> tuple[Any, dict[str, float]]:
    """Return a dict's values, and the dict."""
    held = {"k": 1.0}
    return held.values(), held


Function, Change = Callable[[Any, Any], Any], Callable[[Any, int], Any]
MADE: dict[str, tuple[Callable[[], Any], Function, Change]] = {
    "event": (threading.Event, lambda x, o: x if o.is_set() else -x, lambda o, k: o.set()),
    "queue": (queue.Queue, lambda x, o: x * o.qsize(), lambda o, k: o.put(k)),
    "logger": (lambda: logging.getLogger("jitfuse"), lambda x, o: x * o.level, lambda o, k: o.setLevel(10 * k + 10)),
    "UserDict": (lambda: collections.UserDict(k=1.0), lambda x, o: x * o["k"], under_k),
    "length of a UserDict": (
        lambda: collections.UserDict(k=1.0), lambda x, o: x * len(o), lambda o, k: o.update({k: 1}),
    ),
    "ChainMap": (lambda: collections.ChainMap({"k": 1.0}), lambda x, o: x * o["k"], under_k),
    "parser": (
        lambda: configparser.ConfigParser({"k": "1"}), lambda x, o: x * o.getfloat("DEFAULT", "k"),
        lambda o, k: o.set("DEFAULT", "k", str(k + 5)),
    ),
    "shared value": (
        lambda: multiprocessing.Value("d", 1.0), lambda x, o: x * o.value, lambda o, k: setattr(o, "value", k + 5.0),
    ),
    "buffer": (
        lambda: bytearray(np.ones(4).tobytes()), lambda x, o: x + np.frombuffer(o),
        lambda o, k: first(np.frombuffer(o), k),
    ),
    "memoryview": (lambda: memoryview(np.arange(4.0)), lambda x, o: x + np.asarray(o), first),
    "file": (lambda: io.BytesIO(bytes(9)), lambda x, o: x * o.tell(), lambda o, k: o.read(1)),
    "values of a dict": (views, lambda x, o: x * sum(o[0]), lambda o, k: under_k(o[1], k)),
    "object with __array__": (WithArray, lambda x, o: x + np.asarray(o), lambda o, k: first(o.values, k)),
    "sparse matrix": (
        lambda: scipy.sparse.eye_array(4, format="csr"), lambda x, o: o @ x, lambda o, k: first(o.data, k),
    ),
    "dictionary of keys": (
        lambda: scipy.sparse.dok_array((4, 4)), lambda x, o: o @ x + x, lambda o, k: o.__setitem__((0, k), 2.0),
    ),
    "spline": (
        lambda: scipy.interpolate.CubicSpline(np.arange(6.0), np.arange(6.0) ** 2), lambda x, o: o(x) * 2,
        lambda o, k: first(o.c[0], k),
    ),
    "polynomial": (lambda: np.poly1d([1.0, 2.0]), lambda x, o: o(x) + 1, first),
    "date": (
        Settings, lambda x, o: x * (o.start - np.datetime64("2020-01-01")).astype(int),
        lambda o, k: setattr(o, "start", np.datetime64("2020-02-01") + k),
    ),
    "record": (
        lambda: np.array([(1.0, 2)], [("k", "f8"), ("b", "i4")])[0], lambda x, o: x * float(o["k"]), under_k,
    ),
    "namespace": (lambda: types.SimpleNamespace(k=1.0), lambda x, o: x * o.k, lambda o, k: setattr(o, "k", k + 5.0)),
    "environment": (
        lambda: None, lambda x, o: x * len(os.environ.get("JITFUSE_TEST_TEXT", "")),
        lambda o, k: os.environ.update(JITFUSE_TEST_TEXT="a" * (k + 2)),
    ),
    "folder": (
        lambda: None, lambda x, o: x * len(os.getcwd()),
        lambda o, k: os.chdir("/" if k % 2 else os.path.dirname(__file__)),
    ),
}
"""For each object of a library: how it is made, a function of an array and the object, and a change of the object."""
COMPILED = {"date", "record", "namespace", "object with __array__", "folder"}


@pytest.mark.parametrize("through", ["argument", "variable", "static"])
@pytest.mark.parametrize("name", MADE)
def test_state_is_read_in_every_call(name: str, through: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITFUSE_TEST_TEXT", "a")
    monkeypatch.chdir(".")
    make, function, change = MADE[name]
    held = make()
    if through == "argument":
        fused = follows(function, lambda k: change(held, k), X, held)
        assert name in COMPILED or fused.stats()["fallbacks"] == 3
    elif through == "variable":
        follows(lambda x: function(x, held), lambda k: change(held, k), X)
    else:
        fused = jf.fuse(function, static_argnames=("o",))
        for k in range(3):
            np.testing.assert_array_equal(fused(X, held), function(X, held))
            change(held, k)


@pytest.mark.parametrize("change", ["argument", "static"])
def test_static_arguments_are_compared_by_content(change: str) -> None:
    for made, moved in (
        ({"k": 1.0}, lambda o, k: o.update(k=k)),
        ({"k": [1.0]}, lambda o, k: o["k"].__setitem__(0, k)), ([1.0], lambda o, k: o.__setitem__(0, k)),
        (collections.deque([1.0]), lambda o, k: o.__setitem__(0, k)), ({1.0}, lambda o, k: o.add(k)),
    ):
        fused = jf.fuse(lambda x, o: x * len(str(o)), **({"static_argnames": ("o",)} if change == "static" else {}))
        for k in (3.0, 55.0, 777.0):
            moved(made, k)
            np.testing.assert_array_equal(fused(X, made), X * len(str(made)))


CALLS: dict[str, Callable[[Any], Any]] = {
    "sparse solve": lambda x: scipy.sparse.linalg.spsolve(scipy.sparse.diags_array(x + 1).tocsc(), x) * 2,
    "root": lambda x: scipy.optimize.brentq(lambda t: t * t - x[0], 0, 10) + x,
    "minimum": lambda x: scipy.optimize.minimize(lambda v: ((v - x) ** 2).sum(), np.zeros(4)).x.round(3),
    "interpolation": lambda x: scipy.interpolate.interp1d(np.arange(9.0), np.arange(9.0) ** 2)(x) * 2,
    "filter": lambda x: scipy.signal.lfilter([1, 0.5], [1, -0.3], x * 2),
    "smoothing": lambda x: scipy.ndimage.gaussian_filter(x * 2, 1.0) + 1,
    "score": lambda x: scipy.stats.zscore(x * 2) + 1,
    "exponential": lambda x: scipy.linalg.expm(np.outer(x, x) * 0.01) * 2,
    "factors": lambda x: scipy.linalg.cho_solve(scipy.linalg.cho_factor(np.diag(x + 1)), x),
    "distribution": lambda x: scipy.stats.norm(x[0], 1.0).cdf(x) * 2,
    "polynomial": lambda x: np.polynomial.Polynomial([1, 2, 3])(x * 2),
    "iterator": lambda x: sum(float(v) for v in np.nditer(x * 2)) + x,
    "text": lambda x: np.loadtxt(io.StringIO("1 2 3 4")) + x,
    "bytes": lambda x: np.frombuffer((x * 2).tobytes()) + 1,
    "assertion": lambda x: np.testing.assert_array_less(x, x + 1) or x * 2,
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_into_libraries_give_what_they_give(name: str) -> None:
    fused = jf.fuse(CALLS[name])
    for x in (X, X + 1, X * 2):
        np.testing.assert_array_equal(fused(x.copy()), CALLS[name](x.copy()))


def test_what_an_opaque_call_writes_is_seen() -> None:
    def function(x: Any) -> Any:
        with np.nditer(x, op_flags=[["readwrite"]]) as steps:
            for v in steps:
                v[...] = 2 * v
        return x + 1

    fused, given, expected = jf.fuse(function), X.copy(), X.copy()
    for _ in range(3):
        np.testing.assert_array_equal(fused(given), function(expected))
        np.testing.assert_array_equal(given, expected)


def test_files_are_read_in_every_call(tmp_path: Path) -> None:
    path = tmp_path / "gain.npy"
    fused = jf.fuse(lambda x: x * np.load(path))
    for gain in (2.0, 3.0, 4.0):
        np.save(path, np.full(4, gain))
        np.testing.assert_array_equal(fused(X), X * gain)


def test_cached_helpers_give_what_their_cache_has() -> None:
    gain = [2.0]

    @lru_cache
    def window(n: int) -> float:
        return gain[0] * n

    def function(x: Any) -> Any:
        return x * window(len(x))

    def change(k: int) -> None:
        gain[0] += 1
        if k == 1:
            window.cache_clear()

    follows(function, change, X)


def test_replaced_functions_of_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(k: int) -> None:
        monkeypatch.setattr(np, "sqrt", np.square if k == 0 else np.exp)
        monkeypatch.setattr(math, "pi", 3.0 + k)

    fused = follows(lambda x: np.sqrt(x) * math.pi, change, X)
    assert fused.stats()["fallbacks"] == 0


def test_strict_functions_name_what_is_opaque() -> None:
    stop = threading.Event()
    fused = jf.fuse(lambda x: x if stop.is_set() else -x, strict=True)
    with pytest.raises(jf.UntraceableError, match=r"stop is a threading.Event: jitfuse does not.*test_opaque"):
        fused(X)
    with pytest.raises(jf.UntraceableError, match=r"scipy.stats.*gaussian_kde is called.*test_opaque"):
        jf.fuse(lambda x: scipy.stats.gaussian_kde(x)(x), strict=True)(X)

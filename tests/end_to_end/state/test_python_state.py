"""Compiled functions follow Python's state: whatever a call reads besides its arguments may change between calls.

Each case is a function over one array and a change to what it reads. Before and after the change, compiled calls give
what plain Python gives. tests/tracing/interception has the same for traces alone, in more detail.
"""
from __future__ import annotations

import copy
import dataclasses
import functools
import random
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse.errors import UnsupportedError

X = np.linspace(0.5, 2.0, 6)


@dataclasses.dataclass
class Settings:
    rate: float = 0.5
    parts: dict[str, Any] = dataclasses.field(default_factory=lambda: {"shift": 1.0, "w": [np.ones(6), 3.0]})


class Layer:
    scale = 2.0
    table = (1.0, 2.0)

    def __init__(self) -> None:
        self.lr = 0.1
        self.settings = Settings()
        self.weights = [np.arange(6.0), np.ones(6)]
        self._hidden = 4.0

    @property
    def hidden(self) -> float:
        """Return what another attribute says."""
        return self._hidden * self.scale

    @classmethod
    def shared(cls, x: Any) -> Any:
        """Return x by the class's number."""
        return x * cls.scale

    @staticmethod
    def plain(x: Any) -> Any:
        """Return x with a global number."""
        return x + RATE

    def step(self, x: Any) -> Any:
        """Return what attributes make of x."""
        return x * self.lr + self.weights[0] * self.settings.rate

    def __call__(self, x: Any) -> Any:
        return self.step(x) + 1


RATE = 1.5
NAMES: dict[str, Any] = {"a": 1.0, "deep": {"list": [1.0, (2.0, np.ones(6))]}}
ITEMS: list[Any] = [1.0, 2.0]
CHOSEN = {"relu", "tanh"}
LAYER = Layer()
HELPERS = types.ModuleType("helpers_of_test_python_state")


def helper(x: Any, factor: float = 2.0, *, shift: float = 1.0) -> Any:
    """Return x times and plus numbers that defaults give."""
    return x * factor + shift


def other_helper(x: Any, factor: float = 5.0, *, shift: float = 7.0) -> Any:
    """Return what another function makes of x."""
    return x * factor - shift


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls another."""
    @functools.wraps(function)
    def outer(x: Any) -> Any:
        return function(x) * 2

    return outer


def inner_of_decorated(x: Any) -> Any:
    """Return x and a global number."""
    return x + RATE


def counter(start: float) -> tuple[Callable[..., Any], Callable[[float], None]]:
    """Return a function that reads a cell, and one that writes it."""
    value, box = start, {"k": [start]}

    def read(x: Any) -> Any:
        return x * value + box["k"][0]

    def write(new: float) -> None:
        nonlocal value
        value = new
        box["k"][0] = new + 1

    return read, write


WRAPPED = decorated(inner_of_decorated)
READ, WRITE = counter(2.0)
PARTIAL = functools.partial(helper, factor=3.0)
METHOD = LAYER.step


def _set(place: Any, name: Any, value: Any) -> Callable[[pytest.MonkeyPatch], None]:
    def change(patch: pytest.MonkeyPatch) -> None:
        if isinstance(place, dict):
            patch.setitem(place, name, value)
        elif isinstance(place, list):
            before = list(place)
            place[name] = value
            patch.setattr(sys.modules[__name__], "_undo", [*_undo, lambda: place.__setitem__(slice(None), before)])
        else:
            patch.setattr(place, name, value)

    return change


_undo: list[Callable[[], Any]] = []
_here = sys.modules[__name__]
setattr(HELPERS, "helper", helper)  # noqa: B010
setattr(HELPERS, "number", 3.0)  # noqa: B010


def _by_path(x: Any) -> Any:
    return x * NAMES["deep"]["list"][1][0] + NAMES["deep"]["list"][1][1]


CASES: dict[str, tuple[Callable[..., Any], Callable[[pytest.MonkeyPatch], Any]]] = {
    "global number": (lambda x: x * RATE, _set(_here, "RATE", 9.0)),
    "global number's type": (lambda x: x * RATE, _set(_here, "RATE", 9)),
    "global array in its place": (lambda x: x + LAYER.weights[1], lambda p: LAYER.weights[1].__iadd__(1)),
    "global array, another": (
        lambda x: x + LAYER.weights[1], lambda p: LAYER.weights.__setitem__(1, np.full(6, 5.0))),
    "global array, another dtype": (
        lambda x: x + LAYER.weights[1], lambda p: LAYER.weights.__setitem__(1, np.full(6, 2 + 1j))),
    "attribute": (lambda x: x * LAYER.lr, _set(LAYER, "lr", 0.7)),
    "attribute of an exchanged object": (lambda x: x * LAYER.lr, lambda p: p.setattr(_here, "LAYER", _with(lr=3.0))),
    "method": (lambda x: LAYER.step(x), _set(LAYER, "lr", 0.7)),
    "method of the class": (lambda x: LAYER.step(x), _set(Layer, "step", lambda self, x: x - self.lr)),
    "method hidden by the instance": (lambda x: LAYER.step(x), _set(LAYER, "step", lambda x: x - 1)),
    "bound method": (lambda x: METHOD(x), lambda p: setattr(METHOD.__self__.settings, "rate", 8.0)),
    "callable object": (lambda x: LAYER(x), _set(Layer, "__call__", lambda self, x: x * 100)),
    "class attribute": (lambda x: LAYER.shared(x), _set(Layer, "scale", 3.0)),
    "class attribute, hidden": (lambda x: x * LAYER.scale, lambda p: p.setitem(vars(LAYER), "scale", 6.0)),
    "static method": (lambda x: LAYER.plain(x), _set(_here, "RATE", 2.25)),
    "property": (lambda x: x * LAYER.hidden, _set(LAYER, "_hidden", 5.0)),
    "property, redefined": (lambda x: x * LAYER.hidden, _set(Layer, "hidden", property(lambda self: 11.0))),
    "default": (lambda x: helper(x), _set(helper, "__defaults__", (4.0,))),
    "default of keywords": (lambda x: helper(x), _set(helper, "__kwdefaults__", {"shift": 9.0})),
    "closure's cells": (lambda x: READ(x), lambda p: WRITE(6.0)),
    "dict": (lambda x: x * NAMES["a"], _set(NAMES, "a", 4.0)),
    "dict, new key": (lambda x: x * len(NAMES) + ("b" in NAMES), _set(NAMES, "b", 4.0)),
    "dict.get": (lambda x: x * NAMES.get("c", 2.0), _set(NAMES, "c", 5.0)),
    "dict, walked": (lambda x: x * sum(v for v in NAMES.values() if isinstance(v, float)), _set(NAMES, "z", 5.0)),
    "nested": (_by_path, lambda p: NAMES["deep"]["list"].__setitem__(1, (7.0, np.arange(6.0)))),
    "list": (lambda x: x + sum(ITEMS), _set(ITEMS, 0, 10.0)),
    "list, longer": (lambda x: x + len(ITEMS) + ITEMS[-1], lambda p: ITEMS.append(5.0)),
    "set": (lambda x: x * 2 if "relu" in CHOSEN else x, lambda p: CHOSEN.discard("relu")),
    "tuple of a class": (lambda x: x * LAYER.table[1], _set(Layer, "table", (1.0, 9.0))),
    "dataclass": (lambda x: x * LAYER.settings.rate, lambda p: setattr(LAYER.settings, "rate", 0.9)),
    "dataclass, exchanged": (lambda x: x * LAYER.settings.rate, _set(LAYER, "settings", Settings(3.0))),
    "dict of a dataclass": (lambda x: x * LAYER.settings.parts["w"][1], lambda p: LAYER.settings.parts["w"].__setitem__(
        1, 8.0)),
    "vars": (lambda x: x * vars(LAYER)["lr"], _set(LAYER, "lr", 0.2)),
    "getattr": (lambda x: x * getattr(LAYER, "lr", 1.0), lambda p: p.delattr(LAYER, "lr")),
    "hasattr": (lambda x: x * (2 if hasattr(LAYER, "extra") else 3), lambda p: p.setitem(vars(LAYER), "extra", 1)),
    "globals()": (lambda x: x * globals()["RATE"], _set(_here, "RATE", 0.25)),
    "module's function": (lambda x: HELPERS.helper(x), _set(HELPERS, "helper", other_helper)),
    "module's number": (lambda x: x * HELPERS.number, _set(HELPERS, "number", 0.5)),
    "module, exchanged": (lambda x: x * HELPERS.number, lambda p: p.setattr(
        _here, "HELPERS", types.SimpleNamespace(number=8.0))),
    "function, exchanged": (lambda x: helper(x), _set(_here, "helper", other_helper)),
    "function's code": (lambda x: helper(x), _set(helper, "__code__", other_helper.__code__)),
    "function in a container": (lambda x: TABLE["f"](x), lambda p: p.setitem(TABLE, "f", other_helper)),
    "partial": (lambda x: PARTIAL(x), lambda p: p.setattr(_here, "PARTIAL", functools.partial(helper, factor=8.0))),
    "partial's keywords": (lambda x: PARTIAL(x), lambda p: p.setitem(PARTIAL.keywords, "factor", 6.0)),
    "wrapped function's state": (lambda x: WRAPPED(x), _set(_here, "RATE", 6.5)),
    "wrapped function's code": (lambda x: WRAPPED(x), _set(inner_of_decorated, "__code__", (lambda x: x * 9).__code__)),
    "wrapped function, exchanged": (lambda x: WRAPPED(x), lambda p: p.setattr(_here, "WRAPPED", decorated(helper))),
    "builtin, hidden": (lambda x: x * abs(-2.0), lambda p: p.setattr(_here, "abs", lambda v: 30.0, raising=False)),
}
TABLE: dict[str, Any] = {"f": helper}


def _with(**values: Any) -> Layer:
    layer = Layer()
    vars(layer).update(values)
    return layer


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Any:
    kept = copy.deepcopy((NAMES, ITEMS, CHOSEN, LAYER))
    yield
    monkeypatch.undo()
    for now, before in zip((NAMES, ITEMS, CHOSEN), kept[:3], strict=True):
        now.clear()
        now.extend(before) if isinstance(now, list) else now.update(before)  # type: ignore[arg-type]
    vars(LAYER).clear()
    vars(LAYER).update(vars(kept[3]))
    WRITE(2.0)


@pytest.mark.parametrize("name", CASES)
def test_a_change_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, change = CASES[name]
    fused = jf.fuse(function)
    for _ in range(2):
        np.testing.assert_array_equal(fused(X), function(X))
    before = function(X)
    change(monkeypatch)
    want = function(X)
    assert not np.array_equal(before, want) or before.dtype != want.dtype or name == "global number's type"
    for _ in range(2):
        np.testing.assert_array_equal(fused(X), want)
    assert fused.stats()["fallbacks"] == 0


def test_fused_methods_partials_and_callables() -> None:
    layer = Layer()
    for fused, plain in ((jf.fuse(layer.step), layer.step), (jf.fuse(functools.partial(helper, factor=4.0)),
                          functools.partial(helper, factor=4.0)), (jf.fuse(layer), layer)):
        np.testing.assert_array_equal(fused(X), plain(X))
        layer.lr += 1.0
        layer.weights[0] = layer.weights[0] + 1
        np.testing.assert_array_equal(fused(X), plain(X))


class Fused:
    def __init__(self, lr: float) -> None:
        self.lr = lr
        self.state = np.full(6, lr)

    @jf.fuse
    def step(self, x: Any) -> Any:
        """Return what this instance makes of x."""
        return x * self.lr + self.state


def test_instances_share_a_method_and_no_state() -> None:
    one, two = Fused(2.0), Fused(3.0)
    for _ in range(2):
        np.testing.assert_array_equal(one.step(X), X * 2 + 2)
        np.testing.assert_array_equal(two.step(X), X * 3 + 3)
    two.lr, two.state = 5.0, np.zeros(6)
    np.testing.assert_array_equal(two.step(X), X * 5)
    np.testing.assert_array_equal(one.step(X), X * 2 + 2)


def test_the_same_array_twice_and_two_equal_ones() -> None:
    @jf.fuse
    def f(x: Any, y: Any) -> Any:
        return x is y, x + y

    a, b = X.copy(), X.copy()
    with pytest.warns(jf.FallbackWarning, match="two arrays are one"):
        assert f(a, a)[0] is True and f(a, b)[0] is False
    assert f(a, a)[0] is True and f(a, b)[0] is False

    @jf.fuse
    def write(x: Any, y: Any) -> Any:
        x += 1
        return y * 2

    assert np.array_equal(write(a, b), b * 2)
    assert np.array_equal(write(a, a), a * 2)


def test_keywords_in_any_order() -> None:
    f = jf.fuse(lambda *, a, b: a - b * 2)
    np.testing.assert_array_equal(f(a=X, b=X + 1), X - (X + 1) * 2)
    np.testing.assert_array_equal(f(b=X + 1, a=X), X - (X + 1) * 2)


def test_decisions_by_numbers_follow_them() -> None:
    f = jf.fuse(lambda x, n, flag: x * n if flag and n > 2 else x - n)
    for n, flag in ((1, True), (3, True), (3, False), (2.5, True), (1, True)):
        np.testing.assert_array_equal(f(X, n, flag), X * n if flag and n > 2 else X - n)


def test_randomness_and_clocks_raise_where_strict() -> None:
    import time

    for function in (lambda x: x + np.random.RandomState().rand(6), lambda x: x * random.random(),
                     lambda x: x * time.time(), lambda x: x + np.random.default_rng().normal(size=6)):
        with pytest.raises((jf.UntraceableError, UnsupportedError)):
            jf.fuse(function, strict=True)(X)


def test_iterators_that_move_run_as_python() -> None:
    numbers = iter([1.0, 2.0, 3.0])
    f = jf.fuse(lambda x: x * next(numbers))
    with pytest.warns(jf.FallbackWarning):
        first = f(X)
    np.testing.assert_array_equal(first, X * 1.0)
    np.testing.assert_array_equal(f(X), X * 2.0)


"""What functions bind in the state of their caller (attributes, items, globals, free variables): as in plain Python."""
from __future__ import annotations

import copy
import sys
import types
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import ROUNDED, same

import jitfuse as jf

total: Any = 0.0


class Layer:
    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.W, self.b = rng.standard_normal((4, 3)), np.zeros(3)
        self.calls, self.rate, self.mean = 0, 0.5, 0.0
        self.cache: Any = None
        self.first = True

    def forward(self, x: Any) -> Any:
        self.x = x
        self.z = x @ self.W + self.b
        self.cache = (self.z, {"x": x, "n": [self.calls, self.z.sum()]})
        self.calls += 1
        return np.maximum(self.z, 0)

    def backward(self, g: Any) -> Any:
        g = g * (self.z > 0)
        self.W = self.W - 0.1 * self.x.T @ g
        self.b = self.b - 0.1 * g.sum(axis=0)
        return g @ self.W.T


def train(layer: Layer, x: Any) -> Any:
    y = layer.forward(x)
    layer.backward(y - 1)
    return ((y - 1) ** 2).mean()


def averages(layer: Layer, x: Any) -> Any:
    if layer.first:
        layer.mean, layer.first = x.mean(), False
    else:
        layer.mean = 0.5 * layer.mean + 0.5 * x.mean()
    layer.calls = layer.calls + 2
    return x - layer.mean


def looks(layer: Layer, x: Any) -> Any:
    layer.calls += 1
    if x.sum() > 0:
        layer.mean = x.sum()
        return layer.calls
    layer.b = layer.b + x[0, :3]
    return x[0] * layer.calls


def counts(layer: Layer, x: Any) -> Any:
    while np.abs(x).max() > 1:
        x = x * 0.5
        layer.calls += 1
    layer.z = x
    return layer.calls


def same_array(layer: Layer, x: Any) -> Any:
    layer.z = layer.cache = x * 2
    return layer.z


def swapped(layer: Layer, x: Any) -> Any:
    layer.W, layer.b, layer.x = layer.b, layer.W, x
    return None


def transposed(layer: Layer, x: Any) -> Any:
    layer.z = (x * 2).T
    layer.W = layer.W[::-1]
    return layer.z.reshape(-1)


def through_setattr(layer: Layer, x: Any) -> Any:
    for name in ("z", "y"):
        setattr(layer, name, x * len(name))
    return getattr(layer, "z") + layer.y  # type: ignore[attr-defined]  # noqa: B009


def deleted(layer: Layer, x: Any) -> Any:
    layer.tmp = x * 2  # type: ignore[attr-defined]
    y = layer.tmp + 1  # type: ignore[attr-defined]
    del layer.tmp  # type: ignore[attr-defined]
    return y


METHODS = (train, averages, looks, counts, same_array, swapped, transposed, through_setattr, deleted)


@pytest.fixture(params=["python", "native"], autouse=True)
def _runtime(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    from jitfuse.compile import interface as compiler

    if request.param == "native":
        compiler.native_runtime()
    else:
        monkeypatch.setattr(compiler, "runtime_is_ready", lambda *_: False)


def inputs(calls: int) -> list[Any]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal((5, 4)) * (3 if k % 3 else -3) for k in range(calls)]


@pytest.mark.parametrize("function", METHODS, ids=lambda f: f.__name__)
def test_attributes(function: Callable[..., Any]) -> None:
    fused = jf.fuse(function)
    ours, theirs = Layer(), Layer()
    for x in inputs(8):
        y = x.copy()
        same(function(theirs, x), fused(ours, y), ROUNDED)
        same(vars(theirs), vars(ours), ROUNDED)
        same(x, y, ROUNDED)
    other, another = Layer(1), Layer(1)
    same(function(another, x), fused(other, x), ROUNDED)
    same(vars(another), vars(other), ROUNDED)
    assert fused.stats()["fallbacks"] == 0 and fused.stats()["traces"] <= 16


def test_methods_whose_state_settles_are_traced_once_or_twice() -> None:
    fused = jf.fuse(train)
    layer = Layer()
    for x in inputs(10):
        fused(layer, x)
    assert fused.stats()["traces"] == 1
    bound = jf.fuse(layer.forward)
    for x in inputs(10):
        bound(x)
    assert bound.stats()["traces"] <= 2 and layer.calls == 20


def test_identity() -> None:
    fused, layer = jf.fuse(same_array), Layer()
    for x in inputs(4):
        y = fused(layer, x)
        assert y is layer.z is layer.cache
    fused, layer = jf.fuse(swapped), Layer()
    W, b = layer.W, layer.b
    for k, x in enumerate(inputs(4)):
        assert fused(layer, x) is None and layer.x is x
        assert (layer.W, layer.b) == ((b, W) if k % 2 == 0 else (W, b))[:2] or (
            layer.W is (b if k % 2 == 0 else W) and layer.b is (W if k % 2 == 0 else b))


def update(parameters: Any, gradients: Any, rate: float) -> Any:
    for name in parameters:
        parameters[name] = parameters[name] - rate * gradients[name]
    parameters["steps"] = parameters["steps"] + 1
    return parameters


def fill(cache: Any, x: Any) -> Any:
    cache["a"] = x * 2
    cache["b"] = cache["a"] + 1
    return cache["b"].sum()


def items(values: Any, x: Any) -> Any:
    values[0], values[-1] = x * 2, values[0] + 1
    values[1]["deep"] = x.sum()
    return values


def test_items_of_dicts() -> None:
    fused = jf.fuse(update)
    ours = {"w": np.ones(3), "b": np.zeros(2), "steps": 0}
    theirs = copy.deepcopy(ours)
    for k in range(5):
        gradients = {"w": np.full(3, k + 1.0), "b": np.full(2, 0.5), "steps": 1.0}
        assert fused(ours, gradients, 0.1) is ours
        update(theirs, gradients, 0.1)
        same(theirs, ours, ROUNDED)
    assert fused.stats()["fallbacks"] == 0 and fused.stats()["traces"] <= 3


def test_new_items_and_lists() -> None:
    fused = jf.fuse(fill)
    for k in range(4):
        ours: dict[str, Any] = {}
        theirs: dict[str, Any] = {}
        x = np.arange(3.0) + k
        same(fill(theirs, x), fused(ours, x), ROUNDED)
        same(theirs, ours, ROUNDED)
    assert fused.stats()["traces"] == 1 and fused.stats()["fallbacks"] == 0
    again = jf.fuse(fill)
    for _ in range(4):
        same(fill(theirs, x), again(ours, x), ROUNDED)
        same(theirs, ours, ROUNDED)
    listed = jf.fuse(items)
    a: list[Any] = [np.ones(3), {"deep": 0.0}, np.zeros(3)]
    b = copy.deepcopy(a)
    for _ in range(5):
        assert listed(a, x) is a and items(b, x) is b
        same(b, a, ROUNDED)
    assert listed.stats()["fallbacks"] == 0


@pytest.mark.filterwarnings("ignore::jitfuse.errors.FallbackWarning")
def test_dicts_that_grow_are_left_to_python() -> None:
    def remember(cache: Any, x: Any, n: int) -> Any:
        cache[f"k{len(cache)}"] = x * n
        return x

    fused, ours, theirs = jf.fuse(remember), {}, {}  # type: ignore[var-annotated]
    for k in range(20):
        fused(ours, np.ones(2), k)
        remember(theirs, np.ones(2), k)
        same(theirs, ours, ROUNDED)
    assert fused.stats()["traces"] < 12


@pytest.mark.filterwarnings("ignore::jitfuse.errors.FallbackWarning")
@pytest.mark.parametrize("kind", [
    "appends", "views", "views_of_arguments", "shared", "makes_objects", "removes", "sets", "dict_of_attributes",
    "deques", "bytes",
])
def test_what_is_left_to_python(kind: str) -> None:
    class Node:
        def __init__(self, x: Any) -> None:
            self.x = x

    def function(state: Any, x: Any) -> Any:
        if kind == "appends":
            state.log.append(x.sum())
        elif kind == "views":
            state.a = x * 2
            state.b = state.a[1:]
        elif kind == "views_of_arguments":
            state.a = np.diagonal(x)
            state.b = x
        elif kind == "shared":
            state.a = state.b = [x * 2]
        elif kind == "makes_objects":
            state.node = Node(x * 2)
        elif kind == "removes":
            del state.d["k"]
        elif kind == "sets":
            state.s = {1, 2}
            state.names.discard("a")
            state.names.add(f"n{len(state.names)}")
        elif kind == "deques":
            state.recent.append(x.sum())
            state.steps.append(len(state.steps))
            return np.mean(np.stack(list(state.recent))) + len(state.steps)
        elif kind == "bytes":
            state.bytes[0] += 1
            return x + state.bytes[0]
        else:
            state.a = x * 2
            state.__dict__["b"] = x + 1
        return x + 1

    fused = jf.fuse(function)
    states = [types.SimpleNamespace(
        log=[], d={"k": 1}, names={"a", "b"}, recent=deque([1.0, 2.0], maxlen=3), steps=deque(), t=0,
        bytes=bytearray(b"a"),
    ) for _ in range(2)]
    shape = (2, 3) if kind == "views_of_arguments" else (6,)
    for k in range(9):
        returned: list[Any] = []
        for f, state in zip((function, fused), states, strict=True):
            state.d["k"] = 1
            returned.append(f(state, np.arange(6.0).reshape(shape) + k))
        same(*returned, ROUNDED)
        mine, other = (dict(vars(s)) for s in states)
        if kind == "makes_objects":
            mine["node"], other["node"] = mine["node"].x, other["node"].x
        same(mine, other, ROUNDED)
        if kind == "views_of_arguments":
            assert np.shares_memory(states[1].a, states[1].b)
        if kind == "views":
            assert np.shares_memory(states[1].a, states[1].b)
        if kind == "shared":
            assert states[1].a is states[1].b
    assert fused.stats()["traces"] == 0


def test_a_step_counter_is_decided_by_its_outcome() -> None:
    def function(state: Any, x: Any) -> Any:
        state.t += 1
        if state.t % 3 == 0:
            return x * state.t
        return x + 1

    fused, states = jf.fuse(function), [types.SimpleNamespace(t=0) for _ in range(2)]
    for k in range(9):
        same(*[f(state, np.arange(6.0) + k) for f, state in zip((function, fused), states, strict=True)])
        assert states[0] == states[1]
    assert fused.stats()["traces"] == 2 and fused.stats()["fallbacks"] == 0


@pytest.mark.parametrize("way", ["super", "object"])
def test_attributes_through_the_classes_own_setter(way: str) -> None:
    class Counting:
        n = 0

        def __setattr__(self, name: str, value: Any) -> None:
            if way == "super":
                super().__setattr__(name, value)
                super().__setattr__("n", self.n + 1)
            else:
                object.__setattr__(self, name, value)
                object.__setattr__(self, "n", self.n + 1)

    class Slots:
        __slots__ = ("count", "held")

        def __init__(self) -> None:
            self.count, self.held = 0, np.zeros(3)

        @property
        def twice(self) -> Any:
            return self.held * 2

        @twice.setter
        def twice(self, value: Any) -> None:
            self.held = value / 2

    def function(counting: Any, slots: Any, x: Any) -> Any:
        counting.value = x * 2
        slots.twice = x + slots.twice
        slots.count += 1
        return counting.value + slots.held

    fused = jf.fuse(function)
    ours, theirs = (Counting(), Slots()), (Counting(), Slots())
    for k in range(5):
        x = np.arange(3.0) + k
        same(function(*theirs, x), fused(*ours, x), ROUNDED)
        same(vars(theirs[0]), vars(ours[0]), ROUNDED)
        same([theirs[1].count, theirs[1].held], [ours[1].count, ours[1].held], ROUNDED)
    assert fused.stats()["fallbacks"] == 0 and fused.stats()["traces"] <= 3


def test_globals_and_free_variables() -> None:
    module = sys.modules[__name__]
    count = 0
    kept: Any = None

    def function(x: Any) -> Any:
        global total
        nonlocal count, kept
        total += x.sum()
        count += 1
        kept = [x * count, total]
        return total * count

    fused = jf.fuse(function)
    for k in range(5):
        x = np.arange(3.0) + k
        results = []
        before = module.total, count, kept  # type: ignore[attr-defined]
        for f in (function, fused):
            module.total, count, kept = before  # type: ignore[attr-defined]
            results.append((f(x), module.total, count, kept))  # type: ignore[attr-defined]
        same(*results, ROUNDED)
    assert fused.stats()["fallbacks"] == 0 and fused.stats()["traces"] <= 4


def test_nothing_is_kept_where_a_call_fails() -> None:
    def function(layer: Layer, x: Any, i: Any) -> Any:
        layer.z = x * 2
        layer.calls += 1
        return x[i]

    fused, layer = jf.fuse(function), Layer()
    x = np.arange(4.0)
    for _ in range(3):
        fused(layer, x, np.array([1, 2]))
    calls, z = layer.calls, layer.z
    with pytest.raises(IndexError):
        fused(layer, x, np.array([1, 9]))
    assert layer.calls in (calls, calls + 1) and layer.z.shape == z.shape  # plain Python has kept it before it failed


def test_the_mode_of_the_call_decides() -> None:
    class Norm:
        def __init__(self) -> None:
            self.mean, self.used = np.zeros(3), ""

        def __call__(self, x: Any, training: bool) -> Any:
            if training:
                self.mean = 0.9 * self.mean + 0.1 * x.mean(axis=0)
                return x - x.mean(axis=0)
            self.used = "kept"
            return x - self.mean

    ours, theirs = Norm(), Norm()
    fused = jf.fuse(lambda norm, x, training: norm(x, training))
    for k, training in enumerate((True, False, True, True, False)):
        x = np.arange(12.0).reshape(4, 3) + k
        same(theirs(x, training), fused(ours, x, training=training), ROUNDED)
        same(vars(theirs), vars(ours), ROUNDED)


def test_programs_and_explanations_run_nothing() -> None:
    fused, layer = jf.fuse(train), Layer()
    before = copy.deepcopy(vars(layer))
    x = inputs(1)[0]
    fused.program(layer, x)
    fused.warm(layer, x)
    assert "bound by each call\n  args[0].x\n" in fused.explain(layer, x)
    same(before, vars(layer), ROUNDED)

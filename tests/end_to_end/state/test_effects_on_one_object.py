"""What functions bind in their caller's state where objects come on several ways, change places, or grow."""
from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import ROUNDED, same

import jitfuse as jf

result: Any = None


class Held:
    def __init__(self, n: int) -> None:
        self.v, self.n = np.arange(3.0) + n, n


@dataclasses.dataclass
class Pair:
    a: Any
    n: int = 0


def attributes(a: Any, b: Any, x: Any) -> Any:
    a.n += 1
    b.n += 10
    a.v = x * 2
    return b.v + b.n


def items(a: Any, b: Any, x: Any) -> Any:
    a["n"] += 1
    b["n"] += 10
    a["v"] = x * 2
    return b["v"] + b["n"]


def in_lists(a: Any, b: Any, x: Any) -> Any:
    a[0] += 1
    b[0] += 10
    a[1] = x * 2
    return b[1] + b[0]


@pytest.mark.parametrize(("function", "make"), [
    (attributes, Held), (items, lambda n: {"n": n, "v": np.ones(3) * n}), (in_lists, lambda n: [n, np.ones(3) * n]),
], ids=["attributes", "items", "lists"])
@pytest.mark.parametrize("order", ["01 00 10 11 01 00", "00 01 00 10"])
def test_one_object_given_twice(function: Callable[..., Any], make: Callable[[int], Any], order: str) -> None:
    fused, ours, theirs = jf.fuse(function), [make(1), make(5)], [make(1), make(5)]
    for k, (a, b) in enumerate(order.split()):
        x = np.arange(3.0) + k
        same(function(theirs[int(a)], theirs[int(b)], x), fused(ours[int(a)], ours[int(b)], x), ROUNDED)
        same(theirs, ours, ROUNDED)
    assert fused.stats()["traces"] <= 3 and fused.stats()["fallbacks"] == 0


def test_many_objects_of_one_type() -> None:
    def function(objects: Any, x: Any) -> Any:
        for held in objects:
            held.n += 1
        return x * objects[0].n

    fused, ours, theirs = jf.fuse(function), [Held(k) for k in range(20)], [Held(k) for k in range(20)]
    for k in range(4):
        if k == 2:
            ours[3], theirs[3] = ours[7], theirs[7]
        same(function(theirs, np.ones(2)), fused(ours, np.ones(2)), ROUNDED)
        same(theirs, ours, ROUNDED)


def moved_lists(state: Any, x: Any) -> Any:
    state.a, state.d = state.d, [x * 2]
    return x


def moved_objects(state: Any, x: Any) -> Any:
    state.o, state.p = state.p, state.o
    state.o.v = x * 2
    return state.p.v + state.o.n


def kept(state: Any, x: Any) -> Any:
    state.a, state.q = state.e, state.p
    return x + 1


@pytest.mark.parametrize("function", [moved_lists, moved_objects, kept], ids=lambda f: f.__name__)
def test_the_callers_objects_in_other_places(function: Callable[..., Any]) -> None:
    fused = jf.fuse(function)
    ours, theirs = (types.SimpleNamespace(a=None, q=None, d=[1], e=[2], o=Held(1), p=Held(2)) for _ in range(2))
    for k in range(6):
        x = np.arange(3.0) + k
        same(function(theirs, x), fused(ours, x), ROUNDED)
        same(vars(theirs), vars(ours), ROUNDED)
        if function is kept:
            assert ours.a is ours.e and ours.q is ours.p
        for state in (ours, theirs):
            state.e = [k]
            if k % 2:
                state.p = Held(k)


def test_objects_are_returned_themselves() -> None:
    def function(state: Any, x: Any) -> Any:
        state.a = x * 2
        state.n += 1
        return state, [state]

    for make in (lambda: Pair(None), lambda: types.SimpleNamespace(a=None, n=0)):
        fused, states = jf.fuse(function), [make(), make()]
        for k in range(5):
            one, (other,) = fused(states[k % 2], np.ones(2) * k)
            assert one is other is states[k % 2] and one.n == k // 2 + 1 and one.a[0] == 2 * k


def test_places_of_one_name() -> None:
    def counter(n: Any) -> Any:
        def add(x: Any) -> Any:
            nonlocal n
            n = n + x
            return n

        return add, lambda: n

    (add, now), (add_other, other_now) = counter(1.0), counter(2.0)

    def function(x: Any) -> Any:
        global result
        result = x * 2
        add(x)
        add_other(x * 3)
        return x + 1

    fused = jf.fuse(function)
    for _ in range(3):
        np.testing.assert_array_equal(fused(np.ones(2)), np.full(2, 2.0))
        np.testing.assert_array_equal(result, np.full(2, 2.0))
    np.testing.assert_array_equal(now(), np.full(2, 4.0))
    np.testing.assert_array_equal(other_now(), np.full(2, 11.0))


def test_attributes_of_a_class_that_was_not_met_before() -> None:
    class Counted:
        n = 0
        last: Any = None

    def function(a: Any, x: Any) -> Any:
        type(a).last = x * 2
        type(a).n = a.n + 1
        return x * type(a).n

    fused, a = jf.fuse(function), Counted()
    for k in range(4):
        np.testing.assert_array_equal(fused(a, np.ones(2)), np.full(2, k + 1.0))
        assert Counted.n == k + 1 and Counted.last[0] == 2.0


@pytest.mark.filterwarnings("ignore::jitfuse.errors.FallbackWarning")
@pytest.mark.parametrize("way", ["vars", "item", "update"])
def test_attributes_written_in_the_dict_of_an_object(way: str) -> None:
    def function(a: Any, b: Any, x: Any) -> Any:
        if way == "vars":
            vars(a)["v"] = x * 2
        elif way == "item":
            a.__dict__["v"] = x * 2
        else:
            a.__dict__.update(v=x * 2)
        return a.v + b.v

    fused, ours, theirs = jf.fuse(function), [Held(1), Held(2)], [Held(1), Held(2)]
    for k in range(4):
        x = np.arange(3.0) + k
        same(function(*theirs, x), fused(*ours, x), ROUNDED)
        same(theirs, ours, ROUNDED)


@pytest.mark.filterwarnings("ignore::jitfuse.errors.FallbackWarning")
@pytest.mark.parametrize("way", ["cond", "while", "fori"])
@pytest.mark.parametrize("kind", ["attribute", "item"])
def test_bodies_of_branches_and_loops_that_write(way: str, kind: str) -> None:
    def function(state: Any, x: Any) -> Any:
        def body(*values: Any) -> Any:
            if kind == "item":
                state.d["n"] += 1
            else:
                state.n += 1
            return values[-1] * 2

        if way == "cond":
            return jf.cond(x.sum() > 7, body, lambda v: v * 3, x)
        if way == "while":
            return jf.while_loop(lambda v: v.sum() < 100, body, x)
        return jf.fori_loop(0, 3, body, x)

    fused = jf.fuse(function)
    ours, theirs = (types.SimpleNamespace(n=0, d={"n": 0}) for _ in range(2))
    for k in range(5):
        x = np.ones(3) + k
        same(function(theirs, x), fused(ours, x), ROUNDED)
        same(vars(theirs), vars(ours), ROUNDED)


@pytest.mark.filterwarnings("ignore::jitfuse.errors.FallbackWarning")
@pytest.mark.parametrize("kind", ["list", "dict", "array", "text"])
def test_state_that_grows_is_left_to_python(kind: str) -> None:
    def function(state: Any, x: Any) -> Any:
        if kind == "list":
            state.v = [*state.v, x.sum()]
        elif kind == "dict":
            state.v = {**state.v, f"k{len(state.v)}": x.sum()}
        elif kind == "array":
            state.v = np.append(state.v, x.sum())
        else:
            state.v = state.v + "a"
        return x + 1

    start: Any = {"list": [], "dict": {}, "array": np.zeros(0), "text": ""}[kind]
    fused, ours, theirs = jf.fuse(function), types.SimpleNamespace(v=start), types.SimpleNamespace(v=start)
    for k in range(20):
        x = np.ones(3) + k
        same(function(theirs, x), fused(ours, x), ROUNDED)
        same(vars(theirs), vars(ours), ROUNDED)
    assert fused.stats()["traces"] < 12


@pytest.mark.filterwarnings("ignore::jitfuse.errors.FallbackWarning")
def test_buffers_of_modules_stay() -> None:
    torch = pytest.importorskip("torch")

    class Mean(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(3))

        def forward(self, x: Any) -> Any:
            self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
            return x - self.mean

    ours, theirs = Mean(), Mean()
    fused = jf.fuse(lambda module, x: module.forward(x))
    for k in range(3):
        x = torch.ones(2, 3) * k
        assert torch.equal(theirs.forward(x), fused(ours, x)) and torch.equal(theirs.mean, ours.mean)
        assert list(ours.state_dict()) == ["mean"]


@pytest.mark.filterwarnings("ignore::jitfuse.errors.FallbackWarning")
@pytest.mark.parametrize("kind", ["numpy", "eager", "torch"])
def test_the_callers_dict_is_returned_whatever_its_arrays_are(kind: str) -> None:
    torch = pytest.importorskip("torch")
    make: Any = {"numpy": np.asarray, "eager": jf.asarray, "torch": torch.tensor}[kind]

    def function(params: Any, x: Any) -> Any:
        for name in params:
            params[name] = params[name] - 0.5 * x
        return params

    fused, params = jf.fuse(function), {"a": make([8.0, 8.0]), "b": make([4.0, 4.0])}
    for k in range(4):
        assert fused(params, make([1.0, 2.0])) is params
        assert type(params["a"]) is type(make([1.0]))
        np.testing.assert_array_equal(np.asarray(params["a"]), [7.5 - 0.5 * k, 7.0 - k])

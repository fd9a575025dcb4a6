"""Writes are real, never leak traced values, and a call that depends on its own writes is not replayed."""
from __future__ import annotations

import abc
import sys
import types
import warnings
from collections import defaultdict
from typing import Any, ClassVar

import numpy as np
import pytest

import jitfuse as jf
from jitfuse.errors import UntraceableError
from jitfuse.tracing.interception.chain import Chain
from jitfuse.tracing.interception.reader import TracingEnvironment

X = np.array([1.0, 2.0, 3.0])
counter = 0
flag: Any = "off"


class Box:
    def __init__(self) -> None:
        self.count = 0
        self.items: list[Any] = []


@pytest.fixture(autouse=True)
def _reset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "counter", 0)
    monkeypatch.setattr(sys.modules[__name__], "flag", "off")


def test_global_counter(trace: Any) -> None:
    def f(x: Any) -> Any:
        global counter
        counter += 1
        return x * counter

    got = trace(f, X)
    assert counter == 1 and type(counter) is int
    np.testing.assert_array_equal(got.result, X)
    assert not got.holds and "counter is read and changed" in got.guard_log.why_failed(())
    np.testing.assert_array_equal(trace(f, X).result, X * 2)


def test_attribute_counter(trace: Any) -> None:
    box = Box()

    def f(x: Any) -> Any:
        box.count += 1
        return x * box.count

    assert trace(f, X).guard_log.volatile
    assert box.count == 1 and type(box.count) is int


def test_closure_counter(trace: Any) -> None:
    count = 0

    def bump() -> int:
        nonlocal count
        count += 1
        return count

    got = trace(lambda x: x * bump() + bump(), X)
    np.testing.assert_array_equal(got.result, X * 1 + 2)
    assert count == 2 and got.guard_log.volatile


def test_repeated_write_holds_while_it_is_in_place(trace: Any) -> None:
    def f(x: Any) -> Any:
        global flag
        flag = "on"
        return x if flag == "on" else -x

    got = trace(f, X)
    assert flag == "on" and got.holds
    globals()["flag"] = "off"
    assert not got.holds, "a replay would not write"


def test_value_written_before_it_is_read_is_no_feed(trace: Any) -> None:
    box = Box()

    def f(x: Any) -> Any:
        box.count = 5
        return x * box.count

    got = trace(f, X)
    assert got.hooks.asked == ["args[0]"] and got.holds
    np.testing.assert_array_equal(got.replay(), X * 5)


def test_list_append(trace: Any) -> None:
    box = Box()

    def f(x: Any) -> Any:
        box.items.append("called")
        return x * len(box.items)

    np.testing.assert_array_equal(trace(f, X).result, X)
    assert box.items == ["called"]
    got = trace(f, X)
    np.testing.assert_array_equal(got.result, X * 2)
    assert box.items == ["called"] * 2 and not got.holds


def test_containers_change_in_place(trace: Any) -> None:
    inner = [1.0, 2.0]
    d: dict[str, Any] = {"a": inner, "b": 1.0}
    groups: defaultdict[str, list[Any]] = defaultdict(list, old=[1])

    def f(x: Any) -> Any:
        d["a"].append(3.0)
        d["c"] = d["a"]
        del d["b"]
        groups["new"].append("n")
        groups["old"].append("o")
        return x * sum(d["c"])

    np.testing.assert_array_equal(trace(f, X).result, X * 6)
    assert d == {"a": [1.0, 2.0, 3.0], "c": [1.0, 2.0, 3.0]}
    assert d["a"] is inner and d["c"] is inner
    assert groups == {"old": [1, "o"], "new": ["n"]}
    assert all(type(item) is float for item in inner)


def test_item_written_after_plain_subscript(trace: Any) -> None:
    d = {"n": 1.0}

    def f(x: Any) -> Any:
        before = d["n"]
        d["n"] = 5.0
        return x * before + d["n"]

    np.testing.assert_array_equal(trace(f, X).result, X + 5)
    assert d == {"n": 5.0}


def test_traced_value_in_container_raises(trace: Any) -> None:
    history: list[Any] = ["start"]

    def f(x: Any) -> Any:
        history.append(x * 2)
        return x

    with pytest.raises(UntraceableError, match="history"):
        trace(f, X)
    assert history == ["start"]


def test_container_undone_is_no_change(trace: Any) -> None:
    items = [1.0]

    def f(x: Any) -> Any:
        items.append(x)
        return items.pop() * items[0]

    assert trace(f, X).holds


def test_same_container_is_same_proxy(trace: Any) -> None:
    box = Box()
    held = types.SimpleNamespace(a=box.items, b=box.items)

    def f(x: Any) -> Any:
        held.a.append("x")
        return x if held.a is held.b and held.b == ["x"] else -x

    np.testing.assert_array_equal(trace(f, X).result, X)
    assert box.items == ["x"]


def test_container_stored_is_the_real_one(trace: Any) -> None:
    box, items = Box(), [1.0]

    def f(x: Any) -> Any:
        box.items = items
        box.items.append(2.0)
        return x * sum(items)

    np.testing.assert_array_equal(trace(f, X).result, X * 3)
    assert box.items is items and items == [1.0, 2.0]


def test_array_of_state_stored_is_the_real_one(trace: Any) -> None:
    box, w = Box(), X * 2

    def f(x: Any) -> Any:
        box.items = w
        return x * box.items

    np.testing.assert_array_equal(trace(f, X).result, X * w)
    assert box.items is w


def test_objects_made_in_the_trace_hold_traced_values(trace: Any) -> None:
    class Bare:
        pass

    def f(x: Any) -> Any:
        box, bare = Box(), Bare()
        box.count = x * 2
        bare.n = 0
        for _ in range(3):
            bare.n = bare.n + 1
            box.items.append(box.count)
        return box.items[-1] * bare.n

    got = trace(f, X)
    np.testing.assert_array_equal(got.result, X * 6)
    assert got.hooks.asked == ["args[0]"] and got.holds


def test_rollback(trace: Any) -> None:
    box, items = Box(), [1.0]
    made = 0

    def f(x: Any) -> Any:
        global counter
        nonlocal made
        counter, made = 7, 8
        box.count = 9
        box.extra = 1  # type: ignore[attr-defined]
        del box.items
        items.append(2.0)
        return x

    view = TracingEnvironment(trace(lambda: None).hooks)
    view.run(f, [view.read(Chain.arg(0), X)], {})
    assert (counter, made, box.count) == (7, 8, 9)
    view.rollback()
    assert (counter, made, box.count, box.items, items) == (0, 0, 0, [], [1.0]) and not hasattr(box, "extra")


def test_object_setattr_of_frozen_dataclass(trace: Any) -> None:
    import dataclasses

    @dataclasses.dataclass(frozen=True)
    class Pair:
        a: Any
        b: Any = 2.0

    def f(x: Any) -> Any:
        pair = Pair(x)
        return pair.a * pair.b

    got = trace(f, X)
    np.testing.assert_array_equal(got.result, X * 2)
    assert got.holds


# ---------------------------------------------------------------- objects that no __init__ has begun
class Row(list):
    pass


class Settings:
    scale = 2.0


def rows(x: Any) -> Any:
    row = Row()
    row.append(x * 2)
    return row


def rows_within(x: Any) -> Any:
    row = Row()
    row.append(x * 2)
    return {"row": row, "x": x}


def settings_made(x: Any) -> Any:
    made = Settings()
    if made.scale > 1:  # it is read before it is written
        made.found = x * made.scale  # type: ignore[attr-defined]
    return made


def settings_used(x: Any) -> Any:
    made, row = Settings(), Row()
    row.append(x * made.scale)
    return row[0] + len(row)


@pytest.mark.parametrize("function", [rows, rows_within, settings_made])
def test_what_a_call_makes_is_new_in_each_call(function: Any) -> None:
    fused = jf.fuse(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jf.FallbackWarning)
        found = [fused(np.arange(3.0) + k) for k in range(3)]
    for k, one in enumerate(found):
        want = function(np.arange(3.0) + k)
        assert type(one) is type(want)
        assert str(vars(one) if isinstance(one, Settings) else one) == str(
            vars(want) if isinstance(want, Settings) else want)
    assert len(set(map(id, found))) == 3


def test_what_a_call_makes_and_uses_up_is_traced() -> None:
    fused = jf.fuse(settings_used)
    for k in range(3):
        np.testing.assert_array_equal(fused(np.arange(3.0) + k), settings_used(np.arange(3.0) + k))
    assert fused.stats()["fallbacks"] == 0


class Layer(abc.ABC):
    gain = 2.0
    shift = np.array([1.0, 2.0, 3.0])
    history: ClassVar[list[float]] = [0.5]

    @abc.abstractmethod
    def forward(self, x: Any) -> Any: ...


class Rectifier(Layer):
    def forward(self, x: Any) -> Any:
        self.mask = x > 1  # written before anything of it is read
        return x * self.mask * self.gain + self.shift + self.history[-1]


class Scaled(Layer):
    def __init__(self, by: float) -> None:
        self.by = by

    def forward(self, x: Any) -> Any:
        return x * self.by * self.gain + self.shift + self.history[0]


here = sys.modules[__name__]


def layered(x: Any) -> Any:
    layers = [Rectifier(), Scaled(3.0), here.Rectifier()]
    for layer in layers:
        x = layer.forward(x)
    return x, layers[0].mask


@pytest.mark.parametrize("change", [
    lambda m: m.setattr(Layer, "gain", 4.0), lambda m: m.setattr(Scaled, "gain", -1.0, raising=False),
    lambda m: m.setattr(Layer, "shift", np.arange(3.0)), lambda m: m.setattr(Layer, "history", [2.0]),
])
def test_layers_that_no_init_begins(change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fused = jf.fuse(layered)
    for k in range(4):
        if k == 2:
            change(monkeypatch)  # what a class holds for all its objects is state
        for got, want in zip(fused(np.arange(3.0) + k), layered(np.arange(3.0) + k)):
            np.testing.assert_array_equal(got, want)
    assert fused.stats()["fallbacks"] == 0


def append_to_class(x: Any) -> Any:
    made = Rectifier()
    made.history.append(float(len(made.history)))
    return x + made.history[-1]


def test_lists_of_classes_are_changed_in_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Any] = []
    for function in (append_to_class, jf.fuse(append_to_class)):
        monkeypatch.setattr(Layer, "history", [0.5])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", jf.FallbackWarning)
            kept.append(([list(function(X)) for _ in range(3)], list(Layer.history)))
    assert kept[0] == kept[1]

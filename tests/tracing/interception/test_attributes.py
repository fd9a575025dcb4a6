"""Globals, attributes and methods that a function reads: same result, guards that hold, changes that count.

Dicts and lists are in test_containers_are_seen.py, helpers and closures in test_functions_are_seen.py.
"""
from __future__ import annotations

import copy
import dataclasses
import enum
import functools
import operator
import sys
import types
from typing import Any

import numpy as np
import pytest

X = np.array([1.0, 2.0, 3.0])

rate = 0.5
weights = np.array([1.0, 10.0, 100.0])
mode = "fast"


class Model:
    scale = 2.0
    kind = "plain"

    def __init__(self, lr: float = 0.5) -> None:
        self.lr = lr

    def step(self, x: Any) -> Any:
        return x * self.lr

    def __call__(self, x: Any) -> Any:
        return self.step(x) + 1

    @classmethod
    def scaled(cls, x: Any) -> Any:
        return x * cls.scale

    @staticmethod
    def shifted(x: Any) -> Any:
        return x + rate

    @property
    def twice(self) -> Any:
        return self.lr * 2

    def __add__(self, other: Any) -> Any:
        return other + self.lr


model = Model()


@pytest.fixture(autouse=True)
def _reset(monkeypatch: pytest.MonkeyPatch) -> None:
    here = sys.modules[__name__]
    for name, value in {"rate": 0.5, "weights": np.array([1.0, 10.0, 100.0]), "mode": "fast",
                        "model": Model()}.items():
        monkeypatch.setattr(here, name, value)
    monkeypatch.setattr(Model, "scale", 2.0)


def put(name: str, value: Any) -> Any:
    return lambda: setattr(sys.modules[__name__], name, value)


def test_global_number(follows: Any) -> None:
    assert follows(lambda x: x * rate, put("rate", 0.25), X, by="feed").hooks.asked == ["args[0]", "rate"]


def test_global_number_changes_type(follows: Any) -> None:
    follows(lambda x: x * rate, put("rate", 3), X)


def test_global_array(follows: Any) -> None:
    follows(lambda x: x * weights, put("weights", np.zeros(3)), X, by="feed")


def test_global_array_in_place(follows: Any) -> None:
    follows(lambda x: x * weights, lambda: weights.__setitem__(0, 7.0), X, by="feed")


def test_global_string(follows: Any) -> None:
    got = follows(lambda x: x if mode == "fast" else -x, put("mode", "slow"), X, by="guard")
    assert "mode == 'fast'" in got.guards()
    assert got.guard_log.why_failed((X,)) == "mode: was 'fast', is 'slow'"


def test_attribute_of_global(follows: Any) -> None:
    got = follows(lambda x: x * model.lr, lambda: setattr(model, "lr", 0.25), X, by="feed")
    assert got.hooks.asked == ["args[0]", "model.lr"]


def test_attribute_of_exchanged_instance(follows: Any) -> None:
    follows(lambda x: x * model.lr, put("model", Model(0.25)), X, by="feed")


def test_attribute_through_local_name(follows: Any) -> None:
    def f(x: Any) -> Any:
        c = model
        return x * c.lr

    assert "model.lr" in follows(f, lambda: setattr(model, "lr", 0.25), X, by="feed").hooks.asked


def test_attribute_of_argument(follows: Any) -> None:
    mine = Model()
    got = follows(lambda self, x: x * self.lr, lambda: setattr(mine, "lr", 0.25), mine, X, by="feed")
    assert "args[0].lr" in got.hooks.asked


def test_method_of_argument(trace: Any) -> None:
    one, other = Model(2.0), Model(3.0)
    got = trace(Model.step, one, X)
    np.testing.assert_array_equal(got.result, X * 2)
    got.args = (other, X)
    assert got.holds
    np.testing.assert_array_equal(got.replay(), X * 3)


def test_bound_method(follows: Any) -> None:
    follows(model.step, lambda: setattr(model, "lr", 0.25), X)


def test_method(follows: Any) -> None:
    follows(lambda x: model.step(x), lambda: setattr(model, "lr", 0.25), X, by="feed")


def test_method_redefined_on_class(follows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    follows(lambda x: model.step(x), lambda: monkeypatch.setattr(Model, "step", lambda self, x: -x), X, by="guard")


def test_method_shadowed_on_instance(follows: Any) -> None:
    follows(lambda x: model.step(x), lambda: setattr(model, "step", lambda x: -x), X, by="guard")


def test_callable_instance(follows: Any) -> None:
    follows(lambda x: model(x), lambda: setattr(model, "lr", 0.25), X, by="feed")


def test_call_redefined_on_class(follows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    follows(lambda x: model(x), lambda: monkeypatch.setattr(Model, "__call__", lambda self, x: -x), X, by="guard")


def test_special_method(follows: Any) -> None:
    follows(lambda x: model + x, lambda: setattr(model, "lr", 0.25), X, by="feed")


def test_class_attribute(follows: Any) -> None:
    follows(lambda x: x * model.scale, lambda: setattr(Model, "scale", 5.0), X, by="feed")


def test_class_attribute_hidden_by_instance(follows: Any) -> None:
    follows(lambda x: x * model.scale, lambda: setattr(model, "scale", 5.0), X, by="feed")


def test_class_attribute_through_type(follows: Any) -> None:
    follows(lambda x: x * type(model).scale, lambda: setattr(Model, "scale", 5.0), X, by="feed")


def test_classmethod(follows: Any) -> None:
    follows(lambda x: Model.scaled(x), lambda: setattr(Model, "scale", 5.0), X, by="feed")


def test_staticmethod(follows: Any) -> None:
    follows(lambda x: model.shifted(x), put("rate", 5.0), X, by="feed")


def test_property(follows: Any) -> None:
    follows(lambda x: x * model.twice, lambda: setattr(model, "lr", 5.0), X, by="feed")


def test_property_redefined(follows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    follows(lambda x: x * model.twice, lambda: monkeypatch.setattr(Model, "twice", property(lambda self: 9.0)), X,
            by="guard")


def test_slots(follows: Any) -> None:
    class Slotted:
        __slots__ = ("lr",)

    s = Slotted()
    s.lr = 0.5
    follows(lambda x: x * s.lr, lambda: setattr(s, "lr", 5.0), X, by="feed")


def test_user_getattr(follows: Any) -> None:
    class Bag:
        def __init__(self) -> None:
            self.data = {"lr": 0.5}

        def __getattr__(self, name: str) -> Any:
            return self.data[name]

    bag = Bag()
    follows(lambda x: x * bag.lr, lambda: bag.data.update(lr=0.25), X)


def test_user_getattr_overtaken_by_attribute(follows: Any) -> None:
    class Bag:
        def __getattr__(self, name: str) -> Any:
            return 0.5

    bag = Bag()
    follows(lambda x: x * bag.lr, lambda: setattr(bag, "lr", 0.25), X, by="guard")


def test_user_descriptor(follows: Any) -> None:
    class Twice:
        def __get__(self, owner: Any, cls: type) -> Any:
            return owner.lr * 2

    class Holder:
        twice = Twice()
        lr = 0.5

    holder = Holder()
    follows(lambda x: x * holder.twice, lambda: setattr(holder, "lr", 5.0), X, by="feed")


class Table:
    size = 2.0

    @functools.cached_property
    def values(self) -> Any:
        return self.size * 10


def test_cached_property(follows: Any) -> None:
    table = Table()

    def change() -> None:
        table.size = 4.0
        table.__dict__.pop("values", None)

    fn = lambda x: x + table.values  # noqa: E731
    fn(X)
    got = follows(fn, change, X)
    assert "table.values" in got.hooks.asked


def test_cached_property_does_not_keep_traced_values(trace: Any) -> None:
    table = Table()
    np.testing.assert_array_equal(trace(lambda x: x + table.values, X).result, X + 20)
    assert table.values == 20.0


def test_inherited_super(follows: Any) -> None:
    class Child(Model):
        def step(self, x: Any) -> Any:
            return super().step(x) + 1

    child = Child()
    follows(lambda x: child.step(x), lambda: setattr(child, "lr", 5.0), X, by="feed")


def test_base_method_redefined(follows: Any) -> None:
    class Base:
        def step(self, x: Any) -> Any:
            return x

    class Child(Base):
        def step(self, x: Any) -> Any:
            return super().step(x) + 1

    child = Child()
    follows(lambda x: child.step(x), lambda: setattr(Base, "step", lambda self, x: -x), X, by="guard")


@pytest.mark.parametrize("read", [
    lambda x: x * getattr(model, "lr"),  # noqa: B009
    lambda x: x * getattr(model, "absent", model.lr),
    lambda x: x * vars(model)["lr"],
    lambda x: x * model.__dict__["lr"],
    lambda x: x * operator.attrgetter("lr")(model),
    lambda x: x * copy.copy(model).lr,
], ids=range(6))
def test_dynamic_attribute(follows: Any, read: Any) -> None:
    follows(read, lambda: setattr(model, "lr", 0.25), X)


def test_globals_function(follows: Any) -> None:
    follows(lambda x: x * globals()["rate"], put("rate", 5.0), X, by="feed")


def test_absent_attribute(follows: Any) -> None:
    follows(lambda x: -x if hasattr(model, "extra") else x, lambda: setattr(model, "extra", 1), X, by="guard")
    own = Model()
    follows(lambda m, x: -x if hasattr(m, "extra") else x, lambda: setattr(own, "extra", 1), own, X, by="guard")


def test_dataclass(follows: Any) -> None:
    @dataclasses.dataclass
    class Config:
        lr: float = 0.5
        depth: int = 2

    cfg = Config()
    follows(lambda x: x * cfg.lr, lambda: setattr(cfg, "lr", 1.0), X, by="feed")
    follows(lambda x: x * dataclasses.replace(cfg, depth=3).lr, lambda: setattr(cfg, "lr", 2.0), X, by="feed")
    follows(lambda x: x * dataclasses.asdict(cfg)["lr"], lambda: setattr(cfg, "lr", 3.0), X, by="feed")


def test_enum(follows: Any) -> None:
    class Mode(enum.Enum):
        A = 1
        B = 2

    held = types.SimpleNamespace(mode=Mode.A)
    follows(lambda x: x * held.mode.value if held.mode is Mode.A else -x, lambda: setattr(held, "mode", Mode.B), X,
            by="guard")


def test_same_object_by_two_ways(follows: Any) -> None:
    held = types.SimpleNamespace(a=model, b=model)
    follows(lambda x: held.a.lr * x + held.b.lr, lambda: setattr(held, "b", Model(7.0)), X, by="guard")


def test_same_array_by_two_ways(follows: Any) -> None:
    held = types.SimpleNamespace(a=X * 2, b=None)
    held.b = held.a
    follows(lambda x: held.a * x + held.b, lambda: setattr(held, "b", X), X, by="guard")


def test_identity_of_instances(follows: Any) -> None:
    held = types.SimpleNamespace(a=model, b=model)
    follows(lambda x: x if held.a is held.b else -x, lambda: setattr(held, "b", Model()), X, by="guard")

"""What a program reads of dicts, lists and their kin is checked, or read again, in each call."""
from __future__ import annotations

import operator
import sys
import types
from collections import OrderedDict, defaultdict, namedtuple
from typing import Any

import numpy as np
import pytest

X = np.array([1.0, 2.0, 3.0])

config: dict[str, Any] = {}
layers: list[Any] = []


class Layer:
    def __init__(self, lr: float) -> None:
        self.lr = lr

    def step(self, x: Any) -> Any:
        return x * self.lr


@pytest.fixture(autouse=True)
def _reset(monkeypatch: pytest.MonkeyPatch) -> None:
    here = sys.modules[__name__]
    monkeypatch.setattr(here, "config", {"lr": 0.5, "opt": {"b": [1.0, 2.0]}, "name": "sgd"})
    monkeypatch.setattr(here, "layers", [Layer(1.0), Layer(2.0)])


def test_dict_item(follows: Any) -> None:
    got = follows(lambda x: x * config["lr"], lambda: config.update(lr=0.25), X, by="feed")
    assert got.hooks.asked == ["args[0]", "config['lr']"], "other items are not read"


def test_nested_item(follows: Any) -> None:
    follows(lambda x: x * config["opt"]["b"][-1], lambda: config["opt"]["b"].__setitem__(1, 7.0), X, by="feed")


def test_last_item_of_longer_list(follows: Any) -> None:
    follows(lambda x: x * config["opt"]["b"][-1], lambda: config["opt"]["b"].append(7.0), X, by="guard")


def test_item_through_local_name(follows: Any) -> None:
    def f(x: Any) -> Any:
        c = config
        return x * c["lr"]

    follows(f, lambda: config.update(lr=0.25), X)


@pytest.mark.parametrize("read", [
    lambda x: x * config.get("lr"),
    lambda x: x * sum(v for k, v in config.items() if k == "lr"),
    lambda x: x * [v for v in config.values()][0],  # noqa: C416, RUF015
    lambda x: (lambda lr, **rest: x * lr)(**config),
    lambda x: x * {**config}["lr"],
    lambda x: x * dict(config)["lr"],
    lambda x: x * operator.itemgetter("lr")(config),
    lambda x: x * (config | {})["lr"],
    lambda x: x * next(iter(config.values())),
], ids=range(9))
def test_dict_read_any_way(follows: Any, read: Any) -> None:
    follows(read, lambda: config.update(lr=0.25), X)


def test_key_in_dict(follows: Any) -> None:
    follows(lambda x: -x if "extra" in config else x, lambda: config.update(extra=1), X, by="guard")


def test_missing_key_caught(follows: Any) -> None:
    def f(x: Any) -> Any:
        try:
            return x * config["extra"]
        except KeyError:
            return x

    follows(f, lambda: config.update(extra=2.0), X, by="guard")


def test_key_order(follows: Any) -> None:
    pair = {"a": 1.0, "b": 2.0}

    def f(x: Any) -> Any:
        first, second = pair.values()
        return x * first - second

    def change() -> None:
        pair["a"] = pair.pop("a")

    follows(f, change, X, by="guard")


def test_list_iterated(follows: Any) -> None:
    def f(x: Any) -> Any:
        for layer in layers:
            x = layer.step(x)
        return x

    follows(f, lambda: setattr(layers[1], "lr", 7.0), X, by="feed")


def test_list_grows(follows: Any) -> None:
    def f(x: Any) -> Any:
        for layer in layers:
            x = layer.step(x)
        return x

    follows(f, lambda: layers.append(Layer(3.0)), X, by="guard")


def test_list_unpacked(follows: Any) -> None:
    pair = [1.0, 2.0]

    def f(x: Any) -> Any:
        a, b = pair
        return x * a + b

    follows(f, lambda: pair.__setitem__(0, 5.0), X, by="feed")


def test_tuple_of_arrays(follows: Any) -> None:
    held = types.SimpleNamespace(pair=(X * 2, 3.0))
    follows(lambda x: x * held.pair[0] + held.pair[1], lambda: setattr(held, "pair", (X, 1.0)), X, by="feed")


def test_star_arguments_from_state(follows: Any) -> None:
    pair = [1.0, 2.0]

    def inner(a: Any, b: Any, *, c: Any) -> Any:
        return a * b + c

    follows(lambda x: inner(*pair, c=x), lambda: pair.__setitem__(0, 5.0), X, by="feed")


@pytest.mark.parametrize("make", [
    lambda: OrderedDict([("lr", 0.5)]), lambda: defaultdict(float, {"lr": 0.5}), lambda: type("D", (dict,), {})(lr=0.5),
], ids=["ordered", "default", "own"])
def test_dict_subclass(follows: Any, make: Any) -> None:
    held = make()
    follows(lambda x: x * held["lr"], lambda: held.update(lr=5.0), X, by="feed")
    follows(lambda x: x * next(iter(held.values())), lambda: held.update(lr=7.0), X, by="feed")


def test_attribute_dict(follows: Any) -> None:
    class AttrDict(dict):  # type: ignore[type-arg]
        __getattr__ = dict.__getitem__

    held = AttrDict(lr=0.5)
    follows(lambda x: x * held.lr, lambda: held.update(lr=5.0), X)


def test_namedtuple(follows: Any) -> None:
    Point = namedtuple("Point", "a b")
    held = types.SimpleNamespace(p=Point(1.0, 2.0))
    follows(lambda x: x * held.p.a + held.p[1], lambda: setattr(held, "p", Point(5.0, 2.0)), X, by="feed")


def test_set(follows: Any) -> None:
    flags = {"a"}
    follows(lambda x: -x if "b" in flags else x, lambda: flags.add("b"), X, by="guard")


def test_large_list(follows: Any) -> None:
    table = list(range(3000))
    follows(lambda x: x * sum(table), lambda: table.__setitem__(5, 0), X, by="guard")


def test_large_list_indexed(follows: Any) -> None:
    table = [float(i) for i in range(3000)]
    got = follows(lambda x: x * table[2], lambda: table.__setitem__(2, 0.5), X, by="feed")
    assert len(got.guard_log.guards) < 6

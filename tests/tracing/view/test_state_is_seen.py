"""Every place of Python state that a function can read: same result, guards that hold, changes that count."""
from __future__ import annotations

import contextlib
import copy
import dataclasses
import enum
import functools
import importlib
import operator
import sys
import types
from collections import OrderedDict, defaultdict, namedtuple
from typing import Any

import numpy as np
import pytest

X = np.array([1.0, 2.0, 3.0])

rate = 0.5
weights = np.array([1.0, 10.0, 100.0])
mode = "fast"
config: dict[str, Any] = {}
layers: list[Any] = []


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


def helper(x: Any) -> Any:
    return x * rate


@pytest.fixture(autouse=True)
def _reset(monkeypatch: pytest.MonkeyPatch) -> None:
    here = sys.modules[__name__]
    for name, value in {"rate": 0.5, "weights": np.array([1.0, 10.0, 100.0]), "mode": "fast", "model": Model(),
                        "config": {"lr": 0.5, "opt": {"b": [1.0, 2.0]}, "name": "sgd"},
                        "layers": [Model(1.0), Model(2.0)], "helper": helper}.items():
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
    assert got.trail.why_failed((X,)) == "mode: was 'fast', is 'slow'"


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


def test_cached_property(follows: Any) -> None:
    class Table:
        size = 2.0

        @functools.cached_property
        def values(self) -> Any:
            return self.size * 10

    table = Table()

    def change() -> None:
        table.size = 4.0
        table.__dict__.pop("values", None)

    fn = lambda x: x + table.values  # noqa: E731
    fn(X)
    got = follows(fn, change, X)
    assert "table.values" in got.hooks.asked


def test_cached_property_does_not_keep_traced_values(trace: Any) -> None:
    class Table:
        size = 2.0

        @functools.cached_property
        def values(self) -> Any:
            return self.size * 10

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

    follows(f, lambda: layers.append(Model(3.0)), X, by="guard")


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
    assert len(got.trail.guards) < 6


def test_helper_redefined(follows: Any) -> None:
    follows(lambda x: helper(x), put("helper", lambda x: -x), X, by="guard")


def test_helper_reads_state(follows: Any) -> None:
    follows(lambda x: helper(x), put("rate", 5.0), X, by="feed")


def test_helper_code_changed(follows: Any) -> None:
    def inner(x: Any) -> Any:
        return x + 1

    follows(lambda x: inner(x), lambda: setattr(inner, "__code__", (lambda x: -x).__code__), X, by="guard")


def test_defaults_changed(follows: Any) -> None:
    def f(x: Any, k: float = 2.0) -> Any:
        return x * k

    follows(f, lambda: setattr(f, "__defaults__", (3.0,)), X)


def test_helper_defaults_changed(follows: Any) -> None:
    def inner(x: Any, k: float = 2.0, *, c: float = 1.0) -> Any:
        return x * k + c

    follows(lambda x: inner(x), lambda: setattr(inner, "__defaults__", (3.0,)), X)
    follows(lambda x: inner(x), lambda: inner.__kwdefaults__.update(c=5.0), X)


def test_default_that_equals_an_argument(trace: Any) -> None:
    def inner(x: Any, k: float = 2.0) -> Any:
        return x * k

    got = trace(lambda x: inner(x, 2.0), X)
    np.testing.assert_array_equal(got.replay(), X * 2.0)


def test_default_array_and_container(follows: Any) -> None:
    w, c = X.copy(), {"lr": 0.5}

    def f(x: Any, w: Any = w, *, c: Any = c) -> Any:
        return x * w + c["lr"]

    follows(f, lambda: w.__setitem__(0, 5.0), X, by="feed")
    follows(f, lambda: c.update(lr=5.0), X, by="feed")


def test_partial(follows: Any) -> None:
    held = types.SimpleNamespace(p=functools.partial(helper_with, 2.0, c=3.0))
    follows(lambda x: held.p(x), lambda: setattr(held, "p", functools.partial(helper_with, 5.0, c=3.0)), X, by="feed")
    follows(lambda x: held.p(x), put("rate", 7.0), X, by="feed")
    follows(lambda x: held.p(x), lambda: setattr(held, "p", functools.partial(helper_with, 5.0, c=1.0)), X)


def helper_with(k: Any, x: Any, c: Any = 1.0) -> Any:
    return x * k * rate + c


def test_closure_number(follows: Any) -> None:
    k = 2.0

    def f(x: Any) -> Any:
        return x * k

    def change() -> None:
        nonlocal k
        k = 3.0

    assert follows(f, change, X, by="feed").hooks.asked == ["args[0]", "k"]


def test_module_helper(follows: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "user_helpers.py").write_text("lr = 0.5\ndef scaled(x):\n    return x * lr\n")
    mod = importlib.import_module("user_helpers")
    follows(lambda x: mod.scaled(x), lambda: setattr(mod, "lr", 5.0), X, by="feed")
    follows(lambda x: mod.lr * x, lambda: setattr(mod, "lr", 6.0), X, by="feed")
    follows(lambda x: mod.scaled(x), lambda: setattr(mod, "scaled", lambda x: -x), X, by="guard")


def test_local_import(follows: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "user_local.py").write_text("lr = 0.5\ndef scaled(x):\n    return x * lr\n")

    def f(x: Any) -> Any:
        import user_local
        from user_local import lr, scaled
        return scaled(x) + user_local.lr + lr

    importlib.import_module("user_local")
    follows(f, lambda: setattr(sys.modules["user_local"], "lr", 5.0), X, by="feed")


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


def test_wrapped_helper(follows: Any) -> None:
    def doubling(fn: Any) -> Any:
        @functools.wraps(fn)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return fn(*args, **kwargs) * 2

        return wrapper

    @doubling
    def inner(x: Any) -> Any:
        return x * rate

    follows(lambda x: inner(x), put("rate", 5.0), X, by="feed")


def test_context_manager_helper(follows: Any) -> None:
    @contextlib.contextmanager
    def scope() -> Any:
        yield rate

    def f(x: Any) -> Any:
        with scope() as r:
            return x * r

    follows(f, put("rate", 5.0), X, by="feed")


def test_singledispatch_helper(follows: Any) -> None:
    @functools.singledispatch
    def inner(x: Any) -> Any:
        return x * rate

    follows(lambda x: inner(x), put("rate", 5.0), X, by="feed")


def test_generator_helper(follows: Any) -> None:
    def parts(x: Any) -> Any:
        for k in (1.0, 2.0):
            yield x * k * rate

    follows(lambda x: sum(parts(x)), put("rate", 5.0), X, by="feed")


def test_recursive_helper(follows: Any) -> None:
    def power(x: Any, n: int) -> Any:
        return x if n == 0 else power(x, n - 1) * rate

    follows(lambda x: power(x, 3), put("rate", 5.0), X, by="feed")


def test_function_passed_to_map(follows: Any) -> None:
    follows(lambda x: sum(map(helper, [x, x])), put("rate", 5.0), X, by="feed")


def test_lambda_comprehension_nested(follows: Any) -> None:
    def f(x: Any) -> Any:
        def inner() -> Any:
            return [(lambda: x * rate * i)() for i in range(2)]

        return inner()[1]

    follows(f, put("rate", 5.0), X, by="feed")


def test_builtin_hidden_by_global(follows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    follows(lambda x: x * len("ab"), lambda: monkeypatch.setitem(globals(), "len", lambda s: 7), X, by="guard")


def test_singleton_from_lru_cache(follows: Any) -> None:
    @functools.lru_cache
    def the_config() -> Any:
        return Model(0.5)

    follows(lambda x: x * the_config().lr, lambda: setattr(the_config(), "lr", 5.0), X, by="feed")


def test_lru_cache_stays_clean(trace: Any) -> None:
    @functools.lru_cache
    def table(n: int) -> Any:
        return n * rate

    np.testing.assert_array_equal(trace(lambda x: x * table(len(config)), X).result, X * 1.5)
    assert table(3) == 1.5


def test_object_from_installed_code(follows: Any) -> None:
    import contextvars

    variable: Any = contextvars.ContextVar("v", default=model)
    follows(lambda x: x * variable.get().lr, lambda: setattr(model, "lr", 5.0), X, by="feed")


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

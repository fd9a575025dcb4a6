"""Unusual objects: seen, or honestly volatile; never an error, never guards that fail without a change."""
from __future__ import annotations

import abc
import collections
import functools
import itertools
import pathlib
import sys
import types
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

from jitfuse.errors import VolatileError

X = np.array([1.0, 2.0, 3.0])


class AttrDict(dict):  # type: ignore[type-arg]
    __getattr__ = dict.__getitem__


class HasOptions:
    options = AttrDict(a=1.0)

    def step(self, x: Any) -> Any:
        return x * self.options.a


class Meta(type):
    @property
    def twice(cls) -> Any:
        return cls.v * 2  # type: ignore[attr-defined]

    def __getitem__(cls, key: str) -> Any:
        return cls.v * 3  # type: ignore[attr-defined]


class WithMeta(metaclass=Meta):
    v = 2.0


class Registry:
    table: ClassVar[dict[str, Any]] = {}

    @classmethod
    def add(cls, fn: Any) -> Any:
        cls.table[fn.__name__] = fn
        return fn


gain = 2.0


@Registry.add
def relu(x: Any) -> Any:
    return x * gain


@pytest.fixture(autouse=True)
def _reset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "gain", 2.0)
    monkeypatch.setattr(WithMeta, "v", 2.0)
    monkeypatch.setitem(HasOptions.options, "a", 1.0)
    monkeypatch.setitem(Registry.table, "relu", relu)


def set_gain() -> None:
    globals()["gain"] = 5.0


def test_attribute_dict_on_class(follows: Any) -> None:
    h = HasOptions()
    follows(lambda x: h.step(x), lambda: HasOptions.options.update(a=5.0), X)


def test_metaclass(follows: Any) -> None:
    follows(lambda x: x * WithMeta.twice + WithMeta["k"], lambda: setattr(WithMeta, "v", 5.0), X, by="feed")


def test_registry(follows: Any) -> None:
    follows(lambda x: Registry.table["relu"](x), set_gain, X, by="feed")
    follows(lambda x: Registry.table.get("relu")(x), lambda: Registry.table.update(relu=lambda x: -x), X, by="guard")


def test_partial_of_method_and_partialmethod(follows: Any) -> None:
    class Scaler:
        k = 2.0

        def base(self, x: Any, n: Any) -> Any:
            return x * n * self.k

        two = functools.partialmethod(base, n=2)

    s = Scaler()
    bound = functools.partial(s.base, n=3.0)
    follows(lambda x: bound(x) + s.two(x), lambda: setattr(s, "k", 5.0), X, by="feed")


def test_abstract_class_and_isinstance(follows: Any) -> None:
    class Base(abc.ABC):
        k = 2.0

        @abc.abstractmethod
        def go(self, x: Any) -> Any: ...

    class Child(Base):
        def go(self, x: Any) -> Any:
            return x * self.k

    child = Child()
    follows(lambda x: child.go(x) if isinstance(child, Base) and callable(child.go) else -x,
            lambda: setattr(Base, "k", 5.0), X, by="feed")


def test_context_object(follows: Any) -> None:
    class Scope:
        k = 2.0

        def __enter__(self) -> Any:
            return self.k

        def __exit__(self, *_: object) -> None:
            return None

    scope = Scope()

    def f(x: Any) -> Any:
        with scope as k:
            return x * k

    follows(f, lambda: setattr(scope, "k", 5.0), X, by="feed")


def test_iterator_object_of_user_class(follows: Any) -> None:
    class Rates:
        values = (1.0, 2.0)

        def __iter__(self) -> Any:
            return iter(self.values)

        def __len__(self) -> int:
            return len(self.values)

        def __contains__(self, value: Any) -> bool:
            return value in (1.0,)

    rates = Rates()
    follows(lambda x: x * sum(rates) * len(rates), lambda: setattr(rates, "values", (1.0, 5.0)), X, by="feed")
    follows(lambda x: x * sum(rates) * len(rates), lambda: setattr(rates, "values", (1.0, 5.0, 6.0)), X, by="guard")


def test_comparison_and_truth_of_user_class(follows: Any) -> None:
    class Level:
        def __init__(self, n: str) -> None:
            self.n = n

        def __eq__(self, other: Any) -> bool:
            return bool(self.n == other.n)

        def __hash__(self) -> int:
            return hash(self.n)

        def __bool__(self) -> bool:
            return self.n != "zero"

    a, b = Level("one"), Level("one")
    follows(lambda x: x if a == b else -x, lambda: setattr(b, "n", "two"), X, by="guard")
    follows(lambda x: x if a else -x, lambda: setattr(a, "n", "zero"), X, by="guard")


def test_deque(follows: Any) -> None:
    buffer = collections.deque([1.0, 2.0])
    follows(lambda x: x * buffer[0] + sum(buffer), lambda: buffer.append(5.0), X, by="guard")


def test_iterators_are_volatile(trace: Any) -> None:
    counter = itertools.count()
    with pytest.raises(VolatileError, match="iterator"):
        trace(lambda x: x * next(counter), X)
    assert next(counter) == 0


def test_named_tuple_methods(follows: Any) -> None:
    class Point(NamedTuple):
        a: float
        b: list[float]

    held = types.SimpleNamespace(p=Point(1.0, [2.0]))
    follows(lambda x: x * held.p._asdict()["a"] + held.p._replace(a=5.0).b[0], lambda: held.p.b.__setitem__(0, 7.0), X,
            by="feed")


def test_container_in_itself(trace: Any) -> None:
    loop: list[Any] = [2.0]
    loop.append(loop)
    got = trace(lambda x: x * loop[1][1][0] + len(list(loop)), X)
    np.testing.assert_array_equal(got.result, X * 2 + 2)
    assert got.holds


def test_many_arrays(follows: Any) -> None:
    big = {f"k{i}": np.ones(3) * i for i in range(2500)}
    got = follows(lambda x: x * big["k3"], lambda: big["k3"].__setitem__(0, 7.0), X, by="feed")
    assert len(got.hooks.asked) == 2


def test_computed_attributes_of_installed_classes(follows: Any) -> None:
    path = types.SimpleNamespace(p=pathlib.PurePosixPath("a/b/c"))
    got = follows(lambda x: x * len(path.p.parts) + len(path.p.parents) + len(path.p.parts),
                  lambda: setattr(path, "p", pathlib.PurePosixPath("a")), X, by="guard")
    assert not got.guard_log.volatile


def test_module_getattr(follows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("made_up")
    exec("state = {'lr': 0.5}\ndef __getattr__(name):\n    return state[name]\n", vars(module))
    follows(lambda x: x * module.lr, lambda: module.state.update(lr=5.0), X)


def test_function_attributes(follows: Any) -> None:
    def helper(x: Any) -> Any:
        return x * helper.k  # type: ignore[attr-defined]

    helper.k = 2.0  # type: ignore[attr-defined]
    follows(lambda x: helper(x), lambda: setattr(helper, "k", 5.0), X, by="feed")


def test_long_keyword_defaults_and_positional_only(follows: Any) -> None:
    def helper(x: Any, /, a: Any = 1.0, *rest: Any, k: Any = (2.0, 3.0), **more: Any) -> Any:
        return x * a + sum(k) + sum(rest) + sum(more.values())

    follows(lambda x: helper(x, 2.0, 3.0, z=gain), set_gain, X, by="feed")
    follows(lambda x: helper(x), lambda: helper.__kwdefaults__.update(k=(9.0,)), X)


def test_settle_before_commit(trace: Any) -> None:
    from jitfuse.tracing.interception.chain import Chain
    from jitfuse.tracing.interception.reader import TracingEnvironment

    items: list[Any] = []
    view = TracingEnvironment(trace(lambda: None).hooks)
    view.run(lambda x: items.append(1), [view.read(Chain.arg(0), X)], {})
    assert view.settle((X,)) == ["items is changed by the function"] and items == []
    view.commit((X,))
    assert items == [1] and len(view.guard_log.volatile) == 1


def test_eval_and_exec(follows: Any) -> None:
    k = 3.0
    follows(lambda x: x * eval("gain + k", globals(), {"k": k}), set_gain, X, by="feed")

    def f(x: Any) -> Any:
        space = {"x": x}
        exec("y = x * 2\ndef g(v):\n    return v + y\nz = g(x)", space)
        return eval(" space['z'] * gain ")

    globals()["gain"] = 2.0
    follows(f, set_gain, X, by="feed")


def test_cached_method(trace: Any) -> None:
    class Table:
        k = 2.0

        @functools.lru_cache  # noqa: B019
        def row(self, n: int) -> Any:
            return np.arange(3.0) * n

    table = Table()
    with pytest.raises(VolatileError, match="row is called"):
        trace(lambda x: x + table.row(2) * table.k, X)
    assert not Table.row.cache_info().currsize


def test_decorated_partial_method_and_callable(follows: Any) -> None:
    class Scaler:
        k = 2.0

        def __call__(self, x: Any) -> Any:
            return x * self.k

    s = Scaler()
    follows(s, lambda: setattr(s, "k", 5.0), X, by="feed")
    follows(s.__call__, lambda: setattr(s, "k", 6.0), X, by="feed")
    w = X.copy()
    follows(functools.partial(lambda w, x: w * x * gain, w), lambda: w.__setitem__(0, 9.0), X, by="feed")

"""What helpers, defaults, closures, modules and wrappers read is checked, or read again, in each call."""
from __future__ import annotations

import contextlib
import functools
import importlib
import sys
import types
from typing import Any

import numpy as np
import pytest

X = np.array([1.0, 2.0, 3.0])

rate = 0.5
config = {"lr": 0.5, "decay": 0.1, "name": "sgd"}


class Model:
    def __init__(self, lr: float) -> None:
        self.lr = lr


def helper(x: Any) -> Any:
    return x * rate


@pytest.fixture(autouse=True)
def _reset(monkeypatch: pytest.MonkeyPatch) -> None:
    here = sys.modules[__name__]
    monkeypatch.setattr(here, "rate", 0.5)
    monkeypatch.setattr(here, "helper", helper)


def put(name: str, value: Any) -> Any:
    return lambda: setattr(sys.modules[__name__], name, value)


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

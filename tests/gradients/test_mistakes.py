"""Typical mistakes with derivatives: each error is of its type, names the line of the call, and says what to do."""
from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special

import jitfuse as jf
from jitfuse.errors import UnsupportedError

X = np.array([1.0, 2.0, 3.0])


class Model:
    """An object that is no tree."""

    weights = X


def decides(x: Any) -> Any:
    return np.sum(x) if x[0] > 0 else -np.sum(x)


def endless(x: Any) -> Any:
    return np.sum(jf.while_loop(lambda c: c[0] < 5, lambda c: c * 2, x))


@jf.custom_vjp
def undefined(x: Any) -> Any:
    return x


MISTAKES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a result that is no number": (lambda: jf.grad(lambda x: x * 2)(X), jf.DerivativeError, "Return its sum or mean"),
    "a complex result": (lambda: jf.grad(lambda x: np.sum(x * 1j))(X), jf.DerivativeError, "the real part"),
    "a result of integers": (lambda: jf.grad(lambda x: np.sum(x.astype(int)))(X), jf.DerivativeError, "int64"),
    "no result": (lambda: jf.grad(lambda x: None)(X), jf.DerivativeError, "returns nothing"),
    "two results": (lambda: jf.grad(lambda x: (np.sum(x), x))(X), jf.DerivativeError, "has_aux=True"),
    "no aux": (lambda: jf.grad(np.sum, has_aux=True)(X), jf.ArgumentError, "returns a pair"),
    "integers": (lambda: jf.grad(np.sum)(np.arange(3)), jf.DerivativeError, r"args\[0\] is int64.*Pass it as floats"),
    "bools": (lambda: jf.grad(np.sum)(X > 1), jf.DerivativeError, "bool"),
    "an integer in a tree": (
        lambda: jf.grad(lambda p: np.sum(p["w"]) * p["n"])({"w": X, "n": 3}), jf.DerivativeError,
        r"args\[0\]\['n'\] is int64.*argnums"),
    "an object": (lambda: jf.grad(lambda m: np.sum(m.weights))(Model()), jf.ArgumentError, "Model is no array"),
    "a position that is not there": (lambda: jf.grad(np.sum, argnums=2)(X), jf.ArgumentError, "argnums=2"),
    "no function": (lambda: jf.grad(X), jf.ArgumentError, "takes a function"),
    "a cotangent of another shape": (
        lambda: jf.vjp(np.sin, X)[1](np.ones(2)), jf.ShapeError, "Make both of one shape"),
    "a cotangent of another tree": (
        lambda: jf.vjp(lambda x: (x, x), X)[1](X), jf.ArgumentError, "same tree"),
    "a tangent of another dtype": (
        lambda: jf.jvp(np.sin, (X,), (np.ones(3, "float32"),)), jf.DTypeError, "Cast one of them"),
    "a decision by a value": (lambda: jf.grad(decides)(X), jf.TracedValueError, r"np.where.*jf.cond"),
    "a value as a Python number": (lambda: jf.grad(lambda x: float(np.sum(x)) * x[0])(X), jf.TracedValueError, "Keep"),
    "a function without operators": (
        lambda: jf.grad(lambda x: np.sum(scipy.special.jv(1, x)))(X), UnsupportedError, "Call it outside"),
    "an operator without a derivative": (
        lambda: jf.grad(endless)(X), jf.DerivativeError, "Use jf.scan"),
    "a rule that is not there": (lambda: jf.grad(lambda x: np.sum(undefined(x)))(X), jf.DerivativeError, "defvjp"),
}


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.parametrize("fused", [False, True])
def test_mistakes_are_explained(name: str, fused: bool) -> None:
    call, error, text = MISTAKES[name]
    with pytest.raises(error, match=text) as caught:
        (jf.fuse(call, strict=True) if fused else call)()
    assert name == "no function" or f"{Path(__file__).name}:" in str(caught.value)
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert last.filename == __file__, "the traceback ends in the user's code"


def test_what_is_no_mistake() -> None:
    found = jf.grad(lambda p: np.sum(p["w"] ** 2))({"w": X, "b": None})
    assert found["b"] is None
    np.testing.assert_array_equal(found["w"], 2 * X)

    def adds(x: Any) -> Any:
        x += 1
        return np.sum(x * x)

    before = X.copy()
    np.testing.assert_array_equal(jf.grad(adds)(X), 2 * (X + 1))
    np.testing.assert_array_equal(X, before)
    np.testing.assert_array_equal(jf.grad(lambda x: np.sum(np.ones(3)))(X), np.zeros(3))
    np.testing.assert_array_equal(jf.grad(lambda x: 1.0)(X), np.zeros(3))


def test_an_error_in_a_body_names_one_line() -> None:
    @jf.custom_vjp
    def reversed_only(x: Any) -> Any:
        return x

    reversed_only.defvjp(lambda x: (x, None), lambda kept, g: (g,))

    def body(c: Any, v: Any) -> Any:
        return reversed_only(c * v), c

    with pytest.raises(jf.DerivativeError, match="has no forward-mode derivative") as caught:
        jf.jvp(lambda x: jf.scan(body, x[0], x)[0], (X,), (X,))
    assert str(caught.value).count("(at ") == 1

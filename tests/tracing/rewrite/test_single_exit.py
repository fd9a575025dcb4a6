"""Functions that return early, called in loops and where data is looked at: they are what they are in plain Python."""
from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import outcome

import jitfuse as jf
from jitfuse.tracing.rewrite import single_exit


def sign(v: Any) -> Any:
    """Two returns, and a third."""
    if v > 0.25:
        return 1
    if v < -0.25:
        return -1
    return 0


def clipped(v: Any, low: Any, high: Any) -> Any:
    if v < low:
        v = low * 2
        return v
    elif v > high:
        return high
    else:
        w = v * v
        return w + 1


def halvings(v: Any, most: int) -> Any:
    for n in range(most):
        v = v * 0.5
        if abs(v) < 0.1:
            return n
    return most


def first_above(v: Any) -> Any:
    k = 0
    while k < 8:
        v = v + 0.25
        if v > 1:
            return True
        k += 1
    return False


def factorial(n: Any) -> Any:
    if n < 1:
        return 1.0
    return n * factorial(n - 1)


def nothing(v: Any) -> Any:
    if v > 0:
        return None
    return v


def in_elements(x: Any) -> Any:
    out, kinds = np.zeros(len(x)), np.zeros(len(x), dtype=np.int64)
    for i in range(len(x)):
        out[i] = clipped(x[i], -0.5, 0.5)
        kinds[i] = sign(x[i]) + 10 * halvings(x[i], 6)
        if first_above(x[i]):
            out[i] += 1
    return out, kinds


def in_a_sum(x: Any) -> Any:
    total = 0.0
    for v in x:
        total = total * 0.5 + sign(v) * clipped(v, -1.0, 1.0)
    return total


def recursive(x: Any) -> Any:
    out = np.zeros(len(x))
    for i in range(len(x)):
        out[i] = factorial(abs(x[i]) * 2)
    return out


def without_a_value(x: Any) -> Any:
    return sum(1 for v in x if nothing(v) is None)


@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
@pytest.mark.parametrize("size", [0, 1, 5, 12, 30])
@pytest.mark.parametrize("function", [in_elements, in_a_sum, recursive, without_a_value])
def test_results(function: Callable[..., Any], size: int) -> None:
    fused = jf.fuse(function)
    for seed in range(4):
        x = np.random.default_rng(seed).normal(size=size)
        want, got = outcome(function, x), outcome(fused, x)
        assert not isinstance(got, Exception), got
        for a, b in zip(want if isinstance(want, tuple) else (want,), got if isinstance(got, tuple) else (got,)):
            assert type(a) is type(b)
            np.testing.assert_allclose(b, a, rtol=1e-14)


def _body(function: Callable[..., Any]) -> list[ast.stmt]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    return tree.body


@pytest.mark.parametrize("function", [sign, clipped, halvings, first_above, factorial])
def test_one_return_is_left(function: Callable[..., Any]) -> None:
    made = single_exit.rewritten(_body(function))
    assert made is not None and isinstance(made[-1], ast.Return)
    assert sum(isinstance(n, ast.Return) for s in made for n in ast.walk(s)) == 1
    space: dict[str, Any] = {}
    names = inspect.signature(function).parameters
    arguments = ast.arguments([], [ast.arg(n) for n in names], None, [], [], None, [])
    wrapped = ast.Module([ast.FunctionDef("again", arguments, made, [])], [])
    exec(compile(ast.fix_missing_locations(wrapped), "again", "exec"), {**globals()}, space)
    for v in np.linspace(-2, 2, 41):
        rest = (-0.5, 0.5)[: len(names) - 1] if len(names) == 3 else (6,) * (len(names) - 1)
        assert space["again"](v, *rest) == function(v, *rest)


def ends_without(v: Any) -> Any:
    if v > 0:
        return v


def twice_after(v: Any) -> Any:
    if v > 0:
        if v > 1:
            return 1
        v = v * 2
    return v + 1


def in_two_loops(v: Any) -> Any:
    for i in range(3):
        for j in range(3):
            if i * j > v:
                return i
    return -1


def endless(v: Any) -> Any:
    while True:
        v = v + 1
        if v > 3:
            return v


@pytest.mark.parametrize("function", [ends_without, twice_after, in_two_loops, endless])
def test_others_are_left_as_they_are(function: Callable[..., Any]) -> None:
    assert single_exit.rewritten(_body(function)) is None

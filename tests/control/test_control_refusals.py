"""Loops and branches that are refused, and errors within them."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from loops_checked import X, same

import jitfuse as jf
from jitfuse.errors import (
    ArgumentError,
    BoundsError,
    DTypeError,
    LeakedTracerError,
    ShapeError,
    UntraceableError,
)

ERRORS = (ShapeError, DTypeError, ArgumentError)


@pytest.mark.parametrize("wrap", [lambda f: f, jf.fuse], ids=["plain", "fused"])
class TestRefused:
    @pytest.mark.parametrize(("fn", "text"), [
        (lambda x: jf.fori_loop(0, 2, lambda i, c: c.astype("float32"), x),
         r"carry is float64\[7\] in what the loop starts with, and float32\[7\] in what body_fn returns"),
        (lambda x: jf.while_loop(lambda c: c["a"][0] < 1, lambda c: {"a": c["a"][1:]}, {"a": x}),
         r"carry\['a'\] is float64\[7\] in what the loop starts with, and float64\[6\] in what body_fn returns"),
        (lambda x: jf.scan(lambda c, v: ((c, v), v), 0.0, x), r"with is one value, what f returns is \('\*', '\*"),
        (lambda x: jf.scan(lambda c, v: c, 0.0, x), r"has to return a pair"),
        (lambda x: jf.scan(lambda c, v: (c, v), 0.0, (x, x[1:])), r"xs\[0\] has 7 parts .* and xs\[1\] has 6"),
        (lambda x: jf.scan(lambda c, v: (c, v), 0.0, x, length=3), "xs has 7 parts .* and length is 3"),
        (lambda x: jf.scan(lambda c, v: (c, c), 0.0), "or a length"),
        (lambda x: jf.fori_loop(0, x[0], lambda i, c: c, 0.0), "upper is one integer"),
        (lambda x: jf.cond(x > 0, lambda: x, lambda: x), r"cond decides by one value.*use np.any"),
        (lambda x: jf.fori_loop(0, 2, lambda i, c: c + 0.5, 0), r"carry is int64\[\] in .* float64\[\] in"),
        (lambda x: jf.fori_loop(0, 2, lambda i, c: None, x), "must be the same tree"),
        (lambda x: jf.map(lambda v: "text", x), "str is no array or number"),
    ])
    def test_types(self, wrap: Any, fn: Any, text: str) -> None:
        with pytest.raises(ERRORS, match=text):
            wrap(fn)(X)


def test_branches_that_differ() -> None:
    with pytest.raises(ShapeError, match=r"result is float64\[7\] in what true_fn returns, and float64\[6\]"):
        jf.fuse(lambda x: jf.cond(x[0] > 0, lambda: x, lambda: x[1:]), strict=True)(X)
    with pytest.raises(ArgumentError, match=r"true_fn returns is \('\*', '\*'\), what false_fn returns is one value"):
        jf.fuse(lambda x: jf.cond(x[0] > 0, lambda: (x, x), lambda: x), strict=True)(X)


def test_what_would_leave_a_body() -> None:
    def writes(x: Any) -> Any:
        out = np.zeros(3)

        def body(i: Any, c: Any) -> Any:
            out[i] = c
            return c + 1

        jf.fori_loop(0, 3, body, 0.0)
        return out

    def keeps(x: Any, within: bool) -> Any:
        kept: list[Any] = []

        def body(i: Any, c: Any) -> Any:
            kept.append(c * 2)
            return c + 1

        r = jf.fori_loop(0, 3, body, 0.0)
        return jf.fori_loop(0, 3, lambda i, c: c + kept[0], r) if within else r + kept[0]

    with pytest.raises(UntraceableError, match=r"writes at .* into an array from outside of it: the result of zeros"):
        jf.fuse(writes, strict=True)(X)
    for within in (False, True):
        with pytest.raises(LeakedTracerError, match=r"carry \(float64\[\]\) of body_fn of fori_loop is used outside"):
            jf.fuse(keeps, static_argnames=("within",), strict=True)(X, within=within)
    with pytest.raises(UntraceableError, match="cond_fn of while_loop draws random numbers"):
        jf.fuse(lambda x: jf.while_loop(lambda c: jf.random.uniform() < 0.5, lambda c: c, x), strict=True)(X)


def test_an_error_in_a_loop_ends_the_call_before_anything_is_written() -> None:
    def fn(x: Any, n: int) -> Any:
        y = jf.fori_loop(0, n, lambda i, c: c + x[i], 0.0)
        x[0] = y

    fused, x = jf.fuse(fn), X.copy()
    fused(x, 2)
    assert x[0] == X[0] + X[1]
    before = x.copy()
    for _ in range(2):
        with pytest.raises(BoundsError, match="index 7 is out of bounds for axis 0 with size 7"):
            fused(x, 9)
        same(x, before)

"""Drawn loops whose iterations are replicated, against plain Python."""
from __future__ import annotations

import linecache
from typing import Any

import amount
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import outcome

import jitfuse as jf

LINEAR = st.sampled_from(["i", "i - 1", "i + 1", "i - 19", "i + 2", "2 * i", "-i", "n - 1 - i", "3", "-1", "i - n"])
PIECES = st.one_of(
    LINEAR.map(lambda index: f"x[{index}]"), LINEAR.map(lambda index: f"y[{index}]"),
    st.tuples(LINEAR, st.integers(1, 12)).map(lambda p: f"x[{p[0]} : {p[0]} + {p[1]}].sum()"),
    st.tuples(LINEAR, LINEAR, st.sampled_from(["", ":2", ":-1"])).map(lambda p: f"x[{p[0]} : {p[1]}{p[2]}].sum()"),
    st.tuples(LINEAR).map(lambda p: f"float(y[{p[0]} :].size)"),
    st.sampled_from(["s", "t", "0.5", "z[i, 1]", "z[1].sum()", "w", "i", "float(k)", "z[i - 1, i % 2]"]),
)
VALUES = st.recursive(PIECES, lambda inner: st.one_of(
    st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda p: f"({p[0]} {p[1]} 0.25 * {p[2]})"),
    inner.map(lambda v: f"np.tanh({v})"),
    st.tuples(inner, inner).map(lambda p: f"max({p[0]}, {p[1]})"),
    st.tuples(inner, inner, inner).map(lambda p: f"({p[0]} if {p[1]} > 0 else {p[2]})"),
), max_leaves=3)
TARGETS = st.one_of(
    LINEAR.map(lambda index: f"x[{index}]"), LINEAR.map(lambda index: f"y[{index}]"),
    st.sampled_from(["s", "t", "w", "z[i, 0]", "z[i]", "z[0, i % 2]"]),
)
STATEMENTS = st.one_of(
    st.tuples(TARGETS, VALUES).map(lambda p: f"{p[0]} = {p[1]}"),
    st.tuples(TARGETS, VALUES).map(lambda p: f"{p[0]} += {p[1]}"),
    st.tuples(VALUES, TARGETS, VALUES).map(lambda p: f"if {p[0]} > 0.1: {p[1]} = {p[2]}"),
    st.just("s, t = t, s"), st.just("x, y = y, x"), st.just("k = k + 1"), st.just("w = -w"),
    st.tuples(LINEAR, VALUES).map(lambda p: f"x[{p[0]} :] = {p[1]}"),
    st.tuples(VALUES, TARGETS).map(lambda p: f"for j in range(y[n:].size): {p[1]} = {p[0]}"),
    st.tuples(VALUES).map(lambda p: f"for j in range(17): z[i, 1] = z[i, 1] * 0.5 + {p[0]} * x[j]"),
)


@pytest.mark.full
@given(st.lists(STATEMENTS, min_size=1, max_size=4), st.sampled_from([16, 23, 40]), st.sampled_from(["n", "n - 1"]))
@settings(max_examples=amount.drawn(36), deadline=None)
@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
def test_drawn(statements: list[str], size: int, count: str) -> None:
    body = "\n".join(f"        {statement}" for statement in statements)
    source = ("def function(x, y, z):\n    n, s, t, w, k = len(x), 0.5, x[0], 2.0, 0\n"
              f"    for i in range({count}):\n{body}\n    return x, y, s, t, w, k\n")
    name = f"/drawn/loop_{abs(hash(source))}.py"
    linecache.cache[name] = len(source), None, source.splitlines(True), name
    space: dict[str, Any] = {"np": np}
    exec(compile(source, name, "exec"), space)
    rng = np.random.default_rng(size)
    x, y, z = rng.normal(size=size), rng.normal(size=size), rng.normal(size=(size, 2))
    fused = jf.fuse(space["function"])
    with np.errstate(all="ignore"):
        for _ in range(2):
            plain, seen = ([v.copy() for v in (x, y, z)] for _ in range(2))
            want, got = outcome(space["function"], *plain), outcome(fused, *seen)
            if isinstance(want, Exception):
                assert isinstance(got, type(want)), source
                continue
            assert not isinstance(got, Exception), (source, got)
            for a, b in zip((*want, *plain), (*got, *seen), strict=True):
                np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-9, err_msg=source)

"""Drawn loops whose iterations may be computed side by side, against plain Python."""
from __future__ import annotations

import linecache
from typing import Any

import amount
import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import LOOPS

_READS = ("x[i]", "y[i]", "a[i, j]", "b[i, j]", "b[j, i]", "x[j]", "y[i - 1]", "x[(i + j) % n]", "b[i, k[j]]",
          "x[k[i]]", "float(i)", "s", "1.5", "b[i].sum()", "b[0, j]")
_TERMS = st.recursive(
    st.sampled_from(_READS),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} if {t[1]} > {t[2]} else {t[0]})"),
        inner.map(lambda t: f"abs({t})")),
    max_leaves=5)
_CONDITIONS = st.one_of(
    st.tuples(_TERMS, st.sampled_from(["<", ">="]), _TERMS).map(lambda t: f"{t[0]} {t[1]} {t[2]}"),
    st.sampled_from(["i != j", "i > 0", "j < i", "i > 0 and x[i - 1] > x[i]"]))
_STEPS = st.one_of(
    st.tuples(st.sampled_from(["a[i, j]", "x[i]", "a[j, i]", "c[i]"]), st.sampled_from(["=", "+=", "-="]), _TERMS).map(
        " ".join),
    _TERMS.map(lambda t: f"s = {t}"),
    st.sampled_from(["m += 1", "m += i - j", "c[k[i]] += 1.0"]))
_BRANCHES = st.one_of(_STEPS, st.tuples(_CONDITIONS, _STEPS, _STEPS).map(
    lambda t: f"if {t[0]}:\n                {t[1]}\n            else:\n                {t[2]}"))
_RANGES = st.sampled_from(["range(n)", "range(n)", "range(i)", "range(i + 1, n)", "range(0, n, 2)", "range(3)"])


@settings(max_examples=amount.drawn(40), deadline=None)
@given(st.lists(_BRANCHES, min_size=1, max_size=3), _RANGES, st.sampled_from([4, 5, 9]))
@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
def test_drawn(statements: list[str], inner: str, size: int) -> None:
    body = "\n".join(f"            {statement}" for statement in statements)
    source = ("def function(x, y, a, b, c, k):\n    n, s, m = len(x), 0.5, 0\n"
              "    for i in range(n):\n        s = x[i]\n"
              f"        for j in {inner}:\n{body}\n    return x, y, a, c, s, m\n")
    name = f"/drawn/spread_{abs(hash(source))}.py"
    linecache.cache[name] = len(source), None, source.splitlines(True), name
    space: dict[str, Any] = {"np": np}
    exec(compile(source, name, "exec"), space)
    rng = np.random.default_rng(size)
    arguments = [rng.normal(size=size), rng.normal(size=size), rng.normal(size=(size, size)),
                 rng.normal(size=(size, size)), rng.normal(size=size), rng.integers(0, size, size)]
    oracle.check(space["function"], tuple(arguments), within=LOOPS, errors=Exception, compiled=False)

"""Loops and branches of random bodies, against the same written out in Python.

JITFUSE_TEST_SCALE multiplies the number of random bodies.
"""
from __future__ import annotations

from typing import Any

import numpy as np
from amount import drawn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loops_checked import Written, same

import jitfuse as jf
from jitfuse.backends.interpreter.runner import ProgramRunner
from jitfuse.ir.analysis.verify import verify

DTYPES = ("bool", "int16", "uint32", "int64", "float16", "float32", "float64", "complex64")
Recipe = tuple[Any, ...]
ATOMS = st.sampled_from(["add", "mul", "outer", "index", "where", "half", "shift"]).map(lambda name: (name,))


def _nested(inner: st.SearchStrategy[Recipe]) -> st.SearchStrategy[Recipe]:
    body = st.lists(inner, min_size=1, max_size=3).map(tuple)
    return (
        st.tuples(st.just("for"), st.integers(0, 3), body) | st.tuples(st.just("while"), st.integers(0, 3), body)
        | st.tuples(st.just("cond"), body, body) | st.tuples(st.just("scan"), st.booleans(), body)
    )


RECIPES = _nested(ATOMS | _nested(ATOMS | _nested(ATOMS)))


def apply(control: Any, body: tuple[Recipe, ...], a: Any, count: Any, around: Any) -> Any:
    """Carry out the steps of a body on (array, counter); `around` are arrays of the function around all loops."""
    x, rows = around
    for step in body:
        name, dtype = step[0], x.dtype
        with np.errstate(all="ignore"):
            if name == "add":
                a = (a + x).astype(dtype)
            elif name == "mul":
                a = (a * x).astype(dtype)
            elif name == "outer":
                a = (a + rows.sum(axis=0)).astype(dtype)
            elif name == "index":
                a = (a * (count % 3).astype(dtype)).astype(dtype)
            elif name == "where":
                a = np.where(count % 2 == 0, a, x)
            elif name == "half":
                a = np.where(a == x, x, a)
            elif name == "shift":
                a = np.concatenate([a[1:], a[:1]])
            elif name == "for":
                a, count = control.fori_loop(
                    0, step[1], lambda i, c, step=step: apply(control, step[2], c[0], c[1] + i, around), (a, count)
                )
            elif name == "while":
                def turn(c: Any, step: Any = step) -> Any:
                    return (*apply(control, step[2], c[0], c[1], around), c[2] + 1)

                start = (a, count, np.int64(0))
                a, count, _ = control.while_loop(lambda c, step=step: c[2] < step[1], turn, start)
            elif name == "cond":
                a, count = control.cond(
                    count % 2 == 0, lambda a, n, step=step: apply(control, step[1], a, n, around),
                    lambda a, n, step=step: apply(control, step[2], a, n, around), a, count,
                )
            else:
                def row(c: Any, r: Any, step: Any = step) -> Any:
                    new = apply(control, step[2], (c[0] + r).astype(x.dtype), c[1] + 1, around)
                    return new, new[0]

                (a, count), ys = control.scan(row, (a, count), rows, reverse=step[1])
                a = np.where(ys[0] == a, a, ys[-1])
    return a, count


@settings(max_examples=drawn(8), deadline=None, suppress_health_check=list(HealthCheck))
@given(RECIPES, st.sampled_from(DTYPES), st.sampled_from([0, 1, 5]), st.integers(0, 2**31))
def test_random_bodies(recipe: Recipe, dtype: str, size: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    x = random.integers(0, 4, size).astype(dtype)
    if dtype.startswith("float") and size:
        x[0] = random.choice([np.nan, np.inf, -0.0, 1.5])
    rows = random.integers(0, 3, (2, size)).astype(dtype)

    def fn(x: Any, rows: Any, n: Any, control: Any = jf) -> Any:
        return apply(control, (recipe, ("add",)), x, n[0] + 0, (x, rows))

    n = np.array([seed % 5])
    with np.errstate(all="ignore"):
        want = fn(x, rows, n, Written)
        same(fn(x, rows, n), want)
    fused = jf.fuse(lambda x, rows, n: fn(x, rows, n))
    for _ in range(2):
        same(fused(x, rows, n), want)
    program = fused.program(x, rows, n)
    verify(program)
    sources = fused.parts.specs[0].trace.feeds  # among them numbers of the recipe
    feeds = {f: sources[f].source.resolve((x, rows, n), {}) for f in program.feeds}
    same(list(ProgramRunner(program)(feeds).outputs.values()), list(want))

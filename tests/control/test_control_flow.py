"""Loops and branches: fused, interpreted and plain runs against loops written out in Python."""
from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loops_checked import Written, X, check, same

import jitfuse as jf
from jitfuse.backends.interpreter.runner import ProgramRunner
from jitfuse.compile import pipeline
from jitfuse.errors import (
    BoundsError,
    CompileError,
)
from jitfuse.ir.program import RANDOM_STATE


@pytest.mark.parametrize("count", [0, 1, 2, 40])
def test_fori_loop(count: int) -> None:
    def fn(x: Any, n: int, s: float) -> Any:
        y = x * 2
        return jf.fori_loop(0, n, lambda i, c: c * 0.5 + y * i * s, np.zeros(x.shape)) + y

    want = np.zeros(7)
    for i in range(count):
        want = want * 0.5 + X * 2 * i * 0.25
    check(fn, X, count, 0.25, want=want + X * 2)


@pytest.mark.parametrize("bounds", [(3, 3), (3, -1), (-2, 2), (5, 6)])
def test_bounds_are_values(bounds: tuple[int, int]) -> None:
    def fn(lo: int, hi: int, n: Any) -> Any:
        return jf.fori_loop(lo, hi + n[0], lambda i, c: c + i, 0)

    fused = check(fn, *bounds, np.zeros(1, "int32"))
    fused(bounds[0] + 1, bounds[1] + 7, np.ones(1, "int32"))
    assert fused.stats()["traces"] == 1


@pytest.mark.parametrize("start", [0.0, 2.5, 1e3, np.nan, np.inf])
def test_while_loop(start: float) -> None:
    def fn(x: Any) -> Any:
        return jf.while_loop(lambda s: (s[0] < 100.0).all() & (s[1] < 30), lambda s: (s[0] * 2 + 1, s[1] + 1), (x, 0))

    check(fn, np.array([start, 1.0]), want=Written.while_loop(
        lambda s: bool((s[0] < 100.0).all() & (s[1] < 30)), lambda s: (s[0] * 2 + 1, np.int64(s[1] + 1)),
        (np.array([start, 1.0]), np.int64(0)),
    ))


@pytest.mark.parametrize("pred", [True, False, 0, 3, 0.0, -0.0, np.nan])
def test_cond_takes_the_truth_of_any_number(pred: Any) -> None:
    def fn(p: Any, x: Any) -> Any:
        return jf.cond(p[0], lambda a: {"a": a + 1, "b": x * 2}, lambda a: {"a": a - 1, "b": x / 2}, x * 3)

    want = {"a": X * 3 + 1, "b": X * 2} if pred else {"a": X * 3 - 1, "b": X / 2}
    check(fn, np.array([pred]), X, want=want)


def test_a_branch_that_is_not_taken_does_not_run() -> None:
    def fn(x: Any, i: Any) -> Any:
        return jf.cond(i[0] < 7, lambda: x[i[0]], lambda: x[0] * 0 - 1.0)

    check(fn, X, np.array([3]))
    check(fn, X, np.array([9]), want=np.float64(-1.0))
    with pytest.raises(BoundsError, match="index 9 is out of bounds for axis 0 with size 7"):
        jf.fuse(lambda x, i: jf.cond(i[0] > 7, lambda: x[i[0]], lambda: x[0]))(X, np.array([9]))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(0,), (1,), (9,), (4, 3), (3, 0)])
def test_scan(shape: tuple[int, ...], reverse: bool) -> None:
    x = np.arange(np.prod(shape), dtype="float32").reshape(shape)

    def fn(x: Any) -> Any:
        return jf.scan(lambda c, v: (c + v, c * v), np.zeros(x.shape[1:], "float32"), x, reverse=reverse)

    zero = np.zeros(shape[1:], "float32")[()]
    want = Written.scan(lambda c, v: (c + v, c * v), zero, x, reverse) if shape[0] else (zero, x)
    check(fn, x, want=want)


def test_scan_over_trees_and_by_length() -> None:
    def fn(x: Any) -> Any:
        c, (ys, zs) = jf.scan(lambda c, v: (c * v["a"], (c > 1, v["b"][0])), 1.0, {"a": x, "b": x.reshape(7, 1) * 2})
        return c, ys, zs, jf.scan(lambda c, _: (c * 2, c), 1, None, length=5)

    c, ys = 1.0, []
    for v in X:
        ys.append(c > 1)
        c = c * v
    check(fn, X, want=(np.float64(c), np.array(ys), X * 2, (np.int64(32), 2 ** np.arange(5))))


def test_map() -> None:
    def fn(x: Any, w: Any) -> Any:
        return jf.map(lambda row: (row * w).sum() / row.max(), x)

    x = np.arange(1.0, 13.0).reshape(4, 3)
    check(fn, x, np.array([1.0, 2.0, 4.0]), want=np.stack([(r * [1.0, 2.0, 4.0]).sum() / r.max() for r in x]))


def test_nothing_carried() -> None:
    def fn(x: Any) -> Any:
        return jf.fori_loop(0, 3, lambda i, c: c, ()), jf.scan(lambda c, v: (c, None), None, x), x + 1

    check(fn, X, want=((), (None, None), X + 1))


def test_what_a_body_writes_into_its_arguments_stays_inside() -> None:
    def fn(x: Any) -> Any:
        def body(i: Any, c: Any) -> Any:
            c[i] = c[i] * 2 + c[i - 1]
            return c

        def branch(a: Any) -> Any:
            a[0] = 9.0
            return a

        return jf.fori_loop(1, 5, body, x), jf.cond(x[0] > 0, branch, lambda a: a, x), x * 1

    want, top = X.copy(), X.copy()
    for i in range(1, 5):
        want[i] = want[i] * 2 + want[i - 1]
    top[0] = 9.0
    check(fn, X, want=(want, top, X))


def test_kernels_come_before_between_and_after() -> None:
    def fn(x: Any, w: Any) -> Any:
        a = (x @ w).sum(axis=0)
        b = jf.fori_loop(0, 3, lambda i, c: c / c.sum() + a, a * 2)
        c = np.sort(b)[::-1]
        return jf.while_loop(lambda v: v.max() > 1.0, lambda v: v * c / (c + 1), c + 1).T

    x, w = np.ones((3, 4)), np.arange(8.0).reshape(4, 2) + 1
    check(fn, x, w)


def test_strided_views_go_in_and_out() -> None:
    x = np.arange(24.0).reshape(4, 6)[::-1, ::2]

    def fn(x: Any) -> Any:
        return jf.scan(lambda c, v: (c[::-1] + v, c[:2].T), x[0], x.T[:, ::-1][:, :3])

    check(fn, x[:3, :3])


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "uint64", "float16", "float32", "complex64",
                                   "complex128"])
def test_dtypes(dtype: str) -> None:
    x = np.array([0, 1, 3, 2]).astype(dtype)

    def fn(x: Any) -> Any:
        c = jf.fori_loop(0, 3, lambda i, c: np.where(x == c, x, c * x), x)
        return c, jf.cond(x[1] == x[2], lambda: x[::-1], lambda: x), jf.scan(lambda c, v: (c * v, c), x[1], x)

    fused, plain = jf.fuse(fn), fn(x)
    for _ in range(2):
        same(fused(x), plain)


def test_bfloat16() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.linspace(0, 3, 5).astype(ml_dtypes.bfloat16)

    def fn(x: Any) -> Any:
        return jf.fori_loop(0, 4, lambda i, c: c * x + x, x)

    assert jf.fuse(fn)(x).tobytes() == fn(x).tobytes()


# ---------------------------------------------------------------- modes and random numbers
def test_random_numbers_are_those_of_the_loop_written_out() -> None:
    def fn(x: Any) -> Any:
        a = jf.random.uniform(3)
        c, ys = jf.scan(lambda c, v: (c + jf.random.uniform(), jf.random.uniform(2)), 0.0, x)
        b = jf.random.uniform(2)
        d = jf.cond(x[0] > 0, lambda: jf.random.uniform() + jf.random.uniform(), lambda: x[1] * 1)
        e = jf.cond(x[0] < 0, lambda: jf.random.uniform(), lambda: x[1] * 1)
        n = jf.fori_loop(0, 3, lambda i, c: jf.fori_loop(0, i, lambda j, d: d + jf.random.uniform(), c), 0.0)
        return a, c, ys, b, d, e, n, jf.random.uniform()

    def written(x: Any) -> Any:
        a, c, ys = jf.random.uniform(3), 0.0, []
        for _ in range(7):
            c = c + jf.random.uniform()
            ys.append(jf.random.uniform(2))
        b, d, n = jf.random.uniform(2), jf.random.uniform() + jf.random.uniform(), 0.0
        for i in range(3):
            for _ in range(i):
                n = n + jf.random.uniform()
        return a, c, np.stack(ys), b, d, x[1] * 1, n, jf.random.uniform()

    calls = []
    for function in (jf.fuse(fn), jf.fuse(written)):
        jf.random.seed(11)
        calls.append([function(X) for _ in range(3)])
    same(calls[0], calls[1])
    assert calls[0][0][0][0] != calls[0][1][0][0]
    program = jf.fuse(fn).program(X)
    feeds = {f: np.array([11, 0]) if name == RANDOM_STATE else X for f, name in program.feed_names.items()}
    same(list(ProgramRunner(program)(feeds).outputs.values()), list(calls[0][0]))


def test_the_mode_reaches_bodies() -> None:
    x = np.ones(4000)

    def dropped(x: Any) -> Any:
        return jf.fori_loop(0, 2, lambda i, c: jf.nn.dropout(c, 0.5), x)

    def chosen(x: Any, training: bool) -> Any:
        return jf.fori_loop(0, 2, lambda i, c: c * (2 if training else 3), x)

    fused = jf.fuse(dropped)
    same(fused(x), x)
    assert set(np.unique(fused(x, training=True))) == {0.0, 4.0}
    assert abs((fused(x, training=True) > 0).mean() - 0.25) < 0.05
    assert fused.stats()["traces"] == 1
    fused = jf.fuse(chosen)
    same([fused(x, training=mode) for mode in (False, True, False)], [x * 9, x * 4, x * 9])


# ---------------------------------------------------------------- what else there is to a program
def looped(x: Any, n: int) -> Any:
    """Hold a branch in a loop."""
    def body(i: Any, c: Any) -> Any:
        return jf.cond(i % 2 == 0, lambda: c * 0.5 + x, lambda: np.sqrt(np.abs(c)))

    return jf.fori_loop(0, n, body, x * 2)


def test_reports_and_pictures_show_bodies(tmp_path: Path) -> None:
    fused = jf.fuse(looped)
    text = fused.explain(X, 3, html=tmp_path / "page.html")
    for line in (": step fori_loop on (), (), (7,), (7,)", "  body", "    1: step cond on ", "      on_true", "sqrt("):
        assert line in text
    assert "fori_loop" in fused.program(X, 3).to_svg() and "fori_loop" in (tmp_path / "page.html").read_text()


def test_threads_share_a_loop() -> None:
    fused, want = jf.fuse(looped), looped(X, 9)
    with ThreadPoolExecutor(4) as pool:
        for got in pool.map(lambda _: fused(X, 9), range(60)):
            same(got, want)


def test_the_interpreter_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise CompileError("no kernels today")

    monkeypatch.setattr(pipeline, "kernels_for", refuse)
    fused = jf.fuse(looped, cache=False)
    with pytest.warns(jf.FallbackWarning, match="no kernels today"):
        same(fused(X, 5), looped(X, 5))


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_loop_that_does_not_run_returns_memory_of_its_own(wrapped: bool) -> None:
    def f(x):
        y = jf.fori_loop(0, 0, lambda i, c: c + 1, x)
        y[0] = 9
        return y, x

    y, x = (jf.fuse(f) if wrapped else f)(np.zeros(3))
    assert y[0] == 9 and x[0] == 0

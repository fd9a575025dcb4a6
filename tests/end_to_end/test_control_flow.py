"""Loops and branches: fused, interpreted and plain runs against loops written out in Python.

JITFUSE_TEST_SCALE multiplies the number of random bodies.
"""
from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import optree
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jitfuse as jf
from jitfuse.backends.interpreter.runner import ProgramRunner
from jitfuse.compile import pipeline
from jitfuse.errors import (
    ArgumentError,
    BoundsError,
    CompileError,
    DTypeError,
    LeakedTracerError,
    ShapeError,
    UntraceableError,
)
from jitfuse.ir.program import RANDOM_STATE
from jitfuse.ir.text import parse
from jitfuse.ir.verify import verify

ERRORS = (ShapeError, DTypeError, ArgumentError)


def same(got: Any, want: Any) -> None:
    """Compare trees bit by bit, but for the sign and payload of NaN."""
    a, b = (optree.tree_flatten(t, none_is_leaf=True) for t in (got, want))
    assert a[1] == b[1]
    for x, y in zip(a[0], b[0], strict=True):
        x, y = np.asarray(x), np.asarray(y)
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        np.testing.assert_array_equal(x, y)


def check(fn: Callable[..., Any], *args: Any, want: Any = None) -> Any:
    """Compare a plain run, fused calls and the interpreted program with what is wanted; return the fused function."""
    plain = fn(*[np.copy(a) if isinstance(a, np.ndarray) else a for a in args])
    same(plain, plain if want is None else want)
    fused = jf.fuse(fn)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            same(fused(*args), plain)
    program = fused.program(*args)
    verify(program)
    assert parse(str(program)) == program
    assert jf.FusedProgram.from_json(program.to_json()) == program
    assert jf.FusedProgram.from_messagepack(program.to_messagepack()).content_hash == program.content_hash
    assert fused.stats()["fallbacks"] == 0
    interpreted(program, args, fused(*args))
    return fused


def interpreted(program: jf.FusedProgram, args: tuple[Any, ...], result: Any) -> None:
    """Compare the interpreter, over NumPy and over torch, with a call's result."""
    leaves = optree.tree_leaves(result)
    feeds = {f: args[int(name[5:-1])] for f, name in program.feed_names.items() if name.startswith("args[")}
    if len(program.outputs) != len(leaves) or set(feeds) != program.feeds:
        return
    same(list(ProgramRunner(program)(feeds).outputs.values()), leaves)
    torch = pytest.importorskip("torch")
    tensors = {f: torch.from_numpy(np.array(v)) if isinstance(v, np.ndarray) else v for f, v in feeds.items()}
    for value, leaf in zip(ProgramRunner(program)(tensors).outputs.values(), leaves, strict=True):
        np.testing.assert_allclose(np.asarray(value), leaf, rtol=1e-6)


class Written:
    """The five functions written out in plain Python, with nothing of jitfuse."""

    @staticmethod
    def cond(pred: Any, true_fn: Any, false_fn: Any, *operands: Any) -> Any:
        return true_fn(*operands) if pred else false_fn(*operands)

    @staticmethod
    def while_loop(cond_fn: Any, body_fn: Any, value: Any) -> Any:
        while cond_fn(value):
            value = body_fn(value)
        return value

    @staticmethod
    def fori_loop(lower: int, upper: int, body_fn: Any, value: Any) -> Any:
        for i in range(lower, upper):
            value = body_fn(np.int64(i), value)
        return value

    @staticmethod
    def scan(f: Any, carry: Any, xs: Any, reverse: bool = False) -> Any:
        ys = []
        for x in xs[::-1] if reverse else xs:
            carry, y = f(carry, x)
            ys.append(y)
        return carry, np.stack(ys[::-1] if reverse else ys)


# ---------------------------------------------------------------- each function
X = np.linspace(0.25, 2.0, 7)


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


# ---------------------------------------------------------------- what is refused
@pytest.mark.parametrize("wrap", [lambda f: f, jf.fuse], ids=["plain", "fused"])
class TestRefused:
    @pytest.mark.parametrize(("fn", "text"), [
        (lambda x: jf.fori_loop(0, 2, lambda i, c: c.astype("float32"), x),
         r"carry is float64\[7\] in what the loop starts with, and float32\[7\] in what body_fn returns"),
        (lambda x: jf.while_loop(lambda c: c["a"][0] < 1, lambda c: {"a": c["a"][1:]}, {"a": x}),
         r"carry\['a'\] is float64\[7\] in what the loop starts with, and float64\[6\] in what body_fn returns"),
        (lambda x: jf.scan(lambda c, v: ((c, v), v), 0.0, x), r"with is one value, what f returns is \('\*', '\*"),
        (lambda x: jf.scan(lambda c, v: c, 0.0, x), r"f of scan returns \(carry, y\)"),
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

    monkeypatch.setattr(pipeline, "kernel_object", refuse)
    fused = jf.fuse(looped, cache=False)
    with pytest.warns(jf.FallbackWarning, match="no kernels today"):
        same(fused(X, 5), looped(X, 5))


# ---------------------------------------------------------------- random bodies
SCALE = int(os.environ.get("JITFUSE_TEST_SCALE", "1"))
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


@settings(max_examples=8 * SCALE, deadline=None, suppress_health_check=list(HealthCheck))
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
    sources = fused._specs[0].trace.feeds  # among them numbers of the recipe
    feeds = {f: sources[f].source.resolve((x, rows, n), {}) for f in program.feeds}
    same(list(ProgramRunner(program)(feeds).outputs.values()), list(want))


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_loop_that_does_not_run_returns_memory_of_its_own(wrapped: bool) -> None:
    def f(x):
        y = jf.fori_loop(0, 0, lambda i, c: c + 1, x)
        y[0] = 9
        return y, x

    y, x = (jf.fuse(f) if wrapped else f)(np.zeros(3))
    assert y[0] == 9 and x[0] == 0

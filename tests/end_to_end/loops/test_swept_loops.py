"""Loops that run in kernels: numbers in registers, windows that move, what one iteration leaves to the next, errors."""
from __future__ import annotations

import math
from typing import Any

import amount
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import same
from rolled import limits

import jitfuse as jf
from jitfuse.compile import interface as compiler
from jitfuse.compile.pipeline import ModePlan

LENGTH = 23
LOOPS = ("range(3, n - 3)", "range(n - 4, 2, -1)", "range(3, n - 3, 2)", "range(4, n - 4)")
PLACES = tuple(f"{x}[i{d}]" for x in "ab" for d in ("", " - 1", " + 1", " - 2", " + 2")) + ("a[2]", "b[-1]")
TABLE = ("t[i, 1]", "t[i - 1, 1]", "t[1, i]", "t[i, i]", "t[0, 0]")
VALUES = (*PLACES, *TABLE, "s", "u", "0.5", "c[i]", "c[n - 1 - i]", "c[0]", "i * 0.25")
TERMS = (
    "{x} * 0.5 + {y} * 0.25", "{x} - {y} * 0.5", "np.maximum({x}, {y})", "np.where({x} > {y}, {y}, 0.5)", "-{x}", "{x}",
    "np.sqrt(abs({x})) * 0.5",
)
ROWS = ("t[i] = t[i - 1] * 0.5 + {x}", "t[i] = t[i] * 0.5 - c", "t[i - 1] = t[i] * 0.5", "t[:, i] = t[:, i - 1] * {x}",
        "s = s * 0.5 + t[i].max()")


@st.composite
def bodies(draw: Any) -> str:
    lines = [f"    for i in {draw(st.sampled_from(LOOPS))}:"]
    for _ in range(draw(st.integers(1, 4))):
        values = {v: draw(st.sampled_from(VALUES)) for v in "xy"}
        if draw(st.integers(0, 4)):
            target = draw(st.sampled_from((*PLACES, *TABLE, "s", "s", "u")))
            lines.append(f"        {target} = {draw(st.sampled_from(TERMS))}".format(**values))
        else:
            lines.append("        " + draw(st.sampled_from(ROWS)).format(**values))
    return "\n".join(["def fn(a, b, c, t, s, u):", "    n = len(a)", *lines, "    return a, b, t, s, u", ""])


def made(source: str) -> Any:
    space: dict[str, Any] = {"np": np}
    exec(compile(source, "<drawn>", "exec"), space)
    return space["fn"]


def arguments(dtype: str) -> tuple[Any, ...]:
    rng = np.random.default_rng(3)
    a, b, c, t = (rng.integers(-64, 64, shape).astype(dtype) for shape in (*[LENGTH] * 3, (LENGTH, LENGTH)))
    if np.dtype(dtype).kind == "f":
        a[5], b[7], c[4] = np.nan, -0.0, np.inf
    return a, b, c, t, np.float64(0.5) if dtype == "float64" else t.dtype.type(1), -0.25


def results(fn: Any, args: tuple[Any, ...]) -> list[Any]:
    own = [x.copy() if isinstance(x, np.ndarray) else x for x in args]
    with np.errstate(all="ignore"):
        given = [np.asarray(x) for x in fn(*own)]
    return [*given, *(x for x in own if isinstance(x, np.ndarray))]


def swept(fused: Any) -> list[Any]:
    """Return the forms of a function's kernels that run loops."""
    plans = [plan for spec in fused.parts.specs for plan in spec.plans.values()]
    assert plans and all(isinstance(plan, ModePlan) for plan in plans)
    return [form for plan in plans for form in plan.forms if form.sweep is not None]


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
def test_drawn_loops(dtype: str, direct: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bits as Python's, launched natively or from Python."""
    if direct:
        monkeypatch.setattr(compiler, "runtime_is_ready", lambda *_: False)
        monkeypatch.setattr(compiler, "build_runtime", lambda: None)

    @settings(max_examples=amount.drawn(25), deadline=None, suppress_health_check=list(HealthCheck))
    @given(bodies(), st.sampled_from([1, 64]))
    def compare(source: str, at_once: int) -> None:
        fn, args = made(source), arguments(dtype)
        try:
            want = results(fn, args)
        except (OverflowError, ValueError):  # of NaN as an integer
            return
        with limits(16, 4, at_once):
            fused = jf.fuse(fn)
            for _ in range(2):
                for got, expected in zip(results(fused, args), want, strict=True):
                    assert got.dtype == expected.dtype
                    np.testing.assert_array_equal(got, expected, err_msg=source)
                    assert (np.signbit(got) == np.signbit(expected)).all() or np.isnan(got).any(), source

    compare()


def compare(fn: Any, *args: Any, kernels: int | None = None, carried: int | None = None, at_once: int = 1) -> None:
    """Compare a loop with Python's, bit by bit; what is carried in registers, and in how many kernels, is as wanted."""
    want = results(fn, args)
    with limits(24, 4, at_once):
        fused = jf.fuse(fn)
        for _ in range(3):
            for got, expected in zip(results(fused, args), want, strict=True):
                same(got, expected)
    forms = swept(fused)
    assert kernels is None or len(forms) == kernels
    assert carried is None or sum(len(form.sweep.carried) for form in forms) == carried


@pytest.mark.parametrize("at_once", [1, 64])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int8", "uint16", "bool", "complex128"])
def test_what_an_iteration_writes_the_next_one_has_in_a_register(dtype: str, at_once: int) -> None:
    def fn(x: Any) -> Any:
        y = np.zeros_like(x)
        for i in range(1, len(x)):
            y[i] = y[i - 1] * x[i] + x[i - 1]
        return y

    rng = np.random.default_rng(1)
    x = (rng.random(300) * 1.5).astype(dtype) if dtype[0] in "fc" else rng.integers(0, 2, 300).astype(dtype)
    compare(fn, x, kernels=1, carried=int(dtype != "complex128"), at_once=at_once)


def test_what_is_written_two_iterations_before_is_read_from_memory() -> None:
    def fn(x: Any) -> Any:
        for i in range(2, len(x)):
            x[i] = x[i - 2] * 0.5 + x[i] * 0.25
        for i in range(len(x) - 2, -1, -1):
            x[i] = x[i + 1] * 0.5 - x[i]
        return x

    compare(fn, np.random.default_rng(2).random(200), kernels=2, carried=1)


def test_numbers_that_are_carried() -> None:
    def fn(x: Any, k: int) -> Any:
        a, b, count, top = 0.0, 1.0, k, -np.inf
        for v in x:
            a, b = b, a * 0.5 + b * 0.25 + v
            count = count + 3 if v > 0.5 else count - 1
            top = np.maximum(top, v)
        return a, b, count, top

    compare(fn, np.random.default_rng(3).random(100), 7, kernels=1)


def test_carried_vectors_and_several_kernels() -> None:
    def fn(t: Any) -> Any:
        p, total = t[0] * 1.0, 0.0
        for row in t:
            p = p * 0.5 + row[::-1]
            total = total * 0.5 + np.max(row * p) + p[0]
        return p, total

    compare(fn, np.random.default_rng(4).random((60, 5)))


@pytest.mark.usefixtures("in_order")
@pytest.mark.parametrize("places", [[], [40], [40, 50], [0, 1], [99]])
def test_the_first_iteration_that_fails_says_so(places: list[int]) -> None:
    def fn(x: Any, index: Any, out: Any) -> Any:
        for i in range(len(index)):
            out[i] = x[index[i]] * 2
        return out

    x, index, out = np.random.default_rng(5).random(8), np.arange(100) % 8, np.zeros(100)
    for k in places:
        index[k] = 1000 + k
    with limits(24, 4, 1):
        fused = jf.fuse(fn)
        assert fused.program(x, index % 8, out).steps
        if not places:
            np.testing.assert_array_equal(fused(x, index, out), x[index] * 2)
            return
        fused(x, index % 8, out.copy())
        assert swept(fused)
        for _ in range(2):
            with pytest.raises(IndexError, match=f"index {1000 + places[0]} is out of bounds for axis 0 with size 8"):
                fused(x, index, out)
            assert not out.any()


def test_errors_of_numbers() -> None:
    def fn(x: Any) -> Any:
        total = 0.0
        for v in x:
            total = total * 0.5 + math.sqrt(v)
        return total, x

    x = np.random.default_rng(6).random(50)
    compare(fn, x, kernels=1, carried=1)
    x[30] = -1
    with limits(24, 4), pytest.raises(ValueError, match="math domain error"):
        jf.fuse(fn)(x)


def test_values_of_the_last_iteration_stay_in_one_place() -> None:
    def fn(x: Any) -> Any:
        a = b = 0.0
        for i in range(1, len(x)):
            a = x[i] * 0.5 - x[i - 1]
            b = a * a
            x[i] = b + x[i] * 0.25
        return a, b, x

    compare(fn, np.random.default_rng(7).random(500), kernels=1)

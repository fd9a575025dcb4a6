"""Loops whose rounds are copied: the program is that of all rounds, and what cannot be copied runs round by round."""
from __future__ import annotations

import linecache
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import LOOPS, outcome

import jitfuse as jf
from jitfuse.tracing.control.replicated_iteration import ReplicatedIteration
from jitfuse.tracing.record.recorder import Recorder
from jitfuse.tracing.rewrite.uniform_loops import uniform_loop

SIZES = (0, 1, 9, 15, 16, 17, 40)
OFFSET = 3
TABLE = [1.0] * 30 + [2.0] * 30
TEXT = "a" * 20 + "b" + "a" * 30
RECORD = np.zeros(1, [("k", "i8")])[0]
NOISE: list[int] = []


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch, in_order: None) -> Iterator[list[int]]:
    """How many rounds have been copied, loop by loop; none is spread that otherwise would be."""
    found: list[int] = []
    copy = ReplicatedIteration.copy

    def counted(self: ReplicatedIteration, run: Recorder, count: int, *rest: Any) -> bool:
        done = copy(self, run, count, *rest)
        found.append(count if done else 0)
        return done

    monkeypatch.setattr(ReplicatedIteration, "copy", counted)
    yield found


def check(function: Callable[..., Any], *arguments: np.ndarray[Any, Any]) -> None:
    """Call a fused function three times; results, errors and what is written must be plain Python's."""
    calls = [tuple((a * factor).astype(a.dtype) for a in arguments) for factor in (1, 2, 1)]
    oracle.check(function, *calls, within=LOOPS, errors=Exception, compiled=False, times=1)


# ---------------------------------------------------------------- loops whose rounds are alike
def filled(x: Any) -> Any:
    for i in range(len(x)):
        x[i] = 1.5
    return x


def recurrence(x: Any) -> Any:
    for i in range(1, len(x)):
        x[i] = x[i - 1] * 0.5 + x[i]
    return x


def total(x: Any) -> Any:
    s = 0.0
    for i in range(len(x)):
        s = s + x[i] * x[i]
    return s


def fibonacci(x: Any) -> Any:
    a = x[0]
    b = x[1]
    for i in range(2, len(x)):
        a, b = b, (a + b) * 0.5
        x[i] = b
    return x, a


def three_back(x: Any) -> Any:
    for i in range(3, len(x)):
        x[i] = x[i] + 0.1 * x[i - 3]
    return x


def largest(x: Any) -> Any:
    m = -1.0
    for i in range(len(x)):
        if x[i] > m:
            m = x[i]
    return m


def clipped(x: Any) -> Any:
    for i in range(len(x)):
        if x[i] > 0.5:
            x[i] = 0.5
        else:
            x[i] = x[i] * 2 + np.sqrt(abs(x[i]))
    return x


def tabulated(x: Any) -> Any:
    n = len(x)
    table = np.zeros((n + 1, n + 1))
    best = 0.0
    for i in range(1, n + 1):
        for j in range(1, n + 1):
            here = table[i - 1, j - 1] + (2.0 if x[i - 1] > x[j - 1] else -1.0)
            table[i, j] = max(0, here, table[i - 1, j] - 1, table[i, j - 1] - 1)
            if table[i, j] > best:
                best = table[i, j]
    return table, best


def triangle(x: Any) -> Any:
    n = len(x)
    out = np.zeros((n, n))
    for i in range(n):
        for j in range(i):
            out[i, j] = x[i] - x[j]
    return out


def rows(x: Any) -> Any:
    out = np.zeros((len(x), 4))
    for i in range(len(x)):
        row = out[i]
        row[1:3] = x[i]
        out[i, 0] = row.sum()
    return out


def windows(x: Any) -> Any:
    out = np.empty(max(len(x) - 4, 0))
    for i in range(len(x) - 4):
        out[i] = x[i : i + 5].mean()
    return out


def downwards(x: Any) -> Any:
    for i in range(len(x) - 2, -1, -1):
        x[i] = x[i] - 0.5 * x[i + 1]
    return x


def steps_of_two(x: Any) -> Any:
    for i in range(0, len(x) - 1, 2):
        k = 2 * i - i
        x[k], x[k + 1] = x[k + 1], x[k]
    return x


def smoothed(x: Any) -> Any:
    for _ in range(20):
        x[1:-1] = 0.25 * x[:-2] + 0.5 * x[1:-1] + 0.25 * x[2:]
    return x


def held(x: Any) -> Any:
    before = np.zeros(2)
    after = np.ones(2)
    for i in range(len(x)):
        before = after
        after = np.zeros(2)
        after[0] = before[1] + x[i]
        after[1] = before[0]
    return before, after


def copied_from_an_end(x: Any) -> Any:
    s = x[-1]
    for i in range(len(x)):
        s = s * 0.9 + x[i]
    return s


def counted_within(x: Any) -> Any:
    out = np.zeros((len(x), 5))
    for i in range(len(x)):
        s = x[i]
        for k in range(5):
            s = s * 0.5 + k
            t = k * 0.25
            m = k + 1
            if s > t:
                out[i, k] = k - m * t
            out[i, -m] += 5 - k
    return out


def escaping(x: Any) -> Any:
    out = np.zeros(len(x), dtype=int)
    for i in range(len(x)):
        z = 0.0
        for k in range(6):
            z = z * z + x[i]
            if abs(z) < 2.0:
                out[i] = k
    return out


def looping_in_branches(x: Any) -> Any:
    out = np.zeros((len(x), 3))
    for i in range(len(x)):
        if x[i] > 0:
            error = x[i] - out[i].sum()
            for k in range(3):
                out[i, k] += 0.5 * error * (k + 1)
        else:
            for k in range(2):
                out[i, k + 1] = x[i] * k
    return out


def known_range(x: Any) -> Any:
    return repeated(x, 4)


def repeated(x: Any, iterations: int) -> Any:
    for i in range(len(x)):
        for k in range(iterations):
            x[i] = x[i] * 0.5 + k
    return x


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("function", [
    counted_within, escaping, looping_in_branches, known_range,
    filled, recurrence, total, fibonacci, three_back, largest, clipped, triangle, rows, windows, downwards,
    steps_of_two, smoothed, held, copied_from_an_end, tabulated,
])
def test_alike(function: Callable[..., Any], size: int, copies: list[int]) -> None:
    check(function, np.random.default_rng(size).normal(size=size))
    if size == 40:
        assert sum(copies) >= 8


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "complex64", "bool"])
@pytest.mark.parametrize("function", [filled, downwards, steps_of_two, windows])
def test_dtypes(function: Callable[..., Any], dtype: str) -> None:
    check(function, (np.arange(24) % 5).astype(dtype))


@pytest.mark.parametrize("view", [lambda x: x[::-1], lambda x: x[::3], lambda x: x.reshape(2, -1).T[:, 1]])
def test_strides(view: Callable[[Any], Any]) -> None:
    for function in (recurrence, clipped, downwards):
        x = np.linspace(-1, 2, 60)
        want, got = x.copy(), x.copy()
        function(view(want))
        jf.fuse(function)(view(got))
        np.testing.assert_allclose(got, want, rtol=1e-12)


# ---------------------------------------------------------------- loops whose last rounds are others
def over_the_end(x: Any) -> Any:
    s = 0.0
    for i in range(len(x)):
        s = s * 0.9 + x[i + 1]
        x[i] = s
    return s


def crossing_zero(x: Any) -> Any:
    s = 0.0
    for i in range(len(x)):
        s = s * 0.9 + x[i - 20]
    return s


def ending_short(x: Any) -> Any:
    s = 0.0
    for i in range(len(x)):
        s = s * 0.9 + x[i : i + 12].sum()
    return s


def beginning_short(x: Any) -> Any:
    s = 0.0
    for i in range(len(x)):
        s = s * 0.9 + x[max(0, 3) + i - 30 : i + 12].sum()
    return s


def caught(x: Any) -> Any:
    return guarded(x, lambda k: over_the_end(x))


def guarded(x: Any, body: Any) -> Any:
    try:
        body(0)
    except IndexError:
        x[0] = 7.0
    return x


@pytest.mark.parametrize("size", [15, 16, 25, 40])
@pytest.mark.parametrize("function", [over_the_end, crossing_zero, ending_short, beginning_short, caught])
def test_others_at_the_end(function: Callable[..., Any], size: int) -> None:
    check(function, np.random.default_rng(size).normal(size=size))


def empty_between(x: Any) -> Any:
    s = 0.0
    for i in range(90):
        s = s + x[i - 50 : i - 45].sum()
    return s


def whole_at_both_ends(x: Any) -> Any:
    s = 0.0
    for i in range(101):
        s = s * 0.5 + x[i - 100 :].sum()
    return s


def written_between(x: Any) -> Any:
    for i in range(90):
        x[i - 50 : i - 45] = 7.0
        x[i - 100 :] += 1.0
    return x


def sizes_between(x: Any) -> Any:
    for i in range(101):
        x[0] = x[0] + (5.0 if x[i - 100 :].size == 5 else 1.0)
    return x


def inner_slices(x: Any) -> Any:
    s = 0.0
    for i in range(60):
        for j in range(20):
            s = s * 0.5 + x[i - 50 + j : i - 45].sum() + x[:i - 60 : 2].sum()
    return s


@pytest.mark.parametrize("size", [1, 20, 60, 101])
@pytest.mark.parametrize("function", [
    empty_between, whole_at_both_ends, written_between, sizes_between, inner_slices])
def test_slices_that_meet_an_end(function: Callable[..., Any], size: int) -> None:
    check(function, np.random.default_rng(size).normal(size=size))


# ---------------------------------------------------------------- loops with rounds that Python makes differ
def swapped(a: Any, b: Any) -> Any:
    for i in range(21):
        b[1:-1] = (a[:-2] + a[2:]) * 0.5 + a[i % 2]
        a, b = b, a
    return a


def buffers(a: Any, b: Any) -> Any:
    for i in range(21):
        b[i] = a[i] * 2
        a, b = b, a
    return a


def turning(x: Any) -> Any:
    sign = 1.0
    for i in range(len(x)):
        x[i] = x[i] * sign
        sign = -sign
    return x


def counted(x: Any) -> Any:
    k = 0
    for i in range(len(x)):
        x[i] = x[i] + k
        k = k + 1
    return x


def counted_on_within(x: Any) -> Any:
    m = 0
    for i in range(len(x)):
        for k in range(3):
            m = m + k
        x[i] = x[i] + m
    return x


def left_from_before(x: Any) -> Any:
    k = 7
    for i in range(len(x)):
        x[i] = x[i] * k
        for k in range(i % 3):
            x[i] = x[i] + k
    return x


def growing_within(x: Any) -> Any:
    for i in range(len(x)):
        for k in range(i // 2):
            x[i] = x[i] + k
    return x


def left_in_a_branch(x: Any) -> Any:
    m = 0
    for i in range(len(x)):
        if x[i] > 0.3:
            m = m + 1
        else:
            for k in range(2):
                m = k
        x[i] = x[i] + m
    return x


def of_a_table(x: Any) -> Any:
    known = np.array([0, 1, 1, 0] * 20)
    for i in range(len(x)):
        if known[i] > 0:
            x[i] = 2.0
    return x


def by_index(x: Any) -> Any:
    for i in range(len(x)):
        if i == 12:
            x[i] = 100.0
        else:
            x[i] = x[i] + 1
    return x


def times_index(x: Any) -> Any:
    for i in range(len(x)):
        x[i] = x[i] * i
    return x


def from_list(x: Any) -> Any:
    for i in range(len(x)):
        x[i] = x[i] * TABLE[i]
    return x


def into_list(x: Any) -> Any:
    found = []
    for i in range(len(x)):
        found.append(x[i] * 2)
    return np.array(found)


def squares(x: Any) -> Any:
    for i in range(6):
        x[i * i] = x[i]
    return x


def squares_often(x: Any) -> Any:
    for i in range(len(x)):
        x[(i * i) % len(x)] = x[i] + 1
    return x


class Noisy:
    """An object that counts how often its attribute is read."""

    def __init__(self) -> None:
        self.reads = 0

    @property
    def scale(self) -> float:
        """The reads so far."""
        self.reads += 1
        return float(self.reads)


def by_property(x: Any) -> Any:
    noisy = Noisy()
    for i in range(len(x)):
        x[i] = x[i] * noisy.scale
    return x


def stepped(x: Any) -> float:
    NOISE.append(1)
    return x * len(NOISE)  # type: ignore[no-any-return]


def by_helper(x: Any) -> Any:
    NOISE.clear()
    for i in range(len(x)):
        x[i] = stepped(x[i])
    return x


def shadowed(x: Any) -> Any:
    abs = stepped
    NOISE.clear()
    for i in range(len(x)):
        x[i] = abs(x[i])
    return x


def growing(x: Any) -> Any:
    made = x[:1]
    for i in range(len(x)):
        made = np.concatenate((made, x[i : i + 1]))
    return made


def known(x: Any) -> Any:
    count = np.zeros(())
    for i in range(len(x)):
        count[...] = count + 1
        if count > 12:
            x[i] = 0.0
    return x


def turned(x: Any) -> Any:
    n = 4
    a = np.zeros((n, n)) + x[0]
    for i in range(len(x)):
        a = a.T.copy(order="K") + x[i]
    return a.ravel(order="K")


def left(x: Any) -> Any:
    for i in range(len(x)):
        if x[i] > 1e9:
            break
        x[i] = x[i] + 1
    return x, i


def other_closure(x: Any) -> Any:
    scale = 1.0

    def grow() -> None:
        nonlocal scale
        scale += 1.0

    for i in range(len(x)):
        grow()
        x[i] = x[i] * scale
    return x


def drawn(x: Any) -> Any:
    rng = np.random.default_rng(0)
    for i in range(len(x)):
        x[i] = x[i] + rng.random()
    return x


def from_text(x: Any) -> Any:
    for i in range(len(x)):
        x[i] = x[i] + (5.0 if TEXT[i] == "b" else 1.0)
    return x


def in_record(x: Any) -> Any:
    RECORD["k"] = 0
    for i in range(len(x)):
        RECORD["k"] = RECORD["k"] + 1
        x[i] = x[i] * (5.0 if RECORD["k"] == 20 else 1.0)
    return x


class Counting(float):
    """A float that is another one with each product."""

    products = 0

    def __mul__(self, other: Any) -> Any:
        Counting.products += 1
        return other * Counting.products


FACTOR = Counting(2.0)


class Items:
    """A class with items."""

    def __class_getitem__(cls, item: int) -> float:
        return float(item)


def by_subclass(x: Any) -> Any:
    Counting.products = 0
    for i in range(len(x)):
        x[i] = FACTOR * x[i]
    return x


def by_class(x: Any) -> Any:
    for i in range(len(x)):
        x[i] = x[i] * Items[i]  # type: ignore[type-arg, valid-type]
    return x


def begun_by_nothing(x: Any) -> Any:
    t = 0
    for i in range(len(x)):
        for _ in range(x[:0].size):
            t = 0
        if t == 20:
            x[i] = 100.0
        else:
            x[i] = x[i] + 1
        t = t + 1
    return x


def from_tuple(x: Any) -> Any:
    t: Any = 0
    for i in range(len(x)):
        t = x.shape * 20 + (2,) + x.shape * 19
        x[i] = x[i] * t[i]
        t = 0
    return x


def from_constant(x: Any) -> Any:
    t = np.array(TABLE)
    for i in range(len(x)):
        x[i] = x[i] * t[i]
    return x


def telling(x: Any) -> Any:
    before = np.get_printoptions()["precision"]
    for i in range(len(x)):
        np.set_printoptions(precision=np.get_printoptions()["precision"] + 1)
        x[i] = x[i] + 1
    x[0] = np.get_printoptions()["precision"]
    np.set_printoptions(precision=before)
    return x


def first_iterations(x: Any) -> Any:
    w = np.zeros(2)
    k = 0
    for i in range(len(x)):
        if k < 3:
            w[0] = x[i]
            k = k + 1
        x[i] = x[i] * 2
    return w


def first_values(x: Any) -> Any:
    k = 0
    w = x[0]
    t = w
    for i in range(len(x)):
        if k < 3:
            w = x[i] * 3
            k = k + 1
        x[i] = x[i] + t
        t = w * 1
    return w, t


def rotating(x: Any) -> Any:
    a = np.zeros(2)
    b = np.ones(2)
    c = np.ones(2) * 2
    d = np.ones(2) * 3
    e = np.ones(2) * 4
    first = a
    for i in range(len(x)):
        a += x[i]
        b *= 0.5
        c += 1.0
        d *= 0.9
        e -= 0.1
        a, b, c, d, e = b, c, d, e, a
    return first, a


def from_parts(x: Any) -> Any:
    t: Any = x
    for i in range(len(x)):
        t = math.modf(1.5) * 10 + math.modf(2.5) * 10 + np.modf(1.5) * 20
        x[i] = x[i] * t[2 * i + 1 - i]
        t = x
    return x


def wrapping(x: Any) -> Any:
    s = 0.0
    a = np.uint8(16)
    b = np.int64(16)
    with np.errstate(over="ignore"):
        for i in range(20):
            s = s * 0.9 + x[(a * i - b * i) % 9 - (a * i - b * i) % 9 + i % 16]
            s = s + x[(2 * (a * i - b * i) - (np.uint8(32) * i - np.int64(32) * i)) % 16]
    return s


def wrapping_quietly(x: Any) -> Any:
    s = 0.0
    a = np.uint8(16)
    b = np.uint8(32)
    c = np.int64(16)
    d = np.int64(32)
    for i in range(20):
        s = s * 0.9 + x[i + 2 * (a * i - c * i) - (b * i - d * i) - 30]
    return s


def endless(x: Any) -> Any:
    for i in range(10**30):
        x[i] = x[i] * 2
        if i == 5:
            break
    return x


@pytest.mark.parametrize("size", [16, 37, 38])
@pytest.mark.parametrize("function", [
    counted_on_within, left_from_before, growing_within, left_in_a_branch, of_a_table,
    turning, counted, by_index, times_index, from_list, into_list, squares, squares_often, by_property, by_helper,
    shadowed, growing, known, turned, left, other_closure, drawn, from_text, in_record, by_subclass, by_class,
    begun_by_nothing, from_tuple, from_constant, telling, endless,
    first_iterations, first_values, rotating, from_parts, wrapping, wrapping_quietly,
])
@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
def test_differing(function: Callable[..., Any], size: int) -> None:
    check(function, np.random.default_rng(size).normal(size=size))


@pytest.mark.parametrize("function", [swapped, buffers])
def test_buffers(function: Callable[..., Any]) -> None:
    check(function, np.random.default_rng(1).normal(size=40), np.random.default_rng(2).normal(size=40))
    own = jf.fuse(function)
    a, b = np.arange(40.0), np.ones(40)
    result = own(a, b)
    assert result is (b if 21 % 2 else a)


def test_read_before_the_loop(copies: list[int]) -> None:
    def function(x: Any) -> Any:
        s = x[30] + x[7]
        for i in range(len(x)):
            s = s * 0.5 + x[i]
        return s

    check(function, np.arange(40.0))
    assert copies


def test_places_of_loops() -> None:
    def function(x: Any) -> Any:
        for i in range(20): x[i] = 1.0  # noqa: E701
        for i in range(20):
            x[i] = math.sqrt(2.0)
        while x[0] > 5:
            for i in range(20):
                x[i] = i
        return x

    code = function.__code__
    first = code.co_firstlineno
    assert uniform_loop(code, first + 1, 8) is not None
    assert uniform_loop(code, first + 2, 8) is not None
    assert uniform_loop(code, first + 5, 12) is None
    assert uniform_loop(code, first + 2, 9) is None


# ---------------------------------------------------------------- drawn loops
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


@given(st.lists(STATEMENTS, min_size=1, max_size=4), st.sampled_from([16, 23, 40]), st.sampled_from(["n", "n - 1"]))
@settings(max_examples=60, deadline=None)
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

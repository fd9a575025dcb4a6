"""Loops whose iterations differ by what Python does in them: these are no copies of one."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from amount import crossed
from loops_run import replicated

import jitfuse as jf

TABLE = [1.0] * 30 + [2.0] * 30
TEXT = "a" * 20 + "b" + "a" * 30
RECORD = np.zeros(1, [("k", "i8")])[0]
NOISE: list[int] = []


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


@pytest.mark.parametrize(("function", "size"), crossed(2, [
    counted_on_within, left_from_before, growing_within, left_in_a_branch, of_a_table,
    turning, counted, by_index, times_index, from_list, into_list, squares, squares_often, by_property, by_helper,
    shadowed, growing, known, turned, left, other_closure, drawn, from_text, in_record, by_subclass, by_class,
    begun_by_nothing, from_tuple, from_constant, telling, endless,
    first_iterations, first_values, rotating, from_parts, wrapping, wrapping_quietly,
], [16, 37, 38]))
@pytest.mark.filterwarnings("ignore::jitfuse.FallbackWarning")
def test_differing(function: Callable[..., Any], size: int) -> None:
    replicated(function, np.random.default_rng(size).normal(size=size))


@pytest.mark.parametrize("function", [swapped, buffers])
def test_buffers(function: Callable[..., Any]) -> None:
    replicated(function, np.random.default_rng(1).normal(size=40), np.random.default_rng(2).normal(size=40))
    own = jf.fuse(function)
    a, b = np.arange(40.0), np.ones(40)
    result = own(a, b)
    assert result is (b if 21 % 2 else a)

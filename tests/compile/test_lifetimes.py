"""What compiled code points to stays alive; results and arguments keep their kinds."""
from __future__ import annotations

import gc
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import jitfuse as jf

Pair = namedtuple("Pair", "first second")


def test_literal_arrays_outlive_the_compilation() -> None:
    @jf.fuse
    def f(x: Any) -> Any:
        return x + np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0]) @ np.array([[1.0, 2.0], [3.0, 4.0]])

    for k in range(20):
        a, b = f(np.zeros(3))
        np.testing.assert_array_equal(a, [1, 2, 3])
        np.testing.assert_array_equal(b, [19, 28])
        junk = [np.full(3 + k, 7.0) for _ in range(500)]
        del junk
        gc.collect()


def test_results_outlive_the_function() -> None:
    @jf.fuse
    def f(x: Any) -> Any:
        return (x + 1).T, {"s": x.sum(), "v": x * 2}

    a, d = f(np.ones((3, 4)))
    del f
    gc.collect()
    np.testing.assert_array_equal(a, np.full((4, 3), 2.0))
    np.testing.assert_array_equal(d["v"], np.full((3, 4), 2.0))
    assert d["s"] == 12.0


def test_arguments_are_released() -> None:
    @jf.fuse
    def f(x: Any) -> Any:
        return x + 1

    import weakref

    x = np.ones(100)
    f(x), f(x)
    reference = weakref.ref(x)
    del x
    gc.collect()
    assert reference() is None


@dataclass
class Point:
    x: Any
    y: Any


@pytest.mark.parametrize("make", [
    lambda a, b: (a, b), lambda a, b: [a, b], lambda a, b: {"z": a, "a": b}, lambda a, b: Pair(a, b),
    lambda a, b: ((a,), [b, {"k": a}]), lambda a, b: OrderedDict(q=a, p=b), lambda a, b: (), lambda a, b: None,
    lambda a, b: (None, a, "text", 3), lambda a, b: Point(a, b), lambda a, b: {1: a, 0: (b, b)}, lambda a, b: [a, a, b],
])
def test_containers_of_results(make: Any) -> None:
    def f(x: Any) -> Any:
        return make(x + 1, x.sum())

    x = np.arange(4.0)
    expected, fused = f(x), jf.fuse(f)
    for _ in range(2):
        actual = fused(x)
        assert type(actual) is type(expected)
        assert repr(actual) == repr(expected)


def test_weak_and_strong_scalars_come_back_in_kind() -> None:
    fused = jf.fuse(lambda a, b: (a + 1, b + 1, a * 2.5, b, a > 0, -a))
    for a, b in ((2, np.float32(3)), (2.5, np.int32(1)), (True, np.bool_(True)), (3, np.arange(3))):
        expected = (a + 1, b + 1, a * 2.5, b, a > 0, -a)
        actual = fused(a, b)
        assert [type(v) for v in actual] == [type(v) for v in expected]
        for v, e in zip(actual, expected, strict=True):
            np.testing.assert_array_equal(v, e)


def test_modes_that_agree_share_a_plan() -> None:
    fused = jf.fuse(lambda x: np.sqrt(x) * 3.25)
    x = np.ones(10)
    fused(x), fused(x, training=True)
    stats = fused.stats()
    assert stats["traces"] == 1 and stats["compiles"] + stats["cache_hits"] <= 1


def test_extents_of_one_with_odd_strides_are_one_signature() -> None:
    fused = jf.fuse(lambda x: x * 2)
    a = np.ones((5, 1, 3))
    b = np.lib.stride_tricks.as_strided(np.ones(15), (5, 1, 3), (24, 8, 8))
    fused(a), fused(b), fused(b, training=True)
    assert fused.stats()["traces"] == 1


def test_failed_writes_leave_arguments_alone() -> None:
    def f(x: Any, n: Any) -> Any:
        x += 1
        return n ** np.int64(-1)

    x = np.arange(5.0)
    with pytest.raises(ValueError, match="negative integer powers"):
        jf.fuse(f)(x, np.arange(3))
    np.testing.assert_array_equal(x, np.arange(5.0))

"""Rolled loops that fill lists of numbers which the function returns as they are."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rolled import RNG, N, check, limits, loops

import jitfuse as jf

X = RNG.random(7) - 0.5


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "complex128"])
def test_a_list_of_numbers(dtype: str) -> None:
    def fn(x: Any) -> Any:
        losses = []
        for _ in range(N):
            x = x * 2 - x // 3 if x.dtype == np.int64 else x * 0.9 - 0.1
            losses.append(np.sum(x * x))
        return x, losses

    check(fn, (X * 20).astype(dtype), close=1e-5 if dtype == "float32" else 1e-12)


@pytest.mark.full
def test_several_lists_and_numbers_that_go_on() -> None:
    """What is returned is read in the next round too; a number stands in two lists; one is returned beside them."""
    def fn(x: Any) -> Any:
        sums, lows, both = [], [], []
        total = np.float64(0.0)
        for k in range(N):
            x = np.tanh(x + total / 50)
            total = np.sum(x)
            sums.append(total)
            lows.append(x.min())
            both += [lows[-1], total * k]
        return x, sums, lows, both, total

    check(fn, X, close=1e-12)


def test_numbers_keep_their_types_and_their_lists() -> None:
    def fn(x: Any, n: int) -> Any:
        losses, seen = [], {}
        for k in range(n):
            x = np.sqrt(x * x + 1) - x / 3
            losses.append(np.mean(x))
            seen[f"at {k}"] = x[k % 3]
        return {"losses": losses, "seen": seen, "x": x}

    for n in (0, 1, 3, 4, 5, 33):
        want = fn(X, n)
        with limits(24, 4):
            fused = jf.fuse(fn)
            for _ in range(2):
                got = fused(X.copy(), n)
                assert [type(v) for v in got["losses"]] == [type(v) for v in want["losses"]]
                assert list(got["seen"]) == list(want["seen"])
                np.testing.assert_allclose(got["losses"], want["losses"], rtol=1e-12)
                np.testing.assert_allclose(list(got["seen"].values()), list(want["seen"].values()), rtol=1e-12)
                np.testing.assert_allclose(got["x"], want["x"], rtol=1e-12)
            assert fused.stats()["fallbacks"] == 0


@pytest.mark.parametrize("number", [
    lambda v: float(v), lambda v: int(v), lambda v: v.item(), lambda v: -float(v) / 7, lambda v: float(v) > 0,
])
def test_numbers_of_python(number: Any) -> None:
    """`losses.append(float(loss))`: what comes back is Python's again, of its own type; lists may hold others too."""
    def fn(x: Any, n: int) -> Any:
        losses, last = [], 0.0
        for _ in range(n):
            x = np.sqrt(x * x + 1) - x / 3
            losses.append(number(np.sum(x) * 9))
            last = x.max() + last * 0.5
        return losses, x, last

    for n in (0, 1, 5, 33):
        (want, *rest), rerolled = fn(X, n), 0
        with limits(24, 4):
            fused = jf.fuse(fn)
            for _ in range(2):
                got, *others = fused(X.copy(), n)
                assert [type(v) for v in got] == [type(v) for v in want]
                np.testing.assert_allclose(got, want, rtol=1e-12)
                for a, b in zip(others, rest, strict=True):
                    np.testing.assert_allclose(a, b, rtol=1e-12)
            assert fused.stats()["fallbacks"] == 0
            rerolled = sum(loops(s.trace.program) for s in fused.parts.specs)
        assert rerolled == (n > 8)

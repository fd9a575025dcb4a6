"""Python's numbers of traced data: `float`, `int` and `item` look at nothing, and are what they are in plain Python."""
from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import ROUNDED, same

import jitfuse as jf


def losses(x: Any) -> Any:
    w, found = np.zeros(len(x)), []
    for _ in range(6):
        w = w + 0.25 * (x - w)
        found.append(float(np.mean((x - w) ** 2)))
    return w, found, sum(found) / len(found), min(found), max(found[0], 0.5)


def places(x: Any) -> Any:
    i = int(np.argmax(x))
    y = x.copy()
    y[i] = 0.0
    return {"at": i, "next": x[(i + 1) % len(x)], "value": float(x[i]), "rest": y, "before": i - 1}


def items(x: Any) -> Any:
    n = (x > 0).sum().item()
    return n, x.max().item(), (x[0] > 0).item(), n / len(x)


def truncated(x: Any) -> Any:
    counts = np.zeros(8, dtype=int)
    for v in x:
        k = int(v * 2)
        k = max(min(k, 3), -4)
        counts[k] += 1
    return counts


def promoted(x: Any) -> Any:
    s = float(x.sum())
    return x.astype(np.float32) * s, np.arange(3) * int(x[0] * 4), s


def used(x: Any) -> Any:
    """What needs the value itself looks at it."""
    n = int(abs(x[0]) * 2) + 1
    return np.zeros(n), x[:n], [0] * n, f"{float(x[0]):.3f}", math.floor(float(x[0]))


def types(x: Any) -> Any:
    s = float(x.sum())
    return isinstance(s, float), np.zeros(2, dtype=float), x.astype(int), [float(k) for k in range(3)], int("12", 3)


def checksum(x: Any) -> Any:
    crc = 0xFFFF
    for byte in (x * 40).astype(np.uint8):
        crc ^= int(byte)
        for _ in range(8):
            crc = (crc >> 1) ^ 0x8408 if crc & 1 else crc >> 1
    return crc ^ 0xFFFF, ~crc & 0xFF, (crc & 0xFF) << 8


FUNCTIONS = [losses, places, items, truncated, promoted, used, types, checksum]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_numbers_are_python_s(function: Callable[..., Any]) -> None:
    fused = jf.fuse(function)
    with warnings.catch_warnings(action="error" if function is not used else "ignore"):
        for seed in (*range(12), 0):
            x = np.random.default_rng(seed).normal(size=9)
            same(fused(x), function(x), ROUNDED)
    if function is checksum:
        assert fused.stats()["fallbacks"] == 0 and fused.stats()["traces"] <= 3
    elif function is not used:
        assert fused.stats()["fallbacks"] == 0
        assert fused.stats()["splits"] == 0 and fused.stats()["traces"] == 1


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64", "float32", "float64", "bool"])
def test_dtypes(dtype: str) -> None:
    def function(x: Any) -> Any:
        return float(x[0]), int(x[1]), x[2].item(), float(x[0]) * 0.5, int(x[1]) + 1, x[2].item() * 2

    fused = jf.fuse(function)
    for seed in range(3):
        x = (np.random.default_rng(seed).random(3) * 100).astype(dtype)
        same(fused(x), function(x), ROUNDED)


def test_ints_that_leave_64_bits() -> None:
    def function(x: Any) -> Any:
        n = int(x[0])
        return n * n * n + (n << 3)

    fused = jf.fuse(function)
    for value in (3, 2**40, -(2**62)):
        assert function(np.array([value])) == fused(np.array([value]))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_int(value: float) -> None:
    fused = jf.fuse(lambda x: int(x[0] * 1.0))
    assert fused(np.array([2.5])) == 2
    with pytest.raises((ValueError, OverflowError)):
        fused(np.array([value]))


def test_strict_functions_may_not_break() -> None:
    with pytest.raises(jf.TracedValueError):
        jf.fuse(strict=True)(lambda x: float(x.sum()))(np.ones(3))

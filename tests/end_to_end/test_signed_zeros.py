"""Zeros keep their signs, and NaN its bits, where NumPy keeps them whatever the number of elements."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from amount import crossed
from oracle import check

import jitfuse as jf

SIZES_OF_ZEROS: list[Any] = [(), 1, 5, 16, 33]
"""Those of which NumPy leaves elements over after whole vectors, and others."""
DTYPES = ["float16", "float32", "float64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES_OF_ZEROS)
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_limits(dtype: str, size: Any, zero: float) -> None:
    x = np.full(size, zero, dtype)
    check(lambda x: (np.clip(x, -zero, 1), np.clip(x, -1.0, -zero), x.clip(-zero, -zero), np.clip(x, 0, 1)), (x,))
    check(lambda x: (np.clip(x, None, -zero), np.clip(x, -zero, None)), (x,))
    if size != ():
        check(lambda x, low, high: (np.clip(x, low, high),), (x, -x, -x + 1))


@pytest.mark.parametrize(("dtype", "size", "zero", "initial"), crossed(
    2, DTYPES, [0, *SIZES_OF_ZEROS], [0.0, -0.0], [0.0, -0.0, 1.0]))
def test_reductions_that_begin_with_a_number(dtype: str, size: Any, zero: float, initial: float) -> None:
    x = np.full(size, zero, dtype)
    check(lambda x: (np.sum(x, initial=initial), np.sum(x, initial=initial, where=False)), (x,))
    check(lambda x: (np.min(x, initial=initial), np.max(x, initial=initial)), (x,))
    check(lambda x, start: (np.sum(x, initial=start), np.nansum(x, initial=start)), (x, initial))


def test_some_of_a_sum_that_begins_with_a_negative_zero() -> None:
    x = np.array([[-0.0, -0.0, 0.0], [-0.0, -0.0, -0.0], [1.0, -1.0, -0.0]])
    mask = np.array([True, True, False])
    check(lambda x, mask: (x.sum(1, initial=-0.0), np.sum(x, 1, initial=-0.0, where=mask, keepdims=True)), (x, mask))


@pytest.mark.parametrize("dtype", [*DTYPES, "complex64"])
def test_sums_over_no_axis_begin_with_zero(dtype: str) -> None:
    x = np.full(3, -0.0, dtype)
    check(lambda x: (np.real(np.sum(x, axis=())), np.real(np.mean(x, axis=()))), (x,))
    check(lambda x: (np.real(np.sum(x)), np.real(x.mean())), (np.array(-0.0, dtype),))


def test_nan_literals_keep_their_signs() -> None:
    def function(x: Any) -> Any:
        nan = float("nan")
        pair = complex(nan, -0.0), complex(-nan, -0.0)
        return (np.where(x > 1, nan, x), np.where(x > 1, -nan, x), np.copysign(x, nan), np.copysign(x, -nan),
                np.full(2, nan), np.full(2, -nan), np.where(x > 1, *pair).real, np.where(x < 1, *pair).real)

    check(function, (np.arange(1.0, 5.0),))


def test_nan_arguments_that_python_reads_are_told_apart() -> None:
    fused = jf.fuse(lambda x, n: x * math.copysign(2.0, n))
    x = np.arange(3.0)
    for n in (math.nan, -math.nan, math.nan):
        np.testing.assert_array_equal(fused(x, n), x * math.copysign(2.0, n))


def test_torch_keeps_the_element() -> None:
    torch = pytest.importorskip("torch")

    def function(x: Any, z: Any) -> Any:
        f = torch.nn.functional
        return (x.clamp(0.0, 1.0), x.clamp(min=0.0), z.clamp(max=-0.0), z.clamp(-1.0, -0.0), f.relu6(x), f.relu(x),
                f.hardtanh(x, 0.0, 1.0), f.relu(torch.full_like(x, math.nan)))

    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        for n in (1, 3, 17, 64):
            x = torch.full((n,), -0.0, dtype=dtype)
            for found, expected in zip(jf.fuse(function)(x, -x), function(x, -x), strict=True):
                assert torch.equal(found.signbit() & ~found.isnan(), expected.signbit() & ~expected.isnan())
                assert torch.equal(found.isnan(), expected.isnan())

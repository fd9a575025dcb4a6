"""The condition of an arm is recorded where something needs it, and is what it was when the arm began."""
from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf

N = 40


def written_flag(x: Any) -> Any:
    flag, count = np.array(False), 0.0
    for i in range(len(x)):
        flag[()] = x[i] > 0
        if flag:
            flag[()] = False
            count = count + 1.0
        else:
            count = count - x[i]
        if flag:
            count = count * 2.0
    return count, flag


def written_mask(x: Any) -> Any:
    mask = x > 0
    total = 0.0
    for i in range(1, len(x)):
        if mask[i]:
            mask[i], mask[i - 1] = False, True
            total = total + x[i]
        else:
            mask[i] = True
    return total, mask


def innermost_writes(x: Any) -> Any:
    out = np.zeros(len(x))
    for i in range(len(x)):
        if x[i] > 0.5:
            out[i] = 1.0
        else:
            v = x[i] * 2
            if v < -1:
                if x[i] > -1:
                    out[i] = v
                else:
                    out[i] += v
            else:
                out[0] -= v
    return out


def only_names(x: Any) -> Any:
    a = b = 0
    for i in range(len(x)):
        if x[i] > 0:
            a += 1
        elif x[i] < -1:
            b += 1
        else:
            a, b = b, a
    return a, b


FUNCTIONS = [written_flag, written_mask, innermost_writes, only_names]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("n", [0, 1, 7, N])
def test_as_plain_python(function: Callable[..., Any], n: int) -> None:
    fused = jf.fuse(function)
    for seed in range(4):
        x = np.random.default_rng(seed).normal(size=2 * n)[::2]
        if seed == 3:
            x[::3], x[1::5] = np.nan, -0.0
        with warnings.catch_warnings(action="error"):
            found = fused(x.copy())
        for a, b in zip(function(x.copy()), found, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-12)
    assert fused.stats()["fallbacks"] == 0

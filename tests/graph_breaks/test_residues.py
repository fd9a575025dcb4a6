"""Branches that hang on what rounding leaves of a sum: fused code goes by its own sums, the same in each call."""
from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import same

import jitfuse as jf

SIZES = (1, 3, 5, 8, 17, 100)


def mean(x: Any) -> Any:
    return x.mean()


def sign(x: Any) -> Any:
    for k in range(3):
        y = x
        x = x - mean(x)
        if 0 < mean(y) < 1:
            return y, k
        x = x * 0.5
    return x, 5


def counted(x: Any) -> Any:
    it = 0
    while mean(x) != 0 and it < 20:
        x = x - mean(x)
        it += 1
        if it % 3 == 0:
            x *= 0.75
    return x, it


def ranged(x: Any) -> Any:
    z, p = x * 0.5, [x, x]
    for k in range(9):
        z = z - mean(z)
        z *= 0.5
        p = [z, p[0]]
        if mean(z) > mean(p[1]):
            return p, k
    return p, -1


def aliased(x: Any) -> Any:
    x, y = x.copy(), x[::-1]
    w = x
    while mean(x) > mean(y):
        x -= mean(x)
        w[::2] *= 0.5
        y = x[::-1]
    return x, y, w


@pytest.mark.parametrize("function", [sign, counted, ranged, aliased])
@pytest.mark.parametrize("size", SIZES)
def test_residues_decide_alike(function: Callable[[Any], Any], size: int) -> None:
    """What the function does with the means of fused code, it does when it is fused, to the bit."""
    own = types.FunctionType(function.__code__, {"mean": jf.fuse(lambda x: x.mean())})
    rng = np.random.default_rng(size)
    calls = [np.round(rng.standard_normal(size) * scale, 2) for scale in (1, 3, 0.3, 2, 0.1)]
    warm = jf.fuse(function)
    for x in calls * 3:
        expected = own(x.copy())
        for fused in (warm, jf.fuse(function)):
            given = x.copy()
            same(fused(given), expected)
            np.testing.assert_array_equal(given, x)

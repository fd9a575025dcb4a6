"""Windows over arrays: NumPy's elements, in kernels of their own, in others', and as operands of libraries."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse.ir.semantics import reference

windows = np.lib.stride_tricks.sliding_window_view


def array(*shape: int) -> Any:
    return np.random.default_rng(3).normal(size=shape)


FUNCTIONS = {
    "alone": lambda x: windows(x, 2, axis=-1) + 0,
    "summed": lambda x: windows(x, 2, axis=-1).sum(axis=-1),
    "largest": lambda x: windows(np.sin(x), 3, axis=-1).max(axis=-1),
    "of computed": lambda x: windows(np.exp(np.tanh(x) * x) / 3, 2, axis=0).mean(axis=-1),
    "reshaped": lambda x: windows(x, 2, axis=-1).reshape(-1) * 2,
    "multiplied": lambda x: windows(x, 3, axis=-1) @ np.array([1.0, -2.0, 0.5]),
    "sorted": lambda x: np.sort(windows(x, 3, axis=-1), axis=-1),
    "nested": lambda x: windows(windows(x, 2, axis=-1), 2, axis=0)[..., 0, 1] * 2,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("x", [
    array(9), array(3), array(4, 5), array(7, 6).T, array(8, 12)[::2, ::-3], array(2, 3, 4), array(0, 3),
], ids=lambda x: f"{x.shape}{x.strides}")
def test_fused_as_numpy(name: str, x: Any) -> None:
    function = FUNCTIONS[name]
    try:
        want = function(x)
    except ValueError:
        with pytest.raises(ValueError):
            jf.fuse(function)(x)
        return
    fused = jf.fuse(function)
    for _ in range(2):
        got = fused(x)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-13, strict=True)
    assert fused.stats()["fallbacks"] == 0


def test_windows_over_two_axes() -> None:
    x = array(6, 7)
    fused = jf.fuse(lambda x: windows(x, (2, 3)).sum(axis=(2, 3)))
    np.testing.assert_allclose(fused(x), windows(x, (2, 3)).sum(axis=(2, 3)))


def test_written_after_the_windows_were_taken() -> None:
    def function(x: Any) -> Any:
        y = x * 2
        sums = windows(y, 2).sum(axis=-1)
        y[1:-1] = sums[1:] * 0.5
        return y, sums

    x = array(9)
    for got, want in zip(jf.fuse(function)(x), function(x), strict=True):
        np.testing.assert_allclose(got, want)


@pytest.mark.parametrize("n", [0, 1, 2, 5, 8])
@pytest.mark.parametrize(("size", "step", "apart"), [(1, 1, 1), (2, 1, 1), (2, 3, 1), (3, 1, 2), (2, 2, 3)])
def test_the_reference(n: int, size: int, step: int, apart: int) -> None:
    x = np.arange(n)
    made = reference.windows(x, sizes=(size,), steps=(step,), dilations=(apart,))
    want = [[x[i * step + k * apart] for i in range(n) if i * step + (size - 1) * apart < n] for k in range(size)]
    assert made.tolist() == want


def test_bad_windows_are_refused() -> None:
    for window, axis in ((0, 0), (9, 0), ((2, 2), 0)):
        with pytest.raises(ValueError):
            jf.fuse(lambda x, w=window, a=axis: windows(x, w, axis=a) + 0, strict=True)(array(4, 5))
    with pytest.raises(jf.JitfuseError, match="writeable"):
        jf.fuse(lambda x: windows(x, 2, writeable=True), strict=True)(array(4))

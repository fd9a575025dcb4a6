"""Scans give NumPy's bits along every axis, in every layout, fused with what makes and what reads them."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import outcome, same
from programs import make, quiet
from reductions_checked import assert_agrees

import jitfuse as jf
from jitfuse.dtypes import numpy_dtype

DTYPES = ("float32", "float64", "int32", "int64", "bool")
SHAPES = ((0,), (1,), (5,), (70_001,), (3, 300), (300, 3), (40, 41), (0, 4), (4, 0), (2, 3, 17), (1, 1))
SCANS: dict[str, Callable[..., Any]] = {
    "cumsum": np.cumsum, "cumprod": np.cumprod, "cummax": np.maximum.accumulate, "cummin": np.minimum.accumulate,
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SCANS)
def test_bits_along_every_axis(name: str, dtype: str) -> None:
    for shape in SHAPES:
        for axis in range(len(shape)):
            fused = jf.fuse(lambda x, axis=axis: SCANS[name](x, axis=axis))
            for style in ("plain", "special"):
                x = make(shape, dtype, 1, "C", style)
                same(fused(x), outcome(lambda x, axis=axis: SCANS[name](x, axis=axis), x))


@pytest.mark.parametrize("layout", ["F", "strided", "reversed", "transposed", "broadcast", "offset"])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_bits_in_every_layout(dtype: str, layout: str) -> None:
    for shape in ((317, 23), (23, 317), (5, 6, 70)):
        for axis in range(len(shape)):
            def both(x: Any, axis: int = axis) -> Any:
                return np.cumsum(x, axis=axis), np.maximum.accumulate(x[::-1], axis=axis)[..., ::-2]

            x = make(shape, dtype, 1, layout, "special")
            same(jf.fuse(both)(x), outcome(both, x))


FUSED: dict[str, Callable[..., Any]] = {
    "producers and consumers": lambda x: np.cumsum(x * 2 + 1, axis=1) * 3 - x,
    "scans of scans": lambda x: np.maximum.accumulate(np.cumsum(x, axis=1), axis=1),
    "several results": lambda x: (np.cumsum(x, axis=1), np.minimum.accumulate(x, axis=1) + x, x * 2),
    "then a position": lambda x: np.argmax(np.cumsum(x, axis=1), axis=1),
    "then an extreme": lambda x: np.cumsum(x, axis=1).max(axis=1),
    "of a broadcast row": lambda x: np.cumsum(np.broadcast_to(x[0], x.shape), axis=0),
    "columns": lambda x: np.cumsum(x - 1, axis=0) * x,
    "backwards": lambda x: np.cumsum(x[:, ::-1], axis=1)[:, ::-1],
    "of an extreme": lambda x: np.cumsum(x - x.max(axis=1, keepdims=True), axis=1),
}
ONE_KERNEL = {name for name in FUSED if name != "backwards"}


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("name", FUSED)
def test_fusion(name: str, dtype: str) -> None:
    fused = jf.fuse(FUSED[name])
    for shape in ((6, 50), (300, 40), (1, 1), (3, 1), (1, 70)):
        x = make(shape, dtype, 2)
        same(fused(x), outcome(FUSED[name], x))
    if name in ONE_KERNEL:
        fresh = jf.fuse(FUSED[name])
        fresh(make((30, 40), dtype, 1))
        assert fresh.stats()["launches"] == 1


def test_a_share_of_the_total_is_one_kernel() -> None:
    def share(x: Any) -> Any:
        return np.cumsum(np.exp(x), axis=1) / np.sum(np.exp(x), axis=1, keepdims=True)

    x = make((50, 60), "float64", 1)
    fused = jf.fuse(share)
    np.testing.assert_allclose(fused(x), share(x), rtol=1e-13)
    assert fused.stats()["launches"] == 1


def test_scans_along_two_axes_are_two_kernels() -> None:
    def image(x: Any) -> Any:
        return np.cumsum(np.cumsum(x, axis=0), axis=1)

    x = make((50, 60), "float64", 1)
    fused = jf.fuse(image)
    same(fused(x), image(x))
    assert fused.stats()["launches"] == 2


X = np.array([[0.5, -1.5, 2.0, 7.0], [np.nan, 3.0, -0.0, 1.0], [2.0, 2.0, 9.0, np.inf]])
I32 = np.array([[3, -2, 2**30, 2**30], [2**31 - 1, 5, 7, -9]], "int32")
OPTIONS: dict[str, Callable[..., Any]] = {
    "flattened": lambda x, i: (np.cumsum(x), x.cumsum(), np.cumprod(i), i.T.cumsum()),
    "dtype": lambda x, i: (np.cumsum(i, dtype="int32"), i.cumsum(axis=1, dtype=float), np.cumprod(x, dtype="float32")),
    "scalars": lambda x, i: (np.cumsum(x[0, 1]), np.cumsum(x[0, 1], axis=0), np.cumulative_sum(i[0, 0])),
    "methods of ufuncs": lambda x, i: (np.add.accumulate(x), np.multiply.accumulate(i, axis=1),
                                       np.maximum.accumulate(x, axis=-1), np.logical_and.accumulate(x > 0),
                                       np.logical_or.accumulate(x, axis=1), np.add.accumulate(i, 1, "float64")),
    "accumulate of a scalar": lambda x, i: np.add.accumulate(x[0, 0]),
    "of the array API": lambda x, i: (np.cumulative_sum(x[0]), np.cumulative_prod(i, axis=1, include_initial=True),
                                      np.cumulative_sum(x, axis=0, include_initial=True, dtype="float32")),
    "an axis is required": lambda x, i: np.cumulative_sum(x),
    "leaving out NaN": lambda x, i: (np.nancumsum(x, axis=0), np.nancumprod(x), np.nancumsum(i)),
    "diff": lambda x, i: (np.diff(x), np.diff(i, 2, axis=0), np.diff(x > 0), np.diff(x, axis=0, n=5), np.diff(x, 0)),
    "diff with edges": lambda x, i: (np.diff(x, prepend=0), np.diff(i, axis=0, append=i[:1], prepend=i[1:]),
                                     np.diff(x, 2, append=[[1.0]] * 3)),
    "diff of a scalar": lambda x, i: np.diff(x[0, 0]),
    "diff of a negative order": lambda x, i: np.diff(x, -1),
    "ediff1d": lambda x, i: (np.ediff1d(x), np.ediff1d(i, to_begin=7, to_end=[1, 2]), np.ediff1d(x[0, :1])),
    "ediff1d that does not fit": lambda x, i: np.ediff1d(i, to_end=1.5),
    "trapezoid": lambda x, i: (np.trapezoid(i), np.trapezoid(x, axis=0, dx=0.5), np.trapezoid(x, x[2]),
                               np.trapezoid(i, x[:2], axis=0)),
    "wrong axis": lambda x, i: np.cumsum(x, axis=2),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options(name: str) -> None:
    assert_agrees(OPTIONS[name], X, I32)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_out(dtype: str) -> None:
    def into(x: Any, out: Any) -> Any:
        np.cumsum(x, axis=1, out=out)
        return out + 1

    with quiet():
        assert_agrees(into, X[[0]], np.zeros((1, 4), dtype))
        assert_agrees(into, I32, np.zeros((2, 4), dtype))


def test_long_columns_and_rows_use_all_threads_and_keep_their_bits() -> None:
    for shape, axis in (((200, 30_000), 0), ((3000, 200), 1)):
        x = make(shape, "float32", 3)
        same(jf.fuse(lambda x, axis=axis: np.cumsum(x, axis=axis))(x), np.cumsum(x, axis=axis))


def test_scans_that_leave_out_nan_keep_their_dtype() -> None:
    for dtype in ("float16", "bfloat16", "float32", "complex64"):
        x = np.array([1.0, np.nan, 2.0, -3.0]).astype(numpy_dtype(dtype))
        sums, products = jf.fuse(lambda x: (np.nancumsum(x), np.nancumprod(x)))(x)
        assert sums.dtype == products.dtype == x.dtype
        assert sums.tolist() == [1, 1, 3, 0] and products.tolist() == [1, 1, 2, -6]

"""Every reduction of NumPy with every option gives what NumPy gives: values, dtypes, shapes, kinds, errors."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import amount
import numpy as np
import pytest
from oracle import REDUCED, same
from programs import make
from reductions_checked import assert_agrees
from scipy import special

import jitfuse as jf
from jitfuse.array_api.namespace import operate

DTYPES = ("float32", "float64", "int32", "int64", "bool")
TOLERANCE = {"float32": 2e-5, "float64": 1e-13}


REDUCTIONS = {
    "sum": lambda x, **k: np.sum(x, **k), "prod": lambda x, **k: np.prod(x, **k),
    "min": lambda x, **k: np.min(x, **k), "max": lambda x, **k: x.max(**k),
    "any": lambda x, **k: np.any(x, **k), "all": lambda x, **k: x.all(**k), "mean": lambda x, **k: np.mean(x, **k),
    "var": lambda x, **k: np.var(x, **k), "std": lambda x, **k: x.std(**k), "ptp": lambda x, **k: np.ptp(x, **k),
    "argmin": lambda x, **k: np.argmin(x, **k), "argmax": lambda x, **k: x.argmax(**k),
    "nanprod": lambda x, **k: np.nanprod(x, **k), "nanargmin": lambda x, **k: np.nanargmin(x, **k),
    "nanargmax": lambda x, **k: np.nanargmax(x, **k),
    "count_nonzero": lambda x, **k: np.count_nonzero(x, **k), "nansum": lambda x, **k: np.nansum(x, **k),
    "nanmin": lambda x, **k: np.nanmin(x, **k), "nanmax": lambda x, **k: np.nanmax(x, **k),
    "nanmean": lambda x, **k: np.nanmean(x, **k), "nanvar": lambda x, **k: np.nanvar(x, **k),
    "nanstd": lambda x, **k: np.nanstd(x, **k), "logsumexp": lambda x, **k: jf.logsumexp(x, **k),
}


def with_nan(x: Any) -> Any:
    """Return an array with NaN here and there, and a whole row of it."""
    x = np.array(x)
    if x.dtype.kind == "f" and x.size:
        x.reshape(-1)[:: 3] = np.nan
        if x.ndim > 1:
            x[0] = np.nan
    return x


AXES = [(shape, axis) for shape, axes in (
    ((7,), (None, 0, -1)), ((3, 40), (None, 0, 1, (0, 1), ())), ((2, 3, 17), ((0, 2), (1,), 1)), ((0, 4), (None, 0, 1)),
    ((5, 0), (1,)), ((1, 1), (0, None)), ((3,), (1, -2, (0, 0)))) for axis in axes]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_axes_and_shapes(name: str, dtype: str) -> None:
    turn = list(REDUCTIONS).index(name) + DTYPES.index(dtype)
    for k in range(len(AXES)) if amount.extended() else range(turn % 2, len(AXES), 2):
        shape, axis = AXES[k]
        x = make(shape, dtype, 3, "C", "positive" if dtype[0] == "f" else "plain")
        x = with_nan(x) if name.startswith("nan") else x
        for keepdims in (False, True) if amount.extended() else ((k // 2 + turn // 2) % 2 == 0,):
            assert_agrees(functools.partial(REDUCTIONS[name], axis=axis, keepdims=keepdims), x)


X = np.array([[0.5, -1.5, 2.0, 7.0], [np.nan, 3.0, -0.0, 1.0], [2.0, 2.0, 9.0, np.inf]])
MASK = np.array([[True, False, True, True], [False, True, True, False], [True, True, False, False]])
OPTIONS: dict[str, Callable[..., Any]] = {
    "sum where": lambda x, m: np.sum(x, axis=1, where=m),
    "sum where of a row": lambda x, m: np.sum(x, axis=0, where=m[0]),
    "sum initial": lambda x, m: (x.sum(initial=3), np.sum(x > 1, initial=2), np.sum(x[:0], axis=0, initial=1.5)),
    "sum dtype": lambda x, m: (np.sum(m, dtype=np.float32), np.sum(np.where(m, x, 1), dtype="float32", axis=0)),
    "sum initial and where": lambda x, m: np.sum(x, axis=0, initial=5, where=m, keepdims=True),
    "min initial": lambda x, m: (np.min(x, axis=0, initial=1), x[:0].min(axis=0, initial=2, keepdims=True)),
    "max where": lambda x, m: np.max(x, axis=1, initial=-5, where=m),
    "max of ints with a float initial": lambda x, m: np.max(m.astype("int32"), initial=2.5),
    "max without initial": lambda x, m: np.max(x, where=m),
    "initial out of range": lambda x, m: np.max(m.astype("int32"), initial=2**40),
    "any where": lambda x, m: (np.any(x > 5, axis=1, where=m), np.all(x, axis=0, where=m), x.any(), np.all(x)),
    "mean where": lambda x, m: (np.mean(x, where=m), np.mean(x, axis=1, where=m, keepdims=True)),
    "mean dtype": lambda x, m: (np.mean(m, dtype="float32"), np.mean(m, axis=0, where=m)),
    "var where": lambda x, m: (np.var(x[:1], axis=1, where=m[:1]), np.std(x[:1], where=m[:1], ddof=1)),
    "var mean": lambda x, m: np.var(x[0], mean=np.mean(x[0], keepdims=True)),
    "var correction": lambda x, m: (np.var(x[0], correction=1), x[0].std(ddof=2), np.std(x[0], ddof=4)),
    "nan options": lambda x, m: (np.nansum(x, dtype="float32"), np.nanmean(x, axis=1, where=m), np.nanvar(x, ddof=1)),
    "nan extremes": lambda x, m: (np.nanmin(x, axis=0, initial=-3), np.nanmax(x, initial=0, where=m)),
    "prod options": lambda x, m: (np.prod(x[0], initial=2), np.prod(x, where=m, axis=0), x[:0].prod(axis=0),
                                  np.prod(m, dtype="float32"), np.multiply.reduce(x, axis=1, initial=3)),
    "argmax out of several axes": lambda x, m: np.argmax(x, axis=(0, 1)),
    "argmax of nothing": lambda x, m: np.argmax(x[:0], axis=0),
    "positions of numbers": lambda x, m: (np.nanargmin(x, axis=1), np.nanargmax(x), np.nanargmin(x, 0, keepdims=True)),
    "only NaN in a row": lambda x, m: np.nanargmax(x * np.where(m[1:2], np.nan, 1)[:, 1:3], axis=1),
    "a condition that holds": lambda x, m: operate("require", x[0], np.any(m)) + 1,
    "norms": lambda x, m: (np.linalg.norm(x[::2, :3]), np.linalg.norm(x[0], 1), np.linalg.norm(x[0], np.inf),
                           np.linalg.norm(x[0], 0), np.linalg.norm(x, axis=1), np.linalg.norm(x[0] > 0, 3),
                           np.linalg.norm(x, -np.inf, axis=0, keepdims=True), np.linalg.norm(x[::2, :3], "fro")),
    "norm of a matrix": lambda x, m: np.linalg.norm(x[::2, :3], axis=(0, 1), keepdims=True),
    "ufunc methods": lambda x, m: (np.add.reduce(x), np.add.reduce(x, axis=None), np.maximum.reduce(x, axis=1),
                                   np.minimum.reduce(x, axis=-1, keepdims=True), np.logical_or.reduce(x > 5),
                                   np.logical_and.reduce(x), np.add.reduce(m), np.add.reduce(x, where=m, initial=2)),
    "average": lambda x, m: (np.average(x[0]), np.average(x[:, :3], axis=1, weights=[1, 2, 3]),
                             np.average(m, axis=0), np.average(x, weights=m + 1, axis=1, keepdims=True)),
    "average returned": lambda x, m: (*np.average(m, axis=1, weights=[1, 2, 3, 4], returned=True),
                                      *np.average(x[0], returned=True)),
    "average of wrong weights": lambda x, m: np.average(x, axis=0, weights=[1, 2]),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options(name: str) -> None:
    assert_agrees(OPTIONS[name], X, MASK)


def into(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    def call(x: Any, out: Any) -> Any:
        function(x, out=out, **options)
        return out + 1

    return call


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_out(dtype: str) -> None:
    for function in (np.sum, np.min, np.any, *((np.mean, np.std) if dtype[0] == "f" else ())):
        assert_agrees(into(function, axis=0), X[[0, 2], :3], np.zeros(3, dtype))
        assert_agrees(into(function, axis=0), X[:1], np.zeros(3, dtype))
    assert_agrees(into(np.sum, axis=0), X[[0, 2], :3].astype("int32"), np.zeros(3, dtype))
    assert_agrees(into(np.sum, axis=1), MASK, np.zeros(3, dtype))
    assert_agrees(into(np.add.reduce, axis=1), X[:1], np.zeros(1, dtype))


def test_what_a_kernel_raises_for_names_the_reason() -> None:
    fused = jf.fuse(lambda x: np.nanargmin(x, axis=1) + 1)
    x = np.ones((3, 100))
    assert fused(x).tolist() == [1, 1, 1]
    x[1] = np.nan
    for _ in range(2):
        with pytest.raises(jf.NumericError, match="All-NaN slice encountered"):
            fused(x)
    required = jf.fuse(lambda x, limit: operate("require", x * 2, x < limit))
    assert required(x[0], 2.0).tolist() == [2.0] * 100
    with pytest.raises(ValueError, match="a required condition does not hold"):
        required(x[0], 1.0)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_long_single_rows_are_split_over_threads(dtype: str) -> None:
    x = make((300_007,), dtype, 4)
    for function in (np.sum, np.max, np.argmin, np.prod, np.nanargmax):
        fused = jf.fuse(function)
        assert_agrees(function, np.clip(x, 0.9999, 1.0001) if function is np.prod and dtype == "float32" else x)
        fused(x)
        assert fused.stats()["launches"] == 2
    for first in (3, 70_000, 300_000):  # equal elements in several chunks
        y = np.zeros(300_007, dtype)
        y[first::50_000] = 7
        assert jf.fuse(np.argmax)(y) == first


def test_logsumexp_is_stable() -> None:
    for x in ([1000.0, 1000.5], [-1e5, -1e5 - 3], [0.0, -50.0], [-np.inf, -np.inf], [np.inf, 1.0], [np.inf, -np.inf],
              [np.nan, 1.0], [], [0.0, 0.0, 0.0]):
        a = np.array(x)
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(jf.fuse(lambda v: jf.logsumexp(v))(a), special.logsumexp(a), rtol=1e-14)


def test_functions_of_scipy() -> None:
    def fn(x: Any) -> Any:
        return (special.logsumexp(x), special.logsumexp(x, axis=1, keepdims=True), special.softmax(x, axis=-1),
                special.log_softmax(x, axis=0), special.softmax(x), special.logsumexp([1.0, 2.0]))

    for dtype in ("float32", "float64"):
        assert_agrees(fn, make((6, 30), dtype, 1))
    with pytest.raises(jf.JitfuseError, match="logsumexp with b"):
        jf.fuse(lambda x: special.logsumexp(x, b=x), strict=True)(np.ones(3))


NORMALISATIONS: dict[str, Callable[..., Any]] = {
    "softmax": jf.nn.softmax, "log_softmax": jf.nn.log_softmax, "layer_norm": jf.nn.layer_norm,
    "rms_norm": jf.nn.rms_norm,
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("name", NORMALISATIONS)
def test_normalisations_are_one_kernel(name: str, dtype: str) -> None:
    for shape, axis in (((5, 300), -1), ((300, 5), 0), ((4, 3, 50), (1, 2)), ((3, 4), -1), ((7,), 0)):
        x = make(shape, dtype, 2)
        fused = jf.fuse(lambda x, axis=axis: NORMALISATIONS[name](x, axis=axis))
        same(fused(x), NORMALISATIONS[name](x, axis=axis), REDUCED)
        assert fused.stats()["launches"] == 1


def test_weights_of_normalisations_are_part_of_the_kernel() -> None:
    x, w, b = make((40, 65), "float32", 1), make((65,), "float32", 2), make((65,), "float32", 3)
    fused = jf.fuse(lambda x, w, b: (jf.nn.layer_norm(x, w, b), jf.nn.rms_norm(x, w)))
    for got, want in zip(fused(x, w, b), (jf.nn.layer_norm(x, w, b), jf.nn.rms_norm(x, w)), strict=True):
        same(got, want, REDUCED)
    assert fused.stats()["launches"] == 1


@pytest.mark.parametrize("name", ["logsumexp", "nanvar", "nanmin", "std", "ptp"])
def test_composites_are_one_kernel(name: str) -> None:
    fused = jf.fuse(lambda x: REDUCTIONS[name](x * 2, axis=1) + 1)
    fused(make((30, 70), "float64", 1))
    assert fused.stats()["launches"] == 1


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (0,)])
def test_initial_values_of_nothing_are_numbers_or_arrays(shape: tuple[int, ...], axis: Any, keepdims: bool) -> None:
    def extremes(x: Any, start: Any) -> Any:
        found = np.max(x, axis=axis, keepdims=keepdims, initial=start)
        kept = found
        found += 1  # a number is another one then, an array the same
        return found, kept, np.min(x, axis=axis, keepdims=keepdims, initial=start, where=x > 0)

    for dtype in ("float32", "int64"):
        assert_agrees(extremes, np.zeros(shape, dtype), 2)


def test_what_an_empty_reshape_reads_is_never_computed() -> None:
    def positions(x: Any) -> Any:
        return (np.nanargmax(x, axis=2) < 1.0).reshape(0, 0).sum()

    x = np.ones((1, 0, 1, 1))
    assert jf.fuse(positions)(x) == positions(x) == 0


@pytest.mark.parametrize("axis", [0, 1, None, (0,)])
@pytest.mark.parametrize("shape", [(33, 17), (1000, 3), (3, 1000), (70, 70), (5000, 40)])
def test_the_first_of_equal_elements_beside_sums(shape: tuple[int, int], axis: Any) -> None:
    def positions(x: Any, y: Any) -> Any:
        over = axis[0] if isinstance(axis, tuple) else axis
        return np.argmin(x, axis=over), np.argmax(x, axis=over), np.sum(y * x, axis=axis), np.sum(y > 0, axis=axis)

    rng = np.random.default_rng(12)
    x, y = rng.integers(0, 7, shape).astype("uint8"), rng.integers(-3, 3, shape).astype("float64")
    for want, got in zip(positions(x, y), jf.fuse(positions)(x, y), strict=True):
        np.testing.assert_array_equal(got, want)  # sums of small integers are exact
    want, got = positions(x * 0.5, y), jf.fuse(positions)(x * 0.5, y)
    for a, b in zip(want, got, strict=True):
        np.testing.assert_array_equal(b, a)

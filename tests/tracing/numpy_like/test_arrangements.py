"""Operators that move, repeat, pad, split and join: NumPy's elements, to the bit, and few kernels."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import amount
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from launches import launches
from oracle import EXACT, MEANS, check

import jitfuse as jf
from jitfuse.dtypes import SUPPORTED
from jitfuse.ir.decompositions import padding

RNG = np.random.default_rng(11)
DTYPES = [d for d in SUPPORTED if d != "bfloat16"]
SHAPES = [(5,), (1,), (0,), (3, 4), (1, 6), (4, 0), (2, 3, 5)]


def array(shape: tuple[int, ...], dtype: str = "float64") -> Any:
    with np.errstate(all="ignore"):
        return RNG.normal(0, 9, shape).astype(dtype)


@pytest.mark.parametrize("shape", SHAPES)
def test_rolling(shape: tuple[int, ...]) -> None:
    x = array(shape)
    check(lambda x: (np.roll(x, 2), np.roll(x, -1, axis=0), np.roll(x, 7, axis=-1), np.roll(x, 0)), (x,))
    check(lambda x: np.roll(x, (1, 2), axis=(0, 0)), (x,))
    if len(shape) > 1:
        check(lambda x: (np.roll(x, (1, -2), (0, 1)), np.roll(x.T, 3, (0, 1)), np.roll(x[::-1], 1, 1)), (x,))


def test_rolling_feeds_elementwise_work_in_one_kernel() -> None:
    x = array((40, 50))
    fused = check(lambda u: u + 0.1 * (np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) - 3 * u), (x,))
    assert launches(fused, x) == 1
    assert launches(check(lambda u: np.pad(u, 2, mode="edge")[1:-1, 1:-1] * 2, (x,)), x) == 1
    assert launches(check(lambda u: np.tril(u) + np.triu(u, 1) * 2 + np.flip(u, 0), (x,)), x) == 1
    assert launches(check(lambda u: np.roll(u, 3, 1).max(axis=1), (x,)), x) == 1
    assert launches(check(lambda u: np.stack([u, u + 1], axis=1).max(axis=1), (x,)), x) == 1


@pytest.mark.parametrize("shape", [s for s in SHAPES if s])
def test_flips_and_rotations(shape: tuple[int, ...]) -> None:
    x = array(shape)
    check(lambda x: (np.flip(x) * 1, np.flipud(x) + 0), (x,))
    if len(shape) > 1:
        check(lambda x: tuple(np.rot90(x, k) + 0 for k in range(-1, 5)), (x,))
        check(lambda x: (np.fliplr(x) + 0, np.rot90(x, 1, (1, 0)) + 0, np.rollaxis(x, 1) + 0), (x,))


def test_views_write_through() -> None:
    def write(x: Any) -> Any:
        np.rot90(x)[0] = 7
        np.flip(x, 0)[0, 0] = 5
        d = np.diagonal(x)
        for part in np.array_split(x, 2):
            part += 1
        return d * 1

    x, y = array((4, 4)), np.zeros(0)
    y = x.copy()
    want = write(y)
    np.testing.assert_array_equal(jf.fuse(write)(x), want)
    np.testing.assert_array_equal(x, y)
    with pytest.raises(ValueError, match="read-only"):
        jf.fuse(lambda x: np.diagonal(x).fill(1))(x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_repeating(dtype: str) -> None:
    for shape, function in amount.covering(DTYPES, dtype, SHAPES, (
        lambda x: (np.tile(x, 3), np.tile(x, (2, 1)), np.tile(x, (2, 3, 1)), np.tile(x, 0), np.tile(x, 1)),
        lambda x: (np.repeat(x, 2), np.repeat(x, 3, axis=0), x.repeat(0, axis=-1), np.repeat(x, 1)),
        lambda x: np.repeat(x, [k % 3 for k in range(x.shape[0])], axis=0),
    )):
        check(function, (array(shape, dtype),))


def test_repeated_elements_are_read_through_index_maps() -> None:
    x, z = array((6, 7)), array((12, 7))
    check(lambda x, z: np.tile(x, (2, 1)) + z, (x, z))
    check(lambda x, z: np.repeat(x + 1, 2, axis=0) * z, (x, z))
    check(lambda x: np.tile(x * 2, (1, 3)).sum(axis=0) - np.repeat(x, 3, 1).max(axis=0), (x.round(),))


WIDTHS = [(2, 1), ((0, 3), (2, 0)), ((7, 9), (11, 4))]


@pytest.mark.parametrize("mode", padding.MODES)
@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_padding(mode: str, dtype: str) -> None:
    for shape, width in amount.crossed(2, [(3, 5), (1, 4)], WIDTHS):
        x = np.round(array(shape)).astype(dtype)
        if mode == "empty":
            def inner(x: Any, width: Any = width) -> Any:
                y = np.pad(x, width, mode="empty")
                b, a = np.broadcast_to(width, (2, 2)).T
                return y[b[0] : y.shape[0] - a[0], b[1] : y.shape[1] - a[1]] + 0

            jf.fuse(inner)(x)
        else:
            within = MEANS if mode == "mean" else EXACT
            check(lambda x, width=width: np.pad(x, width, mode=mode), (x,), within=within)


@pytest.mark.parametrize("options", [
    {"mode": "constant", "constant_values": 3.7}, {"mode": "constant", "constant_values": ((1, 2), (3, 4))},
    {"mode": "constant", "constant_values": [np.nan, -0.0]}, {"mode": "linear_ramp", "end_values": ((1, -2.5), (0, 9))},
    {"mode": "maximum", "stat_length": 2}, {"mode": "minimum", "stat_length": ((1, 2), (9, 1))},
    {"mode": "mean", "stat_length": (2, 3)}, {"mode": "median", "stat_length": 3},
    {"mode": "reflect", "reflect_type": "odd"}, {"mode": "symmetric", "reflect_type": "odd"},
])
@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_options_of_padding(options: dict[str, Any], dtype: str) -> None:
    x = np.round(array((3, 5))).astype(dtype)
    with np.errstate(all="ignore"):
        for width in WIDTHS if dtype == "float64" or str(options.get("constant_values"))[1] != "n" else ():
            within = MEANS if options["mode"] == "mean" else EXACT
            check(lambda x, width=width: np.pad(x, width, **options), (x,), within=within)


@pytest.mark.parametrize("mode", ["constant", "wrap", "minimum", "mean", "linear_ramp"])
def test_padding_of_bools(mode: str) -> None:
    check(lambda x: np.pad(x, 1, mode=mode), (array((2, 3)) > 0,))


def test_padding_of_nothing_and_mistakes() -> None:
    check(lambda x: (np.pad(x, 2), np.pad(x, ((0, 0), (1, 2)), mode="edge")), (np.zeros((0, 3)),))
    has_dicts = np.lib.NumpyVersion(np.__version__) >= "2.4.0"
    check(lambda x: np.pad(x, {0: 1, 1: (0, 2)}) if has_dicts else x, (array((2, 3)),))
    x = array((0, 3))
    for function, error in (
        (lambda x: np.pad(x, 1, mode="edge"), ValueError), (lambda x: np.pad(x, 1, mode="nothing"), jf.ArgumentError),
        (lambda x: np.pad(x, -1), ValueError), (lambda x: np.pad(x, 1.5), TypeError),
        (lambda x: np.pad(x, 1, mode=lambda *a: None), NotImplementedError),
        (lambda x: np.pad(x, 1, mode="edge", constant_values=1), jf.ArgumentError),
        (lambda x: np.pad(x, (1, 2, 3)), ValueError),
    ):
        with pytest.raises(error):
            jf.fuse(function, strict=True)(x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_triangles_and_diagonals(dtype: str) -> None:
    shapes = [(4, 4), (3, 5), (5, 2), (2, 3, 4), (0, 3), (3, 0)]
    for shape, k in amount.covering(DTYPES, dtype, shapes, (-6, -1, 0, 2, 5)):
        check(lambda x, k=k: (np.tril(x, k), np.triu(x, k), np.diagonal(x, k) * 1, np.diagonal(x, k, -1, 0) * 1),
              (array(shape, dtype),))
    v = array((4,), dtype)
    for k in (-2, 0, 1):
        check(lambda v, k=k: (np.diag(v, k), np.diag(np.diag(v, k), k) * 1, np.diagflat(v[:0], k), np.tril(v, k)), (v,))


def test_diagonals_of_matrices_in_stacks() -> None:
    x = np.arange(120.0).reshape(2, 3, 4, 5)
    check(lambda x: (np.linalg.diagonal(x) * 1, np.linalg.diagonal(x, offset=-1) * 1), (x,))


def test_traces_and_diagonals_in_place() -> None:
    x = np.round(array((3, 4)))
    check(lambda x: (np.trace(x), x.trace(1), np.trace(x + x, dtype=int), x.diagonal(-1) * 2), (x,))

    def fill(x: Any) -> Any:
        y = x + 0
        np.fill_diagonal(y, 5)
        return y

    check(fill, (x,))


def test_splitting_and_joining() -> None:
    x = array((6, 4, 4))
    check(lambda x: [p * 1 for p in np.array_split(x, 4)] + [p * 1 for p in np.array_split(x, [1, 1, 5], axis=1)], (x,))
    check(lambda x: [p + 0 for f in (np.hsplit, np.vsplit, np.dsplit) for p in f(x, 2)], (x,))
    check(lambda x: [p + 0 for p in jf.unstack(x, axis=1)], (x,))
    check(lambda x: (np.dstack([x[0], x[1]]), np.append(x, x[:1]), np.append(x, x, axis=2)), (x,))
    check(lambda x: (np.stack([x, x * 2], -1), np.stack([x[0, 0], x[1, 1] > 0]), np.stack([x])), (x,))
    check(lambda x: (np.stack([x, x], dtype="float32", casting="unsafe"), np.atleast_3d(x[0], x[0, 0], x)[1]), (x,))
    check(lambda x: (np.kron(x[0], x[1, :2]), np.kron(x[0, 0], x[1])), (x,))


def test_grids() -> None:
    a, b, c = array((3,)), array((4,)), array((2,))
    for options in ({}, {"indexing": "ij"}, {"sparse": True}, {"copy": False}, {"indexing": "ij", "sparse": True}):
        check(lambda a, b, c, options=options: [g + 0 for g in np.meshgrid(a, b, c, **options)], (a, b, c))
    check(lambda a, b: list(np.meshgrid(a, b)), (a, b))
    check(lambda a: list(np.meshgrid(a)), (a,))


@pytest.mark.full
@given(st.data())
def test_any_rearrangement_of_a_view(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    k, r = data.draw(st.integers(-7, 7)), data.draw(st.integers(0, 3))
    mode = data.draw(st.sampled_from(["constant", "edge", "reflect", "symmetric", "wrap", "maximum"]))
    order = data.draw(st.permutations(range(len(shape))))
    functions: list[Callable[[Any], Any]] = [
        lambda x: np.roll(x, k, axis), lambda x: np.tile(x, (r, 2)), lambda x: np.repeat(x, r, axis),
        lambda x: np.pad(x, (abs(k), r), mode=mode), lambda x: np.flip(x, axis) * 1, lambda x: np.stack([x, x], axis),
    ]
    first, second = data.draw(st.sampled_from(functions)), data.draw(st.sampled_from(functions))
    x = np.arange(np.prod(shape), dtype="float64").reshape(shape)[tuple(slice(None, None, -1) for _ in shape)]
    y = first(np.transpose(x, order))
    if y.ndim == len(shape) and y.size and second(y).size < 20_000:
        check(lambda x: second(first(np.transpose(x, order)) + 1) * 2, (x,))


@pytest.mark.parametrize("shape", [(3, 3), (3, 5), (5, 3), (0, 3), (1, 1)])
@pytest.mark.parametrize("dtype", ["float64", "int64", "float32"])
def test_vectors_on_the_diagonal(shape: tuple[int, int], dtype: str) -> None:
    def function(a: Any, v: Any) -> Any:
        np.fill_diagonal(a, v)
        return a * 2

    for values in ([1.5, 2, 3], [1.5, -2], [7.0], [[0.0, 1, 2], [3, 4, 5]], [], np.arange(9.0)[::-1]):
        expected, found = np.ones(shape, dtype), np.ones(shape, dtype)
        function(expected, np.array(values))
        jf.fuse(function, strict=True)(found, np.array(values))
        np.testing.assert_array_equal(found, expected)

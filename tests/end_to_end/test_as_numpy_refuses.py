"""What NumPy refuses or does in an order of its own is refused, and done in that order, in fused functions."""
from __future__ import annotations

import contextlib
import functools
import gc
import re
import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest
from oracle import check

import jitfuse as jf

same = partial(check, compiled=False, errors=Exception, times=1)


X, M = np.arange(5.0), np.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize("value", [[4.5], np.array([4.5]), np.array([[4.5]]), np.array([1.0, 2.0]), np.array(4.5), 4.5])
def test_an_element_takes_no_array(value: Any) -> None:
    def one(x: Any) -> Any:
        x[1] = value
        return x.sum()

    def argument(m: Any, value: Any) -> Any:
        m[1, 2] = value
        return m.sum()

    def part(x: Any) -> Any:
        x[3, ...] = value
        return x.sum()

    def computed(x: Any) -> Any:
        x[1] = x[2:3] * 2
        return x

    same(one, (X,))
    same(one, (X.astype("int32"),))
    same(argument, (M, value))
    same(part, (X,))
    same(computed, (X,))


@pytest.mark.parametrize("function", [
    lambda m, axis: np.sum(m, axis=axis), lambda m, axis: m.mean(axis), lambda m, axis: np.min(m, axis=(axis,)),
    lambda m, axis: np.std(m, axis), lambda m, axis: m.argmax(axis), lambda m, axis: np.cumsum(m, axis),
    lambda m, axis: np.concatenate([m, m], axis), lambda m, axis: np.stack([m, m], axis),
    lambda m, axis: np.squeeze(m[:, :1], axis), lambda m, axis: np.take(m, [0], axis), lambda m, axis: m.argsort(axis),
    lambda m, axis: np.repeat(m, 2, axis), lambda m, axis: m.transpose(axis, not axis),
    lambda m, axis: np.flip(m, axis),
    lambda m, axis: m.reshape(axis, 12), lambda m, axis: np.add.reduce(m, axis), lambda m, axis: np.median(m, axis),
    lambda m, axis: np.multiply.accumulate(m, axis), lambda m, axis: np.trapezoid(m, axis=axis),
    lambda m, axis: np.average(m, axis), lambda m, axis: np.roll(m, 1, axis), lambda m, axis: np.expand_dims(m, axis),
    lambda m, axis: np.vecdot(m, m, axis=axis), lambda m, axis: np.unwrap(m, axis=axis),
    lambda m, axis: np.sort(m, axis), lambda m, axis: np.roll(m, (1, 1), (axis, 0)), lambda m, axis: m.sort(axis),
    lambda m, axis: np.partition(m, 1, axis), lambda m, axis: m.argpartition(1, axis),
    lambda m, axis: np.moveaxis(m, axis, 0), lambda m, axis: np.delete(m, 0, axis),
    lambda m, axis: np.insert(m, 0, 0, axis), lambda m, axis: np.transpose(m, (axis, 0)),
    lambda m, axis: np.take_along_axis(m, np.zeros((3, 1), int), axis), lambda m, axis: np.fft.fft(m, axis=axis),
    lambda m, axis: np.fft.fft2(m, axes=(0, axis)), lambda m, axis: np.fft.fftshift(m, axis),
    lambda m, axis: np.apply_along_axis(np.sum, axis, m), lambda m, axis: np.compress([True], m, axis),
    lambda m, axis: np.tensordot(m, m, ([axis], [1])), lambda m, axis: np.lexsort((m, m), axis),
    lambda m, axis: np.unstack(m, axis=axis)[0], lambda m, axis: np.lib.stride_tricks.sliding_window_view(m, 2, axis),
    lambda m, axis: np.add.reduceat(m, [0], axis), lambda m, axis: np.fmax.reduce(m, axis),
    lambda m, axis: np.cumulative_sum(m, axis=axis), lambda m, axis: np.linalg.norm(m, axis=axis),
])
def test_an_axis_is_no_bool(function: Any) -> None:
    for axis in (True, np.True_, np.False_, 1, np.int8(1), 1.0):
        same(lambda m, axis=axis: function(m, axis), (M,))


@pytest.mark.parametrize("function", [
    lambda m, n: m.reshape((n, 12)), lambda m, n: m.reshape(n, -1), lambda m, n: np.broadcast_to(m, (n, 3, 4)),
    lambda m, n: np.zeros((n, 3)) + m[0, 0], lambda m, n: np.ones(n) + m[0, 0], lambda m, n: np.eye(n) + m[0, 0],
    lambda m, n: np.partition(m, n), lambda m, n: np.split(m, [n])[0], lambda m, n: np.round(m / 7, n),
    lambda m, n: np.tile(m, (n, 2)), lambda m, n: np.diff(m, n=n),
])
def test_an_extent_is_no_bool(function: Any) -> None:
    for n in (True, np.True_, 1, np.int8(1)):
        same(lambda m, n=n: function(m, n), (M,))


@pytest.mark.parametrize("index, shape", [
    ([0, 1], (1, 2)), ([0, 1], (2, 2)), ([[0, 1]], (1, 2)), ([[0, 1]], (2,)), (1, (1,)), (1, ()), ([], (1, 0)),
    ([0, 1], (1, 1)), ([0, 1], ()), ([0, 1], (1,)), ([0, 0], (2,)),
])
def test_ufunc_at_takes_no_values_of_more_axes(index: Any, shape: tuple[int, ...]) -> None:
    value = np.ones(shape)

    def picked(x: Any, v: Any) -> Any:
        np.add.at(x, index, v)
        return x * 2

    def rows(m: Any, v: Any) -> Any:
        np.maximum.at(m, (slice(None), index), v)
        return m * 2

    def assigned(x: Any, v: Any) -> Any:
        x[index] = v
        return x * 2

    same(picked, (X, value))
    same(picked, (X, value.tolist()))
    same(rows, (M.reshape(1, 12), value))
    same(assigned, (X, value))


def test_the_first_axis_that_an_index_leaves_is_named() -> None:
    for index in [(9, 9), (-9, 9), (0, 9), (9, 0)]:
        for kind in (int, np.int64, lambda i: np.array([i, 0])):
            args = M, *map(kind, index)
            with pytest.raises(IndexError) as expected:
                M[args[1], args[2]]
            for function in (lambda m, i, j: m[i, j] * 1, lambda m, i, j: (m * 2)[i, j]):
                with pytest.raises(IndexError, match=re.escape(str(expected.value))):
                    jf.fuse(function)(*args)


def test_the_axis_that_is_named_does_not_depend_on_where_elements_lie() -> None:
    i, j = np.zeros(50, "int64"), np.zeros(50, "int64")
    i[2], j[45] = 7, 8
    for a, b, text in ((i, j, "index 7 is out of bounds for axis 0"), (j, i, "index 8 is out of bounds for axis 0")):
        with pytest.raises(IndexError, match=text):
            jf.fuse(lambda m, i, j: m[i, j])(M, a, b)


@pytest.mark.parametrize("size", [5, 40, 5000])
def test_arrays_joined_into_one_of_their_own_parts(size: int) -> None:
    def rerolled(x: Any) -> Any:
        return np.concatenate([x[2:], x[:2]], out=x)

    def turned(x: Any) -> Any:
        return np.concatenate([x[3:], x[:3]], out=x[::-1])

    def computed(x: Any) -> Any:
        y = x * 2
        return np.concatenate([y[2:], y[:1], x[:1]], out=y)

    def rows(x: Any) -> Any:
        m = x.reshape(-1, 5)
        np.concatenate([m[:, 1:], m[:, :1]], axis=1, out=m)
        return np.stack([m[0], m[0], m[-1]], out=m[:3]) if len(m) > 2 else m

    for function in (rerolled, turned, computed, rows):
        same(function, (np.arange(float(size)),))
    same(lambda x: np.concatenate([x, x], out=x), (np.arange(float(size)),))
    same(lambda x: np.concatenate([x[:1], x[1:] * 1j], out=x), (np.arange(float(size)),))


def test_errors_of_two_equal_loops_name_their_lines() -> None:
    def function(x: Any, i: Any) -> Any:
        total = 0.0
        for k in range(300):
            total = total + x[i[k]] * 2.0
        for k in range(300, 600):
            total = total + x[i[k]] * 2.0
        return total

    first = function.__code__.co_firstlineno + 3
    for wrong, line in ((5, first), (400, first + 2)):
        index = np.arange(600)
        index[wrong] = 700
        with pytest.raises(IndexError, match=f"{re.escape(__file__)}:{line}"):
            jf.fuse(function)(np.arange(600.0), index)
    np.testing.assert_allclose(jf.fuse(function)(np.arange(600.0), np.arange(600)), 599 * 600)


class _Swallows:
    def __enter__(self) -> None: ...

    def __exit__(self, *error: Any) -> bool:
        return True


def test_what_may_be_caught_is_left_to_python() -> None:
    def suppressed(x: Any, scale: Any) -> Any:
        rng, drawn = np.random.default_rng(3), 0.0
        with contextlib.suppress(ValueError):
            drawn = rng.normal(0, scale, size=5)
        return x * rng.random(5) + drawn

    def swallowed(x: Any, scale: Any) -> Any:
        rng, drawn = np.random.default_rng(3), 0.0
        with np.errstate(all="ignore"), _Swallows():
            drawn = rng.normal(0, scale, size=5)
        return x * rng.random(5) + drawn

    def caught(x: Any, scale: Any) -> Any:
        rng = np.random.default_rng(3)
        try:
            drawn = rng.normal(0, scale, size=5)
        except Exception:
            drawn = 5.0
        return x + drawn

    def raised_again(x: Any, scale: Any) -> Any:
        try:
            return x + np.random.default_rng(3).normal(0, scale, size=5)
        except Exception as error:
            raise KeyError("scale") from error

    def refused(x: Any, scale: Any) -> Any:
        try:
            return np.sum(np.array([x[0], 2, 3]), dtype=object) * scale
        except Exception:
            return x * 7.0

    for function in (suppressed, swallowed, caught, raised_again, refused):
        for scale in (1.0, -1.0):
            same(function, (X, scale))


def test_blocks_that_catch_nothing_are_traced() -> None:
    def function(x: Any) -> Any:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            return x + np.random.default_rng(3).normal(0, 2.0, size=5)

    np.testing.assert_array_equal(jf.fuse(function, strict=True)(X), function(X))


def test_an_index_error_that_is_caught_is_numpys() -> None:
    def function(x: Any) -> Any:
        with contextlib.suppress(IndexError):
            return x[900]
        return x * 2

    np.testing.assert_array_equal(jf.fuse(function, strict=True)(X), function(X))


class _Keeper:
    @functools.cached_property
    def items(self) -> list[float]:
        return [1.0]

    @functools.cached_property
    def pair(self) -> tuple[float, str]:
        return 0.5, "a"


def test_a_list_of_a_cached_property_is_kept() -> None:
    def function(x: Any, keeper: Any) -> Any:
        keeper.items.append(2.0)
        return x * len(keeper.items)

    keeper, other = _Keeper(), _Keeper()
    fused = jf.fuse(function)
    with pytest.warns(jf.FallbackWarning, match="items"):
        for _ in range(4):
            np.testing.assert_array_equal(fused(X, keeper), function(X, other))
    assert keeper.items == other.items == [1.0, 2.0, 2.0, 2.0, 2.0]
    np.testing.assert_array_equal(jf.fuse(lambda x, k: x * k.pair[0], strict=True)(X, _Keeper()), X * 0.5)


def test_the_threshold_of_the_search_for_cycles_is_not_the_tracers() -> None:
    threshold = gc.get_threshold()
    np.testing.assert_array_equal(jf.fuse(lambda x: x * gc.get_threshold()[0])(X), X * threshold[0])
    assert gc.get_threshold() == threshold

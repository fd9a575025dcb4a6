"""What has no axes is an immutable scalar in NumPy, or an array that can be changed: `w = v; w += 1` tells which."""
from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf

SCALARS: dict[str, Callable[[Any], Any]] = {
    "dot": lambda a: np.dot(a[0], a[0]), "vdot": lambda a: np.vdot(a, a), "inner": lambda a: np.inner(a[0], a[0]),
    "vecdot": lambda a: np.vecdot(a[0], a[0]), "dot method": lambda a: a[0].dot(a[1]), "matmul": lambda a: a[0] @ a[1],
    "kron": lambda a: np.kron(a[0, 0], a[0, 0]), "einsum": lambda a: np.einsum("ij->", a), "sum": lambda a: a.sum(),
    "norm": lambda a: np.linalg.norm(a), "slogdet": lambda a: np.linalg.slogdet(a[:, :2])[0],
    "logarithm": lambda a: np.linalg.slogdet(a[:, :2])[1],
    "trace": lambda a: np.trace(a), "median": lambda a: np.median(a),
    "argmax": lambda a: np.argmax(a), "item": lambda a: a[0, 0], "operator": lambda a: a[0, 0] + 1,
    "take": lambda a: np.take(a[0], 1), "take method": lambda a: a[0].take(1), "cumsum": lambda a: np.cumsum(a)[-1],
    "round": lambda a: np.round(a[0, 0]), "clip": lambda a: np.clip(a[0, 0], 0, 0.5), "part": lambda a: a[0, 0].real,
    "reshaped": lambda a: np.reshape(a[0, 0], ()), "squeezed": lambda a: np.squeeze(a[0, 0]), "T": lambda a: a[0, 0].T,
    "transposed": lambda a: np.transpose(a[0, 0]), "copied": lambda a: a[0, 0].copy(),
    "cast": lambda a: a.sum().astype("f8"), "copy.copy": lambda a: copy.copy(a.sum()),
    "flattened": lambda a: a[0, 0].flatten()[0],
}
ARRAYS: dict[str, Callable[[Any], Any]] = {
    "tensordot": lambda a: np.tensordot(a, a, 2), "asarray": lambda a: np.asarray(a[0, 0]),
    "zeros": lambda a: np.zeros(()), "array": lambda a: np.array(a[0, 0]), "np.copy": lambda a: np.copy(a[0, 0]),
    "where": lambda a: np.where(a[0, 0] > 0, 1.0, 2.0),
    "reshaped": lambda a: (a[:1, 0] * 2).reshape(()), "squeezed": lambda a: (a[:1, :1] + 0).squeeze(),
    "full_like": lambda a: np.full_like(a[0, 0], 3), "ellipsis": lambda a: (a + 0)[0, 0, ...],
}


@pytest.mark.parametrize("made", [pytest.param(made, id=name) for name, made in [*SCALARS.items(), *ARRAYS.items()]])
def test_names_of_one_value(made: Callable[[Any], Any]) -> None:
    """An augmented assignment changes both names of an array and one of two names of a scalar."""

    def both(a: Any) -> Any:
        first = made(a)
        second = first
        second += 1
        return first * 1, second * 1

    a = np.arange(1.0, 7).reshape(2, 3)
    for want, got in zip(both(a.copy()), jf.fuse(both)(a.copy()), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-15)
        assert np.asarray(got).dtype == np.asarray(want).dtype


def test_both_kinds_are_there() -> None:
    a = np.arange(1.0, 7).reshape(2, 3)
    assert not any(isinstance(made(a), np.ndarray) for made in SCALARS.values())
    assert all(isinstance(made(a), np.ndarray) for made in ARRAYS.values())


def test_results_for_arrays_without_axes_wrap() -> None:
    """`out=` casts as elements are cast: a scalar that is assigned must fit."""

    def added(a: Any, b: Any) -> Any:
        np.add(a, b, out=a)
        a += b
        return a * 1

    for shape in ((), (1,)):
        want, got = (np.full(shape, 5, np.int32) for _ in range(2))
        big = np.uint32(4294967292)
        np.testing.assert_array_equal(jf.fuse(added)(got, big), added(want, big))
        np.testing.assert_array_equal(got, want)

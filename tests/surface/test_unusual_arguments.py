"""NumPy's functions with arguments of unusual types: what it takes is taken, what it refuses raises its error."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import ROUNDED, check

VECTOR, MATRIX = np.array([1.0, 2.0, 3.0]), np.arange(12.0).reshape(3, 4)
ZERO, ONE, TWO = np.array(0), np.array(1), np.array(2)
OF_VECTORS: dict[str, Callable[[Any], Any]] = {
    "vander of a bool": lambda x: np.vander(x, True),
    "vander of a NumPy int": lambda x: np.vander(x, np.int64(2)),
    "vander of a float": lambda x: np.vander(x, 2.0),
    "vander of an array": lambda x: np.vander(x, TWO),
    "delete a bool": lambda x: np.delete(x, True),
    "insert at a bool": lambda x: np.insert(x, True, 9.0),
    "delete an array": lambda x: np.delete(x, ONE),
    "insert at an array": lambda x: np.insert(x, ONE, 9.0),
    "round": lambda x: np.round(x / 3, ONE),
    "eye": lambda x: x + np.eye(np.array(3)),
    "diag": lambda x: np.diag(x, True),
    "into int": lambda x: np.add(x, x, out=np.zeros(3, int)),
    "into single": lambda x: np.add(x, x, out=np.zeros(3, "f4")),
    "cross": lambda x: x * float(np.cross(x[:2], x[1:])),
    "whole cross": lambda x: x * int(np.cross(x[:2], x[1:])),
}
OF_MATRICES: dict[str, Callable[[Any], Any]] = {
    "fftshift of an array": lambda m: np.fft.fftshift(m, ZERO),
    "fftshift of a list": lambda m: np.fft.fftshift(m, [0]),
    "fftshift of a bool": lambda m: np.fft.fftshift(m, True),
    "ifftshift of an array": lambda m: np.fft.ifftshift(m, ONE),
    "fftshift of a vector": lambda m: np.fft.fftshift(m, np.array([0, 1])),
    "fft of a bool": lambda m: np.fft.fft(m, True),
    "fft of an array": lambda m: np.fft.fft(m, np.array(3)),
    "tensordot of an array": lambda m: np.tensordot(m, m.T, ONE),
    "tensordot of arrays": lambda m: np.tensordot(m, m, (ZERO, ZERO)),
    "tensordot of bools": lambda m: np.tensordot(m, m, (False, False)),
    "tensordot of a vector": lambda m: np.tensordot(m, m, np.array([0, 0])),
    "tensordot of a float": lambda m: np.tensordot(m, m.T, 1.0),
    "sum": lambda m: np.sum(m, axis=True),
    "roll": lambda m: np.roll(m, ONE, ZERO),
    "stack": lambda m: np.stack([m, m], axis=ZERO),
    "largest": lambda m: np.max(m, axis=0, keepdims=True, initial=5.0, where=m > 2),
    "truths into floats": lambda m: np.all(m > 3, axis=0, out=np.zeros(4)),
}
KEEPDIMS: tuple[Any, ...] = (np.True_, np.False_, 1, 0, 2, -1, 1.0, None, "x", [], np.array(True), np.int64(1))
REDUCTIONS = ("sum", "prod", "max", "any", "mean", "std", "var", "argmax", "argmin", "ptp", "count_nonzero", "median",
              "percentile", "nansum", "nanmax", "nanmean", "nanstd", "nanargmax", "nanmedian", "linalg.norm", "average")


@pytest.mark.parametrize("name", OF_VECTORS)
def test_of_vectors(name: str) -> None:
    check(OF_VECTORS[name], (VECTOR,), within=ROUNDED, errors=Exception, compiled=False)


@pytest.mark.parametrize("name", OF_MATRICES)
def test_of_matrices(name: str) -> None:
    check(OF_MATRICES[name], (MATRIX,), within=ROUNDED, errors=Exception, compiled=False)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_keepdims(name: str) -> None:
    function: Any = np
    for part in name.split("."):
        function = getattr(function, part)
    more = (50,) if name == "percentile" else ()
    for keepdims in KEEPDIMS:
        check(
            lambda m, keepdims=keepdims: function(m, *more, axis=0, keepdims=keepdims), (MATRIX,),
            within=ROUNDED, errors=Exception, compiled=False,
        )

"""NumPy's functions of elements that are infinite, small integers, complex, or too few: values, dtypes and errors."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from amount import crossed
from oracle import NARROW, outcome, same, same_outcome

import jitfuse as jf

BYTES, SIGNED = np.array([200, 100, 250, 3], "u1"), np.array([-100, 90, 127, -128], "i1")
COMPLEX, MASK = np.array([1 + 2j, -3j, 2.5, -1 - 1j]), np.array([True, False, True, True])
ENDS, FLOATS = np.array([np.inf, 1.0, np.nan]), np.array([0.5, -2.0, 3.0, 1.5, -0.0])
SINGULAR, REGULAR = np.array([[1.0, 2.0], [2.0, 4.0]]), np.array([[2.0, 1.0], [-1.0, 0.5]])
CASES: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "average of bytes": (lambda x, w: np.average(x, weights=w), [BYTES, BYTES]),
    "average of signed bytes": (lambda x, w: np.average(x, weights=w, returned=True), [SIGNED, SIGNED]),
    "average of bytes by floats": (lambda x, w: np.average(x, weights=w), [BYTES, np.array([1, 2, 3, 4], "f4")]),
    "average of bools": (lambda x, w: np.average(x, weights=w), [MASK, BYTES]),
    "average without weight": (lambda x, w: np.average(x, weights=w), [FLOATS[:2], np.array([1.0, -1.0])]),
    "std of complex numbers": (lambda x, m: np.std(x, where=m), [COMPLEX, MASK]),
    "var of complex numbers": (lambda x, m: np.var(x, where=m, ddof=1), [COMPLEX.astype("c8"), MASK]),
    "var around a mean": (lambda x: np.var(x, mean=np.mean(x, keepdims=True)), [COMPLEX]),
    "condition of a singular matrix": (lambda m: np.linalg.cond(m, 1), [SINGULAR]),
    "condition of a regular matrix": (lambda m: np.linalg.cond(m, np.inf), [REGULAR]),
    "conditions of several": (lambda m: np.linalg.cond(m, "fro"), [np.stack([SINGULAR, REGULAR, REGULAR * np.nan])]),
    "sinc of bytes": (np.sinc, [BYTES]),
    "sinc of bools": (np.sinc, [MASK]),
    "sinc of singles": (np.sinc, [(FLOATS / 4).astype("f4")]),
    "i0 of halves": (np.i0, [FLOATS.astype("f2")]),
    "i0 of ints": (np.i0, [np.arange(4)]),
    "histogram of complex numbers": (lambda x: np.histogram(x, 3), [COMPLEX]),
    "two histograms of complex numbers": (lambda x: np.histogram2d(x, x, 3), [COMPLEX]),
    "digitize complex numbers": (lambda x: np.digitize(x, [0.0, 1.0]), [COMPLEX]),
    "count complex weights": (lambda i, w: np.bincount(i, weights=w), [np.array([0, 1, 1, 0]), COMPLEX]),
    "interpolate at complex numbers": (lambda x: np.interp(x, [0.0, 1.0], [1.0, 2.0]), [COMPLEX]),
    "interpolate complex values": (lambda x: np.interp(x, [0.0, 1.0], [1j, 2.0]), [FLOATS]),
    "fit halves": (lambda x, y: np.polyfit(x, y, 1), [FLOATS, FLOATS.astype("f2")]),
    "unwrap bytes": (lambda x: np.unwrap(x, period=3), [BYTES]),
    "reduce one": (np.bitwise_or.reduce, [np.arange(4)[None]]),
    "reduce one to a number": (np.gcd.reduce, [np.array([6])]),
    "reduce one, kept": (lambda x: np.fmin.reduce(x, axis=0, keepdims=True), [FLOATS[None]]),
}
WRITES: dict[str, Callable[..., Any]] = {
    "putmask": lambda x, m, v: np.putmask(x, m, v),
    "place": lambda x, m, v: np.place(x, m, v),
    "add where": lambda x, m, v: np.add(x, v, out=x, where=m),
    "negative where": lambda x, m, v: np.negative(v, out=x, where=m),
    "putmask by a number": lambda x, m, v: np.putmask(x, m, 1),
}
DTYPES = ("f8", "f4", "f2", "i8", "i4", "u1", "?", "c16")


def _check(f: Callable[..., Any], make: Callable[[], list[Any]]) -> None:
    fused = jf.fuse(f)
    for _ in range(3):
        plain, ours = make(), make()
        want, got = outcome(f, *plain), outcome(fused, *ours)
        same_outcome(got, want, NARROW)
        if not isinstance(want, Exception):
            shares = [[isinstance(x, np.ndarray) and np.shares_memory(x, a) for a in given]
                      for x, given in ((want, plain), (got, ours))]
            assert shares[0] == shares[1]
        same(ours, plain, NARROW)


@pytest.mark.parametrize("name", CASES)
def test_functions(name: str) -> None:
    f, arguments = CASES[name]
    _check(f, lambda: [a.copy() for a in arguments])


@pytest.mark.parametrize(("name", "into", "values"), crossed(2, WRITES, DTYPES, DTYPES))
def test_casts_of_writes(name: str, into: str, values: str) -> None:
    new = np.array([0, 1, 1, 0]).astype(values)
    _check(WRITES[name], lambda: [np.array([1, 0, 1, 1]).astype(into), MASK.copy(), new.copy()])


@pytest.mark.parametrize("into", DTYPES)
@pytest.mark.parametrize("values", DTYPES)
def test_products_into_arrays(values: str, into: str) -> None:
    for f in (lambda x, o: np.einsum("ij,ij->j", x, x, out=o), lambda x, o: np.dot(x, x[0], out=o)):
        plain, ours = ((np.arange(9).reshape(3, 3).astype(values) * 15, np.zeros(3, into)) for _ in range(2))
        want, got = outcome(f, *plain), outcome(jf.fuse(f), *ours)
        assert isinstance(got, Exception) == isinstance(want, Exception), (got, want)
        if not isinstance(want, Exception):
            np.testing.assert_allclose(ours[1], plain[1], rtol=1e-3)


@pytest.mark.parametrize("taps", [1, 2, 3, 20])
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("function", [np.convolve, np.correlate])
def test_what_lies_beyond_a_sequence_counts_for_nothing(function: Any, mode: str, taps: int) -> None:
    kernel = np.resize(ENDS, taps)
    for long in (np.linspace(-1, 1, 25), np.array([1.0]), np.arange(20.0)):
        _check(lambda x, w: function(x, w, mode), lambda long=long: [long.copy(), kernel.copy()])  # type: ignore[misc]
    _check(lambda x, w: function(x, w, mode), lambda: [np.arange(20), np.arange(1, taps + 1)])

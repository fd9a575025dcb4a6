"""Python's ints that an array's dtype does not hold raise wherever NumPy raises, and wrap nowhere else."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from amount import extended
from oracle import outcome, same_outcome

import jitfuse as jf


def _after(write: Callable[..., Any]) -> Callable[..., Any]:
    def f(u: Any, k: Any) -> Any:
        write(u, k)
        return u + 1

    return f


def _diagonal(u: Any, k: Any) -> Any:
    square = u[:, None] * u
    np.fill_diagonal(square, k)
    return square


def _zeros(u: Any, k: Any) -> Any:
    made = np.zeros(3, np.uint8)
    made[0] = k
    return made + u


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "full_like": lambda u, k: np.full_like(u, k) + u,
    "full_like of another dtype": lambda u, k: np.full_like(u, k, dtype=np.int8) + 1,
    "full_like of a list": lambda u, k: np.full_like(u, [k, 1, 2]) + u,
    "full_like of a scalar": lambda u, k: np.full_like(u, np.int64(k)),
    "full": lambda u, k: np.full(3, k, dtype=np.uint8) + u,
    "array": lambda u, k: u + np.array(k, dtype=np.uint8),
    "array of a list": lambda u, k: u + np.array([k], "uint8"),
    "array of a float": lambda u, k: u + np.array(k + 0.5, "uint8"),
    "element": _after(lambda u, k: u.__setitem__(0, k)),
    "part": _after(lambda u, k: u.__setitem__(slice(0, 2), k)),
    "list": _after(lambda u, k: u.__setitem__(slice(0, 2), [k, 5])),
    "mask": _after(lambda u, k: u.__setitem__(u > 1, k)),
    "places": _after(lambda u, k: u.__setitem__([0, 2], [k, 5])),
    "fill": _after(lambda u, k: u.fill(k)),
    "put": _after(lambda u, k: np.put(u, [0], k)),
    "put a list": _after(lambda u, k: np.put(u, [0, 1], [1, k])),
    "putmask": _after(lambda u, k: np.putmask(u, u > 1, k)),
    "putmask nowhere": _after(lambda u, k: np.putmask(u, u > 9, k)),
    "place": _after(lambda u, k: np.place(u, u > 1, [k, 1])),
    "copyto": _after(lambda u, k: np.copyto(u, k)),
    "copyto where": _after(lambda u, k: np.copyto(u, k, where=u > 1)),
    "copyto of any kind": _after(lambda u, k: np.copyto(u, k, casting="unsafe")),
    "copyto of an array": _after(lambda u, k: np.copyto(u, np.array(k), casting="unsafe")),
    "insert": lambda u, k: np.insert(u, 1, k),
    "insert a list": lambda u, k: np.insert(u, [0, 2], [k, 1]),
    "fill_diagonal": _diagonal,
    "zeros": _zeros,
    "where": lambda u, k: np.where(u > 1, u, k),
    "append": lambda u, k: np.append(u, k),
    "add": lambda u, k: u + k,
    "compare": lambda u, k: u > k,
    "maximum": lambda u, k: np.maximum(u, k),
    "clip": lambda u, k: np.clip(u, k, 2),
    "pad": lambda u, k: np.pad(u, 1, constant_values=k),
    "pad with several": lambda u, k: np.pad(u[:, None], 1, constant_values=[[1, k], [2, 3]]),
    "select": lambda u, k: np.select([u > 1], [u], k),
    "isin": lambda u, k: np.isin(u, [k]),
    "largest": lambda u, k: np.max(u, initial=k),
}
DTYPES = ("uint8", "int8", "int32", "float32", "bool")
CONSTANTS = (5, -1, 300, 1 << 40)


def _some(turn: int) -> Sequence[str]:
    """Return dtypes turn by turn, since each is a kernel of its own."""
    return DTYPES if extended() else DTYPES[turn % 2 :: 2]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_arguments(name: str) -> None:
    f = FUNCTIONS[name]
    for dtype in _some(list(FUNCTIONS).index(name)):
        fused = jf.fuse(f)
        for k in (5, -1, 5, 300, -1, 1 << 40, 0):
            if "float" in name and k == 1 << 40:
                continue  # what is undefined in C
            arrays = [np.array([1, 2, 3]).astype(dtype) for _ in range(2)]
            want, got = outcome(f, arrays[0], k), outcome(fused, arrays[1], k)
            same_outcome(got, want)
            if not isinstance(want, Exception):
                np.testing.assert_array_equal(arrays[1], arrays[0])


@pytest.mark.parametrize("k", CONSTANTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_constants(name: str, k: int) -> None:
    f = FUNCTIONS[name]
    if "float" in name and k == 1 << 40:
        return
    for dtype in _some(list(FUNCTIONS).index(name) + CONSTANTS.index(k)):
        want = outcome(f, np.array([1, 2, 3]).astype(dtype), k)
        fused = jf.fuse(f, static_argnames=("k",))
        for _ in range(2):
            same_outcome(outcome(fused, np.array([1, 2, 3]).astype(dtype), k), want)


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in ("add", "compare", "maximum", "clip", "largest")])
def test_eager_arrays(name: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    f = FUNCTIONS[name]
    for dtype in ("uint8", "int32", "float32"):
        for k in (5, -1, 300):
            array = np.array([1, 2, 3]).astype(dtype)
            want = outcome(f, array.copy(), k)
            for made in (jf.asarray(array.copy()), jf.asarray(torch.from_numpy(array.copy()))):
                got = outcome(f, made, k)
                same_outcome(got if isinstance(got, Exception) else np.asarray(got), want)


def test_full_of_the_namespace() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    for made in (jf.asarray(np.ones(3, "uint8")), jf.asarray(torch.ones(3, dtype=torch.uint8))):
        for k in (-1, 300):
            with pytest.raises(OverflowError):
                jf.full_like(made, k)
        assert jf.full_like(made, 255)[0] == 255
    with pytest.raises(OverflowError):
        jf.full(3, -1, dtype=jf.uint8)


def _added(x: Any, k: Any) -> Any:
    try:
        return x + k
    except OverflowError:
        return x


def _written(x: Any, k: Any) -> Any:
    y = x * 1
    try:
        y[0] = k
    except OverflowError:
        y[1] = 99
    return y


@pytest.mark.parametrize("f", [_added, _written])
def test_a_number_that_did_not_fit_is_a_guard_where_the_function_catches_the_error(f: Callable[..., Any]) -> None:
    fused, x = jf.fuse(f), np.arange(5, dtype=np.int8)
    for k in (300, -5, 100, 400, 2):
        same_outcome(outcome(fused, x, k), outcome(f, x, k))

"""Decompositions of eager arrays are NumPy's, bit for bit: any dtype, layout and shape, and NumPy's errors."""
from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import outcome

import jitfuse as jf

RNG = np.random.default_rng(3)
BASE = RNG.normal(size=(7, 9))
SPECIAL = {"nan": np.nan, "infinity": np.inf, "minus infinity": -np.inf}
MATRICES: dict[str, Callable[[], Any]] = {
    "square": lambda: BASE[:4, :4].copy(), "one": lambda: BASE[:1, :1].copy(), "tall": lambda: BASE[:7, :3].copy(),
    "wide": lambda: BASE[:2, :7].copy(), "turned": lambda: BASE[:5, :5].T, "backwards": lambda: BASE[4::-1, 4::-1],
    "strided": lambda: BASE[::2, ::3], "repeated": lambda: np.broadcast_to(BASE[:1, :5], (5, 5)),
    "zeros": lambda: np.zeros((3, 3)), "minus zeros": lambda: -np.zeros((3, 3)),
    "of rank one": lambda: np.outer(BASE[0, :4], BASE[1, :4]), "whole": lambda: np.arange(9).reshape(3, 3),
    "definite": lambda: BASE @ BASE.T, "turning": lambda: np.array([[0.0, -1.0], [1.0, 0.0]]),
    "diagonal": lambda: np.diag([3.0, -1.0, 2.0]), "huge": lambda: np.full((3, 3), 1e200) + 1e199 * np.eye(3),
    "tiny": lambda: np.eye(3) * 5e-324, "stack": lambda: RNG.normal(size=(2, 3, 4, 4)), "empty": lambda: BASE[:0, :0],
    "no rows": lambda: BASE[:0, :3], "no matrices": lambda: np.zeros((0, 3, 3)), "vector": lambda: BASE[0],
    "number": lambda: np.float64(2.0),
    **{name: lambda v=value: np.where(np.eye(3) > 0, v, 1.0) for name, value in SPECIAL.items()},
}
CALLS: dict[str, list[dict[str, Any]]] = {
    "svd": [{}, {"full_matrices": False}], "svdvals": [{}], "eig": [{}], "eigvals": [{}], "eigh": [{}],
    "eigvalsh": [{}], "cholesky": [{}, {"upper": True}], "qr": [{}, {"mode": "complete"}], "matrix_rank": [{}],
}


def _bits(x: Any) -> Any:
    array = np.ascontiguousarray(np.asarray(x))
    return array.shape, array.dtype, np.where(np.isnan(array), np.nan, array).tobytes()


def _of_torch(array: Any) -> Any:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    strides = np.asarray(array).strides
    return jf.asarray(torch.from_numpy(array if min(strides, default=0) >= 0 else array.copy()))


@pytest.mark.parametrize("make", [jf.asarray, _of_torch])
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "complex64", "int64"])
@pytest.mark.parametrize("name", CALLS)
def test_numpys_bits(name: str, dtype: str, make: Callable[[Any], Any]) -> None:
    for kind, matrix in MATRICES.items():
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given = np.asarray(matrix()).astype(dtype, copy=False)
        for options in CALLS[name]:
            if name == "matrix_rank" and given.ndim < 2:
                continue  # the standard's takes matrices alone
            want = outcome(lambda a=given, o=options: getattr(np.linalg, name)(a, **o))
            got = outcome(lambda a=given, o=options: getattr(jf.linalg, name)(make(a.copy()), **o))
            if isinstance(want, Exception):
                assert isinstance(got, Exception), kind
                if kind in SPECIAL and make is jf.asarray:
                    assert isinstance(got, np.linalg.LinAlgError), (kind, got)
                continue
            if name in ("eig", "eigvals") and not isinstance(got, Exception):  # the standard's are complex
                to = "complex64" if dtype in ("float32", "complex64") else "complex128"
                want = tuple(w.astype(to) for w in want) if name == "eig" else want.astype(to)
            assert not isinstance(got, Exception), (kind, got)
            pairs = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
            for part, wanted in pairs:
                assert _bits(part) == _bits(wanted), (kind, options)


def test_parts_have_memory_of_their_own() -> None:
    for make in (jf.asarray, _of_torch):
        array = BASE[:5, :3].copy()
        kept = array.copy()
        parts = jf.linalg.qr(make(array))
        for part in parts:
            part[...] = 7.0
        np.testing.assert_array_equal(array, kept)
        np.testing.assert_array_equal(np.asarray(jf.linalg.qr(make(array)).R), np.linalg.qr(kept).R)


def test_threads_find_the_same() -> None:
    matrix = _of_torch(BASE[:6, :6].copy())
    want = _bits(jf.linalg.svd(matrix).U)
    found: list[bool] = []
    threads = [threading.Thread(target=lambda: found.extend(_bits(jf.linalg.svd(matrix).U) == want for _ in range(200)))
               for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 1600 and all(found)

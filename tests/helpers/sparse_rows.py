"""Matrices with sparse rows, and loops over the elements of a row."""
from __future__ import annotations

from typing import Any

import numpy as np

Csr = tuple[Any, Any, Any, Any]


def csr(lengths: Any, dtype: Any = np.int64, seed: int = 0) -> Csr:
    """Return the data, columns and row pointers of a matrix with rows of these lengths, and a vector."""
    rng = np.random.default_rng(seed)
    pointers = np.concatenate([[0], np.cumsum(lengths)]).astype(dtype)
    count, n = int(pointers[-1]), len(lengths)
    return np.round(rng.random(count) - 0.4, 2), rng.integers(0, n, count).astype(dtype), pointers, rng.random(n)


def drawn(seed: int, rows: int = 9, most: int = 5, dtype: Any = np.int64) -> Csr:
    return csr(np.random.default_rng(seed).integers(0, most, rows), dtype, seed)


MANY = [drawn(seed) for seed in range(11)]
"""Matrices of one number of rows, with more different bounds than a place may show where each is traced."""


def product(data: Any, columns: Any, pointers: Any, x: Any) -> Any:
    y = np.zeros(len(pointers) - 1)
    for i in range(len(pointers) - 1):
        s = 0.0
        for k in range(pointers[i], pointers[i + 1]):
            s += data[k] * x[columns[k]]
        y[i] = s
    return y


def into_arguments(data: Any, columns: Any, pointers: Any, x: Any) -> Any:
    half = data[::-1]
    for i in range(len(x)):
        for k in range(pointers[i], pointers[i + 1]):
            half[k] = i
            x[columns[k]] -= 0.5
            x[-1] += data[k]
    return half

"""Reducers: their names, and what is no function of the libraries."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

NAMES: Final = ("sum", "mean", "max", "min", "prod", "any", "all", "logsumexp", "var")
Reducer = str | Callable[[Any, tuple[int, ...]], Any]


def log_sum_exp(x: Any, axes: tuple[int, ...]) -> Any:
    """Return log(sum(exp(x))) over axes, without overflow; -inf of nothing.

    The greatest element is taken out of the sum, where it is finite.
    """
    if not isinstance(x, np.ndarray):  # a traced tensor: an operator of the program
        from jitfuse.array_api.namespace import logsumexp

        return logsumexp(x, axis=axes)
    if x.dtype.kind not in "fc":
        x = x.astype(np.float64)
    top = np.max(x.real, axis=axes, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(top), top, top.dtype.type(0))
    with np.errstate(divide="ignore"):
        return np.log(np.sum(np.exp(x - shift), axis=axes)) + shift.reshape(
            [n for k, n in enumerate(shift.shape) if k not in axes])

"""Gradients of the sum of a function, and comparing them with numbers that are known."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import jitfuse as jf


def gradient(function: Callable[..., Any], *xs: Any) -> Any:
    """Return the gradient of the sum of a function, by its arguments of floats."""
    by = tuple(range(len(xs)))
    found = jf.grad(lambda *given: np.sum(function(*given)), by)(*[np.asarray(x, float) for x in xs])
    return found[0] if len(xs) == 1 else found


def expect(got: Any, *want: Any) -> None:
    for g, w in zip(got if isinstance(got, tuple) else (got,), want, strict=True):
        np.testing.assert_allclose(np.asarray(g, np.float64), np.asarray(w, np.float64), rtol=1e-7, atol=1e-12)

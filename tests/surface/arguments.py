"""The arguments that the examples of functions are called with, in several kinds: dtypes, memory layouts.

Owns their shapes and values: small, without ties and far from poles, so that results do not hang on rounding.
"""
from __future__ import annotations

from typing import Any, Final

import numpy as np

KINDS: Final = ("float64", "float32", "int64", "strided", "empty")
"""What `x`, `y`, `v`, `w` and `p` are: of these dtypes, views with other strides than those of rows, or
without elements: x, y (0, 5); v, w, p (0,)."""


def arguments(kind: str = "float64") -> dict[str, Any]:
    """Return the arguments by name: x, y (4, 5); v, w, p (6,), p ascending; m (4, 4); s a number of rank 0; i indices
    below 4; n small integers; b a mask; c complex numbers; e nothing; o, o1 to be written into.
    """
    draw = np.random.default_rng(5)

    def floats(*shape: int) -> Any:
        if kind == "empty":
            return np.zeros((0, *shape[1:]))
        values = draw.permutation(np.prod(shape)).reshape(shape) / np.prod(shape) + draw.random(shape) * 1e-3 + 0.02
        if kind == "int64":
            return (draw.permutation(int(np.prod(shape))) + 1).reshape(shape)
        return _laid_out(values.astype("float32" if kind == "float32" else "float64"), kind)

    made = {"x": floats(4, 5), "y": floats(4, 5), "v": floats(6), "w": floats(6)}
    made["p"] = np.sort(floats(6)) if kind != "strided" else _laid_out(np.sort(floats(6)), kind)
    made["m"] = np.eye(4) * 3 + draw.random((4, 4))
    made["s"] = np.asarray(made["v"][2]) if kind != "empty" else np.asarray(0.5)
    rows = len(made["x"])
    made["i"] = np.array([0, 3, 1, 1, 2, 0])[: len(made["v"])]
    made["n"] = _laid_out(draw.integers(0, 5, (4, 5)), kind)[:rows]
    made["b"] = (draw.random((4, 5)) > 0.4)[:rows]
    made["c"] = draw.random((4, 5)) + 1j * draw.random((4, 5))
    made["e"] = np.zeros((0, 5), made["x"].dtype)
    made["o"], made["o1"] = np.zeros((rows, 5)), np.zeros(5)
    return made


def _laid_out(array: Any, kind: str) -> Any:
    """Return an array in strided memory: reversed, with gaps, the axes exchanged."""
    if kind != "strided":
        return array
    if array.ndim == 1:
        return np.repeat(array[::-1], 2)[::2][::-1]
    return np.ascontiguousarray(array.T[:, ::-1])[:, ::-1].T

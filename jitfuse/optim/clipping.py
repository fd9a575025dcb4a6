"""Gradients within limits: by value, and by their norm together."""
from __future__ import annotations

from typing import Any

import numpy as np

from jitfuse.errors import ArgumentError

_np: Any = np  # its type hints omit traced and eager arrays


def limited(gradients: list[Any], value: Any, norm: Any) -> list[Any]:
    """Return gradients, None among them, clipped to [-value, value], then to a norm of all together; None: as is."""
    if value is not None and any("complex" in str(g.dtype) for g in gradients if g is not None):
        raise ArgumentError("clip_value is for real gradients: clip complex ones by clip_norm")
    if value is not None:
        gradients = [None if g is None else _np.clip(g, -value, value) for g in gradients]
    if norm is None:
        return gradients
    total = global_norm([g for g in gradients if g is not None])
    factor = _np.minimum(norm / (total + 1e-6), 1.0)
    return [None if g is None else g * factor.astype(str(g.dtype)) for g in gradients]


def global_norm(gradients: list[Any]) -> Any:
    """Return the Euclidean norm of all elements of some arrays together."""
    wide = [g.astype("float32") if str(g.dtype) in ("float16", "bfloat16") else g for g in gradients]  # squares fit
    return _np.sqrt(sum(_np.sum((g * _np.conj(g)).real) for g in wide))


def all_finite(gradients: list[Any]) -> Any:
    """Return whether no element of any array, None among them, is infinite or NaN."""
    made: Any = None
    for g in gradients:
        if g is not None:
            finite = _np.all(_np.isfinite(g))
            made = finite if made is None else made & finite
    return made

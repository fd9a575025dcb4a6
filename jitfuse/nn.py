"""Functions of neural networks over traced and NumPy arrays: `jf.nn`."""
from __future__ import annotations

from typing import Any

import numpy as np

from jitfuse import random
from jitfuse.errors import ArgumentError
from jitfuse.namespace import operate
from jitfuse.tracing.mode import ModeFlag, is_training
from jitfuse.tracing.traced import TracedTensor, fresh


def relu(x: Any) -> Any:
    """Return max(x, 0), NaN where x is NaN."""
    return np.maximum(x, 0)


def softmax(x: Any, axis: int | tuple[int, ...] = -1) -> Any:
    """Return exp(x - max) / sum(exp(x - max)) over the axes."""
    return operate("softmax", x, axis=axis)


def log_softmax(x: Any, axis: int | tuple[int, ...] = -1) -> Any:
    """Return x - max - log(sum(exp(x - max))) over the axes."""
    return operate("log_softmax", x, axis=axis)


def layer_norm(x: Any, weight: Any = None, bias: Any = None, *, axis: int | tuple[int, ...] = -1,
               eps: float = 1e-5) -> Any:
    """Return (x - mean) / sqrt(variance + eps) over the axes, times `weight`, plus `bias` where they are given."""
    return _affine(operate("layer_norm", x, axis=axis, eps=eps), weight, bias)


def rms_norm(x: Any, weight: Any = None, *, axis: int | tuple[int, ...] = -1, eps: float = 1e-6) -> Any:
    """Return x / sqrt(mean(x * x) + eps) over the axes, times `weight` where it is given."""
    return _affine(operate("rms_norm", x, axis=axis, eps=eps), weight, None)


def _affine(x: Any, weight: Any, bias: Any) -> Any:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def dropout(x: Any, p: float = 0.5, training: Any = None) -> Any:
    """Zero each element with probability p and scale the rest by 1 / (1 - p), in training; else return x.

    `training` is the flag of the fused function, which is also the default; True drops in every mode.
    """
    if not 0.0 <= p < 1.0:
        raise ArgumentError(f"dropout: the probability must be in [0, 1), not {p}")
    flag = is_training() if training is None else training
    if type(x) is TracedTensor and type(flag) is ModeFlag:
        run = x._run
        state, index = run.random_operands()
        return fresh(run, run.emit("dropout", (x._id(), state, index), {"p": float(p)}))
    if not flag or p == 0.0:
        return x
    keep = random.uniform(x.shape, dtype=x.dtype) >= p
    return np.where(keep, x * (1.0 / (1.0 - p)), np.dtype(str(x.dtype)).type(0))

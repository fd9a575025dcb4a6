"""Layers: linear maps, normalisations, dropout.

Owns their arguments, and what they do in training and in evaluation. Where the mode is the call's, both sides are
recorded: Python does not read the flag, so that one trace serves both.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jitfuse import random
from jitfuse.array_api.dispatch import over_tensors
from jitfuse.array_api.namespace import operate
from jitfuse.dtypes import KINDS, numpy_dtype
from jitfuse.errors import ArgumentError, DTypeError, ShapeError, UntraceableError
from jitfuse.gradients.values import cast
from jitfuse.ir import statuses
from jitfuse.ir.decompositions import layers
from jitfuse.ir.rules import shape_rules
from jitfuse.nn.operands import floats, narrowed, operand, require_floats
from jitfuse.tracing.control.state import moves
from jitfuse.tracing.record.foreign import bare, is_torch_tensor
from jitfuse.tracing.record.mode import ModeFlag, is_training
from jitfuse.tracing.record.recorder import active
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.traced import TracedTensor, fresh

if TYPE_CHECKING:
    from jitfuse.array_api.signatures import ArrayLike


@over_tensors
def linear(x: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None) -> Any:
    """Return x @ weight + bias, `weight` of shape (in, out): torch's Linear has the transposed one, (out, in)."""
    a, w = operand(x), operand(weight)
    if w.ndim != 2 or not a.ndim or a.shape[-1] != w.shape[0]:
        raise ShapeError(f"linear: x of shape {a.shape} and a weight of shape {w.shape} do not fit: the last axis of x "
                         f"is the first of (in, out), at {user_line()}")
    made = a @ w
    if bias is None:
        return made
    b = operand(bias)
    if b.shape != w.shape[1:]:
        raise ShapeError(f"linear: a weight of shape {w.shape} and a bias of shape {b.shape} do not fit, at "
                         f"{user_line()}")
    return made + b


# ---------------------------------------------------------------- normalisations
def layer_norm(
    x: ArrayLike, weight: ArrayLike | None = None, bias: ArrayLike | None = None, *,
    axis: int | tuple[int, ...] = -1, eps: float = 1e-5,
) -> Any:
    """Return (x - mean) / sqrt(variance + eps) over the axes, times `weight`, plus `bias` if they are given."""
    return _affine(operate("layer_norm", x, axis=axis, eps=eps), weight, bias)


def rms_norm(
    x: ArrayLike, weight: ArrayLike | None = None, *, axis: int | tuple[int, ...] = -1, eps: float = 1e-6
) -> Any:
    """Return x / sqrt(mean(x * x) + eps) over the axes, times `weight` if it is given."""
    return _affine(operate("rms_norm", x, axis=axis, eps=eps), weight, None)


def _affine(x: Any, weight: Any, bias: Any) -> Any:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def batch_norm(
    x: ArrayLike, weight: ArrayLike | None = None, bias: ArrayLike | None = None, running_mean: Any = None,
    running_var: Any = None, *, axis: int = 1, momentum: float = 0.1, eps: float = 1e-5, training: bool | None = None,
) -> Any:
    """Return (x - mean) / sqrt(variance + eps) by channels, the items along `axis`, times `weight`, plus `bias`.

    In training, mean and variance are those of x over all other axes, and the running statistics move in place:
    `running_mean` becomes (1 - momentum) running_mean + momentum mean, and so does `running_var`, by the variance with
    divisor n - 1. In evaluation the running statistics are taken, and nothing is written. Without them, those of x are
    taken in both modes. The result has the dtype of x.
    """
    if (running_mean is None) != (running_var is None):
        raise ArgumentError(f"batch_norm: give both running_mean and running_var, or neither, at {user_line()}")
    flag = is_training() if training is None else training
    return _batch_norm(x, weight, bias, _writable(running_mean), _writable(running_var), axis, momentum, eps,
                       True if running_mean is None else flag)


@over_tensors
def _batch_norm(x: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, axis: int, momentum: Any, eps: Any,
                flag: Any) -> Any:
    given, a = floats("batch_norm", x)
    along = shape_rules.normalize_axis("batch_norm", axis, given.ndim)
    held = {"weight": weight, "bias": bias, "running_mean": running_mean, "running_var": running_var}
    parts = {name: _of_channels(name, value, given.shape, along) for name, value in held.items() if value is not None}
    mean, variance, count = None, None, a.size // max(a.shape[along], 1)
    if type(flag) is ModeFlag or flag:
        mean, variance = layers.batch_statistics(a, along)
        if count == 1:
            variance = _of_one_value(variance, given.shape, flag)
    own_mean, own_variance = mean, variance
    if running_mean is not None:
        old = {name: parts[name] for name in ("running_mean", "running_var")}
        mean, variance = (_by_mode(flag, new, cast(value, str(a.dtype)))
                          for new, value in zip((mean, variance), old.values(), strict=True))
    made = layers.normalised(a, mean, variance, eps, along)
    if weight is not None:
        made = made * layers.along(cast(parts["weight"], str(a.dtype)), a.ndim, along)
    if bias is not None:
        made = made + layers.along(cast(parts["bias"], str(a.dtype)), a.ndim, along)
    if running_mean is not None and own_mean is not None:  # after the last use of the old ones
        unbiased = layers.unbiased(own_variance, count)
        for value, new in (parts["running_mean"], own_mean), (parts["running_var"], unbiased):
            moves(value, layers.moved(value, new, momentum), mode=flag)
    return narrowed(made, given)


def _by_mode(flag: Any, training: Any, evaluation: Any) -> Any:
    if type(flag) is ModeFlag:
        return training.call("mode_select", evaluation)
    return training if flag else evaluation


def _of_one_value(variance: Any, shape: tuple[int, ...], flag: Any) -> Any:
    """Return a variance whose use raises ShapeError; where the mode is the call's, when training uses it."""
    if type(flag) is not ModeFlag:
        raise ShapeError(f"batch_norm: x of shape {shape} has one value per channel, which has no variance; training "
                         f"needs more of them, at {user_line()}")
    return variance.call("require", variance.create("full", shape=(), value=False, dtype="bool"),
                         status=statuses.ONE_VALUE)


def _of_channels(name: str, value: Any, shape: tuple[int, ...], axis: int) -> Any:
    found = operand(value)
    if found.shape != (shape[axis],):
        raise ShapeError(f"batch_norm: x of shape {shape} and a {name} of shape {found.shape} do not fit: axis {axis} "
                         f"has {shape[axis]} channels, at {user_line()}")
    if name.startswith("running"):
        require_floats("batch_norm", found, name)
    return found


def _writable(value: Any) -> Any:
    """Return running statistics; raise for values into which nothing can be written, so that no update is lost."""
    if value is None:
        return None
    if isinstance(value, list | tuple | int | float | np.generic):
        raise ArgumentError(f"batch_norm: running statistics are arrays, which training writes into, not a "
                            f"{type(value).__name__}, at {user_line()}")
    if active() is not None and not isinstance(bare(value), TracedTensor):
        raise UntraceableError(f"batch_norm: running statistics that the trace has not seen, at {user_line()}. Pass "
                               "them as arguments, or read them inside of the function.")
    return value


# ---------------------------------------------------------------- dropout
def dropout(x: Any, p: float = 0.5, training: bool | None = None, *, shared_axes: int | Sequence[int] = ()) -> Any:
    """Zero each element with probability p and scale the rest by 1 / (1 - p), in training; else return x.

    `training` defaults to the mode of the fused function; True drops in every mode. Along `shared_axes` all elements
    are dropped or none: (2, 3) drops whole channels of images (N, C, H, W).
    """
    if not 0.0 <= p < 1.0:
        raise ArgumentError(f"dropout: the probability must be in [0, 1), not {p}")
    dtype = str(getattr(x, "dtype", type(x).__name__)).removeprefix("torch.")
    if KINDS.get(dtype) != "float":
        raise DTypeError(f"dropout scales its operand and wants a float array, not {dtype}, at {user_line()}")
    shared = shape_rules.normalize_axes("dropout", _axes(shared_axes), len(x.shape))
    flag = is_training() if training is None else training
    by_call = type(x) is TracedTensor and type(flag) is ModeFlag
    if by_call and not shared:
        run = x._run
        state, index = run.random_operands()
        return fresh(run, run.emit("dropout", (x._id(), state, index), {"p": float(p)}))
    if p == 0.0 or not (by_call or flag):
        return x
    if is_torch_tensor(x):
        raise ArgumentError(f"dropout: outside of a trace use torch's own for a tensor of torch, at {user_line()}")
    drawn = "float64" if dtype == "float64" else "float32"
    shape = tuple(1 if k in shared else n for k, n in enumerate(x.shape))
    keep = random.uniform(shape, dtype=drawn) >= p
    made = np.where(keep, x * (1.0 / (1.0 - p)), numpy_dtype(dtype).type(0))
    return _by_mode(flag, made, x)


def _axes(axes: Any) -> tuple[int, ...]:
    return tuple(axes) if isinstance(axes, Sequence) else (axes,)

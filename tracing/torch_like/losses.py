"""torch.nn.functional's losses over traced tensors.

Owns their entries in `jitfuse.tracing.torch_like.table`. Formulas that `jf.nn` has too are in
`jitfuse.ir.decompositions.layers`.
"""
from __future__ import annotations

import math
from typing import Any

import torch

from jitfuse.dtypes import kind
from jitfuse.errors import ArgumentError, ShapeError
from jitfuse.ir.decompositions import layers
from jitfuse.ir.statuses import NO_PROBABILITY
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.function_table import Tensor
from jitfuse.tracing.torch_like.dispatcher import through
from jitfuse.tracing.torch_like.products import same_dtype
from jitfuse.tracing.torch_like.promotion import cast, in_common, numbers, operand
from jitfuse.tracing.torch_like.table import implements, of_floats
from jitfuse.tracing.torch_like.tensor import wrap


def reduced(loss: Tensor, reduction: str) -> Any:
    """Return the mean of losses, their sum, or the losses themselves."""
    return wrap(layers.reduced(loss, _checked(reduction)))


def _checked(reduction: str) -> str:
    if reduction not in ("mean", "sum", "none"):
        raise ArgumentError(f"{reduction!r} is not a valid value for reduction, at {user_line()}")
    return reduction


def _difference(input: Any, target: Any) -> Tensor:
    return in_common("subtract", input, target)


def _weighed(loss: Tensor, weight: Any) -> Tensor:
    return loss if weight is None else loss * operand(weight)


@of_floats("binary_cross_entropy")
def binary_cross_entropy(input: Any, target: Any, weight: Any = None, size_average: Any = None, reduce: Any = None,
                         reduction: str = "mean") -> Any:
    """Return the cross entropy of probabilities, whose logarithms are at least -100."""
    p, t = same_dtype("binary_cross_entropy", input, target)
    inside = p.call("greater_equal", 0).call("logical_and", p.call("less_equal", 1))
    p = p.call("require", inside, status=NO_PROBABILITY)
    low = -100.0
    made = (t - 1) * (-p).call("log1p").call("maximum", low) - t * p.call("log").call("maximum", low)
    return reduced(_weighed(made, weight), reduction)


@implements("triplet_margin_with_distance_loss")
def triplet_margin_with_distance_loss(anchor: Any, positive: Any, negative: Any, *, distance_function: Any = None,
                                      margin: Any = 1.0, swap: bool = False, reduction: str = "mean") -> Any:
    """Return how much nearer positive examples should be than negative ones, by a distance of the caller's."""
    if distance_function is None or numbers(margin) <= 0:
        return through(torch.nn.functional.triplet_margin_with_distance_loss, anchor, positive, negative,
                       margin=margin, swap=swap, reduction=reduction)
    near, far = distance_function(anchor, positive), distance_function(anchor, negative)
    far = torch.minimum(far, distance_function(positive, negative)) if swap else far
    return reduced(operand((near - far + margin).clamp_min(0)), reduction)


implements("linear_cross_entropy")(lambda *args, options=None, **kwargs: through(  # which choose the way to the result
    torch.nn.functional.linear_cross_entropy, *args, **kwargs))


@of_floats("gaussian_nll_loss")
def gaussian_nll_loss(input: Any, target: Any, var: Any, full: bool = False, eps: Any = 1e-6,
                      reduction: str = "mean") -> Any:
    """Return the negative log likelihood of normal distributions."""
    variance = operand(var).call("maximum", numbers(eps))
    difference = _difference(input, target)
    made = (variance.call("log") + difference * difference / variance) * 0.5
    return reduced(made + 0.5 * math.log(2 * math.pi) if full else made, reduction)


# ---------------------------------------------------------------- classes
@of_floats("nll_loss")
def nll_loss(input: Any, target: Any, weight: Any = None, size_average: Any = None, ignore_index: Any = -100,
             reduce: Any = None, reduction: str = "mean") -> Any:
    """Return the negative log likelihood of classes."""
    x, t = operand(input), operand(target)
    axis, weights = _class_axis(x, t), _class_weights(x, weight)
    losses, each = layers.class_losses(x, cast(t, "int64"), weights, axis, int(numbers(ignore_index)))
    return wrap(layers.weighted_mean(losses, each, _checked(reduction)))


def _class_axis(x: Tensor, target: Tensor) -> int:
    axis = 0 if x.ndim == 1 else 1
    if target.shape != (*x.shape[:axis], *x.shape[axis + 1 :]):
        raise ShapeError(f"a loss of classes: predictions of shape {x.shape} and targets of {target.shape} do not fit, "
                         f"at {user_line()}")
    return axis


def _class_weights(x: Tensor, weight: Any) -> Tensor | None:
    if weight is None:
        return None
    classes, weights = x.shape[0 if x.ndim == 1 else 1], operand(weight)
    if weights.shape != (classes,):
        raise ShapeError(f"a loss of classes: {classes} weights are expected, got {weights.shape}, at {user_line()}")
    return weights


@of_floats("cross_entropy")
def cross_entropy(input: Any, target: Any, weight: Any = None, size_average: Any = None, ignore_index: Any = -100,
                  reduce: Any = None, reduction: str = "mean", label_smoothing: Any = 0.0) -> Any:
    """Return the cross entropy of logits with classes, or with probabilities of classes."""
    x, t = operand(input), operand(target)
    smooth, reduction = float(numbers(label_smoothing)), _checked(reduction)
    if kind(str(t.dtype)) == "float":
        axis = 0 if x.ndim == 1 else 1
        weights = None if weight is None else operand(weight)
        return wrap(layers.cross_entropy_of_shares(x, t, weights, axis, smooth, reduction))
    axis, weights = _class_axis(x, t), _class_weights(x, weight)
    ignored = int(numbers(ignore_index))
    return wrap(layers.cross_entropy(x, cast(t, "int64"), weights, axis, ignored, smooth, reduction))


@of_floats("smooth_l1_loss")
def smooth_l1_loss(input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean",
                   beta: Any = 1.0) -> Any:
    """Return half squares over beta of differences below beta, and linear losses above."""
    b = float(numbers(beta))
    if b < 0.0:
        raise ArgumentError(f"smooth_l1_loss does not support negative values for beta, at {user_line()}")
    return reduced(layers.smooth_l1(_difference(input, target), b), reduction)

"""Losses, each with a reduction: their mean, their sum, or none.

Owns their arguments, with torch's meaning but for the axis of classes, which is the last one here. The formulas of
those that torch's functions share are in `jitfuse.ir.decompositions.layers`. A loss has the dtype of the predictions.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from jitfuse.array_api.dispatch import over_tensors
from jitfuse.dtypes import is_integer, kind
from jitfuse.errors import ArgumentError, BoundsError, DTypeError, ShapeError
from jitfuse.gradients.values import cast
from jitfuse.ir.decompositions import layers
from jitfuse.ir.rules import shape_rules
from jitfuse.nn.operands import Tensor, floats, narrowed, operand
from jitfuse.tracing.record.device_array import HostArray
from jitfuse.tracing.record.recorder import active
from jitfuse.tracing.record.source import user_line

if TYPE_CHECKING:
    from jitfuse.array_api.signatures import ArrayLike

Reduction: TypeAlias = Literal["mean", "sum", "none"]


def _check_reduction(name: str, reduction: str) -> None:
    if reduction not in ("mean", "sum", "none"):
        raise ArgumentError(f'{name}: reduction is "mean", "sum" or "none", not {reduction!r}, at {user_line()}')


# ---------------------------------------------------------------- differences
def _pair(name: str, predictions: Any, target: Any, reduction: str) -> tuple[Tensor, Tensor, Tensor]:
    """Return the predictions, and both operands in the dtype in which they are computed."""
    _check_reduction(name, reduction)
    given, x = floats(name, predictions, "the predictions")
    t = operand(target)
    if t.shape != x.shape and t.shape:
        raise ShapeError(f"{name}: predictions of shape {x.shape} and a target of shape {t.shape} do not fit, at "
                         f"{user_line()}: they have one shape, or the target is one number")
    if kind(str(t.dtype)) == "complex":
        raise DTypeError(f"{name} wants real targets, not {t.dtype}, at {user_line()}")
    return given, x, cast(t, str(x.dtype))


@over_tensors
def mse_loss(predictions: ArrayLike, target: ArrayLike, *, reduction: Reduction = "mean") -> Any:
    """Return the squares of predictions - target, reduced."""
    given, x, t = _pair("mse_loss", predictions, target, reduction)
    difference = x - t
    return narrowed(layers.reduced(difference * difference, reduction), given)


@over_tensors
def l1_loss(predictions: ArrayLike, target: ArrayLike, *, reduction: Reduction = "mean") -> Any:
    """Return |predictions - target|, reduced; its derivative is 0 where they are equal."""
    given, x, t = _pair("l1_loss", predictions, target, reduction)
    return narrowed(layers.reduced((x - t).call("abs"), reduction), given)


@over_tensors
def huber_loss(
    predictions: ArrayLike, target: ArrayLike, *, delta: float = 1.0, reduction: Reduction = "mean"
) -> Any:
    """Return d * d / 2 for d = |predictions - target| up to delta, and delta (d - delta / 2) above, reduced."""
    if not delta > 0:
        raise ArgumentError(f"huber_loss: delta is above 0, not {delta}, at {user_line()}")
    given, x, t = _pair("huber_loss", predictions, target, reduction)
    size = (x - t).call("abs")
    losses = size.call("less_equal", delta).call("where", size * size * 0.5, (size - 0.5 * delta) * delta)
    return narrowed(layers.reduced(losses, reduction), given)


@over_tensors
def smooth_l1_loss(
    predictions: ArrayLike, target: ArrayLike, *, beta: float = 1.0, reduction: Reduction = "mean"
) -> Any:
    """Return d * d / (2 beta) for d = |predictions - target| below beta, and d - beta / 2 elsewhere, reduced.

    With `beta=0` this is l1_loss.
    """
    if not beta >= 0:
        raise ArgumentError(f"smooth_l1_loss: beta is not below 0, and {beta} is, at {user_line()}")
    given, x, t = _pair("smooth_l1_loss", predictions, target, reduction)
    return narrowed(layers.reduced(layers.smooth_l1(x - t, float(beta)), reduction), given)


@over_tensors
def binary_cross_entropy_with_logits(
    logits: ArrayLike, target: ArrayLike, weight: ArrayLike | None = None, pos_weight: ArrayLike | None = None, *,
    reduction: Reduction = "mean",
) -> Any:
    """Return -(pos_weight t log(p) + (1 - t) log(1 - p)) weight for p = sigmoid(logits) and targets t, reduced.

    It is computed from the logits, so that nothing overflows. The weights broadcast to the shape of the logits.
    """
    name = "binary_cross_entropy_with_logits"
    given, x, t = _pair(name, logits, target, reduction)
    of_ones = None if pos_weight is None else _broadcast(name, "pos_weight", pos_weight, x)
    logs = x.call("log_sigmoid")
    losses = (1.0 - t) * x - (logs if of_ones is None else ((of_ones - 1.0) * t + 1.0) * logs)
    if weight is not None:
        losses = losses * _broadcast(name, "weight", weight, x)
    return narrowed(layers.reduced(losses, reduction), given)


def _broadcast(name: str, what: str, value: Any, x: Tensor) -> Tensor:
    found = operand(value)
    if shape_rules.broadcast(name, (x.shape, found.shape)) != x.shape:
        raise ShapeError(f"{name}: logits of shape {x.shape} and a {what} of shape {found.shape} do not fit, at "
                         f"{user_line()}")
    return cast(found, str(x.dtype))


@over_tensors
def kl_div(log_input: ArrayLike, target: ArrayLike, *, reduction: Reduction = "mean") -> Any:
    """Return target (log(target) - log_input), reduced; 0 log(0) is 0.

    The mean is over all elements: the divergence of a batch of distributions is the sum divided by their number.
    """
    given, x, t = _pair("kl_div", log_input, target, reduction)
    safe = t.call("equal", 0).call("where", 1.0, t)  # where the logarithm and its derivative would be infinite
    return narrowed(layers.reduced(t * safe.call("log") - t * x, reduction), given)


# ---------------------------------------------------------------- classes
@over_tensors
def nll_loss(
    log_probabilities: ArrayLike, targets: ArrayLike, *, axis: int = -1, weight: ArrayLike | None = None,
    ignore_index: int = -100, reduction: Reduction = "mean",
) -> Any:
    """Return -log_probabilities of the target classes times their weights, reduced.

    `targets` has integers and the shape of `log_probabilities` without `axis`. The mean is the sum divided by the sum
    of the weights. Targets that are `ignore_index` do not count. A class that is not there raises BoundsError.
    """
    given, x, along = _predictions("nll_loss", log_probabilities, axis, reduction)
    t = _classes("nll_loss", targets, x, along, ignore_index)
    losses, each = layers.class_losses(x, t, _class_weights("nll_loss", weight, x, along), along, int(ignore_index))
    return narrowed(layers.weighted_mean(losses, each, reduction), given)


@over_tensors
def cross_entropy(
    logits: ArrayLike, targets: ArrayLike, *, axis: int = -1, weight: ArrayLike | None = None,
    label_smoothing: float = 0.0, ignore_index: int = -100, reduction: Reduction = "mean",
) -> Any:
    """Return -log(softmax(logits)) of the targets, reduced; the classes are on the last axis, in torch on axis 1.

    `targets` has integers and the shape of `logits` without `axis`, or probabilities and the shape of `logits`.
    `label_smoothing` mixes the targets with so large a share of equal probabilities. The mean is the sum divided by
    the sum of the weights of the target classes; with probabilities, by the number of places. Targets that are
    `ignore_index` do not count. A class that is not there raises BoundsError.
    """
    if not 0.0 <= label_smoothing <= 1.0:
        raise ArgumentError(f"cross_entropy: label_smoothing is in [0, 1], not {label_smoothing}, at {user_line()}")
    given, x, along = _predictions("cross_entropy", logits, axis, reduction)
    weights, smooth, t = _class_weights("cross_entropy", weight, x, along), float(label_smoothing), operand(targets)
    if kind(str(t.dtype)) == "float" and t.shape == x.shape:
        shares = cast(t, str(x.dtype))
        made = layers.cross_entropy_of_shares(x, shares, weights, along, smooth, reduction)
    else:
        classes = _classes("cross_entropy", t, x, along, ignore_index)
        made = layers.cross_entropy(x, classes, weights, along, int(ignore_index), smooth, reduction)
    return narrowed(made, given)


def _predictions(name: str, value: Any, axis: int, reduction: str) -> tuple[Tensor, Tensor, int]:
    _check_reduction(name, reduction)
    given, x = floats(name, value, "the predictions")
    return given, x, shape_rules.normalize_axis(name, axis, x.ndim)


def _classes(name: str, targets: Any, x: Tensor, axis: int, ignored: int) -> Tensor:
    """Return classes as int64; outside of a trace, raise BoundsError for one that is not there."""
    t = operand(targets)
    if not is_integer(str(t.dtype)):
        shares = " or probabilities of the shape of the logits" if name == "cross_entropy" else ""
        raise DTypeError(f"{name} wants integers as targets{shares}, not {t.dtype} of shape {t.shape} for predictions "
                         f"of shape {x.shape}, at {user_line()}")
    if t.shape != (*x.shape[:axis], *x.shape[axis + 1 :]):
        raise ShapeError(f"{name}: predictions of shape {x.shape} with classes on axis {axis} and targets of shape "
                         f"{t.shape} do not fit, at {user_line()}")
    if active() is None and isinstance(t, HostArray):
        values = np.asarray(t.array)
        wrong = values[((values < 0) | (values >= x.shape[axis])) & (values != ignored)]
        if wrong.size:
            raise BoundsError(f"{name}: there is no class {wrong.flat[0]} among {x.shape[axis]}, at {user_line()}")
    return cast(t, "int64")


def _class_weights(name: str, weight: Any, x: Tensor, axis: int) -> Tensor | None:
    if weight is None:
        return None
    found = operand(weight)
    if found.shape != (x.shape[axis],):
        raise ShapeError(f"{name}: predictions of shape {x.shape} with classes on axis {axis} and a weight of shape "
                         f"{found.shape} do not fit, at {user_line()}")
    return cast(found, str(x.dtype))

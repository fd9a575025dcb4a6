"""Formulas of layers and losses over AbstractTensor methods, which `jf.nn` and torch's functions share.

Operands are tensors of fitting shapes and dtypes: callers check them, and widen 16-bit floats. Owns the numerics and
the meaning of weights, ignored classes, smoothing and reductions; these are torch's.
"""
from __future__ import annotations

from typing import Any

Tensor = Any


def along(vector: Tensor, ndim: int, axis: int) -> Tensor:
    """Return a vector with its elements along an axis of so many."""
    return vector.reshape(tuple(-1 if k == axis else 1 for k in range(ndim)))


# ---------------------------------------------------------------- normalisation
def batch_statistics(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Return the means and variances over all axes but one."""
    over = tuple(k for k in range(x.ndim) if k != axis)
    return x.call("mean", axis=over, keepdims=False), x.call("var", axis=over, keepdims=False, correction=0.0)


def unbiased(variance: Tensor, count: int) -> Tensor:
    """Return variances with divisor count - 1 for those with divisor count."""
    return variance * variance.extent(value=count / max(count - 1, 1))


def moved(running: Tensor, new: Tensor, momentum: Any) -> Tensor:
    """Return running statistics after a batch, in their own dtype."""
    made = running * (1.0 - momentum) + new * momentum
    return made if made.dtype == running.dtype else made.call("astype", dtype=str(running.dtype))


def normalised(x: Tensor, mean: Tensor, variance: Tensor, eps: Any, axis: int) -> Tensor:
    """Return (x - mean) / sqrt(variance + eps), with statistics along an axis."""
    scale = (variance + eps).call("sqrt").call("reciprocal")
    return (x - along(mean, x.ndim, axis)) * along(scale, x.ndim, axis)


# ---------------------------------------------------------------- losses
def reduced(losses: Tensor, reduction: str) -> Tensor:
    """Return the mean of losses, their sum, or the losses themselves."""
    return losses if reduction == "none" else losses.call(reduction, axis=None, keepdims=False)


def weighted_mean(losses: Tensor, weights: Tensor, reduction: str) -> Tensor:
    """Return losses reduced; their mean is the quotient of the sums of losses and weights."""
    if reduction != "mean":
        return reduced(losses, reduction)
    return reduced(losses, "sum") / reduced(weights, "sum")


def class_losses(
    logs: Tensor, target: Tensor, weight: Tensor | None, axis: int, ignored: int
) -> tuple[Tensor, Tensor]:
    """Return the weighted losses of classes (0 for ignored ones) and their weights.

    `target` is int64. A negative class is no class, and leaves the axis as a number from its extent on does.
    """
    counts = target.call("not_equal", ignored)
    index = counts.call("where", target, 0)
    index = index.call("less", 0).call("where", index - logs.shape[axis], index)
    shape = (*logs.shape[:axis], 1, *logs.shape[axis + 1 :])
    picked = logs.call("take_along_axis", index.reshape(shape), axis=axis).reshape(target.shape)
    each = counts.call("astype", dtype=str(logs.dtype)) if weight is None else counts.call("where", weight[index], 0.0)
    return counts.call("where", -picked * each, 0.0), each  # an ignored place may hold minus infinity


def cross_entropy(
    logits: Tensor, target: Tensor, weight: Tensor | None, axis: int, ignored: int, smooth: float, reduction: str
) -> Tensor:
    """Return the cross entropy of logits with classes (int64)."""
    logs = logits.call("log_softmax", axis=axis)
    losses, weights = class_losses(logs, target, weight, axis, ignored)
    made = weighted_mean(losses, weights, reduction)
    if not smooth:
        return made
    every = logs if weight is None else logs * along(weight, logs.ndim, axis)
    counts = target.call("not_equal", ignored)
    others = counts.call("where", -every.call("sum", axis=axis, keepdims=False), 0.0)
    return made * (1.0 - smooth) + weighted_mean(others, weights, reduction) * (smooth / logs.shape[axis])


def cross_entropy_of_shares(
    logits: Tensor, shares: Tensor, weight: Tensor | None, axis: int, smooth: float, reduction: str
) -> Tensor:
    """Return the cross entropy of logits with probabilities of classes."""
    logs = logits.call("log_softmax", axis=axis)
    shares = shares * (1.0 - smooth) + smooth / logs.shape[axis] if smooth else shares
    if weight is not None:
        shares = shares * along(weight, logs.ndim, axis)
    return reduced(-(logs * shares).call("sum", axis=axis, keepdims=False), reduction)


def smooth_l1(difference: Tensor, beta: float) -> Tensor:
    """Return half squares over beta of differences below beta, and linear losses above."""
    size = difference.call("abs")
    if beta == 0.0:
        return size
    return size.call("less", beta).call("where", size * size * 0.5 / beta, size - 0.5 * beta)

"""torch.nn.functional's losses of margins, pairs and labels over traced tensors.

Owns their entries in `jitfuse.tracing.torch_like.table`.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from jitfuse.errors import ShapeError
from jitfuse.tracing.record.foreign import Foreign
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.function_table import Tensor
from jitfuse.tracing.torch_like.losses import reduced
from jitfuse.tracing.torch_like.networks import pairwise_distance
from jitfuse.tracing.torch_like.promotion import cast, floating, in_common, narrowed, numbers, operand
from jitfuse.tracing.torch_like.table import implements, of_floats
from jitfuse.tracing.torch_like.tensor import wrap


def _of_any(name: str, floats: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function of tensors that are cast to floats; its result is rounded to the dtype of 16-bit floats.

    With `floats` false the function casts by itself: torch multiplies and subtracts integers as integers.
    """
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            given = [wrap(floating(a)) if floats and isinstance(a, Foreign) else a for a in args]
            return narrowed(function(*given, **kwargs), args[0])

        return implements(name)(call)

    return register


def _positive(x: Tensor) -> Tensor:
    return x.call("maximum", 0.0)


@_of_any("margin_ranking_loss", floats=False)
def margin_ranking_loss(input1: Any, input2: Any, target: Any, margin: Any = 0, size_average: Any = None,
                        reduce: Any = None, reduction: str = "mean") -> Any:
    """Return by how much pairs miss their order (1 or -1) with a margin."""
    difference = in_common("multiply", wrap(-operand(target)), wrap(in_common("subtract", input1, input2)))
    return reduced(_positive(floating(in_common("add", wrap(difference), numbers(margin)))), reduction)


@of_floats("hinge_embedding_loss")
def hinge_embedding_loss(input: Any, target: Any, margin: Any = 1.0, size_average: Any = None, reduce: Any = None,
                         reduction: str = "mean") -> Any:
    """Return the distances of similar pairs (target 1), and by how much other distances fall short of a margin."""
    x, t = operand(input), operand(target)
    far = t.call("equal", 1).call("where", 0.0, _positive(float(numbers(margin)) - x))
    return reduced(far + t.call("equal", -1).call("where", 0.0, x), reduction)


@of_floats("soft_margin_loss")
def soft_margin_loss(input: Any, target: Any, size_average: Any = None, reduce: Any = None,
                     reduction: str = "mean") -> Any:
    """Return log(1 + exp(-target * input))."""
    return reduced((-operand(target) * operand(input)).call("exp").call("log1p"), reduction)


@_of_any("cosine_embedding_loss", floats=False)
def cosine_embedding_loss(input1: Any, input2: Any, target: Any, margin: Any = 0, size_average: Any = None,
                          reduce: Any = None, reduction: str = "mean") -> Any:
    """Return 1 - cosine of similar pairs, and for others by how much the cosine exceeds a margin."""
    x, y, t = operand(input1), operand(input2), operand(target)
    products, of_x, of_y = (floating(wrap(in_common("multiply", wrap(a), wrap(b)).call("sum", axis=-1)))
                            for a, b in ((x, y), (x, x), (y, y)))
    sizes = (of_x + 1e-12) * (of_y + 1e-12)
    cosine = products / sizes.call("sqrt")
    near = t.call("equal", 1).call("where", 1.0 - cosine, 0.0)
    return reduced(near + t.call("equal", -1).call("where", _positive(cosine - float(numbers(margin))), 0.0), reduction)


@_of_any("triplet_margin_loss", floats=False)
def triplet_margin_loss(anchor: Any, positive: Any, negative: Any, margin: Any = 1.0, p: Any = 2, eps: Any = 1e-6,
                        swap: bool = False, size_average: Any = None, reduce: Any = None,
                        reduction: str = "mean") -> Any:
    """Return by how much the negative is not farther than the positive by a margin."""
    near = operand(pairwise_distance(anchor, positive, p, eps))
    far = operand(pairwise_distance(anchor, negative, p, eps))
    if swap:
        far = far.call("minimum", operand(pairwise_distance(positive, negative, p, eps)))
    return reduced(_positive(near - far + float(numbers(margin))), reduction)


@_of_any("poisson_nll_loss")
def poisson_nll_loss(input: Any, target: Any, log_input: bool = True, full: bool = False, size_average: Any = None,
                     eps: Any = 1e-8, reduce: Any = None, reduction: str = "mean") -> Any:
    """Return the negative log likelihood of Poisson distributions."""
    x, t = operand(input), operand(target)
    made = x.call("exp") - t * x if log_input else x - t * (x + float(numbers(eps))).call("log")
    if full:
        stirling = t * t.call("log") - t + (t * (2 * math.pi)).call("log") * 0.5
        made = made + t.call("less_equal", 1).call("where", 0.0, stirling)
    return reduced(made, reduction)


@of_floats("multilabel_soft_margin_loss")
def multilabel_soft_margin_loss(input: Any, target: Any, weight: Any = None, size_average: Any = None,
                                reduce: Any = None, reduction: str = "mean") -> Any:
    """Return the mean cross entropy over several labels of each sample."""
    x, t = operand(input), operand(target)
    losses = -(t * x.call("log_sigmoid") + (1.0 - t) * (-x).call("log_sigmoid"))
    if weight is not None:
        losses = losses * operand(weight)
    return reduced(losses.call("mean", axis=-1), reduction)


@of_floats("multi_margin_loss")
def multi_margin_loss(input: Any, target: Any, p: Any = 1, margin: Any = 1.0, weight: Any = None,
                      size_average: Any = None, reduce: Any = None, reduction: str = "mean") -> Any:
    """Return by how much other classes come within a margin of the right class."""
    x, t = operand(input), cast(operand(target), "int64")
    if x.ndim != 2 or t.shape != x.shape[:1]:
        raise ShapeError(f"multi_margin_loss: inputs of {x.shape} and targets of {t.shape}, at {user_line()}")
    column = t.reshape((-1, 1))
    right = x.call("take_along_axis", column, axis=1)
    losses = _positive(x - right + float(numbers(margin)))
    losses = losses if numbers(p) == 1 else losses * losses
    if weight is not None:
        losses = losses * operand(weight)[column]
    others = x.create("arange", count=x.shape[1], dtype="int64").call("not_equal", column)
    return reduced(others.call("where", losses, 0.0).call("sum", axis=1) / float(x.shape[1]), reduction)



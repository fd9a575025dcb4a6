"""Activations: functions of elements, and softmax."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from jitfuse.array_api.namespace import operate
from jitfuse.errors import ArgumentError

if TYPE_CHECKING:
    from jitfuse.array_api.signatures import ArrayLike

_np: Any = np  # its type hints omit traced and eager arrays


def relu(x: ArrayLike) -> Any:
    """Return max(x, 0), NaN where x is NaN."""
    return operate("relu", x)


def relu6(x: ArrayLike) -> Any:
    """Return min(max(x, 0), 6)."""
    return _np.clip(x, 0, 6)


def hard_tanh(x: ArrayLike, low: ArrayLike = -1.0, high: ArrayLike = 1.0) -> Any:
    """Return x limited to [low, high]."""
    return _np.clip(x, low, high)


def hard_sigmoid(x: ArrayLike) -> Any:
    """Return relu6(x + 3) / 6."""
    array: Any = x
    return _np.clip(array + 3.0, 0, 6) / 6.0


def hard_silu(x: ArrayLike) -> Any:
    """Return x hard_sigmoid(x), also called hard swish."""
    array: Any = x
    return array * hard_sigmoid(array)


def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 0.01) -> Any:
    """Return x above 0, negative_slope * x elsewhere."""
    return operate("leaky_relu", x, negative_slope)


def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Any:
    """Return x above 0, alpha (exp(x) - 1) elsewhere."""
    return operate("elu", x, alpha)


def selu(x: ArrayLike) -> Any:
    """Return the scaled elu of Klambauer et al. (2017), whose fixed point is mean 0 and variance 1."""
    return 1.0507009873554805 * elu(x, 1.6732632423543772)


def sigmoid(x: ArrayLike) -> Any:
    """Return 1 / (1 + exp(-x))."""
    return operate("sigmoid", x)


def log_sigmoid(x: ArrayLike) -> Any:
    """Return log(sigmoid(x))."""
    return operate("log_sigmoid", x)


def silu(x: ArrayLike) -> Any:
    """Return x sigmoid(x), also called swish; -0.0 at minus infinity."""
    return operate("silu", x)


def gelu(x: ArrayLike, approximate: Literal["none", "tanh"] = "none") -> Any:
    """Return x Phi(x), Phi the normal distribution function; `approximate="tanh"` is the form with tanh."""
    if approximate not in ("none", "tanh"):
        raise ArgumentError(f"gelu: approximate is 'none' or 'tanh', not {approximate!r}")
    return operate("gelu" if approximate == "none" else "gelu_tanh", x)


def softplus(x: ArrayLike, beta: float = 1.0) -> Any:
    """Return log(1 + exp(beta x)) / beta."""
    array: Any = x
    return operate("softplus", x) if beta == 1 else operate("softplus", array * beta) / beta


def softsign(x: ArrayLike) -> Any:
    """Return x / (1 + |x|)."""
    array: Any = x
    return array / (1.0 + abs(array))


def mish(x: ArrayLike) -> Any:
    """Return x tanh(softplus(x))."""
    array: Any = x
    return array * operate("tanh", operate("softplus", x))


def softmax(x: ArrayLike, axis: int | tuple[int, ...] = -1) -> Any:
    """Return exp(x - max) / sum(exp(x - max)) over the axes."""
    return operate("softmax", x, axis=axis)


def log_softmax(x: ArrayLike, axis: int | tuple[int, ...] = -1) -> Any:
    """Return x - max - log(sum(exp(x - max))) over the axes."""
    return operate("log_softmax", x, axis=axis)

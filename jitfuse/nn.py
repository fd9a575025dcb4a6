"""Functions of neural networks over traced and NumPy arrays: `jf.nn`."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from jitfuse import random
from jitfuse.array_api.descriptions import documentation
from jitfuse.array_api.namespace import operate
from jitfuse.arrays.state_trees import load, load_state_dict, parameters, save, state_dict
from jitfuse.dtypes import numpy_dtype
from jitfuse.errors import ArgumentError
from jitfuse.tracing.record.mode import ModeFlag, is_training
from jitfuse.tracing.tensor.traced import TracedTensor, fresh

if TYPE_CHECKING:
    from jitfuse.array_api.signatures import ArrayLike

__all__ = [
    "dropout", "elu", "gelu", "hard_sigmoid", "hard_silu", "hard_tanh", "layer_norm", "leaky_relu", "load",
    "load_state_dict", "log_sigmoid", "log_softmax", "mish", "parameters", "relu", "relu6", "rms_norm", "save", "selu",
    "sigmoid", "silu", "softmax", "softplus", "softsign", "state_dict",
]
_np: Any = np  # its type hints omit traced and eager arrays


def __dir__() -> list[str]:
    return __all__


# ---------------------------------------------------------------- activations
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


def dropout(x: Any, p: float = 0.5, training: bool | None = None) -> Any:
    """Zero each element with probability p and scale the rest by 1 / (1 - p), in training; else return x.

    `training` defaults to the mode of the fused function; True drops in every mode.
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
    return np.where(keep, x * (1.0 / (1.0 - p)), numpy_dtype(str(x.dtype)).type(0))


for _name in __all__:
    globals()[_name].__doc__ = documentation(f"nn.{_name}", globals()[_name])

"""torch's activations over traced tensors, with softmax and its kin.

Owns their entries in `jitfuse.tracing.torch_like.table`; `inplace=True` writes into the argument.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitfuse.dtypes import kind
from jitfuse.errors import DTypeError
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.function_table import Tensor
from jitfuse.tracing.torch_like.choices import clamp
from jitfuse.tracing.torch_like.promotion import (
    assign,
    cast,
    dtype_named,
    in_common,
    narrowed,
    numbers,
    operand,
    strong,
)
from jitfuse.tracing.torch_like.table import implements
from jitfuse.tracing.torch_like.tensor import wrap


def _activation(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function of a tensor and numbers under names, and add an `inplace` option."""
    def register(made: Callable[..., Any]) -> Callable[..., Any]:
        count = made.__code__.co_argcount - 1

        def function(input: Any, *args: Any, inplace: bool = False, **kwargs: Any) -> Any:
            x, args, inplace = operand(input), args[:count], bool(inplace or args[count:] == (True,))
            result = narrowed(wrap(made(x, *args, **kwargs)), x)
            return assign(input, result, names[0]) if inplace else result

        function.__name__, function.__doc__ = names[0], made.__doc__
        implements(*names)(function)
        return function

    return register


def _of_floats(name: str, x: Tensor) -> Tensor:
    if kind(str(x.dtype)) not in ("float", "complex"):
        raise DTypeError(f"{name} is not implemented for {x.dtype}, at {user_line()}. Cast with x.float().")
    return x


@_activation("relu")
def relu(x: Tensor) -> Any:
    """Return max(x, 0)."""
    return x.call("relu") if kind(str(x.dtype)) == "float" else x.call("maximum", 0)


@_activation("relu6")
def relu6(x: Tensor) -> Any:
    """Return x limited to [0, 6]."""
    return x.call("clip", 0, 6)


@_activation("leaky_relu")
def leaky_relu(x: Tensor, negative_slope: Any = 0.01) -> Any:
    """Return x above 0, and a multiple of it below."""
    return x.call("greater", 0).call("where", x, in_common("multiply", x, negative_slope))


@_activation("elu")
def elu(x: Tensor, alpha: Any = 1.0) -> Any:
    """Return x above 0, and alpha (exp(x) - 1) below."""
    below = in_common("multiply", _of_floats("elu", x).call("expm1"), alpha)
    return x.call("greater", 0).call("where", x, below)


@_activation("selu")
def selu(x: Tensor) -> Any:
    """Return the scaled elu of Klambauer et al. (2017)."""
    return in_common("multiply", operand(elu(wrap(x), 1.6732632423543772)), 1.0507009873554805)


@_activation("gelu")
def gelu(x: Tensor, approximate: str = "none") -> Any:
    """Return x Phi(x), or its approximation with tanh."""
    return _of_floats("gelu", x).call("gelu" if approximate == "none" else "gelu_tanh")


@_activation("silu")
def silu(x: Tensor) -> Any:
    """Return x sigmoid(x)."""
    return _of_floats("silu", x).call("silu")


@_activation("hardtanh")
def hardtanh(x: Tensor, min_val: Any = -1.0, max_val: Any = 1.0) -> Any:
    """Limit x to [min_val, max_val]."""
    return cast(clamp(wrap(x), min_val, max_val).tensor, str(x.dtype))


@_activation("logsigmoid")
def logsigmoid(x: Tensor) -> Any:
    """Return log(sigmoid(x))."""
    return _of_floats("logsigmoid", x).call("log_sigmoid")


# ---------------------------------------------------------------- softmax
def _normalised(name: str, op_name: str, sign: int) -> None:
    @implements(name)
    def function(input: Any, dim: Any = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
        x = strong(input) if sign > 0 else -strong(input)  # in its own dtype
        x = _of_floats(name, x if dtype is None else cast(x, dtype_named(dtype)))
        if not x.ndim:
            return wrap(x.reshape((1,)).call(op_name, axis=0).reshape(()))
        along = (0 if x.ndim in (1, 3) else 1) if dim is None else int(numbers(dim))
        return wrap(x.call(op_name, axis=along))

    function.__name__ = name


_normalised("softmax", "softmax", 1)
_normalised("log_softmax", "log_softmax", 1)
_normalised("softmin", "softmax", -1)


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
from jitfuse.tracing.torch_like.promotion import assign, cast, dtype_named, numbers, operand, strong
from jitfuse.tracing.torch_like.table import implements
from jitfuse.tracing.torch_like.tensor import wrap


def _of_floats(name: str, x: Tensor) -> Tensor:
    if kind(str(x.dtype)) not in ("float", "complex"):
        raise DTypeError(f"{name} is not implemented for {x.dtype}, at {user_line()}. Cast with x.float().")
    return x


@implements("relu")
def relu(input: Any, inplace: bool = False) -> Any:
    """Return max(x, 0)."""
    x = operand(input)
    made = wrap(x.call("relu") if kind(str(x.dtype)) == "float" else x.call("maximum", 0))
    return assign(input, made, "relu") if inplace else made


@implements("silu")
def silu(input: Any, inplace: bool = False) -> Any:
    """Return x sigmoid(x)."""
    made = wrap(_of_floats("silu", operand(input)).call("silu"))
    return assign(input, made, "silu") if inplace else made


@implements("gelu")
def gelu(input: Any, *, approximate: str = "none") -> Any:
    """Return x Phi(x), or its approximation with tanh."""
    return wrap(_of_floats("gelu", operand(input)).call("gelu" if approximate == "none" else "gelu_tanh"))


@implements("logsigmoid")
def logsigmoid(input: Any) -> Any:
    """Return log(sigmoid(x))."""
    return wrap(_of_floats("logsigmoid", operand(input)).call("log_sigmoid"))


# ---------------------------------------------------------------- softmax
def _normalised(name: str) -> Callable[..., Any]:
    def function(input: Any, dim: Any = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
        x = strong(input)
        x = _of_floats(name, x if dtype is None else cast(x, dtype_named(dtype)))
        if not x.ndim:
            return wrap(x.reshape((1,)).call(name, axis=0).reshape(()))
        along = (0 if x.ndim in (1, 3) else 1) if dim is None else int(numbers(dim))
        return wrap(x.call(name, axis=along))

    return function


implements("softmax")(_normalised("softmax"))
implements("log_softmax")(_normalised("log_softmax"))

"""Operands of layers and losses: values as tensors, and the checks of their dtypes and shapes."""
from __future__ import annotations

from typing import Any

from jitfuse.array_api.dispatch import tensor
from jitfuse.dtypes import is_narrow, kind
from jitfuse.errors import DTypeError
from jitfuse.gradients.values import cast
from jitfuse.tracing.record.recorder import active
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.function_table import strong
from jitfuse.tracing.tensor.lifting import lift

Tensor = Any


def operand(value: Any) -> Tensor:
    """Return an array or number as a tensor with a dtype of its own: a traced one in a trace, else an eager one."""
    run = active()
    return strong(tensor(value) if run is None else lift(run, value))


def require_floats(name: str, x: Tensor, what: str = "its operand") -> None:
    """Raise DTypeError for tensors of integers, bools and complex numbers."""
    if kind(str(x.dtype)) != "float":
        raise DTypeError(f"{name} wants floats for {what}, not {x.dtype}, at {user_line()}. Cast with astype first.")


def floats(name: str, value: Any, what: str = "its operand") -> tuple[Tensor, Tensor]:
    """Return a tensor of floats, and itself in the dtype in which it is computed: float32 for 16-bit floats."""
    x = operand(value)
    require_floats(name, x, what)
    return x, cast(x, "float32") if is_narrow(str(x.dtype)) else x


def narrowed(result: Tensor, given: Tensor) -> Tensor:
    """Return a result in the dtype of the tensor that it was computed of."""
    return cast(result, str(given.dtype))

"""The table of NumPy functions over traced arrays, and the helpers that they share.

Owns `FUNCTIONS`, the table of `__array_function__`. Each function has NumPy's parameters (names that hide Python's
builtins end in an underscore); unsupported options raise UnsupportedError and are never ignored. Does not own ufuncs
and protocols (`jitfuse.tracing.numpy_like.protocol`), nor the other functions, which are in
`jitfuse.tracing.numpy_like`: `reductions`, `elementwise`, `shapes` (with joins and products) and so on.
"""
from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np

from jitfuse import dtypes
from jitfuse.errors import DTypeError, UnsupportedError
from jitfuse.ir.rules import shape_rules
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.record.source import user_line

Tensor = Any
FUNCTIONS: Final[dict[Any, Callable[..., Any]]] = {}
NO_VALUE: Final = np._NoValue
"""NumPy's default for options that are left out."""


def implements(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function into the table under NumPy functions' names; names that this NumPy lacks are skipped."""
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            with suppress(AttributeError):
                FUNCTIONS[operator.attrgetter(name)(np)] = function
        return function

    return register


# ---------------------------------------------------------------- helpers
def reject_options(function: str, options: dict[str, Any], way_out: str = "") -> None:
    """Raise UnsupportedError where one of these options has a value."""
    for option, value in options.items():
        if value is not None and value is not NO_VALUE and value is not True:
            raise UnsupportedError(
                f"np.{function}({option}=...) is not available inside a fused function, at {user_line()}. {way_out}"
            )


def require_c_order(function: str, order: str) -> None:
    """Raise UnsupportedError for orders of elements other than row-major."""
    if order != "C":
        raise UnsupportedError(
            f"np.{function}(order={order!r}) is not available, at {user_line()}. Transpose first: x.T.reshape(...)."
        )


def require_cast(function: str, source: str, target: str, casting: str) -> None:
    """Raise DTypeError where a casting rule forbids a cast."""
    if not dtypes.can_cast(source, target, casting):
        raise DTypeError(f"{function}: cannot cast from {source} to {target} with casting rule {casting!r}, "
                         f"at {user_line()}")


def warn_of_lost_part(source: str, target: str) -> None:
    """Warn as NumPy does where a cast drops imaginary parts; once, while tracing."""
    if dtypes.kind(source) == "complex" and dtypes.kind(target) not in ("complex", "bool"):
        message = f"Casting complex values to real discards the imaginary part, at {user_line()}"
        warnings.warn(message, np.exceptions.ComplexWarning, stacklevel=2)


_SEQUENCES: Final = frozenset({list, tuple})


def traced_among(*values: Any) -> Tensor:
    """Return the first traced tensor among values and the items of sequences."""
    for value in values:
        if isinstance(value, AbstractTensor):
            return value
        if type(value) in _SEQUENCES:
            found = traced_among(*value)
            if found is not None:
                return found
    return None


def lifted(*values: Any) -> list[Tensor]:
    """Return all values as tensors of the trace that the traced ones among them belong to."""
    near = traced_among(*values)
    assert near is not None
    convert = getattr(near, "as_tensor", near._lift)
    return [v if isinstance(v, AbstractTensor) else convert(v) for v in values]


def strong(x: Tensor) -> Tensor:
    """Return a Python scalar as a NumPy scalar, as NumPy functions convert it."""
    return x.call("astype", dtype=x.dtype) if x.weak else x


def deliver(function: str, result: Tensor, out: Any) -> Tensor:
    """Write a result into `out` where one is given, and return it."""
    if isinstance(out, tuple) and len(out) == 1:
        out = out[0]
    if out is None or out is NO_VALUE:
        return result
    if not isinstance(out, AbstractTensor):
        raise UnsupportedError(
            f"np.{function}(out=...) needs an array of this trace, not a {type(out).__name__}, at {user_line()}. "
            "Create it inside the function, or pass it as an argument."
        )
    out._assign_result(result, function)  # type: ignore[attr-defined]
    return out


def extents(shape: Any) -> tuple[int, ...]:
    """Return a shape given as an int or a sequence as a tuple of ints."""
    return tuple(map(shape_rules.whole, shape)) if isinstance(shape, Sequence) else (shape_rules.whole(shape),)

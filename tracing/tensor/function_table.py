"""The table of NumPy functions over traced arrays, the helpers that they share, and np.where, np.clip and np.copy.

Owns `FUNCTIONS`, the table of `__array_function__`. Each function has NumPy's parameters (names that hide Python's
builtins end in an underscore); unsupported options raise UnsupportedError and are never ignored. Does not own ufuncs
and protocols (`jitfuse.tracing.tensor.numpy_protocol`), nor the other functions, which are in
`jitfuse.tracing.numpy_like`: `reductions`, `elementwise`, `shapes` (with joins and products) and so on.
"""
from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitfuse import dtypes
from jitfuse.base.later import Later
from jitfuse.errors import DTypeError, UnsupportedError
from jitfuse.ir.rules import shape_rules
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.record.source import user_line

if TYPE_CHECKING:
    from jitfuse.tracing.tensor import indexing
else:
    indexing = Later("jitfuse.tracing.tensor.indexing")

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
def refuse(function: str, options: dict[str, Any], way_out: str = "") -> None:
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


_SEQUENCES: Final = frozenset({list, tuple})
_KINDS: Final = {"bool": 0, "int": 1, "uint": 1, "float": 2, "complex": 3}


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


# ---------------------------------------------------------------- choices and copies
@implements("where")
def where(condition: Tensor, x: Any = None, y: Any = None, /) -> Any:
    """Select elements of x where the condition holds, else of y; without x and y, return the indices where it holds."""
    if x is None and y is None:
        from jitfuse.tracing.numpy_like.data_dependent import nonzero  # it needs the table

        return nonzero(condition)
    c, a, b = lifted(condition, x, y)
    if a.weak and b.weak:
        a, b = strong(a), strong(b)
    result = strong(c).call("where", a, b)
    return result if result.ndim else result.as_copy()  # an array of rank 0, unlike a ufunc's result


@implements("clip")
def clip(a: Tensor, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None, max: Any = None,
         dtype: Any = None) -> Tensor:
    """Limit the values to [a_min, a_max]; either may be None."""
    refuse("clip", {"dtype": dtype}, "Cast with astype first.")
    low = min if a_min is None or a_min is NO_VALUE else a_min
    high = max if a_max is None or a_max is NO_VALUE else a_max
    x = lifted(a, *[v for v in (low, high) if v is not None])[0]
    if dtypes.is_integer(str(x.dtype)) and not x.weak:  # as NumPy, ignore Python int limits outside the dtype
        smallest, largest = dtypes.integer_range(str(x.dtype))
        low = None if type(low) is int and low <= smallest else low
        high = None if type(high) is int and high >= largest else high
    if low is not None and high is not None:
        result = strong(x).call("clip", low, high)
    elif low is not None:
        result = strong(x).call("maximum", low)
    elif high is not None:
        result = strong(x).call("minimum", high)
    else:
        result = x.as_copy()
    return deliver("clip", result, out)


@implements("copy")
def copy(a: Tensor, order: str = "K", subok: bool = False) -> Tensor:
    """Return a copy in memory of its own."""
    tensor = strong(a)
    return tensor.copy(order) if tensor.ndim else tensor.as_copy()  # an array, of a scalar too


@implements("copyto")
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """Assign src to dst, only where the mask holds."""
    if not isinstance(dst, AbstractTensor):
        raise UnsupportedError(f"np.copyto into an array that is not traced, at {user_line()}. Create it inside "
                               "the function, or pass it as an argument.")
    value = lifted(src, dst)[0]
    source, target = str(value.dtype), str(dst.dtype)
    if not value.weak:
        require_cast("copyto", source, target, casting)
    elif _KINDS[dtypes.kind(source)] != _KINDS[dtypes.kind(target)]:  # a Python number has any dtype of its kind
        require_cast("copyto", source, "complex128" if dtypes.kind(target) == "complex" else target, casting)
    if where is not True:
        value = lifted(where, dst)[0].call("where", indexing.cast(value, dst), dst)
    dst[...] = value  # type: ignore[index]

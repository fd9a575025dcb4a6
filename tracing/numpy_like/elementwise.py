"""NumPy's elementwise functions that are no ufuncs, over traced arrays: rounding, closeness, clipping, copies.

Owns their entries in `tensor.function_table.FUNCTIONS`, with NumPy's parameters. Ufuncs are in
`jitfuse.tracing.numpy_like.protocol`.
"""
from __future__ import annotations

from typing import Any, Final

import numpy as np

from jitfuse import dtypes
from jitfuse.errors import UnsupportedError
from jitfuse.ir.rules import shape_rules
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.scalars import conversions
from jitfuse.tracing.tensor import indexing
from jitfuse.tracing.tensor.function_table import (
    NO_VALUE,
    deliver,
    implements,
    lifted,
    reject_options,
    require_cast,
    strong,
)

Tensor = Any
_RANKS: Final = {"bool": 0, "int": 1, "uint": 1, "float": 2, "complex": 3}


@implements("round", "around")
def round_(a: Tensor, decimals: int = 0, out: Any = None) -> Tensor:
    """Round to a number of decimals, halves to even; an `out` of another dtype holds the scaled values, as in NumPy."""
    x, digits = strong(lifted(a)[0]), shape_rules.whole(decimals)
    target = out[0] if isinstance(out, tuple) else out
    if digits and isinstance(target, AbstractTensor) and dtypes.kind(str(x.dtype)) == "float" and (
            str(target.dtype) != str(x.dtype)):
        scale = 10.0 ** abs(digits)
        scaled = (x * scale if digits > 0 else x / scale).astype(str(target.dtype)).call("rint")
        return deliver("round", scaled / scale if digits > 0 else scaled * scale, out)
    return deliver("round", x.call("round", decimals=digits), out)


@implements("fix")
def fix(x: Tensor, out: Any = None) -> Tensor:
    """Round towards zero."""
    return deliver("fix", strong(lifted(x)[0]).call("trunc"), out)


@implements("sinc")
def sinc(x: Tensor) -> Tensor:
    """Return sin(pi x) / (pi x), 1 at 0."""
    t = strong(lifted(x)[0])  # the product with pi makes float64 of all ints and bools
    return (t if dtypes.kind(str(t.dtype)) in ("float", "complex") else t.astype("float64")).call("sinc")


@implements("isposinf")
def isposinf(x: Tensor, out: Any = None) -> Tensor:
    """Return where x is positive infinity."""
    return deliver("isposinf", strong(lifted(x)[0]).call("isposinf"), out)


@implements("isneginf")
def isneginf(x: Tensor, out: Any = None) -> Tensor:
    """Return where x is negative infinity."""
    return deliver("isneginf", strong(lifted(x)[0]).call("isneginf"), out)


@implements("nan_to_num")
def nan_to_num(x: Tensor, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Tensor:
    """Replace NaN and infinities by numbers."""
    if not copy:
        raise UnsupportedError(f"np.nan_to_num(copy=False) is not available, at {user_line()}. Assign the result.")
    x = strong(lifted(x, nan, posinf or 0.0, neginf or 0.0)[0])
    if dtypes.kind(str(x.dtype)) == "complex":
        real, imag = (nan_to_num(part, True, nan, posinf, neginf) for part in (x.real, x.imag))
        return real.call("make_complex", imag)
    end = _largest(str(x.dtype))
    return x.call("nan_to_num", nan, end if posinf is None else posinf, -end if neginf is None else neginf)


def _largest(dtype: str) -> float:
    """Return the largest finite number of a float dtype; 0 for others, which hold no infinities."""
    if dtypes.kind(dtype) != "float":
        return 0.0
    if dtype == "bfloat16":
        return float.fromhex("0x1.fep127")
    return float(np.finfo(dtype).max)


@implements("isclose")
def isclose(a: Tensor, b: Tensor, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Tensor:
    """Return where a and b are equal within tolerances."""
    x, y, relative, absolute = lifted(a, b, rtol, atol)
    return x.call("isclose", y, relative, absolute, equal_nan=bool(equal_nan))


@implements("allclose")
def allclose(a: Tensor, b: Tensor, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """Return whether a and b are equal within tolerances everywhere, as Python's bool."""
    return as_truth(isclose(a, b, rtol, atol, equal_nan).call("all"))


def as_truth(x: Tensor) -> Any:
    """Return a truth value as Python's bool, which the program makes; NumPy's where no graph break is possible."""
    made = conversions.item(x)
    return x if made is None else made


@implements("array_equal")
def array_equal(a1: Tensor, a2: Tensor, equal_nan: bool = False) -> Any:
    """Return whether the shapes and all elements are equal, as Python's bool."""
    x, y = lifted(a1, a2)
    if x.shape != y.shape:
        return False
    same = x.call("equal", y)
    if equal_nan:
        same = same.call("logical_or", x.call("isnan").call("logical_and", y.call("isnan")))
    return as_truth(strong(same).call("all"))


@implements("clip")
def clip(a: Tensor, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None, max: Any = None,
         dtype: Any = None) -> Tensor:
    """Limit the values to [a_min, a_max]; either may be None."""
    reject_options("clip", {"dtype": dtype}, "Cast with astype first.")
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
    elif _RANKS[dtypes.kind(source)] != _RANKS[dtypes.kind(target)]:  # a Python number has any dtype of its kind
        require_cast("copyto", source, "complex128" if dtypes.kind(target) == "complex" else target, casting)
    if where is not True:
        value = lifted(where, dst)[0].call("where", indexing.cast(value, dst), dst)
    dst[...] = value  # type: ignore[index]

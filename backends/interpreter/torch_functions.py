"""The op table in torch: one function for each operator, with NumPy's values where torch's differ.

Functions take torch tensors that already have the dtypes of the operator's loop, and the attributes. Weak scalars
are rank-0 tensors too: promotion is done before these are called.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import torch

from jitfuse.ir.operators import ops
from jitfuse.ir.rules import shape_rules
from jitfuse.tracing.record.foreign import host_array

Tensor = Any
_UNSIGNED = frozenset({torch.uint8, torch.uint16, torch.uint32, torch.uint64})
"""Torch stores these dtypes; it computes only with the first, and not with NumPy's results."""


def call(name: str, operands: Sequence[Tensor], attrs: dict[str, Any]) -> Tensor:
    """Compute an operator on operands of its loop's dtypes; by the reference where torch has no such loop.

    Complex arithmetic has NumPy's values, not torch's.
    """
    if any(x.dtype in _UNSIGNED for x in operands) or (name == "matmul" and operands[0].dtype == torch.bool):
        return _by_numpy(name, *operands, **attrs)
    if name not in _COMPLEX_IN_TORCH and any(x.is_complex() for x in operands):
        return _by_numpy(name, *operands, **attrs)
    return _FUNCTIONS[name](*operands, **attrs)


def is_native(name: str, dtype: Any) -> bool:
    """Return whether an operator on operands of one dtype is a function of torch's (`function_of`)."""
    if dtype in _UNSIGNED or (name == "matmul" and dtype == torch.bool):
        return False
    return name in NATIVE and (name in _COMPLEX_IN_TORCH or not dtype.is_complex)


def function_of(name: str) -> Callable[..., Tensor]:
    """Return the function of an operator over operands of its loop's dtypes."""
    return _FUNCTIONS[name]


def from_numpy(value: Any) -> Tensor:
    """Return a tensor over an array's memory; a copy where torch cannot share it."""
    array = np.asarray(value)
    if array.dtype.name == "bfloat16":  # torch does not read ml_dtypes
        return from_numpy(array.view(np.int16)).view(torch.bfloat16)
    shareable = array.flags.writeable and array.ndim > 0 and all(s >= 0 for s in array.strides)
    return torch.from_numpy(array if shareable else np.array(array, order="C"))


def by_reference(op: ops.Op, values: Sequence[Any], attrs: dict[str, Any], device: Any) -> Any:
    """Compute an operator by its NumPy reference; a Python scalar stays one."""
    arrays = [host_array(v) if isinstance(v, torch.Tensor) else v for v in values]
    with np.errstate(all="ignore"):
        result = op.numpy(*arrays, **attrs)
    return result if isinstance(result, bool | int | float | complex) and not isinstance(result, np.generic) else (
        from_numpy(result).to(device)
    )


def cast(x: Tensor, dtype: Any) -> Tensor:
    """Cast as NumPy on x86-64 does, out of range included."""
    if x.dtype == dtype:
        return x
    if x.is_complex() and not dtype.is_complex:
        return _complex_cast(x, dtype)
    if dtype.is_complex and x.dtype.itemsize == 2:
        x = x.to(torch.float32) if x.dtype.is_floating_point else x
    elif dtype != torch.bool and not dtype.is_complex and (
        x.dtype.is_floating_point != dtype.is_floating_point or dtype.itemsize == 2
    ):
        name = str(dtype).removeprefix("torch.")
        row = ops.get("astype")
        assert row is not None
        return by_reference(row, [x], {"dtype": name}, x.device)
    return x.to(dtype)


# ---------------------------------------------------------------- elementwise
def _float_only(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Return a function that leaves integers and bools as they are."""
    return lambda x: function(x) if x.dtype.is_floating_point else x.clone()


def _sign(x: Tensor) -> Tensor:
    return torch.where(torch.isnan(x), x, torch.sign(x))


def _abs(x: Tensor) -> Tensor:
    return x.clone() if x.dtype == torch.bool else torch.abs(x)


def _by_numpy(name: str, *operands: Tensor, **attrs: Any) -> Tensor:
    op = ops.get(name)
    assert op is not None
    return by_reference(op, operands, attrs, operands[0].device)


def _inexact_in_torch(name: str, a: Tensor, b: Tensor) -> Tensor:
    """Divide by the reference: torch's vectorised fmod gives NaN for huge quotients and loses signs of zero."""
    return _by_numpy(name, a, b)


def _harmless_divisor(b: Tensor) -> Tensor:
    """Return integer divisors with 1 in place of 0 and -1, which can trap."""
    return torch.where((b == 0) | (b == -1), torch.ones_like(b), b)


def _floor_divide(a: Tensor, b: Tensor) -> Tensor:
    if a.dtype.is_floating_point:
        return _inexact_in_torch("floor_divide", a, b)
    quotient = torch.floor_divide(a, _harmless_divisor(b))
    return torch.where(b == 0, torch.zeros_like(quotient), torch.where(b == -1, -a, quotient))


def _remainder(a: Tensor, b: Tensor) -> Tensor:
    if a.dtype.is_floating_point:
        return _inexact_in_torch("remainder", a, b)
    result = torch.remainder(a, _harmless_divisor(b))
    return torch.where((b == 0) | (b == -1), torch.zeros_like(result), result)


def _power(a: Tensor, b: Tensor) -> Tensor:
    if not a.dtype.is_floating_point and bool((b < 0).any()):
        raise ValueError("Integers to negative integer powers are not allowed.")
    return torch.pow(a, b)


def _referred(name: str) -> Callable[..., Tensor]:
    """Return an operator by its reference, because torch's results differ.

    Torch's own cancels, flushes denormals, adds in another order, or selects another one of equal elements.
    """
    op = ops.get(name)
    assert op is not None

    def function(*operands: Tensor, **attrs: Any) -> Tensor:
        with np.errstate(all="ignore"):
            return by_reference(op, operands, attrs, operands[0].device)

    return function


def _left_shift(a: Tensor, b: Tensor) -> Tensor:
    width = torch.iinfo(a.dtype).bits
    inside = (b >= 0) & (b < width)
    return torch.where(inside, torch.bitwise_left_shift(a, b.clamp(0, width - 1)), torch.zeros_like(a))


def _right_shift(a: Tensor, b: Tensor) -> Tensor:
    width = torch.iinfo(a.dtype).bits
    return torch.bitwise_right_shift(a, torch.where((b >= 0) & (b < width), b, width - 1))


def _astype(x: Tensor, *, dtype: str) -> Tensor:
    result = cast(x, getattr(torch, dtype))
    return result.clone() if result is x else result


# ---------------------------------------------------------------- reductions
def _reduction(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a reduction over normalised axes, without torch's special cases for no axes."""

    def reduce(x: Tensor, *, axis: Any, keepdims: bool) -> Tensor:
        axes = shape_rules.normalize_axes(name, axis, x.ndim)
        return function(x, axes, keepdims)

    return reduce


def _sum(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    dtype = x.dtype if x.dtype.is_floating_point else torch.int64
    return torch.sum(x, dim=axes, keepdim=keepdims, dtype=dtype) if axes else x.to(dtype, copy=True)


def _extremum(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def reduce(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
        if x.numel() == 0:  # the result is empty: the shape rule has rejected all other cases
            return x.new_empty(shape_rules.reduced_shape(tuple(x.shape), axes, keepdims))
        return function(x, dim=axes, keepdim=keepdims) if axes else x.clone()

    return reduce


def _truth(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def reduce(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
        truth = x != 0
        return function(truth, dim=axes, keepdim=keepdims) if axes else truth

    return reduce


# ---------------------------------------------------------------- views, joins, updates
def _region(starts: Sequence[int], steps: Sequence[int], counts: Sequence[int]) -> tuple[Any, list[int]]:
    """Return slices with positive steps for a region, and the axes to reverse."""
    slices, reverse = [], []
    for axis, (start, step, count) in enumerate(zip(starts, steps, counts, strict=True)):
        if count == 0:
            slices.append(slice(0, 0))
        elif step > 0:
            slices.append(slice(start, start + (count - 1) * step + 1, step))
        else:
            slices.append(slice(start + (count - 1) * step, start + 1, -step))
            reverse.append(axis)
    return tuple(slices), reverse


def _slice(x: Tensor, *, starts: Any, steps: Any, counts: Any) -> Tensor:
    slices, reverse = _region(starts, steps, counts)
    return torch.flip(x[slices], reverse) if reverse else x[slices]


def _windows(x: Tensor, *, sizes: Any, steps: Any, dilations: Any) -> Tensor:
    lead, strides = x.ndim - len(sizes), x.stride()
    counts = [max((n - d * (k - 1) - 1) // s + 1, 0)
              for n, k, s, d in zip(x.shape[lead:], sizes, steps, dilations, strict=True)]
    moved = [[a * b for a, b in zip(strides[lead:], by, strict=True)] for by in (dilations, steps)]
    return x.as_strided((*x.shape[:lead], *sizes, *counts), (*strides[:lead], *moved[0], *moved[1])).clone()


def _update_slice(x: Tensor, value: Tensor, *, starts: Any, steps: Any, counts: Any) -> Tensor:
    slices, reverse = _region(starts, steps, counts)
    result = x.clone()
    region = cast(value, x.dtype).expand(tuple(counts))
    result[slices] = torch.flip(region, reverse) if reverse else region
    return result


def _update_at(x: Tensor, value: Tensor, number: Tensor) -> Tensor:
    result = x.clone(memory_format=torch.contiguous_format)
    blocks = math.prod(x.shape[: x.ndim - value.ndim])
    result.view(blocks, *value.shape)[int(number)] = cast(value, x.dtype)
    return result


def _gather(x: Tensor, *indices: Tensor, axes: tuple[int, ...], place: int) -> Tensor:
    rest = [a for a in range(x.ndim) if a not in axes]
    found = x.permute((*axes, *rest))[tuple(i.long() for i in indices)]
    count = found.ndim - len(rest)
    return torch.movedim(found, tuple(range(count)), tuple(range(place, place + count)))


def _take_along_axis(x: Tensor, index: Tensor, *, axis: int) -> Tensor:
    extent = x.shape[axis]
    index = index.long()
    index = torch.where(index < 0, index + extent, index)
    if bool(((index < 0) | (index >= extent)).any()):
        raise IndexError(f"an index is out of bounds for axis {axis} with size {extent}")
    return torch.take_along_dim(x, index, axis)


def _complex_cast(x: Tensor, dtype: Any) -> Tensor:
    """Cast complex numbers: their real part to real dtypes, their truth to bool."""
    return x != 0 if dtype == torch.bool else cast(x.real, dtype)


_COMPLEX_IN_TORCH = frozenset({
    "real", "imag", "conj", "copy", "stop_gradient", "astype", "where", "equal", "not_equal", "isnan", "isinf",
    "isfinite",
    "negative", "positive", "reshape", "transpose", "broadcast_to", "concat", "slice", "update_slice", "any", "all",
})
"""Operators whose results for complex numbers are bitwise NumPy's in torch."""
_RENAMED = {
    "bitwise_invert": "bitwise_not", "logical_not": "logical_not", "equal": "eq", "not_equal": "ne",
    "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge",
}
_SAME = (
    "negative", "positive", "square", "sqrt", "exp", "log", "sin", "cos", "tanh", "erf", "expm1", "log1p",
    "exp2", "log2", "log10", "erfc",
    "isnan", "isinf", "isfinite", "add", "subtract", "multiply", "divide", "minimum", "maximum", "where",
    "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "matmul",
    "tan", "asin", "acos", "atan", "atan2", "rad2deg", "deg2rad", "sinh", "cosh", "asinh", "acosh", "atanh", "hypot",
)


class _Functions(dict[str, Callable[..., Tensor]]):
    """Functions by operator; operators that torch lacks, or computes with other values, use their reference."""

    def __missing__(self, name: str) -> Callable[..., Tensor]:
        function = self[name] = _referred(name)
        return function


_FUNCTIONS: Final = _Functions({
    **{name: getattr(torch, name) for name in _SAME},
    **{name: getattr(torch, torch_name) for name, torch_name in _RENAMED.items()},
    "abs": _abs, "copy": torch.clone,
    "stop_gradient": torch.clone, "sign": _sign, "floor": _float_only(torch.floor), "ceil": _float_only(torch.ceil),
    "trunc": _float_only(torch.trunc), "floor_divide": _floor_divide, "remainder": _remainder,
    "power": _power, "bitwise_left_shift": _left_shift, "bitwise_right_shift": _right_shift,
    "astype": _astype, "real": lambda x: x.real.clone() if x.is_complex() else x.clone(),
    "imag": lambda x: x.imag.clone() if x.is_complex() else torch.zeros_like(x),
    "conj": lambda x: x.conj().resolve_conj().clone(), "make_complex": torch.complex,
    "sum": _reduction("sum", _sum), "min": _reduction("min", _extremum(torch.amin)),
    "max": _reduction("max", _extremum(torch.amax)), "any": _reduction("any", _truth(torch.any)),
    "all": _reduction("all", _truth(torch.all)),
    "reshape": lambda x, *, shape: torch.reshape(x, shape),
    "transpose": lambda x, *, axes: torch.permute(x, axes),
    "broadcast_to": lambda x, *, shape: torch.broadcast_to(x, shape),
    "concat": lambda *xs, axis: torch.cat(xs, dim=axis),
    "gather": _gather, "take_along_axis": _take_along_axis,
    "diagonal": lambda x, *, offset: torch.diagonal(x, offset, -2, -1),
    "slice": _slice, "windows": _windows, "update_slice": _update_slice, "update_at": _update_at,
})
NATIVE = frozenset({*_SAME, *_RENAMED, "abs", "floor", "ceil", "trunc", "power"}) - {"where"}
"""Operators that are one torch function for each of their dtypes."""

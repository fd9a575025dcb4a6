"""Linear algebra over torch tensors: torch's functions where their results are NumPy's.

For float32 and float64 only. Decompositions with vectors of either sign, or with values in any order, are not here:
eager arrays use the same LAPACK as fused functions. Nor are cross products: torch rounds a difference of products once,
so that the cross product of x with itself is not 0. Importing this module imports torch.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch

Function = Callable[..., Any]
Tensor = Any
FLOATS: Final = frozenset({torch.float32, torch.float64})
_NORMS: Final = frozenset({"fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf})


def product(function: Function) -> Function:
    """Return a function of two tensors with the same floating dtype."""
    def apply(a: Tensor, b: Tensor, /) -> Any:
        return function(a, b) if a.dtype is b.dtype and a.dtype in FLOATS else NotImplemented

    return apply


# ---------------------------------------------------------------- products
def _vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Any:
    same = x1.dtype is x2.dtype and x1.dtype in FLOATS and x1.shape[axis] == x2.shape[axis]
    return torch.linalg.vecdot(x1, x2, dim=axis) if same else NotImplemented


def _tensordot(a: Tensor, b: Tensor, /, axes: Any = 2) -> Any:
    if a.dtype is not b.dtype or a.dtype not in FLOATS or type(axes) is not int or axes < 1:
        return NotImplemented
    if axes == 1 and a.ndim == b.ndim == 2:
        return torch.mm(a, b)
    agree = a.shape[a.ndim - axes :] == b.shape[:axes]  # torch broadcasts extents of 1
    return torch.tensordot(a, b, dims=axes) if agree and a.numel() and b.numel() else NotImplemented


# ---------------------------------------------------------------- matrices
def _pinv(x: Tensor, /, *, rtol: Any = None) -> Any:
    return torch.linalg.pinv(x) if rtol is None and x.dtype in FLOATS and x.numel() else NotImplemented


def _trace(x: Tensor, /, *, offset: int = 0) -> Any:
    return torch.trace(x) if not offset and x.dtype in FLOATS else NotImplemented


def _diagonal(x: Tensor, /, *, offset: int = 0) -> Any:
    return torch.diagonal_copy(x, offset, -2, -1) if x.numel() else NotImplemented


def _matrix_power(a: Tensor, n: Any) -> Any:
    plain = type(n) is int and n > 0 and a.dtype in FLOATS and a.numel()
    return torch.linalg.matrix_power(a, n) if plain else NotImplemented


def _matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    if x.dtype not in FLOATS or not x.numel() or ord not in _NORMS:
        return NotImplemented
    return torch.linalg.matrix_norm(x, ord, keepdim=keepdims)


def _vector_norm(x: Tensor, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    if x.dtype not in FLOATS or not x.numel() or axis == () or not (axis is None or x.ndim):
        return NotImplemented
    return torch.linalg.vector_norm(x, ord, axis, keepdims)


# ---------------------------------------------------------------- Fourier transforms
def _shift(function: Function) -> Function:
    def shift(x: Tensor, /, *, axes: Any = None) -> Any:
        return function(x, axes) if x.ndim and x.numel() else NotImplemented

    return shift


LINEAR: Final[dict[str, Function]] = {
    **dict.fromkeys(("matmul", "linalg.matmul"), product(torch.matmul)), "linalg.outer": product(torch.outer),
    **dict.fromkeys(("vecdot", "linalg.vecdot"), _vecdot),
    **dict.fromkeys(("tensordot", "linalg.tensordot"), _tensordot),
    "linalg.trace": _trace, "linalg.diagonal": _diagonal, "linalg.pinv": _pinv,
    "linalg.matrix_power": _matrix_power, "linalg.matrix_norm": _matrix_norm, "linalg.vector_norm": _vector_norm,
    **{f"fft.{name}": _shift(getattr(torch.fft, name)) for name in ("fftshift", "ifftshift")},
}
"""Implementations by name in the namespace."""

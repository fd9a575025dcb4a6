"""Fourier transforms over ndarrays: the ufuncs that NumPy's functions end in, with what these would give them.

What is rare (other lengths, other norms, other dtypes) is left to NumPy's functions. The ufuncs are private to NumPy:
where a version has none of these names, its functions carry out all.
"""
from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from jitfuse.arrays.direct_order import behind_dispatch
from jitfuse.errors import ArgumentError

Function = Callable[..., Any]
Array = np.ndarray[Any, Any]
_COMPLEX: Final = {"f": np.dtype("F"), "d": np.dtype("D"), "F": np.dtype("F"), "D": np.dtype("D")}
_FACTOR: Final[dict[str, Any]] = {"f": np.float32, "d": float, "F": np.float32, "D": float}
"""The type of a factor: one of Python's would have float32 computed in float64."""
_REAL: Final = {"f": np.dtype("f"), "d": np.dtype("d"), "F": np.dtype("f"), "D": np.dtype("d")}


def _ufuncs() -> Any:
    try:
        found = importlib.import_module("numpy.fft._pocketfft_umath")
    except ImportError:
        return None
    return found if all(hasattr(found, n) for n in ("fft", "ifft", "rfft_n_even", "rfft_n_odd", "irfft")) else None


_pocketfft: Final = _ufuncs()


def _carried_out(ufunc: Any, x: Array, axis: int, size: int, dtype: Any, factor: float) -> Array:
    shape = list(x.shape)
    shape[axis] = size
    made = np.empty(shape, dtype)
    if axis in (-1, x.ndim - 1):
        return ufunc(x, factor, made)  # type: ignore[no-any-return]
    return ufunc(x, factor, axes=[(axis,), (), (axis,)], out=made)  # type: ignore[no-any-return]


def _fft(x: Array, axis: int) -> Array:
    return _carried_out(_pocketfft.fft, x, axis, x.shape[axis], _COMPLEX[x.dtype.char], 1)


def _ifft(x: Array, axis: int) -> Array:
    size = x.shape[axis]
    return _carried_out(_pocketfft.ifft, x, axis, size, _COMPLEX[x.dtype.char], _FACTOR[x.dtype.char](1 / size))


def _rfft(x: Array, axis: int, factor: float = 1) -> Array:
    if x.dtype.kind == "c":
        raise ArgumentError("rfft takes real numbers")
    size = x.shape[axis]
    ufunc = _pocketfft.rfft_n_odd if size % 2 else _pocketfft.rfft_n_even
    return _carried_out(ufunc, x, axis, size // 2 + 1, _COMPLEX[x.dtype.char], factor)


def _irfft(x: Array, axis: int) -> Array:
    size = 2 * (x.shape[axis] - 1)
    return _carried_out(_pocketfft.irfft, x, axis, size, _REAL[x.dtype.char], _FACTOR[x.dtype.char](1 / size))


def _hfft(x: Array, axis: int) -> Array:
    size = 2 * (x.shape[axis] - 1)
    if not size:
        raise ArgumentError("hfft takes two points or more")
    return _carried_out(_pocketfft.irfft, np.conjugate(x), axis, size, _REAL[x.dtype.char], 1)


def _ihfft(x: Array, axis: int) -> Array:
    made = _rfft(x, axis, _FACTOR[x.dtype.char](1 / x.shape[axis]))
    return np.conjugate(made, made)


def _fftn(x: Array) -> Array:
    for axis in range(x.ndim - 1, -1, -1):
        x = _fft(x, axis)
    return x


def _ifftn(x: Array) -> Array:
    for axis in range(x.ndim - 1, -1, -1):
        x = _ifft(x, axis)
    return x


def _rfftn(x: Array) -> Array:
    x = _rfft(x, -1)
    for axis in range(x.ndim - 2, -1, -1):
        x = _fft(x, axis)
    return x


def _irfftn(x: Array) -> Array:
    for axis in range(x.ndim - 1):
        x = _ifft(x, axis)
    return _irfft(x, -1)


def _is_plain(x: Array) -> bool:
    """Return whether the factors of NumPy's functions are those here: float32 has no larger whole numbers."""
    return x.dtype.char in _COMPLEX and x.size <= 1 << 24 and _pocketfft is not None


def _undecided(x: Array) -> bool:
    """Return whether NumPy's dtypes are not those of the function, or there is nothing but what memory held."""
    return x.dtype.char == "e" or not x.size or not x.ndim


def _along_one(name: str, plain: Function) -> Function:
    library = behind_dispatch(getattr(np.fft, name))

    def transform(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
        if _undecided(x):
            return NotImplemented
        if n is None and norm == "backward" and _is_plain(x):
            return plain(x, axis)
        return library(x, n, axis, norm)

    return transform


def _along_several(name: str, plain: Function) -> Function:
    library = behind_dispatch(getattr(np.fft, name))

    def transform(x: Array, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Any:
        if _undecided(x):
            return NotImplemented
        if s is axes is None and norm == "backward" and _is_plain(x):
            return plain(x)
        return library(x, s, axes, norm)

    return transform


def _shift(name: str) -> Function:
    library = behind_dispatch(getattr(np.fft, name))

    def shift(x: Array, /, *, axes: Any = None) -> Any:
        return NotImplemented if _undecided(x) else library(x, axes)

    return shift


_ONE: Final = {"fft": _fft, "ifft": _ifft, "rfft": _rfft, "irfft": _irfft, "hfft": _hfft, "ihfft": _ihfft}
_SEVERAL: Final = {"fftn": _fftn, "ifftn": _ifftn, "rfftn": _rfftn, "irfftn": _irfftn}
TRANSFORMS: Final[dict[str, Function]] = {
    **{f"fft.{name}": _along_one(name, plain) for name, plain in _ONE.items()},
    **{f"fft.{name}": _along_several(name, plain) for name, plain in _SEVERAL.items()},
    **{f"fft.{name}": _shift(name) for name in ("fftshift", "ifftshift")},
}
"""By the names of the namespace."""

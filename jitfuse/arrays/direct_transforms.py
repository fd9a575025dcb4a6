"""Fourier transforms over ndarrays: the ufuncs that NumPy's functions end in, with what these would give them.

What is rare (other lengths, other norms, other dtypes) is left to NumPy's functions. The ufuncs are private to NumPy:
where a version has none of these names, its functions carry out all.
"""
from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from jitfuse.arrays.direct_order import behind_dispatch
from jitfuse.errors import ArgumentError

Function = Callable[..., Any]
Array = np.ndarray[Any, Any]
_COMPLEX: Final[dict[str, Any]] = {"f": np.dtype("F"), "d": np.dtype("D"), "F": np.dtype("F"), "D": np.dtype("D")}
_FACTOR: Final[dict[str, Any]] = {"f": np.float32, "d": np.float64, "F": np.float32, "D": np.float64}
_ONE: Final = np.array(1.0)
"""NumPy's factor where it scales nothing is Python's 1, with which float32 is computed in float64; 1 / n is float32."""
_REAL: Final = {"f": np.dtype("f"), "d": np.dtype("d"), "F": np.dtype("f"), "D": np.dtype("d")}


def _ufuncs() -> Any:
    try:
        found = importlib.import_module("numpy.fft._pocketfft_umath")
    except ImportError:
        return None
    return found if all(hasattr(found, n) for n in ("fft", "ifft", "rfft_n_even", "rfft_n_odd", "irfft")) else None


_pocketfft: Final = _ufuncs()
_PLAIN: Final = frozenset(_COMPLEX if _pocketfft is not None else ())
"""The codes of dtypes that the ufuncs transform."""


@functools.lru_cache(256)
def _over(size: int, code: str) -> Array:
    """Return 1 / size as the ufuncs take it at once."""
    return np.array(1 / size, _FACTOR[code])


def _carried_out(ufunc: Any, x: Array, axis: int, size: int, dtype: Any, factor: Array) -> Array:
    if axis in (-1, x.ndim - 1):
        return ufunc(x, factor, np.empty((*x.shape[:-1], size), dtype))  # type: ignore[no-any-return]
    shape = list(x.shape)
    shape[axis] = size
    made = np.empty(shape, dtype)
    ufunc(x.swapaxes(axis, -1), factor, made.swapaxes(axis, -1))
    return made


def _fft(x: Array, axis: int, code: str) -> Array:
    return _carried_out(_pocketfft.fft, x, axis, x.shape[axis], _COMPLEX[code], _ONE)


def _ifft(x: Array, axis: int, code: str) -> Array:
    size = x.shape[axis]
    return _carried_out(_pocketfft.ifft, x, axis, size, _COMPLEX[code], _over(size, code))


def _rfft(x: Array, axis: int, code: str, factor: Array = _ONE) -> Array:
    if code in "FD":
        raise ArgumentError("rfft takes real numbers")
    size = x.shape[axis]
    ufunc = _pocketfft.rfft_n_odd if size % 2 else _pocketfft.rfft_n_even
    return _carried_out(ufunc, x, axis, size // 2 + 1, _COMPLEX[code], factor)


def _irfft(x: Array, axis: int, code: str) -> Array:
    size = 2 * (x.shape[axis] - 1)
    return _carried_out(_pocketfft.irfft, x, axis, size, _REAL[code], _over(size, code))


def _hfft(x: Array, axis: int, code: str) -> Array:
    size = 2 * (x.shape[axis] - 1)
    if not size:
        raise ArgumentError("hfft takes two points or more")
    return _carried_out(_pocketfft.irfft, np.conjugate(x), axis, size, _REAL[code], _ONE)


def _ihfft(x: Array, axis: int, code: str) -> Array:
    made = _rfft(x, axis, code, _over(x.shape[axis], code))
    return np.conjugate(made, made)


def _fftn(x: Array, code: str) -> Array:
    for axis in range(x.ndim - 1, -1, -1):
        x, code = _fft(x, axis, code), _COMPLEX[code].char
    return x


def _ifftn(x: Array, code: str) -> Array:
    for axis in range(x.ndim - 1, -1, -1):
        x, code = _ifft(x, axis, code), _COMPLEX[code].char
    return x


def _rfftn(x: Array, code: str) -> Array:
    x = _rfft(x, -1, code)
    code = x.dtype.char
    for axis in range(x.ndim - 2, -1, -1):
        x = _fft(x, axis, code)
    return x


def _irfftn(x: Array, code: str) -> Array:
    for axis in range(x.ndim - 1):
        x, code = _ifft(x, axis, code), _COMPLEX[code].char
    return _irfft(x, -1, code)


_LARGEST: Final = 1 << 24
"""The factors of NumPy's functions are those here up to this size: float32 has no larger whole numbers."""


def _undecided(x: Array) -> bool:
    """Return whether NumPy's dtypes are not those of the function, or there is nothing but what memory held."""
    return x.dtype.char == "e" or not x.size or not x.ndim


def _along_one(name: str, plain: Function) -> Function:
    library = behind_dispatch(getattr(np.fft, name))

    def transform(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
        code = x.dtype.char
        if n is None and norm == "backward" and code in _PLAIN and 0 < x.size <= _LARGEST and x.ndim:
            return plain(x, axis, code)
        return NotImplemented if _undecided(x) else library(x, n, axis, norm)

    return transform


def _along_several(name: str, plain: Function) -> Function:
    library = behind_dispatch(getattr(np.fft, name))

    def transform(x: Array, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Any:
        code = x.dtype.char
        if s is axes is None and norm == "backward" and code in _PLAIN and 0 < x.size <= _LARGEST and x.ndim:
            return plain(x, code)
        return NotImplemented if _undecided(x) else library(x, s, axes, norm)

    return transform


def _shift(name: str) -> Function:
    library = behind_dispatch(getattr(np.fft, name))

    def shift(x: Array, /, *, axes: Any = None) -> Any:
        return NotImplemented if _undecided(x) else library(x, axes)

    return shift


_SINGLE: Final = {"fft": _fft, "ifft": _ifft, "rfft": _rfft, "irfft": _irfft, "hfft": _hfft, "ihfft": _ihfft}
_SEVERAL: Final = {"fftn": _fftn, "ifftn": _ifftn, "rfftn": _rfftn, "irfftn": _irfftn}
TRANSFORMS: Final[dict[str, Function]] = {
    **{f"fft.{name}": _along_one(name, plain) for name, plain in _SINGLE.items()},
    **{f"fft.{name}": _along_several(name, plain) for name, plain in _SEVERAL.items()},
    **{f"fft.{name}": _shift(name) for name in ("fftshift", "ifftshift")},
}
"""By the names of the namespace."""

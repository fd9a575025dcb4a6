"""Fourier transforms over ndarrays: calls of the ufuncs inside NumPy's functions, with the same results.

Rare cases (other lengths, other norms, other dtypes) are left to NumPy's functions. The ufuncs are private to NumPy:
where a version lacks these names, NumPy's functions are used throughout.
"""
from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable
from itertools import chain, pairwise
from typing import Any, Final

import numpy as np

from jitfuse.arrays.direct_order import undispatched
from jitfuse.errors import ArgumentError

Function = Callable[..., Any]
Array = np.ndarray[Any, Any]
_COMPLEX: Final[dict[str, Any]] = {"f": np.dtype("F"), "d": np.dtype("D"), "F": np.dtype("F"), "D": np.dtype("D")}
_FACTOR: Final[dict[str, Any]] = {"f": np.float32, "d": np.float64, "F": np.float32, "D": np.float64}
_ONE: Final = np.array(1.0)
"""NumPy's factor without scaling is Python's 1, with which float32 is computed in float64; 1 / n is float32."""
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


_empty: Final = np.empty


@functools.lru_cache(256)
def _over(size: int, code: str) -> Array:
    """Return 1 / size as an array, so that the ufuncs need no conversion."""
    return np.array(1 / size, _FACTOR[code])


Step = tuple[Any, Array, tuple[int, ...], Any, Any]
"""A ufunc, its factor, the shape and dtype of its output, and its axes (None for the last ones).

Without a dtype it writes into its input.
"""
_LARGEST: Final = 1 << 24
"""Up to this size the factors here are those of NumPy's functions: float32 has no larger whole numbers."""


def _step(ufunc: Any, factor: Array, shape: tuple[int, ...], axis: int, size: int, dtype: Any) -> Step:
    axis %= len(shape)
    last = axis == len(shape) - 1
    return ufunc, factor, (*shape[:axis], size, *shape[axis + 1 :]), dtype, None if last else [(axis,), (), (axis,)]


def _fft(shape: tuple[int, ...], axis: int, code: str) -> list[Step]:
    return [_step(_pocketfft.fft, _ONE, shape, axis, shape[axis], _COMPLEX[code])]


def _ifft(shape: tuple[int, ...], axis: int, code: str) -> list[Step]:
    size = shape[axis]
    return [_step(_pocketfft.ifft, _over(size, code), shape, axis, size, _COMPLEX[code])]


def _rfft(shape: tuple[int, ...], axis: int, code: str, factor: Array = _ONE) -> list[Step]:
    if code in "FD":
        raise ArgumentError("rfft takes real numbers")
    size = shape[axis]
    ufunc = _pocketfft.rfft_n_odd if size % 2 else _pocketfft.rfft_n_even
    return [_step(ufunc, factor, shape, axis, size // 2 + 1, _COMPLEX[code])]


def _irfft(shape: tuple[int, ...], axis: int, code: str) -> list[Step]:
    size = 2 * (shape[axis] - 1)
    return [_step(_pocketfft.irfft, _over(size, code), shape, axis, size, _REAL[code])]


def _hfft(shape: tuple[int, ...], axis: int, code: str) -> list[Step]:
    size = 2 * (shape[axis] - 1)
    if not size:
        raise ArgumentError("hfft takes two points or more")
    return [_step(_pocketfft.irfft, _ONE, shape, axis, size, _REAL[code])]


def _ihfft(shape: tuple[int, ...], axis: int, code: str) -> list[Step]:
    return _rfft(shape, axis, code, _over(shape[axis], code))


def _all_in_one(steps: list[Step]) -> list[Step]:
    """Return steps that write into the output of the step before, where it fits."""
    return [steps[0], *(step if step[2:4] != before[2:4] else (*step[:3], None, step[4])
                        for before, step in pairwise(steps))]


def _fftn(shape: tuple[int, ...], code: str) -> list[Step]:
    return _all_in_one([step for axis in reversed(range(len(shape))) for step in _fft(shape, axis, code)])


def _ifftn(shape: tuple[int, ...], code: str) -> list[Step]:
    return _all_in_one([step for axis in reversed(range(len(shape))) for step in _ifft(shape, axis, code)])


def _rfftn(shape: tuple[int, ...], code: str) -> list[Step]:
    (first,) = _rfft(shape, -1, code)
    others = (_fft(first[2], axis, code) for axis in reversed(range(len(shape) - 1)))
    return _all_in_one([first, *chain.from_iterable(others)])


def _irfftn(shape: tuple[int, ...], code: str) -> list[Step]:
    others = (_ifft(shape, axis, code) for axis in range(len(shape) - 1))
    return _all_in_one([*chain.from_iterable(others), *_irfft(shape, -1, code)])


def _planned(plain: Function) -> Function:
    """Return a cached function from (shape, dtype code, axis) to steps; None where the ufuncs do not apply."""
    @functools.lru_cache(512, typed=True)
    def plan(shape: tuple[int, ...], code: str, *axis: int) -> list[Step] | None:
        return plain(shape, *axis, code) if code in _PLAIN and 0 < math.prod(shape) <= _LARGEST and shape else None

    return plan


def _undecided(x: Array) -> bool:
    """Return whether NumPy's dtypes differ from the function's (float16), or the result would be uninitialised."""
    return x.dtype.char == "e" or not x.size or not x.ndim


def _along_one(name: str, plain: Function, before: Function | None = None, after: Function | None = None) -> Function:
    library, plan = undispatched(getattr(np.fft, name)), _planned(plain)

    def transform(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
        if n is None and norm == "backward":
            steps = plan(x.shape, x.dtype.char, axis)
            if steps is not None:
                ufunc, factor, shape, dtype, along = steps[0]
                made, x = _empty(shape, dtype), x if before is None else before(x)
                made = ufunc(x, factor, made) if along is None else ufunc(x, factor, made, axes=along)
                return made if after is None else after(made)
        return NotImplemented if _undecided(x) else library(x, n, axis, norm)

    return transform


def _along_several(name: str, plain: Function) -> Function:
    library, plan = undispatched(getattr(np.fft, name)), _planned(plain)

    def transform(x: Array, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Any:
        if s is axes is None and norm == "backward":
            steps = plan(x.shape, x.dtype.char)
            if steps is not None:
                made = None
                for ufunc, factor, shape, dtype, along in steps:
                    if dtype is not None:
                        made = _empty(shape, dtype)
                    x = ufunc(x, factor, made) if along is None else ufunc(x, factor, made, axes=along)
                return x
        return NotImplemented if _undecided(x) else library(x, s, axes, norm)

    return transform


def _shift(name: str) -> Function:
    library = undispatched(getattr(np.fft, name))

    def shift(x: Array, /, *, axes: Any = None) -> Any:
        return NotImplemented if _undecided(x) else library(x, axes)

    return shift


def _conjugate_itself(x: Array) -> Any:
    return np.conjugate(x, x)


TRANSFORMS: Final[dict[str, Function]] = {
    **{f"fft.{name}": _along_one(name, plain) for name, plain in (
        ("fft", _fft), ("ifft", _ifft), ("rfft", _rfft), ("irfft", _irfft))},
    "fft.hfft": _along_one("hfft", _hfft, before=np.conjugate),
    "fft.ihfft": _along_one("ihfft", _ihfft, after=_conjugate_itself),
    **{f"fft.{name}": _along_several(name, plain) for name, plain in (
        ("fftn", _fftn), ("ifftn", _ifftn), ("rfftn", _rfftn), ("irfftn", _irfftn))},
    **{f"fft.{name}": _shift(name) for name in ("fftshift", "ifftshift")},
}
"""Implementations by name in the namespace."""

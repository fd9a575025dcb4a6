"""Replacements in user code of NumPy's functions that make arrays from plain numbers: windows, grids, frequencies.

NumPy computes them while tracing; the values of their arguments become guards. The results are constants of the program
that may be written into. Indices of triangles and diagonals stay NumPy arrays, so that indexing by them needs no bounds
check. Owns the list of these functions.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from jitfuse.dtypes import numpy_dtype
from jitfuse.errors import UnsupportedError
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.record.dtype_name import DTypeName
from jitfuse.tracing.record.recorder import active
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.lifting import lift
from jitfuse.tracing.tensor.traced import TracedTensor, plain

_ARRAYS: Final = ("bartlett", "blackman", "hamming", "hanning", "kaiser", "tri", "geomspace")
_INDEX_FUNCTIONS: Final = ("tril_indices", "triu_indices", "diag_indices", "mask_indices", "broadcast_shapes")


def replacements(with_frequencies: bool) -> Iterator[tuple[Any, Callable[..., Any]]]:
    """Yield (NumPy's function, its replacement); those of np.fft once it is imported."""
    for name in _ARRAYS:
        yield getattr(np, name), _computed(getattr(np, name))
    for name in _INDEX_FUNCTIONS:
        yield getattr(np, name), _plain(getattr(np, name))
    yield np.indices, indices
    yield np.vectorize, vectorize
    yield np.logspace, logspace
    yield np.fromfunction, fromfunction
    if with_frequencies:
        for name in ("fftfreq", "rfftfreq"):
            yield getattr(np.fft, name), _frequencies(getattr(np.fft, name))


def _known(value: Any) -> Any:
    """Return a value with traced numbers replaced by their values, which become guards."""
    if type(value) is TracedTensor:
        return plain(value)
    if isinstance(value, list | tuple):
        return type(value)(map(_known, value))
    return numpy_dtype(str(value)) if type(value) is DTypeName else value


def _call(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    return function(*map(_known, args), **{k: _known(v) for k, v in kwargs.items()})


def _computed(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        run = active()
        made = _call(function, args, kwargs)
        return made if run is None else lift(run, made)

    call.__name__ = function.__name__
    return call


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return _call(function, args, kwargs)

    call.__name__ = function.__name__
    return call


def _frequencies(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return fftfreq or rfftfreq with a spacing that may be traced: the frequencies for spacing 1, divided by it."""
    def call(n: Any, d: Any = 1.0, device: Any = None) -> Any:
        run = active()
        count = _known(n)
        if run is None or not isinstance(d, AbstractTensor):
            made = function(count, d)
            return made if run is None else lift(run, made)
        whole = lift(run, np.rint(function(count, 1.0 / count)))  # the same numbers without the spacing
        return whole * (1.0 / (count * d))

    call.__name__ = function.__name__
    return call


def vectorize(*args: Any, **kwargs: Any) -> Any:
    """Reject np.vectorize, which calls Python for each element."""
    raise UnsupportedError(f"np.vectorize calls a function for each element, at {user_line()}. Call the function on "
                           "the arrays, with np.where in place of if.")


def indices(dimensions: Any, dtype: Any = int, sparse: bool = False) -> Any:
    """Return the indices along each axis of a grid: arrays of the whole shape, or open ones with `sparse`."""
    from jitfuse.tracing.numpy_like.creation import arange

    shape = tuple(_known(n) for n in dimensions)
    rank = len(shape)
    lines = [arange(n, dtype=dtype).reshape((1,) * k + (n,) + (1,) * (rank - k - 1)) for k, n in enumerate(shape)]
    if sparse:
        return tuple(lines)
    if not lines:
        run = active()
        assert run is not None
        return lift(run, np.indices((), dtype))
    whole = [line.call("broadcast_to", shape=shape).reshape((1, *shape)) for line in lines]
    return whole[0].call("concat", *whole[1:], axis=0) if rank > 1 else whole[0].as_copy()


def logspace(start: Any, stop: Any, num: Any = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None,
             axis: int = 0) -> Any:
    """Return numbers evenly spaced on a logarithmic scale, from base**start to base**stop."""
    from jitfuse.tracing.numpy_like.creation import linspace

    exponents = linspace(start, stop, num, endpoint, axis=axis)
    powers = base ** exponents
    return powers if dtype is None else powers.astype(dtype, copy=False)


def fromfunction(function: Callable[..., Any], shape: Any, *, dtype: Any = float, like: Any = None,
                 **kwargs: Any) -> Any:
    """Call a function with the indices along each axis."""
    return function(*indices(shape, dtype), **kwargs)

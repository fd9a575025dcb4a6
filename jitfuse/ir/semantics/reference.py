"""The meaning of each operator in NumPy: the reference that every backend is compared with.

Functions take arrays (weak operands as Python scalars, so that NumPy's own promotion applies) and the operator's
attributes. Speed does not matter here.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from jitfuse.dtypes import is_narrow, numpy_dtype
from jitfuse.ir import statuses
from jitfuse.ir.semantics.reference_functions import FUNCTIONS

Array = Any

_UFUNC_NAMES = {
    "abs": "absolute", "bitwise_invert": "invert", "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift",
}


def ufunc(name: str) -> Callable[..., Any]:
    """Return the reference of an elementwise operator: a function of jitfuse, else NumPy's of this name."""
    special: dict[str, Callable[..., Any]] = {
        **FUNCTIONS, "clip": clip, "where": np.where, "copy": copy, "stop_gradient": copy}
    function: Callable[..., Any] | None = special.get(name) or getattr(np, _UFUNC_NAMES.get(name, name), None)
    if function is None:
        raise LookupError(f"operator {name} has no reference: NumPy has no function of this name; add one to "
                          "jitfuse.ir.semantics.reference_functions")
    return function


def _reject_complex(name: str, x: Array) -> None:
    if x.dtype.kind == "c":
        raise TypeError(f"{name} does not take complex numbers")


def clip(x: Array, low: Array, high: Array) -> Array:
    """Limit by minimum and maximum in the common dtype, in which Python scalars are weak."""
    like = [np.zeros(0, v.dtype) if isinstance(v, np.ndarray | np.generic) else type(v)(1) for v in (x, low, high)]
    common = np.asarray(np._core.umath.clip(*like)).dtype  # type: ignore[attr-defined]
    return np.minimum(np.maximum(np.asarray(x, common), low), high)


def real(x: Array) -> Array:
    """Return the real part, in memory of its own."""
    return copy(np.real(x))


def imag(x: Array) -> Array:
    """Return the imaginary part, in memory of its own."""
    return copy(np.imag(x))


def angle(x: Array) -> Array:
    """Return the angle in radians."""
    return np.angle(x)


def make_complex(real: Array, imag: Array) -> Array:
    """Make complex numbers from two parts, bit by bit."""
    parts = np.broadcast_arrays(real, imag)
    given = [type(v) if type(v) in (int, float) else np.asarray(v).dtype for v in (real, imag)]
    dtype = np.arctan2.resolve_dtypes((*given, None))[-1]  # rejects complex numbers
    if dtype.name not in ("float32", "float64"):
        raise TypeError(f"make_complex does not take {dtype}")
    result = np.empty(parts[0].shape, "complex64" if dtype == np.float32 else "complex128")
    result.real, result.imag = parts
    return result[()]


def copy(x: Array) -> Array:
    """Return the same elements in memory of their own."""
    return np.array(x)[()]


def require(x: Array, ok: Array, *, status: int = statuses.REQUIREMENT) -> Array:
    """Return x broadcast to the common shape; raise ValueError if the condition is false anywhere."""
    if not np.all(ok):
        raise statuses.error_of(status)
    x = np.asarray(x)
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, np.shape(ok))).copy()[()]


def python_number(x: Array) -> Any:
    """Return a number as Python's own."""
    return np.asarray(x).item()


def astype(x: Array, *, dtype: str) -> Array:
    """Cast as x86-64 does."""
    x = np.asarray(x)
    target = numpy_dtype(dtype)
    if x.dtype.kind == "c" and target.kind not in "cb":
        x = x.real  # NumPy warns here
    if x.dtype.kind in "biu" and dtype != "float16":  # nothing to warn about, and errstate is slow
        return x.astype(target)[()]
    with np.errstate(all="ignore"):
        if dtype == "uint32":  # NumPy has two answers out of range, and this one for elements that are not adjacent
            x = np.repeat(x[..., None], 2, axis=-1)[..., 0]
        return x.astype(target)[()]


def rounded_once(function: Callable[..., Array]) -> Callable[..., Array]:
    """Return the function that computes 16-bit floats in float32 throughout."""

    def reference(x: Array, **attrs: Any) -> Array:
        x = np.asarray(x)
        if not is_narrow(x.dtype.name):
            return function(x, **attrs)
        with np.errstate(all="ignore"):
            result = function(x.astype("float32"), **attrs)
            return result.astype(x.dtype) if result.dtype == np.float32 else result

    return reference


def sum(x: Array, *, axis: Any, keepdims: bool) -> Array:
    """Sum the elements."""
    return np.sum(x, axis=axis, keepdims=keepdims)


def min(x: Array, *, axis: Any, keepdims: bool) -> Array:
    """Return the smallest element; NaN if there is one."""
    return np.min(x, axis=axis, keepdims=keepdims)


def max(x: Array, *, axis: Any, keepdims: bool) -> Array:
    """Return the largest element; NaN if there is one."""
    return np.max(x, axis=axis, keepdims=keepdims)


def any(x: Array, *, axis: Any, keepdims: bool) -> Array:
    """Return whether some element is true."""
    return np.any(x, axis=axis, keepdims=keepdims)


def all(x: Array, *, axis: Any, keepdims: bool) -> Array:
    """Return whether every element is true."""
    return np.all(x, axis=axis, keepdims=keepdims)


def _as_float(x: Array) -> Array:
    return np.asarray(x, "float64" if np.asarray(x).dtype.kind in "biu" else None)


def _reduced(x: Array, axis: Any) -> int:
    """Return how many elements each result reduces."""
    shape = np.shape(x)
    axes = range(len(shape)) if axis is None else normalize_axis_tuple(axis, len(shape))
    return math.prod(shape[a] for a in axes)


def mean(x: Array, *, axis: Any, keepdims: bool) -> Array:
    """Return the arithmetic mean; NaN for no elements, without NumPy's warning."""
    if _reduced(x, axis):
        return np.mean(x, axis=axis, keepdims=keepdims)
    return np.sum(_as_float(x), axis=axis, keepdims=keepdims) * math.nan


def var(x: Array, *, axis: Any, keepdims: bool, correction: float) -> Array:
    """Return the variance with divisor n - correction; at 0 and below the divisor is 0, without NumPy's warning."""
    if _reduced(x, axis) > correction:
        return np.var(x, axis=axis, keepdims=keepdims, ddof=correction)
    centred = _as_float(x) - mean(x, axis=axis, keepdims=True)
    squares = (centred * np.conj(centred)).real
    with np.errstate(all="ignore"):
        return np.sum(squares, axis=axis, keepdims=keepdims) / squares.dtype.type(0)


def softmax(x: Array, *, axis: Any) -> Array:
    """Return exp(x - max) / sum."""
    _reject_complex("softmax", np.asarray(x))
    x = _as_float(x)
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


def reshape(x: Array, *, shape: tuple[int, ...]) -> Array:
    """Return the elements in row-major order under another shape."""
    return np.reshape(x, shape)


def transpose(x: Array, *, axes: tuple[int, ...]) -> Array:
    """Permute the axes."""
    return np.transpose(x, axes)


def broadcast_to(x: Array, *, shape: tuple[int, ...]) -> Array:
    """Repeat along axes of extent 1 and new leading axes."""
    return np.broadcast_to(x, shape)


def _region(starts: Any, steps: Any, counts: Any) -> tuple[slice, ...]:
    result = []
    for start, step, count in zip(starts, steps, counts, strict=True):
        stop: int | None = start + count * step
        if stop is not None and stop < 0:
            stop = None
        result.append(slice(start, stop, step) if count else slice(0, 0))
    return tuple(result)


def slice_(x: Array, *, starts: Any, steps: Any, counts: Any) -> Array:
    """Return a strided region."""
    return np.asarray(x)[_region(starts, steps, counts)]


def windows(x: Array, *, sizes: Any, steps: Any, dilations: Any) -> Array:
    """Return windows over the last axes: (..., positions in a window, windows)."""
    x, rank = np.asarray(x), len(sizes)
    reach = tuple(d * (k - 1) + 1 for k, d in zip(sizes, dilations, strict=True))
    lead = x.ndim - rank
    counts = [(n - r) // s + 1 if n >= r else 0 for n, r, s in zip(x.shape[lead:], reach, steps, strict=True)]
    if 0 in counts:
        return np.zeros((*x.shape[:lead], *sizes, *counts), x.dtype)
    whole = np.lib.stride_tricks.sliding_window_view(x, reach, tuple(range(lead, x.ndim)))
    parts = (*(slice(None),) * lead, *(slice(None, None, s) for s in steps), *(slice(None, None, d) for d in dilations))
    return np.moveaxis(whole[parts], tuple(range(lead, lead + rank)), tuple(range(lead + rank, lead + 2 * rank)))


def concat(*xs: Array, axis: int) -> Array:
    """Join along an axis."""
    return np.concatenate(xs, axis=axis)


def update_slice(x: Array, value: Array, *, starts: Any, steps: Any, counts: Any) -> Array:
    """Return a copy with a region replaced."""
    result = np.array(x)
    with np.errstate(all="ignore"):
        result[_region(starts, steps, counts)] = astype(value, dtype=result.dtype.name)
    return result


def update_at(x: Array, value: Array, number: Array) -> Array:
    """Return a copy with one block of the last axes replaced; for a scalar value, that is one element."""
    result = np.array(x)
    blocks = math.prod(result.shape[: result.ndim - value.ndim])
    with np.errstate(all="ignore"):
        result.reshape((blocks, *value.shape))[int(number)] = astype(value, dtype=result.dtype.name)
    return result


def matmul(a: Array, b: Array) -> Array:
    """Return the matrix product over the last two axes."""
    return np.matmul(a, b)


def zeros(*, shape: tuple[int, ...], dtype: str) -> Array:
    """Return zeros."""
    return np.zeros(shape, numpy_dtype(dtype))


def full(*, shape: tuple[int, ...], value: Any, dtype: str, weak: bool) -> Array:
    """Return a constant array, a NumPy scalar for rank 0, the Python scalar itself where weak."""
    return value if weak else np.full(shape, value, numpy_dtype(dtype))[()]


def extent(*, value: Any, dtype: str, weak: bool) -> Array:
    """Return a number derived from shapes."""
    return full(shape=(), value=value, dtype=dtype, weak=weak)


def arange(*, start: Any, step: Any, count: int, dtype: str) -> Array:
    """Return start, start + step, ... as NumPy fills them: start + i * delta, delta = (start + step) - start."""
    target = numpy_dtype(dtype)
    wide = np.dtype("float32") if dtype in ("float16", "bfloat16") else target
    ends = [np.asarray(v, float) if abs(v) >= 1 << 63 and wide is not target else np.asarray(v)
            for v in (start, start + step)]  # bfloat16 takes no Python integer beyond 64 bits
    first, second = (v.astype(target).astype(wide) for v in ends)
    with np.errstate(over="ignore"):
        return (first + np.arange(count).astype(wide) * (second - first)).astype(target)


def constant(*, shape: tuple[int, ...], dtype: str, data: bytes) -> Array:
    """Return literal data."""
    target = numpy_dtype(dtype)
    return np.frombuffer(data, target.newbyteorder("<")).astype(target).reshape(shape)


_PHILOX_M = (0xD2511F53, 0xCD9E8D57)
_PHILOX_W = (0x9E3779B9, 0xBB67AE85)
_MASK = np.uint64(0xFFFFFFFF)


def philox(seed: int, counter: int, index: int, n: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Return uint64[n, 4]: the 32-bit words of Philox-4x32-10 (Salmon et al. 2011) for elements 0..n-1.

    Key: the two halves of seed. Counter words: element (low, high), call counter, call index.
    """
    element = np.arange(n, dtype=np.uint64)
    c = [element & _MASK, element >> np.uint64(32), np.full(n, counter & 0xFFFFFFFF, np.uint64),
         np.full(n, index & 0xFFFFFFFF, np.uint64)]
    k = [seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF]
    for _ in range(10):
        p0, p1 = c[0] * np.uint64(_PHILOX_M[0]), c[2] * np.uint64(_PHILOX_M[1])
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k[0]), p1 & _MASK,
             (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k[1]), p0 & _MASK]
        k = [(k[0] + _PHILOX_W[0]) & 0xFFFFFFFF, (k[1] + _PHILOX_W[1]) & 0xFFFFFFFF]
    return np.stack(c, axis=1)


def random_uniform(state: Array, index: Array, *, shape: tuple[int, ...], dtype: str) -> Array:
    """Return numbers in [0, 1): 24 bits of word 0 for float32, 53 bits of words 0 and 1 for float64."""
    if dtype not in ("float32", "float64"):
        raise TypeError(f"there are no random numbers of dtype {dtype}")
    words = philox(int(state[0]), int(state[1]), int(index), math.prod(shape))
    if dtype == "float32":
        low = (words[:, 0] >> np.uint64(8)).astype("float32") * np.float32(2.0**-24)
        return low.reshape(shape)[()]
    bits = ((words[:, 0] << np.uint64(32)) | words[:, 1]) >> np.uint64(11)
    return (bits.astype("float64") * 2.0**-53).reshape(shape)[()]


def random_advance(state: Array) -> Array:
    """Return the state with its counter advanced by one."""
    return np.array([state[0], state[1] + 1], "int64")


def dropout(x: Array, state: Array, index: Array, *, p: float, training: bool) -> Array:
    """In training, zero with probability p and scale the rest."""
    if not 0.0 <= p < 1.0:
        raise ValueError(f"the probability {p} is not in [0, 1)")
    if not training or p == 0.0:
        return x
    drawn = "float64" if np.asarray(x).dtype.name == "float64" else "float32"
    keep = random_uniform(state, index, shape=np.shape(x), dtype=drawn) >= p
    zero = np.asarray(x).dtype.type(0)
    return np.where(keep, x * (zero + np.asarray(1.0 / (1.0 - p)).astype(x.dtype)), zero)


def mode_select(a: Array, b: Array, *, training: bool) -> Array:
    """Return a in training, b in evaluation."""
    return a if training else b

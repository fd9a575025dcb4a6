"""Padding in NumPy's modes, axis by axis as NumPy does, written over AbstractTensor methods.

Owns what each mode puts before and after an axis. The algorithms are those of `numpy.pad`.
"""
from __future__ import annotations

from typing import Any, Final

import numpy as np

from jitfuse.dtypes import is_integer, kind, numpy_dtype
from jitfuse.errors import ArgumentError, ShapeError
from jitfuse.ir.decompositions.arrangements import cut, join
from jitfuse.ir.schema import Meta

Tensor = Any

MODES: Final = (
    "constant", "edge", "linear_ramp", "maximum", "mean", "median", "minimum", "reflect", "symmetric", "wrap", "empty",
)
_STATISTICS: Final = {"maximum": "max", "minimum": "min", "mean": "mean", "median": "median"}


def check(m: Meta, before: tuple[int, ...], after: tuple[int, ...], mode: str, values: tuple[Any, ...],
          lengths: tuple[int, ...]) -> None:
    """Raise ArgumentError for unknown modes and invalid values, ShapeError for axes that a mode cannot extend."""
    shape = m.shape
    if mode not in MODES:
        raise ArgumentError(f"pad: mode {mode!r} is not one of {', '.join(MODES)}")
    if len(before) != len(shape) or len(after) != len(shape):
        raise ShapeError(f"pad: {len(before)} widths for {len(shape)} axes")
    for name, given, needed in (("values", values, mode == "linear_ramp"), ("lengths", lengths, False)):
        if len(given) != 2 * len(shape) and (given or needed):
            raise ShapeError(f"pad: {len(given)} {name} for {len(shape)} axes, which take two each")
    if mode == "constant" and is_integer(m.dtype) and not all(np.isfinite(v) for v in values):
        raise ArgumentError(f"pad: cannot convert {values} to {m.dtype}")
    if mode in ("constant", "empty"):
        return
    for axis, n in enumerate(shape):
        if not n and before[axis] + after[axis]:
            raise ShapeError(f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'")
    if mode in ("maximum", "minimum") and 0 in lengths and any(before + after):
        raise ShapeError("stat_length of 0 yields no value for padding")


def pad(x: Tensor, *, before: tuple[int, ...], after: tuple[int, ...], mode: str, values: tuple[Any, ...],
        lengths: tuple[int, ...], odd: bool) -> Tensor:
    """Return x with `before` and `after` more elements on each axis.

    `values` holds (before, after) per axis for the modes constant and linear_ramp. `lengths` likewise holds the number
    of elements that a statistic covers (-1: all). With `odd`, reflections are subtracted from twice the edge.
    """
    if mode == "empty" or (mode == "constant" and len({repr(v) for v in values}) <= 1):
        value = values[0] if mode == "constant" and values else 0
        shape = tuple(b + n + a for b, n, a in zip(before, x.shape, after, strict=True))
        region = {"starts": before, "steps": (1,) * x.ndim, "counts": tuple(x.shape)}
        if not x.size:
            region["starts"] = (0,) * x.ndim
        return _filled(x, shape, value).call("update_slice", x, **region)
    for axis in range(x.ndim):
        widths = before[axis], after[axis]
        if any(widths) and (x.size or mode == "constant"):
            x = _extended(x, axis, widths, mode, values[2 * axis : 2 * axis + 2], lengths[2 * axis : 2 * axis + 2], odd)
        elif any(widths):
            x = _filled(x, _with(x, axis, x.shape[axis] + sum(widths)), 0)
    return x


def _filled(x: Tensor, shape: tuple[int, ...], value: Any) -> Tensor:
    with np.errstate(all="ignore"):
        number = np.asarray(value).astype(numpy_dtype(x.dtype)).item()
    return x.create("full", shape=shape, value=number, dtype=x.dtype)


def _extended(x: Tensor, axis: int, widths: tuple[int, int], mode: str, values: tuple[Any, ...],
              lengths: tuple[int, ...], odd: bool) -> Tensor:
    if mode == "constant":
        first, last = (_filled(x, _with(x, axis, w), v) for w, v in zip(widths, values, strict=True))
        return join([first, x, last], axis)
    if mode == "linear_ramp":
        return _ramps(x, axis, widths, values)
    if mode in _STATISTICS:
        return _statistics(x, axis, widths, mode, lengths)
    if mode == "wrap":
        return _wrapped(x, axis, widths)
    if mode == "edge" or x.shape[axis] == 1:
        return _around(x, axis, widths, cut(x, axis, 0, 1), cut(x, axis, x.shape[axis] - 1, 1))
    return _reflected(x, axis, widths, mode == "symmetric", odd)


def _with(x: Tensor, axis: int, extent: int) -> tuple[int, ...]:
    return tuple(extent if k == axis else n for k, n in enumerate(x.shape))


def _around(x: Tensor, axis: int, widths: tuple[int, int], first: Tensor, last: Tensor) -> Tensor:
    """Join x between two values of extent 1 that are repeated along the axis."""
    left, right = (v.call("broadcast_to", shape=_with(x, axis, w)) for v, w in zip((first, last), widths, strict=True))
    return join([left, x, right], axis)


def _wrapped(x: Tensor, axis: int, widths: tuple[int, int]) -> Tensor:
    """Continue periodically; the content grows in whole periods until it is wide enough."""
    period, (left, right) = x.shape[axis], widths
    while left or right:
        m = x.shape[axis]
        whole = m // period * period
        first, last = min(whole, left), min(whole, right)
        x = join([cut(x, axis, whole - first, first), x, cut(x, axis, m - whole, last)], axis)
        left, right = left - first, right - last
    return x


def _reflected(x: Tensor, axis: int, widths: tuple[int, int], include_edge: bool, odd: bool) -> Tensor:
    """Continue with mirror images of the whole content, in whole periods of the original."""
    period, (left, right) = x.shape[axis], widths
    off = 0 if include_edge else 1
    while left or right:
        m = x.shape[axis]
        whole = m // period * period if include_edge else (m - 1) // (period - 1) * (period - 1)
        first, last = min(whole, left), min(whole, right)
        parts = [x]
        if first:
            parts.insert(0, _mirrored(cut(x, axis, first - 1 + off, first, -1), cut(x, axis, 0, 1), odd))
        if last:
            parts.append(_mirrored(cut(x, axis, m - 1 - off, last, -1), cut(x, axis, m - 1, 1), odd))
        x = join(parts, axis)
        left, right = left - first, right - last
    return x


def _mirrored(part: Tensor, edge: Tensor, odd: bool) -> Tensor:
    return _as(edge.call("multiply", 2).call("subtract", part), part.dtype) if odd else part


def _as(x: Tensor, dtype: str) -> Tensor:
    return x if x.dtype == dtype and not x.weak else x.call("astype", dtype=dtype)


def _statistics(x: Tensor, axis: int, widths: tuple[int, int], mode: str, lengths: tuple[int, ...]) -> Tensor:
    n = x.shape[axis]
    first, last = (n if not 0 <= k <= n else k for k in (lengths or (-1, -1)))

    def of(start: int, count: int) -> Tensor:
        found = cut(x, axis, start, count).call(_STATISTICS[mode], axis=axis, keepdims=True)
        if is_integer(x.dtype) and kind(found.dtype) == "float":
            found = found.call("rint")
        return _as(found, x.dtype)

    before = of(0, first)
    return _around(x, axis, widths, before, before if first == last == n else of(n - last, last))


def _ramps(x: Tensor, axis: int, widths: tuple[int, int], values: tuple[Any, ...]) -> Tensor:
    parts = [x]
    for side, (width, end) in enumerate(zip(widths, values, strict=True)):
        if width:
            edge = cut(x, axis, 0 if side == 0 else x.shape[axis] - 1, 1)
            ramp = _ramp(edge, axis, width, float(end))
            parts.insert(0, ramp) if side == 0 else parts.append(cut(ramp, axis, width - 1, width, -1))
    return join(parts, axis)


def _ramp(edge: Tensor, axis: int, width: int, end: float) -> Tensor:
    """Return np.linspace(end, edge, width, endpoint=False) along an axis, in the dtype of the edge."""
    dtype = "complex128" if kind(edge.dtype) == "complex" else "float64"
    delta = _as(edge, dtype).call("subtract", end)
    at = edge.create("arange", count=width, dtype="float64").call(
        "reshape", shape=tuple(width if k == axis else 1 for k in range(edge.ndim)))
    step = delta.call("divide", edge.extent(value=width))
    vanished = step.call("equal", 0.0).call("any", axis=None, keepdims=False)
    slow = at.call("divide", edge.extent(value=width)).call("multiply", delta)
    result = vanished.call("where", slow, at.call("multiply", step)).call("add", end)
    return _as(result.call("floor") if is_integer(edge.dtype) else result, edge.dtype)

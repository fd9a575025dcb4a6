"""NumPy's functions of sampled functions over traced arrays: gradients, interpolation, convolution, phase unwrapping.

Owns their entries in the table of `jitfuse.tracing.tensor.function_table`; each has NumPy's name and parameters.
Differences of neighbours and integrals are in `jitfuse.tracing.numpy_like.scans`.
"""
from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from jitfuse import dtypes
from jitfuse.errors import ArgumentError, ShapeError, UnsupportedError
from jitfuse.ir.rules import shape_rules
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.numpy_like import scans, shapes, sorting
from jitfuse.tracing.numpy_like.reduce import given
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor import gathering
from jitfuse.tracing.tensor.function_table import Tensor, extents, implements, lifted, require_cast, strong

UNROLLED_TAPS: Final = 16
"""A convolution with a kernel up to this length is a sum of shifted slices; a longer one reduces gathered windows."""


def _between(x: Tensor, axis: int, start: int | None, stop: int | None) -> Tensor:
    return x[(*(slice(None),) * axis, slice(start, stop))]


# ---------------------------------------------------------------- gradient
@implements("gradient")
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Return central differences along axes, one array per axis; the edges use differences of order 1 or 2."""
    x = strong(lifted(f, *varargs)[0])
    axes = [shape_rules.normalize_axis("gradient", k, x.ndim) for k in (
        range(x.ndim) if axis is None else axis if isinstance(axis, Sequence) else (axis,))]
    spacings = _spacings(x, axes, varargs)
    if edge_order not in (1, 2):
        raise ArgumentError(f"np.gradient: 'edge_order' greater than 2 not supported, at {user_line()}")
    result_dtype = str(x.dtype) if dtypes.kind(str(x.dtype)) in ("float", "complex") else "float64"
    if dtypes.is_integer(str(x.dtype)):
        x = x.call("astype", dtype="float64")
    results = []
    for along, spacing in zip(axes, spacings, strict=True):
        if x.shape[along] < edge_order + 1:
            raise ShapeError(f"np.gradient: axis {along} of {x.shape} is too small; at least {edge_order + 1} elements "
                             f"are needed, at {user_line()}")
        slope = _slope(x, along, spacing, edge_order)
        slope = slope if str(slope.dtype) == result_dtype else slope.call("astype", dtype=result_dtype)
        results.append(slope.ordered("gradient", "K", x))
    return results[0] if len(results) == 1 else tuple(results)


def _spacings(x: Tensor, axes: list[int], varargs: tuple[Any, ...]) -> list[Any]:
    """Return the step, or the steps between coordinates, along each axis."""
    if not varargs:
        return [1.0] * len(axes)
    found = [lifted(v, x)[0] if not isinstance(v, int | float) else v for v in varargs]
    if len(found) == 1 and (not isinstance(found[0], AbstractTensor) or not found[0].ndim):
        return found * len(axes)
    if len(found) != len(axes):
        raise ArgumentError(f"np.gradient: invalid number of arguments: {len(found)} spacings for {len(axes)} axes, "
                            f"at {user_line()}")
    steps: list[Any] = []
    for along, spacing in zip(axes, found, strict=True):
        if not isinstance(spacing, AbstractTensor) or not spacing.ndim:
            steps.append(spacing)
            continue
        if spacing.shape != (x.shape[along],):
            raise ShapeError(f"np.gradient: distances of shape {spacing.shape} must be of one axis and match extent "
                             f"{x.shape[along]}, at {user_line()}")
        points: Any = spacing
        if dtypes.is_integer(str(points.dtype)):
            points = points.call("astype", dtype="float64")
        steps.append(scans.diff(points))
    return steps


def _slope(x: Tensor, axis: int, step: Any, edge_order: int) -> Tensor:
    """Return the differences along one axis; `step` is a number, or the n - 1 distances between n coordinates."""
    uneven = isinstance(step, AbstractTensor) and step.ndim == 1
    before, here, after = (_between(x, axis, a, b) for a, b in ((None, -2), (1, -1), (2, None)))
    first = [_between(x, axis, k, k + 1) for k in range(edge_order + 1)]
    last = [_between(x, axis, -k, 1 - k if k > 1 else None) for k in range(1, edge_order + 2)]
    if uneven:
        steps: Any = step.reshape((*(1,) * axis, step.size, *(1,) * (x.ndim - axis - 1)))
        h, k = _between(steps, axis, None, -1), _between(steps, axis, 1, None)
        middle = -k / (h * (h + k)) * before + (k - h) / (h * k) * here + h / (k * (h + k)) * after
        first_steps = [_between(steps, axis, j, j + 1) for j in range(edge_order)]
        last_steps = [_between(steps, axis, -j, 1 - j if j > 1 else None) for j in range(1, edge_order + 1)]
    else:
        middle = (after - before) / (2.0 * step)
        first_steps = last_steps = [step] * edge_order
    if edge_order == 1:
        edges = (first[1] - first[0]) / first_steps[0], (last[0] - last[1]) / last_steps[0]
    else:
        edges = _second_order(first, first_steps, 1.0), _second_order(last, last_steps, -1.0)
    return shapes.concatenate([edges[0], middle, edges[1]], axis)


def _second_order(values: list[Tensor], steps: list[Any], sign: float) -> Tensor:
    """Return the one-sided difference at the first of three values; `sign` is -1 at the far end."""
    h, k = steps
    a, b, c = -(2.0 * h + k) / (h * (h + k)), (h + k) / (h * k), -h / (k * (h + k))
    return (a * values[0] + b * values[1] + c * values[2]) * sign


# ---------------------------------------------------------------- interpolation
@implements("interp")
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Tensor:
    """Return the piecewise linear function through the points (xp, fp) at x; xp ascends unless `period` is given."""
    at, points, values = (strong(t) for t in lifted(x, xp, fp))
    without_points = not points.size and not at.size and _needs_no_points()
    if points.ndim != 1 or values.shape != points.shape or not (points.size or without_points):
        raise ShapeError(f"np.interp: the points of shapes {points.shape} and {values.shape} must be of one axis, as "
                         f"many and at least one, at {user_line()}")
    for t in (at, points):
        require_cast("np.interp", str(t.dtype), "float64", "safe")
    if dtypes.kind(str(values.dtype)) == "complex":
        parts = [interp(x, xp, part, *(getattr(v, name) if given(v) else None for v in (left, right)), period)
                 for name, part in (("real", values.real), ("imag", values.imag))]
        return parts[0].call("make_complex", parts[1])
    at, points, values = (t.astype("float64", copy=False) for t in (at, points, values))
    if without_points:
        return at.astype("float64")
    if given(period):
        at, points, values = _periodic(at, points, values, period)
        left = right = None
    below = values[0] if not given(left) else strong(lifted(left, at)[0]).astype("float64")
    above = values[-1] if not given(right) else strong(lifted(right, at)[0]).astype("float64")
    count = points.size
    # as `take` with a clipped index: results outside of the range are replaced below
    j = sorting.searchsorted(points, at, "right") - 1
    if count == 1:
        inside = values[0]
    else:
        x0, x1 = (gathering.take(points, j + k, mode="clip") for k in (0, 1))
        y0, y1 = (gathering.take(values, j + k, mode="clip") for k in (0, 1))
        slope = (y1 - y0) / (x1 - x0)
        inside = slope * (at - x0) + y0
        other = slope * (at - x1) + y1
        other = (other.call("isnan").call("logical_and", y0.call("equal", y1))).call("where", y0, other)
        inside = inside.call("isnan").call("where", other, inside)
        exact = at.call("equal", x0).call("logical_or", j.call("equal", count - 1))
        inside = exact.call("where", y0, inside)
    result = at.call("less", points[0]).call("where", below, inside)
    result = at.call("greater", points[-1]).call("where", above, result)
    return at.call("isnan").call("where", at, result)


@cache
def _needs_no_points() -> bool:
    """Return whether NumPy interpolates between no points where there is nothing to compute, as it does from 2.5 on."""
    try:
        return not np.interp([], [], []).size
    except ValueError:
        return False


def _periodic(at: Tensor, points: Tensor, values: Tensor, period: Any) -> tuple[Tensor, Tensor, Tensor]:
    length = strong(lifted(period, at)[0]).call("abs").astype("float64")
    at, points = at % length, points % length
    order = sorting.argsort(points)
    points, values = points[order], values[order]
    points = shapes.concatenate([points[-1:] - length, points, points[:1] + length])
    return at, points, shapes.concatenate([values[-1:], values, values[:1]])


# ---------------------------------------------------------------- convolution
_MODES: Final = {"valid": 0, "same": 1, "full": 2}


@implements("convolve")
def convolve(a: Any, v: Any, mode: Any = "full") -> Tensor:
    """Return the discrete convolution of two sequences."""
    one, two = _sequences("convolve", a, v)
    if two.size > one.size:
        one, two = two, one
    return _sliding(one, two[::-1], _mode("convolve", mode))


@implements("correlate")
def correlate(a: Any, v: Any, mode: Any = "valid") -> Tensor:
    """Return the cross-correlation of two sequences, the second conjugated."""
    one, two = _sequences("correlate", a, v)
    two = two.conj()
    if two.size > one.size:
        return _sliding(two, one, _mode("correlate", mode))[::-1].as_copy()
    return _sliding(one, two, _mode("correlate", mode))


def _mode(name: str, mode: Any) -> int:
    number = _MODES.get(mode) if isinstance(mode, str) else mode
    if number not in (0, 1, 2):
        raise ArgumentError(f"np.{name}: mode is 'valid', 'same' or 'full', not {mode!r}, at {user_line()}")
    return int(number)


def _sequences(name: str, a: Any, v: Any) -> tuple[Tensor, Tensor]:
    one, two = (t.reshape((1,)) if not t.ndim else t for t in map(strong, lifted(a, v)))
    for t, which in ((one, "a"), (two, "v")):
        if t.ndim != 1:
            raise ShapeError(f"np.{name}: object too deep for desired array: {which} has the shape {t.shape}, at "
                             f"{user_line()}")
        if not t.size:
            raise ShapeError(f"np.{name}: {which} cannot be empty, at {user_line()}")
    common = dtypes.promote((str(one.dtype), str(two.dtype)))
    return one.astype(common, copy=False), two.astype(common, copy=False)


def _sliding(long: Tensor, short: Tensor, mode: int) -> Tensor:
    """Return the products of the shorter sequence with each window of the longer one.

    Elements beyond its ends count as zero, even next to infinities and NaN of the shorter one.
    """
    taps = short.size
    before, after = ((0, 0), (taps // 2, taps - taps // 2 - 1), (taps - 1, taps - 1))[mode]
    count = long.size + before + after - taps + 1
    extended = long
    if before or after:
        extended = long.call("pad", before=(before,), after=(after,), mode="constant", odd=False, values=(0, 0),
                             lengths=())

    def products(positions: Tensor, elements: Tensor, tap: Tensor) -> Tensor:
        made = elements * tap
        if not before and not after:
            return made
        within = positions.call("greater_equal", before).call("logical_and", positions.call("less", before + long.size))
        return within.call("where", made, made.create("zeros", shape=(), dtype=str(made.dtype)))

    first = long.create("arange", count=count, dtype="int64")
    if taps <= UNROLLED_TAPS:
        total = products(first, extended[:count], short[0])
        for k in range(1, taps):
            total = total + products(first + k, extended[k : k + count], short[k])
        return total
    window = first.reshape((count, 1)) + long.create("arange", count=taps, dtype="int64")
    made = products(window, extended[window], short)
    if str(made.dtype) == "bool":
        return made.call("any", axis=1)
    return made.call("sum", axis=1).astype(str(made.dtype), copy=False)


# ---------------------------------------------------------------- phases
@implements("lib.stride_tricks.sliding_window_view")
def sliding_window_view(x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False,
                        writeable: bool = False) -> Tensor:
    """Return all windows of a shape, their elements as the last axes; they share no memory with the array."""
    if writeable:
        raise UnsupportedError(f"sliding_window_view(writeable=True) is not available, at {user_line()}")
    t, shape = strong(lifted(x)[0]), extents(window_shape)
    axes = tuple(range(t.ndim)) if axis is None else tuple(
        shape_rules.normalize_axis("sliding_window_view", k, t.ndim) for k in extents(axis))
    if len(axes) != len(shape):
        raise ShapeError(f"sliding_window_view: a window of {shape} for the axes {axes}, at {user_line()}")
    made = t
    for size, along in zip(shape, axes, strict=True):
        if not 1 <= size <= made.shape[along]:
            raise ShapeError(f"sliding_window_view: a window of {size} in an axis of {made.shape[along]}, at "
                             f"{user_line()}")
        last = shapes.moveaxis(made, along, -1).call("windows", sizes=(size,), steps=(1,), dilations=(1,))
        made = shapes.moveaxis(last, -1, along)
    return made if shape else t[...]


@implements("unwrap")
def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 6.283185307179586) -> Tensor:
    """Return phases with each jump of half a period or more replaced by its complement of the period."""
    x = strong(lifted(p, *[v for v in (discont, period) if isinstance(v, AbstractTensor)])[0])
    shape_rules.reject_bools(axis)
    along = shape_rules.normalize_axis("unwrap", axis, x.ndim)
    steps = scans.diff(x, axis=along)
    jump = period / 2 if discont is None else discont
    dtype = str((steps + period).dtype)
    whole = dtypes.is_integer(dtype)
    high = period // 2 if whole else period / 2
    if dtypes.kind(dtype) == "uint" and high > 0:
        raise UnsupportedError(f"np.unwrap of unsigned integers is not available, at {user_line()}")
    wrapped = (steps + high) % period - high
    if not whole or period % 2 == 0:
        at_edge = wrapped.call("equal", -high).call("logical_and", steps.call("greater", 0))
        wrapped = at_edge.call("where", high, wrapped)
    correction = steps.call("abs").call("less", jump).call("where", 0, wrapped - steps)
    rest = _between(x, along, 1, None) + correction.call("cumsum", axis=along)
    return shapes.concatenate([_between(x, along, None, 1), rest], along).astype(dtype, copy=False)

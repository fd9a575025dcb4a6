"""torch.nn.functional's resizing and sampling of images over traced tensors.

Owns their entries in `jitfuse.tracing.torch_like.table`. Indices and weights that depend only on sizes are constants of
the program.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitfuse.dtypes import is_narrow
from jitfuse.errors import ArgumentError, ShapeError, UnsupportedError
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor import gathering
from jitfuse.tracing.tensor.function_table import Tensor
from jitfuse.tracing.torch_like.products import same_dtype
from jitfuse.tracing.torch_like.promotion import cast, numbers, operand, require_float
from jitfuse.tracing.torch_like.table import implements, of_floats
from jitfuse.tracing.torch_like.tensor import wrap

_LINEAR = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}
"""Mode -> the number of axes that it resizes."""


@of_floats("interpolate", "upsample")
def interpolate(input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
                align_corners: Any = None, recompute_scale_factor: Any = None, antialias: bool = False) -> Any:
    """Resize the last axes, by nearest elements, means of areas, or linear or cubic interpolation."""
    x = operand(input)
    rank = x.ndim - 2
    sizes, scales = _target(x, size, scale_factor, bool(recompute_scale_factor))
    if mode == "area":
        from jitfuse.tracing.torch_like.table import FUNCTIONS

        return FUNCTIONS[f"adaptive_avg_pool{rank}d"](input, sizes)
    if mode not in ("nearest", "nearest-exact", *_LINEAR) or antialias:
        raise UnsupportedError(f"interpolate(mode={mode!r}, antialias={antialias}) is not available, at {user_line()}")
    if _LINEAR.get(mode, rank) != rank:
        raise ArgumentError(f"interpolate: mode {mode!r} does not fit a tensor of {x.ndim} axes, at {user_line()}")
    if align_corners is not None and mode.startswith("nearest"):
        raise ArgumentError("align_corners option can only be set with the interpolating modes: linear | bilinear | "
                            f"bicubic | trilinear, at {user_line()}")
    for k in range(rank):
        x = _resized(x, 2 + k, sizes[k], scales[k], mode, bool(align_corners))
    return wrap(x)


def _target(x: Tensor, size: Any, scale: Any, recomputed: bool) -> tuple[list[int], list[float]]:
    if (size is None) == (scale is None):
        raise ArgumentError(f"only one of size or scale_factor should be defined, at {user_line()}")
    given, spatial = numbers(size if size is not None else scale), x.shape[2:]
    each = given if isinstance(given, tuple) else (given,) * len(spatial)
    if len(each) != len(spatial):
        raise ShapeError(f"interpolate: {each} for a tensor with {len(spatial)} spatial axes, at {user_line()}")
    sizes = [int(n) for n in each] if size is not None else [
        math.floor(n * s) for n, s in zip(spatial, each, strict=True)]
    if any(n < 1 for n in (*sizes, *spatial)):
        raise ShapeError(f"interpolate: sizes {spatial} and {sizes} should be greater than 0, at {user_line()}")
    if size is not None or recomputed:
        return sizes, [n / m for n, m in zip(spatial, sizes, strict=True)]
    return sizes, [1.0 / s for s in each]


def _resized(x: Tensor, axis: int, size: int, scale: float, mode: str, corners: bool) -> Tensor:
    extent, positions = x.shape[axis], np.arange(size)
    if mode.startswith("nearest"):
        shift = 0.5 if mode == "nearest-exact" else 0.0
        at = np.minimum(np.floor((positions + shift) * np.float32(scale)).astype("int64"), extent - 1)
        return gathering.take(x, at, axis)
    if corners:
        exact = positions * ((extent - 1) / (size - 1) if size > 1 else 0.0)
    else:
        exact = (positions + 0.5) * scale - 0.5
        exact = exact if mode == "bicubic" else np.maximum(exact, 0.0)
    low = np.floor(exact).astype("int64")
    share = exact - low
    weights = _cubic(share) if mode == "bicubic" else [1.0 - share, share]
    first = -1 if mode == "bicubic" else 0
    made: Any = None
    for k, weight in enumerate(weights):
        at = np.clip(low + first + k, 0, extent - 1)
        along = weight.astype(str(x.dtype) if str(x.dtype) != "bfloat16" else "float32").reshape(
            (-1,) + (1,) * (x.ndim - axis - 1))
        part = gathering.take(x, at, axis) * along
        made = part if made is None else made + part
    return cast(made, str(x.dtype))


def _cubic(share: Any, a: float = -0.75) -> list[Any]:
    """Return the weights of the four elements around a position, by cubic convolution."""
    def near(t: Any) -> Any:
        return ((a + 2) * t - (a + 3)) * t * t + 1

    def far(t: Any) -> Any:
        return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a

    return [far(share + 1), near(share), near(1 - share), far(2 - share)]


@implements("upsample_nearest")
def upsample_nearest(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """Resize the last axes by nearest elements."""
    return interpolate(input, size, scale_factor)


@implements("upsample_bilinear")
def upsample_bilinear(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """Resize the last axes by linear interpolation, with aligned corners."""
    return interpolate(input, size, scale_factor, "bilinear", True)


# ---------------------------------------------------------------- sampling at given positions
@of_floats("affine_grid")
def affine_grid(theta: Any, size: Any, align_corners: Any = None) -> Any:
    """Return the positions (samples, rows, columns, 2) to which affine maps move those of an image of a size."""
    t, extents = operand(theta), tuple(int(n) for n in numbers(size))
    if len(extents) != 4 or t.shape != (extents[0], 2, 3):
        raise UnsupportedError(f"affine_grid of maps {t.shape} for {extents}: (samples, 2, 3) and four extents are "
                               f"available, at {user_line()}")
    rows, columns = (_evenly(n, bool(align_corners), str(t.dtype)) for n in extents[2:])
    ones = np.ones((extents[2], extents[3]), rows.dtype)
    grid = np.stack([ones * columns, ones * rows[:, None], ones], -1).reshape(-1, 3)
    from jitfuse.tracing.torch_like.products import product

    made = product("affine_grid", grid, t.swapaxes(-1, -2))
    return wrap(made.reshape((extents[0], extents[2], extents[3], 2)))


def _evenly(count: int, corners: bool, dtype: str) -> Any:
    if count <= 1:
        return np.zeros(count, dtype)
    line = np.linspace(-1, 1, count)
    return (line if corners else line * (count - 1) / count).astype(dtype)


@implements("grid_sample")
def grid_sample(input: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros",
                align_corners: Any = None) -> Any:
    """Sample images at positions from -1 to 1; the result is (samples, channels, rows, columns)."""
    require_float("grid_sample", input)
    if is_narrow(str(operand(input).dtype)):
        raise UnsupportedError(f"grid_sample of 16-bit floats is not available, at {user_line()}")  # rounds positions
    x, at = same_dtype("grid_sample", input, grid)
    if x.ndim != 4 or at.ndim != 4 or at.shape[0] != x.shape[0] or at.shape[3] != 2:
        raise ShapeError(f"grid_sample: images of {x.shape} and a grid of {at.shape}, at {user_line()}")
    if mode not in ("bilinear", "nearest") or padding_mode not in ("zeros", "border", "reflection"):
        raise UnsupportedError(f"grid_sample(mode={mode!r}, padding_mode={padding_mode!r}) is not available, at "
                               f"{user_line()}")
    rows, columns = (_pixels(at[..., k], n, bool(align_corners), padding_mode) for k, n in ((1, x.shape[2]),
                                                                                              (0, x.shape[3])))
    if mode == "nearest":
        return wrap(_picked(x, rows.call("rint"), columns.call("rint")))
    top, left = rows.call("floor"), columns.call("floor")
    down, right = rows - top, columns - left
    made: Any = None
    for i, row_share in enumerate((1 - down, down)):
        for j, column_share in enumerate((1 - right, right)):
            share = row_share * column_share
            part = _picked(x, top + i, left + j) * share.reshape((share.shape[0], 1, *share.shape[1:]))
            made = part if made is None else made + part
    return wrap(made)


def _pixels(positions: Tensor, extent: int, corners: bool, padding: str) -> Tensor:
    """Scale positions from [-1, 1] to pixels of an axis."""
    made = (positions + 1) / 2 * (extent - 1) if corners else ((positions + 1) * extent - 1) / 2
    if padding == "reflection":
        made = _reflected(made, 0.0, extent - 1.0) if corners else _reflected(made, -0.5, float(extent))
    return made if padding == "zeros" else made.call("clip", 0, extent - 1)


def _reflected(positions: Tensor, low: float, span: float) -> Tensor:
    """Reflect positions at a lower bound, and at the upper bound `low + span`."""
    if not span:
        return positions * 0.0
    away = (positions - low).call("abs")
    over, turns = away.call("fmod", span), (away / span).call("floor")
    return turns.call("remainder", 2.0).call("equal", 0.0).call("where", over + low, span - over + low)


def _picked(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return (samples, channels, ...) at integer positions; 0 outside of the image."""
    samples, _, height, width = x.shape
    inside = rows.call("greater_equal", 0)
    for condition in (rows.call("less_equal", height - 1), columns.call("greater_equal", 0),
                      columns.call("less_equal", width - 1)):
        inside = inside.call("logical_and", condition)
    i, j = (cast(inside.call("where", v, 0.0), "int64") for v in (rows, columns))
    sample = x.create("arange", count=samples, dtype="int64").reshape((-1, 1, 1))
    made = x.call("transpose", axes=(0, 2, 3, 1))[sample, i, j]
    kept = inside.reshape((*inside.shape, 1)).call("where", made, 0.0)
    return kept.call("transpose", axes=(0, 3, 1, 2))

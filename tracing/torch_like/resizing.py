"""torch.nn.functional's resizing and sampling of images over traced tensors.

Owns their entries in `jitfuse.tracing.torch_like.table`. Indices and weights that depend only on sizes are constants of
the program.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitfuse.errors import ArgumentError, ShapeError, UnsupportedError
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor import gathering
from jitfuse.tracing.tensor.function_table import Tensor
from jitfuse.tracing.torch_like.promotion import cast, numbers, operand
from jitfuse.tracing.torch_like.table import FUNCTIONS, of_floats
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

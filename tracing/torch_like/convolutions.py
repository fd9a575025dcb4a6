"""torch.nn.functional's convolutions and poolings over traced tensors.

Owns their entries in `jitfuse.tracing.torch_like.table`. A convolution is a matrix product with the windows of the
input, which are stacked slices; a pooling reduces over the same slices.
"""
from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

from jitfuse.dtypes import integer_range, is_integer
from jitfuse.errors import ArgumentError, ShapeError, UnsupportedError
from jitfuse.tracing import numpy_arrangements, numpy_shapes
from jitfuse.tracing.numpy_functions import Tensor
from jitfuse.tracing.source import user_line
from jitfuse.tracing.torch_like.products import product, same_dtype
from jitfuse.tracing.torch_like.promotion import cast, numbers, operand
from jitfuse.tracing.torch_like.table import implements, of_floats
from jitfuse.tracing.torch_like.tensor import wrap


def _each(value: Any, rank: int) -> tuple[int, ...]:
    found = numbers(value)
    if not isinstance(found, tuple):
        return (int(found),) * rank
    return tuple(int(v) for v in found) if len(found) == rank else (int(found[0]),) * rank


def _windows(x: Tensor, sizes: tuple[int, ...], strides: tuple[int, ...],
             dilations: tuple[int, ...]) -> list[Tensor]:
    """Return the elements at each place of the windows over the last axes, one tensor for each place."""
    rank = len(sizes)
    spatial = x.shape[-rank:]
    counts = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(spatial, sizes, strides, dilations, strict=True)]
    if any(c < 1 for c in counts):
        raise ShapeError(f"a window of {sizes} does not fit into {spatial}, at {user_line()}")
    lead = (slice(None),) * (x.ndim - rank)
    parts = []
    for place in itertools.product(*map(range, sizes)):
        cuts = [slice(p * d, p * d + (c - 1) * s + 1, s)
                for p, d, c, s in zip(place, dilations, counts, strides, strict=True)]
        parts.append(x[(*lead, *cuts)])
    return parts


# ---------------------------------------------------------------- convolutions
def _convolution(name: str, rank: int) -> None:
    @implements(name)
    def function(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
                 groups: Any = 1) -> Any:
        x, w = same_dtype(name, input, weight)
        single = x.ndim == rank + 1
        x = x.reshape((1, *x.shape)) if single else x
        strides, dilations, parts = _each(stride, rank), _each(dilation, rank), int(numbers(groups))
        sizes = w.shape[2:]
        if x.ndim != rank + 2 or w.ndim != rank + 2 or x.shape[1] != w.shape[1] * parts:
            raise ShapeError(f"{name}: an input of {x.shape} and weights of {w.shape} in {parts} groups do not fit, at "
                             f"{user_line()}")
        x = _padded(x, padding, sizes, dilations)
        made = _product_with_windows(x, w, sizes, strides, dilations, parts)
        if bias is not None:
            made = made + operand(bias).reshape((1, w.shape[0]) + (1,) * rank)
        return wrap(made[0] if single else made)

    function.__name__ = name


def _padded(x: Tensor, padding: Any, sizes: tuple[int, ...], dilations: tuple[int, ...]) -> Tensor:
    rank = len(sizes)
    if padding == "valid":
        return x
    if padding == "same":
        total = [d * (k - 1) for k, d in zip(sizes, dilations, strict=True)]
        widths = [(t // 2, t - t // 2) for t in total]
    else:
        widths = [(p, p) for p in _each(padding, rank)]
    if not any(map(any, widths)):
        return x
    return numpy_arrangements.pad(x, [(0, 0), (0, 0), *widths])


def _product_with_windows(x: Tensor, w: Tensor, sizes: tuple[int, ...], strides: tuple[int, ...],
                          dilations: tuple[int, ...], groups: int) -> Tensor:
    """Return (samples, channels out, ...): for each group, weights times the windows of its channels."""
    parts = _windows(x, sizes, strides, dilations)
    samples, channels, *spatial = parts[0].shape
    outs, ins, places = w.shape[0] // groups, channels // groups, len(parts)
    stacked = numpy_shapes.stack([p.reshape((samples, groups, ins, math.prod(spatial))) for p in parts], 3)
    columns = stacked.reshape((samples, groups, ins * places, math.prod(spatial)))
    rows = w.reshape((groups, outs, ins * places))
    return product("convolution", rows, columns).reshape((samples, groups * outs, *spatial))


for _rank in (1, 2, 3):
    _convolution(f"conv{_rank}d", _rank)


# ---------------------------------------------------------------- poolings
def _pooled(input: Any, sizes: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, rank: int, name: str,
            filler: float) -> list[Tensor]:
    x = operand(input)
    if ceil_mode:
        raise UnsupportedError(f"{name}(ceil_mode=True) is not available, at {user_line()}. Pad first.")
    extents = _each(sizes, rank)
    steps = extents if stride is None or numbers(stride) == () else _each(stride, rank)
    widths = [(p, p) for p in _each(padding, rank)]
    if any(map(any, widths)):
        if filler and is_integer(str(x.dtype)):
            filler = integer_range(str(x.dtype))[0]
        x = numpy_arrangements.pad(x, [(0, 0)] * (x.ndim - rank) + widths, constant_values=filler)
    return _windows(x, extents, steps, _each(dilation, rank))


def _max_pool(rank: int) -> None:
    @implements(f"max_pool{rank}d")
    def function(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
                 ceil_mode: bool = False, return_indices: bool = False) -> Any:
        name = f"max_pool{rank}d"
        if return_indices:
            raise UnsupportedError(f"{name}(return_indices=True) is not available, at {user_line()}")
        parts = _pooled(input, kernel_size, stride, padding, dilation, ceil_mode, rank, name, -math.inf)
        result = parts[0]
        for part in parts[1:]:
            result = result.call("maximum", part)
        return wrap(result if len(parts) > 1 else result.as_copy())

    function.__name__ = f"max_pool{rank}d"


def _avg_pool(rank: int) -> None:
    @implements(f"avg_pool{rank}d")
    def function(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
                 count_include_pad: bool = True, divisor_override: Any = None) -> Any:
        name = f"avg_pool{rank}d"
        if not count_include_pad and any(_each(padding, rank)):
            raise UnsupportedError(f"{name}(count_include_pad=False) is not available, at {user_line()}")
        parts = _pooled(input, kernel_size, stride, padding, 1, ceil_mode, rank, name, 0.0)
        return wrap(_mean_of(parts, divisor_override))

    function.__name__ = f"avg_pool{rank}d"


def _mean_of(parts: list[Tensor], divisor: Any = None) -> Tensor:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return cast(total / float(len(parts) if divisor is None else numbers(divisor)), str(total.dtype))


def _adaptive(name: str, rank: int, combine: Callable[[list[Tensor]], Tensor]) -> None:
    @of_floats(name)
    def function(input: Any, output_size: Any, return_indices: bool = False) -> Any:
        x = operand(input)
        given = numbers(output_size)
        wanted = given if isinstance(given, tuple) else (given,) * rank
        spatial = x.shape[-rank:]
        targets = tuple(n if t is None else int(t) for n, t in zip(spatial, wanted, strict=True))
        if any(n % t for n, t in zip(spatial, targets, strict=True)):
            raise ArgumentError(f"{name}: {spatial} does not divide into {targets} equal parts, at {user_line()}")
        sizes = tuple(n // t for n, t in zip(spatial, targets, strict=True))
        if targets == (1,) * rank and name.startswith("adaptive_avg"):
            return wrap(x.call("mean", axis=tuple(range(x.ndim - rank, x.ndim)), keepdims=True))
        return wrap(combine(_windows(x, sizes, sizes, (1,) * rank)))

    function.__name__ = name


def _largest(parts: list[Tensor]) -> Tensor:
    result = parts[0]
    for part in parts[1:]:
        result = result.call("maximum", part)
    return result


for _rank in (1, 2):
    _max_pool(_rank)
    _avg_pool(_rank)
    _adaptive(f"adaptive_avg_pool{_rank}d", _rank, _mean_of)
    _adaptive(f"adaptive_max_pool{_rank}d", _rank, _largest)


@implements("pixel_shuffle")
def pixel_shuffle(input: Any, upscale_factor: Any) -> Any:
    """Return channels as places: (..., c r r, h, w) as (..., c, h r, w r)."""
    x, r = operand(input), int(numbers(upscale_factor))
    *lead, channels, h, w = x.shape
    parts = x.reshape((*lead, channels // (r * r), r, r, h, w))
    n = len(lead)
    order = (*range(n + 1), n + 3, n + 1, n + 4, n + 2)
    return wrap(parts.call("transpose", axes=order).reshape((*lead, channels // (r * r), h * r, w * r)))


@implements("unfold")
def unfold(input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """Return the windows of images as columns."""
    x, sizes, dilations = operand(input), _each(kernel_size, 2), _each(dilation, 2)
    x = _padded(x, _each(padding, 2), sizes, dilations)
    parts = _windows(x, sizes, _each(stride, 2), dilations)
    samples, channels, h, w = parts[0].shape
    stacked = numpy_shapes.stack([p.reshape((samples, channels, h * w)) for p in parts], 2)
    return wrap(stacked.reshape((samples, channels * len(parts), h * w)))

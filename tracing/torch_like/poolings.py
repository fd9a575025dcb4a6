"""torch.nn.functional's poolings over traced tensors.

Owns their entries in `jitfuse.tracing.torch_like.table`. A pooling reduces over slices, one for each offset in its
window; an adaptive one reduces axis by axis.
"""
from __future__ import annotations

import functools
import itertools
import math
import operator
from typing import Any

import numpy as np

from jitfuse.base.records import Record
from jitfuse.dtypes import integer_range, is_integer
from jitfuse.errors import ArgumentError, ShapeError
from jitfuse.tracing.numpy_like import arrangements, shapes
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor import gathering
from jitfuse.tracing.tensor.function_table import Tensor
from jitfuse.tracing.tensor.lifting import lift
from jitfuse.tracing.torch_like.convolutions import each, positive, windows
from jitfuse.tracing.torch_like.promotion import cast, numbers, operand
from jitfuse.tracing.torch_like.real_tensors import run_of_trace
from jitfuse.tracing.torch_like.table import implements, in_float32, of_floats
from jitfuse.tracing.torch_like.tensor import wrap


class _PoolingWindow(Record, frozen=True):
    """A pooling's window over the last axes; each attribute has one number for each axis."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[int, ...]
    dilations: tuple[int, ...]
    counts: tuple[int, ...]
    """The number of windows."""


def _window(name: str, x: Tensor, sizes: Any, stride: Any, padding: Any, dilation: Any, ceil: bool,
            rank: int) -> _PoolingWindow:
    if x.ndim not in (rank + 1, rank + 2):
        raise ShapeError(f"{name}: expected {rank + 1} or {rank + 2} axes, got a tensor of shape {x.shape}, at "
                         f"{user_line()}")
    extents, steps = positive(name, "kernel size", sizes, rank), positive(name, "dilation", dilation, rank)
    widths = each(padding, rank)
    strides = extents if stride is None or numbers(stride) == () else positive(name, "stride", stride, rank)
    if any(2 * p > k for p, k in zip(widths, extents, strict=True)):
        raise ArgumentError(f"{name}: pad should be at most half of the kernel size, but got {widths} and {extents}, "
                            f"at {user_line()}")
    counts = tuple(_count(*numbers_) for numbers_ in
                   zip(x.shape[-rank:], extents, strides, widths, steps, (ceil,) * rank, strict=True))
    if any(c < 1 for c in counts):
        raise ShapeError(f"{name}: a window of {extents} does not fit into {x.shape[-rank:]}, at {user_line()}")
    return _PoolingWindow(extents, strides, widths, steps, counts)


def _count(n: int, size: int, stride: int, padding: int, dilation: int, ceil: bool) -> int:
    """Return the number of windows along an axis; with `ceil` the last one may extend beyond the padding."""
    room = n + 2 * padding - dilation * (size - 1) - 1
    found = room // stride + 1
    if ceil and room % stride and found * stride < n + padding:
        found += 1
    return found


def _slices(x: Tensor, window: _PoolingWindow, filler: float) -> list[Tensor]:
    """Return the elements at each offset in the windows; elements outside of the tensor are the filler."""
    rank = len(window.sizes)
    widths = []
    for n, k, s, p, d, c in zip(x.shape[-rank:], window.sizes, window.strides, window.padding, window.dilations,
                                window.counts, strict=True):
        widths.append((p, max((c - 1) * s + d * (k - 1) + 1 - n - p, 0)))
    if any(map(any, widths)):
        if filler and is_integer(str(x.dtype)):
            filler = integer_range(str(x.dtype))[0]
        x = arrangements.pad(x, [(0, 0)] * (x.ndim - rank) + widths, constant_values=filler)
    ends = tuple((c - 1) * s + d * (k - 1) + 1 for c, s, d, k in
                 zip(window.counts, window.strides, window.dilations, window.sizes, strict=True))
    x = x[(*(slice(None),) * (x.ndim - rank), *(slice(0, e) for e in ends))]
    return windows(x, window.sizes, window.strides, window.dilations)


def _largest(parts: list[Tensor]) -> Tensor:
    return functools.reduce(lambda a, b: a.call("maximum", b), parts) if len(parts) > 1 else parts[0].as_copy()


# ---------------------------------------------------------------- largest elements
def _max_pool(rank: int) -> None:
    name = f"max_pool{rank}d"

    @implements(name)
    def function(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
                 ceil_mode: bool = False, return_indices: bool = False) -> Any:
        x = operand(input)
        window = _window(name, x, kernel_size, stride, padding, dilation, bool(ceil_mode), rank)
        parts = _slices(x, window, -math.inf)
        if not return_indices:
            return wrap(_largest(parts))
        return wrap(_largest(parts)), wrap(_indices(parts, window, x.shape[-rank:]))

    implements(f"{name}_with_indices")(functools.partial(function, return_indices=True))


def _indices(parts: list[Tensor], window: _PoolingWindow, spatial: tuple[int, ...]) -> Tensor:
    """Return the index of each largest element in the flattened last axes."""
    best = shapes.stack(parts, 0).call("argmax", axis=0)
    taps = np.arange(math.prod(window.sizes)).reshape(window.sizes)
    offsets, starts = np.zeros_like(taps), np.zeros(window.counts, "int64")
    step = 1
    for k in reversed(range(len(spatial))):
        along = [-1 if j == k else 1 for j in range(len(spatial))]
        offsets = offsets + step * (np.arange(window.sizes[k]) * window.dilations[k]).reshape(along)
        first = np.arange(window.counts[k]) * window.strides[k] - window.padding[k]
        starts = starts + step * first.reshape(along)
        step *= spatial[k]
    return gathering.take(_constant(offsets.ravel()), best, 0) + _constant(starts)


def _constant(array: Any) -> Tensor:
    return lift(run_of_trace(), array)


# ---------------------------------------------------------------- means
def _avg_pool(rank: int) -> None:
    name = f"avg_pool{rank}d"

    @implements(name)
    @in_float32
    def function(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
                 count_include_pad: bool = True, divisor_override: Any = None) -> Any:
        x = operand(input)
        window = _window(name, x, kernel_size, stride, padding, 1, bool(ceil_mode), rank)
        total = functools.reduce(operator.add, _slices(x, window, 0.0))
        if divisor_override is not None:
            return wrap(cast(total / float(numbers(divisor_override)), str(x.dtype)))
        counts = _counted(window, x.shape[-rank:], bool(count_include_pad))
        divisor: Any = float(counts.flat[0]) if (counts == counts.flat[0]).all() else _constant(
            counts.astype("float32")).astype(str(total.dtype))
        return wrap(cast(total / divisor, str(x.dtype)))


def _counted(window: _PoolingWindow, spatial: tuple[int, ...], padded: bool) -> Any:
    """Return the number of elements of each window, with or without padding."""
    counts = np.ones((), "int64")
    for n, k, s, p, c in zip(spatial, window.sizes, window.strides, window.padding, window.counts, strict=True):
        first = np.arange(c) * s - p
        low, high = (-p, n + p) if padded else (0, n)
        along = np.minimum(first + k, high) - np.maximum(first, low)
        counts = counts[..., None] * along
    return counts


# ---------------------------------------------------------------- a given number of windows
def _adaptive(name: str, rank: int, op_name: str) -> None:
    @of_floats(name)
    def function(input: Any, output_size: Any, return_indices: bool = False) -> Any:
        x = operand(input)
        if x.ndim not in (rank + 1, rank + 2):
            raise ShapeError(f"{name}: expected {rank + 1} or {rank + 2} axes, got {x.shape}, at {user_line()}")
        given = numbers(output_size)
        wanted = given if isinstance(given, tuple) else (given,) * rank
        targets = [n if t is None else int(t) for n, t in zip(x.shape[-rank:], wanted, strict=True)]
        if targets == [1] * rank and name.startswith("adaptive_avg"):
            return wrap(x.call("mean", axis=tuple(range(x.ndim - rank, x.ndim)), keepdims=True))
        if return_indices:
            return _largest_with_indices(x, targets)
        for k, target in enumerate(targets):
            x = _adapted(x, x.ndim - rank + k, target, op_name)
        return wrap(x.as_copy())


def _largest_with_indices(x: Tensor, targets: list[int]) -> Any:
    """Return the largest element of each part, and its index in the flattened last axes."""
    lead, spatial = x.ndim - len(targets), x.shape[-len(targets):]
    bounds = [[(k * n // t, -(-(k + 1) * n // t)) for k in range(t)] for n, t in zip(spatial, targets, strict=True)]
    at = np.arange(math.prod(spatial)).reshape(spatial)
    values, places = [], []
    for part in itertools.product(*bounds):
        cut = tuple(slice(a, b) for a, b in part)
        flat = x[(*(slice(None),) * lead, *cut)].reshape((*x.shape[:lead], -1))
        best = flat.call("argmax", axis=-1, keepdims=True)
        values.append(flat.call("take_along_axis", best, axis=-1))
        places.append(gathering.take(_constant(at[cut].ravel()), best, 0))
    shape = (*x.shape[:lead], *targets)
    return tuple(wrap(shapes.concatenate(parts, -1).reshape(shape)) for parts in (values, places))


def _adapted(x: Tensor, axis: int, target: int, op_name: str) -> Tensor:
    """Reduce an axis to `target` elements, each over a part of it; neighbouring parts may overlap."""
    n = x.shape[axis]
    if n == target:
        return x
    if target and n % target == 0:
        parts = x.reshape((*x.shape[:axis], target, n // target, *x.shape[axis + 1 :]))
        made: Tensor = parts.call(op_name, axis=axis + 1)
        return made
    lead = (slice(None),) * axis
    bounds = [(k * n // target, -(-(k + 1) * n // target)) for k in range(target)]
    return shapes.stack([x[(*lead, slice(a, b))].call(op_name, axis=axis) for a, b in bounds], axis)


for _rank in (1, 2, 3):
    _max_pool(_rank)
    _avg_pool(_rank)
    _adaptive(f"adaptive_avg_pool{_rank}d", _rank, "mean")
    _adaptive(f"adaptive_max_pool{_rank}d", _rank, "max")

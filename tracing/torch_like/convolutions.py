"""torch.nn.functional's convolutions over traced tensors, and rearrangements between channels and pixels.

Owns their entries in `jitfuse.tracing.torch_like.table`, and `windows`. A convolution is a matrix product with the
windows of the input, which are stored. A depthwise one is a sum of slices times weights. A transposed one adds the
columns of a product to the windows of the output.
"""
from __future__ import annotations

import itertools
import math
from typing import Any, Final

from jitfuse.errors import ArgumentError, ShapeError
from jitfuse.tracing.numpy_like import arrangements
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.function_table import Tensor
from jitfuse.tracing.torch_like.products import product, same_dtype
from jitfuse.tracing.torch_like.promotion import numbers, operand
from jitfuse.tracing.torch_like.table import implements
from jitfuse.tracing.torch_like.tensor import wrap

Extents = tuple[int, ...]


def each(value: Any, rank: int) -> Extents:
    """Return one number for each axis, from one number for all or one each."""
    found = numbers(value)
    if not isinstance(found, tuple):
        return (int(found),) * rank
    if len(found) not in (1, rank):
        raise ArgumentError(f"expected one number or {rank} of them, got {found}, at {user_line()}")
    return tuple(int(v) for v in found) if len(found) == rank else (int(found[0]),) * rank


def positive(name: str, what: str, value: Any, rank: int) -> Extents:
    """Return positive numbers, one for each axis; raises ArgumentError for others."""
    found = each(value, rank)
    if any(n < 1 for n in found):
        raise ArgumentError(f"{name}: {what} should be greater than zero, but got {found}, at {user_line()}")
    return found


def windows(x: Tensor, sizes: Extents, strides: Extents, dilations: Extents) -> list[Tensor]:
    """Return one tensor per offset in the windows over the last axes, with each window's element at that offset."""
    counts = _counts(x, sizes, strides, dilations)
    return [x[cuts] for cuts in _cuts(x.ndim - len(sizes), sizes, strides, dilations, counts)]


def _counts(x: Tensor, sizes: Extents, strides: Extents, dilations: Extents) -> list[int]:
    """Return the number of windows along each axis; raises ShapeError where it is zero."""
    spatial = x.shape[-len(sizes) :]
    counts = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(spatial, sizes, strides, dilations, strict=True)]
    if any(c < 1 for c in counts):
        raise ShapeError(f"a window of {sizes} does not fit into {spatial}, at {user_line()}")
    return counts


def _cuts(lead: int, sizes: Extents, strides: Extents, dilations: Extents, counts: Any) -> list[tuple[slice, ...]]:
    """Return for each offset in a window the slices, after `lead` axes, of the elements at that offset."""
    return [
        (*(slice(None),) * lead, *(slice(p * d, p * d + (c - 1) * s + 1, s) for p, d, c, s in
                                   zip(tap, dilations, counts, strides, strict=True)))
        for tap in itertools.product(*map(range, sizes))
    ]


# ---------------------------------------------------------------- convolutions
def _convolution(name: str, rank: int) -> None:
    @implements(name)
    def function(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
                 groups: Any = 1) -> Any:
        x, w = same_dtype(name, input, weight)
        single = x.ndim == rank + 1
        x = x.reshape((1, *x.shape)) if single else x
        strides, dilations = positive(name, "stride", stride, rank), positive(name, "dilation", dilation, rank)
        parts = int(numbers(groups))
        if x.ndim != rank + 2 or w.ndim != rank + 2 or x.shape[1] != w.shape[1] * parts or w.shape[0] % parts:
            raise ShapeError(f"{name}: an input of {x.shape} and weights of {w.shape} in {parts} groups do not fit, at "
                             f"{user_line()}")
        sizes = w.shape[2:]
        x = _padded(name, x, padding, sizes, strides, dilations)
        made = _biased(name, _product_with_windows(x, w, sizes, strides, dilations, parts), bias, rank)
        return wrap(made[0] if single else made)


def _biased(name: str, made: Tensor, bias: Any, rank: int) -> Tensor:
    if bias is None:
        return made
    _, b = same_dtype(name, made, bias)
    if b.shape != (made.shape[1],):
        raise ShapeError(f"{name}: a bias of {b.shape} for {made.shape[1]} channels, at {user_line()}")
    return made + b.reshape((1, made.shape[1]) + (1,) * rank)


def _padded(name: str, x: Tensor, padding: Any, sizes: Extents, strides: Extents, dilations: Extents) -> Tensor:
    rank = len(sizes)
    if padding == "same":
        if any(s != 1 for s in strides):
            raise ArgumentError(f"{name}: padding='same' is not supported for strided convolutions, at {user_line()}")
        total = [d * (k - 1) for k, d in zip(sizes, dilations, strict=True)]
        widths = [(t // 2, t - t // 2) for t in total]
    else:
        widths = [(0, 0)] * rank if padding == "valid" else [(p, p) for p in each(padding, rank)]
    if any(low < 0 for low, _ in widths):
        raise ArgumentError(f"{name}: negative padding is not supported, at {user_line()}")
    return arrangements.pad(x, [(0, 0), (0, 0), *widths]) if any(map(any, widths)) else x


def _product_with_windows(x: Tensor, w: Tensor, sizes: Extents, strides: Extents, dilations: Extents,
                          groups: int) -> Tensor:
    """Return (samples, channels out, ...): for each group, weights times the windows of its channels."""
    samples, channels = x.shape[:2]
    spatial = _counts(x, sizes, strides, dilations)
    outs, ins, taps = w.shape[0] // groups, channels // groups, math.prod(sizes)
    if outs == ins == 1 < taps <= _FEW_TAPS and str(x.dtype) in ("float32", "float64"):
        return _sum_of_slices(x, w, strides, dilations)
    lead = (samples, groups) if groups > 1 else (samples,)
    if taps > 1:
        columns = x.call("windows", sizes=sizes, steps=strides, dilations=dilations)
    else:
        columns = windows(x, sizes, strides, dilations)[0]
    columns = columns.reshape((*lead, ins * taps, math.prod(spatial)))
    rows = w.reshape((*lead[1:], outs, ins * taps))
    return product("convolution", rows, columns).reshape((samples, groups * outs, *spatial))


_FEW_TAPS: Final = 128
"""A depthwise convolution with up to so many weights is one kernel that sums slices, even over short rows: it reads the
image in place, while a product would wait for memory."""


def _sum_of_slices(x: Tensor, w: Tensor, strides: Extents, dilations: Extents) -> Tensor:
    """Return (samples, channels, ...): the sum of each channel's slices times its weights.

    The padded input and the result are stored: otherwise kernels compute them again for each slice.
    """
    x = x if x._storage.feed is not None else x.call("copy")
    sizes = w.shape[2:]
    weights = w.reshape((w.shape[0], *sizes, *(1,) * len(sizes)))
    total: Any = None
    for part, tap in zip(windows(x, sizes, strides, dilations), itertools.product(*map(range, sizes)), strict=True):
        term = part * weights[(slice(None), *tap)]
        total = term if total is None else total + term
    return total.call("copy")


def _transposed(name: str, rank: int) -> None:
    @implements(name)
    def function(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
                 groups: Any = 1, dilation: Any = 1) -> Any:
        x, w = same_dtype(name, input, weight)
        single = x.ndim == rank + 1
        x = x.reshape((1, *x.shape)) if single else x
        strides, dilations = positive(name, "stride", stride, rank), positive(name, "dilation", dilation, rank)
        parts = int(numbers(groups))
        widths, more = each(padding, rank), each(output_padding, rank)
        if x.ndim != rank + 2 or w.ndim != rank + 2 or x.shape[1] != w.shape[0] or w.shape[0] % parts:
            raise ShapeError(f"{name}: an input of {x.shape} and weights of {w.shape} in {parts} groups do not fit, at "
                             f"{user_line()}")
        if any(m >= max(s, d) for m, s, d in zip(more, strides, dilations, strict=True)):
            raise ArgumentError(f"{name}: output padding must be smaller than either stride or dilation, but got "
                                f"{more}, at {user_line()}")
        made = _added_to_windows(_columns(x, w, parts), w.shape[2:], strides, dilations, widths, more)
        made = _biased(name, made, bias, rank)
        return wrap(made[0] if single else made)


def _columns(x: Tensor, w: Tensor, groups: int) -> Tensor:
    """Return (samples, channels out, offsets in the window, ...): what each input element adds to its window."""
    samples, channels, *spatial = x.shape
    outs, taps = w.shape[1], math.prod(w.shape[2:])
    lead = (samples, groups) if groups > 1 else (samples,)
    rows = w.reshape((*lead[1:], channels // groups, outs * taps)).swapaxes(-1, -2)
    made = product("convolution", rows, x.reshape((*lead, channels // groups, math.prod(spatial))))
    return made.reshape((samples, groups * outs, taps, *spatial))


def _added_to_windows(columns: Tensor, sizes: Extents, strides: Extents, dilations: Extents, padding: Extents,
                      more: Extents) -> Tensor:
    """Return (samples, channels, ...): the columns added up in their windows, with the padding cut off."""
    samples, channels, _, *counts = columns.shape
    reach = [(c - 1) * s + d * (k - 1) + 1 for c, s, d, k in zip(counts, strides, dilations, sizes, strict=True)]
    full = [max(r, r + m - p) for r, m, p in zip(reach, more, padding, strict=True)]
    result = columns.create("zeros", shape=(samples, channels, *full), dtype=str(columns.dtype)).as_copy()
    for k, cuts in enumerate(_cuts(2, sizes, strides, dilations, counts)):
        result[cuts] = result[cuts] + columns[:, :, k]
    ends = [r - p + m for r, p, m in zip(reach, padding, more, strict=True)]
    kept = tuple(slice(p, e) for p, e in zip(padding, ends, strict=True))
    return result[(slice(None), slice(None), *kept)]


for _rank in (1, 2, 3):
    _convolution(f"conv{_rank}d", _rank)
    _transposed(f"conv_transpose{_rank}d", _rank)


# ---------------------------------------------------------------- windows as columns
@implements("unfold")
def unfold(input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """Return the windows of images as columns."""
    x, sizes, strides, dilations = operand(input), each(kernel_size, 2), each(stride, 2), each(dilation, 2)
    single = x.ndim == 3
    x = x.reshape((1, *x.shape)) if single else x
    x = _padded("unfold", x, each(padding, 2), sizes, strides, dilations)
    h, w = _counts(x, sizes, strides, dilations)
    made = x.call("windows", sizes=sizes, steps=strides, dilations=dilations)
    made = made.reshape((x.shape[0], x.shape[1] * math.prod(sizes), h * w)).as_copy()
    return wrap(made[0] if single else made)


@implements("fold")
def fold(input: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """Return images as the sums of their windows, given as columns."""
    x, target, sizes = operand(input), each(output_size, 2), each(kernel_size, 2)
    single = x.ndim == 2
    x = x.reshape((1, *x.shape)) if single else x
    strides, dilations, widths = each(stride, 2), each(dilation, 2), each(padding, 2)
    counts = [(n + 2 * p - d * (k - 1) - 1) // s + 1
              for n, p, d, k, s in zip(target, widths, dilations, sizes, strides, strict=True)]
    taps = math.prod(sizes)
    if x.ndim != 3 or x.shape[1] % taps or x.shape[2] != math.prod(counts):
        raise ShapeError(f"fold: columns of {x.shape} are no windows of {sizes} of images of {target}, at "
                         f"{user_line()}")
    columns = x.reshape((x.shape[0], x.shape[1] // taps, taps, *counts))
    more = tuple(n - ((c - 1) * s + d * (k - 1) + 1) + 2 * p for n, c, s, d, k, p in
                 zip(target, counts, strides, dilations, sizes, widths, strict=True))
    made = _added_to_windows(columns, sizes, strides, dilations, widths, more)
    return wrap(made[0] if single else made)


@implements("channel_shuffle", "native_channel_shuffle")
def channel_shuffle(input: Any, groups: Any) -> Any:
    """Interleave the channels of groups."""
    x, parts = operand(input), int(numbers(groups))
    if x.shape[1] % parts:
        raise ShapeError(f"channel_shuffle: {x.shape[1]} channels do not divide by {parts}, at {user_line()}")
    split = x.reshape((x.shape[0], parts, x.shape[1] // parts, *x.shape[2:]))
    return wrap(split.swapaxes(1, 2).reshape(x.shape).as_copy())

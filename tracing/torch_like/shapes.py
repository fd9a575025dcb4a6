"""torch's functions of shape over traced tensors.

Owns their entries in `jitfuse.tracing.torch_like.table`. Their results are views where torch's are.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from jitfuse.errors import ArgumentError, ShapeError, UnsupportedError
from jitfuse.ir.rules import shape_rules
from jitfuse.tracing.numpy_like import arrangements, shapes
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor import gathering
from jitfuse.tracing.tensor.function_table import Tensor
from jitfuse.tracing.tensor.traced import freeze
from jitfuse.tracing.torch_like.promotion import numbers, operand, strong
from jitfuse.tracing.torch_like.table import implements, method
from jitfuse.tracing.torch_like.tensor import wrap


def extents(given: Any) -> tuple[int, ...]:
    """Return extents given one by one or as a sequence."""
    found = numbers(given)
    if len(found) == 1 and isinstance(found[0], tuple):
        found = found[0]
    return tuple(int(n) for n in found)


def axis_of(x: Tensor, dim: Any) -> int:
    """Return an axis as a non-negative number; a tensor of rank 0 has the axis 0."""
    return shape_rules.normalize_axis("dim", int(numbers(dim)), max(x.ndim, 1))


@implements("reshape")
def reshape(input: Any, *sizes: Any, shape: Any = None) -> Any:
    """Return the elements under another shape."""
    return wrap(strong(input).reshape(extents(sizes or (shape,))))


@method("view")
def view(self: Any, *shape: Any, **options: Any) -> Any:
    """Return a view under another shape; raises for a dtype."""
    shape = shape or tuple(options.values())
    if len(shape) == 1 and isinstance(shape[0], torch.dtype):
        raise ArgumentError(f"Tensor.view(dtype) is not available inside a fused function, at {user_line()}")
    return _viewed(strong(self), extents(shape))


def _viewed(x: Tensor, shape: tuple[int, ...]) -> Any:
    """Return a view under another shape; raises ShapeError where an argument's memory has none.

    The memory layout of torch's own results is unknown here, so a computed tensor may be copied.
    """
    made = x.reshape(shape)
    storage = getattr(x, "_storage", None)
    if getattr(storage, "feed", None) is not None and made._storage is not storage:
        raise ShapeError(f"view: the elements of shape {tuple(x.shape)} do not lie so that {shape} could be a view of "
                         f"them; use reshape, at {user_line()}")
    return wrap(made)


implements("permute")(lambda input, *dims: wrap(strong(input).transpose(extents(dims))))


@implements("transpose", "swapaxes", "swapdims")
def transpose(input: Any, dim0: Any, dim1: Any) -> Any:
    """Exchange two axes."""
    x = strong(input)
    return wrap(x.swapaxes(axis_of(x, dim0), axis_of(x, dim1)) if x.ndim else x[...])


@implements("t")
def t(input: Any) -> Any:
    """Exchange the axes of a matrix."""
    x = strong(input)
    if x.ndim > 2:
        raise ShapeError(f"t() expects a tensor with <= 2 dimensions, but self is {x.ndim}D, at {user_line()}")
    return wrap(x.T if x.ndim == 2 else x[...])


@implements("squeeze")
def squeeze(input: Any, dim: Any = None) -> Any:
    """Drop axes of extent 1, and keep the others."""
    x = strong(input)
    given = numbers(dim)
    named = given if isinstance(given, tuple) else (given,)
    over = range(x.ndim) if given is None else [axis_of(x, d) for d in named]
    return wrap(x.reshape(tuple(n for k, n in enumerate(x.shape) if k not in over or n != 1)))


@implements("unsqueeze")
def unsqueeze(input: Any, dim: Any) -> Any:
    """Insert an axis."""
    return wrap(shapes.expand_dims(strong(input), int(numbers(dim))))


@implements("flatten")
def flatten(input: Any, start_dim: Any = 0, end_dim: Any = -1) -> Any:
    """Merge adjacent axes into one."""
    x = strong(input)
    a, b = axis_of(x, start_dim), axis_of(x, end_dim)
    if a > b:
        raise ShapeError(f"flatten() has invalid args: start_dim cannot come after end_dim, at {user_line()}")
    return wrap(x.reshape((*x.shape[:a], math.prod(x.shape[a : b + 1]), *x.shape[b + 1 :]))) if x.ndim else wrap(
        x.reshape((1,)))


@method("expand")
def expand(self: Any, *sizes: Any) -> Any:
    """Repeat along axes of extent 1; -1 keeps an extent."""
    x, given = operand(self), extents(sizes)
    lead = len(given) - x.ndim
    if lead < 0 or -1 in given[:lead] or min(given, default=0) < -1:
        raise ShapeError(f"expand: the sizes {given} do not fit a tensor of {x.shape}, at {user_line()}")
    shape = tuple(x.shape[k - lead] if n == -1 else n for k, n in enumerate(given))
    return wrap(x[...] if shape == x.shape else x.call("broadcast_to", shape=shape))


implements("diagonal")(lambda input, offset=0, dim1=0, dim2=1: wrap(
    arrangements.diagonal(strong(input), *(int(numbers(v)) for v in (offset, dim1, dim2)))))


@implements("select")
def select(input: Any, dim: Any, index: Any) -> Any:
    """Return the part at one index of an axis."""
    x = strong(input)
    return wrap(x[(*(slice(None),) * axis_of(x, dim), int(numbers(index)), ...)])


@implements("narrow")
def narrow(input: Any, dim: Any, start: Any, length: Any) -> Any:
    """Return a range of an axis; from a start that is a tensor on, a copy, not to be changed."""
    x = strong(input)
    along, count = axis_of(x, dim), int(numbers(length))
    lead = (slice(None),) * along
    if not isinstance(start, torch.Tensor):
        first = int(numbers(start)) + (x.shape[along] if numbers(start) < 0 else 0)
        if not 0 <= first <= first + count <= x.shape[along]:
            raise UnsupportedError(f"narrow: start ({first}) + length ({count}) exceeds dimension size "
                                   f"({x.shape[along]}), at {user_line()}")
        return wrap(x[(*lead, slice(first, first + count))])
    at = operand(start).reshape(()) + x.create("arange", count=count, dtype="int64")
    made = wrap(gathering.take(x, at, along))
    freeze("torch.narrow", x, made.tensor)
    return made


@implements("unbind")
def unbind(input: Any, dim: Any = 0) -> Any:
    """Return the parts along an axis."""
    x = strong(input)
    lead = (slice(None),) * axis_of(x, dim)
    return tuple(wrap(x[(*lead, k, ...)]) for k in range(x.shape[len(lead)]))


@implements("split")
def split(tensor: Any, split_size_or_sections: Any, dim: Any = 0) -> Any:
    """Split an axis into parts of one size, or of given sizes."""
    x, sizes = strong(tensor), numbers(split_size_or_sections)
    along = axis_of(x, dim)
    n = x.shape[along]
    if isinstance(sizes, tuple):
        if sum(sizes) != n:
            raise ShapeError(f"split: sizes {sizes} do not sum up to {n}, at {user_line()}")
        counts = list(sizes)
    else:
        if sizes < 0 or (sizes == 0 and n):
            raise ShapeError(f"split expects split_size to be positive, but got {sizes}, at {user_line()}")
        counts = [min(sizes, n - k) for k in range(0, n, max(sizes, 1))] or [0]
    lead, parts, at = (slice(None),) * along, [], 0
    for count in counts:
        parts.append(wrap(x[(*lead, slice(at, at + count))]))
        at += count
    return tuple(parts)


implements("split_with_sizes", "unsafe_split", "unsafe_split_with_sizes")(
    lambda input, split_size, dim=0: split(input, split_size, dim))


# ---------------------------------------------------------------- in place
def _changed(name: str, change: Callable[..., Any]) -> None:
    """Register an in-place method that makes the tensor another view of its memory."""
    @method(name)
    def function(self: Any, *args: Any, **kwargs: Any) -> Any:
        x = self.tensor
        if x is x._run.feed_tensors.get(x._storage.feed.id if x._storage.feed is not None else None):
            raise UnsupportedError(
                f"Tensor.{name} of a tensor from outside of the fused function, at {user_line()}: its axes would "
                f"change for the caller too. Use x.{name[:-1]}(...), and return the result.")
        self.become(change(self, *args, **kwargs).tensor)
        return self


for _name, _change in {
    "unsqueeze_": unsqueeze, "squeeze_": squeeze, "transpose_": transpose, "t_": t,
    "swapaxes_": transpose, "swapdims_": transpose,
}.items():
    _changed(_name, _change)

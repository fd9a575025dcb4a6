"""torch.nn.functional's embeddings over traced tensors, whose indices are counted from 0.

Owns their entries in `jitfuse.tracing.torch_like.table`.
"""
from __future__ import annotations

import math
from typing import Any

from jitfuse.errors import ArgumentError, DTypeError, UnsupportedError
from jitfuse.ir.statuses import NO_CLASS
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor import gathering
from jitfuse.tracing.tensor.function_table import Tensor
from jitfuse.tracing.torch_like.indexing import from_zero
from jitfuse.tracing.torch_like.promotion import cast, numbers, operand, require_float
from jitfuse.tracing.torch_like.real_tensors import run_of_trace
from jitfuse.tracing.torch_like.table import implements
from jitfuse.tracing.torch_like.tensor import wrap


@implements("embedding")
def embedding(input: Any, weight: Any, padding_idx: Any = None, max_norm: Any = None, norm_type: Any = 2.0,
              scale_grad_by_freq: bool = False, sparse: bool = False) -> Any:
    """Return the rows of a table at indices."""
    if max_norm is not None:
        raise UnsupportedError(f"embedding(max_norm=...) is not available, at {user_line()}. Normalise the table.")
    at, table = operand(input), operand(weight)
    if str(at.dtype) not in ("int32", "int64"):
        raise DTypeError(f"embedding: expected indices of Long or Int, but got {at.dtype}, at {user_line()}")
    rows = gathering.take(table, from_zero(at, table.shape[0]), 0)
    if not run_of_trace().differentiated:
        return wrap(rows)
    if scale_grad_by_freq or sparse:
        raise UnsupportedError(f"gradients of embedding with scale_grad_by_freq or sparse are not available, at "
                               f"{user_line()}")
    if padding_idx is None:
        return wrap(rows)
    padding = at.call("equal", int(padding_idx) % table.shape[0]).expand_dims(-1)
    return wrap(padding.call("where", rows.call("stop_gradient"), rows))


@implements("embedding_bag")
def embedding_bag(input: Any, weight: Any, offsets: Any = None, max_norm: Any = None, norm_type: Any = 2.0,
                  scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
                  per_sample_weights: Any = None, include_last_offset: bool = False, padding_idx: Any = None) -> Any:
    """Return the mean, sum or largest of the rows in each bag of indices, one row for each bag."""
    at, table = operand(input), operand(weight)
    require_float("embedding_bag", table)
    if max_norm is not None:
        raise UnsupportedError(f"embedding_bag(max_norm=...) is not available, at {user_line()}. Normalise the table.")
    if run_of_trace().differentiated and (scale_grad_by_freq or sparse):
        raise UnsupportedError(f"gradients of embedding_bag with scale_grad_by_freq or sparse are not available, at "
                               f"{user_line()}")
    if per_sample_weights is not None and mode != "sum":
        raise ArgumentError(f"embedding_bag: per_sample_weights need mode='sum', at {user_line()}")
    if mode not in ("sum", "mean", "max"):
        raise ArgumentError(f"embedding_bag: mode is one of sum, mean and max, not {mode!r}, at {user_line()}")
    rows = gathering.take(table, from_zero(at, table.shape[0]), 0)
    if per_sample_weights is not None:
        rows = rows * operand(per_sample_weights).reshape((*at.shape, 1))
    if offsets is None and padding_idx is None and at.ndim == 2:
        return wrap(rows.call(mode, axis=1))
    return wrap(_of_bags(at, rows, offsets, mode, bool(include_last_offset), None if padding_idx is None else (
        int(numbers(padding_idx)) % table.shape[0])))


def _of_bags(at: Tensor, rows: Tensor, offsets: Any, mode: str, ends: bool, padding: int | None) -> Tensor:
    """Reduce the rows of bags that begin at offsets, or of those of one size; rows of `padding` do not count."""
    width, count = rows.shape[-1], math.prod(at.shape)
    place = at.create("arange", count=count, dtype="int64")
    if offsets is None:
        bags, number = place.call("floor_divide", at.shape[-1]), at.shape[0]
    else:
        starts = operand(offsets)
        number = starts.shape[0] - ends
        bags = cast(starts[:number].expand_dims(0).call("less_equal", place.expand_dims(-1)), "int64").call(
            "sum", axis=-1) - 1
    flat, dtype = rows.reshape((count, width)), str(rows.dtype)
    kept = at.create("full", shape=(count, 1), value=True, dtype="bool") if padding is None else at.reshape(
        (count, 1)).call("not_equal", padding)
    empty = rows.create("zeros", shape=(number, width), dtype=dtype).as_copy()
    counts = rows.create("zeros", shape=(number, 1), dtype=dtype).as_copy()
    gathering.set_item(counts, bags, cast(kept, dtype), "add")
    if mode != "max":
        gathering.set_item(empty, bags, kept.call("where", flat, 0), "add")
        return empty if mode == "sum" else empty / counts.call("maximum", 1)
    lowest = empty - math.inf
    gathering.set_item(lowest, bags, kept.call("where", flat, -math.inf), "maximum")
    return counts.call("greater", 0).call("where", lowest, 0)


@implements("one_hot")
def one_hot(tensor: Any, num_classes: Any = -1) -> Any:
    """Return int64 ones at the classes, and zeros elsewhere; without a number of classes, the largest is read."""
    x, count = operand(tensor), int(numbers(num_classes))
    if str(x.dtype) != "int64":
        raise DTypeError(f"one_hot is only applicable to index tensor of type LongTensor, at {user_line()}")
    if count < 0:
        count = int(x.call("max")) + 1
    inside = x.call("greater_equal", 0).call("logical_and", x.call("less", count))
    x = x.call("require", inside, status=NO_CLASS)
    classes = x.create("arange", count=count, dtype="int64")
    return wrap(cast(x.reshape((*x.shape, 1)).call("equal", classes), "int64"))

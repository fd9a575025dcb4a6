"""torch's functions that combine tensors or return parts of them, over traced tensors.

Owns their entries in `jitfuse.tracing.torch_like.table`. The basic views are in
`jitfuse.tracing.torch_like.shapes`, joins and rearrangements in `jitfuse.tracing.torch_like.joins`.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from jitfuse.tracing.numpy_like import shapes
from jitfuse.tracing.torch_like.promotion import cast, numbers, operand, strong
from jitfuse.tracing.torch_like.shapes import axis_of, split
from jitfuse.tracing.torch_like.table import implements
from jitfuse.tracing.torch_like.tensor import wrap


# ---------------------------------------------------------------- parts
@implements("split_with_sizes", "unsafe_split", "unsafe_split_with_sizes")
def split_with_sizes(input: Any, split_sizes: Any, dim: Any = 0) -> Any:
    """Split an axis into parts of given sizes."""
    return split(input, split_sizes, dim)


# ---------------------------------------------------------------- tensors with a part replaced
@implements("diagonal_scatter")
def diagonal_scatter(input: Any, src: Any, offset: Any = 0, dim1: Any = 0, dim2: Any = 1) -> Any:
    """Return the tensor with a diagonal replaced."""
    x = strong(input).as_copy()
    k, a, b = int(numbers(offset)), axis_of(x, dim1), axis_of(x, dim2)
    count = max(min(x.shape[a] - max(-k, 0), x.shape[b] - max(k, 0)), 0)
    line = np.arange(count)
    turned = shapes.moveaxis(x, (a, b), (-2, -1))
    turned[..., line + max(-k, 0), line + max(k, 0)] = cast(operand(src), str(x.dtype))
    return wrap(x)

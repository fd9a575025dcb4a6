"""torch's functions that gather and scatter elements over traced tensors: gather, scatter, index_select and their kin.

Owns their entries in `jitfuse.tracing.torch_like.table`. `x[...]` is in `jitfuse.tracing.torch_like.tensor`.
"""
from __future__ import annotations

import math
from typing import Any, Final

from jitfuse.dtypes import integer_range, is_integer
from jitfuse.errors import ArgumentError, DTypeError, UnsupportedError
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor import gathering
from jitfuse.tracing.tensor.function_table import Tensor
from jitfuse.tracing.torch_like.dispatcher import missing
from jitfuse.tracing.torch_like.promotion import cast, numbers, operand, strong
from jitfuse.tracing.torch_like.real_tensors import run_of_trace
from jitfuse.tracing.torch_like.shapes import axis_of
from jitfuse.tracing.torch_like.table import implements, method
from jitfuse.tracing.torch_like.tensor import wrap


def from_zero(index: Tensor, extent: int) -> Tensor:
    """Return an index itself; negative indices, which torch rejects here, raise at run time."""
    if not str(index.dtype).startswith("int"):
        return index
    return index.call("less", 0).call("where", index - extent, index)


@implements("index_select")
def index_select(input: Any, dim: Any, index: Any) -> Any:
    """Return the parts at indices of an axis."""
    x = strong(input)
    along, at = axis_of(x, dim), operand(index)
    if str(at.dtype) not in ("int32", "int64") or at.ndim > 1:
        raise DTypeError(f"index_select(): expected an index of int32 or int64 with one axis, got {at.dtype} of "
                         f"{at.shape}, at {user_line()}")
    if not x.ndim:
        return wrap(gathering.take(x.reshape((1,)), at, 0).reshape(()))
    return wrap(gathering.take(x, from_zero(at, x.shape[along]), along))


@implements("take_along_dim")
def take_along_dim(input: Any, indices: Any, dim: Any = None) -> Any:
    """Return elements along an axis; each position along the other axes has its own indices."""
    return wrap(gathering.take_along_axis(strong(input), operand(indices), None if dim is None else int(numbers(dim))))


def _indices(x: Tensor, along: int, index: Tensor) -> tuple[Any, ...]:
    """Return an index for each axis: `index` along one axis, and positions along the others."""
    def line(k: int) -> Tensor:
        shape = tuple(-1 if j == k else 1 for j in range(index.ndim))
        return x.create("arange", count=index.shape[k], dtype="int64").reshape(shape)

    return tuple(index if k == along else line(k) for k in range(index.ndim))


@implements("gather")
def gather(input: Any, dim: Any, index: Any, *, sparse_grad: bool = False) -> Any:
    """Return elements along an axis at an index for each position; the index may be shorter along the other axes."""
    x, at = strong(input), operand(index)
    along = axis_of(x, dim)
    if not x.ndim:
        return wrap(x.as_copy())
    at = from_zero(at, x.shape[along])
    if all(n == m for k, (n, m) in enumerate(zip(at.shape, x.shape, strict=True)) if k != along):
        return wrap(x.call("take_along_axis", at, axis=along))
    return wrap(x[_indices(x, along, at)])


_COMBINE: Final = {None: "set", "add": "add", "sum": "add", "multiply": "multiply", "prod": "multiply",
                   "amax": "maximum", "amin": "minimum"}


@implements("scatter")
def scatter(input: Any, dim: Any, index: Any, src: Any = None, *, value: Any = None, reduce: Any = None) -> Any:
    """Return the tensor with elements of src, or a value, written at indices along an axis."""
    x, at = strong(input), operand(index)
    new = operand(value if src is None else src)
    if reduce not in _COMBINE:
        raise UnsupportedError(f"scatter(reduce={reduce!r}) is not available, at {user_line()}")
    if not new.weak and new.dtype != x.dtype:
        raise DTypeError(f"scatter(): expected self.dtype to be equal to src.dtype, got {x.dtype} and {new.dtype}, at "
                         f"{user_line()}")
    at = from_zero(at, x.shape[axis_of(x, dim)] if x.ndim else 1)
    target = x.as_copy()
    part = new[tuple(slice(0, n) for n in at.shape)] if new.ndim else new
    gathering.set_item(target, _indices(x, axis_of(x, dim), at), cast(part, str(x.dtype)), _COMBINE[reduce])
    return wrap(target)


implements("scatter_add")(lambda input, dim, index, src: scatter(input, dim, index, src, reduce="add"))


@implements("scatter_reduce")
def scatter_reduce(input: Any, dim: Any, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Any:
    """Return the tensor with elements of src combined at indices along an axis."""
    x, new, at = strong(input), operand(src), operand(index)
    dtype = str(x.dtype)
    if dtype == "bool":
        raise UnsupportedError(f"scatter_reduce of bools is not available, at {user_line()}")
    if reduce not in _IDENTITY or new.dtype != x.dtype:
        raise ArgumentError(f"scatter_reduce of {x.dtype} and {new.dtype}: reduce is one of {', '.join(_IDENTITY)}, "
                            f"not {reduce!r}, at {user_line()}")
    if include_self and reduce != "mean":
        return scatter(input, dim, index, src, reduce=reduce)
    counts = x.create("full" if include_self else "zeros", shape=x.shape, dtype="int64",
                      **({"value": 1} if include_self else {}))
    ones = x.create("full", shape=at.shape, value=1, dtype="int64")
    counts = scatter(wrap(counts), dim, index, wrap(ones), reduce="add").tensor
    if not include_self:
        x = counts.call("greater", 0).call("where", cast(operand(_identity(reduce, dtype)), dtype), x)
    made = scatter(wrap(x), dim, index, src, reduce="sum" if reduce == "mean" else reduce)
    if reduce != "mean":
        return made
    divisor = cast(counts.call("maximum", 1), dtype)
    return wrap(cast(made.tensor.call("floor_divide" if is_integer(dtype) else "divide", divisor), dtype))


_IDENTITY: Final = {"sum": 0, "mean": 0, "prod": 1, "amax": -math.inf, "amin": math.inf}


def _identity(reduce: str, dtype: str) -> Any:
    """Return the identity of a reduction in a dtype."""
    if reduce in ("amax", "amin") and is_integer(dtype):
        return integer_range(dtype)[0 if reduce == "amax" else 1]
    return _IDENTITY[reduce]


@implements("index_add")
def index_add(input: Any, dim: Any, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    """Return the tensor with parts added at indices of an axis."""
    if strong(input).dtype != operand(source).dtype:
        raise DTypeError(f"index_add_(): self ({strong(input).dtype}) and source ({operand(source).dtype}) must have "
                         f"the same scalar type, at {user_line()}")
    return _at_indices(input, dim, index, operand(source) * numbers(alpha), "add")


implements("index_copy")(lambda input, dim, index, source: _at_indices(input, dim, index, operand(source), "set"))
implements("index_fill")(lambda input, dim, index, value: _at_indices(input, dim, index, operand(value), "set"))


def _at_indices(input: Any, dim: Any, index: Any, value: Tensor, combine: str) -> Any:
    x = strong(input)
    target = x.as_copy()
    along = axis_of(x, dim)
    key = (*(slice(None),) * along, from_zero(operand(index), x.shape[along]))
    gathering.set_item(target, key, cast(value, str(x.dtype)), combine)
    return wrap(target)


@implements("index_reduce")
def index_reduce(input: Any, dim: Any, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Any:
    """Return the tensor with parts combined at indices of an axis."""
    if not run_of_trace().differentiated:
        raise missing("torch.index_reduce")  # it has fewer atomic writes
    x, new, at = strong(input), operand(source), operand(index)
    along, shape = axis_of(x, dim), new.shape or (1,)
    at = at.reshape(tuple(-1 if k == along else 1 for k in range(len(shape)))).call("broadcast_to", shape=shape)
    made = scatter_reduce(wrap(x.reshape(x.shape or (1,))), along, wrap(at), wrap(new.reshape(shape)), reduce,
                          include_self=include_self)
    return wrap(operand(made).reshape(x.shape))


@implements("index_put")
def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """Return the tensor with values at indices."""
    x = strong(input)
    target = x.as_copy()
    key = tuple(slice(None) if i is None else operand(i) for i in indices)
    gathering.set_item(target, key, cast(operand(values), str(x.dtype)), "add" if accumulate else "set")
    return wrap(target)


@implements("put")
def put(input: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """Return the tensor with values at indices into all of its elements."""
    x, at = strong(input), operand(index).ravel()
    target = x.ravel().as_copy()
    gathering.set_item(target, at, cast(operand(source).ravel(), str(x.dtype)), "add" if accumulate else "set")
    return wrap(target.reshape(x.shape))


@method("fill_diagonal_")
def fill_diagonal_(self: Any, fill_value: Any, wrap: bool = False) -> Any:
    """Write a number on the diagonal."""
    if wrap:
        raise UnsupportedError(f"fill_diagonal_(wrap=True) is not available, at {user_line()}")
    x = self.tensor
    n = min(x.shape)
    line = x.create("arange", count=n, dtype="int64")
    x[(line,) * x.ndim] = numbers(fill_value)
    return self

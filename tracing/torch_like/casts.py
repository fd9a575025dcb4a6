"""torch's casts, copies, sizes and tensors made like others, over traced tensors.

Owns their entries in `jitfuse.tracing.torch_like.table`. Traces have no gradients: `detach` and `requires_grad_`
return the tensor itself.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jitfuse.errors import DTypeError
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.torch_like.creation import tensor
from jitfuse.tracing.torch_like.promotion import (
    assign,
    cast,
    dtype_named,
    kept_order,
    numbers,
    operand,
    require_cpu,
    run_of_trace,
    strong,
)
from jitfuse.tracing.torch_like.table import implements, method
from jitfuse.tracing.torch_like.tensor import wrap


@method("to")
def to(self: Any, *args: Any, dtype: Any = None, device: Any = None, copy: bool = False, **options: Any) -> Any:
    """Return the tensor in a dtype, or itself if it has it."""
    for given in args:
        if isinstance(given, torch.dtype):
            dtype = given
        elif isinstance(given, torch.Tensor):
            dtype = given.dtype
        elif not isinstance(given, bool):
            require_cpu(given)
    require_cpu(device)
    name = str(self.tensor.dtype) if dtype is None else dtype_named(dtype)
    if name == str(self.tensor.dtype):
        return clone(self) if copy else self
    return wrap(cast(self.tensor, name))


@method("type")
def type_(self: Any, dtype: Any = None, non_blocking: bool = False) -> Any:
    """Return the tensor in a dtype, or the name of its type."""
    if dtype is None:
        raise DTypeError(f"Tensor.type() is not available inside a fused function, at {user_line()}. Use x.dtype.")
    return to(self, dtype)


def _named(name: str) -> Callable[..., Any]:
    def function(self: Any, **options: Any) -> Any:
        return to(self, getattr(torch, name))

    function.__name__ = name
    return function


for _name, _dtype in {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "int": "int32",
    "long": "int64", "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool", "cfloat": "complex64",
    "cdouble": "complex128",
}.items():
    method(_name)(_named(_dtype))


# ---------------------------------------------------------------- the tensor itself
@method("contiguous")
def contiguous(self: Any, memory_format: Any = None) -> Any:
    """Return the tensor, or a copy where its elements are not contiguous."""
    return self if self.tensor.is_contiguous else wrap(self.tensor.as_copy())


@method("cpu", "requires_grad_", "pin_memory", "coalesce", "resolve_conj", "resolve_neg", "retain_grad")
def itself(self: Any, *args: Any, **options: Any) -> Any:
    """Return the tensor: it is on the CPU, and the program decides where its memory lies."""
    return self


@implements("detach")
def detach(input: Any) -> Any:
    """Return the tensor; a constant in a function that is differentiated, which shares no memory with it then."""
    return wrap(operand(input).call("stop_gradient")) if run_of_trace().differentiated else input


@method("detach_")
def detach_(self: Any) -> Any:
    """Make the tensor a constant in a function that is differentiated."""
    return assign(self, detach(self), "detach") if run_of_trace().differentiated else self


@method("cuda")
def cuda(self: Any, *args: Any, **options: Any) -> Any:
    """Raise, because traces run on the CPU."""
    require_cpu("cuda")


@implements("clone")
def clone(input: Any, *, memory_format: Any = None) -> Any:
    """Return a copy, in the order of its axes in memory unless another is asked for."""
    x = operand(input)
    return wrap(kept_order(x.as_copy(), x) if memory_format in (None, torch.preserve_format) else x.as_copy())


@method("numpy")
def numpy(self: Any, *, force: bool = False) -> Any:
    """Return the traced tensor with NumPy's methods."""
    return self.tensor


@method("item")
def item(self: Any) -> Any:
    """Return the only element as a Python number."""
    return self.tensor.item()


@method("tolist")
def tolist(self: Any) -> Any:
    """Return the values as lists; unknown values are read."""
    return self.tensor.tolist()


@method("copy_")
def copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """Write the elements of another tensor, cast and broadcast."""
    new = operand(src)
    self.tensor._assign(cast(new, str(self.tensor.dtype)))
    return self


# ---------------------------------------------------------------- sizes
@method("size")
def size(self: Any, dim: Any = None) -> Any:
    """Return the extents, or one of them."""
    return self.shape if dim is None else self.shape[int(numbers(dim))]


@implements("numel")
def numel(input: Any) -> int:
    """Return the number of elements."""
    return int(operand(input).size)


@method("nelement")
def nelement(self: Any) -> int:
    """Return the number of elements."""
    return int(self.tensor.size)


@method("dim", "ndimension")
def dim(self: Any) -> int:
    """Return the number of axes."""
    return int(self.tensor.ndim)


@method("element_size")
def element_size(self: Any) -> int:
    """Return the bytes of one element."""
    return int(self.itemsize)


@method("is_contiguous")
def is_contiguous(self: Any, memory_format: Any = None) -> bool:
    """Return whether the elements are contiguous."""
    return bool(self.tensor.is_contiguous)


@method("get_device")
def get_device(self: Any) -> int:
    """Return -1, the CPU."""
    return -1


# ---------------------------------------------------------------- made after another
def _like(value: Any, input: Any, dtype: Any, shape: Any = None, device: Any = None) -> Any:
    require_cpu(device)
    x = strong(input)
    name = str(x.dtype) if dtype is None else dtype_named(dtype)
    made = cast(operand(value), name).call("broadcast_to", shape=x.shape if shape is None else shape).as_copy()
    return wrap(kept_order(made, x) if shape is None else made)


@implements("zeros_like", "empty_like")
def zeros_like(input: Any, *, dtype: Any = None, device: Any = None, **options: Any) -> Any:
    """Return zeros of a tensor's shape and dtype."""
    return _like(0, input, dtype, device=device)


@implements("ones_like")
def ones_like(input: Any, *, dtype: Any = None, device: Any = None, **options: Any) -> Any:
    """Return ones of a tensor's shape and dtype."""
    return _like(1, input, dtype, device=device)


@implements("full_like")
def full_like(input: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, **options: Any) -> Any:
    """Return a tensor filled with one value, of another's shape and dtype."""
    return _like(fill_value, input, dtype, device=device)


@method("new_tensor")
def new_tensor(self: Any, data: Any, *, dtype: Any = None, device: Any = None, **options: Any) -> Any:
    """Return data as a tensor of the tensor's dtype."""
    return tensor(data, dtype=self.dtype if dtype is None else dtype, device=device)


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
from jitfuse.tracing.torch_like.dispatcher import settled
from jitfuse.tracing.torch_like.promotion import (
    assign,
    cast,
    dtype_named,
    kept_order,
    operand,
    require_cpu,
    strong,
)
from jitfuse.tracing.torch_like.real_tensors import run_of_trace
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


def _to(dtype: Any) -> Callable[..., Any]:
    return lambda self, **options: to(self, dtype)


for _name in ("float", "double", "half", "bfloat16", "int", "long", "short", "bool", "cfloat", "cdouble"):
    method(_name)(_to(getattr(torch, _name)))
method("char")(_to(torch.int8))
method("byte")(_to(torch.uint8))


# ---------------------------------------------------------------- the tensor itself
@method("contiguous")
def contiguous(self: Any, memory_format: Any = None) -> Any:
    """Return the tensor, or a copy where its elements are not contiguous."""
    return self if self.tensor.is_contiguous else wrap(self.tensor.as_copy())


# on the CPU, and the program decides where memory lies
method("cpu", "requires_grad_", "pin_memory", "coalesce", "resolve_conj", "resolve_neg", "retain_grad")(
    lambda self, *args, **options: self)
method("cuda")(lambda self, *args, **options: require_cpu("cuda"))
method("numpy")(lambda self, *, force=False: self.tensor)
method("item")(lambda self: self.tensor.item())
method("tolist")(lambda self: self.tensor.tolist())


@implements("detach")
def detach(input: Any) -> Any:
    """Return the tensor; a constant in a function that is differentiated, which shares no memory with it then."""
    return wrap(operand(input).call("stop_gradient")) if run_of_trace().differentiated else input


@method("detach_")
def detach_(self: Any) -> Any:
    """Make the tensor a constant in a function that is differentiated."""
    return assign(self, detach(self), "detach") if run_of_trace().differentiated else self


@implements("clone")
def clone(input: Any, *, memory_format: Any = None) -> Any:
    """Return a copy, in the order of its axes in memory unless another is asked for."""
    x = operand(input)
    return wrap(kept_order(x.as_copy(), x) if memory_format in (None, torch.preserve_format) else x.as_copy())


@method("copy_")
def copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """Write the elements of another tensor, cast and broadcast."""
    self.tensor._assign(cast(operand(src), str(self.tensor.dtype)))
    return self


# ---------------------------------------------------------------- sizes and dtypes
def _by_torch(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return an entry by torch's own code: tensors without memory have the right sizes, strides and dtypes."""
    def function(*args: Any, **kwargs: Any) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            return original(*map(settled, args), **kwargs)

    return function


for _name in ("size", "dim", "ndimension", "nelement", "element_size", "get_device", "stride"):
    method(_name)(_by_torch(getattr(torch.Tensor, _name)))
for _name in ("numel", "is_floating_point", "is_complex", "result_type"):
    implements(_name)(_by_torch(getattr(torch, _name)))
method("is_contiguous")(lambda self, memory_format=None: bool(self.tensor.is_contiguous))


# ---------------------------------------------------------------- made after another
@implements("full_like")
def full_like(input: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, **options: Any) -> Any:
    """Return a tensor filled with one value, of another's shape and dtype."""
    require_cpu(device)
    x = strong(input)
    name = str(x.dtype) if dtype is None else dtype_named(dtype)
    return wrap(kept_order(cast(operand(fill_value), name).call("broadcast_to", shape=x.shape).as_copy(), x))


implements("zeros_like", "empty_like")(lambda input, **options: full_like(input, 0, **options))
implements("ones_like")(lambda input, **options: full_like(input, 1, **options))


@method("new_tensor")
def new_tensor(self: Any, data: Any, *, dtype: Any = None, device: Any = None, **options: Any) -> Any:
    """Return data as a tensor of the tensor's dtype."""
    return tensor(data, dtype=self.dtype if dtype is None else dtype, device=device)


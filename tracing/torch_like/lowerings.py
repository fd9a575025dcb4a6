"""Lowerings of ATen operators whose arguments are not those of torch's function of the name.

Most operators take what torch's function of their name takes, and are lowered by its entry in
`jitfuse.tracing.torch_like.table`. Owns what torch's composite functions leave besides: factories, views by position,
casts, and kernels with options in other places.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch

from jitfuse.dtypes import is_narrow
from jitfuse.errors import UnsupportedError
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor import gathering
from jitfuse.tracing.torch_like import casts, creation, elementwise, embeddings, networks, shapes
from jitfuse.tracing.torch_like.arithmetic import add, sub
from jitfuse.tracing.torch_like.dispatcher import lowers
from jitfuse.tracing.torch_like.promotion import cast, dtype_named, numbers, operand, require_cpu, strong
from jitfuse.tracing.torch_like.real_tensors import run_of_trace
from jitfuse.tracing.torch_like.table import FUNCTIONS
from jitfuse.tracing.torch_like.tensor import wrap

# ---------------------------------------------------------------- the same memory
lowers("alias", "lift", "lift_fresh")(lambda input: wrap(strong(input)[...]))
lowers("_unsafe_view", "_reshape_alias")(lambda input, size, *strides: shapes.reshape(input, size))
lowers("expand")(lambda input, size, *, implicit=False: shapes.expand(input, size))
lowers("_conj", "_conj_physical")(FUNCTIONS["conj"])


@lowers("slice")
def slice_(input: Any, dim: Any = 0, start: Any = None, end: Any = None, step: Any = 1) -> Any:
    """Return a part of an axis, with Python's rules for its ends."""
    x = strong(input)
    return wrap(x[(*(slice(None),) * shapes.axis_of(x, dim), slice(*numbers((start, end, step))))])


@lowers("as_strided")
def as_strided(input: Any, size: Any, stride: Any, storage_offset: Any = None) -> Any:
    """Return elements at steps from the first one on; in a derivative also in another order, which is a copy then."""
    x = strong(input)
    last = sum((n - 1) * step for n, step in zip(size, stride, strict=True)) if 0 not in size else -1
    if not x.is_contiguous or storage_offset is not None or last >= x.size:
        raise UnsupportedError(f"as_strided beyond a tensor's elements is not available, at {user_line()}")
    if math.prod(size) == x.size:
        made = shapes.reshape(input, size)
        if made.stride() == tuple(stride):
            return made
    if not run_of_trace().differentiated:
        raise UnsupportedError(f"as_strided in another order of elements is not available, at {user_line()}")
    at = x.create("zeros", shape=(), dtype="int64")
    for k, (n, step) in enumerate(zip(size, stride, strict=True)):
        at = at + x.create("arange", count=n, dtype="int64").reshape((n, *(1,) * (len(size) - k - 1))) * step
    return elementwise.in_new_memory("torch.as_strided", x, gathering.take(x.ravel(), at, 0))


@lowers("log_sigmoid_forward")
def log_sigmoid_forward(input: Any) -> Any:
    """Return log(sigmoid(x)), and the buffer of torch's own derivative, which nothing reads."""
    return networks.logsigmoid(input), wrap(strong(input).create("zeros", shape=(0,), dtype="float32"))


# ---------------------------------------------------------------- casts and copies
@lowers("_to_copy")
def to_copy(input: Any, *, dtype: Any = None, device: Any = None, **options: Any) -> Any:
    """Return a copy in a dtype."""
    require_cpu(device)
    return casts.clone(input) if dtype is None else casts.clone(wrap(cast(strong(input), dtype_named(dtype))))


@lowers("copy")
def copy(input: Any, src: Any, non_blocking: bool = False) -> Any:
    """Return another tensor's elements in this one's shape and dtype."""
    x = strong(input)
    return wrap(cast(operand(src), str(x.dtype)).call("broadcast_to", shape=x.shape).as_copy())


lowers("fill")(copy)
lowers("_local_scalar_dense")(lambda input: numbers(strong(input).item()))


# ---------------------------------------------------------------- factories
@lowers("scalar_tensor")
def scalar_tensor(value: Any, *, dtype: Any = None, device: Any = None, **options: Any) -> Any:
    """Return a number as a tensor of rank 0."""
    return creation.full((), value, dtype=torch.get_default_dtype() if dtype is None else dtype, device=device)


@lowers("empty_strided")
def empty_strided(size: Any, stride: Any, **options: Any) -> Any:
    """Return a tensor that holds anything."""
    return creation.full(size, 0, dtype=options.get("dtype") or torch.get_default_dtype(), device=options.get("device"))


_FACTORIES: Final[dict[str, Callable[..., Any]]] = {
    "zeros": creation.zeros, "ones": creation.ones, "empty": creation.zeros, "full": creation.full,
    "arange": creation.arange, "eye": creation.eye, "linspace": creation.linspace,
}
for _name, _factory in _FACTORIES.items():
    lowers(_name)(_factory)


# ---------------------------------------------------------------- arithmetic
lowers("add.Scalar")(lambda input, other, alpha=1: add(input, other, alpha=alpha))
lowers("sub.Scalar")(lambda input, other, alpha=1: sub(input, other, alpha=alpha))


@lowers("index")
def index(input: Any, indices: Any) -> Any:
    """Return the elements at indices along some axes; None takes a whole axis."""
    return input[tuple(slice(None) if i is None else i for i in indices)]


# ---------------------------------------------------------------- networks
def _softmax(name: str) -> Callable[..., Any]:
    return lambda input, dim, half_to_float: FUNCTIONS[name](input, dim, dtype=torch.float32 if half_to_float else None)


lowers("_softmax")(_softmax("softmax"))
lowers("_log_softmax")(_softmax("log_softmax"))
lowers("_scaled_dot_product_flash_attention_for_cpu")(
    lambda query, key, value, *options, attn_mask=None, **named: (
        networks.scaled_dot_product_attention(query, key, value, attn_mask, *options, **named), None))
lowers("embedding")(lambda weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False: (
    embeddings.embedding(indices, weight, None if padding_idx < 0 else padding_idx,
                         scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)))
lowers("constant_pad_nd")(lambda input, pad, value=0: networks.pad(input, pad, "constant", value))


@lowers("convolution")
def convolution(input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
                output_padding: Any, groups: Any) -> Any:
    """Return the convolution, or its transpose, over all axes but two."""
    rank = len(weight.shape) - 2
    if transposed:
        return FUNCTIONS[f"conv_transpose{rank}d"](input, weight, bias, stride, padding, output_padding, groups,
                                                   dilation)
    return FUNCTIONS[f"conv{rank}d"](input, weight, bias, stride, padding, dilation, groups)


def _statistics_are_constants(op: Any) -> Callable[..., Any]:
    """Return torch's decomposition of a normalisation, with statistics beside the first result that torch detaches."""
    def function(*args: Any, **kwargs: Any) -> Any:
        made, *statistics = torch._decomp.decomposition_table[op](*args, **kwargs)
        return (made, *[FUNCTIONS["detach"](x) for x in statistics])

    return function


for _op in (torch.ops.aten.native_layer_norm.default, torch.ops.aten.native_batch_norm.default,
            torch.ops.aten._native_batch_norm_legit.default, torch.ops.aten._native_batch_norm_legit.no_stats,
            torch.ops.aten._batch_norm_with_update.default):
    lowers(f"{_op.overloadpacket.__name__}.{_op._overloadname}")(_statistics_are_constants(_op))


@lowers("native_group_norm")
def native_group_norm(input: Any, weight: Any, bias: Any, N: Any, C: Any, HxW: Any, group: Any, eps: Any) -> Any:
    """Return the normalised groups of channels, their means, and the reciprocals of their deviations."""
    x = operand(input)
    if is_narrow(str(x.dtype)):
        raise UnsupportedError(f"native_group_norm of 16-bit floats is not available, at {user_line()}")
    parts = wrap(x.reshape((N, group, C * HxW // group)))
    variance, mean = torch.var_mean(parts, 2, correction=0)
    return networks.group_norm(input, group, weight, bias, eps), mean, (variance + eps).rsqrt()


@lowers("grid_sampler_2d")
def grid_sampler_2d(input: Any, *args: Any) -> Any:
    """Return images at positions, by torch's decomposition."""
    if is_narrow(str(operand(input).dtype)):
        raise UnsupportedError(f"grid_sample of 16-bit floats is not available, at {user_line()}")  # rounds positions
    return torch._decomp.decomposition_table[torch.ops.aten.grid_sampler_2d.default](input, *args)


# ---------------------------------------------------------------- linear algebra and Fourier transforms
lowers("_linalg_svd")(lambda A, full_matrices=False, compute_uv=True, *, driver=None: (
    FUNCTIONS["linalg.svd"](A, full_matrices) if compute_uv else (None, FUNCTIONS["linalg.svdvals"](A), None)))
lowers("_linalg_eigh")(lambda A, UPLO="L", compute_v=True: (
    FUNCTIONS["linalg.eigh"](A, UPLO) if compute_v else (FUNCTIONS["linalg.eigvalsh"](A, UPLO), None)))
lowers("_linalg_det")(lambda A: (FUNCTIONS["linalg.det"](A), None, None))
lowers("_linalg_slogdet")(lambda A: (*FUNCTIONS["linalg.slogdet"](A), None, None))
_SCALES: Final = ("backward", "ortho", "forward")
"""Names of torch's scales of a forward transform: none, by the root of the number of points, by the number."""


def _transformed(name: str, input: Any, dim: Any, points: Any, scale: int, *, back: bool = False) -> Any:
    norm = _SCALES[2 - scale if back else scale]
    return wrap(operand(input).call(name, s=tuple(points), axes=tuple(dim), norm=norm))


def _points(input: Any, dim: Any) -> list[int]:
    return [int(input.shape[axis]) for axis in dim]


lowers("_fft_c2c")(lambda input, dim, normalization, forward: _transformed(
    "fftn" if forward else "ifftn", input, dim, _points(input, dim), normalization, back=not forward))
lowers("_fft_r2c")(lambda input, dim, normalization, onesided: _transformed(
    "rfftn" if onesided else "fftn", input, dim, _points(input, dim), normalization))
lowers("_fft_c2r")(lambda input, dim, normalization, last_dim_size: _transformed(
    "irfftn", input, dim, [*_points(input, dim)[:-1], last_dim_size], normalization, back=True))

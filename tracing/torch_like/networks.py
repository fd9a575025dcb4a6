"""torch.nn.functional's layers over traced tensors: linear, activations, normalisations, attention, dropout.

Owns their entries in `jitfuse.tracing.torch_like.table`. Dropout uses jitfuse's random numbers, new ones in each call.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from jitfuse.dtypes import is_narrow, kind
from jitfuse.errors import ArgumentError, ShapeError
from jitfuse.ir.decompositions import layers
from jitfuse.tracing.numpy_like import arrangements
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor import gathering
from jitfuse.tracing.tensor.function_table import Tensor
from jitfuse.tracing.tensor.traced import fresh
from jitfuse.tracing.torch_like.dispatcher import through
from jitfuse.tracing.torch_like.products import einsum, product, same_dtype
from jitfuse.tracing.torch_like.promotion import (
    assign,
    cast,
    dtype_named,
    in_common,
    numbers,
    operand,
    require_float,
    strong,
)
from jitfuse.tracing.torch_like.real_tensors import run_of_trace
from jitfuse.tracing.torch_like.table import implements, of_floats
from jitfuse.tracing.torch_like.tensor import TracedTorchTensor, wrap


@implements("linear")
def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """Return input @ weight.T + bias."""
    x, w, *_ = same_dtype("linear", input, weight, *([] if bias is None else [bias]))
    made = product("linear", x, w.T)
    return wrap(made if bias is None else made + operand(bias))


@implements("bilinear")
def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """Return x1 @ W @ x2 for each output feature."""
    made = operand(einsum("...i,oij,...j->...o", input1, weight, input2))
    return wrap(made if bias is None else made + operand(bias))


# ---------------------------------------------------------------- activations
@implements("relu")
def relu(input: Any, inplace: bool = False) -> Any:
    """Return max(x, 0)."""
    x = operand(input)
    made = wrap(x.call("relu") if kind(str(x.dtype)) == "float" else x.call("maximum", 0))
    return assign(input, made, "relu") if inplace else made


@implements("leaky_relu")
def leaky_relu(input: Any, negative_slope: Any = 0.01, inplace: bool = False) -> Any:
    """Return x above 0, and a multiple of it below."""
    x = operand(input)
    made = wrap(x.call("greater", 0).call("where", x, in_common("multiply", x, negative_slope)))
    return assign(input, made, "leaky_relu") if inplace else made


@implements("silu")
def silu(input: Any, inplace: bool = False) -> Any:
    """Return x sigmoid(x)."""
    require_float("silu", input)
    made = wrap(operand(input).call("silu"))
    return assign(input, made, "silu") if inplace else made


@implements("gelu")
def gelu(input: Any, *, approximate: str = "none") -> Any:
    """Return x Phi(x), or its approximation with tanh."""
    require_float("gelu", input)
    return wrap(operand(input).call("gelu" if approximate == "none" else "gelu_tanh"))


@implements("logsigmoid")
def logsigmoid(input: Any) -> Any:
    """Return log(sigmoid(x))."""
    require_float("logsigmoid", input)
    return wrap(operand(input).call("log_sigmoid"))


def _normalised(name: str) -> Callable[..., Any]:
    def function(input: Any, dim: Any = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
        x = strong(input) if dtype is None else cast(strong(input), dtype_named(dtype))
        require_float(name, x)
        if not x.ndim:
            return wrap(x.reshape((1,)).call(name, axis=0).reshape(()))
        along = (0 if x.ndim in (1, 3) else 1) if dim is None else int(numbers(dim))
        return wrap(x.call(name, axis=along))

    return function


implements("softmax")(_normalised("softmax"))
implements("log_softmax")(_normalised("log_softmax"))


# ---------------------------------------------------------------- normalisations
def _scaled(x: Tensor, weight: Any, bias: Any, shape: tuple[int, ...]) -> Tensor:
    if weight is not None:
        x = x * operand(weight).reshape(shape)
    return x + operand(bias).reshape(shape) if bias is not None else x


@of_floats("layer_norm")
def layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: Any = 1e-5) -> Any:
    """Return the last axes with mean 0 and variance 1, scaled and shifted."""
    x, shape = operand(input), tuple(numbers(normalized_shape))
    if x.shape[x.ndim - len(shape) :] != shape:
        raise ShapeError(f"layer_norm: normalized_shape {shape} does not fit {x.shape}, at {user_line()}")
    over = tuple(range(x.ndim - len(shape), x.ndim))
    return wrap(cast(_scaled(_standard(x, over, eps), weight, bias, shape), str(x.dtype)).as_copy())


def _standard(x: Tensor, over: tuple[int, ...], eps: Any) -> Tensor:
    wide = cast(x, "float32") if str(x.dtype) in ("float16", "bfloat16") else x
    centred = wide - wide.call("mean", axis=over, keepdims=True)
    variance = (centred * centred).call("mean", axis=over, keepdims=True)
    return centred / in_common("add", variance, eps).call("sqrt")


@of_floats("group_norm")
def group_norm(input: Any, num_groups: Any, weight: Any = None, bias: Any = None, eps: Any = 1e-5) -> Any:
    """Return groups of channels with mean 0 and variance 1, scaled and shifted by channel."""
    x, groups = operand(input), int(numbers(num_groups))
    if x.shape[1] % groups:
        raise ShapeError(f"group_norm: {x.shape[1]} channels do not divide into {groups} groups, at {user_line()}")
    parts = x.reshape((x.shape[0], groups, x.size // max(x.shape[0] * groups, 1)))
    made = _standard(parts, (2,), eps).reshape(x.shape)
    return wrap(_scaled(made, weight, bias, (1, x.shape[1]) + (1,) * (x.ndim - 2)))


@implements("batch_norm")
def batch_norm(input: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None,
               training: bool = False, momentum: Any = 0.1, eps: Any = 1e-5) -> Any:
    """Normalise channels by running statistics; in training by their own, which update the running ones."""
    require_float("batch_norm", input)
    own = str(operand(input).dtype)
    x = cast(operand(input), "float32" if is_narrow(own) else own)
    if training:
        mean, variance = layers.batch_statistics(x, 1)
        if isinstance(running_mean, TracedTorchTensor):
            _move(running_mean, mean, momentum)
            _move(running_var, layers.unbiased(variance, x.size // max(x.shape[1], 1)), momentum)
    else:
        mean, variance = operand(running_mean), operand(running_var)
    made = layers.normalised(x, mean, variance, numbers(eps), 1)
    return wrap(cast(_scaled(made, weight, bias, (1, x.shape[1]) + (1,) * (x.ndim - 2)), own))


def _move(running: TracedTorchTensor, new: Tensor, momentum: Any) -> None:
    running.tensor._assign(layers.moved(running.tensor, new, numbers(momentum)))


# ---------------------------------------------------------------- dropout
@implements("dropout")
def dropout(input: Any, p: Any = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Drop elements with probability p and scale up the others; return the tensor itself outside of training."""
    x, drop = operand(input), float(numbers(p))
    if not 0.0 <= drop <= 1.0:
        raise ArgumentError(f"dropout probability has to be between 0 and 1, but got {drop}, at {user_line()}")
    if not training or drop == 0.0:
        return input if isinstance(input, TracedTorchTensor) else wrap(x)
    run = run_of_trace()
    drawn = fresh(run, run.emit("random_uniform", run.random_operands(), {"shape": x.shape, "dtype": "float32"}))
    scale = 0.0 if drop == 1.0 else 1.0 / (1.0 - drop)
    kept = drawn.call("greater_equal", drop).call("where", in_common("multiply", x, scale), 0.0)
    return assign(input, wrap(kept), "dropout") if inplace else wrap(cast(kept, str(x.dtype)))


def _of_channels(name: str) -> None:
    @implements(name)
    def function(input: Any, p: Any = 0.5, training: bool = True, inplace: bool = False) -> Any:
        x, drop = operand(input), float(numbers(p))
        if not training or drop == 0.0:
            return input if isinstance(input, TracedTorchTensor) else wrap(x)
        shares = x.create("full", shape=(*x.shape[:2], *(1,) * (x.ndim - 2)), value=1, dtype=str(x.dtype))
        kept = wrap(x * operand(dropout(wrap(shares), drop)))
        return assign(input, kept, name) if inplace else kept


for _name in ("dropout1d", "dropout2d", "dropout3d", "feature_dropout"):
    _of_channels(_name)


def _alpha_dropout(name: str, of_channels: bool) -> None:
    @implements(name)
    def function(input: Any, p: Any = 0.5, training: bool = False, inplace: bool = False) -> Any:
        x, drop = operand(input), float(numbers(p))
        if not training or drop in (0.0, 1.0) or not 0.0 <= drop <= 1.0:
            return through(getattr(torch.nn.functional, name), input, drop, training, inplace)
        shape = (*x.shape[:2], *(1,) * (x.ndim - 2)) if of_channels else x.shape
        ones = x.create("full", shape=shape, value=1.0 - drop, dtype=str(x.dtype))
        kept = operand(dropout(wrap(ones), drop))  # 1 or 0
        scale = 1.0 / math.sqrt((_SATURATED**2 * drop + 1.0) * (1.0 - drop))
        made = wrap(cast(x * kept * scale + (kept - 1.0 + drop) * (_SATURATED * scale), str(x.dtype)))
        return assign(input, made, name) if inplace else made


_SATURATED = 1.7580993408473766
"""SELU's least value, negated, which it gives where elements are dropped."""
_alpha_dropout("alpha_dropout", False)
_alpha_dropout("feature_alpha_dropout", True)


# ---------------------------------------------------------------- attention
@of_floats("scaled_dot_product_attention")
def scaled_dot_product_attention(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: Any = 0.0,
                                 is_causal: bool = False, scale: Any = None, enable_gqa: bool = False) -> Any:
    """Return softmax(query @ key.T * scale + mask) @ value."""
    q, k, v = same_dtype("scaled_dot_product_attention", query, key, value)
    if enable_gqa:
        k, v = (arrangements.repeat(t, q.shape[-3] // t.shape[-3], -3) for t in (k, v))
    factor = 1.0 / math.sqrt(q.shape[-1]) if scale is None else numbers(scale)
    weights = in_common("multiply", product("attention", q, k.swapaxes(-1, -2)), factor)
    lowest = weights.create("full", shape=(), value=-math.inf, dtype=str(weights.dtype))
    if is_causal:
        rows = weights.create("arange", count=q.shape[-2], dtype="int64").reshape((-1, 1))
        later = rows.call("less", weights.create("arange", count=k.shape[-2], dtype="int64"))
        weights = later.call("where", lowest, weights)
    if attn_mask is not None:
        mask = operand(attn_mask)
        weights = mask.call("where", weights, lowest) if str(mask.dtype) == "bool" else weights + mask
    shares = wrap(weights.call("softmax", axis=-1))
    if numbers(dropout_p) > 0.0:
        shares = dropout(shares, dropout_p)
    return wrap(product("attention", shares, v))


# ---------------------------------------------------------------- padding
_PAD_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@implements("pad")
def pad(input: Any, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    """Pad the last axes, given from the last one on; negative counts remove elements."""
    x, counts = strong(input), tuple(numbers(pad))
    if len(counts) % 2 or len(counts) > 2 * x.ndim:
        raise ShapeError(f"pad: {counts} is no pair for each of the last axes of {x.shape}, at {user_line()}")
    if mode not in _PAD_MODES:
        raise ArgumentError(f"pad: mode {mode!r} is none of {', '.join(_PAD_MODES)}, at {user_line()}")
    widths = [(0, 0)] * x.ndim
    for k in range(len(counts) // 2):
        widths[x.ndim - 1 - k] = (counts[2 * k], counts[2 * k + 1])
    outside = [n + min(a, 0) + min(b, 0) for n, (a, b) in zip(x.shape, widths, strict=True) if n]
    if mode == "replicate":
        outside = [n + a + b for n, (a, b) in zip(x.shape, widths, strict=True) if n]
    if outside and min(outside) < (0 if mode == "constant" else 1):
        raise ShapeError(f"pad: {counts} leaves nothing of {x.shape}, at {user_line()}")
    if mode == "reflect" and any(max(a, b) >= n > 0 for n, (a, b) in zip(x.shape, widths, strict=True) if a or b):
        raise ShapeError(f"pad: padding size should be less than the corresponding input dimension, but got {counts} "
                         f"for {x.shape}, at {user_line()}")
    if mode == "replicate":
        return wrap(_replicated(x, widths))
    cut = tuple(slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(widths, x.shape, strict=True))
    x = x[cut]
    grown = [(max(a, 0), max(b, 0)) for a, b in widths]
    if mode == "constant":
        number = 0 if value is None else numbers(value)
        return wrap(arrangements.pad(x, grown, constant_values=number))
    return wrap(arrangements.pad(x, grown, mode=_PAD_MODES[mode]))


def _replicated(x: Tensor, widths: list[tuple[int, int]]) -> Tensor:
    """Return all axes longer by their first and last elements, or shorter."""
    if all(n + min(a, 0) + min(b, 0) > 0 for n, (a, b) in zip(x.shape, widths, strict=True)):
        x = x[tuple(slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(widths, x.shape, strict=True))]
        return arrangements.pad(x, [(max(a, 0), max(b, 0)) for a, b in widths], mode="edge")
    for axis, (a, b) in enumerate(widths):
        if a or b:
            n = x.shape[axis]
            at = (x.create("arange", count=n + a + b, dtype="int64") - a).call("clip", 0, n - 1)
            x = gathering.take(x, at, axis)
    return x

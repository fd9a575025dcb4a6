"""torch's attention over traced tensors.

Owns their entries in `jitfuse.tracing.torch_like.table`; `nn.MultiheadAttention` and the transformer layers use them.
"""
from __future__ import annotations

import math
from typing import Any

from jitfuse.errors import UnsupportedError
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.function_table import Tensor
from jitfuse.tracing.torch_like.networks import dropout, linear
from jitfuse.tracing.torch_like.products import product
from jitfuse.tracing.torch_like.promotion import in_common, numbers, operand
from jitfuse.tracing.torch_like.table import implements
from jitfuse.tracing.torch_like.tensor import wrap


@implements("multi_head_attention_forward")
def multi_head_attention_forward(
    query: Any, key: Any, value: Any, embed_dim_to_check: Any, num_heads: Any, in_proj_weight: Any, in_proj_bias: Any,
    bias_k: Any, bias_v: Any, add_zero_attn: bool, dropout_p: Any, out_proj_weight: Any, out_proj_bias: Any,
    training: bool = True, key_padding_mask: Any = None, need_weights: bool = True, attn_mask: Any = None,
    use_separate_proj_weight: bool = False, q_proj_weight: Any = None, k_proj_weight: Any = None,
    v_proj_weight: Any = None, static_k: Any = None, static_v: Any = None, average_attn_weights: bool = True,
    is_causal: bool = False,
) -> Any:
    """Return attention of (length, samples, features), and its weights if needed."""
    if bias_k is not None or bias_v is not None or add_zero_attn or static_k is not None or static_v is not None:
        raise UnsupportedError(f"multi_head_attention_forward with bias_k, add_zero_attn or static keys is not "
                               f"available, at {user_line()}")
    tensors = [operand(t) for t in (query, key, value)]
    single = tensors[0].ndim == 2
    if single:
        tensors = [t.reshape((t.shape[0], 1, t.shape[1])) for t in tensors]
    length, samples, features = tensors[0].shape
    heads = int(numbers(num_heads))
    weights = [q_proj_weight, k_proj_weight, v_proj_weight] if use_separate_proj_weight else _thirds(in_proj_weight)
    biases = [None] * 3 if in_proj_bias is None else _thirds(in_proj_bias)
    q, k, v = (
        _by_heads(operand(linear(wrap(t), w, b)), heads) for t, w, b in zip(tensors, weights, biases, strict=True)
    )
    scores = in_common("multiply", product("attention", q, k.swapaxes(-1, -2)), 1.0 / math.sqrt(q.shape[-1]))
    for mask in (_mask_of_scores(attn_mask, samples, heads), _mask_of_keys(key_padding_mask, single)):
        scores = scores if mask is None else _masked(scores, mask)
    shares = wrap(scores.call("softmax", axis=-1))
    if training and float(numbers(dropout_p)) > 0.0:
        shares = dropout(shares, dropout_p)
    made = product("attention", shares, v).call("transpose", axes=(2, 0, 1, 3)).reshape((length, samples, features))
    result = operand(linear(wrap(made), out_proj_weight, out_proj_bias))
    result = result[:, 0] if single else result
    if not need_weights:
        return wrap(result), None
    attention = operand(shares)
    attention = attention.call("mean", axis=1) if average_attn_weights else attention
    return wrap(result), wrap(attention[0] if single else attention)


def _thirds(weight: Any) -> list[Any]:
    whole = operand(weight)
    size = whole.shape[0] // 3
    return [wrap(whole[k * size : (k + 1) * size]) for k in range(3)]


def _by_heads(x: Tensor, heads: int) -> Tensor:
    """Reshape (length, samples, features) to (samples, heads, length, features of a head)."""
    length, samples, features = x.shape
    return x.reshape((length, samples, heads, features // heads)).call("transpose", axes=(1, 2, 0, 3))


def _mask_of_scores(mask: Any, samples: int, heads: int) -> Tensor | None:
    if mask is None:
        return None
    x = operand(mask)
    return x if x.ndim == 2 else x.reshape((samples, heads, *x.shape[1:]))


def _mask_of_keys(mask: Any, single: bool) -> Tensor | None:
    if mask is None:
        return None
    x = operand(mask)
    return x.reshape((1, 1, 1, x.shape[0]) if single else (x.shape[0], 1, 1, x.shape[1]))


def _masked(scores: Tensor, mask: Tensor) -> Tensor:
    """Return scores with -inf where a bool mask holds, or with a numeric mask added."""
    if str(mask.dtype) != "bool":
        return scores + mask
    lowest = scores.create("full", shape=(), value=-math.inf, dtype=str(scores.dtype))
    return mask.call("where", lowest, scores)

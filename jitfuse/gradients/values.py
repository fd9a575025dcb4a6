"""What rules compute with values beside operators: choices, casts, parts, and shapes made to fit."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitfuse.dtypes import kind, numpy_dtype

Tensor = Any


def is_smooth(tensor: Tensor) -> bool:
    """Tell whether a value's dtype is one of floats or complex numbers: others have no derivatives."""
    return kind(str(tensor.dtype)) in ("float", "complex")


def conjugate(x: Tensor) -> Tensor:
    """Return the complex conjugate; a real tensor itself."""
    return x.call("conj") if kind(str(x.dtype)) == "complex" else x


def scaled(x: Tensor, factor: Any) -> Tensor:
    """Return a tensor times a factor; 1 and -1 take no product."""
    if isinstance(factor, int | float) and abs(factor) == 1:
        return x if factor == 1 else x.negative()
    return x.multiply(factor)


def choose(condition: Tensor, a: Any, b: Any) -> Tensor:
    """Return a where the condition holds, else b; one of them may be a number."""
    return condition.call("where", a, b)


def known_number(x: Tensor, makers: Sequence[str] = ("full",)) -> Any:
    """Return the real number that a value is in every call, made by one of these operators and cast, or None."""
    maker, found = x.builder.makers.get(x.id), None
    if maker is not None and maker.op_name in ("astype", "python_number", "copy"):
        found = known_number(x.builder.tensor(maker.input_ids[0]), makers)
    elif maker is not None and maker.op_name in makers and not maker.attr("shape", ()):
        found = maker.attr("value")
    if found is None or isinstance(found, complex) or kind(str(x.dtype)) == "complex":
        return None
    with np.errstate(all="ignore"):
        return np.asarray(found).astype(numpy_dtype(str(x.dtype))).item()


# ---------------------------------------------------------------- shapes and dtypes
def zeros_like(x: Tensor) -> Tensor:
    """Return zeros of a tensor's shape and dtype."""
    return x.create("zeros", shape=x.shape, dtype=str(x.dtype))


def cast(x: Tensor, dtype: str) -> Tensor:
    """Return a tensor in a dtype, or itself if it has it; a weak one becomes strong."""
    return x if str(x.dtype) == dtype and not x.weak else x.call("astype", dtype=dtype)


def fitted(change: Tensor, like: Tensor) -> Tensor:
    """Return a change with another's shape and dtype: broadcast or summed, and the real part for real numbers."""
    if kind(str(change.dtype)) == "complex" and kind(str(like.dtype)) != "complex":
        change = change.call("real")
    if change.shape != like.shape:
        tail = like.shape[max(like.ndim - change.ndim, 0):]
        smaller = change.ndim <= like.ndim and all(n in (1, m) for n, m in zip(change.shape, tail, strict=True))
        change = change.call("broadcast_to", shape=like.shape) if smaller else _unbroadcast(change, like.shape)
    return cast(change, str(like.dtype))


def _unbroadcast(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    lead = x.ndim - len(shape)
    over = (*range(lead), *(k + lead for k, n in enumerate(shape) if n == 1 and x.shape[k + lead] != 1))
    made = x.call("sum", axis=over, keepdims=False) if over else x
    return made if made.shape == shape else made.reshape(shape)


def expanded(x: Tensor, axis: Any, like: Tensor) -> Tensor:
    """Return a reduction's value beside the operand: with the axes that it has lost, broadcast to all of it."""
    axes = range(like.ndim) if axis is None else [a % like.ndim for a in (axis if isinstance(axis, tuple) else (axis,))]
    shape = tuple(1 if k in axes else n for k, n in enumerate(like.shape))
    made = x if x.shape == shape else x.reshape(shape)
    return made if shape == like.shape else made.call("broadcast_to", shape=like.shape)


def flipped(x: Tensor, axis: int) -> Tensor:
    """Return a tensor with one axis reversed."""
    n = x.shape[axis]
    return part(x, axis, max(n - 1, 0), n, -1)


def part(x: Tensor, axis: int, start: int, count: int, step: int = 1) -> Tensor:
    """Return a range of one axis."""
    at = axis % x.ndim
    return x.call(
        "slice", starts=tuple(start if k == at else 0 for k in range(x.ndim)),
        steps=tuple(step if k == at else 1 for k in range(x.ndim)),
        counts=tuple(count if k == at else n for k, n in enumerate(x.shape)))


def positions(x: Tensor, axis: int) -> Tensor:
    """Return the index along one axis, of the same rank, with extent 1 in all other axes."""
    at, n = axis % x.ndim, x.shape[axis]
    made = x.create("arange", start=0, step=1, count=n, dtype="int64")
    return made.reshape(tuple(n if k == at else 1 for k in range(x.ndim)))

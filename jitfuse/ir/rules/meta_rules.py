"""Infer the metas of results from shape rules and dtype rules: elementwise operators, joins, reductions.

Also owns the dtypes of reductions.
"""
from __future__ import annotations

from collections.abc import Sequence

from jitfuse.dtypes import SUPPORTED, component, kind
from jitfuse.errors import ArgumentError, ShapeError, UnsupportedDTypeError
from jitfuse.ir.rules.dtype_rules import LoopRule, joined_dtype, refusal
from jitfuse.ir.rules.shape_rules import broadcast, reduced_shape
from jitfuse.ir.schema import Meta


def elementwise_meta(name: str, rule: LoopRule, metas: Sequence[Meta]) -> Meta:
    """Return the meta of an elementwise operator's result."""
    loop = rule(name, metas)
    shape = broadcast(name, [m.shape for m in metas])
    return Meta(shape, loop.result, common_device(name, metas), loop.weak)


def common_device(name: str, metas: Sequence[Meta]) -> str:
    """Return the one device of all strong operands; weak scalars fit any device."""
    devices = {m.device for m in metas if not m.weak} or {m.device for m in metas}
    if len(devices) > 1:
        raise ArgumentError(
            f"{name}: operands live on different devices ({', '.join(sorted(devices))}); "
            "move one with jf.asarray(x, device=...)"
        )
    return next(iter(devices), "cpu")


def concat_meta(name: str, metas: Sequence[Meta], axis: int) -> Meta:
    """Return the meta of a join along one axis."""
    first = metas[0].shape
    for m in metas[1:]:
        if len(m.shape) != len(first) or any(
            n != k for i, (n, k) in enumerate(zip(m.shape, first)) if i != axis
        ):
            raise ShapeError(
                f"{name}: shapes {', '.join(str(m.shape) for m in metas)} must agree except on axis {axis}"
            )
    joined = sum(m.shape[axis] for m in metas)
    dtype, _ = joined_dtype(metas)
    return Meta(first[:axis] + (joined,) + first[axis + 1 :], dtype, common_device(name, metas))


# ---------------------------------------------------------------- reductions
def sum_dtype(name: str, m: Meta) -> str:
    """Return the dtype of a sum or product: bools and integers in 64 bits."""
    return {"bool": "int64", "int": "int64", "uint": "uint64"}.get(kind(m.dtype), m.dtype)


def float_dtype(name: str, m: Meta) -> str:
    """Return the dtype of a mean: float64 for bools and integers."""
    return "float64" if kind(m.dtype) in ("bool", "int", "uint") else m.dtype


def real_dtype(name: str, m: Meta) -> str:
    """Return the dtype of a mean; complex numbers are rejected."""
    if kind(m.dtype) == "complex":
        raise refusal(name, [m], "It is defined over real numbers; take .real or abs(x) first.")
    return float_dtype(name, m)


def spread_dtype(name: str, m: Meta) -> str:
    """Return the dtype of a variance: that of a mean's real part."""
    return component(float_dtype(name, m))


def same_dtype(name: str, m: Meta) -> str:
    """Return the operand's own dtype."""
    return m.dtype


def bool_dtype(name: str, m: Meta) -> str:
    """Return bool."""
    return "bool"


def reduction_meta(name: str, m: Meta, dtype: str, axes: tuple[int, ...], keepdims: bool) -> Meta:
    """Return the result's meta of a reduction over normalised axes."""
    return Meta(reduced_shape(m.shape, axes, keepdims), dtype, m.device)


def check_dtype(name: str, dtype: str) -> str:
    """Return the dtype if it is supported; raise DTypeError listing the supported ones."""
    if dtype not in SUPPORTED:
        raise UnsupportedDTypeError(f"{name}: dtype {dtype} is not supported; use one of {', '.join(SUPPORTED)}")
    return dtype

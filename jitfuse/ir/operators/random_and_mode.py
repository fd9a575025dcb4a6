"""Random numbers of `jf.random`, and the choice between training and evaluation."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitfuse.dtypes import is_integer, kind
from jitfuse.errors import ArgumentError, DTypeError, ShapeError
from jitfuse.ir.decompositions import composites
from jitfuse.ir.operators.op import MODE, RANDOM, REQUIRED, Op, add
from jitfuse.ir.rules import meta_rules
from jitfuse.ir.schema import Meta
from jitfuse.ir.semantics import reference


def _check_state(name: str, state: Meta, *index: Meta) -> None:
    """Raise DTypeError if an operand is no random state, or no index of a call."""
    if (state.shape, state.dtype) != ((2,), "int64"):
        raise DTypeError(f"{name}: a random state is int64[2], not {state}")
    if any(m.shape or not is_integer(m.dtype) for m in index):
        raise DTypeError(f"{name}: the index of a call is one integer, not {index[0]}")


def _infer_uniform(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    _check_state("random_uniform", *metas)
    if attrs["dtype"] not in ("float32", "float64"):
        raise DTypeError(f"random_uniform makes float32 or float64, not {attrs['dtype']}")
    return Meta(tuple(attrs["shape"]), attrs["dtype"], metas[0].device)


def _infer_advance(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    _check_state("random_advance", *metas)
    return Meta(metas[0].shape, metas[0].dtype, metas[0].device)


def _infer_dropout(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    if not 0.0 <= attrs["p"] < 1.0:
        raise ArgumentError(f"dropout: the probability must be in [0, 1), not {attrs['p']}")
    if kind(metas[0].dtype) != "float":
        raise DTypeError(f"dropout scales its operand and wants a float array, not {metas[0].dtype}")
    _check_state("dropout", *metas[1:])
    return Meta(metas[0].shape, metas[0].dtype, metas[0].device)


def _infer_mode_select(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    a, b = metas
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        raise ShapeError(f"mode_select: training gives {a}, evaluation gives {b}; both must agree")
    return Meta(a.shape, a.dtype, meta_rules.common_device("mode_select", metas), a.weak and b.weak)


add(Op("random_uniform", 2, RANDOM, {"shape": REQUIRED, "dtype": "float64"}, _infer_uniform,
        reference.random_uniform, doc="Philox-4x32-10 numbers in [0, 1) from (state, call index)."))
add(Op("random_advance", 1, RANDOM, {}, _infer_advance, reference.random_advance,
        doc="The random state for the next call: the counter plus one."))
add(Op("dropout", 3, RANDOM, {"p": 0.5}, _infer_dropout, reference.dropout,
        decompose=composites.dropout, mode_sensitive=True,
        doc="(x, state, index): in training zero with probability p, the rest scaled by 1 / (1 - p)."))
add(Op("mode_select", 2, MODE, {}, _infer_mode_select, reference.mode_select, mode_sensitive=True,
        doc="The first operand in training, the second in evaluation."))

"""Draws from NumPy's generators: library steps over the state of a generator, which is an array like any other."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jitfuse.dtypes import is_integer
from jitfuse.errors import DTypeError, ShapeError
from jitfuse.ir import generators, meta_rules
from jitfuse.ir.op import LIBRARY, REQUIRED, VARIADIC, Op, add
from jitfuse.ir.program import Meta


def _require_numbers(name: str, dtype: str) -> None:
    if dtype not in ("float32", "float64") and not is_integer(dtype):
        raise DTypeError(f"{name} makes floats and integers, not {dtype}")


def _infer_seed(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    (seed,) = metas
    if seed.shape or not is_integer(seed.dtype):
        raise DTypeError(f"generator_seed takes one integer, not {seed}")
    return Meta((generators.places("uint64", attrs["legacy"]),), "uint64", seed.device)


def _infer_draw(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    dtype = attrs["dtype"]
    _require_numbers("generator_draw", dtype)
    _require_numbers("generator_draw", metas[0].dtype)
    legacy = metas[0].shape == (generators.places(metas[0].dtype, legacy=True),)
    if not legacy and metas[0].shape != (generators.places(metas[0].dtype),):
        raise ShapeError(f"generator_draw takes the bytes of a state first, not {metas[0]}")
    count = generators.places(dtype, legacy) + math.prod(attrs["shape"])
    return Meta((count,), dtype, meta_rules.common_device("generator_draw", metas))


add(Op("generator_seed", 1, LIBRARY, {"legacy": False}, _infer_seed, generators.generator_seed,
       doc="The state of np.random.default_rng(seed), or of np.random.RandomState(seed)."))
add(Op("generator_draw", VARIADIC, LIBRARY, {"method": REQUIRED, "shape": REQUIRED, "dtype": "float64"}, _infer_draw,
       generators.generator_draw, into=generators.draw_into,
       doc="(state, parameters...): the state after a draw, and the numbers drawn."))

"""Every unary function and every cast, of every dtype, against NumPy."""
from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from dtypes_compared import DTYPES, attempted, differences, edges
from programs import quiet

import jitfuse as jf
from jitfuse.dtypes import numpy_dtype

EXACT: dict[str, Callable[..., Any]] = {
    "-": operator.neg, "+": operator.pos, "abs()": abs, "~": operator.invert,
    **{name: getattr(np, name) for name in (
        "square", "sign", "sqrt", "floor", "ceil", "trunc", "rint", "fix", "isnan", "isinf", "isfinite", "isposinf",
        "isneginf", "logical_not", "signbit", "spacing", "reciprocal", "fabs", "copy", "frexp", "modf", "round",
        "positive", "negative", "nan_to_num", "zeros_like", "ones_like", "bitwise_count",
    )},
    "round to 1": lambda x: np.round(x, 1), "round to -1": lambda x: np.round(x, -1),
    "clip": lambda x: np.clip(x, 0, 3), "clip below": lambda x: np.clip(x, 1, None), "clip by floats":
    lambda x: np.clip(x, 0.5, 2.5), "full_like": lambda x: np.full_like(x, 1), "+=": lambda x: _added(x),
    "byteswapped": lambda x: x[::-1] + x, "T": lambda x: x.T * 1, "nan_to_num 3": lambda x: np.nan_to_num(x, nan=3),
}
NOT_AS_NUMPY = {
    ("bool", "round"),  # float16 in NumPy, refused here
    ("bfloat16", "round"), ("bfloat16", "round to 1"), ("bfloat16", "round to -1"), ("bfloat16", "nan_to_num"),
    ("bfloat16", "nan_to_num 3"),  # refused here: NumPy does not count bfloat16 among its floats
    ("uint32", "round to -1"),  # beyond the largest, for which NumPy has two answers
}
INEXACT = {name: getattr(np, name) for name in (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "tanh", "arcsin", "arccos", "arctan",
    "sinh", "cosh", "arcsinh", "arccosh", "arctanh", "cbrt", "rad2deg", "deg2rad",
)}


def _added(x: Any) -> Any:
    y = x.copy()
    y += 1
    return y


def both(functions: Any, *args: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    def every(*arrays: Any) -> Any:
        return attempted(functions, *arrays)

    with quiet():
        return jf.fuse(every)(*args), every(*args)


@pytest.mark.parametrize("dtype", DTYPES)
def test_exact_functions(dtype: str) -> None:
    functions = {name: f for name, f in EXACT.items() if (dtype, name) not in NOT_AS_NUMPY}
    # the sign of a zero between equal operands is not promised
    assert differences(*both(functions, edges(dtype)), {"clip": 0.01, "clip by floats": 0.01}) == {}


@pytest.mark.parametrize("dtype", DTYPES)
def test_functions_to_a_unit_in_the_last_place(dtype: str) -> None:
    assert differences(*both(INEXACT, edges(dtype)), dict.fromkeys(INEXACT, 4.0)) == {}


@pytest.mark.parametrize("dtype", DTYPES)
def test_casts(dtype: str) -> None:
    casts = {target: (lambda x, target=target: x.astype(numpy_dtype(target))) for target in DTYPES}
    got, want = both(casts, edges(dtype)[::-1])  # not adjacent: NumPy has two answers for uint32 out of range
    assert differences(got, want) == {}


@pytest.mark.parametrize("dtype", DTYPES)
def test_casts_of_all_sixteen_bits(dtype: str) -> None:
    """Every number of 16 bits, to and from."""
    words = np.arange(2**16).astype("uint16")
    for source in ("float16", "bfloat16", "int16"):
        x = words.view(numpy_dtype(source))[::-1]
        assert differences(*both({"cast": lambda x: x.astype(numpy_dtype(dtype))}, x)) == {}


def test_a_chain_in_half_precision_needs_nothing_from_outside() -> None:
    """LLVM joined two roundings into one from float64 to float16, which is a call on most processors."""
    fused = jf.fuse(lambda x: np.atan(np.logaddexp2(np.nanmax(x, axis=0, keepdims=True), 5)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fused(np.linspace(0, 1, 5, dtype="float16")).dtype == "float16"
    assert fused.stats()["fallbacks"] == 0

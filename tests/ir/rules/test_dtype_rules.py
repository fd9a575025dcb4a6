"""Promotion over every dtype, Python scalars among them, against np.result_type and NumPy's ufuncs."""
from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import ml_dtypes  # noqa: F401  (np.dtype("bfloat16") needs it)
import numpy as np
import pytest

from jitfuse.dtypes import KINDS, WEAK_DTYPE, integer_range, itemsize, numpy_dtype, result_type, ufunc_type
from jitfuse.errors import DTypeError

STRONG = [((d, False), np.ones(2, d)) for d in KINDS]
WEAK = [((WEAK_DTYPE[type(v)], True), v) for v in (True, 1, 1.0, 1j)]


def numpys(function: Callable[..., Any], values: list[Any]) -> str:
    """The name of the dtype that NumPy answers in, or "refused"."""
    try:
        found = function(*values)
    except TypeError:
        return "refused"
    return str(getattr(found, "dtype", found).name)


def ours(function: Callable[..., Any], operands: tuple[Any, ...]) -> str:
    try:
        return str(function(operands)[0])
    except DTypeError:
        return "refused"


@pytest.mark.parametrize(("count", "values"), [(2, [*STRONG, *WEAK]), (3, [*STRONG[::2], *WEAK])])
def test_result_type_is_numpys(count: int, values: list[Any]) -> None:
    for combination in itertools.product(values, repeat=count):
        operands = tuple(o for o, _ in combination)
        if count == 3 and ("bfloat16", False) in operands:
            continue  # NumPy's answer depends on the order of the operands
        if not all(weak for _, weak in operands):
            expected = numpys(np.result_type, [v for _, v in combination])
            assert ours(result_type, operands) == expected, operands


def test_ufunc_type_is_the_loop_that_numpy_adds_in() -> None:
    for combination in itertools.product([*STRONG, *WEAK], repeat=2):
        operands = tuple(o for o, _ in combination)
        if not all(weak for _, weak in operands):
            assert ours(ufunc_type, operands) == numpys(np.add, [v for _, v in combination]), operands


def test_weak_operands_alone_stay_weak() -> None:
    assert result_type((("int64", True), ("float64", True))) == ("float64", True)
    assert result_type((("float64", True), ("complex128", True))) == ("complex128", True)


@pytest.mark.parametrize("dtype", KINDS)
def test_every_name_is_numpys(dtype: str) -> None:
    assert numpy_dtype(dtype).name == dtype
    assert numpy_dtype(dtype).itemsize == itemsize(dtype)
    if KINDS[dtype] in ("int", "uint"):
        info = np.iinfo(dtype)
        assert integer_range(dtype) == (info.min, info.max)

"""Elements at the edges of every dtype, and the comparison of what a fused function gives with what NumPy gives.

A function under test returns a dict of results by name, made by `attempted`: where an operator raises, its result is
the kind of error, so that one traced function tries many operators.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import optree
from programs import quiet

from jitfuse.dtypes import integer_range, numpy_dtype

DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16",
          "float32", "float64")
ERRORS = {TypeError: -1, ValueError: -2, OverflowError: -3}
"""What stands for an error in a dict of results."""
_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1.5, 7.0, 100.0, -128.5, 255.0, 300.7, 65504.0, -70000.0, 2147483648.0,
           -3e9, 9.3e18, -9.3e18, 1.9e19, 1e-3, 6e-8, -6.1e-5, 1e-40, 1e-310, 3.4e38, 1e300, np.inf, -np.inf, np.nan)
_INTEGERS = (0, 1, 2, 3, 5, 7, 8, 15, 16, 31, 32, 63, 64, 65, 100, 2049, 2**24 + 1, 2**53 + 1)


def edges(dtype: str) -> Any:
    """Return the interesting values of a dtype."""
    if dtype == "bool":
        return np.array([False, True, True])
    with quiet():
        if dtype in ("float16", "bfloat16", "float32", "float64"):
            return np.array(_FLOATS).astype(numpy_dtype(dtype))
    low, high = integer_range(dtype)
    near = (low, low + 1, high, high - 1, high // 2, high // 2 + 1, -1, -2, -3, -7, -100)
    return np.array([v for v in (*_INTEGERS, *near) if low <= v <= high], dtype)


def pairs(a: str, b: str) -> tuple[Any, Any]:
    """Return two arrays of all pairs of edges, of an odd size."""
    x, y = np.meshgrid(edges(a), edges(b), indexing="ij")
    x, y = (np.concatenate([v.ravel(), v.ravel()[: 1 - v.size % 2]]) for v in (x, y))
    return x, y


def attempted(functions: Mapping[str, Callable[..., Any]], *args: Any) -> dict[str, Any]:
    """Return each function's result by its name, or the number of the error that it raises."""
    results: dict[str, Any] = {}
    for name, function in functions.items():
        try:
            results[name] = function(*args)
        except TypeError:
            results[name] = ERRORS[TypeError]
        except OverflowError:
            results[name] = ERRORS[OverflowError]
        except ValueError:
            results[name] = ERRORS[ValueError]
    return results


def epsilon(dtype: Any) -> float:
    """Return the distance from 1 to the next number of a float dtype."""
    return 2.0**-7 if dtype.name == "bfloat16" else float(np.finfo(dtype).eps)


def is_float(dtype: Any) -> bool:
    """Return whether a NumPy dtype is one of floats, bfloat16 included."""
    return dtype.kind == "f" or dtype.name == "bfloat16"


def difference(got: Any, want: Any, ulps: float = 0) -> str:
    """Return what tells two values apart, "" if nothing does; `ulps`: how far floats may be off."""
    if isinstance(want, int) and not isinstance(want, bool):
        return "" if type(got) is int and got == want else f"{_kind(got)} for {_kind(want)}"
    if isinstance(got, int) and not isinstance(got, bool):
        return f"{_kind(got)} for {_kind(want)}"
    g, w = np.asarray(got), np.asarray(want)
    if (g.dtype, g.shape) != (w.dtype, w.shape):
        return f"{g.dtype}{g.shape} for {w.dtype}{w.shape}"
    with quiet():
        wrong = g != w
        if is_float(w.dtype):
            number = ~(np.isnan(g) & np.isnan(w))
            wrong = (wrong | (np.signbit(g) != np.signbit(w)) & (ulps == 0)) & number
            if ulps:
                wide = np.asarray(w, "longdouble")
                smallest = 1e-38 * 2.0**-7 if w.dtype.name == "bfloat16" else float(np.finfo(w.dtype).tiny)
                unit = np.maximum(np.abs(wide), smallest) * epsilon(w.dtype)
                wrong &= ~(np.abs(np.asarray(g, "longdouble") - wide) <= ulps * unit)
    if not wrong.any():
        return ""
    at = tuple(np.argwhere(wrong)[0])
    return f"{int(wrong.sum())} of {w.size} wrong, first at {tuple(map(int, at))}: {g[at]!r} for {w[at]!r}"


def _kind(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return next((e.__name__ for e, number in ERRORS.items() if number == value), str(value))
    return f"{value.dtype} {value.shape}" if hasattr(value, "dtype") else repr(value)


def differences(got: Mapping[str, Any], want: Mapping[str, Any], ulps: Mapping[str, float] = {}) -> dict[str, str]:
    """Return the differences of two dicts of results, by name; a result may be a container of some."""
    assert got.keys() == want.keys()
    found = {}
    for name in want:
        mine, theirs = (optree.tree_leaves(r[name]) for r in (got, want))
        if len(mine) != len(theirs):
            found[name] = f"{_kind(mine[0])} for {_kind(theirs[0])}"
            continue
        texts = [difference(g, w, ulps.get(name, 0)) for g, w in zip(mine, theirs, strict=True)]
        if any(texts):
            found[name] = next(filter(None, texts))
    return found

"""Values as expressions of Python source that reproduce every bit. Does not own text (`jitfuse.exporting.layout`)."""
from __future__ import annotations

import ast
import math
import struct
from typing import Any

import numpy as np

from jitfuse.dtypes import SUPPORTED, component, itemsize
from jitfuse.errors import UnsupportedError

SMALL = 64
"""Arrays of up to so many elements are written as numbers."""


def literal(value: Any) -> ast.expr:
    """Return the expression of a number, string, dtype, slice or NumPy value, or of a tuple, list or dict of these.

    Raises UnsupportedError for a value without such an expression.
    """
    if isinstance(value, np.ndarray):
        return _array(value)
    if isinstance(value, np.generic):
        return _numpy_scalar(value)
    if isinstance(value, np.dtype):
        return dtype_expression(value.name)
    if type(value) is float:
        return _float(value)
    if type(value) is complex:
        return ast.Call(ast.Name("complex"), [_float(value.real), _float(value.imag)], [])
    if type(value) is slice:
        return _slice(value)
    if type(value) in (bool, int, str, bytes, type(None), type(...)):
        return ast.Constant(value)
    if type(value) is tuple:
        return ast.Tuple([literal(v) for v in value], ast.Load())
    if type(value) is list:
        return ast.List([literal(v) for v in value], ast.Load())
    if type(value) is dict:
        return ast.Dict([literal(k) for k in value], [literal(v) for v in value.values()])
    raise UnsupportedError(f"a {type(value).__name__} cannot be written as Python source: {value!r:.80}")


def is_literal(node: ast.expr) -> bool:
    """Return whether an expression is a plain literal."""
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError):
        return False
    return True


def dtype_expression(dtype: str) -> ast.expr:
    """Return NumPy's name of a dtype, or `np.dtype("bfloat16")`, which ml_dtypes defines."""
    if dtype == "bfloat16":
        return ast.Call(_np("dtype"), [ast.Constant(dtype)], [])
    return _np("bool_" if dtype == "bool" else dtype)


def _np(name: str) -> ast.expr:
    return ast.Attribute(ast.Name("np"), name)


def _float(value: float) -> ast.expr:
    if math.isinf(value):
        return _np("inf") if value > 0 else ast.UnaryOp(ast.USub(), _np("inf"))
    if not math.isnan(value):
        return ast.Constant(value)
    if struct.pack("<d", value) == struct.pack("<d", math.nan):
        return _np("nan")
    return ast.Call(ast.Attribute(_of_bits(np.float64(value)), "item"), [], [])


def _numpy_scalar(value: np.generic) -> ast.expr:
    if value.dtype.name not in SUPPORTED:
        raise UnsupportedError(f"a NumPy scalar of dtype {value.dtype} cannot be written as Python source")
    if value.dtype.name != "bfloat16":
        number = value.item()
        if type(value)(number).tobytes() == value.tobytes():
            return ast.Call(dtype_expression(value.dtype.name), [literal(number)], [])
    return _of_bits(value)


def _of_bits(value: np.generic) -> ast.expr:
    """Return a NaN with a payload, or a value of a dtype without literals, from its bits as integers."""
    bits = 8 * itemsize(component(value.dtype.name))
    parts = literal(np.asarray(value).reshape(1).view(f"uint{bits}"))
    viewed = ast.Call(ast.Attribute(parts, "view"), [dtype_expression(value.dtype.name)], [])
    return ast.Subscript(viewed, ast.Constant(0))


def _array(value: np.ndarray[Any, Any]) -> ast.expr:
    """Return `np.array([...], dtype)`; raises UnsupportedError if it is long or would lose a bit or an extent."""
    dtype = value.dtype.name
    written = value.size in range(1, SMALL + 1) and dtype != "bfloat16" and value.dtype.kind in "biufc"
    if written and np.array(_plain_nan(value.tolist()), value.dtype).tobytes() == value.tobytes():
        return ast.Call(_np("array"), [literal(value.tolist()), dtype_expression(dtype)], [])
    raise UnsupportedError(f"an array of shape {value.shape} and dtype {dtype} is not written out as numbers")


def _plain_nan(value: Any) -> Any:
    """Return nested lists with every NaN replaced by the one that source can name."""
    if isinstance(value, list):
        return [_plain_nan(v) for v in value]
    if isinstance(value, complex):
        return complex(_plain_nan(value.real), _plain_nan(value.imag))
    return math.nan if value != value else value


def _slice(value: slice) -> ast.expr:
    start = None if value.start in (0, None) and (value.step is None or value.step > 0) else literal(value.start)
    stop = None if value.stop is None else literal(value.stop)
    return ast.Slice(start, stop, None if value.step in (1, None) else literal(value.step))

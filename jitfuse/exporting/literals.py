"""Values as expressions of Python source that give back every bit. Does not own text (`layout`)."""
from __future__ import annotations

import ast
import math
import struct
from typing import Any

import numpy as np

from jitfuse.errors import UnsupportedError

SMALL = 64
"""Elements up to which an array is written out as numbers."""


def literal(value: Any) -> ast.expr:
    """Return the expression of a number, string, dtype, slice or NumPy value, or of a tuple, list or dict of such.

    Raises UnsupportedError for a value that has no such expression.
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
    """Return whether an expression is a plain value that Python reads back at once."""
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError):
        return False
    return True


def dtype_expression(dtype: str) -> ast.expr:
    """Return NumPy's name of a dtype; `np.dtype("bfloat16")` where ml_dtypes has it."""
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
    bits = struct.unpack("<Q", struct.pack("<d", value))[0]
    if bits == struct.unpack("<Q", struct.pack("<d", math.nan))[0]:
        return _np("nan")
    viewed = ast.Call(ast.Attribute(_unsigned(64, bits), "view"), [_np("float64")], [])
    return ast.Call(ast.Attribute(viewed, "item"), [], [])


def _unsigned(bits: int, value: int) -> ast.expr:
    return ast.Call(_np(f"uint{bits}"), [ast.Constant(value)], [])


def _numpy_scalar(value: np.generic) -> ast.expr:
    dtype = value.dtype.name
    if dtype == "bfloat16":
        bits = int(np.asarray(value).view("uint16"))
        return ast.Call(ast.Attribute(_unsigned(16, bits), "view"), [dtype_expression(dtype)], [])
    if value.dtype.kind not in "biuf" or value.dtype.itemsize > 8:
        raise UnsupportedError(f"a NumPy scalar of dtype {dtype} cannot be written as Python source")
    number = value.item()
    if value.dtype.kind == "f" and type(value)(number).tobytes() != value.tobytes():  # a NaN that carries something
        bits = int.from_bytes(value.astype(value.dtype.newbyteorder("<")).tobytes(), "little")
        viewed = ast.Attribute(_unsigned(8 * value.dtype.itemsize, bits), "view")
        return ast.Call(viewed, [dtype_expression(dtype)], [])
    return ast.Call(dtype_expression(dtype), [literal(number)], [])


def _array(value: np.ndarray[Any, Any]) -> ast.expr:
    """Return `np.array([...], dtype)`; raises UnsupportedError where that is long or loses a bit or an extent."""
    dtype = value.dtype.name
    written = value.size in range(1, SMALL + 1) and dtype != "bfloat16" and value.dtype.kind in "biuf"
    if written and np.array(value.tolist(), value.dtype).tobytes() == value.tobytes():
        return ast.Call(_np("array"), [literal(value.tolist()), dtype_expression(dtype)], [])
    raise UnsupportedError(f"an array of shape {value.shape} and dtype {dtype} is not written out as numbers")


def _slice(value: slice) -> ast.expr:
    start = None if value.start in (0, None) and (value.step is None or value.step > 0) else literal(value.start)
    stop = None if value.stop is None else literal(value.stop)
    return ast.Slice(start, stop, None if value.step in (1, None) else literal(value.step))

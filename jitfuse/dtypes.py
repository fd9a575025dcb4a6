"""The dtypes of programs and kernels, and NumPy's promotion rules (NEP 50) for them.

A dtype is its NumPy name as a string (``"float32"``): hashable, printable, the same in every process.
Weak dtypes belong to Python scalars; they give way to any strong dtype of their kind or a higher one.
bfloat16 is the dtype of ml_dtypes, which is imported when the first bfloat16 value is made.
"""
from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, Final, cast

import numpy as np

from jitfuse.errors import DTypeError

KINDS: Final[dict[str, str]] = {
    "bool": "bool",
    "int8": "int", "int16": "int", "int32": "int", "int64": "int",
    "uint8": "uint", "uint16": "uint", "uint32": "uint", "uint64": "uint",
    "float16": "float", "bfloat16": "float", "float32": "float", "float64": "float",
    "complex64": "complex", "complex128": "complex",
}
"""Every dtype and its kind, in promotion order of kinds: bool, int and uint, float, complex."""

SUPPORTED: Final[dict[str, str]] = KINDS
"""The dtypes that programs may hold."""

_RANK: Final = {"bool": 0, "int": 1, "uint": 1, "float": 2, "complex": 3}
_LOOPS: Final = ("float32", "float64", "complex64", "complex128")
"""The dtypes among which a ufunc looks for a loop that takes bfloat16 with others, in this order."""
_COMPLEX_OF: Final = {"float16": "complex64", "bfloat16": "complex64", "float32": "complex64"}
WEAK_DTYPE: Final[dict[type, str]] = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}
"""The dtype of a Python scalar's own value. Python bools are strong in NEP 50 as far as results go."""


def weak_dtype(value: bool | int | float | complex) -> str:
    """Return the weak dtype that holds a Python scalar's value: uint64 for ints from 2**63 on."""
    return "uint64" if type(value) is int and value >= 2**63 else WEAK_DTYPE[type(value)]


def kind(dtype: str) -> str:
    """Return ``"bool"``, ``"int"``, ``"uint"``, ``"float"`` or ``"complex"``."""
    return KINDS[dtype]


COMPONENT: Final[dict[str, str]] = {"complex64": "float32", "complex128": "float64"}
"""The dtype of the real and imaginary parts of a complex dtype."""


def component(dtype: str) -> str:
    """Return the dtype of a complex dtype's parts; a real dtype is its own."""
    return COMPONENT.get(dtype, dtype)


def is_integer(dtype: str) -> bool:
    """Return whether a dtype is a signed or unsigned integer."""
    return KINDS[dtype] in ("int", "uint")


def is_narrow(dtype: str) -> bool:
    """Return whether a dtype is a 16-bit float: kernels compute those in float32 and round each result."""
    return dtype in ("float16", "bfloat16")


@cache
def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """Return NumPy's object for a dtype's name."""
    if dtype == "bfloat16":
        import ml_dtypes  # ten milliseconds that only users of bfloat16 pay

        return cast(np.dtype[Any], np.dtype(ml_dtypes.bfloat16))
    return np.dtype(dtype)


@cache
def itemsize(dtype: str) -> int:
    """Return the size of one element in bytes."""
    return 2 if dtype == "bfloat16" else np.dtype(dtype).itemsize


@cache
def integer_range(dtype: str) -> tuple[int, int]:
    """Return the smallest and the largest value of an integer dtype."""
    bits = 8 * itemsize(dtype)
    return (0, 2**bits - 1) if KINDS[dtype] == "uint" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


@cache
def largest_float(dtype: str) -> float:
    """Return the largest finite value of a float dtype."""
    return float.fromhex("0x1.fep+127") if dtype == "bfloat16" else float(np.finfo(dtype).max)


# ---------------------------------------------------------------- promotion
@lru_cache(maxsize=4096)
def result_type(operands: tuple[tuple[str, bool], ...]) -> tuple[str, bool]:
    """Return (dtype, weak) of joining (dtype, weak) operands into one array, by NEP 50: np.result_type.

    All weak gives a weak result. A weak operand of a higher kind than every strong one brings NumPy's
    default dtype of its kind: bool with a Python int is int64, int32 with a Python float is float64.
    A Python complex takes the precision of strong floats. Raises DTypeError if bfloat16 meets float16 or
    an integer that it does not hold exactly.
    """
    return _promoted(operands, "float64", exact=True)


@lru_cache(maxsize=4096)
def ufunc_type(operands: tuple[tuple[str, bool], ...]) -> tuple[str, bool]:
    """Return (dtype, weak) of the common loop of a NumPy ufunc; differs from `result_type` for bfloat16 alone.

    There a ufunc takes the first loop that all operands can be cast to safely: float32 for bfloat16 with
    float16, int16, uint16 or a Python float, float64 with wider integers.
    """
    return _promoted(operands, "float32", exact=False)


def _promoted(operands: tuple[tuple[str, bool], ...], bfloat16_with_float: str, exact: bool) -> tuple[str, bool]:
    strong = [str(d) for d, weak in operands if not weak]  # never the caller's object: a cache keeps what this returns
    weak_ = [str(d) for d, weak in operands if weak]
    if not strong:
        return max(weak_, key=lambda d: _RANK[KINDS[d]]), True
    result = _common(strong, exact)
    for d in weak_:
        if _RANK[KINDS[d]] > _RANK[KINDS[result]]:
            result = _COMPLEX_OF.get(result, d) if KINDS[d] == "complex" else "int64" if d == "uint64" else d
        elif result == "bfloat16" and KINDS[d] == "float":
            result = bfloat16_with_float
    return result, False


def _common(dtypes: list[str], exact: bool) -> str:
    others = [d for d in dtypes if d != "bfloat16"]
    if not others:
        return "bfloat16"
    if len(others) == len(dtypes):
        return str(np.result_type(*others).name)
    if set(others) <= {"bool", "int8", "uint8"}:
        return "bfloat16"
    if not exact:
        return next(d for d in _LOOPS if all(np.can_cast(other, d, "safe") for other in others))
    common = str(np.result_type(*others).name)
    if _RANK[KINDS[common]] < 2 or common == "float16":
        raise DTypeError(f"bfloat16 and {common} have no common dtype; cast one of them with astype first")
    return common


def promote(dtypes: Sequence[str]) -> str:
    """Return the common dtype of strong operands."""
    return result_type(tuple((d, False) for d in dtypes))[0]


@cache
def can_cast(source: str, target: str, casting: str = "same_kind") -> bool:
    """Return NumPy's answer to whether `source` may be cast to `target`."""
    return bool(np.can_cast(numpy_dtype(source), numpy_dtype(target), casting=casting))  # type: ignore[arg-type]

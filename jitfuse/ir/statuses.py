"""The statuses that kernels return for values for which NumPy raises, and the exceptions that they become."""
from __future__ import annotations

from typing import Final

from jitfuse.errors import (
    DivisionByZeroError,
    JitfuseError,
    NumberTooLargeError,
    NumericError,
    ShapeError,
    TensorDivisionError,
    WideIntError,
)

NEGATIVE_POWER: Final = 1
REQUIREMENT: Final = 2
ALL_NAN: Final = 3
OUT_OF_BOUNDS: Final = 4
"""The low byte of the status for an index out of bounds. Above it are the number of the check (8 bits) and the index
(48 bits, signed)."""

DIVISION_BY_ZERO: Final = 5
NOT_A_NUMBER: Final = 6
DOES_NOT_FIT: Final = 7
TOO_LARGE: Final = 8
INTEGER_DIVISION: Final = 9
NO_CLASS: Final = 10
NO_PROBABILITY: Final = 11
MATH_DOMAIN: Final = 12
MATH_RANGE: Final = 13
INFINITE: Final = 14
WIDE_INT: Final = 15
"""Plain Python runs the call: its ints have any size."""
WIDE_RANGE: Final = 16
"""Plain Python runs the call: a loop's range goes beyond 2**31."""
NO_WEIGHT: Final = 17
NO_LARGEST: Final = 18
NO_SMALLEST: Final = 19
ONE_VALUE: Final = 20

FALLIBLE: Final = frozenset({
    "require", "power", "gather", "scatter", "take", "take_along_axis", "nanargmin", "nanargmax",
})
"""Operators of recorded programs of which a single element may end the call by a status."""
MESSAGES: Final = {
    NEGATIVE_POWER: "Integers to negative integer powers are not allowed.",
    REQUIREMENT: "a required condition does not hold",
    ALL_NAN: "All-NaN slice encountered",
    DIVISION_BY_ZERO: "a Python number is divided by zero. Pass a NumPy scalar, np.float64(0), for inf and NaN.",
    NOT_A_NUMBER: "cannot convert float NaN to integer",
    DOES_NOT_FIT: "a number is out of bounds for the array of integers that it is written into",
    TOO_LARGE: "a power of a Python float is too large for a float. Pass a NumPy scalar, np.float64(x), for inf.",
    INTEGER_DIVISION: "ZeroDivisionError: an integer of a tensor is divided by zero",
    NO_CLASS: "Class values must be from 0 on, and smaller than num_classes.",
    NO_PROBABILITY: "all elements of input should be between 0 and 1",
    MATH_DOMAIN: "math domain error",
    MATH_RANGE: "math range error",
    INFINITE: "cannot convert float infinity to integer",
    WIDE_INT: "a float becomes an int beyond 64 bits",
    WIDE_RANGE: "a loop goes over a range beyond 2**31",
    NO_WEIGHT: "Weights sum to zero, can't be normalized",
    NO_LARGEST: "zero-size array to reduction operation maximum which has no identity",
    NO_SMALLEST: "zero-size array to reduction operation minimum which has no identity",
    ONE_VALUE: "batch_norm: one value per channel has no variance; training needs more of them",
}
"""The error message of every status."""
_ERRORS: Final[dict[int, type[JitfuseError]]] = {
    DIVISION_BY_ZERO: DivisionByZeroError, DOES_NOT_FIT: NumberTooLargeError, TOO_LARGE: NumberTooLargeError,
    MATH_RANGE: NumberTooLargeError, INFINITE: NumberTooLargeError, WIDE_INT: WideIntError, WIDE_RANGE: WideIntError,
    INTEGER_DIVISION: TensorDivisionError, NO_WEIGHT: DivisionByZeroError,
    ONE_VALUE: ShapeError,
}


def error_of(status: int, where: str = "") -> JitfuseError:
    """Return the exception for a status other than an index out of bounds; `where` precedes its message."""
    error: type[JitfuseError] = _ERRORS.get(status, NumericError)
    return error(where + MESSAGES.get(status, f"kernel status {status}"))


def out_of_bounds(status: int) -> tuple[int, int] | None:
    """Return (number of the check, index) of a status for an index out of bounds; None for any other status."""
    word = status & 0xFFFFFFFFFFFFFFFF
    if word & 0xFF != OUT_OF_BOUNDS:
        return None
    index = word >> 16
    return word >> 8 & 0xFF, index - (1 << 48) if index >= 1 << 47 else index

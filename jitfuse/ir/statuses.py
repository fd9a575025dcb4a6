"""The statuses that kernels return, and what they raise: a kernel that meets a value for which NumPy raises."""
from __future__ import annotations

from typing import Final

NEGATIVE_POWER: Final = 1
REQUIREMENT: Final = 2
ALL_NAN: Final = 3
OUT_OF_BOUNDS: Final = 4
"""The low byte of the status for an index out of bounds: above it the number of the check (8 bits) and the index
(48 bits, signed)."""

MESSAGES: Final = {
    NEGATIVE_POWER: "Integers to negative integer powers are not allowed.",
    REQUIREMENT: "a required condition does not hold",
    ALL_NAN: "All-NaN slice encountered",
}
"""The error's text of every status."""


def out_of_bounds(status: int) -> tuple[int, int] | None:
    """Return (number of the check, index) of a status for an index out of bounds, None for any other."""
    word = status & 0xFFFFFFFFFFFFFFFF
    if word & 0xFF != OUT_OF_BOUNDS:
        return None
    index = word >> 16
    return word >> 8 & 0xFF, index - (1 << 48) if index >= 1 << 47 else index

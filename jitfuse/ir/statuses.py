"""The statuses that kernels return, and what they raise: a kernel that meets a value for which NumPy raises."""
from __future__ import annotations

from typing import Final

NEGATIVE_POWER: Final = 1
REQUIREMENT: Final = 2
ALL_NAN: Final = 3

MESSAGES: Final = {
    NEGATIVE_POWER: "Integers to negative integer powers are not allowed.",
    REQUIREMENT: "a required condition does not hold",
    ALL_NAN: "All-NaN slice encountered",
}
"""The error's text of every status."""

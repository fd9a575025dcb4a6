"""The exception that a kernel's status stands for: NumPy's kind and words, with the function and the user's line."""
from __future__ import annotations

from collections.abc import Sequence

from jitfuse.errors import BoundsError, JitfuseError, NumericError
from jitfuse.ir.statuses import MESSAGES, out_of_bounds
from jitfuse.plans import Check


def kernel_error(name: str, checks: Sequence[Check], status: int) -> JitfuseError:
    """Return the exception for a status other than 0 of a launch with these checks, in the function `name`."""
    found = out_of_bounds(status)
    if found is None:
        return NumericError(f"{name}: {MESSAGES.get(status, f'kernel status {status}')}")
    number, index = found
    if number >= len(checks):
        return BoundsError(f"{name}: index {index} is out of bounds")
    axis, extent, source = checks[number]
    where = f", at {source}" if source else ""
    return BoundsError(f"{name}: index {index} is out of bounds for axis {axis} with size {extent}{where}")

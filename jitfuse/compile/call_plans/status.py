"""The exception for a kernel's status: NumPy's type and message, with the function and the user's line."""
from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from jitfuse.compile.call_plans.call_plan import IndexCheck
from jitfuse.errors import BoundsError, JitfuseError
from jitfuse.ir.statuses import error_of, out_of_bounds


def kernel_error(name: str, checks: Sequence[IndexCheck], status: int) -> JitfuseError:
    """Return the exception for a status other than 0 of a launch with these checks, in the function `name`."""
    found = out_of_bounds(status)
    if found is None:
        return error_of(status, f"{name}: ")
    number, index = found
    if number >= len(checks):
        return BoundsError(f"{name}: index {index} is out of bounds")
    check = checks[number]
    where = f", at {check.source}" if check.source else ""
    return BoundsError(f"{name}: index {index} is out of bounds for axis {check.axis} with size {check.extent}{where}")


def raise_status(name: str, checks: Sequence[IndexCheck], status: int) -> NoReturn:
    """Raise for a status of a kernel that Python has launched."""
    raise kernel_error(name, checks, status)

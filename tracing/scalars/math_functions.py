"""Python's `math` functions of traced data: their results are run-time numbers, like `float(x)`.

Owns which functions are supported, and their errors, which are checked at run time. Does not own when a run-time number
can be made (`jitfuse.tracing.scalars.conversions`); where it cannot, and within `try`, Python's own function reads the
values.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from jitfuse.base.later import Later
from jitfuse.dtypes import kind
from jitfuse.ir import statuses
from jitfuse.tracing.record.recorder import Recorder
from jitfuse.tracing.tensor.lifting import lift
from jitfuse.tracing.tensor.traced import TracedTensor, fresh

branch_values = Later("jitfuse.tracing.scalars.branch_values")
conversions = Later("jitfuse.tracing.scalars.conversions")
try_blocks = Later("jitfuse.tracing.record.try_blocks")

_PLAIN: Final = {
    "fabs": "abs", "atan": "atan", "tanh": "tanh", "asinh": "asinh", "erf": "erf", "erfc": "erfc", "cbrt": "cbrt",
    "degrees": "rad2deg", "radians": "deg2rad", "atan2": "atan2", "copysign": "copysign",
}
"""Python's name -> operator, for functions that never raise."""
_DOMAIN: Final = {
    "sqrt": "sqrt", "log": "log", "log2": "log2", "log10": "log10", "log1p": "log1p", "sin": "sin", "cos": "cos",
    "tan": "tan", "asin": "asin", "acos": "acos", "acosh": "acosh", "atanh": "atanh", "fmod": "fmod",
}
"""Functions with a limited domain: NaN and infinity of other operands are domain errors."""
_RANGE: Final = {"exp": "exp", "exp2": "exp2", "expm1": "expm1", "sinh": "sinh", "cosh": "cosh", "hypot": "hypot"}
"""Functions that may overflow a double."""
_TESTS: Final = ("isnan", "isinf", "isfinite")
_WHOLE: Final = ("floor", "ceil", "trunc")


def replacements() -> list[tuple[Callable[..., Any], Callable[..., Any]]]:
    """Return Python's functions and their replacements."""
    names = (*_PLAIN, *_DOMAIN, *_RANGE, *_TESTS, *_WHOLE, "pow")
    return [(getattr(math, name), _in_place_of(name)) for name in names if hasattr(math, name)]


def _in_place_of(name: str) -> Callable[..., Any]:
    python = getattr(math, name)
    row = {**_PLAIN, **_DOMAIN, **_RANGE, "pow": "power"}.get(name, name)

    def call(*values: Any) -> Any:
        if not any(type(v) is TracedTensor for v in values) or not _goes(name, values):
            return python(*values)
        if name == "log" and len(values) == 2:
            return call(values[0]) / _divisor(values[0], call(values[1]))
        if name in _WHOLE and kind(values[0]._meta.dtype) != "float":
            return conversions.as_int(values[0])  # a double would round it
        run = next(v._run for v in values if type(v) is TracedTensor)
        ids = tuple(_number(run, v) for v in values)
        result = run.emit(row, ids)
        if name in _TESTS:
            return branch_values.as_python(fresh(run, result))
        if name in _WHOLE:
            return conversions.as_int(fresh(run, result))
        return branch_values.as_python(fresh(run, _checked(run, name, ids, result)))

    call.__name__ = name
    return call


def _divisor(x: Any, logarithm: Any) -> Any:
    """Return the logarithm of a base, or 1 where log(x) raises: that error comes first, not a division by zero."""
    if type(x) is not TracedTensor or type(logarithm) is not TracedTensor:
        return logarithm
    run = x._run
    below = run.emit("less_equal", (_number(run, x), run.literal(0)))
    return branch_values.as_python(fresh(run, run.emit("where", (below, run.literal(1.0), logarithm._id()))))


def _goes(name: str, values: Sequence[Any]) -> bool:
    """Return whether the result is a run-time number: each traced operand can become one, the others are Python's."""
    fits = len(values) == (2 if name in ("atan2", "copysign", "fmod", "hypot", "pow") else 1)
    if not fits and not (name == "log" and len(values) == 2):
        return False
    if not all(type(v) is TracedTensor or type(v) in (bool, int, float) for v in values):
        return False
    if name not in _PLAIN and name not in _TESTS and try_blocks.is_caught():
        return False
    if name == "trunc" and any(v._meta.dtype != "float64" for v in values if type(v) is TracedTensor):
        return False  # of NumPy's scalars, only float64 has __trunc__, as a Python float
    return all(conversions.goes(v, f"math.{name}()") for v in values if type(v) is TracedTensor)


def _number(run: Recorder, value: Any) -> int:
    """Return an operand as a float64 tensor that is not weak."""
    tensor: int = lift(run, float(value) if type(value) is not TracedTensor else value)._id()
    return run.emit("astype", (tensor,), {"dtype": "float64"})


def _checked(run: Recorder, name: str, ids: tuple[int, ...], result: int) -> int:
    """Return a result with checks for Python's errors: NaN from other operands, infinity from finite ones."""
    if run.session.on_device or name in _PLAIN:
        return result
    if name == "sqrt":
        ok = run.emit("logical_not", (run.emit("less", (ids[0], run.literal(0))),))
        return run.emit("require", (result, ok), {"status": statuses.MATH_DOMAIN})
    ok = run.emit("logical_not", (run.emit("isnan", (result,)),))
    for i in ids:
        ok = run.emit("logical_or", (ok, run.emit("isnan", (i,))))
    result = run.emit("require", (result, ok), {"status": statuses.MATH_DOMAIN})
    ok = run.emit("logical_not", (run.emit("isinf", (result,)),))
    for i in ids:
        ok = run.emit("logical_or", (ok, run.emit("logical_not", (run.emit("isfinite", (i,)),))))
    if name == "pow":
        zero = run.emit("equal", (ids[0], run.literal(0)))
        domain = run.emit("logical_or", (ok, run.emit("logical_not", (zero,))))
        result = run.emit("require", (result, domain), {"status": statuses.MATH_DOMAIN})
        ok = run.emit("logical_or", (ok, zero))
    status = statuses.MATH_DOMAIN if name in _DOMAIN else statuses.MATH_RANGE
    return run.emit("require", (result, ok), {"status": status})

"""Vector math: exp, sin, power ... on float32 and float64 vectors of any length, as LLVM instructions.

Owns: which functions there are, and dispatch by element type. Every result is within 1 ulp of the exact
value (fmod, remainder, floor_divide, sqrt and the roundings are exact), special cases are those of C99 and
NumPy, and a lane's bits depend on that lane's operands alone. Nothing calls a library: objects have no
undefined symbols. float32 is computed in float64, within 0.53 ulp; where there is fused multiply-add, exp, exp2,
expm1, log, log1p, erf, cbrt and the inverse trigonometric and hyperbolic functions are computed in float32, within
0.93 ulp (see `single`).

Does not own: integer functions, arithmetic, or loops over memory.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from jitfuse.backends.llvm.math import (
    cardinal_sine,
    division,
    error_function,
    exponential,
    exponential_sum,
    hyperbolic,
    inverse_hyperbolic,
    inverse_trigonometric,
    log_products,
    logarithm,
    logistic,
    normal_tail,
    power,
    roots,
    rounding,
    shared,
    trigonometric,
)
from jitfuse.backends.llvm.math.lockstep import Batch, Context
from jitfuse.backends.llvm.math.shared import repeated
from jitfuse.backends.llvm.text.builder import Function, Value, element

__all__ = ["FUNCTIONS", "emit", "emit_many", "emit_scalar", "repeated"]

Emit = Callable[..., Batch]
_TABLE: Final[dict[str, tuple[Emit, Emit]]] = {
    name: both for file in (
        cardinal_sine, division, error_function, exponential, exponential_sum, hyperbolic, inverse_hyperbolic,
        inverse_trigonometric, log_products, logarithm, logistic, normal_tail, power, roots, rounding,
        trigonometric,
    ) for name, both in file.OPERATORS.items()
}
"""(for float32, for float64) by operator, from all files: functions from batches of operands to a batch of results."""
FUNCTIONS = frozenset(_TABLE)
_TOGETHER = 4


def emit(f: Function, name: str, args: Sequence[Value], *, has_fma: bool = True) -> Value:
    """Append the code of one function on vectors or scalars of float or double; returns the result.

    It may end in another block than it began in. `has_fma`: the target has fused multiply-add and rounding
    instructions (x86-64-v3, AArch64); without them, results may differ in the last bit, but stay within 1 ulp.
    """
    return emit_many(f, name, [args], has_fma=has_fma)[0]


def emit_scalar(f: Function, name: str, args: Sequence[Value]) -> Value:
    """Append the code of one function on single numbers, without fused multiply-add, to any builder's function."""
    context = Context(f, has_fma=False, scalar=True)
    function = _TABLE[name][0 if args[0].type == "float" else 1]
    result: Batch = function(*[context.batch([a]) for a in args])
    return result.values[0]


def emit_many(
    f: Function, name: str, args_list: Sequence[Sequence[Value]], *, has_fma: bool = True, called: bool = False
) -> list[Value]:
    """Append the code of one function on independent vectors of one type, interleaved step by step.

    By fours: more would run out of registers without gain. `called`: emit calls of code that is in the module once.
    """
    function = _TABLE[name][0 if element(args_list[0][0].type) == "float" else 1]

    def write(into: Function, columns: Sequence[Sequence[Value]]) -> Sequence[Value]:
        context = Context(into, has_fma)
        return function(*map(context.batch, columns)).values

    results: list[Value] = []
    for start in range(0, len(args_list), _TOGETHER):
        columns = list(zip(*args_list[start : start + _TOGETHER], strict=True))
        results += shared.call(f, name, columns, write) if called else write(f, columns)
    return results

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

from jitfuse.backends.llvm.builder import Function, Value, element
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

__all__ = ["FUNCTIONS", "emit", "emit_many", "emit_scalar", "repeated"]

# name: (for float32, for float64), each from batches of the operands to a batch of the results
_TABLE: dict[str, tuple[Callable[..., Batch], Callable[..., Batch]]] = {
    "exp": (exponential.exp_32, exponential.exp_64),
    "exp2": (exponential.exp2_32, exponential.exp2_64),
    "expm1": (exponential.expm1_32, exponential.expm1_64),
    "log": (logarithm.log_32, logarithm.log_64),
    "log2": (logarithm.log2_32, logarithm.log2_64),
    "log1p": (logarithm.log1p_32, logarithm.log1p_64),
    "sin": (trigonometric.sin_32, trigonometric.sin_64),
    "cos": (trigonometric.cos_32, trigonometric.cos_64),
    "tan": (trigonometric.tan_32, trigonometric.tan_64),
    "asin": (inverse_trigonometric.asin_32, inverse_trigonometric.asin_64),
    "acos": (inverse_trigonometric.acos_32, inverse_trigonometric.acos_64),
    "atan": (inverse_trigonometric.atan_32, inverse_trigonometric.atan_64),
    "atan2": (inverse_trigonometric.atan2_32, inverse_trigonometric.atan2_64),
    "rad2deg": (trigonometric.rad2deg, trigonometric.rad2deg),
    "deg2rad": (trigonometric.deg2rad, trigonometric.deg2rad),
    "sinh": (hyperbolic.sinh_32, hyperbolic.sinh_64),
    "cosh": (hyperbolic.cosh_32, hyperbolic.cosh_64),
    "tanh": (hyperbolic.tanh_32, hyperbolic.tanh_64),
    "asinh": (inverse_hyperbolic.asinh_32, inverse_hyperbolic.asinh_64),
    "acosh": (inverse_hyperbolic.acosh_32, inverse_hyperbolic.acosh_64),
    "atanh": (inverse_hyperbolic.atanh_32, inverse_hyperbolic.atanh_64),
    "hypot": (roots.hypot_32, roots.hypot_64),
    "cbrt": (roots.cbrt_32, roots.cbrt_64),
    "erf": (error_function.erf_32, error_function.erf_64),
    "log10": (logarithm.log10_32, logarithm.log10_64),
    "erfc": (normal_tail.erfc_32, normal_tail.erfc_64),
    "gelu": (normal_tail.gelu_32, normal_tail.gelu_64),
    "gelu_tanh": (logistic.gelu_tanh_32, logistic.gelu_tanh_64),
    "sigmoid": (logistic.sigmoid_32, logistic.sigmoid_64),
    "silu": (logistic.silu_32, logistic.silu_64),
    "softplus": (exponential_sum.softplus_32, exponential_sum.softplus_64),
    "logaddexp": (exponential_sum.logaddexp_32, exponential_sum.logaddexp_64),
    "logaddexp2": (exponential_sum.logaddexp2_32, exponential_sum.logaddexp2_64),
    "xlogy": (log_products.xlogy_32, log_products.xlogy_64),
    "logit": (log_products.logit_32, log_products.logit_64),
    "sinc": (cardinal_sine.sinc_32, cardinal_sine.sinc_64),
    "power": (power.power_32, power.power_64),
    "fmod": (division.fmod_32, division.fmod_64),
    "remainder": (division.remainder_32, division.remainder_64),
    "floor_divide": (division.floor_divide_32, division.floor_divide_64),
    "sqrt": (rounding.sqrt, rounding.sqrt),
    "floor": (rounding.floor, rounding.floor),
    "ceil": (rounding.ceil, rounding.ceil),
    "trunc": (rounding.trunc, rounding.trunc),
    "rint": (rounding.rint, rounding.rint),
}
FUNCTIONS = frozenset(_TABLE)
_TOGETHER = 4


def emit(f: Function, name: str, args: Sequence[Value], *, has_fma: bool = True) -> Value:
    """Append the code of one function on vectors or scalars of float or double; returns the result.

    It may end in another block than it began in. `has_fma` says that the target has fused multiply-add and
    rounding instructions (x86-64-v3, AArch64); without, results may differ in the last bit, within 1 ulp too.
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

    By fours: more of them run out of registers, and gain nothing. `called`: calls of code that stands in the module
    once.
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

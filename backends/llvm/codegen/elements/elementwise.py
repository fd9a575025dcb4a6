"""Elementwise operators on batches of vectors, with NumPy's results.

Owns: the table from (operator, kind of operand) to code. Does not own transcendental functions
(`jitfuse.backends.llvm.math`), memory, or loops. Operands already have the dtypes of the loop.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from jitfuse.backends.llvm.codegen.elements import divisors, float_bits, integers
from jitfuse.backends.llvm.codegen.elements.types import KIND
from jitfuse.backends.llvm.math import FUNCTIONS, emit_many
from jitfuse.backends.llvm.math.lockstep import Batch
from jitfuse.backends.llvm.text.builder import element, with_element
from jitfuse.errors import CompileError

Emit = Callable[..., Batch]


def _select(condition: Batch, a: Batch, b: Batch) -> Batch:
    return a.where(condition, b)


def _not(x: Batch) -> Batch:
    return x ^ (1 if element(x.type) == "i1" else -1)


def _minimum(a: Batch, b: Batch) -> Batch:
    # as NumPy: the second of equal operands, and the first NaN
    return a.where(a.is_nan(), a.where(a.compare("olt", b), b))


def _maximum(a: Batch, b: Batch) -> Batch:
    return a.where(a.is_nan(), a.where(a.compare("ogt", b), b))


def _heaviside(x: Batch, at_zero: Batch) -> Batch:
    step = x.filled(1.0).where(x.compare("ogt", 0.0), at_zero.where(x.compare("oeq", 0.0), 0.0))
    return x.where(x.is_nan(), step)


def _float_sign(x: Batch) -> Batch:
    signed = x.filled(1.0).where(x.compare("ogt", 0.0), x.filled(-1.0).where(x.compare("olt", 0.0), 0.0))
    return x.where(x.is_nan(), signed)


def _comparison(predicate: str) -> Emit:
    return lambda a, b: a.compare(predicate, b)


def _constant(value: bool) -> Emit:
    return lambda x: x.context.batch([x.context.constant(with_element(x.type, "i1"), value)] * len(x.values))


def _identity(x: Batch) -> Batch:
    return x


_FLOAT: Final[dict[str, Emit]] = {
    "add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b, "negative": lambda x: -x, "positive": _identity, "abs": abs,
    "square": lambda x: x * x, "sign": _float_sign, "minimum": _minimum, "maximum": _maximum,
    "equal": _comparison("oeq"), "not_equal": _comparison("une"), "less": _comparison("olt"),
    "less_equal": _comparison("ole"), "greater": _comparison("ogt"), "greater_equal": _comparison("oge"),
    "isnan": lambda x: x.is_nan(), "isinf": lambda x: abs(x).compare("oeq", math.inf),
    "isfinite": lambda x: abs(x).compare("olt", math.inf),
    "reciprocal": lambda x: 1.0 / x, "heaviside": _heaviside, "copysign": lambda a, b: a.copysign(b),
    # as NumPy: the second of equal operands, and the other operand where one is NaN
    "fmin": lambda a, b: a.where(a.compare("olt", b) | b.is_nan(), b),
    "fmax": lambda a, b: a.where(a.compare("ogt", b) | b.is_nan(), b),
    "signbit": float_bits.signbit, "nextafter": float_bits.nextafter, "spacing": float_bits.spacing,
    "frexp_mantissa": float_bits.frexp_mantissa, "frexp_exponent": float_bits.frexp_exponent,
    "ldexp": float_bits.ldexp,
}

_INT: Final[dict[str, Emit]] = {
    "add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b,
    "floor_divide": lambda a, b: integers.divide(a, b)[0], "remainder": lambda a, b: integers.divide(a, b)[1],
    "negative": integers.negated, "positive": _identity, "abs": integers.absolute,
    "square": lambda x: x * x, "sign": integers.sign,
    "minimum": lambda a, b: a.where(a.compare("slt", b), b),
    "maximum": lambda a, b: a.where(a.compare("sgt", b), b),
    "equal": _comparison("eq"), "not_equal": _comparison("ne"), "less": _comparison("slt"),
    "less_equal": _comparison("sle"), "greater": _comparison("sgt"), "greater_equal": _comparison("sge"),
    "fmod": integers.truncated_remainder, "reciprocal": integers.reciprocal,
    "fmin": lambda a, b: a.where(a.compare("slt", b), b),
    "fmax": lambda a, b: a.where(a.compare("sgt", b), b),
    "gcd": divisors.gcd, "lcm": divisors.lcm, "bitwise_count": lambda x: integers.count_ones(integers.absolute(x)),
    "floor": _identity, "ceil": _identity, "trunc": _identity,
    "bitwise_and": lambda a, b: a & b, "bitwise_or": lambda a, b: a | b, "bitwise_xor": lambda a, b: a ^ b,
    "bitwise_invert": _not, "bitwise_left_shift": integers.shift_left,
    "bitwise_right_shift": integers.shift_right,
    "isnan": _constant(False), "isinf": _constant(False), "isfinite": _constant(True),
}

_UINT: Final[dict[str, Emit]] = {
    **_INT,
    "floor_divide": lambda a, b: integers.divide(a, b, signed=False)[0],
    "remainder": lambda a, b: integers.divide(a, b, signed=False)[1],
    "fmod": lambda a, b: integers.divide(a, b, signed=False)[1],
    "reciprocal": lambda x: integers.reciprocal(x, signed=False),
    "gcd": lambda a, b: divisors.gcd(a, b, signed=False), "lcm": lambda a, b: divisors.lcm(a, b, signed=False),
    "bitwise_count": integers.count_ones,
    "abs": _identity, "sign": lambda x: x.compare("ne", 0).cast("zext", element(x.type)),
    "minimum": lambda a, b: a.where(a.compare("ult", b), b),
    "maximum": lambda a, b: a.where(a.compare("ugt", b), b),
    "fmin": lambda a, b: a.where(a.compare("ult", b), b), "fmax": lambda a, b: a.where(a.compare("ugt", b), b),
    "clip": lambda x, low, high: _UINT["minimum"](_UINT["maximum"](x, low), high),
    "less": _comparison("ult"), "less_equal": _comparison("ule"), "greater": _comparison("ugt"),
    "greater_equal": _comparison("uge"),
    "bitwise_right_shift": lambda a, b: integers.shift_right(a, b, signed=False),
}

_BOOL: Final[dict[str, Emit]] = {
    "add": lambda a, b: a | b, "multiply": lambda a, b: a & b, "abs": _identity, "positive": _identity,
    "minimum": lambda a, b: a & b, "maximum": lambda a, b: a | b,
    "fmin": lambda a, b: a & b, "fmax": lambda a, b: a | b,
    "equal": lambda a, b: _not(a ^ b), "not_equal": lambda a, b: a ^ b, "less": lambda a, b: _not(a) & b,
    "less_equal": lambda a, b: _not(a) | b, "greater": lambda a, b: a & _not(b),
    "greater_equal": lambda a, b: a | _not(b),
    "floor": _identity, "ceil": _identity, "trunc": _identity,
    "bitwise_and": lambda a, b: a & b, "bitwise_or": lambda a, b: a | b, "bitwise_xor": lambda a, b: a ^ b,
    "bitwise_invert": _not, "logical_and": lambda a, b: a & b, "logical_or": lambda a, b: a | b,
    "logical_xor": lambda a, b: a ^ b, "logical_not": _not,
    "isnan": _constant(False), "isinf": _constant(False), "isfinite": _constant(True),
}

_TABLES: Final = {"float": _FLOAT, "int": _INT, "uint": _UINT, "bool": _BOOL}
OPERATORS: Final = FUNCTIONS.union(*_TABLES.values(), ("where", "copy"))
"""Operators that have code here for at least one dtype."""


def apply(op: str, dtype: str, args: Sequence[Batch]) -> Batch:
    """Return an operator's result; `dtype` is that of the first operand. Raises CompileError where it has no code."""
    if op == "where":
        return _select(*args)
    if op == "copy":
        return args[0]
    if op == "nextafter" and KIND[dtype] == "bits":
        return float_bits.nextafter_of_bits(args[0], args[1], dtype)
    table = _TABLES[KIND[dtype]]
    if op in table:
        return table[op](*args)
    if KIND[dtype] != "float" or op not in FUNCTIONS:
        raise CompileError(f"the operator {op} of {dtype} has no code in jitfuse.backends.llvm")
    context = args[0].context
    columns = list(zip(*(a.values for a in args), strict=True))
    return context.batch(emit_many(context.f, op, columns, has_fma=context.has_fma, called=op in context.called))


def float_power_by_constant(x: Batch, exponent: float) -> Batch | None:
    """Return x to a power that NumPy computes by simpler means when it is a scalar; None for the others."""
    if exponent == 2:
        return x * x
    if exponent == 1:
        return x
    if exponent == 0:
        return x.filled(1.0)
    if exponent == 0.5:
        return x.sqrt()
    if exponent == -1:
        return 1.0 / x
    return None

"""Elementwise operators as WGSL expressions, with NumPy's results.

Owns: the table from (operator, type in registers) to text. Operands already have the dtypes of the loop. Float
results are fenced (`library.fences`), so that the driver cannot rewrite sums and products.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from jitfuse.backends.wgsl.codegen.types import FLOATS, SIGNED, integer_bits, is_packed
from jitfuse.backends.wgsl.math import SHARED, name_of
from jitfuse.dtypes import kind

Emit = Callable[..., str]


class UnknownOperatorError(Exception):
    """An operator that has no WGSL version for its dtype; the message says which."""


def _call(name: str) -> Emit:
    return lambda *args: f"jf_{name}({', '.join(args)})"


def _float(suffix: str) -> dict[str, Emit]:
    fence, apart, one = f"fence{suffix}", f"apart{suffix}", "1.0lf" if suffix else "1.0"

    def call(name: str) -> Emit:
        return _call(name + suffix)

    def fenced(sign: str) -> Emit:
        return lambda a, b: f"{fence}({a} {sign} {apart}({b}))"

    return {
        "add": fenced("+"), "subtract": fenced("-"), "multiply": fenced("*"), "divide": fenced("/"),
        "square": lambda x: f"{fence}({x} * {x})", "sqrt": lambda x: f"{fence}(sqrt({x}))", "positive": lambda x: x,
        "copy": lambda x: x, "clip": lambda x, low, high: f"jf_minimum{suffix}(jf_maximum{suffix}({x}, {low}), {high})",
        "equal": call("equal"), "less": call("less"), "less_equal": call("less_equal"),
        "not_equal": lambda a, b: f"!jf_equal{suffix}({a}, {b})",
        "greater": lambda a, b: f"jf_less{suffix}({b}, {a})",
        "greater_equal": lambda a, b: f"jf_less_equal{suffix}({b}, {a})",
        "reciprocal": lambda x: f"{fence}({one} / {apart}({x}))",
        "isnan": call("is_nan"), "isinf": call("is_inf"), "isfinite": call("is_finite"), "rint": call("rint"),
        **{name: call(name) for name in (
            "negative", "abs", "sign", "minimum", "maximum", "floor", "ceil", "trunc", "remainder", "floor_divide",
            "fmod", "copysign", "fmin", "fmax", "signbit", "heaviside",
        )},
    }


_SINGLE_ONLY: Final = (
    "exp", "exp2", "expm1", "log", "log2", "log1p", "sin", "cos", "tan", "tanh", "erf", "power",
)


def _integer(type_: str) -> dict[str, Emit]:
    zero = {"i32": "0i", "u32": "0u", "i64": "0li", "u64": "0lu"}[type_]
    signed = type_ in SIGNED

    def infix(sign: str) -> Emit:
        return lambda a, b: f"({a} {sign} {b})"

    def call(name: str) -> Emit:
        return _call(f"{name}_{type_}")

    def identity(x: str) -> str:
        return x

    return {
        "add": infix("+"), "subtract": infix("-"), "multiply": infix("*"), "floor_divide": call("floor_divide"),
        "remainder": call("remainder"), "negative": lambda x: f"({zero} - {x})",
        "abs": call("abs") if signed else identity, "sign": call("sign"), "square": lambda x: f"({x} * {x})",
        **dict.fromkeys(("minimum", "fmin"), lambda a, b: f"min({a}, {b})"),
        **dict.fromkeys(("maximum", "fmax"), lambda a, b: f"max({a}, {b})"),
        "clip": lambda x, low, high: f"min(max({x}, {low}), {high})",
        "equal": infix("=="), "not_equal": infix("!="), "less": infix("<"), "less_equal": infix("<="),
        "greater": infix(">"), "greater_equal": infix(">="),
        "bitwise_and": infix("&"), "bitwise_or": infix("|"), "bitwise_xor": infix("^"),
        "bitwise_invert": lambda x: f"(~{x})",
        "isnan": lambda x: "false", "isinf": lambda x: "false", "isfinite": lambda x: "true",
        **dict.fromkeys(("positive", "copy", "floor", "ceil", "trunc", "rint"), identity),
    }


def _same(x: str) -> str:
    return x


_BOOL: Final[dict[str, Emit]] = {
    "add": lambda a, b: f"({a} | {b})", "multiply": lambda a, b: f"({a} & {b})",
    **dict.fromkeys(("maximum", "fmax"), lambda a, b: f"({a} | {b})"),
    **dict.fromkeys(("minimum", "fmin"), lambda a, b: f"({a} & {b})"),
    "equal": lambda a, b: f"({a} == {b})", "not_equal": lambda a, b: f"({a} != {b})",
    "less": lambda a, b: f"(!{a} & {b})", "less_equal": lambda a, b: f"(!{a} | {b})",
    "greater": lambda a, b: f"({a} & !{b})", "greater_equal": lambda a, b: f"({a} | !{b})",
    "bitwise_and": lambda a, b: f"({a} & {b})", "bitwise_or": lambda a, b: f"({a} | {b})",
    "bitwise_xor": lambda a, b: f"({a} != {b})", "bitwise_invert": lambda a: f"(!{a})",
    "logical_and": lambda a, b: f"({a} & {b})", "logical_or": lambda a, b: f"({a} | {b})",
    "logical_xor": lambda a, b: f"({a} != {b})", "logical_not": lambda a: f"(!{a})",
    "clip": lambda x, low, high: f"(({x} | {low}) & {high})", "abs": _same,
    "isnan": lambda x: "false", "isinf": lambda x: "false", "isfinite": lambda x: "true",
    "copy": _same, "floor": _same, "ceil": _same, "trunc": _same, "positive": _same,
}

_TABLES: Final[dict[str, dict[str, Emit]]] = {
    "f32": {**_float(""), **{name: _call(name) for name in _SINGLE_ONLY}},
    "f64": _float("_64"), "bool": _BOOL,
    **{t: _integer(t) for t in ("i32", "u32", "i64", "u64")},
}
_SHIFTS: Final = {"bitwise_left_shift": "shift_left", "bitwise_right_shift": "shift_right"}
_WRAPPING: Final = ("add", "subtract", "multiply", "negative", "square", "bitwise_invert", "floor_divide", "abs")


def apply(op: str, dtype: str, type_: str, args: Sequence[str]) -> str:
    """Return an operator's result; `dtype` and the register type are those of the operands."""
    if op in _SHIFTS and kind(dtype) in ("int", "uint"):
        return wrapped(f"jf_{_SHIFTS[op]}_{type_}({args[0]}, {args[1]}, {integer_bits(dtype)}u)", dtype)
    emit = _TABLES[type_].get(op)
    if emit is None and type_ in FLOATS and op in SHARED:
        emit = _call(name_of(op, type_).removeprefix("jf_"))
    if emit is None:
        raise UnknownOperatorError(f"{op} of {dtype} has no WGSL version")
    result = emit(*args)
    return wrapped(result, dtype) if op in _WRAPPING else result


def needs_float64(op: str, type_: str) -> bool:
    """Return whether an operator on floats is computed in float64."""
    return type_ in FLOATS and op not in _TABLES[type_] and op in SHARED


def wrapped(expression: str, dtype: str) -> str:
    """Return an integer of fewer than 32 bits wrapped around to its width; others as they are."""
    if kind(dtype) not in ("int", "uint") or not is_packed(dtype):
        return expression
    return f"extractBits({expression}, 0u, {integer_bits(dtype)}u)"


def power_by_constant(x: str, dtype: str, type_: str, exponent: Any) -> str | None:
    """Return x to a power that NumPy computes by simpler means when it is a scalar; None for the others."""
    if type_ in FLOATS:
        simple = {2: "square", 1: "copy", 0.5: "sqrt"}
        if exponent in simple:
            return apply(simple[exponent], dtype, type_, [x])
        if exponent == 0:
            return constant(1, type_)
        return apply("divide", dtype, type_, [constant(1, type_), x]) if exponent == -1 else None
    if exponent < 0:
        return None
    result: str | None = None
    while exponent:
        if exponent & 1:
            result = x if result is None else apply("multiply", dtype, type_, [result, x])
        exponent >>= 1
        if exponent:
            x = apply("multiply", dtype, type_, [x, x])
    return constant(1, type_) if result is None else result


def constant(value: Any, type_: str) -> str:
    """Return a literal; floats by their bits, which no driver folds into other operations."""
    import struct

    if type_ == "f32":
        return f"literal({struct.unpack('<I', struct.pack('<f', value))[0]:#x}u)"
    if type_ == "f64":
        low, high = struct.unpack("<II", struct.pack("<d", value))
        return f"literal_64({low:#x}u, {high:#x}u)"
    if type_ == "bool":
        return "true" if value else "false"
    if type_ == "i32":
        return f"bitcast<i32>({int(value) & 0xFFFFFFFF:#x}u)" if value < 0 else f"{int(value)}i"
    if type_ == "i64":
        return f"bitcast<i64>({int(value) & (2**64 - 1):#x}lu)" if value < 0 else f"{int(value)}li"
    return f"{int(value)}{'u' if type_ == 'u32' else 'lu'}"

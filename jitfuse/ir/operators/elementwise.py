"""Elementwise operators: one row for each function of single elements."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitfuse.dtypes import KINDS, kind
from jitfuse.errors import ArgumentError, DTypeError, ShapeError
from jitfuse.ir import statuses
from jitfuse.ir.decompositions import composites, functions
from jitfuse.ir.operators.op import ELEMENTWISE, REQUIRED, Op, add
from jitfuse.ir.rules import dtype_rules, meta_rules, shape_rules
from jitfuse.ir.rules.ufunc_dtypes import loop_of
from jitfuse.ir.schema import Meta
from jitfuse.ir.semantics import reference

PYTHON_DTYPES: Final = frozenset({"bool", "int64", "float64"})
"""Dtypes of values that Python has numbers for."""


def _elementwise(
    name: str, arity: int, loop: dtype_rules.LoopRule, *, attrs: dict[str, Any] | None = None, decompose: Any = None,
    ulps: float = 0.0, raises: frozenset[str] = frozenset(), doc: str = "", cost: int | None = None,
) -> None:
    def infer(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
        return meta_rules.elementwise_meta(name, loop, metas)

    add(Op(
        name, arity, ELEMENTWISE, attrs or {}, infer, reference.ufunc(name), loop, decompose, ulps=ulps, raises=raises,
        doc=doc, cost=cost,
    ))


_COSTS: Final = {"sqrt": 6, "divide": 6, "floor_divide": 40, "remainder": 40}
"""Costs of exact functions that take more than one instruction."""
for _name, _loop in {
    "negative": dtype_rules.loop_numeric, "positive": dtype_rules.loop_numeric, "abs": dtype_rules.loop_part,
    "square": dtype_rules.strong(dtype_rules.loop_arithmetic), "sign": dtype_rules.strong(dtype_rules.loop_numeric),
    "sqrt": dtype_rules.loop_analytic,
    "floor": dtype_rules.loop_rounding, "ceil": dtype_rules.loop_rounding, "trunc": dtype_rules.loop_rounding,
    "copy": dtype_rules.loop_copy,
    "isnan": dtype_rules.loop_predicate, "isinf": dtype_rules.loop_predicate, "isfinite": dtype_rules.loop_predicate,
    "logical_not": dtype_rules.loop_logical, "bitwise_invert": dtype_rules.loop_bitwise,
}.items():
    _elementwise(_name, 1, _loop, cost=_COSTS.get(_name))

for _name, _cost in {
    "exp": 24, "exp2": 24, "expm1": 28, "log": 40, "log2": 48, "log10": 56, "log1p": 48, "sin": 36, "cos": 36,
    "tanh": 64,
}.items():
    _elementwise(_name, 1, dtype_rules.loop_analytic, ulps=1.0, cost=_cost)
for _name, _cost in {"erf": 60, "erfc": 130}.items():
    _elementwise(_name, 1, dtype_rules.loop_double_first, ulps=1.0, cost=_cost)

for _name, _loop in {
    "add": dtype_rules.loop_same, "subtract": dtype_rules.loop_numeric, "multiply": dtype_rules.loop_same,
    "divide": dtype_rules.loop_divide, "floor_divide": dtype_rules.real(dtype_rules.loop_arithmetic),
    "remainder": dtype_rules.real(dtype_rules.loop_arithmetic),
    "minimum": dtype_rules.strong(dtype_rules.loop_same), "maximum": dtype_rules.strong(dtype_rules.loop_same),
    "equal": dtype_rules.loop_compare, "not_equal": dtype_rules.loop_compare, "less": dtype_rules.loop_compare,
    "less_equal": dtype_rules.loop_compare, "greater": dtype_rules.loop_compare,
    "greater_equal": dtype_rules.loop_compare,
    "logical_and": dtype_rules.loop_logical, "logical_or": dtype_rules.loop_logical,
    "logical_xor": dtype_rules.loop_logical,
    "bitwise_and": dtype_rules.loop_bitwise, "bitwise_or": dtype_rules.loop_bitwise,
    "bitwise_xor": dtype_rules.loop_bitwise,
    "bitwise_left_shift": dtype_rules.loop_shift, "bitwise_right_shift": dtype_rules.loop_shift,
}.items():
    _elementwise(_name, 2, _loop, cost=_COSTS.get(_name))

_elementwise("power", 2, dtype_rules.loop_arithmetic, ulps=1.0, cost=130, raises=frozenset({"int"}))
for _name in ("logaddexp", "logaddexp2"):
    _elementwise(_name, 2, dtype_rules.loop_float, ulps=1.0, cost=200)

_elementwise("xlogy", 2, dtype_rules.loop_float, ulps=1.0, cost=72, doc="x log(y); 0 where x is 0 and y a number.")
_elementwise("logit", 1, dtype_rules.loop_float, ulps=1.0, cost=80, doc="log(x / (1 - x)).")
_elementwise("sinc", 1, dtype_rules.loop_float, ulps=1.0, cost=64,
             doc="sin(pi x) / (pi x), 1 at 0: exactly 0 at the other integers, where np.sinc is not.")

# ---------------------------------------------------------------- exact functions, with NumPy's bits
for _name in (
    "rint", "signbit", "spacing", "reciprocal", "copysign", "nextafter", "fmod", "fmin", "fmax", "heaviside", "ldexp",
    "gcd", "lcm", "bitwise_count",
):
    _elementwise(_name, getattr(np, _name).nin, loop_of(getattr(np, _name)))
_elementwise("frexp_mantissa", 1, loop_of(np.frexp), doc="x times a power of two, in [0.5, 1): np.frexp(x)[0].")
_elementwise("frexp_exponent", 1, loop_of(np.frexp, 1), doc="The exponent that goes with it: np.frexp(x)[1].")
_elementwise("modf_fraction", 1, loop_of(np.modf), decompose=functions.modf_fraction,
             doc="The fraction with the sign of x: np.modf(x)[0].")
_elementwise("modf_whole", 1, loop_of(np.modf, 1), decompose=functions.modf_whole,
             doc="x without its fraction: np.modf(x)[1].")
_elementwise("fabs", 1, loop_of(np.fabs), decompose=functions.fabs, doc="The magnitude, as a float.")
_elementwise("float_power", 2, loop_of(np.float_power), decompose=functions.float_power, ulps=1.0,
             doc="x**y in float64.")
_elementwise("isposinf", 1, dtype_rules.real(dtype_rules.loop_predicate), decompose=functions.isposinf)
_elementwise("isneginf", 1, dtype_rules.real(dtype_rules.loop_predicate), decompose=functions.isneginf)


def _reject_bfloat16(name: str, metas: Sequence[Meta]) -> None:
    if any(m.dtype == "bfloat16" for m in metas):
        raise DTypeError(f"{name} does not take bfloat16, which NumPy does not count among its floats; cast first "
                         "with astype")


def _loop_nan_to_num(name: str, metas: Sequence[Meta]) -> dtype_rules.DtypeRule:
    _reject_bfloat16(name, metas)
    x = metas[0]
    if kind(x.dtype) not in ("float", "complex"):  # nothing to replace: the replacement may not fit
        return dtype_rules.DtypeRule(tuple(m.dtype for m in metas), x.dtype)
    return dtype_rules.DtypeRule((x.dtype,) * 4, x.dtype)


def _loop_round(name: str, metas: Sequence[Meta]) -> dtype_rules.DtypeRule:
    _reject_bfloat16(name, metas)
    (dtype,) = dtype_rules.loop_numeric(name, metas).inputs
    return dtype_rules.DtypeRule((dtype,), dtype)


def _loop_isclose(name: str, metas: Sequence[Meta]) -> dtype_rules.DtypeRule:
    x, y, rtol, atol = metas
    target = dtype_rules.loop_divide(name, [y])
    near = dtype_rules.loop_divide(name, [x, y])
    inputs = [(near if y.weak else target).result]
    inputs += [dtype_rules.loop_divide(name, [Meta((), inputs[0]), m]).result for m in (rtol, atol)]
    return dtype_rules.DtypeRule((near.result, *inputs), "bool")


def _infer_nan_to_num(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    x = metas[0]
    _reject_bfloat16("nan_to_num", metas)
    dtype_rules.real(_loop_nan_to_num)("nan_to_num", metas)
    if kind(x.dtype) == "float" and shape_rules.broadcast("nan_to_num", [m.shape for m in metas]) != x.shape:
        raise ShapeError(f"nan_to_num: replacements of shapes {', '.join(str(m.shape) for m in metas[1:])} do not "
                         f"broadcast to {x.shape}")
    return Meta(x.shape, x.dtype, meta_rules.common_device("nan_to_num", metas))


add(Op("nan_to_num", 4, ELEMENTWISE, {}, _infer_nan_to_num, reference.ufunc("nan_to_num"),
       dtype_rules.real(_loop_nan_to_num),
       functions.nan_to_num, doc="(x, nan, posinf, neginf): x with NaN and infinities replaced, in the dtype of x."))
_elementwise("round", 1, _loop_round, attrs={"decimals": 0}, decompose=functions.round_,
             doc="To `decimals` decimals, halves to even.")
_elementwise("isclose", 4, _loop_isclose, attrs={"equal_nan": False}, decompose=functions.isclose,
             doc="(x, y, rtol, atol): whether |x - y| <= atol + rtol |y|.")

# ---------------------------------------------------------------- what neural networks use
for _name, _cost, _doc in (
    ("sigmoid", 56, "1 / (1 + exp(-x))."),
    ("silu", 64, "x sigmoid(x); -0.0 at minus infinity, the limit."),
    ("gelu", 150, "x (1 + erf(x / sqrt 2)) / 2; -0.0 at minus infinity, the limit."),
    ("gelu_tanh", 80, "x (1 + tanh(sqrt(2/pi) (x + 0.044715 x**3))) / 2; -0.0 at minus infinity, the limit."),
    ("softplus", 180, "log(1 + exp(x))."),
):
    _elementwise(_name, 1, dtype_rules.loop_float, ulps=1.0, cost=_cost, doc=_doc)
_elementwise("log_sigmoid", 1, dtype_rules.loop_float, decompose=functions.log_sigmoid, ulps=1.0,
             doc="log(sigmoid(x)), which is -softplus(-x).")
_elementwise("relu", 1, dtype_rules.real(dtype_rules.strong(dtype_rules.loop_numeric)), decompose=functions.relu,
             doc="0 for x below it, else x; NaN and -0.0 stay.")
_elementwise("leaky_relu", 2, dtype_rules.loop_float, decompose=functions.leaky_relu,
             doc="(x, slope): x above 0, slope * x elsewhere.")
_elementwise("elu", 2, dtype_rules.loop_float, decompose=functions.elu, ulps=2.0,
             doc="(x, alpha): x above 0, alpha (exp(x) - 1) elsewhere.")

# ---------------------------------------------------------------- angles, hyperbolas and roots
for _name, _arity, _cost, _doc in (
    ("tan", 1, 64, "The tangent; radians."),
    ("asin", 1, 36, "The angle in [-pi/2, pi/2] with this sine; NaN beyond 1."),
    ("acos", 1, 36, "The angle in [0, pi] with this cosine; NaN beyond 1."),
    ("atan", 1, 44, "The angle in [-pi/2, pi/2] with this tangent."),
    ("atan2", 2, 60, "The angle of the point (second, first) in [-pi, pi]; zeros and infinities as in C99."),
    ("rad2deg", 1, 1, "Radians in degrees."),
    ("deg2rad", 1, 1, "Degrees in radians."),
    ("sinh", 1, 56, "The hyperbolic sine."),
    ("cosh", 1, 48, "The hyperbolic cosine."),
    ("asinh", 1, 76, "The inverse hyperbolic sine."),
    ("acosh", 1, 76, "The inverse hyperbolic cosine; NaN below 1."),
    ("atanh", 1, 50, "The inverse hyperbolic tangent; infinite at 1, NaN beyond."),
    ("hypot", 2, 28, "sqrt(x*x + y*y) without overflow; infinite where one operand is."),
    ("cbrt", 1, 44, "The cube root, that of a negative number too."),
):
    _real = _name in ("atan2", "rad2deg", "deg2rad", "hypot", "cbrt")
    _elementwise(_name, _arity, dtype_rules.loop_float if _real else dtype_rules.loop_analytic, ulps=1.0, cost=_cost,
                 doc=_doc)

_elementwise("where", 3, dtype_rules.loop_where, doc="The second operand where the first is true, else the third.")
_elementwise("clip", 3, dtype_rules.loop_clip, decompose=composites.clip,
             doc="minimum(maximum(x, low), high) in the common dtype of all three.")


def _infer_require(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    if attrs["status"] not in statuses.MESSAGES:
        raise ArgumentError(f"require: there is no status {attrs['status']}")
    return meta_rules.elementwise_meta("require", dtype_rules.loop_require, metas)


add(Op("require", 2, ELEMENTWISE, {"status": statuses.REQUIREMENT}, _infer_require, reference.require,
        dtype_rules.loop_require, raises=frozenset(KINDS.values()),
        doc="The first operand; raises ValueError where the second is false."))


def _infer_python_number(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    meta, = metas
    if meta.shape or meta.dtype not in PYTHON_DTYPES:
        raise ArgumentError(f"python_number: {meta} is no bool, int64 or float64 of rank 0")
    return Meta((), meta.dtype, meta.device, weak=True)


add(Op("python_number", 1, ELEMENTWISE, {}, _infer_python_number, reference.python_number,
       doc="The number as one of Python's (weak): a bool, int64 or float64 of rank 0."))


def _infer_astype(metas: Sequence[Meta], attrs: dict[str, Any]) -> Meta:
    dtype = meta_rules.check_dtype("astype", attrs["dtype"])
    return Meta(metas[0].shape, dtype, metas[0].device)


add(Op("astype", 1, ELEMENTWISE, {"dtype": REQUIRED}, _infer_astype, reference.astype,
        doc="Cast; float to int truncates, out of range as on x86-64."))
_elementwise("stop_gradient", 1, dtype_rules.loop_copy, decompose=lambda x: x.astype(dtype=x.dtype) if x.weak else x,
             doc="The operand, which derivatives take for a constant.")

"""What `help` says of the functions of the namespace: a row of a table for each, and the text that is made of it.

A row has the function's name, what it returns (if its own docstring does not say so), an example, and what the example
gives. Arguments are described by their names, dtypes by the row of the op table. Owns the texts; `tests/test_help.py`
runs the examples.
"""
from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from typing import Any, Final

from jitfuse.base.records import Record
from jitfuse.dtypes import SUPPORTED
from jitfuse.errors import JitfuseError
from jitfuse.ir.operators import ops
from jitfuse.ir.program import Meta

_ARRAY: Final = "an array, a number, or a nested list of numbers, of any shape"
_PARAMETERS: Final = {
    **dict.fromkeys(("x", "x1", "x2", "a", "b", "m", "array"), _ARRAY),
    **{f"linalg.{name}": "matrices (..., M, N); (..., M, M) where there is an inverse, a determinant, an eigenvalue or "
       "a power" for name in ("x", "a")},
    "linalg.solve.b": "vectors (M,) or matrices (..., M, K)", "linalg.vector_norm.x": _ARRAY,
    **{f"linalg.{name}": _ARRAY for name in ("tensordot.a", "outer.a")},
    "arrays": "a sequence of arrays", "args": "arrays that broadcast", "xi": "arrays of one axis",
    "operands": "the string, and arrays; or arrays and lists of axes", "shapes": "tuples of integers",
    "axis": "an axis, or several where the default is None or a tuple; negative ones count from the last",
    "axes": "axes; for tensordot their number, or two lists", "keepdims": "keep the axes, with extent 1",
    "dtype": "the dtype of the result: a name, a dtype of jitfuse or NumPy", "device": 'None, "cpu" or "gpu"',
    "out": "an array to write the result into, which is returned", "where": "which elements count, bool",
    "initial": "where the sum, product or comparison starts", "correction": "n - correction is divided by",
    "ddof": "another name of `correction`", "mean": "the mean, if it is known", "weights": "a weight per element",
    "returned": "return the sum of weights too", "q": "shares in [0, 1]", "method": "as in np.quantile",
    "overwrite_input": "no effect: the input stays", "include_initial": "begin with 0, or 1 for products",
    "condition": "bool, of any shape", "min": "a lower bound, or None", "max": "an upper bound, or None",
    "decimals": "an integer, negative before the point", "rtol": "a relative tolerance", "atol": "an absolute tolerance",
    "equal_nan": "NaN equals NaN", "nan": "what NaN becomes", "posinf": "what inf becomes", "neginf": "what -inf becomes",
    "copy": "True: always copy; False: share memory where possible; None: copy if needed",
    "shape": "an integer or a tuple of integers", "fill_value": "a number", "start": "a number", "stop": "a number",
    "step": "a number, not 0", "num": "how many", "endpoint": "whether `stop` is the last", "n_rows": "an integer",
    "n_cols": "an integer; None: n_rows", "k": "a diagonal: 0 the main one, 1 above it, -1 below it",
    "obj": "a number, nested sequence, array of NumPy or jitfuse, or torch tensor", "subok": "no effect",
    "descending": "the largest first", "stable": "equal elements keep their order", "side": '"left" or "right"',
    "sorter": "indices that sort x1", "indices": "an array of integers", "mode": "what to do beyond the bounds",
    "repeats": "an integer, or one for each item", "repetitions": "an integer, or one for each axis",
    "n": "a number of times, points or a length", "prepend": "values before the first", "append": "values after the last",
    "invert": "negate the result", "shift": "an integer, or one for each axis", "pad_width": "widths, as in np.pad",
    "offset": "0 for the main diagonal", "axis1": "the first axis", "axis2": "the second axis",
    "source": "axes", "destination": "where they go", "casting": "as in np.can_cast", "sparse": "keep extents of 1",
    "indexing": '"xy" or "ij"', "optimize": "no effect on the result", "ord": "the order, a number or a name",
    "norm": '"backward", "ortho" or "forward"', "s": "lengths along the axes", "d": "the distance of points in time",
    "full_matrices": "square U and Vh", "upper": "the upper triangle", "kind": "a dtype, or a kind by the standard",
    "from_": "a dtype or an array", "to": "a dtype", "type": "a dtype or an array", "arrays_and_dtypes": "at least one",
    "low": "the lower bound", "high": "the upper bound", "negative_slope": "the slope below 0", "alpha": "the scale below 0",
    "beta": "the steepness", "approximate": '"none" or "tanh"', "weight": "a factor, which broadcasts with x",
    "bias": "a summand, which broadcasts with x", "eps": "added to the variance or mean square",
    "p": "the share of elements that become 0, in [0, 1)", "training": "a bool; None: the mode of the fused function",
    "kwargs": "options of NumPy's function of this name",
    "nn.linear.x": "an array (..., in)", "nn.linear.weight": "an array (in, out)", "nn.linear.bias": "an array (out,)",
    "nn.batch_norm.axis": "the axis of channels", "nn.batch_norm.weight": "a factor for each channel",
    "nn.batch_norm.bias": "a summand for each channel", "running_mean": "an array (channels,), written in training",
    "running_var": "an array (channels,), written in training", "momentum": "the share of a batch in running statistics",
    "shared_axes": "axes along which all elements are dropped or none",
    "predictions": "an array of floats", "target": "an array of the shape of the first one, or a number",
    "reduction": '"mean", "sum" or "none"', "delta": "where the loss becomes linear, above 0",
    "nn.smooth_l1_loss.beta": "where the loss becomes linear; 0 or above",
    "logits": "an array of floats, unnormalised logarithms of probabilities", "pos_weight": "a factor of targets that are 1",
    "nn.binary_cross_entropy_with_logits.weight": "a factor, which broadcasts with the logits",
    "log_input": "an array of floats, logarithms of probabilities", "log_probabilities": "as log_softmax returns them",
    "targets": "an array of classes; for cross_entropy also of probabilities",
    **{f"nn.{name}.{parameter}": text for name in ("nll_loss", "cross_entropy") for parameter, text in (
        ("axis", "the axis of classes"), ("weight", "a factor for each class"))},
    "ignore_index": "a target that does not count", "label_smoothing": "in [0, 1]",
}


def documentation(name: str, function: Callable[..., Any]) -> str:
    """Return the docstring of a function by its name in the namespace, such as ``linalg.svd``."""
    row = _row(name)
    if row is None:
        return function.__doc__ or ""
    summary, example, result = row
    plain = name.rpartition(".")[2]
    op = ops.get({"pow": "power"}.get(plain, plain))
    text = inspect.cleandoc(function.__doc__ or "")
    if summary or not text:
        said = summary or (op.doc if op is not None else "")
        text = f"Return {said[:1].lower()}{said[1:]}"
    parameters = _parameters(function)
    raises, dtypes = [], ""
    if op is not None and op.infer_results is None and ops.REQUIRED not in op.attrs.values() and plain != "matmul":
        dtypes, takes_all = _dtypes(_Rule(op, op.loop or op.name))
        if not takes_all:
            raises.append("TypeError: a dtype that it does not take (DTypeError in fused functions).")
        if op.arity > 1:
            raises.append("ValueError: shapes that do not fit together (ShapeError in fused functions).")
    if "axis" in parameters:
        raises.append("IndexError and ValueError: an axis that the array lacks (AxisError).")
    raises.append("TypeError: arguments of other kinds, or another number of them.")
    returns = "What is said above, in the kind of the arguments: arrays of NumPy, torch or jitfuse, or traced arrays."
    parts = [
        text, _section("Args", [f"{p}: {_described(name, p)}." for p in parameters]),
        _section("Returns", [returns, dtypes]), _section("Raises", raises),
        f"Example:\n    >>> {_code(name, example)}\n    {result}",
    ]
    return "\n\n".join(part for part in parts if part)


def _described(name: str, parameter: str) -> str:
    keys = f"{name}.{parameter}", f"{name.partition('.')[0]}.{parameter}", parameter
    return next(_PARAMETERS[key] for key in keys if key in _PARAMETERS)


def _row(name: str) -> tuple[str, str, str] | None:
    at = _TABLE.find(f"\n{name} | ")
    if at < 0:
        return None
    _, summary, example, result = _TABLE[at + 1 : _TABLE.index("\n", at + 1)].split(" | ")
    return summary, example, result


def _code(name: str, example: str) -> str:
    return example if example.startswith("jf.") else f"jf.{name}({example})"


def _section(title: str, lines: list[str]) -> str:
    lines = [f"    {line}" for line in lines if line]
    return "\n".join([f"{title}:", *lines]) if lines else ""


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of the parameters; NumPy's functions are dispatchers around the function itself."""
    inner = getattr(function, "_implementation", function)
    code = getattr(inspect.unwrap(inner), "__code__", None)
    if code is None:
        return tuple(inspect.signature(function).parameters)
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)
    names: tuple[str, ...] = code.co_varnames[:count]
    return names


class _Rule(Record, frozen=True):
    """An operator, equal to those with the same rule of dtypes: asking it takes some 0.2 ms."""

    op: ops.Op
    key: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Rule) and self.key == other.key and self.op.arity == other.op.arity

    def __hash__(self) -> int:
        return hash(self.key)


@functools.cache
def _dtypes(rule: _Rule) -> tuple[str, bool]:
    """Return the dtypes that an operator takes and gives, and whether it takes all."""
    taken = {}
    for dtype in SUPPORTED:
        with contextlib.suppress(JitfuseError):
            taken[dtype] = rule.op.result_meta([Meta((3, 3), dtype)] * max(rule.op.arity, 1), {}).dtype
    takes_all, results = len(taken) == len(SUPPORTED), set(taken.values())
    missing = [dtype for dtype in SUPPORTED if dtype not in taken]
    accepted = ", ".join(taken) if len(missing) > 5 else "all" + (f" but {', '.join(missing)}" if missing else "")
    if len(results) == 1:
        return f"Dtypes: {accepted}; the result has {results.pop()}.", takes_all
    changed: dict[str, list[str]] = {}
    for given, made in taken.items():
        if made != given:
            changed.setdefault(made, []).append(given)
    others = "".join(f"; {made} for {', '.join(given)}" for made, given in changed.items())
    return f"Dtypes: {accepted}. The result has the same{others}.", takes_all


_TABLE: Final = """
abs | The magnitude; of a complex number its modulus. | [-2, 3] | array([2, 3])
acos |  | [1.0, 0.0] | array([0.        , 1.57079633])
acosh |  | [1.0, 2.0] | array([0.       , 1.3169579])
add | The sum. | [1, 2], 10 | array([11, 12])
angle |  | [1.0, 1j, -1.0] | array([0.        , 1.57079633, 3.14159265])
asin |  | [0.0, 1.0] | array([0.        , 1.57079633])
asinh |  | [0.0, 1.0] | array([0.        , 0.88137359])
atan |  | [0.0, 1.0] | array([0.        , 0.78539816])
atan2 |  | [1.0, -1.0], [0.0, 1.0] | array([ 1.57079633, -0.78539816])
atanh |  | [0.0, 0.5] | array([0.        , 0.54930614])
beta |  | [1.0, 2.0], 3.0 | array([0.33333333, 0.08333333])
betaln |  | [1.0, 2.0], 3.0 | array([-1.09861229, -2.48490665])
bitwise_and | The bits that both operands have; of bools the conjunction. | [12, 7], 5 | array([4, 5])
bitwise_count | The number of bits that are 1 in the magnitude. | [0, 7, 8] | array([0, 3, 1], dtype=uint8)
bitwise_invert | All bits turned over; of bools the negation. | [0, 5] | array([-1, -6])
bitwise_left_shift | x1 shifted by x2 bits to the left. | [1, 3], 2 | array([ 4, 12])
bitwise_or | The bits that one operand has, or both. | [12, 7], 5 | array([13,  7])
bitwise_right_shift | x1 shifted by x2 bits to the right; signed integers keep their sign. | [8, -8], 2 | array([ 2, -2])
bitwise_xor | The bits that one operand alone has. | [12, 7], 5 | array([9, 2])
cbrt |  | [8.0, -27.0] | array([ 2., -3.])
ceil | The smallest whole number that is not below x. | [1.2, -1.2] | array([ 2., -1.])
conj |  | [1 + 2j, 3.0] | array([1.-2.j, 3.-0.j])
copy | The same values in memory of their own. | [1, 2] | array([1, 2])
copysign | The magnitude of x1 with the sign of x2. | [1.0, 2.0], [-1.0, 0.0] | array([-1.,  2.])
cos | The cosine of an angle in radians. | [0.0, 1.0] | array([1.        , 0.54030231])
cosh |  | [0.0, 1.0] | array([1.        , 1.54308063])
deg2rad |  | [0.0, 180.0] | array([0.        , 3.14159265])
digamma |  | [1.0, 2.0] | array([-0.57721566,  0.42278434])
divide | The quotient; of integers as floats. | [1, 2], 4 | array([0.25, 0.5 ])
elu |  | [1.0, -1.0], 1.0 | array([ 1.        , -0.63212056])
equal | Whether the operands are equal. | [1, 2], 2 | array([False,  True])
erf | The error function. | [0.0, 1.0] | array([0.        , 0.84270079])
erfc | 1 - erf(x), accurate for large x. | [0.0, 1.0] | array([1.        , 0.15729921])
erfcinv |  | [0.5] | array([0.47693628])
erfinv |  | [0.0, 0.5] | array([0.        , 0.47693628])
exp | e to the power x. | [0.0, 1.0] | array([1.        , 2.71828183])
exp2 | 2 to the power x. | [0.0, 3.0] | array([1., 8.])
expm1 |  | [0.0, 1e-10] | array([0.e+00, 1.e-10])
fabs |  | [-2, 3] | array([2., 3.])
float_power |  | [2, 3], -1 | array([0.5       , 0.33333333])
floor | The largest whole number that is not above x. | [1.8, -1.2] | array([ 1., -2.])
floor_divide |  | [7, -7], 2 | array([ 3, -4])
fmax | The larger operand; where one is NaN, the other. | [1.0, np.nan], 0.0 | array([1., 0.])
fmin | The smaller operand; where one is NaN, the other. | [1.0, np.nan], 0.0 | array([0., 0.])
fmod | The remainder with the sign of x1, as in C. | [7, -7], 3 | array([ 1, -1])
frexp_exponent |  | [8.0, 0.5] | array([4, 0], dtype=int32)
frexp_mantissa |  | [8.0, 0.5] | array([0.5, 0.5])
gamma |  | [1.0, 5.0] | array([ 1., 24.])
gammainc |  | 2.0, [0.0, 1.0] | array([0.        , 0.26424112])
gammaincc |  | 2.0, [0.0, 1.0] | array([1.        , 0.73575888])
gammaincinv |  | 2.0, [0.0, 0.5] | array([0.        , 1.67834699])
gammaln |  | [1.0, 5.0] | array([0.        , 3.17805383])
gcd | The greatest common divisor. | [12, 7], 18 | array([6, 1])
gelu |  | [-1.0, 1.0] | array([-0.15865525,  0.84134475])
gelu_tanh |  | [-1.0, 1.0] | array([-0.15880801,  0.84119199])
greater | Whether x1 is above x2. | [1, 2], 1 | array([False,  True])
greater_equal | Whether x1 is not below x2. | [0, 1], 1 | array([False,  True])
heaviside | 0 where x1 is negative, 1 where it is positive, x2 where it is 0. | [-1.0, 0.0, 2.0], 0.5 | array([0. , 0.5, 1. ])
hypot |  | [3.0, 5.0], [4.0, 12.0] | array([ 5., 13.])
i0 |  | [0.0, 1.0] | array([1.        , 1.26606588])
i0e |  | [0.0, 1.0] | array([1.        , 0.46575961])
i1 |  | [0.0, 1.0] | array([0.       , 0.5651591])
i1e |  | [0.0, 1.0] | array([0.        , 0.20791042])
imag |  | [1 + 2j, 3.0] | array([2., 0.])
isfinite | Whether x is neither infinite nor NaN. | [1.0, np.inf, np.nan] | array([ True, False, False])
isinf | Whether x is infinite. | [1.0, np.inf, np.nan] | array([False,  True, False])
isnan | Whether x is NaN. | [1.0, np.inf, np.nan] | array([False, False,  True])
isneginf | Whether x is minus infinity. | [np.inf, -np.inf] | array([False,  True])
isposinf | Whether x is plus infinity. | [np.inf, -np.inf] | array([ True, False])
lcm | The least common multiple. | [4, 6], 10 | array([20, 30])
ldexp | x1 times 2 to the power x2. | [1.0, 3.0], 2 | array([ 4., 12.])
leaky_relu |  | [1.0, -1.0], 0.1 | array([ 1. , -0.1])
less | Whether x1 is below x2. | [1, 2], 2 | array([ True, False])
less_equal | Whether x1 is not above x2. | [2, 3], 2 | array([ True, False])
log | The natural logarithm; NaN for negative numbers, minus infinity at 0. | [1.0, 2.0] | array([0.        , 0.69314718])
log10 | The logarithm to base 10. | [1.0, 1000.0] | array([0., 3.])
log1p | log(1 + x), accurate for small x. | [0.0, 1e-10] | array([0.e+00, 1.e-10])
log2 | The logarithm to base 2. | [1.0, 8.0] | array([0., 3.])
log_ndtr |  | [0.0, -10.0] | array([ -0.69314718, -53.23128515])
log_sigmoid |  | [0.0, -1.0] | array([-0.69314718, -1.31326169])
logaddexp | log(exp(x1) + exp(x2)) without overflow. | [0.0, 1000.0], 0.0 | array([6.93147181e-01, 1.00000000e+03])
logaddexp2 | log2(2**x1 + 2**x2) without overflow. | [0.0, 3.0], 3.0 | array([3.169925, 4.      ])
logical_and | Whether both operands are true: not 0. | [0, 2], [3, 4] | array([False,  True])
logical_not | Whether x is 0. | [0, 2] | array([ True, False])
logical_or | Whether an operand is true: not 0. | [0, 2], 0 | array([False,  True])
logical_xor | Whether one operand alone is true: not 0. | [0, 2], 1 | array([ True, False])
logit |  | [0.5, 0.9] | array([0.        , 2.19722458])
make_complex |  | [1.0, 2.0], 3.0 | array([1.+3.j, 2.+3.j])
maximum | The larger operand; NaN where one is NaN. | [1, 5], 3 | array([3, 5])
minimum | The smaller operand; NaN where one is NaN. | [1, 5], 3 | array([1, 3])
modf_fraction |  | [1.5, -1.5] | array([ 0.5, -0.5])
modf_whole |  | [1.5, -1.5] | array([ 1., -1.])
multiply | The product. | [1, 2], 10 | array([10, 20])
ndtr |  | [0.0, 1.96] | array([0.5      , 0.9750021])
ndtri |  | [0.5, 0.975] | array([0.        , 1.95996398])
negative | -x. | [1, -2] | array([-1,  2])
nextafter | The next float after x1 in the direction of x2. | [1.0, 2.0], 9.0 | array([1., 2.])
not_equal | Whether the operands differ; NaN differs from all. | [1, 2], 2 | array([ True, False])
positive | x itself, as a new array. | [1, -2] | array([ 1, -2])
pow | x1 to the power x2. | [2, 3], 2 | array([4, 9])
rad2deg |  | [0.0, np.pi] | array([  0., 180.])
real |  | [1 + 2j, 3.0] | array([1., 3.])
reciprocal | 1 / x; of integers rounded to 0. | [2.0, 4.0] | array([0.5 , 0.25])
relu |  | [-1.0, 2.0] | array([0., 2.])
remainder | The remainder with the sign of x2, as Python's %. | [7, -7], 3 | array([1, 2])
rgamma |  | [1.0, 5.0] | array([1.        , 0.04166667])
riemann_zeta |  | [2.0, 4.0] | array([1.64493407, 1.08232323])
rint | The nearest whole number, halves to even. | [0.5, 1.5, 1.7] | array([0., 2., 2.])
sigmoid |  | [0.0, 1.0] | array([0.5       , 0.73105858])
sign | -1, 0 or 1; of a complex number x / abs(x). | [-3, 0, 5] | array([-1,  0,  1])
signbit | Whether the sign is negative: that of -0.0 is. | [-0.0, 1.0] | array([ True, False])
silu |  | [0.0, 1.0] | array([0.        , 0.73105858])
sin | The sine of an angle in radians. | [0.0, 1.0] | array([0.        , 0.84147098])
sinc |  | [0.0, 0.5, 1.0] | array([1.        , 0.63661977, 0.        ])
sinh |  | [0.0, 1.0] | array([0.        , 1.17520119])
softplus |  | [0.0, 1.0] | array([0.69314718, 1.31326169])
spacing | The distance to the next float away from 0. | [1.0, 1024.0] | array([2.22044605e-16, 2.27373675e-13])
sqrt | The square root; NaN for negative numbers. | [4.0, 2.0] | array([2.        , 1.41421356])
square | x x. | [3, -4] | array([ 9, 16])
subtract | The difference. | [1, 2], 10 | array([-9, -8])
tan |  | [0.0, 1.0] | array([0.        , 1.55740772])
tanh |  | [0.0, 1.0] | array([0.        , 0.76159416])
trunc | The whole number next to x in the direction of 0. | [1.8, -1.8] | array([ 1., -1.])
xlogy |  | [0.0, 2.0], [0.0, 3.0] | array([0.        , 2.19722458])
zeta |  | [2.0, 4.0], 1.0 | array([1.64493407, 1.08232323])
sum | The sum over axes; of bools and small integers in int64 or uint64. | [[1, 2], [3, 4]], axis=0 | array([4, 6])
prod | The product over axes; of bools and small integers in int64 or uint64. | [[1, 2], [3, 4]], axis=1 | array([ 2, 12])
nansum | The sum over axes, NaN counting as 0. | [1.0, np.nan, 2.0] | np.float64(3.0)
nanprod | The product over axes, NaN counting as 1. | [3.0, np.nan, 2.0] | np.float64(6.0)
mean | The mean over axes. | [[1.0, 2.0], [3.0, 6.0]], axis=0 | array([2., 4.])
nanmean | The mean over axes of what is not NaN. | [1.0, np.nan, 3.0] | np.float64(2.0)
var | The variance over axes: the mean of squared distances from the mean, over n - correction. | [1.0, 2.0, 3.0], correction=1 | np.float64(1.0)
std | The standard deviation over axes, the root of `var`. | [1.0, 2.0, 3.0], correction=1 | np.float64(1.0)
nanvar | The variance over axes of what is not NaN. | [1.0, np.nan, 3.0] | np.float64(1.0)
nanstd | The standard deviation over axes of what is not NaN. | [1.0, np.nan, 3.0] | np.float64(1.0)
min | The smallest element over axes; NaN where one is NaN. | [[3, 1], [2, 5]], axis=1 | array([1, 2])
max | The largest element over axes; NaN where one is NaN. | [[3, 1], [2, 5]], axis=1 | array([3, 5])
nanmin | The smallest element over axes that is not NaN. | [3.0, np.nan, 1.0] | np.float64(1.0)
nanmax | The largest element over axes that is not NaN. | [3.0, np.nan, 1.0] | np.float64(3.0)
any | Whether an element over axes is true: not 0. | [[0, 1], [0, 0]], axis=1 | array([ True, False])
all | Whether all elements over axes are true: not 0. | [[2, 1], [0, 1]], axis=1 | array([ True, False])
count_nonzero | The number of elements over axes that are not 0. | [[0, 1], [2, 3]], axis=1 | array([1, 2])
ptp | The largest element minus the smallest over axes. | [[3, 1], [2, 5]], axis=1 | array([2, 3])
argmin | The index of the first smallest element, of all or along an axis. | [3, 1, 2] | np.int64(1)
argmax | The index of the first largest element, of all or along an axis. | [3, 1, 4] | np.int64(2)
nanargmin | The index of the first smallest element that is not NaN. | [np.nan, 1.0, 2.0] | np.int64(1)
nanargmax | The index of the first largest element that is not NaN. | [np.nan, 1.0, 2.0] | np.int64(2)
cumsum | The sums of the elements up to each one along an axis; of all in row-major order without `axis`. | [1, 2, 3] | array([1, 3, 6])
cumprod | The products of the elements up to each one along an axis; of all in row-major order without `axis`. | [1, 2, 3] | array([1, 2, 6])
cumulative_sum | The sums of the elements up to each one along an axis, which arrays of one axis may leave out. | [1, 2, 3], include_initial=True | array([0, 1, 3, 6])
cumulative_prod | The products of the elements up to each one along an axis, which arrays of one axis may leave out. | [1, 2, 3], include_initial=True | array([1, 1, 2, 6])
average | The mean over axes, weighted if `weights` are given. | [1.0, 3.0], weights=[3.0, 1.0] | np.float64(1.5)
median | The median over axes. | [3.0, 1.0, 2.0] | np.float64(2.0)
quantile | The quantiles over axes: the element at the share q of the sorted ones, by `method` between two. | [1.0, 2.0, 3.0], 0.25 | np.float64(1.5)
logsumexp |  | [0.0, 1000.0] | np.float64(1000.0)
softmax |  | [0.0, 1.0] | array([0.26894142, 0.73105858])
log_softmax |  | [0.0, 1.0] | array([-1.31326169, -0.31326169])
cummax |  | [1, 3, 2], axis=0 | array([1, 3, 3])
cummin |  | [3, 1, 2], axis=0 | array([3, 1, 1])
permute_dims | The axes in another order, reversed without `axes`; a view. | jf.permute_dims(np.ones((2, 3, 4)), (2, 0, 1)).shape | (4, 2, 3)
matrix_transpose | The last two axes exchanged; a view. | jf.matrix_transpose([[1, 2, 3]]).tolist() | [[1], [2], [3]]
expand_dims | Axes of extent 1 inserted at `axis`; a view. | jf.expand_dims(np.ones(3), 0).shape | (1, 3)
squeeze | Axes of extent 1 removed, all or those named; a view. | jf.squeeze(np.ones((1, 3, 1))).shape | (3,)
moveaxis | Axes moved to other places; a view. | jf.moveaxis(np.ones((2, 3, 4)), 0, -1).shape | (3, 4, 2)
flip | The elements in reverse order, along all axes or those named; a view. | [1, 2, 3] | array([3, 2, 1])
broadcast_to | The array repeated to a shape; a view that cannot be written. | jf.broadcast_to([1, 2], (2, 2)).tolist() | [[1, 2], [1, 2]]
broadcast_arrays | The arrays repeated to their common shape. | jf.broadcast_arrays(np.ones(3), np.ones((2, 1)))[0].shape | (2, 3)
concat | The arrays one after the other along an axis; axis=None: as one axis. | [[1, 2], [3]] | array([1, 2, 3])
stack | The arrays as items of a new axis. | jf.stack([[1, 2], [3, 4]], axis=1).tolist() | [[1, 3], [2, 4]]
tensordot | The sum of products over the last axes of a and the first of b: `axes` of them, or two lists of axes. | jf.tensordot(np.ones((2, 3)), np.ones((3, 4)), axes=1).shape | (2, 4)
einsum | The sum of products that a string describes, as np.einsum. | "ij,j->i", [[1, 2], [3, 4]], [1, 1] | array([3, 7])
outer | The products of all elements of a with all of b, (a.size, b.size). | jf.outer([1, 2], [3, 4]).tolist() | [[3, 4], [6, 8]]
dot | The product of matrices or vectors: the sum over the last axis of a and the last but one of b. | [1, 2], [3, 4] | np.int64(11)
roll | The elements shifted along an axis; those that leave come in at the other end. | [1, 2, 3], 1 | array([3, 1, 2])
pad | The array with a border of `pad_width` (before, after) on each axis; `mode` as in np.pad. | [1, 2], 1 | array([0, 1, 2, 0])
tril | The elements on and below the k-th diagonal of the last two axes, 0 above. | jf.tril([[1, 2], [3, 4]]).tolist() | [[1, 0], [3, 4]]
triu | The elements on and above the k-th diagonal of the last two axes, 0 below. | jf.triu([[1, 2], [3, 4]]).tolist() | [[1, 2], [0, 4]]
diagonal | The diagonal over two axes, as the last axis; a view. | [[1, 2], [3, 4]] | array([1, 4])
meshgrid | The coordinates of the points of a grid, an array for each axis. | jf.meshgrid([1, 2], [3, 4, 5])[0].shape | (3, 2)
isclose | Whether abs(a - b) <= atol + rtol abs(b). | [1.0, 2.0], [1.0, 2.1] | array([ True, False])
nan_to_num | x with NaN replaced by `nan`, infinities by `posinf` and `neginf` (default: the largest floats). | [1.0, np.nan], nan=-1.0 | array([ 1., -1.])
clip |  | [1, 5, 9], 2, 6 | array([2, 5, 6])
round |  | [1.25, 2.5], 1 | array([1.2, 2.5])
sort |  | [3, 1, 2], descending=True | array([3, 2, 1])
argsort |  | [3, 1, 2] | array([1, 2, 0])
searchsorted |  | [1, 3, 5], [2, 3] | array([1, 1])
take |  | [5, 6, 7], [2, 0] | array([7, 5])
take_along_axis |  | jf.take_along_axis([[3, 1], [2, 4]], [[1, 0], [0, 1]]).tolist() | [[1, 3], [2, 4]]
repeat |  | [1, 2], 2 | array([1, 1, 2, 2])
reshape |  | jf.reshape([1, 2, 3, 4], (2, -1)).tolist() | [[1, 2], [3, 4]]
unstack |  | jf.unstack(np.ones((2, 3)))[0].shape | (3,)
tile |  | [1, 2], 2 | array([1, 2, 1, 2])
diff |  | [1, 4, 9] | array([3, 5])
where |  | [True, False], [1, 2], 0 | array([1, 0])
broadcast_shapes |  | (2, 1), (3,) | (2, 3)
isin |  | [1, 2, 3], [2, 5] | array([False,  True, False])
nonzero |  | jf.nonzero([0, 1, 2])[0] | array([1, 2])
unique_all |  | jf.unique_all([2, 1, 2]).indices | array([1, 0])
unique_counts |  | jf.unique_counts([2, 1, 2]).counts | array([1, 2])
unique_inverse |  | jf.unique_inverse([2, 1, 2]).inverse_indices | array([1, 0, 1])
unique_values |  | [2, 1, 2] | array([1, 2])
vecdot |  | [1, 2], [3, 4] | np.int64(11)
matmul |  | [[1, 2], [3, 4]], [1, 1] | array([3, 7])
zeros |  | 2 | NumPyArray(array([0., 0.]))
ones |  | 2, "int64" | NumPyArray(array([1, 1]))
empty |  | jf.empty((2, 3)).shape | (2, 3)
full |  | 2, 7 | NumPyArray(array([7, 7]))
arange |  | 1, 7, 2 | NumPyArray(array([1, 3, 5]))
linspace |  | 0, 1, 3 | NumPyArray(array([0. , 0.5, 1. ]))
eye |  | jf.eye(2).tolist() | [[1.0, 0.0], [0.0, 1.0]]
zeros_like | Zeros in the shape of x; the default dtype is that of x. | [1, 2] | array([0, 0])
ones_like | Ones in the shape of x; the default dtype is that of x. | [1, 2] | array([1, 1])
empty_like | An array to be written in the shape of x; the default dtype is that of x. | jf.empty_like(np.ones(3)).shape | (3,)
full_like |  | [1, 2], 7 | array([7, 7])
asarray |  | [1.0, 2.0] | NumPyArray(array([1., 2.]))
from_dlpack |  | jf.from_dlpack(np.ones(2)) | NumPyArray(array([1., 1.]))
isdtype |  | jf.isdtype(jf.float32, "real floating") | True
can_cast |  | jf.can_cast(jf.int8, jf.float32) | True
result_type |  | jf.result_type(jf.int8, jf.int16) | jitfuse.int16
astype |  | [1.7, 2.2], "int64" | array([1, 2])
finfo |  | jf.finfo("float32").bits | 32
iinfo |  | jf.iinfo("uint8").max | 255
__array_namespace_info__ |  | jf.__array_namespace_info__().default_device() | 'cpu'
linalg.cholesky | The lower triangle L with x = L L^H of a positive definite matrix; upper=True: U with x = U^H U. | jf.linalg.cholesky([[4.0, 0.0], [0.0, 9.0]]).tolist() | [[2.0, 0.0], [0.0, 3.0]]
linalg.cross |  | [1, 0, 0], [0, 1, 0] | array([0, 0, 1])
linalg.det | The determinant. | [[2.0]] | np.float64(2.0)
linalg.diagonal | The diagonals of matrices, at `offset` above the main one; a view. | [[1, 2], [3, 4]] | array([1, 4])
linalg.eig |  | jf.linalg.eig([[2.0, 0.0], [0.0, 3.0]])[0].shape | (2,)
linalg.eigh |  | jf.linalg.eigh([[2.0, 0.0], [0.0, 1.0]])[0] | array([1., 2.])
linalg.eigvals |  | jf.linalg.eigvals([[2.0, 0.0], [0.0, 3.0]]).shape | (2,)
linalg.eigvalsh |  | [[2.0, 0.0], [0.0, 1.0]] | array([1., 2.])
linalg.inv | The inverse. | jf.linalg.inv([[2.0, 0.0], [0.0, 4.0]]).tolist() | [[0.5, 0.0], [0.0, 0.25]]
linalg.matmul |  | [[1, 2], [3, 4]], [1, 1] | array([3, 7])
linalg.matrix_norm | The norm of matrices: "fro", "nuc", 1, 2, -1, -2, inf or -inf. | [[3.0, 0.0], [0.0, 4.0]] | np.float64(5.0)
linalg.matrix_power | The n-th power of square matrices; of the inverse for negative n. | jf.linalg.matrix_power([[1, 1], [0, 1]], 3).tolist() | [[1, 3], [0, 1]]
linalg.matrix_rank |  | [[1.0, 2.0], [2.0, 4.0]] | np.int64(1)
linalg.matrix_transpose | The last two axes exchanged; a view. | jf.linalg.matrix_transpose([[1, 2, 3]]).tolist() | [[1], [2], [3]]
linalg.outer | The products of all elements of two vectors. | jf.linalg.outer([1, 2], [3, 4]).tolist() | [[3, 4], [6, 8]]
linalg.pinv |  | jf.linalg.pinv(np.ones((2, 3))).shape | (3, 2)
linalg.qr |  | jf.linalg.qr(np.ones((3, 2)))[1].shape | (2, 2)
linalg.slogdet | The sign of the determinant, and the logarithm of its magnitude. | jf.linalg.slogdet([[2.0, 0.0], [0.0, -1.0]]).sign | np.float64(-1.0)
linalg.solve | The x with a x = b. | [[2.0, 0.0], [0.0, 4.0]], [1.0, 2.0] | array([0.5, 0.5])
linalg.svd |  | jf.linalg.svd([[3.0, 0.0], [0.0, 4.0]])[1] | array([4., 3.])
linalg.svdvals | The singular values in descending order. | [[3.0, 0.0], [0.0, 4.0]] | array([4., 3.])
linalg.tensordot | The sum of products over the last axes of a and the first of b: `axes` of them, or two lists of axes. | jf.linalg.tensordot(np.ones((2, 3)), np.ones((3, 4)), axes=1).shape | (2, 4)
linalg.trace | The sum of the diagonal at `offset` of matrices. | [[1, 2], [3, 4]] | np.int64(5)
linalg.vecdot |  | [1, 2], [3, 4] | np.int64(11)
linalg.vector_norm | The norm of vectors of order `ord` (default 2) over axes. | [3.0, 4.0] | np.float64(5.0)
fft.fft |  | [1.0, 2.0, 3.0, 4.0] | array([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j])
fft.fftfreq |  | 4 | NumPyArray(array([ 0.  ,  0.25, -0.5 , -0.25]))
fft.fftn |  | jf.fft.fftn(np.ones((2, 3))).shape | (2, 3)
fft.fftshift |  | [0, 1, -2, -1] | array([-2, -1,  0,  1])
fft.hfft |  | [1.0, 2.0] | array([ 3., -1.])
fft.ifft |  | [4.0, 0.0] | array([2.+0.j, 2.+0.j])
fft.ifftn |  | jf.fft.ifftn(np.ones((2, 3))).shape | (2, 3)
fft.ifftshift |  | [-2, -1, 0, 1] | array([ 0,  1, -2, -1])
fft.ihfft |  | [1.0, 3.0] | array([ 2.-0.j, -1.-0.j])
fft.irfft |  | [3.0, -1.0], n=2 | array([1., 2.])
fft.irfftn |  | jf.fft.irfftn(np.ones((2, 3))).shape | (2, 4)
fft.rfft |  | [1.0, 2.0] | array([ 3.+0.j, -1.+0.j])
fft.rfftfreq |  | 4 | NumPyArray(array([0.  , 0.25, 0.5 ]))
fft.rfftn |  | jf.fft.rfftn(np.ones((2, 4))).shape | (2, 3)
nn.batch_norm |  | jf.nn.batch_norm(np.array([[1.0, 5.0], [3.0, 5.0]]), eps=0.5).round(2).tolist() | [[-0.82, 0.0], [0.82, 0.0]]
nn.binary_cross_entropy_with_logits |  | np.array([0.0, 2.0]), np.array([1.0, 1.0]), reduction="none" | array([0.69314718, 0.12692801])
nn.cross_entropy |  | np.array([[0.0, 1.0], [2.0, 0.0]]), np.array([1, 1]), reduction="none" | array([0.31326169, 2.12692801])
nn.dropout |  | jf.nn.dropout(np.ones(2), 0.5) | array([1., 1.])
nn.elu | x above 0, alpha (exp(x) - 1) elsewhere (Clevert et al. 2015). | np.array([1.0, -1.0]) | array([ 1.        , -0.63212056])
nn.gelu | x Phi(x), Phi the normal distribution function (Hendrycks and Gimpel 2016). | np.array([-1.0, 1.0]), approximate="tanh" | array([-0.15880801,  0.84119199])
nn.hard_sigmoid |  | np.array([-4.0, 0.0]) | array([0. , 0.5])
nn.hard_silu |  | np.array([-4.0, 3.0]) | array([-0.,  3.])
nn.hard_tanh |  | np.array([-4.0, 0.5]) | array([-1. ,  0.5])
nn.huber_loss |  | np.array([0.5, 3.0]), np.zeros(2), reduction="none" | array([0.125, 2.5  ])
nn.kl_div |  | np.log([0.5, 0.5]), np.array([0.0, 1.0]), reduction="sum" | np.float64(0.6931471805599453)
nn.l1_loss |  | np.array([1.0, 4.0]), np.array([2.0, 2.0]) | np.float64(1.5)
nn.layer_norm | (x - mean) / sqrt(variance + eps) over the axes, times `weight`, plus `bias` (Ba et al. 2016). | np.array([1.0, 3.0]), eps=0.0 | array([-1.,  1.])
nn.leaky_relu | x above 0, negative_slope * x elsewhere (Maas et al. 2013). | np.array([1.0, -1.0]) | array([ 1.  , -0.01])
nn.linear |  | np.array([1.0, 2.0]), np.array([[1.0], [3.0]]), np.array([0.5]) | array([7.5])
nn.log_sigmoid |  | np.array([0.0, -1.0]) | array([-0.69314718, -1.31326169])
nn.log_softmax |  | np.array([0.0, 1.0]) | array([-1.31326169, -0.31326169])
nn.mish | x tanh(softplus(x)) (Misra 2019). | np.array([0.0, 1.0]) | array([0.        , 0.86509839])
nn.mse_loss |  | np.array([1.0, 4.0]), np.array([2.0, 2.0]) | np.float64(2.5)
nn.nll_loss |  | np.log([[0.5, 0.5], [0.25, 0.75]]), np.array([0, 0]), reduction="none" | array([0.69314718, 1.38629436])
nn.relu |  | np.array([-1.0, 2.0]) | array([0., 2.])
nn.relu6 |  | np.array([-1.0, 9.0]) | array([0., 6.])
nn.rms_norm | x / sqrt(mean(x * x) + eps) over the axes, times `weight` (Zhang and Sennrich 2019). | np.array([1.0, 7.0]), eps=0.0 | array([0.2, 1.4])
nn.selu |  | np.array([0.0, 1.0]) | array([0.        , 1.05070099])
nn.sigmoid |  | np.array([0.0, 1.0]) | array([0.5       , 0.73105858])
nn.silu | x sigmoid(x), also called swish; -0.0 at minus infinity (Elfwing et al. 2017). | np.array([0.0, 1.0]) | array([0.        , 0.73105858])
nn.smooth_l1_loss |  | np.array([0.5, 3.0]), np.zeros(2), reduction="none" | array([0.125, 2.5  ])
nn.softmax |  | np.array([0.0, 1.0]) | array([0.26894142, 0.73105858])
nn.softplus |  | np.array([0.0, 1.0]) | array([0.69314718, 1.31326169])
nn.softsign |  | np.array([0.0, 1.0]) | array([0. , 0.5])
"""
"""The rows: name, what it returns, example, its result; a blank text is that of the function itself."""

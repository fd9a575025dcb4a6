"""The arithmetic of complex numbers in real formulas, with NumPy's results.

`FORMULAS` maps operators to functions from pairs (real, imaginary) to a pair, or to one real or bool tensor. Sums,
differences, comparisons, minima and maxima have NumPy's bits. A product is ac - bd, ad + bc without fused multiply-add,
which NumPy uses on some paths. A quotient is Smith's (Algorithm 116, 1962), as in NumPy.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from jitfuse.passes.complex.real_tensor import choose, is_finite, is_inf, is_nan

Pair = tuple[Any, Any]


def multiply(x: Pair, y: Pair) -> Pair:
    """Return the product."""
    (a, b), (c, d) = x, y
    return a * c - b * d, a * d + b * c


def divide(x: Pair, y: Pair) -> Pair:
    """Return the quotient; if the divisor is zero, both parts are divided by |0|."""
    (a, b), (c, d) = x, y
    c_is_larger = abs(c) >= abs(d)
    large, small = choose(c_is_larger, c, d), choose(c_is_larger, d, c)
    ratio = small / large
    scale = 1.0 / (large + small * ratio)
    real = choose(c_is_larger, a + b * ratio, a * ratio + b) * scale
    imag = choose(c_is_larger, b - a * ratio, b * ratio - a) * scale
    by_zero = (c == 0.0) & (d == 0.0)
    return choose(by_zero, a / abs(c), real), choose(by_zero, b / abs(c), imag)


def reciprocal(x: Pair) -> Pair:
    """Return 1 / z by NumPy's formula."""
    a, b = x
    wide = abs(b) <= abs(a)
    large, small = choose(wide, a, b), choose(wide, b, a)
    ratio = small / large
    below = large + small * ratio
    return choose(wide, 1.0, ratio) / below, -choose(wide, ratio, 1.0) / below


def square(x: Pair) -> Pair:
    """Return the product with itself by NumPy's formula."""
    a, b = x
    return a * a - b * b, a * b + b * a


def modulus(x: Pair) -> Any:
    """Return |z| without overflow; infinite if a part is, whatever the other part is."""
    return x[0].call("hypot", x[1])


def sign(x: Pair) -> Pair:
    """Return z / |z|: 0 for 0; the sign of a single infinite part; NaN for two infinite parts."""
    a, b = x
    size = a.call("hypot", b)
    zero, endless = size == 0.0, is_inf(size) & ~(is_inf(a) & is_inf(b))
    real, imag = (choose(endless, choose(is_inf(p), p.call("sign"), 0.0), choose(zero, 0.0, p / size)) for p in x)
    unknown = is_nan(size)
    return choose(unknown, math.nan, real), choose(unknown, math.nan, imag)


def _less(strict: str, x: Pair, y: Pair) -> Any:
    """Compare in lexicographic order: the real parts, then the imaginary parts if the real ones are equal."""
    (a, b), (c, d) = x, y
    ordered = ~is_nan(b) & ~is_nan(d)
    first = a.call("less", c) & ordered
    return first | ((a == c) & b.call(strict, d))


def _chosen(x: Pair, y: Pair, first: Any) -> Pair:
    return choose(first, x[0], y[0]), choose(first, x[1], y[1])


def maximum(x: Pair, y: Pair) -> Pair:
    """Return the larger in lexicographic order, or the first operand with a NaN."""
    return _chosen(x, y, _less("less_equal", y, x) | is_nan(x[0]) | is_nan(x[1]))


def minimum(x: Pair, y: Pair) -> Pair:
    """Return the smaller in lexicographic order, or the first operand with a NaN."""
    return _chosen(x, y, _less("less_equal", x, y) | is_nan(x[0]) | is_nan(x[1]))


FORMULAS: Final[dict[str, Callable[..., Any]]] = {
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "subtract": lambda x, y: (x[0] - y[0], x[1] - y[1]),
    "multiply": multiply, "divide": divide, "square": square, "abs": modulus, "sign": sign,
    "negative": lambda x: (-x[0], -x[1]), "positive": lambda x: x, "conj": lambda x: (x[0], -x[1]),
    "equal": lambda x, y: (x[0] == y[0]) & (x[1] == y[1]),
    "not_equal": lambda x, y: (x[0] != y[0]) | (x[1] != y[1]),
    "less": lambda x, y: _less("less", x, y), "less_equal": lambda x, y: _less("less_equal", x, y),
    "greater": lambda x, y: _less("less", y, x), "greater_equal": lambda x, y: _less("less_equal", y, x),
    "maximum": maximum, "minimum": minimum,
    "fmax": lambda x, y: _chosen(x, y, _less("less_equal", y, x) | is_nan(y[0]) | is_nan(y[1])),
    "fmin": lambda x, y: _chosen(x, y, _less("less_equal", x, y) | is_nan(y[0]) | is_nan(y[1])),
    "reciprocal": reciprocal, "rint": lambda x: (x[0].call("rint"), x[1].call("rint")),
    "isnan": lambda x: is_nan(x[0]) | is_nan(x[1]), "isinf": lambda x: is_inf(x[0]) | is_inf(x[1]),
    "isfinite": lambda x: is_finite(x[0]) & is_finite(x[1]),
}

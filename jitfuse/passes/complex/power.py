"""Powers of complex numbers, by NumPy's rules.

Integer exponents below 100 in magnitude use repeated squaring in the dtype. All others use exp(w log z) in float64,
whose relative error grows with |w log z|, as in C libraries. 0 to a power with a positive real part is 0, 0 to any
other power NaN, and anything to the power 0 is 1.
"""
from __future__ import annotations

import math
from typing import Any, Final

from jitfuse.passes.complex.arithmetic import Pair, divide, multiply, square
from jitfuse.passes.complex.functions import exp, log, sqrt, wide
from jitfuse.passes.complex.real_tensor import choose, is_zero

_WHOLE: Final = 100
_BITS: Final = 7


def power(z: Pair, w: Pair, exponent: complex | None = None) -> Pair:
    """Return z**w; `exponent` is w if it is a literal."""
    if exponent is not None:
        return _to_literal(z, w, complex(exponent))
    c, d = w
    whole = is_zero(d) & (abs(c) < float(_WHOLE)) & (c.call("trunc") == c)
    real, imag = (choose(whole, p, q) for p, q in zip(_to_whole(z, c, whole), _general(z, w), strict=True))
    return _with_zeros(z, w, (real, imag))


def _to_literal(z: Pair, w: Pair, exponent: complex) -> Pair:
    n = exponent.real
    one, zero = z[0].number(1.0), z[0].number(0.0)
    if exponent == 0:
        return one, zero
    if exponent == 0.5:
        return sqrt(z)
    if exponent.imag or not n.is_integer() or abs(n) >= _WHOLE:
        return _with_zeros(z, w, _general(z, w))
    result: Pair | None = None
    squared, rest = z, int(abs(n))
    while rest:
        if rest & 1:
            result = squared if result is None else multiply(result, squared)
        rest >>= 1
        squared = square(squared) if rest else squared
    assert result is not None
    return result if n > 0 else _with_zeros(z, w, divide((one, zero), result))


def _to_whole(z: Pair, c: Any, whole: Any) -> Pair:
    """Return z to the integer power c, bit by bit of the exponent."""
    n = choose(whole, abs(c), 0.0).to("int64")
    result: Pair = (z[0].number(1.0), z[0].number(0.0))
    squared = z
    for k in range(_BITS):
        odd = n.call("bitwise_and", 1 << k).call("not_equal", 0)
        more = multiply(result, squared) if k else z
        result = choose(odd, more[0], result[0]), choose(odd, more[1], result[1])
        squared = square(squared)
    inverse = divide((z[0].number(1.0), z[0].number(0.0)), result)
    return choose(c < 0.0, inverse[0], result[0]), choose(c < 0.0, inverse[1], result[1])


@wide
def _general(z: Pair, w: Pair, *, single: bool) -> Pair:
    return exp(multiply(w, log(z)))


def _with_zeros(z: Pair, w: Pair, result: Pair) -> Pair:
    """Return the result with the special cases for powers of 0 and exponents of 0."""
    (a, b), (c, d) = z, w
    nothing, none = is_zero(a) & is_zero(b), is_zero(c) & is_zero(d)
    at_zero = choose(c > 0.0, 0.0, c.number(math.nan))
    real, imag = (choose(nothing, at_zero, p) for p in result)
    return choose(none, 1.0, real), choose(none, 0.0, imag)

"""fmod, remainder and floor_divide of floats, exact, with NumPy's signs and special cases.

Owns: the fast path, one division and one exact remainder for quotients below 2**28 (float32) or 2**50
(float64), and the slow path, long division in integers, one lane at a time in a function of its own.
The sign rules are those of CPython's float_divmod, as in NumPy's npy_divmod.
"""
from __future__ import annotations

from typing import Final

from jitfuse.backends.llvm.math.double_double import two_product
from jitfuse.backends.llvm.math.lockstep import Batch, Context
from jitfuse.backends.llvm.math.rare_lanes import lane_function, patch_lanes
from jitfuse.backends.llvm.math.rounding import floor, trunc
from jitfuse.backends.llvm.text.builder import Value

_INFINITY = float("inf")


def fmod_32(x: Batch, y: Batch) -> Batch:
    """Return C's fmod of float32 batches."""
    size = _fmod_of_sizes(abs(x).widened(), abs(y).widened(), quotient_bits=28, y_bits=24)
    return size.narrowed().copysign(x)


def fmod_64(x: Batch, y: Batch) -> Batch:
    """Return C's fmod of float64 batches."""
    return _fmod_of_sizes(abs(x), abs(y), quotient_bits=50, y_bits=53).copysign(x)


def remainder_32(x: Batch, y: Batch) -> Batch:
    """Return x modulo y with the sign of y, as np.remainder, of float32 batches."""
    return _with_sign_of_divisor(fmod_32(x, y), y)[0]


def remainder_64(x: Batch, y: Batch) -> Batch:
    """Return x modulo y with the sign of y, as np.remainder, of float64 batches."""
    return _with_sign_of_divisor(fmod_64(x, y), y)[0]


def floor_divide_32(x: Batch, y: Batch) -> Batch:
    """Return np.floor_divide of float32 batches."""
    return _floor_quotient(x, y, fmod_32(x, y))


def floor_divide_64(x: Batch, y: Batch) -> Batch:
    """Return np.floor_divide of float64 batches."""
    return _floor_quotient(x, y, fmod_64(x, y))


def _with_sign_of_divisor(mod: Batch, y: Batch) -> tuple[Batch, Batch]:
    """Return (mod with the sign of y, where y was added for it)."""
    opposite = mod.compare("olt", 0.0) ^ y.compare("olt", 0.0)
    moved = opposite & mod.compare("one", 0.0)
    zero_signed = mod.copysign(y).where(mod.compare("oeq", 0.0), mod)
    return (mod + y).where(moved, zero_signed), moved


def _floor_quotient(x: Batch, y: Batch, mod: Batch) -> Batch:
    """Return the quotient of npy_divmod: (x - mod)/y, less 1 where mod changes sign, to an integer."""
    moved = _with_sign_of_divisor(mod, y)[1]
    quotient = (x - mod) / y
    quotient = (quotient - 1.0).where(moved, quotient)
    whole = floor(quotient)
    whole = (whole + 1.0).where((quotient - whole).compare("ogt", 0.5), whole)
    plain = x / y
    whole = whole.filled(0.0).copysign(plain).where(quotient.compare("oeq", 0.0), whole)
    return plain.where(y.compare("oeq", 0.0), whole)


def _fmod_of_sizes(x: Batch, y: Batch, quotient_bits: int, y_bits: int) -> Batch:
    """Return fmod for float64 x, y >= 0.

    The quotient, rounded and truncated, is at most 1 too large; its product with y is exact when
    quotient_bits + y_bits <= 53, and its remainder x - q*y is a float64 in any case.
    """
    q = x / y
    whole = trunc(q)
    if quotient_bits + y_bits <= 53 or x.context.has_fma:
        r = (-whole).fma(y, x)
    else:
        p, e = two_product(whole, y)
        r = (x - p) - e
    r = (r + y).where(r.compare("olt", 0.0), r)
    r = x.where(x.compare("olt", y), r)
    long = q.compare("oge", 2.0**quotient_bits)
    if not x.context.has_fma:
        long = long | (y.compare("ogt", 2.0**900) & x.compare("oge", y))  # Dekker's product overflows
    long = long & y.compare("ogt", 0.0) & x.compare("olt", _INFINITY)
    function = lane_function(x.context, "jitfuse.fmod_long", ["double"] * 2, ["double"], _long_division)
    return patch_lanes(function, long, [x, y], [r])[0]


def _long_division(context: Context, inputs: list[Value]) -> list[Value]:
    """Return fmod of finite x >= y > 0, in base 2**11: significands of 53 bits leave 11 bits of 64 free."""
    f = context.f

    def integer(v: int) -> Value:
        return Value(str(v), "i64")

    def parts(v: Value) -> tuple[Value, Value]:
        bits = f.cast("bitcast", v, "i64")
        exponent = f.lshr(bits, integer(52))
        normal = f.icmp("ne", exponent, integer(0))
        fraction = f.and_(bits, integer((1 << 52) - 1))
        significand = f.or_(fraction, f.select(normal, integer(1 << 52), integer(0)))
        return significand, f.select(normal, exponent, integer(1))

    (mx, ex), (my, ey) = parts(inputs[0]), parts(inputs[1])
    gap = f.sub(ex, ey)
    first = f.urem(mx, my)
    with f.loop(integer(0), gap, 11) as loop:
        r = loop.carry(first)
        left = f.sub(gap, loop.index)
        step = f.select(f.icmp("slt", left, integer(11)), left, integer(11))
        loop.update(0, f.urem(f.shl(r, step), my))
    value = f.cast("uitofp", loop.result(0), "double")
    power = f.cast("bitcast", f.shl(ey, integer(52)), "double")  # 2**(ey - 1023); r counts 2**(ey - 1075)
    return [f.fmul(f.fmul(value, f.const("double", 2.0**-52)), power)]


OPERATORS: Final = {
    "fmod": (fmod_32, fmod_64), "remainder": (remainder_32, remainder_64),
    "floor_divide": (floor_divide_32, floor_divide_64),
}
"""What this file computes: (for float32, for float64) by operator."""

"""Functions of floats that read their bits: neighbours, parts, and scaling by powers of two, as NumPy's.

Owns: nextafter, spacing, signbit, frexp, ldexp; for 16-bit floats, which are held as bits, only nextafter. Does
not own arithmetic, see `elementwise`.
"""
from __future__ import annotations

import math

from jitfuse.backends.llvm.codegen.elements.narrow_floats import widened
from jitfuse.backends.llvm.math.lockstep import Batch
from jitfuse.backends.llvm.text.builder import element
from jitfuse.base.records import NamedTuple


class Format(NamedTuple):
    """The layout of a float type: bits of the fraction, bias of the exponent, mask of the exponent."""

    fraction: int
    bias: int
    mask: int


_FORMATS = {"float": Format(23, 127, 255), "double": Format(52, 1023, 2047)}


def _format(x: Batch) -> Format:
    return _FORMATS[element(x.type)]


def signbit(x: Batch) -> Batch:
    """Return where the sign bit is set."""
    return x.bits().compare("slt", 0)


def nextafter(x: Batch, y: Batch) -> Batch:
    """Return the float next to x in the direction of y; y itself where they are equal."""
    bits = y.bits()
    return _stepped(x, y, x.bits(), bits, bits, (x + y).bits()).from_bits()


def nextafter_of_bits(x: Batch, y: Batch, dtype: str) -> Batch:
    """Return the bits of `nextafter` for 16-bit floats, given as bits; x itself for equal float16."""
    nan = x.filled(0x7FC0 if dtype == "bfloat16" else 0x7E00)
    return _stepped(widened(x, dtype), widened(y, dtype), x, y, y if dtype == "bfloat16" else x, nan)


def _stepped(x: Batch, y: Batch, from_: Batch, towards: Batch, equal: Batch, nan: Batch) -> Batch:
    """Return the bits of the float next to x; `from_` and `towards` are the bits of x and y.

    `equal` and `nan` are the bits of the result where x equals y, and where an operand is NaN.
    """
    away = y.compare("ogt", x) ^ from_.compare("slt", 0)
    stepped = (from_ + 1).where(away, from_ - 1)
    sign = -(1 << (int(element(from_.type)[1:]) - 1))
    stepped = ((towards & sign) | 1).where(x.compare("oeq", 0.0), stepped)
    stepped = equal.where(x.compare("oeq", y), stepped)
    return nan.where(x.compare("uno", y), stepped)


def spacing(x: Batch) -> Batch:
    """Return the distance from x to the next float away from 0, with the sign of x; NaN at infinity."""
    size = abs(x)
    gap = (size.bits() + 1).from_bits() - size
    gap = (-gap).where(x.compare("olt", 0.0), gap)
    return gap.replace(size.compare("ueq", math.inf), math.nan)


def _parts(x: Batch) -> tuple[Batch, Batch, Batch]:
    """Return (m, e, ordinary) with x = m * 2**e, |m| in [1/2, 1), where x is finite and not 0; x and 0 elsewhere."""
    form = _format(x)
    shift = form.fraction + 2
    denormal = abs(x).compare("olt", 2.0 ** (1 - form.bias))
    bits = (x * 2.0**shift).where(denormal, x).bits()
    exponent = (bits >> form.fraction) & form.mask
    exponent = exponent - exponent.filled(form.bias - 1 + shift).where(denormal, form.bias - 1)
    half = (bits & ~(form.mask << form.fraction)) | ((form.bias - 1) << form.fraction)
    ordinary = abs(x).compare("olt", math.inf) & x.compare("one", 0.0)
    return half.from_bits().where(ordinary, x), exponent.where(ordinary, 0), ordinary


def frexp_mantissa(x: Batch) -> Batch:
    """Return x times the power of two that brings it into [1/2, 1)."""
    return _parts(x)[0]


def frexp_exponent(x: Batch) -> Batch:
    """Return the exponent of that power, negated, as int32; 0 for 0, infinities and NaN."""
    exponent = _parts(x)[1]
    return exponent if element(exponent.type) == "i32" else exponent.cast("trunc", "i32")


def ldexp(x: Batch, exponent: Batch) -> Batch:
    """Return x * 2**exponent, rounded once."""
    n = exponent if element(exponent.type) == "i64" else exponent.cast("sext", "i64")
    n = _limited(n, -2200, 2200)
    if element(x.type) == "float":
        return (x.widened() * _power_of_two(_limited(n, -400, 400))).narrowed()
    m, e, ordinary = _parts(x)
    n = n + e
    first = _limited(n, -900, 1023)  # the product with m is exact
    rest = _limited(n - first, -1000, 2)
    return (m * _power_of_two(first) * _power_of_two(rest)).where(ordinary, x)


def _limited(n: Batch, low: int, high: int) -> Batch:
    n = n.replace(n.compare("sgt", high), high)
    return n.replace(n.compare("slt", low), low)


def _power_of_two(n: Batch) -> Batch:
    """Return 2**n as float64 for -1023 < n < 1024."""
    return ((n + 1023) << 52).from_bits()

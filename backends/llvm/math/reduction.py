"""Argument reduction modulo pi or pi/2 of sin, cos and tan.

Owns: Cody and Waite's reduction for ordinary arguments, exact products of an integer and short pieces of pi
(Muller, Elementary Functions, section 11.2), and Payne and Hanek's (1983) for the largest, in 128-bit
integers, one lane at a time in a function of its own. Does not own: the polynomials.
"""
from __future__ import annotations

from itertools import pairwise
from typing import Final

from jitfuse.backends.llvm.math.double_double import fast_two_sum, times, two_product
from jitfuse.backends.llvm.math.exponential import ROUNDER
from jitfuse.backends.llvm.math.lockstep import Batch, Context
from jitfuse.backends.llvm.math.rare_lanes import LaneBody, lane_function, patch_lanes
from jitfuse.backends.llvm.text.builder import Function, Value

_INV_PI, _TWO_OVER_PI = 0.3183098861837907, 0.6366197723675814
# pi in 33 + 53 bits, pi/2 in 33 + 53 + 53: products of the first with integers below 2**20 are exact
_PI = (3.1415926534682512, 1.2154201013012384e-10)
_HALF_PI = (1.5707963267341256, 6.077100506506192e-11, 3.5215598651832e-27)
_PI_WORDS = (3.141592653589793, 1.2246467991473532e-16)
_LARGE = 1048576.0  # beyond it the products above may round
TWO_OVER_PI_WORDS: Final = (
    0,
    0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484,
    0xE99C7026B45F7E41, 0x3991D639835339F4, 0x9C845F8BBDF9283B, 0x1FF897FFDE05980F,
    0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D, 0x7527BAC7EBE5F17B,
    0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB, 0xF0CFBC209AF4361D,
)
"""64 zero bits, then the bits of 2/pi after the point, in words of 64, highest bit first."""


def reduce_32(x: Batch, offset: float) -> Batch:
    """Return (-1)**n r for float32 x = (n - offset) pi + r, |r| <= pi/2, in float64; offset is 0 or 1/2."""
    wide = x.widened()
    if offset:
        biased = wide.fma(_INV_PI, offset) + ROUNDER
        k = (biased - ROUNDER) - offset
    else:
        biased = wide.fma(_INV_PI, ROUNDER)
        k = biased - ROUNDER
    r = _with_sign_of_turns(k.fma(-_PI[1], k.fma(-_PI[0], wide)), biased.bits())
    return patch_lanes(_large_half_turns(x.context, offset), abs(x).compare("oge", _LARGE), [x], [r])[0]


def _with_sign_of_turns(r: Batch, n: Batch) -> Batch:
    """Return r, with its sign changed where the integer n is odd."""
    return (r.bits() ^ (n << 63)).from_bits()


def reduce_quarter_32(x: Batch) -> tuple[Batch, Batch]:
    """Return (n, r) with float32 x = n pi/2 + r, |r| <= pi/4 in float64; n in the low two bits of an integer.

    r keeps its relative accuracy next to odd multiples of pi/2 too.
    """
    wide = x.widened()
    biased = wide.fma(_TWO_OVER_PI, ROUNDER)
    k = biased - ROUNDER
    r = k.fma(-_HALF_PI[1], k.fma(-_HALF_PI[0], wide))
    large = abs(x).compare("oge", _LARGE)
    n, r = patch_lanes(_large_quarter_turns_32(x.context), large, [x], [biased.bits(), r])
    return n, r


def reduce_64(x: Batch) -> tuple[Batch, Batch, Batch]:
    """Return (n, r, r_low) with x = n pi/2 + r + r_low, |r| <= pi/4; n in the low two bits of an integer."""
    biased = x.fma(_TWO_OVER_PI, ROUNDER)
    k = biased - ROUNDER
    a, b, c = _HALF_PI
    head = k.fma(-a, x)  # exact, a multiple of 2**-53, hence of the last place of k*b: so is the sum
    p, e = two_product(k, k.filled(-b))
    hi, lo = fast_two_sum(head, p)
    r, r_low = fast_two_sum(hi, k.fma(-c, lo + e))
    large = abs(x).compare("oge", _LARGE)
    n, r, r_low = patch_lanes(_large_quarter_turns(x.context), large, [x], [biased.bits(), r, r_low])
    return n, r, r_low


def _large_half_turns(context: Context, offset: float) -> str | LaneBody:
    """Return the name of the module's function for large arguments, with the output of `reduce_32`."""

    def body(scalar: Context, inputs: list[Value]) -> list[Value]:
        n, r = _large_turns(scalar, inputs[0], 1, offset)
        return list(_with_sign_of_turns(r, n).values)

    return lane_function(context, f"jitfuse.half_turns.{'half' if offset else 'zero'}", ["float"], ["double"], body)


def _large_quarter_turns_32(context: Context) -> str | LaneBody:
    """Return the name of the module's function for large arguments, with the outputs of `reduce_quarter_32`."""

    def body(scalar: Context, inputs: list[Value]) -> list[Value]:
        n, r = _large_turns(scalar, inputs[0], 2, 0.0)
        return [*n.values, *r.values]

    return lane_function(context, "jitfuse.quarter_turns_32", ["float"], ["i64", "double"], body)


def _large_turns(scalar: Context, x: Value, parts: int, offset: float) -> tuple[Batch, Batch]:
    """Return (n, r): a large float32 is n turns of pi / parts, one of 1 and 2, and r.

    64 bits of the fraction are enough: no float32 is closer than 2**-33 to a multiple of pi/2.
    """
    f = scalar.f
    wide = scalar.batch([x]).widened().values[0]
    m, window = _significand_and_window(f, wide, 2)
    turn = f.add(f.mul(m, window[0]), _high(f, _product(f, m, window[1])))
    negative = f.icmp("slt", f.cast("bitcast", wide, "i64"), _integer(0))
    turn = f.select(negative, f.sub(_integer(0), turn), turn)
    if offset:
        turn = f.add(turn, _integer(1 << 62))
    n = f.lshr(f.add(turn, _integer(1 << (63 - parts))), _integer(64 - parts))
    fraction = scalar.batch([f.cast("sitofp", f.shl(turn, _integer(parts)), "double")])
    r = fraction * (_PI_WORDS[0] / parts * 2.0**-64)
    return scalar.batch([n]), scalar.batch([_nan_if_infinite(scalar, wide, r)])


def _large_quarter_turns(context: Context) -> str | LaneBody:
    """Return the name of the module's function for large arguments, with the outputs of `reduce_64`.

    128 bits of the fraction: no float64 is closer than 2**-62 to a multiple of pi/2 (Muller, section 11.3).
    """

    def body(scalar: Context, inputs: list[Value]) -> list[Value]:
        f = scalar.f
        m, window = _significand_and_window(f, inputs[0], 3)
        zero = Value("0", "i128")
        high = f.shl(f.cast("zext", f.mul(m, window[0]), "i128"), Value("64", "i128"))
        turn = f.add(high, _product(f, m, window[1]))
        turn = f.add(turn, f.cast("zext", _high(f, _product(f, m, window[2])), "i128"))
        negative = f.icmp("slt", f.cast("bitcast", inputs[0], "i64"), _integer(0))
        turn = f.select(negative, f.sub(zero, turn), turn)
        n = f.lshr(f.add(_high(f, turn), _integer(1 << 61)), _integer(62))
        hi, lo = _signed_fraction(scalar, f.shl(turn, Value("2", "i128")))
        p, e = times(hi, *(w / 2 for w in _PI_WORDS))
        r, r_low = fast_two_sum(p, lo.fma(_PI_WORDS[0] / 2, e))
        return [n, _nan_if_infinite(scalar, inputs[0], r), r_low.values[0]]

    return lane_function(context, "jitfuse.quarter_turns", ["double"], ["i64", "double", "double"], body)


def _significand_and_window(f: Function, x: Value, count: int) -> tuple[Value, list[Value]]:
    """Return the 53-bit integer m and `count` words of bits of 2/pi, highest first.

    m times the words, the first with weight 2**64, is |x| / (2 pi) as a fraction of 2**128, modulo 1:
    the window starts where the bits of m times 2/pi begin to matter modulo 4.
    """
    bits = f.cast("bitcast", x, "i64")
    significand = f.or_(f.and_(bits, _integer((1 << 52) - 1)), _integer(1 << 52))
    exponent = f.and_(f.lshr(bits, _integer(52)), _integer(2047))
    # |x| = m * 2**e, e = exponent - 1075; the first bit has weight 2**(1 - e) and is at 62 + e in the table
    start = f.sub(exponent, _integer(1075 - 62))
    table = f.module.table("jitfuse.two_over_pi", "i64", TWO_OVER_PI_WORDS)
    first = f.offset(table, f.lshr(start, _integer(6)), "i64")
    words = [f.load("i64", f.offset(first, 8 * i)) for i in range(count + 1)]
    within = f.and_(start, _integer(63))
    return significand, [f.intrinsic("fshl", "i64", a, b, within) for a, b in pairwise(words)]


def _integer(v: int) -> Value:
    return Value(str(v), "i64")


def _product(f: Function, a: Value, b: Value) -> Value:
    """Return the 128-bit product of two unsigned 64-bit integers."""
    return f.mul(f.cast("zext", a, "i128"), f.cast("zext", b, "i128"))


def _high(f: Function, v: Value) -> Value:
    """Return the upper half of a 128-bit integer."""
    return f.cast("trunc", f.lshr(v, Value("64", "i128")), "i64")


def _signed_fraction(context: Context, signed: Value) -> tuple[Batch, Batch]:
    """Return a signed 128-bit integer over 2**128 as hi + lo: words of 32, 32 and 53 bits are exact."""
    f = context.f
    upper, lower = _high(f, signed), f.cast("trunc", signed, "i64")

    def number(conversion: str, word: Value, scale: float) -> Batch:
        return context.batch([f.cast(conversion, word, "double")]) * scale

    first = number("sitofp", f.ashr(upper, _integer(32)), 2.0**-32)
    second = number("sitofp", f.and_(upper, _integer((1 << 32) - 1)), 2.0**-64)
    third = number("sitofp", f.lshr(lower, _integer(11)), 2.0**-117)
    hi, lo = fast_two_sum(first, second)
    return fast_two_sum(hi, lo + third)


def _nan_if_infinite(context: Context, x: Value, r: Batch) -> Value:
    size = context.batch([x])
    return (r + (size - size)).values[0]

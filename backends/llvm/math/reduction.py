"""Argument reduction modulo pi or pi/2 of sin and cos.

Owns: Cody and Waite's reduction for ordinary arguments, exact products of an integer and short pieces of pi
(Muller, Elementary Functions, section 11.2), and Payne and Hanek's (1983) for the largest, in 128-bit
integers, one lane at a time in a function of its own. Does not own: the polynomials.
"""
from __future__ import annotations

from functools import cache

from jitfuse.backends.llvm.builder import Function, Module, Value
from jitfuse.backends.llvm.math.double_double import fast_two_sum, times, two_sum
from jitfuse.backends.llvm.math.exponential import ROUNDER
from jitfuse.backends.llvm.math.lockstep import Batch, Context, patch_lanes

_INV_PI, _TWO_OVER_PI = 0.3183098861837907, 0.6366197723675814
# pi as 33 + 53 bits, pi/2 as 33 + 33 + 33 + 53 bits: products with integers below 2**20 are exact but the last
_PI = (3.1415926534682512, 1.2154201013012384e-10)
_HALF_PI = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487111665e-21, 8.4784276603689e-32)
_PI_WORDS = (3.141592653589793, 1.2246467991473532e-16)
_LARGE = 1048576.0  # beyond it the products above may round
_MASK = (1 << 64) - 1


def reduce_32(x: Batch, wide: Batch, offset: float) -> tuple[Batch, Batch]:
    """Return (n, r) with x = (n - offset) pi + r, |r| <= pi/2 in float64; n in the low bit of an integer.

    `x` is float32 and `wide` the same as float64; offset is 0 or 1/2.
    """
    if offset:
        biased = wide.fma(_INV_PI, offset) + ROUNDER
        k = (biased - ROUNDER) - offset
    else:
        biased = wide.fma(_INV_PI, ROUNDER)
        k = biased - ROUNDER
    r = k.fma(-_PI[1], k.fma(-_PI[0], wide))
    function = _large_function(wide.context, shift=1, offset=offset)
    n, r = patch_lanes(function, abs(x).compare("oge", _LARGE), [wide], [biased.bits(), r])
    return n, r


def reduce_64(x: Batch) -> tuple[Batch, Batch, Batch]:
    """Return (n, r, r_low) with x = n pi/2 + r + r_low, |r| <= pi/4; n in the low two bits of an integer."""
    biased = x * _TWO_OVER_PI + ROUNDER
    k = biased - ROUNDER
    a, b, c, d = _HALF_PI
    head = k.fma(-a, x)  # exact, as are the next two products
    hi, lo = two_sum(head, k * -b)
    hi, lower = two_sum(hi, k * -c)
    lo = k.fma(-d, lo + lower)
    r, r_low = fast_two_sum(hi, lo)
    function = _large_function(x.context, shift=2, offset=0.0)
    n, r, r_low = patch_lanes(
        function, abs(x).compare("oge", _LARGE), [x], [biased.bits(), r, r_low]
    )
    return n, r, r_low


@cache
def two_over_pi_words() -> tuple[int, ...]:
    """Return 64 zero bits, then the bits of 2/pi after the point, in words of 64, highest bit first.

    2/pi from Machin's formula pi = 16 atan(1/5) - 4 atan(1/239) in integers.
    """
    bits = 64 * 21
    one = 1 << (bits + 64)

    def arctangent_of_inverse(n: int) -> int:
        total, power, k = 0, one // n, 0
        while power:
            total += (-1) ** k * (power // (2 * k + 1))
            power //= n * n
            k += 1
        return total

    pi = 16 * arctangent_of_inverse(5) - 4 * arctangent_of_inverse(239)
    fraction = ((2 * one) << bits) // pi
    return (0, *((fraction >> (bits - 64 * (i + 1))) & _MASK for i in range(20)))


def _large_function(context: Context, shift: int, offset: float) -> str:
    """Return the name of the module's function that reduces one large argument, defining it once.

    It takes a float64 x and pointers to the integer n, r and (for shift 2) r_low, as in `reduce_32` (shift 1)
    and `reduce_64` (shift 2, offset 0).
    """
    name = f"jitfuse.reduce_large.{shift}.{'half' if offset else 'zero'}"
    module = context.f.module
    if not module.defines(name):
        outputs = ["n", "r", "r_low"][: shift + 1]
        f = module.function(
            name, "void", [("x", "double"), *((o, "ptr") for o in outputs)], internal=True,
            attributes="nounwind noinline cold",
        )
        _write_large_function(f, Context(f, context.has_fma), shift, offset)
    return name


def _write_large_function(f: Function, context: Context, shift: int, offset: float) -> None:
    """Write the body: the product of the significand and a window of 2/pi as a 128-bit fraction of a turn."""
    x, *outputs = f.args
    turn = _turn(f, x, offset)
    signed = f.shl(turn, Value(str(shift), "i128"))
    nearest = f.add(turn, Value(str(1 << (127 - shift)), "i128"))
    n = f.cast("trunc", f.lshr(nearest, Value(str(128 - shift), "i128")), "i64")
    f.store(n, outputs[0])
    hi, lo = _to_double_double(f, context, signed)
    p, e = times(hi, *(w / shift for w in _PI_WORDS))
    r, r_low = fast_two_sum(p, lo.fma(_PI_WORDS[0] / shift, e))
    nan_if_infinite = context.batch([x])
    r = r + (nan_if_infinite - nan_if_infinite)
    f.store(r.values[0], outputs[1])
    if shift == 2:
        f.store(r_low.values[0], outputs[2])
    f.ret()


def _turn(f: Function, x: Value, offset: float) -> Value:
    """Return x / (2 pi), modulo 1, as a fraction of 2**128, plus a quarter turn for offset 1/2."""
    bits = f.cast("bitcast", x, "i64")

    def integer(v: int) -> Value:
        return Value(str(v), "i64")

    significand = f.or_(f.and_(bits, integer((1 << 52) - 1)), integer(1 << 52))
    exponent = f.and_(f.lshr(bits, integer(52)), integer(2047))
    # x = significand * 2**e, e = exponent - 1075: the window starts at the bit of 2/pi of weight 2**(1 - e);
    # the bit of weight 2**-i is at 63 + i in the table
    start = f.sub(exponent, integer(1075 + 1 - 63))
    table = f.module.table("jitfuse.two_over_pi", "i64", two_over_pi_words())
    first = f.offset(table, f.lshr(start, integer(6)), "i64")
    words = [f.load("i64", f.offset(first, 8 * i)) for i in range(4)]
    within = f.and_(start, integer(63))
    window = [f.intrinsic("fshl", "i64", a, b, within) for a, b in zip(words, words[1:])]
    m, *parts = (f.cast("zext", v, "i128") for v in (significand, *window))
    sixty_four = Value("64", "i128")
    total = f.add(f.shl(f.mul(m, parts[0]), sixty_four), f.mul(m, parts[1]))
    total = f.add(total, f.lshr(f.mul(m, parts[2]), sixty_four))
    negative = f.icmp("slt", bits, integer(0))
    total = f.select(negative, f.sub(Value("0", "i128"), total), total)
    return f.add(total, Value(str(1 << 126), "i128")) if offset else total


def _to_double_double(f: Function, context: Context, signed: Value) -> tuple[Batch, Batch]:
    """Return a 128-bit signed integer over 2**128 as hi + lo, its leading 106 bits."""
    negative = f.icmp("slt", signed, Value("0", "i128"))
    magnitude = f.select(negative, f.sub(Value("0", "i128"), signed), signed)
    zeros = f.intrinsic("ctlz", "i128", magnitude, Value("false", "i1"))
    normal = f.shl(magnitude, zeros)

    def word(shift: int) -> Batch:
        part = f.and_(f.cast("trunc", f.lshr(normal, Value(str(shift), "i128")), "i64"), Value(str((1 << 53) - 1), "i64"))
        return context.batch([f.value("double", f"uitofp i64 {part.ref} to double")])

    zeros_64 = f.cast("trunc", zeros, "i64")
    exponent = context.batch([f.sub(Value(str(1023 - 53), "i64"), zeros_64)])
    sign = context.batch([f.cast("zext", negative, "i64")]) << 63
    scale = ((exponent << 52) | sign).from_bits()
    return word(75) * scale, word(22) * 2.0**-53 * scale

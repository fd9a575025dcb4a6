"""float16 and bfloat16 to float32 and back, rounded to nearest, ties to even, with NumPy's results.

Owns: the conversions, in instructions where the target has them and in integer arithmetic elsewhere, where LLVM
would call its run-time library. Values are batches of i16 (the bits) and of float. Does not own other casts.
"""
from __future__ import annotations

from jitfuse.backends.llvm.math.lockstep import Batch

ONE = {"float16": 0x3C00, "bfloat16": 0x3F80}
"""The bits of 1.0."""
_HALF_INFINITY = 0x7C00


def widened(x: Batch, dtype: str) -> Batch:
    """Return the bits of a narrow dtype as float32, exactly."""
    if dtype == "bfloat16":
        return (x.cast("zext", "i32") << 16).from_bits()
    if x.context.has_fma:
        return x.cast("bitcast", "half").cast("fpext", "float")
    return _half_to_float(x)


def narrowed(x: Batch, dtype: str) -> Batch:
    """Return float32 rounded to a narrow dtype, as its bits."""
    if dtype == "bfloat16":
        return _to_bfloat(x)
    if x.context.has_fma:
        return x.context.batch([x.context.f.half(v) for v in x.values]).cast("bitcast", "i16")
    return _float_to_half(x)


def rounded_to_odd(x: Batch) -> Batch:
    """Return float64 as a float32 that rounds to float16 as the float64 does.

    An inexact result gets an odd last bit, so that it is never a tie (Boldo and Melquiond, 2008).
    """
    nearest = x.narrowed()
    back = nearest.widened()
    bits = nearest.bits()
    bits = bits - abs(back).compare("ogt", abs(x)).cast("zext", "i32")
    return (bits | back.compare("one", x).cast("zext", "i32")).from_bits()


def _to_bfloat(x: Batch) -> Batch:
    bits = x.bits()
    rounded = bits + ((bits >> 16) & 1) + 0x7FFF
    quiet = bits | 0x400000
    return (quiet.where(x.is_nan(), rounded) >> 16).cast("trunc", "i16")


def _half_to_float(x: Batch) -> Batch:
    bits = x.cast("zext", "i32")
    shifted = (bits & 0x7FFF) << 13
    exponent = shifted & (_HALF_INFINITY << 13)
    normal = shifted + ((127 - 15) << 23)
    special = normal + ((128 - 16) << 23)
    # an offset makes a denormal normal, and is subtracted again
    denormal = ((normal + (1 << 23)).from_bits() - 2.0**-14).bits()
    size = special.where(exponent.compare("eq", _HALF_INFINITY << 13), normal)
    size = denormal.where(exponent.compare("eq", 0), size)
    return (size | ((bits & 0x8000) << 16)).from_bits()


def _float_to_half(x: Batch) -> Batch:
    bits = x.bits()
    size = bits & 0x7FFFFFFF
    normal = (size + (((15 - 127) << 23) + 0xFFF) + ((size >> 13) & 1)) >> 13
    # adding 0.5 leaves the denormal's bits, rounded, at the end of the sum
    denormal = (size.from_bits() + 0.5).bits() - (126 << 23)
    result = denormal.where(size.compare("ult", (127 - 14) << 23), normal)
    result = result.replace(size.compare("uge", (127 + 16) << 23), _HALF_INFINITY)
    result = result.replace(size.compare("ugt", 255 << 23), 0x7E00)
    return (result | ((bits >> 16) & 0x8000)).cast("trunc", "i16")

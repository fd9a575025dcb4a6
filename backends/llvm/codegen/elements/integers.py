"""Integer division, shifts and powers with NumPy's results: no traps, no poison.

Owns: `divide` (quotient and remainder that floor), shifts past the width, powers that wrap around.
"""
from __future__ import annotations

from jitfuse.backends.llvm.codegen.elements.masks import any_lane
from jitfuse.backends.llvm.codegen.elements.types import i64
from jitfuse.backends.llvm.math import emit_many
from jitfuse.backends.llvm.math.lockstep import Batch, Context
from jitfuse.backends.llvm.text.builder import Value, element, lanes

_EXACT = 2**52
"""Integers below this size have the right quotient by float64 division."""


def bits(x: Batch) -> int:
    """Return the width of the integer type."""
    return int(element(x.type)[1:])


def divide(a: Batch, b: Batch, *, signed: bool = True) -> tuple[Batch, Batch]:
    """Return (floor(a / b), a - floor(a / b) * b), both 0 where b is 0.

    The smallest integer by -1 wraps around to itself. Vectors divide in floats, which is exact in float32 for up to
    16 bits, in float64 for 32 bits, and for 64 bits wherever no operand of the batch exceeds 2**52; else the
    lanes are divided one by one.
    """
    zero = b.compare("eq", 0)
    divisor = b.replace(zero, 1)
    if lanes(a.type) == 1:
        quotient = _divide_lanes(a, divisor, signed)
    elif bits(a) <= 32:
        quotient = _divide_as_floats(a, divisor, signed)
    else:
        quotient = _divide_by_size(a, divisor, signed)
    remainder = a - quotient * divisor
    return quotient.replace(zero, 0), remainder.replace(zero, 0)


def truncated_remainder(a: Batch, b: Batch) -> Batch:
    """Return the remainder with the sign of a, 0 where b is 0: C's."""
    remainder = divide(a, b)[1]
    opposite = (remainder ^ a).compare("slt", 0) & remainder.compare("ne", 0)
    return (remainder - b).where(opposite, remainder)


def reciprocal(x: Batch, *, signed: bool = True) -> Batch:
    """Return 1/x rounded towards 0.

    For x = 0 it is what x86-64 converts infinity to: the smallest integer of 32 bits or more; 0 for narrower and
    for unsigned integers.
    """
    if not signed:
        return x.where(x.compare("eq", 1), 0)
    is_unit = (x.compare("eq", 1) | x.compare("eq", -1))
    return x.where(is_unit, 0).replace(x.compare("eq", 0), -(1 << (bits(x) - 1)) if bits(x) >= 32 else 0)


def _divide_as_floats(a: Batch, b: Batch, signed: bool) -> Batch:
    context, width = a.context, bits(a)
    to_float, float_ = "sitofp" if signed else "uitofp", "float" if width <= 16 else "double"
    quotients = (a.cast(to_float, float_) / b.cast(to_float, float_)).values
    floored = emit_many(context.f, "floor", [(q,) for q in quotients], has_fma=context.has_fma)
    floats = context.batch(floored)
    if width == 32 and signed:
        floats = floats.replace(floats.compare("oeq", 2.0**31), -(2.0**31))
    if width <= 16:
        return floats.cast("fptosi", "i32").cast("trunc", element(a.type))
    return floats.cast("fptosi" if signed else "fptoui", element(a.type))


def _divide_lanes(a: Batch, b: Batch, signed: bool) -> Batch:
    if not signed:
        return a.zip(a.context.f.udiv, b)
    minus_one = b.compare("eq", -1)
    divisor = b.replace(minus_one, 1)
    f = a.context.f
    quotient = a.zip(f.sdiv, divisor)
    remainder = a - quotient * divisor
    signs_differ = (remainder ^ divisor).compare("slt", 0)
    lower = signs_differ & remainder.compare("ne", 0)
    floored = quotient + lower.cast("sext", element(a.type))
    return a.filled(0).zip(f.sub, a).where(minus_one, floored)


def _divide_by_size(a: Batch, b: Batch, signed: bool) -> Batch:
    if signed:
        large = [(x + _EXACT).compare("ugt", 2 * _EXACT) for x in (a, b)]
    else:
        large = [x.compare("ugt", _EXACT) for x in (a, b)]
    f = a.context.f
    slow, fast, end = f.fresh("slow"), f.fresh("fast"), f.fresh("divided")
    f.cond_br(any_lane(large[0] | large[1]), slow, fast, likely=False)
    f.label(slow)
    by_lanes = _divide_in_memory(a, b, signed)
    after_slow = f.block
    f.br(end)
    f.label(fast)
    by_floats = _divide_as_floats(a, b, signed=True)  # small numbers have no sign bit
    after_fast = f.block
    f.label(end)
    return a.context.batch([
        f.phi(a.type, [(x, after_slow), (y, after_fast)])
        for x, y in zip(by_lanes.values, by_floats.values, strict=True)
    ])


def _divide_in_memory(a: Batch, b: Batch, signed: bool) -> Batch:
    """Divide lane by lane in a function of its own, so that this rare code is emitted once per module."""
    f = a.context.f
    width = lanes(a.type)
    count = width * len(a.values)
    slots = [f.alloca("i64", count, align=64) for _ in range(2)]
    for slot, batch in zip(slots, (a, b), strict=True):
        for j, v in enumerate(batch.values):
            f.store(v, f.offset(slot, j * width, "i64"), 8)
    f.call(_division_function(a.context, signed), "void", [i64(count), *slots])
    return a.context.batch([f.load(a.type, f.offset(slots[0], j * width, "i64"), 8) for j in range(len(a.values))])


def _division_function(context: Context, signed: bool) -> str:
    """Define, once in the module, a function that divides arrays of 64-bit integers in place; no divisor is 0."""
    name, module = f"jf_floor_divide_{'i' if signed else 'u'}64", context.f.module
    if not module.defines(name):
        params = [("count", "i64"), ("a", "ptr"), ("b", "ptr")]
        f = module.function(name, "void", params, internal=True, attributes="nounwind noinline cold optsize")
        count, a, b = f.args
        inside = Context(f, context.has_fma)
        with f.loop(i64(0), count) as loop:
            target, divisor = (f.offset(p, loop.index, "i64") for p in (a, b))
            x, y = (inside.batch([f.load("i64", p)]) for p in (target, divisor))
            f.store(_divide_lanes(x, y, signed).values[0], target)
        f.ret()
    return name


def shift_left(a: Batch, count: Batch) -> Batch:
    """Shift left; 0 where the count is negative or not below the width."""
    width = bits(a)
    shifted = a.zip(a.context.f.shl, count & (width - 1))
    return shifted.where(count.compare("ult", width), 0)


def shift_right(a: Batch, count: Batch, *, signed: bool = True) -> Batch:
    """Shift right, filling with the sign or zeros; only fill bits remain where the count is out of range."""
    width = bits(a)
    if not signed:
        return a.zip(a.context.f.lshr, count & (width - 1)).where(count.compare("ult", width), 0)
    return a.zip(a.context.f.ashr, count.where(count.compare("ult", width), width - 1))


def power_by_constant(x: Batch, exponent: int) -> Batch:
    """Return x to a known power that is not negative, by squaring."""
    result: Batch | None = None
    while exponent:
        if exponent & 1:
            result = x if result is None else result * x
        exponent >>= 1
        if exponent:
            x = x * x
    return x.filled(1) if result is None else result


def power(x: Batch, exponent: Batch) -> Batch:
    """Return x to a power that is not negative, by squaring: an iteration for each bit of the largest exponent."""
    f = x.context.f
    count = len(x.values)
    with f.loop(i64(0), _bit_length(exponent)) as loop:
        base, rest, result = (
            x.context.batch([loop.carry(v) for v in b.values]) for b in (x, exponent, x.filled(1))
        )
        odd = (rest & 1).compare("ne", 0)
        following = (base * base, rest >> 1, (result * base).where(odd, result))
        for k, batch in enumerate(following):
            for j, v in enumerate(batch.values):
                loop.update(k * count + j, v)
    return x.context.batch([loop.result(2 * count + j) for j in range(count)])


def _bit_length(x: Batch) -> Value:
    f = x.context.f
    every = x.values[0]
    for v in x.values[1:]:
        every = f.or_(every, v)
    if lanes(every.type) > 1:
        every = f.intrinsic("vector.reduce.or", element(every.type), every, overload=[every.type])
    if every.type != "i64":
        every = f.cast("zext", every, "i64")
    zeros = f.intrinsic("ctlz", "i64", every, Value("false", "i1"))
    return f.sub(i64(64), zeros)


def absolute(x: Batch) -> Batch:
    """Return the magnitude; the smallest integer is its own."""
    return negated(x).where(x.compare("slt", 0), x)


def count_ones(x: Batch) -> Batch:
    """Return how many bits are set, as uint8."""
    f = x.context.f
    ones = x.context.batch([f.intrinsic("ctpop", v.type, v) for v in x.values])
    return ones if bits(x) == 8 else ones.cast("trunc", "i8")


def negated(x: Batch) -> Batch:
    """Return 0 - x, wrapping around."""
    return x.filled(0).zip(x.context.f.sub, x)


def sign(x: Batch) -> Batch:
    """Return -1, 0 or 1."""
    type_ = element(x.type)
    return x.compare("sgt", 0).cast("zext", type_) - x.compare("slt", 0).cast("zext", type_)

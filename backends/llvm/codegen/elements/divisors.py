"""Greatest common divisor and least common multiple of integers, with NumPy's results.

Owns: Euclid's algorithm in a function of its own, called for one lane after the other.
"""
from __future__ import annotations

from jitfuse.backends.llvm.codegen.elements.integers import absolute, bits
from jitfuse.backends.llvm.codegen.elements.types import i64
from jitfuse.backends.llvm.math.lockstep import Batch, Context
from jitfuse.backends.llvm.text.builder import Value, element, lanes


def gcd(a: Batch, b: Batch, *, signed: bool = True) -> Batch:
    """Return the greatest common divisor of the magnitudes; 0 of zeros."""
    return _by_lanes(a, b, multiple=False, signed=signed)


def lcm(a: Batch, b: Batch, *, signed: bool = True) -> Batch:
    """Return the least common multiple of the magnitudes, wrapping around; 0 where one is 0."""
    return _by_lanes(a, b, multiple=True, signed=signed)


def _by_lanes(a: Batch, b: Batch, *, multiple: bool, signed: bool) -> Batch:
    f, width = a.context.f, lanes(a.type)
    count = width * len(a.values)
    slots = [f.alloca("i64", count, align=64) for _ in range(2)]
    for slot, x in zip(slots, (a, b), strict=True):
        batch = absolute(x) if signed else x
        wide = batch if bits(batch) == 64 else batch.cast("zext", "i64")
        for j, v in enumerate(wide.values):
            f.store(v, f.offset(slot, j * width, "i64"), 8)
    f.call(_arrays_function(a.context, multiple), "void", [i64(count), *slots])
    type_ = wide.type
    result = a.context.batch([f.load(type_, f.offset(slots[0], j * width, "i64"), 8) for j in range(len(a.values))])
    return result if bits(a) == 64 else result.cast("trunc", element(a.type))


def _arrays_function(context: Context, multiple: bool) -> str:
    """Define, once in the module, a function that overwrites an array of uint64 with its gcd or lcm with another."""
    name, module = "jf_lcm_u64" if multiple else "jf_gcd_u64", context.f.module
    if not module.defines(name):
        euclid = _euclid(context)
        params = [("count", "i64"), ("a", "ptr"), ("b", "ptr")]
        f = module.function(name, "void", params, internal=True, attributes="nounwind noinline optsize")
        count, first, second = f.args
        with f.loop(i64(0), count) as loop:
            target, other = (f.offset(p, loop.index, "i64") for p in (first, second))
            a, b = f.load("i64", target), f.load("i64", other)
            found = f.call(euclid, "i64", [a, b])
            if multiple:
                divisor = f.select(f.icmp("eq", found, i64(0)), i64(1), found)
                found = f.mul(f.udiv(a, divisor), b)
            f.store(found, target)
        f.ret()
    return name


def _euclid(context: Context) -> str:
    """Define, once in the module, the gcd of two uint64: gcd(a, 0) = a, gcd(a, b) = gcd(b, a mod b)."""
    name, module = "jf_euclid_u64", context.f.module
    if not module.defines(name):
        params = [("a", "i64"), ("b", "i64")]
        f = module.function(name, "i64", params, internal=True, attributes="nounwind noinline optsize")
        a, b = f.args
        zero: Value = i64(0)
        with f.if_(f.icmp("eq", b, zero)):
            f.ret(a)
        f.ret(f.call(name, "i64", [b, f.urem(a, b)]))
    return name

"""Casts between the dtypes, as NumPy does them on x86-64.

Owns: `astype`. Floats out of an integer's range, and NaN, have the results of x86's conversion instructions, then
truncated: through int32 for at most 32 bits, through int64 for uint32, int64 and uint64.
"""
from __future__ import annotations

from jitfuse.backends.llvm.codegen.elements.narrow_floats import ONE, narrowed, rounded_to_odd, widened
from jitfuse.backends.llvm.codegen.elements.types import ITEMSIZE, KIND, REGISTER, SMALLEST
from jitfuse.backends.llvm.math.lockstep import Batch
from jitfuse.backends.llvm.text.builder import with_element

_THROUGH_INT32 = frozenset({"int8", "uint8", "int16", "uint16", "int32"})


def astype(x: Batch, source: str, target: str) -> Batch:
    """Return the values of dtype `source` as dtype `target`."""
    if source == target:
        return x
    if KIND[source] == "bits":
        if target == "bool":
            return (x & 0x7FFF).compare("ne", 0)
        x, source = widened(x, source), "float32"
    if target == "bool":
        return x.compare("une" if KIND[source] == "float" else "ne", 0)
    if source == "bool":
        return _from_bool(x, target)
    if KIND[target] == "bits":
        if source == "float64" and target == "float16":
            return narrowed(rounded_to_odd(x), target)
        return narrowed(astype(x, source, "float32"), target)
    return _between_numbers(x, source, target)


def _from_bool(x: Batch, target: str) -> Batch:
    type_ = with_element(x.type, REGISTER[target])
    one, zero = (x.context.constant(type_, v) for v in (ONE.get(target, 1), 0))
    return x.context.batch([x.context.f.select(v, one, zero) for v in x.values])


def _between_numbers(x: Batch, source: str, target: str) -> Batch:
    if KIND[source] == "float":
        if KIND[target] == "float":
            return x if source == target else x.widened() if target == "float64" else x.narrowed()
        return _truncated(x, target)
    if KIND[target] == "float":
        return x.cast("sitofp" if KIND[source] == "int" else "uitofp", REGISTER[target])
    return _resized(x, source, target)


def _resized(x: Batch, source: str, target: str) -> Batch:
    """Return integers modulo the size of another integer dtype."""
    if ITEMSIZE[source] == ITEMSIZE[target]:
        return x
    if ITEMSIZE[source] > ITEMSIZE[target]:
        return x.cast("trunc", REGISTER[target])
    return x.cast("sext" if KIND[source] == "int" else "zext", REGISTER[target])


def _truncated(x: Batch, target: str) -> Batch:
    if target in _THROUGH_INT32:
        return _resized(_in_range(x, "int32"), "int32", target)
    if target != "uint64":
        return _resized(_in_range(x, "int64"), "int64", target)
    large = x.compare("oge", 2.0**63)
    upper = _in_range(x - 2.0**63, "int64") ^ SMALLEST["int64"]
    return upper.where(large, _in_range(x, "int64"))


def _in_range(x: Batch, target: str) -> Batch:
    # the smallest integer fails the test and gets the same result; so do values that truncate to it
    fits = abs(x).compare("olt", float(-SMALLEST[target]))
    converted = x.cast("fptosi", REGISTER[target])
    return converted.where(fits, SMALLEST[target])

"""Casts between the dtypes, as NumPy does them on x86-64.

Owns: `astype`. A float that its integer type cannot hold, and NaN, become the smallest integer of that
type (what cvttss2si and its kin give).
"""
from __future__ import annotations

from jitfuse.backends.llvm.builder import with_element
from jitfuse.backends.llvm.codegen.types import ITEMSIZE, KIND, REGISTER, SMALLEST
from jitfuse.backends.llvm.math.lockstep import Batch


def astype(x: Batch, source: str, target: str) -> Batch:
    """Return the values of dtype `source` as dtype `target`."""
    if source == target:
        return x
    if target == "bool":
        return x.compare("une" if KIND[source] == "float" else "ne", 0)
    element = REGISTER[target]
    if source == "bool":
        one = x.context.constant(with_element(x.type, element), 1)
        zero = x.context.constant(with_element(x.type, element), 0)
        select = x.context.f.select
        return x.context.batch([select(v, one, zero) for v in x.values])
    if KIND[source] == "int":
        if KIND[target] == "float":
            return x.cast("sitofp", element)
        return x.cast("sext" if ITEMSIZE[target] > ITEMSIZE[source] else "trunc", element)
    if KIND[target] == "float":
        return x.widened() if target == "float64" else x.narrowed()
    return _truncate(x, target)


def _truncate(x: Batch, target: str) -> Batch:
    # the smallest integer itself fails the test and gets the same answer; so does what truncates to it
    fits = abs(x).compare("olt", float(-SMALLEST[target]))
    converted = x.cast("fptosi", REGISTER[target])
    return converted.where(fits, SMALLEST[target])

"""Philox-4x32-10 (Salmon et al., 2011) on vectors: uniform numbers from a key and a counter.

Owns: the generator's rounds and the conversion to floats; the meaning is `jitfuse.ir.semantics.reference.philox`.
"""
from __future__ import annotations

from jitfuse.backends.llvm.codegen.elements.types import REGISTER
from jitfuse.backends.llvm.math.lockstep import Batch

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = 0xFFFFFFFF
_ROUNDS = 10


def uniform(seed: Batch, counter: Batch, index: Batch, element: Batch, dtype: str) -> Batch:
    """Return numbers in [0, 1) of a float dtype; the operands are int64 batches of one type.

    The 32-bit words are held in 64-bit lanes, so that a shift and a mask give the two halves of a product.
    """
    key = [seed & _LOW, seed >> 32]
    c = [element & _LOW, element >> 32, counter & _LOW, index & _LOW]
    for round_ in range(_ROUNDS):
        if round_:
            key = [(k + w) & _LOW for k, w in zip(key, _WEYL, strict=True)]
        first, second = c[0] * _MULTIPLIERS[0], c[2] * _MULTIPLIERS[1]
        c = [(second >> 32) ^ c[1] ^ key[0], second & _LOW, (first >> 32) ^ c[3] ^ key[1], first & _LOW]
    if dtype == "float32":
        return (c[0] >> 8).cast("sitofp", REGISTER[dtype]) * 2.0**-24
    return (((c[0] << 32) | c[1]) >> 11).cast("sitofp", REGISTER[dtype]) * 2.0**-53

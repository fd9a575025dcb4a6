"""Counting: sums of products of integers of any size, exactly.

What fits in int64 is summed there. Else the same program runs over residues modulo primes of 31 bits, a batch of them
at once, and the Chinese remainder theorem puts them together. How many primes are needed follows from the tables.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from jitfuse.factors.plans import Plan
from jitfuse.factors.semirings import COUNTING, Array, Semiring
from jitfuse.factors.tables import Tables, log2_of_integers

_FIRST: Final = (1 << 31) - 1


def count(plan: Plan, tables: Tables) -> int:
    """Return the sum over all states of the product of all tables, which hold non-negative integers.

    Raises:
        ModelError: a table holds a number that is no integer.
    """
    bits = sum(log2_of_integers(f.table) for f in tables.factors) + sum(map(math.log2, plan.question.structure.sizes))
    if bits == -math.inf:
        return 0
    if bits < 62:
        return int(plan.ask("partition", COUNTING, tables.stacks(np.int64), np.int64))
    primes = _primes(int(bits / 30.9) + 2)
    stacks = tuple([_residues(stack, primes) for stack in tables.stacks(object)])
    residues = plan.ask("partition", _modulo(primes), stacks, np.uint64, batch=(len(primes),))
    return _combined([int(r) for r in np.broadcast_to(residues, (len(primes),))], primes)


@cache
def _modulo(primes: tuple[int, ...]) -> Semiring:
    """Return the semiring of residues modulo each prime, along a first axis."""
    moduli = np.array(primes, np.uint64)

    def modulo(array: Array) -> Array:
        return array % moduli.reshape((-1,) + (1,) * (array.ndim - 1))

    return Semiring("residues", lambda a, b: modulo(a + b), lambda a, b: modulo(a * b), 0, 1,
                    lambda array, axes: modulo(array.sum(axes)))


def _residues(stack: Any, primes: Sequence[int]) -> np.ndarray:
    """Return a stack of integers modulo each prime, along a first axis."""
    whole = np.vectorize(int, otypes=[object])(stack) if stack.size else stack
    return np.stack([(whole % p).astype(np.uint64) for p in primes])


def _combined(residues: Sequence[int], primes: Sequence[int]) -> int:
    """Return the number with these residues, by the Chinese remainder theorem."""
    value, product = 0, 1
    for r, p in zip(residues, primes):
        value += product * ((r - value) * pow(product, -1, p) % p)
        product *= p
    return value


@cache
def _primes(number: int) -> tuple[int, ...]:
    """Return the largest primes below 2**31."""
    found: list[int] = []
    candidate = _FIRST
    while len(found) < number:
        if _is_prime(candidate):
            found.append(candidate)
        candidate -= 2
    return tuple(found)


def _is_prime(n: int) -> bool:
    """Whether an odd number below 2**32 is prime: Miller and Rabin's test with bases that are enough there."""
    odd, twos = n - 1, 0
    while not odd % 2:
        odd, twos = odd // 2, twos + 1
    for base in (2, 7, 61):
        x = pow(base, odd, n)
        if x in (1, n - 1):
            continue
        for _ in range(twos - 1):
            x = x * x % n
            if x == n - 1:
                break
        else:
            return False
    return True

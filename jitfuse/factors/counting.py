"""Counting: sums of products of integers of any size, exactly.

The program runs over residues modulo primes of 49 bits, one after the other, and the Chinese remainder theorem puts
them together. How many primes are needed follows from the tables.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from jitfuse.errors import ModelError
from jitfuse.factors.plans import Plan
from jitfuse.factors.semirings import RESIDUES
from jitfuse.factors.tables import Tables
from jitfuse.ir.semirings.words import MODULUS_LIMIT

_BITS: Final = 48.9
"""What each prime has at least."""


def count(plan: Plan, tables: Tables, run: Callable[..., tuple[Any, float]]) -> int:
    """Return the sum over all states, and over a batch, of the product of all tables, which hold non-negative integers.

    Args:
        plan: the programs.
        tables: the tables.
        run: (plan, query, semiring, stacks, dtype, modulus=) -> the answers, and another number.

    Raises:
        ModelError: a table holds a number that is no integer.
    """
    bits = sum(_log2_of_integers(f.table) for f in tables.factors) + sum(
        map(math.log2, (*plan.question.structure.sizes, *tables.batch)))
    if bits == -math.inf:
        return 0
    primes = _primes(int(bits / _BITS) + 1)
    stacks = [_integers(stack) for stack in tables.stacks(object)]
    return _combined([_residue(plan, stacks, p, run) for p in primes], primes)


def _log2_of_integers(table: Any) -> float:
    """Return log2 of a table's largest integer; -inf of zeros alone; a ModelError says that a value is none."""
    values = [int(v) for v in table.ravel().tolist()] if table.dtype == object else None
    if values is None:
        if table.dtype.kind == "f" and (table != np.floor(table)).any():
            raise ModelError(f"counting needs integers, not {float(table[table != np.floor(table)][0])}")
        values = [int(table.max(initial=0))]
    return math.log2(max(values)) if values and max(values) > 0 else -math.inf


def _integers(stack: Any) -> Any:
    """Return a stack of Python's integers."""
    return np.vectorize(int, otypes=[object])(stack) if stack.size else stack


def _residue(plan: Plan, stacks: Sequence[Any], prime: int, run: Callable[..., tuple[Any, float]]) -> int:
    residues = [(stack % prime).astype(np.float64) for stack in stacks]
    found, _ = run(plan, "partition", RESIDUES, residues, np.float64, modulus=prime)
    return sum(map(int, np.ravel(found).tolist())) % prime


def _combined(residues: Sequence[int], primes: Sequence[int]) -> int:
    """Return the number with these residues, by the Chinese remainder theorem."""
    value, product = 0, 1
    for r, p in zip(residues, primes):
        value += product * ((r - value) * pow(product, -1, p) % p)
        product *= p
    return value


@cache
def _primes(number: int) -> tuple[int, ...]:
    """Return the largest primes below `MODULUS_LIMIT`."""
    found: list[int] = []
    candidate = MODULUS_LIMIT - 1
    while len(found) < number:
        if _is_prime(candidate):
            found.append(candidate)
        candidate -= 2
    return tuple(found)


def _is_prime(n: int) -> bool:
    """Whether an odd number below 2**64 is prime: Miller and Rabin's test with bases that are enough there."""
    odd, twos = n - 1, 0
    while not odd % 2:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):
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

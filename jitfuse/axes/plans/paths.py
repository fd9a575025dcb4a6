"""The order in which the operands of a product meet: pairs, each contracted to one array.

Up to `EXHAUSTIVE` operands, dynamic programming over subsets finds the order of the smallest largest product, and of
the fewest multiplications among these (as opt_einsum's "dp" does); above, the pair that shrinks memory most is
contracted first. Owns the order.
"""
from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from jitfuse.axes.parts import Keys

Label = Keys
EXHAUSTIVE: Final = 7


def pairs(
    terms: Sequence[Collection[Label]], output: Collection[Label], size: Mapping[Label, int]
) -> list[tuple[int, int]]:
    """Return which two operands meet in each round; a round's result is numbered behind all operands so far."""
    if len(terms) == 2:
        return [(0, 1)]
    if len(terms) <= EXHAUSTIVE:
        return _optimal([frozenset(t) for t in terms], frozenset(output), size)
    return _greedy([frozenset(t) for t in terms], frozenset(output), size)


def _count(labels: Collection[Label], size: Mapping[Label, int]) -> int:
    return math.prod(size[label] for label in labels)


def _optimal(
    terms: list[frozenset[Label]], output: frozenset[Label], size: Mapping[Label, int]
) -> list[tuple[int, int]]:
    everything = (1 << len(terms)) - 1
    kept = [_kept(subset, terms, output) for subset in range(everything + 1)]
    best: dict[int, tuple[int, int, int]] = {1 << k: (0, 0, 0) for k in range(len(terms))}
    """Of a set of operands: its largest product, all its multiplications, and the half that it is made of."""
    for subset in sorted(range(1, everything + 1), key=int.bit_count):
        if subset in best:
            continue
        half = (subset - 1) & subset
        while half:
            other = subset ^ half
            if half > other:
                space = _count(kept[half] | kept[other], size)
                largest = max(best[half][0], best[other][0], space)
                found = (largest, best[half][1] + best[other][1] + space, half)
                if subset not in best or found[:2] < best[subset][:2]:
                    best[subset] = found
            half = (half - 1) & subset
    rounds: list[tuple[int, int]] = []

    def number(subset: int) -> int:
        if subset.bit_count() == 1:
            return subset.bit_length() - 1
        half = best[subset][2]
        rounds.append((number(subset ^ half), number(half)))
        return len(terms) + len(rounds) - 1

    if len(terms) > 1:
        number(everything)
    return rounds


def _kept(subset: int, terms: list[frozenset[Label]], output: frozenset[Label]) -> frozenset[Label]:
    """Return the axes that the product of some operands has left: those of other operands and of the result."""
    inside: set[Label] = set()
    outside = set(output)
    for k, term in enumerate(terms):
        (inside if subset >> k & 1 else outside).update(term)
    return frozenset(inside & outside)


def _greedy(
    terms: list[frozenset[Label]], output: frozenset[Label], size: Mapping[Label, int]
) -> list[tuple[int, int]]:
    live = dict(enumerate(terms))
    rounds: list[tuple[int, int]] = []
    while len(live) > 1:
        def cost(pair: tuple[int, int], live: dict[int, frozenset[Label]] = live) -> tuple[int, int, tuple[int, int]]:
            one, other = live[pair[0]], live[pair[1]]
            made = _count(_left(pair, live, output), size)
            return made - _count(one, size) - _count(other, size), _count(one | other, size), pair

        pair = min(itertools.combinations(live, 2), key=cost)
        made = _left(pair, live, output)
        for k in pair:
            del live[k]
        live[len(terms) + len(rounds)] = made
        rounds.append(pair)
    return rounds


def _left(
    pair: tuple[int, int], live: Mapping[int, frozenset[Label]], output: frozenset[Label]
) -> frozenset[Label]:
    outside = output.union(*(t for k, t in live.items() if k not in pair))
    return (live[pair[0]] | live[pair[1]]) & outside

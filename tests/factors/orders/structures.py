"""Structures that the tests of orders share, and the exact width of small ones."""
from __future__ import annotations

from functools import cache
from random import Random

from jitfuse.factors.structure import Structure


def grid(rows: int, columns: int, size: int = 2) -> Structure:
    across = [(i * columns + j, i * columns + j + 1) for i in range(rows) for j in range(columns - 1)]
    down = [(i * columns + j, (i + 1) * columns + j) for i in range(rows - 1) for j in range(columns)]
    return Structure((size,) * (rows * columns), tuple(across + down))


def cycle(count: int) -> Structure:
    return Structure((2,) * count, tuple(sorted((v, (v + 1) % count)) for v in range(count)))  # type: ignore[arg-type]


def complete(count: int) -> Structure:
    return Structure((2,) * count, tuple((a, b) for b in range(count) for a in range(b)))


def tree(count: int) -> Structure:
    return Structure((3,) * count, tuple(((v - 1) // 2, v) for v in range(1, count)))


def chain(count: int) -> Structure:
    return Structure((4,) * count, (*((v,) for v in range(count)), *((v, v + 1) for v in range(count - 1))))


def random_structure(seed: int, most: int = 9) -> Structure:
    """A structure of up to `most` variables: with lonely ones, of one state, and factors of none."""
    chance = Random(seed)
    count = chance.randint(0, most)
    scopes = [
        tuple(sorted(chance.sample(range(count), chance.randint(0, min(3, count)))))
        for _ in range(chance.randint(0, 12))
    ]
    return Structure(tuple(chance.choice((1, 2, 2, 3, 5)) for _ in range(count)), tuple(scopes))


def least_states(structure: Structure) -> int:
    """The elements of the largest bucket of the best order, by dynamic programming over all sets of variables.

    What is left of a bucket depends on the set of variables that went before alone [Bodlaender et al. 2006].
    """
    several = frozenset(v for v, size in enumerate(structure.sizes) if size > 1)

    def bucket(gone: frozenset[int], v: int) -> int:
        seen, edge = {v}, [v]
        elements = structure.sizes[v]
        while edge:
            for u in structure.neighbours[edge.pop()] & several - seen:
                seen.add(u)
                if u in gone:
                    edge.append(u)
                else:
                    elements *= structure.sizes[u]
        return elements

    @cache
    def best(gone: frozenset[int]) -> int:
        if not gone:
            return 1
        return min(max(best(gone - {v}), bucket(gone - {v}, v)) for v in gone)

    return best(several)

"""Counting against published integers: hard squares, domino tilings, colourings of cycles and grids."""
from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator
from itertools import product

import numpy as np
import pytest

from jitfuse import factors

HARD_SQUARES = [
    1, 2, 7, 63, 1234, 55447, 5598861, 1280128950, 660647962955, 770548397261707, 2030049051145980050,
    12083401651433651945979, 162481813349792588536582997, 4935961285224791538367780371090,
    338752110195939290445247645371206783, 52521741712869136440040654451875316861275,
]
"""Sets of squares of an n x n board of which no two are neighbours: OEIS A006506."""
Edge = tuple[tuple[int, int], tuple[int, int]]


def edges_of(rows: int, columns: int) -> Iterator[Edge]:
    for i, j in product(range(rows), range(columns)):
        if j + 1 < columns:
            yield (i, j), (i, j + 1)
        if i + 1 < rows:
            yield (i, j), (i + 1, j)


def hard_squares(n: int) -> factors.FactorGraph:
    apart = np.array([[1, 1], [1, 0]])
    squares = dict.fromkeys(product(range(n), repeat=2), 2)
    return factors.FactorGraph(squares, [(edge, apart) for edge in edges_of(n, n)])


def dominoes(rows: int, columns: int) -> factors.FactorGraph:
    """Return a graph in which each edge is a domino or none, and each square is in exactly one."""
    edges = list(edges_of(rows, columns))
    squares = []
    for square in product(range(rows), range(columns)):
        scope = [edge for edge in edges if square in edge]
        exactly_one = np.array([sum(states) == 1 for states in product((0, 1), repeat=len(scope))])
        squares.append((tuple(scope), exactly_one.reshape((2,) * len(scope)).astype(np.int64)))
    return factors.FactorGraph(dict.fromkeys(edges, 2), squares)


def colourings(vertices: list[Hashable], edges: list[tuple[Hashable, Hashable]], colours: int) -> factors.FactorGraph:
    different = 1 - np.eye(colours, dtype=np.int64)
    return factors.FactorGraph(dict.fromkeys(vertices, colours), [(edge, different) for edge in edges])


@pytest.mark.parametrize("n", range(9))
def test_hard_squares(n: int) -> None:
    assert hard_squares(n).partition("counting") == HARD_SQUARES[n]


@pytest.mark.full
def test_hard_squares_beyond_64_bits() -> None:
    assert hard_squares(11).partition("counting") == HARD_SQUARES[11] > 2**64


@pytest.mark.parametrize(("rows", "columns", "tilings"), [
    (2, 2, 2), (3, 3, 0), (4, 4, 36), (6, 6, 6728), (8, 8, 12988816),
])
def test_domino_tilings(rows: int, columns: int, tilings: int) -> None:
    graph = dominoes(rows, columns)
    assert graph.partition("counting") == tilings
    assert graph.partition("satisfiability") is (tilings > 0)


@pytest.mark.parametrize(("n", "colours"), [(3, 2), (4, 2), (3, 3), (5, 3), (10, 4), (40, 3), (30, 7), (101, 2)])
def test_colourings_of_cycles(n: int, colours: int) -> None:
    """The chromatic polynomial of a cycle is (k - 1)^n + (-1)^n (k - 1)."""
    graph = colourings(list(range(n)), [(k, (k + 1) % n) for k in range(n)], colours)
    assert graph.partition("counting") == (colours - 1) ** n + (-1) ** n * (colours - 1)


@pytest.mark.parametrize(("n", "expected"), [(2, 18), (3, 246), (4, 7812), (5, 580986), (6, 101596896)])
def test_three_colourings_of_grids(n: int, expected: int) -> None:
    """The integers were counted square by square, with Python's own, over the colours of the last n squares."""
    vertices: list[Hashable] = list(product(range(n), repeat=2))
    assert colourings(vertices, list(edges_of(n, n)), 3).partition("counting") == expected


@pytest.mark.parametrize("n", [20, 64, 200, 1000])
def test_powers_of_two(n: int) -> None:
    assert factors.FactorGraph([2] * n, []).partition("counting") == 2**n
    ones = [((k,), np.array([1, 2**60])) for k in range(n)]
    assert factors.FactorGraph([2] * n, ones).partition("counting") == (1 + 2**60) ** n


def test_complete_graphs_have_no_colouring_with_too_few_colours() -> None:
    pairs: list[tuple[Hashable, Hashable]] = [(a, b) for a in range(5) for b in range(a)]
    assert colourings(list(range(5)), pairs, 4).partition("satisfiability") is False
    assert colourings(list(range(5)), pairs, 5).partition("counting") == 120


def main(largest: str = "15") -> int:
    """Count hard squares up to boards of a size, beside the published integers."""
    wrong = 0
    for n in range(int(largest) + 1):
        found = hard_squares(n).partition("counting")
        wrong += found != HARD_SQUARES[n]
        print(n, found, "right" if found == HARD_SQUARES[n] else f"wrong: {HARD_SQUARES[n]}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

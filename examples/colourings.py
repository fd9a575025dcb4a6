"""Exact numbers of colourings, also far beyond 2^64, beside formulas and another way to count.

    python examples/colourings.py
"""
from __future__ import annotations

from collections.abc import Hashable
from itertools import combinations, pairwise, product

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from jitfuse import factors

Edges = list[tuple[Hashable, Hashable]]


def colourings(edges: Edges, colours: int) -> int:
    """Return in how many ways the ends of every edge get different colours."""
    different = 1 - np.eye(colours, dtype=int)
    vertices = {vertex: colours for edge in edges for vertex in edge}
    count: int = factors.FactorGraph(vertices, [(edge, different) for edge in edges]).partition("counting")
    return count


def cycle(n: int) -> Edges:
    """Return the edges of a cycle: (k - 1)^n + (-1)^n (k - 1) colourings."""
    return [(i, (i + 1) % n) for i in range(n)]


def ladder(n: int) -> Edges:
    """Return the edges of a grid of two rows: k (k - 1) (k^2 - 3k + 3)^(n - 1) colourings."""
    return grid(2, n)


def grid(rows: int, columns: int) -> Edges:
    """Return the edges of a grid."""
    cells = set(product(range(rows), range(columns)))
    return [((i, j), other) for i, j in sorted(cells) for other in ((i + 1, j), (i, j + 1)) if other in cells]


def sudoku(n: int) -> Edges:
    """Return the pairs of cells that share a row, a column or a block: colours are the numbers of a Sudoku."""
    cells = product(range(n * n), repeat=2)
    return [((i, j), (k, l)) for (i, j), (k, l) in combinations(cells, 2)
            if i == k or j == l or (i // n, j // n) == (k // n, l // n)]


def petersen() -> Edges:
    """Return the edges of Petersen's graph: a cycle, a star, and the spokes between them."""
    return [*cycle(5), *((i, i + 5) for i in range(5)), *((i + 5, (i + 2) % 5 + 5) for i in range(5))]


def row_by_row(rows: int, columns: int, colours: int) -> int:
    """Return the colourings of a grid, counted with a transfer matrix in Python's integers."""
    lines = [line for line in product(range(colours), repeat=rows) if all(a != b for a, b in pairwise(line))]
    fits = [[i for i, other in enumerate(lines) if all(a != b for a, b in zip(line, other))] for line in lines]
    ways = [1] * len(lines)
    for _ in range(columns - 1):
        ways = [sum([ways[i] for i in before]) for before in fits]
    return sum(ways)


def acyclic_orientations(edges: Edges) -> int:
    """Return in how many ways the edges can point without a cycle: |P(-1)| of the chromatic polynomial P (Stanley)."""
    vertices = {vertex for edge in edges for vertex in edge}
    row, value = [0, *(colourings(edges, k) for k in range(1, len(vertices) + 1))], 0
    for power in range(len(vertices) + 1):  # P(k) is the sum of the differences at 0, each times a binomial of k
        value += (-1) ** power * row[0]
        row = [b - a for a, b in pairwise(row)]
    return abs(value)


def main() -> None:
    """Count, and compare."""
    found = [
        ("3 colours, Petersen's graph", colourings(petersen(), 3), 120),
        ("acyclic orientations of it", acyclic_orientations(petersen()), 16680),
        ("Sudokus of 4 x 4", colourings(sudoku(2), 4), 288),
        ("3 colours, grid of 7 x 16", colourings(grid(7, 16), 3), row_by_row(7, 16, 3)),
        ("5 colours, cycle of 60", colourings(cycle(60), 5), 4**60 + 4),
        ("10 colours, ladder of 30", colourings(ladder(30), 10), 10 * 9 * 73**29),
    ]
    table = Table("colourings", "number", "bits", "as expected", box=box.SIMPLE)
    for name, count, expected in found:
        table.add_row(name, f"{count}", f"{count.bit_length()}", "yes" if count == expected else f"NO: {expected}")
    Console(width=120).print(table)
    print("all as expected:", all(count == expected for _, count, expected in found))


if __name__ == "__main__":
    main()

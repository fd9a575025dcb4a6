"""The partition function of planar Ising grids with any couplings and free boundary, by the Kac-Ward determinant.

log Z = V log 2 + sum of log cosh J + 0.5 log |det(I - W)|, where W has a row and a column for each directed edge, and
W[e, f] = tanh(J_e) exp(0.5j * turn from e to f) where f goes on from the end of e, but not back
(M. Kac, J. C. Ward, Phys. Rev. 88 (1952) 1332).
"""
from __future__ import annotations

from typing import Any

import numpy as np

Site = tuple[int, int]
Couplings = dict[tuple[Site, Site], float]


def draw_couplings(rows: int, columns: int, seed: int, scale: float = 1.0) -> Couplings:
    draw = np.random.default_rng(seed)
    edges = [((i, j), (i + down, j + 1 - down)) for i in range(rows) for j in range(columns) for down in (0, 1)
             if i + down < rows and j + 1 - down < columns]
    return {edge: float(draw.normal(scale=scale)) for edge in edges}


def log_partition(rows: int, columns: int, couplings: Couplings) -> float:
    """Return log of the sum over spins of exp(sum of J s t)."""
    directed = [(u, v, j) for (u, v), j in couplings.items()] + [(v, u, j) for (u, v), j in couplings.items()]
    heading = np.array([np.arctan2(v[0] - u[0], v[1] - u[1]) for u, v, _ in directed])
    transfer = np.zeros((len(directed), len(directed)), complex)
    for e, (u, v, coupling) in enumerate(directed):
        for f, (start, end, _) in enumerate(directed):
            if start == v and end != u:
                turn = (heading[f] - heading[e] + np.pi) % (2 * np.pi) - np.pi
                transfer[e, f] = np.tanh(coupling) * np.exp(0.5j * turn)
    cosh = sum(np.logaddexp(j, -j) - np.log(2) for j in couplings.values())
    determinant = float(np.linalg.slogdet(np.eye(len(directed)) - transfer)[1]) if directed else 0.0
    return float(rows * columns * np.log(2) + cosh + 0.5 * determinant)


def factors_of(couplings: Couplings) -> list[tuple[tuple[Site, Site], Any]]:
    """Return a table exp(J s t) for each edge; state 0 is spin 1, state 1 is spin -1."""
    return [(edge, np.exp(j * np.array([[1.0, -1.0], [-1.0, 1.0]]))) for edge, j in couplings.items()]


def sizes_of(rows: int, columns: int) -> dict[Site, int]:
    return {(i, j): 2 for i in range(rows) for j in range(columns)}

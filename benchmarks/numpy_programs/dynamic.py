"""Dynamic programming and integer programs: tables that are filled row by row, bits, graphs, cells."""
from __future__ import annotations

import numpy as np

from numpy_programs.program import Program


def floyd_warshall(path):
    """All shortest paths, in place."""
    for k in range(path.shape[0]):
        path[:] = np.minimum(path, np.add.outer(path[:, k], path[k, :]))


def nussinov(sequence):
    """Most base pairs of a fold: a triangular table, from short intervals to long ones."""
    n = sequence.shape[0]
    pairs = (sequence[:, None] + sequence[None, :] == 3).astype(np.int64)
    table = np.zeros((n, n), dtype=np.int64)
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            best = np.maximum(table[i + 1, j], table[i, j - 1])
            inner = table[i + 1, j - 1] + (pairs[i, j] if length > 1 else 0)
            best = np.maximum(best, inner)
            if length > 2:
                best = np.maximum(best, np.max(table[i, i + 1:j] + table[i + 2:j + 1, j]))
            table[i, j] = best
    return table


def time_warp(a, b):
    """Dynamic time warping distance, by anti-diagonals."""
    n = len(a)
    cost = np.abs(a[:, None] - b[None, :])
    before = np.full(n + 1, np.inf)
    last = np.full(n + 1, np.inf)
    before[0] = 0.0
    for d in range(1, 2 * n):
        low, high = max(0, d - n), min(n, d)
        rows = np.arange(low, high)
        new = np.full(n + 1, np.inf)
        best = np.minimum(np.minimum(last[low:high], last[low + 1:high + 1]), before[low:high])
        new[low + 1:high + 1] = cost[rows, d - 1 - rows] + best
        before, last = last, new
    return last[n]


def crc16(data, polynomial=0x8408):
    """A checksum, bit by bit over every byte."""
    crc = 0xFFFF
    for byte in data:
        crc ^= int(byte)
        for _ in range(8):
            crc = (crc >> 1) ^ polynomial if crc & 1 else crc >> 1
    return crc ^ 0xFFFF


def game_of_life(board, steps):
    """Cells with eight neighbours on a torus."""
    for _ in range(steps):
        neighbours = np.zeros_like(board)
        for dy in (-1, 0, 1):
            for dx in (-1, 0, 1):
                if dy or dx:
                    neighbours += np.roll(np.roll(board, dy, axis=0), dx, axis=1)
        board = ((neighbours == 3) | ((board == 1) & (neighbours == 2))).astype(board.dtype)
    return board


def ising(spins, uniforms, beta):
    """Metropolis sweeps over the two colours of a checkerboard, with random numbers given."""
    n = spins.shape[0]
    rows, columns = np.indices(spins.shape)
    black = (rows + columns) % 2 == 0
    for u in uniforms:
        for colour in (black, ~black):
            field = np.roll(spins, 1, 0) + np.roll(spins, -1, 0) + np.roll(spins, 1, 1) + np.roll(spins, -1, 1)
            flip = colour & (u < np.exp(-2.0 * beta * spins * field))
            spins = np.where(flip, -spins, spins)
    return spins, np.abs(spins.sum()) / (n * n)


def mandelbrot(xmin, xmax, ymin, ymax, n, iterations):
    """Escape times of points of the plane, all of them to the end."""
    c = np.linspace(xmin, xmax, n) + 1j * np.linspace(ymin, ymax, n)[:, None]
    z = np.zeros_like(c)
    count = np.zeros(c.shape, dtype=np.int64)
    for i in range(iterations):
        inside = np.abs(z) < 2.0
        count[inside] = i
        z[inside] = z[inside] ** 2 + c[inside]
    count[count == iterations - 1] = 0
    return z, count


def page_rank(links, damping, steps):
    """Ranks of pages from a 0/1 matrix of links; pages without links link to all."""
    n = links.shape[0]
    out = links.sum(axis=1)
    dangling = out == 0
    transition = np.where(dangling[:, None], 1.0 / n, links / np.maximum(out, 1)[:, None])
    rank = np.full(n, 1.0 / n)
    for _ in range(steps):
        rank = (1 - damping) / n + damping * (rank @ transition)
    return rank / rank.sum()


PROGRAMS = (
    Program(floyd_warshall, lambda n, r: (r.integers(1, 90, (n, n)),), 7, 120),
    Program(nussinov, lambda n, r: (r.integers(0, 4, n),), 6, 40),
    Program(time_warp, lambda n, r: (r.random(n), r.random(n)), 6, 120),
    Program(crc16, lambda n, r: (r.integers(0, 256, n).astype(np.uint8),), 9, 500, needs="values"),
    Program(game_of_life, lambda n, r: (r.integers(0, 2, (n, n)), 4 if n < 20 else 20), 7, 200),
    Program(ising, lambda n, r: (r.integers(0, 2, (n, n)) * 2 - 1, r.random((3 if n < 20 else 10, n, n)), 0.4), 8, 200),
    Program(mandelbrot, lambda n, r: (-1.75 - r.random() / 9, 0.25, -1.0, 1.0, n, 6 if n < 20 else 30), 9, 200, 1e-9),
    Program(page_rank, lambda n, r: ((r.random((n, n)) < 0.1).astype(np.int64), 0.85, 5 if n < 20 else 30), 9, 400),
)

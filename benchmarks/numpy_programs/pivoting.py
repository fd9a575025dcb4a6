"""Programs that find a place by the data and write there: pivots, rotations, shortest paths, outliers."""
from __future__ import annotations

import numpy as np

from numpy_programs.program import Program


# ---------------------------------------------------------------- LU with partial pivoting
def lu(a):
    a = a.copy()
    n = a.shape[0]
    order = np.arange(n)
    for k in range(n - 1):
        p = k + np.argmax(np.abs(a[k:, k]))
        if p != k:
            a[[k, p]] = a[[p, k]]
            order[[k, p]] = order[[p, k]]
        a[k + 1:, k] /= a[k, k]
        a[k + 1:, k + 1:] -= np.outer(a[k + 1:, k], a[k, k + 1:])
    return a, order


def lu_solve(a, b):
    factors, order = lu(a)
    n = len(b)
    y = b[order].astype(float)
    for i in range(n):
        y[i] -= factors[i, :i] @ y[:i]
    x = np.zeros(n)
    for i in range(n - 1, -1, -1):
        x[i] = (y[i] - factors[i, i + 1:] @ x[i + 1:]) / factors[i, i]
    return x


# ---------------------------------------------------------------- Jacobi's rotations, the largest element first
def jacobi_eigenvalues(a, tolerance=1e-9, rotations=2000):
    a = a.copy()
    n = a.shape[0]
    for _ in range(rotations):
        off = np.abs(np.triu(a, 1))
        place = np.argmax(off)
        if off.max() < tolerance:
            break
        p, q = place // n, place % n
        angle = 0.5 * np.arctan2(2 * a[p, q], a[q, q] - a[p, p])
        rotation = np.eye(n)
        rotation[p, p] = rotation[q, q] = np.cos(angle)
        rotation[p, q] = np.sin(angle)
        rotation[q, p] = -rotation[p, q]
        a = rotation.T @ a @ rotation
    return np.sort(np.diag(a))


# ---------------------------------------------------------------- shortest paths in a dense graph
def dijkstra(weights, source):
    n = len(weights)
    distance = np.full(n, np.inf)
    distance[source] = 0
    visited = np.zeros(n, dtype=bool)
    before = -np.ones(n, dtype=int)
    for _ in range(n):
        u = np.argmin(np.where(visited, np.inf, distance))
        if distance[u] == np.inf:
            break
        visited[u] = True
        through = distance[u] + weights[u]
        better = (~visited) & (through < distance)
        distance[better] = through[better]
        before[better] = u
    return distance, before


# ---------------------------------------------------------------- outliers by running medians
def outliers(x, window=11, limit=3.0):
    half = window // 2
    flags = np.zeros(len(x), bool)
    for i in range(half, len(x) - half):
        part = x[i - half:i + half + 1]
        middle = np.median(part)
        flags[i] = abs(x[i] - middle) > limit * 1.4826 * np.median(np.abs(part - middle))
    return flags, np.flatnonzero(flags)


# ---------------------------------------------------------------- the list
def _graph(n, r):
    weights = np.where(r.random((n, n)) < 0.3, 10 * r.random((n, n)), np.inf)
    np.fill_diagonal(weights, 0)
    return weights, 0


def _symmetric(n, r):
    a = r.normal(size=(n, n))
    return (a + a.T,)


PROGRAMS = [
    Program(lu_solve, lambda n, r: (r.normal(size=(n, n)), r.normal(size=n)), 7, 50, 1e-9, needs="values"),
    Program(jacobi_eigenvalues, _symmetric, 5, 12, 1e-8, needs="values"),
    Program(dijkstra, _graph, 8, 80, needs="values"),
    Program(outliers, lambda n, r: (r.standard_t(3, size=n),), 30, 300, needs="values"),
]

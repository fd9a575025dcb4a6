"""Loops over single elements of any number of rounds, tables of directions, steps that adapt themselves."""
from __future__ import annotations

import numpy as np

from numpy_programs.program import Program


def three_loops(a, b):
    """A product of matrices, element by element."""
    n, m, p = a.shape[0], a.shape[1], b.shape[1]
    c = np.zeros((n, p))
    for i in range(n):
        for j in range(p):
            total = 0.0
            for k in range(m):
                total += a[i, k] * b[k, j]
            c[i, j] = total
    return c


def pairwise(x):
    """Distances between all pairs of points, in three loops."""
    d = np.empty((len(x), len(x)))
    for i in range(len(x)):
        for j in range(len(x)):
            s = 0.0
            for k in range(x.shape[1]):
                t = x[i, k] - x[j, k]
                s += t * t
            d[i, j] = np.sqrt(s)
    return d


def escape_times(xs, ys, iterations):
    """The Mandelbrot set, point by point."""
    out = np.zeros((len(ys), len(xs)), dtype=int)
    for i in range(len(ys)):
        for j in range(len(xs)):
            zr = zi = 0.0
            for k in range(iterations):
                t = zr * zr - zi * zi + xs[j]
                zi = 2 * zr * zi + ys[i]
                zr = t
                if zr * zr + zi * zi < 4.0:
                    out[i, j] = k
    return out


def cylinder(f, solid, steps, tau):
    """A lattice Boltzmann method whose directions are tables, with a mask of walls."""
    cxs = np.array([0, 0, 1, 1, 1, 0, -1, -1, -1])
    cys = np.array([0, 1, 1, 0, -1, -1, -1, 0, 1])
    weights = np.array([4 / 9, 1 / 9, 1 / 36, 1 / 9, 1 / 36, 1 / 9, 1 / 36, 1 / 9, 1 / 36])
    for _ in range(steps):
        for i, cx, cy in zip(range(9), cxs, cys):
            f[:, :, i] = np.roll(f[:, :, i], cx, axis=1)
            f[:, :, i] = np.roll(f[:, :, i], cy, axis=0)
        boundary = f[solid, :][:, [0, 5, 6, 7, 8, 1, 2, 3, 4]]
        rho = np.sum(f, 2)
        ux, uy = np.sum(f * cxs, 2) / rho, np.sum(f * cys, 2) / rho
        equilibrium = np.zeros(f.shape)
        for i, cx, cy, w in zip(range(9), cxs, cys, weights):
            u = cx * ux + cy * uy
            equilibrium[:, :, i] = rho * w * (1 + 3 * u + 9 * u**2 / 2 - 3 * (ux**2 + uy**2) / 2)
        f += -(1.0 / tau) * (f - equilibrium)
        f[solid, :] = boundary
    return ux, uy


def factorise(ratings, p, q, iterations, rate, decay):
    """Two factors of a matrix that is known in part, by gradients of one element at a time."""
    for _ in range(iterations):
        for i in range(ratings.shape[0]):
            for j in range(ratings.shape[1]):
                if ratings[i, j] > 0:
                    error = ratings[i, j] - p[i] @ q[:, j]
                    for k in range(p.shape[1]):
                        p[i, k] += rate * (2 * error * q[k, j] - decay * p[i, k])
                        q[k, j] += rate * (2 * error * p[i, k] - decay * q[k, j])
    return np.sum((ratings - p @ q)[ratings > 0] ** 2)


def van_der_pol(y):
    return np.array([y[1], 2.0 * (1 - y[0] ** 2) * y[1] - y[0]])


def adaptive(y, end, tolerance):
    """An integrator that goes on in steps of its own choice."""
    t, h, accepted = 0.0, end / 50, 0
    while t < end and accepted < 5000:
        if t + h > end:
            h = end - t
        k1 = h * van_der_pol(y)
        k2 = h * van_der_pol(y + k1 / 2)
        k3 = h * van_der_pol(y + 3 * k2 / 4)
        new = y + (2 * k1 + 3 * k2 + 4 * k3) / 9
        error = np.max(np.abs(-5 * k1 + 6 * k2 + 8 * k3 - 9 * h * van_der_pol(new))) / 72
        if error <= tolerance:
            t, y, accepted = t + h, new, accepted + 1
        h *= min(max(0.9 * (tolerance / max(error, 1e-300)) ** (1 / 3), 0.2), 4.0)
    return y, accepted


def _walls(n, r):
    y, x = np.mgrid[:n, : 2 * n]
    return 1 + 0.1 * r.random((n, 2 * n, 9)), (x - n // 2) ** 2 + (y - n // 2) ** 2 < n, 3 if n < 20 else 10, 0.6


PROGRAMS = (
    Program(three_loops, lambda n, r: (r.random((n, n)), r.random((n, n))), 6, 60),
    Program(pairwise, lambda n, r: (r.random((n, 5)),), 6, 60),
    Program(escape_times, lambda n, r: (np.linspace(-2, 1, n), np.linspace(-1, 1, n) + r.random() * 0.1, 8), 5, 60,
            needs="values"),
    Program(cylinder, _walls, 8, 40, needs="values"),
    Program(factorise, lambda n, r: (np.where(r.random((n, n)) < 0.4, r.integers(1, 6, (n, n)), 0), r.random((n, 3)),
                                     r.random((3, n)), 3, 0.002, 0.02), 5, 20, needs="values"),
    Program(adaptive, lambda n, r: (np.array([2.0 + 0.1 * r.random(), 0.0]), n / 10, 1e-6), 10, 100, 1e-6,
            needs="values"),
)

"""Stencils in time loops: heat, waves of fields, alternating directions, weather."""
from __future__ import annotations

import numpy as np

from numpy_programs.program import Program


def jacobi_1d(steps, a, b):
    """Average of three neighbours, back and forth between two arrays."""
    for _ in range(steps):
        b[1:-1] = (a[:-2] + a[1:-1] + a[2:]) / 3.0
        a[1:-1] = (b[:-2] + b[1:-1] + b[2:]) / 3.0


def jacobi_2d(steps, a, b):
    """Average of five neighbours, back and forth between two arrays."""
    for _ in range(steps):
        b[1:-1, 1:-1] = 0.2 * (a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[2:, 1:-1] + a[:-2, 1:-1])
        a[1:-1, 1:-1] = 0.2 * (b[1:-1, 1:-1] + b[1:-1, :-2] + b[1:-1, 2:] + b[2:, 1:-1] + b[:-2, 1:-1])


def second_difference(u, axis):
    """u[i+1] - 2 u[i] + u[i-1] along one axis, inside of the others."""
    inner = [slice(1, -1)] * u.ndim
    up, down = list(inner), list(inner)
    up[axis], down[axis] = slice(2, None), slice(None, -2)
    return u[tuple(up)] - 2.0 * u[tuple(inner)] + u[tuple(down)]


def heat_3d(steps, a, b):
    """Heat in a box; the boundary is held."""
    inside = (slice(1, -1),) * 3
    for _ in range(steps):
        for source, target in ((a, b), (b, a)):
            change = np.zeros_like(source[inside])
            for axis in range(3):
                change += 0.125 * second_difference(source, axis)
            target[inside] = source[inside] + change
    return a


def fdtd_2d(pulse, ex, ey, hz):
    """Electric and magnetic field on staggered grids, driven from one edge."""
    for value in pulse:
        ey[0, :] = value
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])


def seidel_2d(steps, a):
    """Gauss-Seidel sweeps: row by row, and within a row from left to right."""
    n = a.shape[0]
    for _ in range(steps):
        for i in range(1, n - 1):
            a[i, 1:-1] += a[i - 1, :-2] + a[i - 1, 1:-1] + a[i - 1, 2:] + a[i, 2:] + a[i + 1, :-2] + a[i + 1, 1:-1] \
                + a[i + 1, 2:]
            for j in range(1, n - 1):
                a[i, j] += a[i, j - 1]
                a[i, j] /= 9.0


def adi(steps, u):
    """Alternating directions: implicit along columns, then along rows, each by a sweep forth and a sweep back."""
    n = u.shape[0]
    mu = 0.4
    v, p, q = np.empty_like(u), np.empty_like(u), np.empty_like(u)

    def sweep(given, out):
        out[0, :] = out[-1, :] = 1.0
        p[:, 0] = 0.0
        q[:, 0] = out[0, :]
        for j in range(1, n - 1):
            p[:, j] = mu / ((1.0 + 2.0 * mu) - mu * p[:, j - 1])
            right = mu * given[:, j - 1] + (1.0 - 2.0 * mu) * given[:, j] + mu * given[:, j + 1]
            q[:, j] = (right + mu * q[:, j - 1]) / ((1.0 + 2.0 * mu) - mu * p[:, j - 1])
        for j in range(n - 2, 0, -1):
            out[j, :] = p[:, j] * out[j + 1, :] + q[:, j]

    for _ in range(steps):
        sweep(u, v)
        sweep(v, u)


def hdiff(field, coefficient):
    """Fourth-order horizontal diffusion with a limiter, on levels that lie in the last axis."""
    lap = 4.0 * field[1:-1, 1:-1] - (field[2:, 1:-1] + field[:-2, 1:-1] + field[1:-1, 2:] + field[1:-1, :-2])
    flux_x = lap[1:, 1:-1] - lap[:-1, 1:-1]
    flux_x = np.where(flux_x * (field[2:-1, 2:-2] - field[1:-2, 2:-2]) > 0, 0, flux_x)
    flux_y = lap[1:-1, 1:] - lap[1:-1, :-1]
    flux_y = np.where(flux_y * (field[2:-2, 2:-1] - field[2:-2, 1:-2]) > 0, 0, flux_y)
    return field[2:-2, 2:-2] - coefficient * (flux_x[1:] - flux_x[:-1] + flux_y[:, 1:] - flux_y[:, :-1])


def vadv(u, wind, tendency, dt):
    """Implicit vertical advection: one tridiagonal system for each column, forth and back along the levels."""
    levels = u.shape[2]
    above = np.ndarray(u.shape)
    right = np.ndarray(u.shape)
    for k in range(levels):
        down = -0.25 * (wind[1:, :, k] + wind[:-1, :, k]) if k > 0 else np.zeros(u.shape[:2])
        up = 0.25 * (wind[1:, :, k + 1] + wind[:-1, :, k + 1]) if k < levels - 1 else np.zeros(u.shape[:2])
        middle = 1.0 / dt - down - up
        correction = np.zeros(u.shape[:2])
        if k > 0:
            correction -= down * (u[:, :, k - 1] - u[:, :, k])
        if k < levels - 1:
            correction -= up * (u[:, :, k + 1] - u[:, :, k])
        column = u[:, :, k] / dt + tendency[:, :, k] + correction
        if k == 0:
            above[:, :, k] = up / middle
            right[:, :, k] = column / middle
        else:
            divisor = middle - above[:, :, k - 1] * down
            above[:, :, k] = up / divisor
            right[:, :, k] = (column - right[:, :, k - 1] * down) / divisor
    result = np.empty_like(u)
    solution = right[:, :, levels - 1]
    for k in range(levels - 1, -1, -1):
        solution = right[:, :, k] - above[:, :, k] * solution if k < levels - 1 else right[:, :, k]
        result[:, :, k] = (solution - u[:, :, k]) / dt
    return result


def _levels(n):
    return 16 if n < 20 else 40


PROGRAMS = (
    Program(jacobi_1d, lambda n, r: (max(2, min(100, n // 4)), r.random(n), r.random(n)), 12, 4000),
    Program(jacobi_2d, lambda n, r: (max(2, min(50, n // 4)), r.random((n, n)), r.random((n, n))), 9, 250),
    Program(heat_3d, lambda n, r: (max(2, min(25, n // 3)), r.random((n, n, n)), r.random((n, n, n))), 6, 40),
    Program(fdtd_2d, lambda n, r: (r.random(max(2, min(60, n // 4))), *r.random((3, n, n + 1))), 8, 250),
    Program(seidel_2d, lambda n, r: (2, r.random((n, n))), 7, 60),
    Program(adi, lambda n, r: (max(1, min(5, n // 8)), r.random((n, n))), 8, 100),
    Program(hdiff, lambda n, r: (r.random((n + 4, n + 4, 40)), r.random((n, n, 40))), 6, 128),
    Program(vadv, lambda n, r: (r.random((n, n, _levels(n))), r.random((n + 1, n, _levels(n))) * 0.1,
                                r.random((n, n, _levels(n))), 3.0), 5, 64),
)

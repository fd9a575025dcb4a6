"""Dense linear algebra as scripts write it: products, triangular loops, factorisations column by column."""
from __future__ import annotations

import numpy as np

from numpy_programs.program import Program


def atax(a, x):
    """A' (A x)."""
    return (a @ x) @ a


def bicg(a, p, r):
    """The two products of a biconjugate gradient step."""
    return r @ a, a @ p


def mvt(x1, x2, y1, y2, a):
    """A product and a transposed one, added in place."""
    x1 += a @ y1
    x2 += y2 @ a


def gemm(alpha, beta, c, a, b):
    """C = alpha A B + beta C, in place."""
    c[:] = alpha * a @ b + beta * c


def gemver(alpha, beta, a, u1, v1, u2, v2, w, x, y, z):
    """Two rank-one updates and two products, in place."""
    a += np.outer(u1, v1) + np.outer(u2, v2)
    x += beta * y @ a + z
    w += alpha * a @ x


def gesummv(alpha, beta, a, b, x):
    """The sum of two scaled products with one vector."""
    return alpha * a @ x + beta * b @ x


def k3mm(a, b, c, d):
    """Three products."""
    return a @ b @ (c @ d)


def syrk(alpha, beta, c, a):
    """Symmetric update of the lower triangle, row by row."""
    for i in range(a.shape[0]):
        c[i, :i + 1] *= beta
        for k in range(a.shape[1]):
            c[i, :i + 1] += alpha * a[i, k] * a[:i + 1, k]


def doitgen(a, c4):
    """A tensor times a matrix along its last axis, in place."""
    nr, nq, np_ = a.shape
    a[:] = np.reshape(np.reshape(a, (nr, nq, 1, np_)) @ c4, (nr, nq, np_))


def trisolv(l, b):
    """Forward substitution."""
    n = l.shape[0]
    x = np.zeros_like(b)
    for i in range(n):
        x[i] = (b[i] - l[i, :i] @ x[:i]) / l[i, i]
    return x


def cholesky(a):
    """Lower factor over the lower triangle, in place, element by element."""
    n = a.shape[0]
    a[0, 0] = np.sqrt(a[0, 0])
    for i in range(1, n):
        for j in range(i):
            a[i, j] -= np.dot(a[i, :j], a[j, :j])
            a[i, j] /= a[j, j]
        a[i, i] -= np.dot(a[i, :i], a[i, :i])
        a[i, i] = np.sqrt(a[i, i])


def lu(a):
    """Gaussian elimination without pivots, in place, a column at a time."""
    n = a.shape[0]
    for k in range(n - 1):
        a[k + 1:, k] /= a[k, k]
        a[k + 1:, k + 1:] -= np.outer(a[k + 1:, k], a[k, k + 1:])
    return a


def durbin(r):
    """Levinson-Durbin recursion for a Toeplitz system."""
    y = np.empty_like(r)
    alpha, beta = -r[0], 1.0
    y[0] = -r[0]
    for k in range(1, r.shape[0]):
        beta *= 1.0 - alpha * alpha
        alpha = -(r[k] + np.dot(np.flip(r[:k]), y[:k])) / beta
        y[:k] += alpha * np.flip(y[:k])
        y[k] = alpha
    return y


def gramschmidt(a):
    """Orthonormal columns and the triangle, one column at a time."""
    q = np.zeros_like(a)
    r = np.zeros((a.shape[1], a.shape[1]), dtype=a.dtype)
    for k in range(a.shape[1]):
        r[k, k] = np.sqrt(np.dot(a[:, k], a[:, k]))
        q[:, k] = a[:, k] / r[k, k]
        for j in range(k + 1, a.shape[1]):
            r[k, j] = np.dot(q[:, k], a[:, j])
            a[:, j] -= q[:, k] * r[k, j]
    return q, r


def power_iteration(x, steps):
    """First principal component by power iteration on centred data."""
    centred = x - x.mean(axis=0)
    v = np.ones(x.shape[1]) / np.sqrt(x.shape[1])
    for _ in range(steps):
        w = centred.T @ (centred @ v)
        v = w / np.linalg.norm(w)
    return v, np.sum((centred @ v) ** 2) / (x.shape[0] - 1)


def conjugate_gradients(a, b, steps):
    """A fixed number of conjugate gradient steps."""
    x = np.zeros_like(b)
    residual = b - a @ x
    direction = residual.copy()
    square = residual @ residual
    for _ in range(steps):
        product = a @ direction
        length = square / (direction @ product)
        x += length * direction
        residual -= length * product
        new = residual @ residual
        direction = residual + (new / square) * direction
        square = new
    return x


def definite(n, r):
    """Return a symmetric positive definite matrix."""
    m = r.random((n, n))
    return m @ m.T / n + np.eye(n)


PROGRAMS = (
    Program(atax, lambda n, r: (r.random((n, n + 3)), r.random(n + 3)), 9, 1500),
    Program(bicg, lambda n, r: (r.random((n + 3, n)), r.random(n), r.random(n + 3)), 9, 1500),
    Program(mvt, lambda n, r: (*r.random((4, n)), r.random((n, n))), 9, 1500),
    Program(gemm, lambda n, r: (1.5, 1.2, r.random((n, n)), r.random((n, n + 4)), r.random((n + 4, n))), 7, 400),
    Program(gemver, lambda n, r: (1.5, 1.2, r.random((n, n)), *r.random((8, n))), 8, 1000),
    Program(gesummv, lambda n, r: (1.5, 1.2, r.random((n, n)), r.random((n, n)), r.random(n)), 8, 1200),
    Program(k3mm, lambda n, r: (*r.random((4, n, n)),), 6, 300),
    Program(syrk, lambda n, r: (1.5, 1.2, r.random((n, n)), r.random((n, n - 2))), 6, 40),
    Program(doitgen, lambda n, r: (r.random((n, n, n + 3)), r.random((n + 3, n + 3))), 4, 60),
    Program(trisolv, lambda n, r: (np.tril(r.random((n, n))) + 2 * np.eye(n), r.random(n)), 9, 300),
    Program(cholesky, lambda n, r: (definite(n, r),), 7, 40),
    Program(lu, lambda n, r: (definite(n, r),), 8, 100),
    Program(durbin, lambda n, r: (0.5 ** np.arange(1, n + 1) * (1 + 0.1 * r.random(n)),), 8, 200),
    Program(gramschmidt, lambda n, r: (r.random((n + 3, n)) + np.eye(n + 3, n),), 5, 40),
    Program(power_iteration, lambda n, r: (r.random((4 * n, n)), 10 if n < 20 else 30), 6, 200),
    Program(conjugate_gradients, lambda n, r: (definite(n, r), r.random(n), 5 if n < 20 else 25), 8, 400),
)

"""Geometry, kernels and sparse matrices."""
from __future__ import annotations

import numpy as np

from numpy_programs.program import Program


def arc_distance(theta1, phi1, theta2, phi2):
    """Great-circle distance of pairs of points."""
    h = np.sin((theta2 - theta1) / 2) ** 2 + np.cos(theta1) * np.cos(theta2) * np.sin((phi2 - phi1) / 2) ** 2
    return 2 * np.arctan2(np.sqrt(h), np.sqrt(1 - h))


def haversine(latitude, longitude):
    """Distances of all pairs in kilometres, and the nearest other point of each."""
    lat, lon = np.radians(latitude), np.radians(longitude)
    dlat, dlon = lat[:, None] - lat[None, :], lon[:, None] - lon[None, :]
    h = np.sin(dlat / 2) ** 2 + np.cos(lat)[:, None] * np.cos(lat)[None, :] * np.sin(dlon / 2) ** 2
    distance = 2 * 6371.0 * np.arcsin(np.sqrt(np.clip(h, 0, 1)))
    np.fill_diagonal(distance, np.inf)
    return distance, np.argmin(distance, axis=1)


def rbf_predict(train, values, test, gamma, ridge):
    """Kernel ridge regression with Gaussian kernels."""
    def kernel(a, b):
        squares = np.sum(a ** 2, axis=1)[:, None] + np.sum(b ** 2, axis=1)[None, :] - 2 * a @ b.T
        return np.exp(-gamma * np.maximum(squares, 0))

    alpha = np.linalg.solve(kernel(train, train) + ridge * np.eye(len(train)), values)
    return kernel(test, train) @ alpha


def normalise(v):
    return v / np.sqrt(np.sum(v * v, axis=-1, keepdims=True))


def ray_spheres(origin, directions, centres, radii, colours):
    """Nearest hit of each ray with any sphere, shaded by one light."""
    light = normalise(np.array([1.0, 1.0, -1.0]))
    nearest = np.full(directions.shape[0], np.inf)
    shade = np.zeros((directions.shape[0], 3))
    for i in range(len(radii)):
        to = origin - centres[i]
        b = 2 * np.sum(directions * to, axis=1)
        c = np.dot(to, to) - radii[i] ** 2
        discriminant = b * b - 4 * c
        root = np.sqrt(np.maximum(discriminant, 0))
        near, far = (-b - root) / 2, (-b + root) / 2
        t = np.where(near > 0, near, far)
        hit = (discriminant > 0) & (t > 0) & (t < nearest)
        nearest = np.where(hit, t, nearest)
        point = origin + t[:, None] * directions
        normal = normalise(point - centres[i])
        diffuse = np.maximum(normal @ light, 0)
        shade[hit] = (diffuse[:, None] * colours[i])[hit]
    return nearest, shade


def spmv(rows, columns, values, x):
    """A compressed sparse matrix times a vector, row by row."""
    y = np.empty(rows.size - 1, dtype=values.dtype)
    for i in range(rows.size - 1):
        picked = columns[rows[i]:rows[i + 1]]
        y[i] = values[rows[i]:rows[i + 1]] @ x[picked]
    return y


def coordinate_product(rows, columns, values, x):
    """A sparse matrix of coordinates times a vector."""
    y = np.zeros_like(x)
    np.add.at(y, rows, values * x[columns])
    return y


def rotate(points, angles):
    """Rotate points by angles about three axes, one after the other."""
    ca, sa = np.cos(angles), np.sin(angles)
    one, zero = np.float64(1), np.float64(0)
    about_x = np.array([[one, zero, zero], [zero, ca[0], -sa[0]], [zero, sa[0], ca[0]]])
    about_y = np.array([[ca[1], zero, sa[1]], [zero, one, zero], [-sa[1], zero, ca[1]]])
    about_z = np.array([[ca[2], -sa[2], zero], [sa[2], ca[2], zero], [zero, zero, one]])
    turned = points @ (about_z @ about_y @ about_x).T
    low, high = turned.min(axis=0), turned.max(axis=0)
    return (turned - low) / (high - low)


def triangle_areas(vertices, faces):
    """Areas and the normals of vertices of a mesh."""
    a, b, c = vertices[faces[:, 0]], vertices[faces[:, 1]], vertices[faces[:, 2]]
    cross = np.cross(b - a, c - a)
    normals = np.zeros_like(vertices)
    for i in range(3):
        np.add.at(normals, faces[:, i], cross)
    length = np.linalg.norm(normals, axis=1, keepdims=True)
    return 0.5 * np.linalg.norm(cross, axis=1), normals / np.where(length > 0, length, 1)


def bisection(a, low, high, tolerance):
    """Roots of x**3 + x = a, one for each a."""
    lower, upper = np.full(a.shape, low), np.full(a.shape, high)
    while np.max(upper - lower) > tolerance:
        middle = 0.5 * (lower + upper)
        above = middle ** 3 + middle > a
        upper = np.where(above, middle, upper)
        lower = np.where(above, lower, middle)
    return 0.5 * (lower + upper)


def _csr(n, r):
    counts = r.integers(1, 6, n)
    rows = np.concatenate(([0], np.cumsum(counts)))
    return rows, r.integers(0, n, rows[-1]), r.random(rows[-1]), r.random(n)


def _rays(n, r):
    directions = r.standard_normal((n, 3)) * 0.3 + np.array([0.0, 0.0, 1.0])
    return (np.zeros(3), directions / np.linalg.norm(directions, axis=1)[:, None],
            r.standard_normal((4, 3)) + np.array([0.0, 0.0, 5.0]), r.random(4) + 0.5, r.random((4, 3)))


PROGRAMS = (
    Program(arc_distance, lambda n, r: (*r.random((4, n)),), 30, 100_000),
    Program(haversine, lambda n, r: (*(r.random((2, n)) * 80),), 9, 500, 1e-8),
    Program(rbf_predict, lambda n, r: (r.random((n, 3)), r.random(n), r.random((n + 3, 3)), 2.0, 0.1), 8, 300, 1e-8),
    Program(ray_spheres, _rays, 20, 50_000, 1e-9),
    Program(spmv, _csr, 6, 300, needs="values"),
    Program(coordinate_product, lambda n, r: (*r.integers(0, n, (2, 5 * n)), r.random(5 * n), r.random(n)), 9, 20_000),
    Program(rotate, lambda n, r: (r.random((n, 3)), r.random(3)), 7, 50_000),
    Program(triangle_areas, lambda n, r: (r.random((n, 3)), r.integers(0, n, (2 * n, 3))), 8, 10_000),
    Program(bisection, lambda n, r: (r.random(n) * 9, 0.0, 3.0, 1e-6), 7, 20_000, needs="values"),
)

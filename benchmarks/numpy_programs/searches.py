"""Programs whose Python decides by what it has computed: searches, clusters, solvers that stop, printed progress."""
from __future__ import annotations

import numpy as np

from numpy_programs.program import Program


def breadth_first(adjacent, source):
    """Distances in a graph, by masks of the nodes that are met."""
    distance = np.full(adjacent.shape[0], -1)
    frontier = np.zeros(adjacent.shape[0], dtype=bool)
    frontier[source] = True
    visited = frontier.copy()
    level = 0
    while frontier.any():
        distance[frontier] = level
        frontier = adjacent[frontier].any(axis=0) & ~visited
        visited |= frontier
        level += 1
    return distance


def bellman_ford(edges, weights, n, source=0):
    """Shortest paths with scattered minima; raises where a cycle is negative."""
    distance = np.full(n, np.inf)
    distance[source] = 0
    for iteration in range(n):
        before = distance.copy()
        np.minimum.at(distance, edges[:, 1], distance[edges[:, 0]] + weights)
        if np.array_equal(before, distance):
            return distance, iteration
    raise ValueError("negative cycle")


def components(image):
    """Label what hangs together: each pixel takes the largest label around it until nothing changes."""
    labels = np.zeros(image.shape, dtype=int)
    labels[image] = np.flatnonzero(image) + 1
    while True:
        p = np.pad(labels, 1)
        around = np.max([p[1:-1, 1:-1], p[:-2, 1:-1], p[2:, 1:-1], p[1:-1, :-2], p[1:-1, 2:]], axis=0) * image
        if (around == labels).all():
            return labels
        labels = around


def density_clusters(points, radius, least):
    """DBSCAN with a queue in a list."""
    n = len(points)
    distances = np.sqrt(((points[:, None, :] - points[None, :, :]) ** 2).sum(-1))
    labels = np.full(n, -1)
    visited = np.zeros(n, dtype=bool)
    cluster = 0
    for i in range(n):
        if visited[i]:
            continue
        visited[i] = True
        near = np.where(distances[i] <= radius)[0]
        if len(near) < least:
            continue
        labels[i] = cluster
        queue = list(near)
        while queue:
            j = queue.pop()
            if not visited[j]:
                visited[j] = True
                further = np.where(distances[j] <= radius)[0]
                if len(further) >= least:
                    queue.extend(further)
            if labels[j] == -1:
                labels[j] = cluster
        cluster += 1
    return labels


def seeded_clusters(points, k, seed):
    """k-means that draws its first centres far from one another."""
    rng = np.random.default_rng(seed)
    centres = [points[rng.integers(len(points))]]
    for _ in range(k - 1):
        squares = np.min([((points - c) ** 2).sum(1) for c in centres], axis=0)
        centres.append(points[rng.choice(len(points), p=squares / squares.sum())])
    centres = np.array(centres)
    for _ in range(20):
        labels = np.argmin(((points[:, None] - centres[None]) ** 2).sum(-1), axis=1)
        moved = np.array([points[labels == j].mean(axis=0) if np.any(labels == j) else centres[j] for j in range(k)])
        if np.allclose(moved, centres):
            break
        centres = moved
    return centres, labels


def mixture(points, k, iterations, tolerance):
    """A mixture of Gaussians by expectation and maximisation."""
    n, d = points.shape
    mean = points[:k].copy()
    covariance = np.array([np.cov(points.T) for _ in range(k)])
    share = np.ones(k) / k
    last = -np.inf
    for _ in range(iterations):
        density = np.zeros((n, k))
        for j in range(k):
            away = points - mean[j]
            squares = np.einsum("ij,jk,ik->i", away, np.linalg.inv(covariance[j]), away)
            density[:, j] = share[j] * np.exp(-0.5 * squares) / np.sqrt(
                (2 * np.pi) ** d * np.linalg.det(covariance[j]))
        likelihood = np.log(density.sum(axis=1)).sum()
        density /= density.sum(axis=1, keepdims=True)
        weight = density.sum(axis=0)
        for j in range(k):
            mean[j] = (density[:, j:j + 1] * points).sum(axis=0) / weight[j]
            away = points - mean[j]
            covariance[j] = (density[:, j][:, None] * away).T @ away / weight[j] + 1e-6 * np.eye(d)
        share = weight / n
        if abs(likelihood - last) < tolerance:
            break
        last = likelihood
    return mean, covariance, share, likelihood


def stabilised_gradients(a, b, tolerance=1e-8, iterations=50):
    """BiCGSTAB, which returns from two places in its loop."""
    x = np.zeros_like(b)
    r = b - a @ x
    shadow = r.copy()
    rho = alpha = omega = 1.0
    v = p = np.zeros_like(b)
    for i in range(iterations):
        new = shadow @ r
        p = r + new / rho * alpha / omega * (p - omega * v)
        v = a @ p
        alpha = new / (shadow @ v)
        s = r - alpha * v
        if np.linalg.norm(s) < tolerance:
            return x + alpha * p, i
        t = a @ s
        omega = (t @ s) / (t @ t)
        x = x + alpha * p + omega * s
        r = s - omega * t
        if np.linalg.norm(r) < tolerance:
            return x, i
        rho = new
    return x, iterations


def page_rank_until(links, damping, tolerance):
    """PageRank to a tolerance, which prints what it has found."""
    out = links.sum(axis=0)
    m = np.divide(links, out, out=np.zeros_like(links, dtype=float), where=out != 0)
    n = m.shape[1]
    v = np.ones(n) / n
    for i in range(100):
        new = damping * (m @ v + v[out == 0].sum() / n) + (1 - damping) / n
        delta = np.linalg.norm(new - v, 1)
        v = new
        if delta < tolerance:
            print(f"after {i} rounds: {delta:.1e} left, {v.max():.3f} at {np.argmax(v)}")
            break
    return v


def mandelbrot_compact(n, m, iterations):
    """The set with points that have left it taken out of the arrays."""
    ix, iy = np.mgrid[0:n, 0:m]
    c = np.linspace(-2, 0.5, n)[ix] + complex(0, 1) * np.linspace(-1.25, 1.25, m)[iy]
    image = np.zeros(c.shape, dtype=int)
    ix.shape = iy.shape = c.shape = n * m
    z = np.copy(c)
    for i in range(iterations):
        if not len(z):
            break
        np.multiply(z, z, z)
        np.add(z, c, z)
        left = abs(z) > 2.0
        image[ix[left], iy[left]] = i + 1
        left = ~left
        z, ix, iy, c = z[left], ix[left], iy[left], c[left]
    return image


def open_and_close(image, k):
    """Morphology by windows on an image."""
    windows = np.lib.stride_tricks.sliding_window_view
    grown = windows(np.pad(image, k // 2), (k, k)).max(axis=(2, 3))
    shrunk = windows(np.pad(grown, k // 2, constant_values=1), (k, k)).min(axis=(2, 3))
    return grown, shrunk, grown ^ shrunk


def dither(image):
    """Floyd and Steinberg's: each pixel's error goes to its neighbours."""
    image = image.astype(float)
    h, w = image.shape
    for y in range(h):
        for x in range(w):
            old = image[y, x]
            new = np.round(old / 255) * 255
            image[y, x] = new
            error = old - new
            if x + 1 < w:
                image[y, x + 1] += error * 7 / 16
            if y + 1 < h:
                if x > 0:
                    image[y + 1, x - 1] += error * 3 / 16
                image[y + 1, x] += error * 5 / 16
                if x + 1 < w:
                    image[y + 1, x + 1] += error * 1 / 16
    return image.astype(np.uint8)


def _edges(n, r):
    return r.integers(0, n, (5 * n, 2)), r.uniform(0.1, 1, 5 * n), n


def _groups(n, r):
    return np.concatenate([r.normal(0, 0.4, (n, 2)), r.normal(4, 0.4, (n, 2))])[r.permutation(2 * n)]


PROGRAMS = (
    Program(breadth_first, lambda n, r: (r.random((n, n)) < 5 / n, 0), 20, 400, needs="values"),
    Program(bellman_ford, _edges, 12, 200, needs="values"),
    Program(components, lambda n, r: (r.random((n, n)) < 0.45,), 8, 60, needs="values"),
    Program(density_clusters, lambda n, r: (_groups(n, r), 0.5, 4), 8, 60, needs="values"),
    Program(seeded_clusters, lambda n, r: (_groups(n, r), 3, 7), 12, 400, needs="values"),
    Program(mixture, lambda n, r: (_groups(n, r), 2, 12, 1e-6), 20, 300, tolerance=1e-8, needs="values"),
    Program(stabilised_gradients, lambda n, r: (np.eye(n) * 5 + r.normal(size=(n, n)) * 0.1, r.normal(size=n)), 12, 200,
            tolerance=1e-7, needs="values"),
    Program(page_rank_until, lambda n, r: ((r.random((n, n)) < 0.2).astype(int), 0.85, 1e-8), 12, 200, needs="values"),
    Program(mandelbrot_compact, lambda n, r: (n, n + 3, 20), 12, 150, needs="values"),
    Program(open_and_close, lambda n, r: (r.integers(0, 2, (n, n), dtype=np.uint8), 3), 9, 200),
    Program(dither, lambda n, r: (r.integers(0, 256, (n, n), dtype=np.uint8),), 6, 24),
)

"""Programs built of classes and lists: layers that keep what their backward passes need, solvers that count."""
from __future__ import annotations

import numpy as np

from numpy_programs.program import Program


class Convolution:
    def __init__(self, weights, bias):
        self.weights, self.bias = weights, bias

    def places(self, channels, height, width):
        k = self.weights.shape[2]
        high, wide = height - k + 1, width - k + 1
        rows = np.tile(np.repeat(np.arange(k), k), channels)[:, None] + np.repeat(np.arange(high), wide)
        columns = np.tile(np.arange(k), k * channels)[:, None] + np.tile(np.arange(wide), high)
        return np.repeat(np.arange(channels), k * k)[:, None], rows, columns, high, wide

    def forward(self, x):
        self.shape = x.shape
        channel, rows, columns, high, wide = self.places(*x.shape[1:])
        self.patches = x[:, channel, rows, columns].transpose(1, 2, 0).reshape(self.weights[0].size, -1)
        out = self.weights.reshape(len(self.weights), -1) @ self.patches + self.bias[:, None]
        return out.reshape(len(self.weights), high, wide, len(x)).transpose(3, 0, 1, 2)

    def backward(self, d):
        flat = d.transpose(1, 2, 3, 0).reshape(len(self.weights), -1)
        self.bias_gradient = flat.sum(axis=1)
        self.gradient = (flat @ self.patches.T).reshape(self.weights.shape)
        channel, rows, columns, _, _ = self.places(*self.shape[1:])
        parts = self.weights.reshape(len(self.weights), -1).T @ flat
        dx = np.zeros(self.shape)
        np.add.at(dx, (slice(None), channel, rows, columns),
                  parts.reshape(channel.shape[0], -1, self.shape[0]).transpose(2, 0, 1))
        return dx


class Rectifier:
    def forward(self, x):
        self.mask = x > 0
        return x * self.mask

    def backward(self, d):
        return d * self.mask


class Flat:
    def forward(self, x):
        self.shape = x.shape
        return x.reshape(len(x), -1)

    def backward(self, d):
        return d.reshape(self.shape)


class Linear:
    def __init__(self, weights, bias):
        self.weights, self.bias = weights, bias

    def forward(self, x):
        self.x = x
        return x @ self.weights + self.bias

    def backward(self, d):
        self.gradient, self.bias_gradient = self.x.T @ d, d.sum(axis=0)
        return d @ self.weights.T


def network_of_layers(x, labels, w1, b1, w2, b2, rate=0.01):
    layers = [Convolution(w1, b1), Rectifier(), Flat(), Linear(w2, b2)]
    out = x
    for layer in layers:
        out = layer.forward(out)
    p = np.exp(out - out.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    n = len(labels)
    loss = -np.mean([np.log(p[k, labels[k]]) for k in range(n)])
    d = p.copy()
    d[np.arange(n), labels] -= 1
    d /= n
    for layer in reversed(layers):
        d = layer.backward(d)
    for layer in layers:
        if hasattr(layer, "gradient"):
            layer.weights -= rate * layer.gradient
            layer.bias -= rate * layer.bias_gradient
    return loss, d


class EmbeddedPair:
    """A solver of Bogacki and Shampine with a step that adapts."""

    nodes = (0.0, 0.5, 0.75, 1.0)
    stages = ((), (0.5,), (0.0, 0.75), (2 / 9, 1 / 3, 4 / 9))
    error = np.array([-5 / 72, 1 / 12, 1 / 9, -1 / 8])

    def __init__(self, f, tolerance=1e-5):
        self.f, self.tolerance = f, tolerance
        self.accepted = self.rejected = 0

    def solve(self, y, t, end, h=0.1):
        while t < end:
            h = min(h, end - t)
            k = []
            for node, weights in zip(self.nodes, self.stages):
                k.append(self.f(t + node * h, y + h * sum(w * v for w, v in zip(weights, k))))
            new = y + h * sum(w * v for w, v in zip(self.stages[3], k))
            size = np.abs(h * sum(e * v for e, v in zip(self.error, k))).max() / self.tolerance
            if size <= 1:
                t += h
                y = new
                self.accepted += 1
            else:
                self.rejected += 1
            h *= min(4.0, max(0.2, 0.9 * (size + 1e-12) ** (-1 / 3)))
        return y


def driven_oscillators(y, end):
    solver = EmbeddedPair(lambda t, y: np.concatenate([y[len(y) // 2:], np.cos(t) - y[:len(y) // 2] ** 3]))
    return solver.solve(y, 0.0, end), solver.accepted, solver.rejected


def toeplitz_gradients(first, b, tolerance=1e-8):
    """Conjugate gradients with a Toeplitz matrix, embedded into a circulant one."""
    n = len(first)
    eigenvalues = np.fft.fft(np.r_[first, 0.0, first[:0:-1]])
    k = np.arange(n)
    chan = ((n - k) * first + k * np.r_[0.0, first[:0:-1]]) / n
    preconditioner = np.fft.fft(chan).real

    def product(x):
        return np.fft.ifft(eigenvalues * np.fft.fft(np.r_[x, np.zeros(n)]))[:n].real

    def precondition(r):
        return np.fft.ifft(np.fft.fft(r) / preconditioner).real

    x = np.zeros(n)
    r = b - product(x)
    z = precondition(r)
    p, rz, iterations = z.copy(), r @ z, 0
    while np.linalg.norm(r) > tolerance * np.linalg.norm(b):
        q = product(p)
        alpha = rz / (p @ q)
        x += alpha * p
        r -= alpha * q
        z = precondition(r)
        p, rz = z + (r @ z / rz) * p, r @ z
        iterations += 1
    return x, iterations


def bound_states(potential, x, energies):
    """Numerov's method: how often the end of the wave function changes its sign between energies."""
    h = x[1] - x[0]
    ends = []
    for energy in energies:
        k = 2 * (energy - potential)
        psi = np.zeros(len(x))
        psi[1] = 1e-5
        for i in range(1, len(x) - 1):
            psi[i + 1] = (2 * (1 - 5 * h * h / 12 * k[i]) * psi[i]
                          - (1 + h * h / 12 * k[i - 1]) * psi[i - 1]) / (1 + h * h / 12 * k[i + 1])
        ends.append(psi[-1])
    signs = np.sign(ends)
    return np.array(ends), int(np.sum(signs[1:] != signs[:-1]))


def _layers(n, r):
    return (r.standard_normal((n, 2, 8, 8)), r.integers(0, 4, n), r.standard_normal((4, 2, 3, 3)) * 0.3, np.zeros(4),
            r.standard_normal((144, 4)) * 0.1, np.zeros(4))


PROGRAMS = (
    Program(network_of_layers, _layers, 3, 32),
    Program(driven_oscillators, lambda n, r: (r.random(2 * n), 6.0), 2, 50, 1e-6, needs="values"),
    Program(toeplitz_gradients, lambda n, r: (np.r_[4.0, r.random(n - 1) / np.arange(2, n + 1) ** 1.5], r.random(n)),
            12, 2000, 1e-6, needs="values"),
    Program(bound_states, lambda n, r: (np.linspace(-4, 4, n) ** 2 / 2 + 0.01 * r.random(n), np.linspace(-4, 4, n),
                                        np.linspace(0.2, 4, 8)), 30, 400, 1e-6),
)

"""Small neural networks and learning loops."""
from __future__ import annotations

import numpy as np

from numpy_programs.program import Program


def relu(x):
    return np.maximum(x, 0)


def softmax(x):
    """Softmax over the last axis."""
    shifted = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return shifted / np.sum(shifted, axis=-1, keepdims=True)


def mlp(x, w1, b1, w2, b2, w3, b3):
    """Three layers."""
    x = relu(x @ w1 + b1)
    x = relu(x @ w2 + b2)
    return softmax(x @ w3 + b3)


def conv2d(x, weights):
    """Convolution of images (batch, height, width, channels), one output pixel at a time."""
    k = weights.shape[0]
    n, h, w, _ = x.shape
    out = np.empty((n, h - k + 1, w - k + 1, weights.shape[3]), dtype=x.dtype)
    for i in range(h - k + 1):
        for j in range(w - k + 1):
            out[:, i, j, :] = np.sum(
                x[:, i:i + k, j:j + k, :, np.newaxis] * weights[np.newaxis, :, :, :], axis=(1, 2, 3))
    return out


def conv2d_bias(x, weights, bias):
    """The convolution with a bias."""
    return conv2d(x, weights) + bias


def convolve_taps(x, weights):
    """The same convolution, summed over the taps of the kernel."""
    k = weights.shape[0]
    n, h, w, _ = x.shape
    out = np.zeros((n, h - k + 1, w - k + 1, weights.shape[3]), dtype=x.dtype)
    for i in range(k):
        for j in range(k):
            out += x[:, i:h - k + 1 + i, j:w - k + 1 + j, :] @ weights[i, j]
    return out


def pool(x):
    """Largest of each 2 by 2."""
    n, h, w, c = x.shape
    return x[:, :h // 2 * 2, :w // 2 * 2].reshape(n, h // 2, 2, w // 2, 2, c).max(axis=(2, 4))


def lenet(x, c1, b1, c2, b2, f1, g1, f2, g2):
    """Two convolutions with pools, two dense layers."""
    x = pool(relu(convolve_taps(x, c1) + b1))
    x = pool(relu(convolve_taps(x, c2) + b2))
    x = x.reshape(x.shape[0], -1)
    return relu(x @ f1 + g1) @ f2 + g2


def batch_norm(x, eps=1e-5):
    mean = np.mean(x, axis=0, keepdims=True)
    std = np.std(x, axis=0, keepdims=True)
    return (x - mean) / np.sqrt(std + eps)


def resnet_block(x, w1, w2, w3):
    """A bottleneck block: 1x1, padded 3x3, 1x1, each normalised over the batch, and the way around."""
    n, h, w, _ = x.shape
    padded = np.zeros((n, h + 2, w + 2, w1.shape[3]), dtype=x.dtype)
    padded[:, 1:-1, 1:-1, :] = convolve_taps(x, w1)
    y = relu(batch_norm(padded))
    y = relu(batch_norm(convolve_taps(y, w2)))
    y = batch_norm(convolve_taps(y, w3))
    return relu(y + x)


class Logistic:
    """Logistic regression by gradient descent with momentum."""

    def __init__(self, rate, iterations):
        self.rate = rate
        self.iterations = iterations
        self.momentum = 0.9

    def predict(self, x, w, b):
        return 1.0 / (1.0 + np.exp(-(x @ w + b)))

    def fit(self, x, y):
        """Return the weights, the bias and the loss of each round."""
        w, b = np.zeros(x.shape[1]), 0.0
        speed = np.zeros_like(w)
        losses = np.empty(self.iterations)
        for i in range(self.iterations):
            p = self.predict(x, w, b)
            losses[i] = -np.mean(y * np.log(p + 1e-12) + (1 - y) * np.log(1 - p + 1e-12))
            error = p - y
            speed = self.momentum * speed - self.rate * (x.T @ error) / len(y)
            w += speed
            b -= self.rate * error.mean()
        return w, b, losses


def logistic_regression(x, y, iterations):
    return Logistic(0.5, iterations).fit(x, y)


def k_means(points, centres, iterations):
    """Lloyd's algorithm; an empty cluster keeps its centre."""
    k = centres.shape[0]
    for _ in range(iterations):
        distances = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
        labels = distances.argmin(axis=1)
        new = np.empty_like(centres)
        for j in range(k):
            member = (labels == j)[:, None]
            count = member.sum()
            new[j] = np.where(count > 0, (points * member).sum(axis=0) / np.maximum(count, 1), centres[j])
        centres = new
    return centres, labels


def robust_regression(x, y, iterations, delta):
    """Iteratively reweighted least squares with Huber's weights."""
    weights = np.ones(len(y))
    beta = np.zeros(x.shape[1])
    for _ in range(iterations):
        scaled = x * weights[:, None]
        beta = np.linalg.solve(scaled.T @ x, scaled.T @ y)
        residual = np.abs(y - x @ beta)
        weights = np.where(residual <= delta, 1.0, delta / np.maximum(residual, 1e-12))
    return beta


def network_step(x, y, w1, b1, w2, b2, rate):
    """Forward, backward by hand, and the update in place."""
    hidden = np.tanh(x @ w1 + b1)
    p = softmax(hidden @ w2 + b2)
    loss = -np.mean(np.sum(y * np.log(p + 1e-12), axis=1))
    d2 = (p - y) / len(x)
    d1 = (d2 @ w2.T) * (1 - hidden ** 2)
    w2 -= rate * hidden.T @ d2
    b2 -= rate * d2.sum(axis=0)
    w1 -= rate * x.T @ d1
    b1 -= rate * d1.sum(axis=0)
    return loss


def _f4(r, *shape):
    return r.standard_normal(shape).astype(np.float32)


def _lenet(n, r):
    s, c = (16, 6) if n < 8 else (28, 16)
    side = ((s - 4) // 2 - 4) // 2
    return (_f4(r, n, s, s, 1), _f4(r, 5, 5, 1, 6), _f4(r, 6), _f4(r, 5, 5, 6, c), _f4(r, c),
            _f4(r, side * side * c, 32), _f4(r, 32), _f4(r, 32, 10), _f4(r, 10))


def _labels(n, r):
    return np.eye(5)[r.integers(0, 5, n)]


PROGRAMS = (
    Program(softmax, lambda n, r: (_f4(r, n, 4, n, n),), 5, 64, 1e-5),
    Program(mlp, lambda n, r: (_f4(r, n, 30), _f4(r, 30, 200), _f4(r, 200), _f4(r, 200, 100), _f4(r, 100),
                               _f4(r, 100, 10), _f4(r, 10)), 4, 500, 1e-3),
    Program(conv2d_bias, lambda n, r: (_f4(r, 2, n, n, 3), _f4(r, 3, 3, 3, 8), _f4(r, 8)), 6, 24, 1e-5),
    Program(lenet, _lenet, 2, 32, 1e-4),
    Program(resnet_block, lambda n, r: (_f4(r, 4, n, n, 16), _f4(r, 1, 1, 16, 8), _f4(r, 3, 3, 8, 8),
                                        _f4(r, 1, 1, 8, 16)), 5, 40, 1e-3),
    Program(logistic_regression, lambda n, r: (r.standard_normal((8 * n, n)), (r.random(8 * n) < 0.5) * 1.0,
                                               5 if n < 20 else 50), 5, 100, 1e-9),
    Program(k_means, lambda n, r: (r.random((n, 4)), r.random((5, 4)), 3 if n < 50 else 10), 30, 5000),
    Program(robust_regression, lambda n, r: (r.random((n, 4)), r.random(n), 3 if n < 50 else 10, 0.2), 20, 20000, 1e-8),
    Program(network_step, lambda n, r: (r.random((n, 12)), _labels(n, r), r.random((12, 64)), r.random(64),
                                        r.random((64, 5)), r.random(5), 0.1), 7, 2000),
)

"""Programs that decide for each element what to assign: alignments, rank statistics, trading rules, perceptrons."""
from __future__ import annotations

import numpy as np

from numpy_programs.program import Program


def smith_waterman(a, b):
    """The best local alignment's score, and the table that it is found in."""
    table = np.zeros((len(a) + 1, len(b) + 1))
    best = 0.0
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            match = table[i - 1, j - 1] + (2.0 if a[i - 1] == b[j - 1] else -1.0)
            table[i, j] = max(0, match, table[i - 1, j] - 1, table[i, j - 1] - 1)
            if table[i, j] > best:
                best = table[i, j]
    return table, best


def common_subsequence(a, b):
    """The length of the longest common subsequence."""
    lengths = np.zeros((len(a) + 1, len(b) + 1), dtype=int)
    for i in range(len(a)):
        for j in range(len(b)):
            if a[i] == b[j]:
                lengths[i + 1, j + 1] = lengths[i, j] + 1
            else:
                lengths[i + 1, j + 1] = max(lengths[i + 1, j], lengths[i, j + 1])
    return lengths[-1, -1]


def kendall_tau(x, y):
    """Rank correlation by all pairs."""
    concordant = discordant = 0
    n = len(x)
    for i in range(n):
        for j in range(i + 1, n):
            sign = np.sign(x[i] - x[j]) * np.sign(y[i] - y[j])
            if sign > 0:
                concordant += 1
            elif sign < 0:
                discordant += 1
    return (concordant - discordant) / (n * (n - 1) / 2)


def _average(prices, n):
    alpha = 2 / (n + 1)
    out = np.empty_like(prices)
    out[0] = prices[0]
    for i in range(1, len(prices)):
        out[i] = alpha * prices[i] + (1 - alpha) * out[i - 1]
    return out


def crossing_averages(prices):
    """A trading rule: buy where the short average comes above the long one, sell where it falls below."""
    short, long = _average(prices, 5), _average(prices, 20)
    shares, cash, trades = 0.0, 1000.0, 0
    for i in range(1, len(prices)):
        if short[i] > long[i] and short[i - 1] <= long[i - 1] and shares == 0:
            shares = cash / prices[i]
            cash = 0.0
            trades += 1
        elif short[i] < long[i] and shares > 0:
            cash = shares * prices[i]
            shares = 0.0
            trades += 1
    return cash + shares * prices[-1], trades


class _Perceptron:
    def __init__(self, rate, epochs):
        self.rate, self.epochs = rate, epochs

    def fit(self, points, labels):
        w, b = np.zeros(points.shape[1]), 0.0
        mistakes = []
        for _ in range(self.epochs):
            wrong = 0
            for x, y in zip(points, labels):
                if y * (np.dot(w, x) + b) <= 0:
                    w = w + self.rate * y * x
                    b = b + self.rate * y
                    wrong += 1
            mistakes.append(wrong)
        return w, b, mistakes


def perceptron(points, labels):
    """A perceptron that counts its mistakes."""
    return _Perceptron(0.1, 5).fit(points, labels)


def _labelled(n, r):
    points = r.normal(size=(n, 3))
    return points, np.where(points @ np.array([1.0, -2.0, 0.5]) > 0.3, 1, -1)


PROGRAMS = (
    Program(smith_waterman, lambda n, r: (r.integers(0, 4, n), r.integers(0, 4, n + 3)), 7, 60, needs="values"),
    Program(common_subsequence, lambda n, r: (r.integers(0, 4, n), r.integers(0, 4, n + 3)), 7, 60, needs="values"),
    Program(kendall_tau, lambda n, r: (r.normal(size=n), r.normal(size=n)), 7, 60, needs="values"),
    Program(crossing_averages, lambda n, r: (100 + r.normal(size=n).cumsum(),), 40, 300, needs="values"),
    Program(perceptron, _labelled, 12, 100, needs="values"),
)

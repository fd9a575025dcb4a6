"""What is computed step by step along a sequence: recurrent networks, transformers, hidden Markov models, trees."""
from __future__ import annotations

import numpy as np

from numpy_programs.program import Program


def american_put(spot, strike, rate, volatility, years, steps):
    """A binomial tree, from its leaves back to its root."""
    dt = years / steps
    up = np.exp(volatility * np.sqrt(dt))
    down = 1 / up
    p = (np.exp(rate * dt) - down) / (up - down)
    prices = spot * up ** np.arange(steps, -1, -1) * down ** np.arange(0, steps + 1)
    value = np.maximum(strike - prices, 0)
    for i in range(steps - 1, -1, -1):
        value = np.exp(-rate * dt) * (p * value[:-1] + (1 - p) * value[1:])
        prices = spot * up ** np.arange(i, -1, -1) * down ** np.arange(0, i + 1)
        value = np.maximum(value, strike - prices)
    return value[0]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class LSTM:
    """A cell with four gates, and what it remembers."""

    def __init__(self, weights, biases):
        self.wf, self.wi, self.wc, self.wo = weights
        self.bf, self.bi, self.bc, self.bo = biases
        self.h = np.zeros((len(self.bf), 1))
        self.c = np.zeros((len(self.bf), 1))

    def step(self, x):
        z = np.vstack((self.h, x))
        f, i = sigmoid(self.wf @ z + self.bf), sigmoid(self.wi @ z + self.bi)
        o, g = sigmoid(self.wo @ z + self.bo), np.tanh(self.wc @ z + self.bc)
        self.c = f * self.c + i * g
        self.h = o * np.tanh(self.c)
        return self.h


def lstm(xs, weights, biases):
    """A cell over a sequence; what it says is kept in a dict."""
    cell = LSTM(weights, biases)
    said = {}
    for t, x in enumerate(xs):
        said[t] = cell.step(x)
    return said[len(xs) - 1], cell.c


def layer_norm(x, g, b, eps=1e-5):
    mean = np.mean(x, axis=-1, keepdims=True)
    return g * (x - mean) / np.sqrt(np.var(x, axis=-1, keepdims=True) + eps) + b


def linear(x, w, b):
    return x @ w + b


def attend(q, k, v, mask):
    scores = q @ k.T / np.sqrt(q.shape[-1]) + mask
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True) @ v


def attention(x, c_attn, c_proj, n_head):
    heads = [np.split(part, n_head, axis=-1) for part in np.split(linear(x, **c_attn), 3, axis=-1)]
    mask = (1 - np.tri(x.shape[0], dtype=x.dtype)) * -1e10
    return linear(np.hstack([attend(q, k, v, mask) for q, k, v in zip(*heads)]), **c_proj)


def transformer(tokens, embedding, positions, blocks, last, n_head):
    """Blocks of heads and layers, with parameters in nested dicts."""
    x = embedding[tokens] + positions[range(len(tokens))]
    for block in blocks:
        x = x + attention(layer_norm(x, **block["ln_1"]), **block["attn"], n_head=n_head)
        h = linear(layer_norm(x, **block["ln_2"]), **block["fc"])
        x = x + linear(0.5 * h * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h ** 3))), **block["proj"])
    return layer_norm(x, **last) @ embedding.T


def viterbi(observed, transition, emission, start):
    """The likeliest states behind what is observed."""
    steps, states = len(observed), len(start)
    delta = np.zeros((steps, states))
    came_from = np.zeros((steps, states), dtype=int)
    delta[0] = np.log(start) + np.log(emission[:, observed[0]])
    for t in range(1, steps):
        for j in range(states):
            score = delta[t - 1] + np.log(transition[:, j])
            came_from[t, j] = np.argmax(score)
            delta[t, j] = score[came_from[t, j]] + np.log(emission[j, observed[t]])
    path = np.zeros(steps, dtype=int)
    path[-1] = np.argmax(delta[-1])
    for t in range(steps - 2, -1, -1):
        path[t] = came_from[t + 1, path[t + 1]]
    return path, delta[-1].max()


def longest_common(a, b):
    """The length of the longest common subsequence, row by row."""
    before = np.zeros(len(b) + 1, dtype=np.int64)
    for x in a:
        row = np.zeros_like(before)
        row[1:] = np.maximum.accumulate(np.maximum(np.where(b == x, before[:-1] + 1, 0), before[1:]))
        before = row
    return before[-1]


def bitonic_sort(a):
    """A sorting network: comparisons whose places do not depend on the values."""
    index = np.arange(len(a))
    k = 2
    while k <= len(a):
        j = k >> 1
        while j > 0:
            other = index ^ j
            rising = (index & k) == 0
            swap = (index < other) & ((a > a[other]) == rising) & (a != a[other])
            a = np.where(swap | swap[other], a[other], a)
            j >>= 1
        k <<= 1
    return a


def _lstm(n, r):
    gates = r.normal(0, 0.1, (4, n, n + 8))
    return r.normal(size=(20, 8, 1)), gates, np.zeros((4, n, 1))


def _transformer(n, r):
    def layer(i, o):
        return {"w": r.normal(size=(i, o)) * 0.1, "b": r.normal(size=o) * 0.1}

    def norm():
        return {"g": np.ones(n), "b": np.zeros(n)}

    blocks = [{"ln_1": norm(), "attn": {"c_attn": layer(n, 3 * n), "c_proj": layer(n, n)}, "ln_2": norm(),
               "fc": layer(n, 4 * n), "proj": layer(4 * n, n)} for _ in range(2)]
    return r.integers(0, 50, 12), r.normal(size=(50, n)), r.normal(size=(64, n)), blocks, norm(), 4


def _hidden(n, r):
    transition, emission = r.random((4, 4)) + 0.1, r.random((4, 6)) + 0.1
    return (r.integers(0, 6, n), transition / transition.sum(1, keepdims=True),
            emission / emission.sum(1, keepdims=True), np.ones(4) / 4)


PROGRAMS = (
    Program(american_put, lambda n, r: (100.0, 95.0, 0.03, 0.3, 0.5, n), 12, 200),
    Program(lstm, _lstm, 6, 64),
    Program(transformer, _transformer, 8, 64),
    Program(viterbi, _hidden, 9, 200),
    Program(longest_common, lambda n, r: (r.integers(0, 4, n), r.integers(0, 4, n + 5)), 9, 150),
    Program(bitonic_sort, lambda n, r: (r.normal(size=n),), 16, 1024),
)

"""Objectives with loops and recursions of Python: lstm, ode, det."""
from __future__ import annotations

from typing import Any

import numpy as np


# ---------------------------------------------------------------------- a recurrent network
def sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-x))


def cell(weights: Any, bias: Any, hidden: Any, kept: Any, x: Any) -> Any:
    """A cell whose matrices are diagonal."""
    size = len(hidden)
    gates = np.concatenate([x, hidden, x, hidden]) * weights + bias
    forget, entry, leave = (sigmoid(gates[k * size : (k + 1) * size]) for k in range(3))
    kept = kept * forget + entry * np.tanh(gates[3 * size :])
    return leave * np.tanh(kept), kept


def lstm(main: Any, extra: Any, state: Any, sequence: Any) -> Any:
    """The mean loss of what the network foretells of each element of a sequence."""
    layers = [(state[k], state[k + 1]) for k in range(0, len(state), 2)]
    total = 0.0
    for t in range(len(sequence) - 1):
        x, new = sequence[t] * extra[0], []
        for k, (hidden, kept) in enumerate(layers):
            hidden, kept = cell(main[2 * k], main[2 * k + 1], hidden, kept, x)
            new.append((hidden, kept))
            x = hidden
        layers = new
        foretold = x * extra[1] + extra[2]
        total = total + np.sum(sequence[t + 1] * (foretold - np.log(np.sum(np.exp(foretold)) + 2.0)))
    return -total / ((len(sequence) - 1) * sequence.shape[1])


def lstm_inputs(rng: Any, layers: int, characters: int) -> tuple[Any, ...]:
    bits = 7
    text = rng.integers(0, 2, (characters, bits)).astype(float)
    return (rng.random((2 * layers, 4 * bits)), rng.random((3, bits)), rng.random((2 * layers, bits)), text)


# ---------------------------------------------------------------------- a differential equation
def ode(x: Any, steps: int) -> Any:
    """y at 2, after steps of Runge and Kutta's method, of y[i]' = x[i] * y[i - 1]."""
    def slope(y: Any) -> Any:
        return np.concatenate([x[:1], x[1:] * y[:-1]])

    h, y = 2.0 / steps, np.zeros_like(x)
    for _ in range(steps):
        k1 = slope(y)
        k2 = slope(y + h / 2 * k1)
        k3 = slope(y + h / 2 * k2)
        k4 = slope(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y


def ode_last(x: Any, steps: int) -> Any:
    return ode(x, steps)[-1]


def ode_inputs(rng: Any, n: int, steps: int) -> tuple[Any, ...]:
    return rng.random(n), steps


# ---------------------------------------------------------------------- a determinant
def minor(a: Any, row: int, columns: list[int]) -> Any:
    """The determinant of the rows from one on and some columns, number by number."""
    if len(columns) == 1:
        return a[row, columns[0]]
    total = 0.0
    for k, column in enumerate(columns):
        total = total + (-1) ** k * a[row, column] * minor(a, row + 1, [c for c in columns if c != column])
    return total


def det(a: Any) -> Any:
    return minor(a, 0, list(range(len(a))))


def det_of_all(a: Any) -> Any:
    """The determinant of the last two axes, all minors of a level at once."""
    size = a.shape[-1]
    if size == 1:
        return a[..., 0, 0]
    others = np.array([[c for c in range(size) if c != column] for column in range(size)])
    signs = np.array([(-1.0) ** k for k in range(size)])
    minors = np.moveaxis(a[..., 1:, :][..., others], -2, -3)
    return np.sum(signs * a[..., 0, :] * det_of_all(minors), -1)


def det_inputs(rng: Any, size: int) -> tuple[Any, ...]:
    return (rng.random((size, size)),)

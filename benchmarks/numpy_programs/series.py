"""Finance, statistics and time series."""
from __future__ import annotations

import numpy as np

from numpy_programs.program import Program


def cumulative_normal(x):
    """Abramowitz and Stegun 26.2.17."""
    t = 1.0 / (1.0 + 0.2316419 * np.abs(x))
    coefficients = (0.319381530, -0.356563782, 1.781477937, -1.821255978, 1.330274429)
    polynomial = np.zeros_like(t)
    for c in coefficients[::-1]:
        polynomial = (polynomial + c) * t
    tail = np.exp(-x * x / 2.0) / np.sqrt(2.0 * np.pi) * polynomial
    return np.where(x >= 0, 1.0 - tail, tail)


def black_scholes(spot, strike, years, rate, volatility):
    """Calls and puts."""
    root = volatility * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + 0.5 * volatility ** 2) * years) / root
    d2 = d1 - root
    discount = strike * np.exp(-rate * years)
    call = spot * cumulative_normal(d1) - discount * cumulative_normal(d2)
    return call, call - spot + discount


def monte_carlo(spot, rate, volatility, years, normals):
    """An Asian option over given normals (steps, paths): its value and standard error."""
    steps = normals.shape[0]
    dt = years / steps
    price = np.full(normals.shape[1], spot)
    total = np.zeros(normals.shape[1])
    for i in range(steps):
        price *= np.exp((rate - 0.5 * volatility ** 2) * dt + volatility * np.sqrt(dt) * normals[i])
        total += price
    payoff = np.exp(-rate * years) * np.maximum(total / steps - spot, 0.0)
    return payoff.mean(), payoff.std(ddof=1) / np.sqrt(payoff.size)


def drawdown(returns):
    """Cumulative returns, the worst fall from a peak, the Sharpe ratio."""
    wealth = np.cumprod(1 + returns, axis=0)
    peak = np.maximum.accumulate(wealth, axis=0)
    worst = ((wealth - peak) / peak).min(axis=0)
    return wealth[-1] - 1, worst, returns.mean(axis=0) / returns.std(axis=0) * np.sqrt(252)


def moving_average(x, alpha):
    """Exponential moving average along time, of many series."""
    out = np.empty_like(x)
    out[0] = x[0]
    for t in range(1, len(x)):
        out[t] = alpha * x[t] + (1 - alpha) * out[t - 1]
    return out


def rolling(x, width):
    """Mean, deviation and z-score over a window that moves."""
    total = np.cumsum(np.insert(x, 0, 0.0))
    squares = np.cumsum(np.insert(x * x, 0, 0.0))
    mean = (total[width:] - total[:-width]) / width
    variance = (squares[width:] - squares[:-width]) / width - mean ** 2
    deviation = np.sqrt(np.maximum(variance, 0))
    return mean, deviation, (x[width - 1:] - mean) / np.where(deviation == 0, 1, deviation)


def correlation(data):
    """Correlations of columns, by hand."""
    mean = np.mean(data, axis=0)
    std = np.std(data, axis=0)
    std[std <= 0.1] = 1.0
    data = (data - mean) / (np.sqrt(data.shape[0]) * std)
    result = np.eye(data.shape[1])
    for i in range(data.shape[1] - 1):
        result[i + 1:, i] = result[i, i + 1:] = data[:, i] @ data[:, i + 1:]
    return result


def covariance(data):
    """Covariances of columns, in place on the data."""
    data -= np.mean(data, axis=0)
    return data.T @ data / (data.shape[0] - 1)


class Kalman:
    """A filter for position and speed from noisy positions."""

    def __init__(self, dt, noise, measured):
        self.f = np.array([[1.0, dt], [0.0, 1.0]])
        self.h = np.array([[1.0, 0.0]])
        self.q = noise * np.array([[dt ** 3 / 3, dt ** 2 / 2], [dt ** 2 / 2, dt]])
        self.r = np.array([[measured]])
        self.x = np.zeros((2, 1))
        self.p = np.eye(2)

    def update(self, z):
        x = self.f @ self.x
        p = self.f @ self.p @ self.f.T + self.q
        s = self.h @ p @ self.h.T + self.r
        gain = p @ self.h.T @ np.linalg.inv(s)
        self.x = x + gain @ (z - self.h @ x)
        self.p = (np.eye(2) - gain @ self.h) @ p
        return self.x[0, 0]


def kalman(measurements, dt):
    tracker = Kalman(dt, 0.1, 0.5)
    estimates = np.empty(len(measurements))
    for i, z in enumerate(measurements):
        estimates[i] = tracker.update(z)
    return estimates


def azimint(data, radius, bins):
    """Mean of data in rings of the radius."""
    largest = radius.max()
    result = np.zeros(bins)
    for i in range(bins):
        inside = np.logical_and(radius >= largest * i / bins, radius < largest * (i + 1) / bins)
        result[i] = data[inside].mean()
    return result


def weighted_rings(data, radius, bins):
    """The same by two histograms."""
    count = np.histogram(radius, bins)[0]
    total = np.histogram(radius, bins, weights=data)[0]
    return total / np.maximum(count, 1)


def detrend(y, degree):
    """Least-squares polynomial by the normal equations, taken away."""
    x = np.linspace(-1, 1, y.shape[-1])
    basis = np.stack([x ** k for k in range(degree + 1)], axis=1)
    coefficients = np.linalg.solve(basis.T @ basis, basis.T @ y.T)
    return y - (basis @ coefficients).T


def compute(a, b, limits, c, d):
    """Clip and combine integers."""
    return np.clip(a, limits[0], limits[1]) * c + b * d


def go_fast(a):
    """The trace of hyperbolic tangents, added to everything."""
    trace = 0.0
    for i in range(a.shape[0]):
        trace += np.tanh(a[i, i])
    return a + trace


def winsorise(x, low, high):
    """Pull outliers in place to percentiles, standardise the rest."""
    lower, upper = np.percentile(x, [low, high])
    x[x < lower] = lower
    x[x > upper] = upper
    x -= np.median(x)
    x[np.abs(x) < 1e-3] *= 2
    return x / np.std(x)


PROGRAMS = (
    Program(black_scholes, lambda n, r: (*(r.random((3, n)) + 0.5), 0.02, 0.3), 30, 200_000),
    Program(monte_carlo, lambda n, r: (100.0, 0.03, 0.2, 1.0, r.standard_normal((5 if n < 50 else 50, n))), 30, 20_000),
    Program(drawdown, lambda n, r: (0.01 * r.standard_normal((n, 10)),), 20, 10_000),
    Program(moving_average, lambda n, r: (r.random((n, 2 * n)), 0.1), 8, 200),
    Program(rolling, lambda n, r: (r.random(n), 5 if n < 50 else 50), 20, 100_000, 1e-8),
    Program(correlation, lambda n, r: (r.random((2 * n, n)),), 6, 100),
    Program(covariance, lambda n, r: (r.random((2 * n, n)),), 6, 250),
    Program(kalman, lambda n, r: (r.random(n), 0.1), 5, 60),
    Program(azimint, lambda n, r: (r.random(n), r.random(n), 3 if n < 50 else 50), 30, 50_000),
    Program(weighted_rings, lambda n, r: (*r.random((2, n)), 3 if n < 50 else 50), 30, 50_000),
    Program(detrend, lambda n, r: (r.random((6, n)), 3), 20, 5000, 1e-8),
    Program(compute, lambda n, r: (*r.integers(0, 1000, (2, n, n)), (20, 800), 4, 3), 9, 700),
    Program(go_fast, lambda n, r: (r.random((n, n)),), 8, 500),
    Program(winsorise, lambda n, r: (r.standard_normal(n), 5, 95), 40, 100_000),
)

"""Attributes that count, of objects that the call has made: run-time values in loops that look at data."""
from __future__ import annotations

import warnings

import numpy as np
import pytest
from oracle import same

import jitfuse as jf

pytestmark = pytest.mark.usefixtures("natively")


class Solver:
    found = 0

    def __init__(self, tol, limit=1000):
        self.tol, self.limit = tol, limit
        self.iterations = self.evaluations = 0
        self.left = 500
        self.log = {"halved": 0}

    def evaluate(self, x):
        self.evaluations += 1
        return x * 0.5 + 0.0

    def run(self, x):
        while np.abs(x).max() > self.tol and self.iterations < self.limit:
            x = self.evaluate(x)
            self.iterations += 1
            self.left -= 2
        return x


class Stepper:
    def __init__(self, f):
        self.f = f
        self.accepted = self.rejected = 0

    def run(self, y, end, h, tol=1e-3):
        t = 0.0
        while t < end:
            h = min(h, end - t)
            k1 = self.f(y)
            k2 = self.f(y + h * k1)
            error = np.abs(k2 - k1).max() * h / tol
            if error <= 1:
                t, y = t + h, y + h / 2 * (k1 + k2)
                self.accepted += 1
            else:
                self.rejected += 1
            h = h * min(2.0, max(0.3, 0.9 / (error + 1e-9)))
        return y


def solved(x):
    s = Solver(1e-6)
    y = s.run(x)
    return y, s.iterations, s.evaluations, s.left


def limited(x):
    s = Solver(1e-9, limit=7)
    return s.run(x), s.iterations


def counted_on(x):
    s = Solver(1e-3)
    y = s.run(x)
    s.iterations += 1  # after the loop
    return s.run(y * 3 + 1), np.full(3, s.iterations), 2 ** s.iterations, y[s.iterations % 3], s.iterations == 12


def used_as_index(x):
    s = Solver(1e-3)
    path = np.zeros(64)
    while np.abs(x).max() > s.tol:
        path[s.iterations] = x[0]
        x = x * 0.5
        s.iterations += 1
    return path, [0] * s.iterations, f"{s.iterations}"


def of_the_class(x):
    s = Solver(1e-3)
    while np.abs(x).max() > s.tol:
        x = x * 0.5
        s.found += 1
    return x, s.found


def stepped(y):
    s = Stepper(lambda v: -v * (1 + v * v))
    return s.run(y, 3.0, 1.0), s.accepted, s.rejected


def floats(x):
    s = Solver(1e-3)
    s.iterations = 0.5
    while np.abs(x).max() > s.tol:
        x = x * 0.5
        s.iterations += 1
    return x, s.iterations


@pytest.mark.parametrize("f", [solved, limited, counted_on, used_as_index, of_the_class, stepped, floats])
def test_results_are_pythons(f):
    warnings.simplefilter("ignore", jf.FallbackWarning)  # of `used_as_index`
    fused = jf.fuse(f)
    for seed in range(8):
        x = np.random.default_rng(seed).random(3) * (1 + 50 * (seed % 4))
        same(fused(x), f(x))


@pytest.mark.parametrize("f", [solved, stepped])
def test_loops_are_detected(f):
    fused = jf.fuse(f)
    for seed in range(4):
        fused(np.random.default_rng(seed).random(3) * 3)
    traces, splits = (fused.stats()[name] for name in ("traces", "splits"))
    for seed in range(12):
        x = np.random.default_rng(seed).random(3) * 10.0 ** (seed / 4)
        same(fused(x), f(x))
    assert fused.stats()["fallbacks"] == 0
    assert fused.stats()["splits"] <= splits + 24
    assert fused.stats()["traces"] <= traces + 8


def test_objects_of_the_caller_count_on():
    warnings.simplefilter("ignore", jf.FallbackWarning)
    for kept in (Solver(1e-6), Solver(1e-3, 5)):
        other = Solver(kept.tol, kept.limit)
        fused = jf.fuse(lambda x, kept=kept: kept.run(x))
        for seed in range(4):
            x = np.random.default_rng(seed).random(3) * 9
            same(fused(x), other.run(x))
            assert (kept.iterations, kept.evaluations, kept.left) == (other.iterations, other.evaluations, other.left)

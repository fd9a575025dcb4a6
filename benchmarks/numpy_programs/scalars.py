"""Programs that mix arrays with Python's numbers: `math`, named tuples, errors of their own, loops until a time."""
from __future__ import annotations

import math
from collections import namedtuple
from math import atan2, cos, hypot, sin

import numpy as np

from numpy_programs.program import Program

Primitive = namedtuple("Primitive", "density speed pressure")


def energy(w, gamma):
    return w.pressure / (gamma - 1) + 0.5 * w.density * w.speed ** 2


def hllc(left, right, gamma):
    """Fluxes between cells by the solver of Harten, Lax, van Leer, with the contact wave."""
    slow, fast = np.sqrt(gamma * left.pressure / left.density), np.sqrt(gamma * right.pressure / right.density)
    sl, sr = np.minimum(left.speed - slow, right.speed - fast), np.maximum(left.speed + slow, right.speed + fast)
    sm = ((right.pressure - left.pressure + left.density * left.speed * (sl - left.speed)
           - right.density * right.speed * (sr - right.speed))
          / (left.density * (sl - left.speed) - right.density * (sr - right.speed)))

    def conserved(w):
        return np.array([w.density, w.density * w.speed, energy(w, gamma)])

    def flux(w):
        return np.array([w.density * w.speed, w.density * w.speed ** 2 + w.pressure,
                         w.speed * (energy(w, gamma) + w.pressure)])

    def star(w, s):
        inner = energy(w, gamma) / w.density + (sm - w.speed) * (sm + w.pressure / (w.density * (s - w.speed)))
        return w.density * (s - w.speed) / (s - sm) * np.array([np.ones_like(sm), sm, inner])

    fl, fr = flux(left), flux(right)
    before = fl + sl * (star(left, sl) - conserved(left))
    inside = np.where(sm >= 0, before, fr + sr * (star(right, sr) - conserved(right)))
    return np.where(sl >= 0, fl, np.where(sr > 0, inside, fr))


def shock_tube(u, dx, end, gamma=1.4, courant=0.4):
    """Euler's equations in a tube until a time; raises where a pressure becomes negative."""
    u = u.copy()
    t, steps = 0.0, 0
    while t < end:
        density, speed = u[0], u[1] / u[0]
        pressure = (gamma - 1) * (u[2] - 0.5 * density * speed * speed)
        if (pressure <= 0).any():
            raise FloatingPointError("negative pressure")
        dt = min(courant * dx / np.max(np.abs(speed) + np.sqrt(gamma * pressure / density)), end - t)
        w = Primitive(*(np.pad(a, 1, mode="edge") for a in (density, speed, pressure)))
        f = hllc(Primitive(*(a[:-1] for a in w)), Primitive(*(a[1:] for a in w)), gamma)
        u -= dt / dx * (f[:, 1:] - f[:, :-1])
        t += dt
        steps += 1
    return u, steps


def householder(a):
    """QR factorisation by reflections, whose signs `math.copysign` takes."""
    m, n = a.shape
    r, q = a.astype(float).copy(), np.eye(m)
    for k in range(min(m - 1, n)):
        x = r[k:, k]
        e = np.zeros_like(x)
        e[0] = math.copysign(math.sqrt(x @ x), -r[k, k])
        u = x - e
        v = u / np.linalg.norm(u)
        r[k:] -= 2 * np.outer(v, v @ r[k:])
        q[:, k:] -= 2 * np.outer(q[:, k:] @ v, v)
    return q, np.triu(r)


def orbit(position, velocity, mass, dt, steps):
    """A body around another, and the elements of its orbit."""
    path = np.empty((steps, 2))
    for k in range(steps):
        r = hypot(position[0], position[1])
        velocity = velocity - dt * mass * position / r ** 3
        position = position + dt * velocity
        path[k] = position
    x, y = position
    speed = math.sqrt(velocity @ velocity)
    axis = 1 / (2 / hypot(x, y) - speed ** 2 / mass)
    spin = x * velocity[1] - y * velocity[0]
    angle = atan2(y, x)
    return path, axis, math.sqrt(max(0.0, 1 - spin ** 2 / (mass * axis))), (cos(angle), sin(angle)), math.degrees(angle)


def _tube(n, r):
    left = np.arange(n) < n // 2
    density, pressure = np.where(left, 1.0, 0.125), np.where(left, 1 + 0.1 * r.random(), 0.1)
    return np.stack([density, 0 * density, pressure / 0.4]), 1 / n, 0.1


PROGRAMS = (
    Program(shock_tube, _tube, 20, 400, needs="values"),
    Program(householder, lambda n, r: (r.random((n + 5, n)),), 6, 40),
    Program(orbit, lambda n, r: (np.array([1.0, 0.1 * r.random()]), np.array([0.0, 0.9]), 1.0, 0.01, n), 12, 1000),
)

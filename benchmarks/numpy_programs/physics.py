"""Fluids, fields, particles and ordinary differential equations."""
from __future__ import annotations

import numpy as np

from numpy_programs.program import Program


def pressure(p, b, dx, dy, iterations):
    """Jacobi rounds of the pressure equation with walls."""
    for _ in range(iterations):
        pn = p.copy()
        p[1:-1, 1:-1] = (((pn[1:-1, 2:] + pn[1:-1, :-2]) * dy ** 2 + (pn[2:, 1:-1] + pn[:-2, 1:-1]) * dx ** 2)
                         / (2 * (dx ** 2 + dy ** 2)) - dx ** 2 * dy ** 2 / (2 * (dx ** 2 + dy ** 2)) * b[1:-1, 1:-1])
        p[:, -1] = p[:, -2]
        p[0, :] = p[1, :]
        p[:, 0] = p[:, 1]
        p[-1, :] = 0


def divergence_source(b, u, v, dx, dy, dt, density):
    """Right-hand side of the pressure equation."""
    ux = (u[1:-1, 2:] - u[1:-1, :-2]) / (2 * dx)
    uy = (u[2:, 1:-1] - u[:-2, 1:-1]) / (2 * dy)
    vx = (v[1:-1, 2:] - v[1:-1, :-2]) / (2 * dx)
    vy = (v[2:, 1:-1] - v[:-2, 1:-1]) / (2 * dy)
    b[1:-1, 1:-1] = density * ((ux + vy) / dt - ux ** 2 - 2 * uy * vx - vy ** 2)


def advance(field, u, v, gradient, dx, dy, dt, viscosity):
    """One explicit step of a velocity component, inside."""
    here = field[1:-1, 1:-1]
    west, east, south, north = field[1:-1, :-2], field[1:-1, 2:], field[:-2, 1:-1], field[2:, 1:-1]
    return (here - u[1:-1, 1:-1] * dt / dx * (here - west) - v[1:-1, 1:-1] * dt / dy * (here - south) - gradient
            + viscosity * (dt / dx ** 2 * (east - 2 * here + west) + dt / dy ** 2 * (north - 2 * here + south)))


def cavity_flow(u, v, p, steps, iterations, density, viscosity):
    """Flow in a box whose lid moves."""
    ny, nx = u.shape
    dx, dy, dt = 2 / (nx - 1), 2 / (ny - 1), 0.1 / nx ** 2
    b = np.zeros((ny, nx))
    for _ in range(steps):
        un, vn = u.copy(), v.copy()
        divergence_source(b, u, v, dx, dy, dt, density)
        pressure(p, b, dx, dy, iterations)
        px = dt / (2 * density * dx) * (p[1:-1, 2:] - p[1:-1, :-2])
        py = dt / (2 * density * dy) * (p[2:, 1:-1] - p[:-2, 1:-1])
        u[1:-1, 1:-1] = advance(un, un, vn, px, dx, dy, dt, viscosity)
        v[1:-1, 1:-1] = advance(vn, un, vn, py, dx, dy, dt, viscosity)
        u[0, :] = u[:, 0] = u[:, -1] = 0
        u[-1, :] = 1
        v[0, :] = v[-1, :] = v[:, 0] = v[:, -1] = 0


def channel_flow(u, dx, dt, force, viscosity, tolerance):
    """Flow that is driven along a periodic channel, until it changes little; returns the number of steps."""
    change, steps = 1.0, 0
    while change > tolerance:
        un = u.copy()
        left, right = np.roll(un, 1, axis=1), np.roll(un, -1, axis=1)
        spread = right[1:-1] + left[1:-1] + un[2:] + un[:-2] - 4 * un[1:-1]
        u[1:-1] = (un[1:-1] - un[1:-1] * dt / dx * (un[1:-1] - left[1:-1])
                   + viscosity * dt / dx ** 2 * spread + force * dt)
        u[0] = u[-1] = 0
        change = (np.sum(u) - np.sum(un)) / np.sum(u)
        steps += 1
    return steps


VELOCITIES = np.array([[0, 0], [1, 0], [0, 1], [-1, 0], [0, -1], [1, 1], [-1, 1], [-1, -1], [1, -1]])
WEIGHTS = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4)
OPPOSITE = np.array([0, 3, 4, 1, 2, 7, 8, 5, 6])


def lattice_boltzmann(f, solid, steps, omega):
    """Nine velocities in two dimensions, with an obstacle that reflects."""
    for _ in range(steps):
        for i, (cx, cy) in enumerate(VELOCITIES):
            f[i] = np.roll(np.roll(f[i], cx, axis=1), cy, axis=0)
        bounced = f[OPPOSITE][:, solid]
        density = f.sum(axis=0)
        ux = np.tensordot(VELOCITIES[:, 0], f, axes=1) / density
        uy = np.tensordot(VELOCITIES[:, 1], f, axes=1) / density
        for i in range(9):
            along = 3 * (VELOCITIES[i, 0] * ux + VELOCITIES[i, 1] * uy)
            equal = WEIGHTS[i] * density * (1 + along + 0.5 * along ** 2 - 1.5 * (ux ** 2 + uy ** 2))
            f[i] += omega * (equal - f[i])
        f[:, solid] = bounced
    return f


def accelerations(position, mass, softening):
    """Gravity of all on all."""
    difference = position[None, :, :] - position[:, None, :]
    inverse = (difference ** 2).sum(axis=2) + softening ** 2
    inverse = inverse ** -1.5
    return (difference * (inverse * mass[None, :])[:, :, None]).sum(axis=1)


def nbody(mass, position, velocity, steps, dt):
    """Leapfrog; returns the energies of each step."""
    velocity -= np.mean(mass[:, None] * velocity, axis=0) / np.mean(mass)
    acceleration = accelerations(position, mass, 0.1)
    kinetic = np.empty(steps)
    for i in range(steps):
        velocity += acceleration * dt / 2
        position += velocity * dt
        acceleration = accelerations(position, mass, 0.1)
        velocity += acceleration * dt / 2
        kinetic[i] = 0.5 * np.sum(mass * np.sum(velocity ** 2, axis=1))
    return kinetic


def laplacian(u):
    return np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u


def gray_scott(u, v, steps, feed, kill):
    """Reaction and diffusion on a torus."""
    for _ in range(steps):
        reaction = u * v * v
        u = u + 0.16 * laplacian(u) - reaction + feed * (1 - u)
        v = v + 0.08 * laplacian(v) + reaction - (feed + kill) * v
    return u, v


class Wave:
    """A membrane with a sponge at its edges."""

    def __init__(self, start, speed):
        self.now = start.copy()
        self.before = start.copy()
        self.courant = speed ** 2
        self.energies = []

    def step(self):
        after = np.zeros_like(self.now)
        u = self.now
        after[1:-1, 1:-1] = (2 * u[1:-1, 1:-1] - self.before[1:-1, 1:-1] + self.courant * (
            u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]))
        after[:3] *= 0.9
        after[-3:] *= 0.9
        self.before, self.now = self.now, after
        self.energies.append(np.sum(after ** 2))


def wave(start, speed, steps):
    membrane = Wave(start, speed)
    for _ in range(steps):
        membrane.step()
    return membrane.now, np.array(membrane.energies)


def lorenz(state, sigma, rho, beta):
    x, y, z = state
    return np.array([sigma * (y - x), x * (rho - z) - y, x * y - beta * z])


def runge_kutta(state, dt, steps):
    """The whole path of many Lorenz systems."""
    path = np.empty((steps + 1, *state.shape))
    path[0] = state
    for i in range(steps):
        k1 = lorenz(path[i], 10.0, 28.0, 8 / 3)
        k2 = lorenz(path[i] + dt / 2 * k1, 10.0, 28.0, 8 / 3)
        k3 = lorenz(path[i] + dt / 2 * k2, 10.0, 28.0, 8 / 3)
        k4 = lorenz(path[i] + dt * k3, 10.0, 28.0, 8 / 3)
        path[i + 1] = path[i] + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return path


def self_energies(neighbours, hessian, green, d):
    """Sums of products of small matrices over energies, momenta and neighbours (scattering)."""
    nk, ne, nq, nw = green.shape[0], green.shape[1], d.shape[0], d.shape[1]
    na, nb = neighbours.shape
    sigma = np.zeros_like(green)
    for k in range(nk):
        for e in range(ne):
            for q in range(nq):
                for w in range(nw):
                    for a in range(na):
                        for b in range(nb):
                            if e - w >= 0:
                                left = green[k, e - w, neighbours[a, b]] @ hessian[a, b]
                                sigma[k, e, a] += left @ (hessian[a, b] * d[q, w, a, b])
    return sigma


def contour_integral(hamiltonian, points, weights, start):
    """Moments of a resolvent over a contour."""
    p0 = np.zeros(start.shape, dtype=np.complex128)
    p1 = np.zeros(start.shape, dtype=np.complex128)
    for z, weight in zip(points, weights):
        matrix = np.zeros(hamiltonian.shape[1:], dtype=np.complex128)
        for power in range(hamiltonian.shape[0]):
            matrix += z ** (power - 1) * hamiltonian[power]
        x = np.linalg.solve(matrix, start)
        p0 += weight * x
        p1 += weight * z * x
    return p0, p1


def _complex(r, *shape):
    return r.random(shape) + 1j * r.random(shape)


def _scattering(n, r):
    big = n > 4
    nk, ne, na, nb, size = 2, n, 4 if big else 3, 2, 4
    return (r.integers(0, na, (na, nb)), _complex(r, na, nb, size, size), _complex(r, nk, ne, na, size, size),
            _complex(r, 2, 2, na, nb, 1, 1))


PROGRAMS = (
    Program(cavity_flow, lambda n, r: (*r.random((3, n, n)), *((2, 3) if n < 20 else (10, 10)), 1.0, 0.1), 8, 60),
    Program(channel_flow, lambda n, r: (0.1 * r.random((n, n)), 0.1, 0.01, 1.0, 0.1, 0.01), 8, 50, needs="values"),
    Program(lattice_boltzmann, lambda n, r: (1 + 0.1 * r.random((9, n, n + 4)), r.random((n, n + 4)) < 0.05,
                                             2 if n < 20 else 10, 1.2), 8, 120),
    Program(nbody, lambda n, r: (r.random(n), r.random((n, 3)), r.random((n, 3)), 3 if n < 20 else 10, 0.01), 6, 150),
    Program(gray_scott, lambda n, r: (*r.random((2, n, n)), 3 if n < 20 else 40, 0.035, 0.065), 7, 200),
    Program(wave, lambda n, r: (r.random((n, n)), 0.4, 3 if n < 20 else 40), 9, 200),
    Program(runge_kutta, lambda n, r: (r.random((3, n)) * 10, 0.01, 3 if n < 20 else 50), 7, 500),
    Program(self_energies, _scattering, 3, 5),
    Program(contour_integral, lambda n, r: (_complex(r, 3, n, n) + 3 * np.eye(n), _complex(r, 8), _complex(r, 8),
                                            _complex(r, n, 2)), 5, 60, 1e-8),
)

"""Programs that seed a generator and draw: Markov chains, filters, resampling, training from random weights."""
from __future__ import annotations

import itertools

import numpy as np

from numpy_programs.program import Program


# ---------------------------------------------------------------- the Ising model, by sublattices
def ising_sweep(spins, beta, uniforms):
    i, j = np.indices(spins.shape)
    for u, parity in zip(uniforms, (0, 1)):
        neighbours = (np.roll(spins, 1, 0) + np.roll(spins, -1, 0) + np.roll(spins, 1, 1) + np.roll(spins, -1, 1))
        flip = (u < np.exp(-2 * beta * spins * neighbours)) & ((i + j) % 2 == parity)
        spins = np.where(flip, -spins, spins)
    return spins


def ising_chain(spins, beta, sweeps, seed=0):
    rng = np.random.default_rng(seed)
    magnetisation, energy = [], []
    for _ in range(sweeps):
        spins = ising_sweep(spins, beta, rng.random((2, *spins.shape)))
        magnetisation.append(spins.mean())
        energy.append(-np.mean(spins * (np.roll(spins, 1, 0) + np.roll(spins, 1, 1))))
    return spins, np.array(magnetisation), np.array(energy)


# ---------------------------------------------------------------- a bootstrap particle filter
def particle_filter(observed, count, noise, spread, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 1, count)
    estimates = []
    for t, y in enumerate(observed):
        x = 0.5 * x + 25 * x / (1 + x ** 2) + 8 * np.cos(1.2 * t) + noise * rng.normal(size=count)
        weights = np.exp(-0.5 * ((y - x ** 2 / 20) / spread) ** 2) + 1e-300
        weights /= weights.sum()
        estimates.append(np.sum(weights * x))
        places = (rng.random() + np.arange(count)) / count
        x = x[np.minimum(np.searchsorted(np.cumsum(weights), places), count - 1)]
    return np.array(estimates)


# ---------------------------------------------------------------- confidence by resampling
def bootstrap(data, iterations, alpha=0.05, statistic=np.median, seed=1):
    rng = np.random.default_rng(seed)
    found = np.empty(iterations)
    for b in range(iterations):
        found[b] = statistic(data[rng.integers(0, len(data), len(data))])
    low, high = np.percentile(found, [100 * alpha / 2, 100 * (1 - alpha / 2)])
    return found.mean(), (low, high)


# ---------------------------------------------------------------- random walks that meet a barrier
def random_walks(steps, n, seed):
    rng = np.random.default_rng(seed)
    paths = rng.choice([-1, 1], size=(n, steps)).cumsum(axis=1)
    crossed = np.abs(paths) >= 10
    return paths[:, -1].std(), crossed.any(axis=1).mean(), crossed.argmax(axis=1)


# ---------------------------------------------------------------- a network trained by Adam, in batches
def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def weights_of(sizes, seed):
    rng = np.random.default_rng(seed)
    weights = {}
    for k, (rows, columns) in enumerate(itertools.pairwise(sizes)):
        weights[f"w{k}"] = rng.normal(0, np.sqrt(2 / rows), (rows, columns))
        weights[f"b{k}"] = np.zeros(columns)
    return weights


class Adam:
    def __init__(self, rate=1e-3, betas=(0.9, 0.999), eps=1e-8):
        self.rate, self.betas, self.eps = rate, betas, eps
        self.first, self.second, self.steps = {}, {}, 0

    def update(self, weights, gradients):
        self.steps += 1
        b1, b2 = self.betas
        for k in weights:
            if k not in self.first:
                self.first[k], self.second[k] = np.zeros_like(weights[k]), np.zeros_like(weights[k])
            self.first[k] = b1 * self.first[k] + (1 - b1) * gradients[k]
            self.second[k] = b2 * self.second[k] + (1 - b2) * gradients[k] ** 2
            step = self.first[k] / (1 - b1 ** self.steps)
            weights[k] -= self.rate * step / (np.sqrt(self.second[k] / (1 - b2 ** self.steps)) + self.eps)


def train(x, y, epochs, batch=64, seed=0):
    weights = weights_of([x.shape[1], 32, 10], seed)
    adam = Adam()
    order = np.random.default_rng(seed + 1)
    losses = []
    for _ in range(epochs):
        shuffled = order.permutation(len(x))
        for s in range(0, len(x), batch):
            rows = shuffled[s:s + batch]
            hidden = np.maximum(x[rows] @ weights["w0"] + weights["b0"], 0)
            p = softmax(hidden @ weights["w1"] + weights["b1"])
            target = np.eye(10)[y[rows]]
            losses.append(-np.mean(np.log(p[np.arange(len(rows)), y[rows]] + 1e-12)))
            delta = (p - target) / len(rows)
            back = (delta @ weights["w1"].T) * (hidden > 0)
            adam.update(weights, {"w1": hidden.T @ delta, "b1": delta.sum(axis=0),
                                  "w0": x[rows].T @ back, "b0": back.sum(axis=0)})
    return np.array(losses), weights


# ---------------------------------------------------------------- a genetic algorithm, individual by individual
def rastrigin(population):
    return 10 * population.shape[1] + np.sum(population ** 2 - 10 * np.cos(2 * np.pi * population), axis=1)


def tournament(population, fitness, k, rng):
    winners = np.empty_like(population)
    for i in range(len(population)):
        rivals = rng.integers(0, len(population), k)
        winners[i] = population[rivals[np.argmin(fitness[rivals])]]
    return winners


def crossover(parents, rate, rng):
    children = parents.copy()
    for i in range(0, len(parents) - 1, 2):
        if rng.random() < rate:
            alpha = rng.random(parents.shape[1])
            children[i] = alpha * parents[i] + (1 - alpha) * parents[i + 1]
            children[i + 1] = alpha * parents[i + 1] + (1 - alpha) * parents[i]
    return children


def mutate(population, rate, sigma, rng):
    mask = rng.random(population.shape) < rate
    noise = rng.normal(0, sigma, population.shape)
    population[mask] += noise[mask]
    return np.clip(population, -5.12, 5.12)


def genetic(generations, size, dims, seed=0):
    rng = np.random.default_rng(seed)
    population = rng.uniform(-5.12, 5.12, (size, dims))
    best, best_x = np.inf, None
    history = []
    for _ in range(generations):
        fitness = rastrigin(population)
        i = np.argmin(fitness)
        if fitness[i] < best:
            best, best_x = fitness[i], population[i].copy()
        history.append(best)
        population = mutate(crossover(tournament(population, fitness, 3, rng), 0.9, rng), 0.1, 0.3, rng)
        population[0] = best_x
    return best_x, best, np.array(history)


# ---------------------------------------------------------------- the list
PROGRAMS = [
    Program(ising_chain, lambda n, r: (r.choice([-1, 1], size=(n, n)), 0.44, 3 if n < 20 else 20), 8, 64),
    Program(particle_filter, lambda n, r: (r.normal(size=5 if n < 50 else 50), n, 1.0, 1.0, 5), 20, 500),
    Program(bootstrap, lambda n, r: (r.normal(size=n), 20 if n < 50 else 200), 30, 500),
    Program(random_walks, lambda n, r: (n, 5 * n, 7), 12, 200),
    Program(genetic, lambda n, r: (3 if n < 20 else 20, n, 5), 10, 40, needs="values"),
    Program(train, lambda n, r: (r.normal(size=(n, 20)), r.integers(0, 10, n), 1), 80, 512),
]

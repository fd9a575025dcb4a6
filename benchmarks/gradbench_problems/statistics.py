"""Objectives over arrays of observations: lse, llsq, kmeans, gmm."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy import triu_indices

import jitfuse as jf


def logsumexp(x: Any, axis: int = 0) -> Any:
    top = np.max(x, axis, keepdims=True)
    return np.log(np.sum(np.exp(x - top), axis)) + np.squeeze(top, axis)


def lse_inputs(rng: Any, n: int) -> tuple[Any, ...]:
    return (rng.random(n),)


def llsq(x: Any, n: int) -> Any:
    """Half the squares of what the polynomial with the coefficients x leaves of a step function, at n points."""
    t = np.linspace(-1.0, 1.0, n, dtype=x.dtype)
    return np.sum((np.sign(t) - np.vander(t, len(x), True) @ x) ** 2) / 2


def llsq_inputs(rng: Any, n: int, m: int) -> tuple[Any, ...]:
    return rng.random(m), n


def kmeans(centres: Any, points: Any) -> Any:
    return np.sum(np.min(np.sum((points[:, None, :] - centres) ** 2, -1), 1))


def kmeans_direction(centres: Any, points: Any) -> Any:
    """The step of Newton's method: the Hessian is diagonal, and so its product with ones."""
    slope, curvature = jf.jvp(jf.grad(lambda c: kmeans(c, points)), (centres,), (np.ones_like(centres),))
    return slope / curvature


def kmeans_inputs(rng: Any, k: int, n: int, d: int) -> tuple[Any, ...]:
    points = rng.random((n, d))
    return points[-k:].copy(), points


def gmm(alpha: Any, means: Any, diagonal: Any, lower: Any, points: Any, m: int, gamma: float) -> Any:
    """The logarithm of the posterior of a mixture of k Gaussians, whose precisions have a Wishart prior."""
    (k, d), n = means.shape, len(points)
    columns, rows = triu_indices(d, 1)
    factors = np.zeros((k, d, d), dtype=means.dtype)
    factors[:, rows, columns] = lower
    scales, logarithms = np.exp(diagonal), np.sum(diagonal, 1)
    away = points[:, None, :] - means
    scaled = scales * away + np.einsum("kij,nkj->nki", factors, away)
    inner = alpha + logarithms - 0.5 * np.sum(scaled**2, 2)
    likelihood = np.sum(logsumexp(inner, 1)) - n * logsumexp(alpha) - n * d * 0.5 * math.log(2 * math.pi)
    prior = m * np.sum(logarithms) - 0.5 * gamma**2 * (np.sum(scales**2) + np.sum(lower**2))
    freedom = d + m + 1
    gammas = d * (d - 1) / 4 * math.log(math.pi) + sum(math.lgamma((freedom - j) / 2) for j in range(d))
    return likelihood + prior + k * (freedom * d * math.log(gamma / math.sqrt(2)) - gammas)


def gmm_inputs(rng: Any, d: int, k: int, n: int) -> tuple[Any, ...]:
    return (rng.normal(size=k), rng.random((k, d)), rng.normal(size=(k, d)), rng.normal(size=(k, d * (d - 1) // 2)),
            rng.normal(size=(n, d)), 0, 1.0)

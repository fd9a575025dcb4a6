"""The array functions that peers.py times in every system, and their arguments: plain NumPy, nothing of jitfuse."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np


def erf(x: Any) -> Any:
    """NumPy has no erf; each system brings its own in place of this one."""
    from scipy.special import erf as of_scipy  # type: ignore[import-untyped]

    return of_scipy(x)


def sin_times_x(x: Any, b: Any) -> Any:
    return np.sin(x) * x + b


def black_scholes(price: Any, strike: Any, years: Any, rate: Any, volatility: Any) -> Any:
    """Value of a European call; the cumulative normal distribution by erf."""
    spread = volatility * np.sqrt(years)
    d1 = (np.log(price / strike) + (rate + volatility * volatility / 2) * years) / spread
    d2 = d1 - spread
    at_d1, at_d2 = 0.5 * (1 + erf(d1 * 0.7071067811865476)), 0.5 * (1 + erf(d2 * 0.7071067811865476))
    return price * at_d1 - strike * np.exp(-rate * years) * at_d2


def softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def layer_norm(x: Any, gain: Any, bias: Any) -> Any:
    centred = x - np.mean(x, axis=1, keepdims=True)
    return centred / np.sqrt(np.mean(centred * centred, axis=1, keepdims=True) + 1e-5) * gain + bias


def sum_of_squares(x: Any) -> Any:
    return np.sum(x * x)


def column_mean(x: Any) -> Any:
    return np.mean(x, axis=0)


def pairwise_distance(a: Any, b: Any) -> Any:
    difference = a[:, None, :] - b[None, :, :]
    return np.sqrt(np.sum(difference * difference, axis=2))


def adam(w: Any, g: Any, m: Any, v: Any) -> Any:
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * (g * g)
    return w - 0.001 * (m / 0.1) / (np.sqrt(v / 0.001) + 1e-8), m, v


def heat_step(u: Any) -> Any:
    inner = u[1:-1, 1:-1]
    return inner + 0.1 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * inner)


def chain(x: Any, a: Any, b: Any) -> Any:
    for _ in range(50):
        x = x * a + b
    return x


def product(a: Any, b: Any) -> Any:
    return a @ b


def layers(x: Any, w: Any, b: Any, v: Any, c: Any) -> Any:
    scores = np.maximum(x @ w + b, 0.0) @ v + c
    e = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = (q @ np.swapaxes(k, -1, -2)) * 0.125
    e = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    return (e / np.sum(e, axis=-1, keepdims=True)) @ v


def power_step(a: Any, b: Any) -> Any:
    c = a @ b
    return c / np.sqrt(np.sum(c * c, axis=0))


@dataclass(frozen=True)
class Row:
    """One workload: the function, its arguments for a scale, and the relative error that counts as equal."""

    name: str
    function: Callable[..., Any]
    arguments: Callable[[float], tuple[Any, ...]]
    tolerance: float = 1e-4
    numexpr: str | None = None


def _normal(*shape: int, dtype: type = np.float32) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def _options(scale: float) -> tuple[Any, ...]:
    prices, strikes, years = np.random.default_rng(0).uniform(1.0, 2.0, (3, max(1, int(1e6 * scale))))
    return prices, strikes, years, 0.05, 0.3


def _size(scale: float, full: int) -> int:
    return max(4, int(full * scale))


ROWS: Final = (
    Row("sin(x)*x+b 4M f32", sin_times_x, lambda s: (_normal(_size(s, 4_000_000)), np.float32(1)),
        numexpr="sin(x) * x + b"),
    Row("Black-Scholes 1M f64", black_scholes, _options, 1e-9),
    Row("softmax rows 4096x1024 f32", softmax, lambda s: (_normal(_size(s, 4096), 1024),)),
    Row("layer norm 8192x1024 f32", layer_norm,
        lambda s: (_normal(_size(s, 8192), 1024), _normal(1024), _normal(1024)), 1e-3),
    Row("sum of squares 16M f32", sum_of_squares, lambda s: (_normal(_size(s, 16_000_000)),)),
    Row("column mean 4096x4096 f32", column_mean, lambda s: (_normal(_size(s, 4096), 4096) + np.float32(3),)),
    Row("pairwise distance 2000x2000x3 f32", pairwise_distance,
        lambda s: (_normal(_size(s, 2000), 3), _normal(_size(s, 2000), 3) + np.float32(9))),
    Row("Adam 10M f32", adam,
        lambda s: tuple(_normal(_size(s, 10_000_000)) for _ in range(3)) + (_normal(_size(s, 10_000_000)) ** 2,)),
    Row("heat step 4096x4096 f32", heat_step, lambda s: (_normal(_size(s, 4096), 4096),), 1e-3),
    Row("100 operations 4M f32", chain,
        lambda s: (_normal(_size(s, 4_000_000)), np.float32(0.99), np.float32(0.01)), 1e-3),
    Row("product 1024x1024x1024 f32", product,
        lambda s: (_normal(_size(s, 1024), _size(s, 1024)), _normal(_size(s, 1024), 1024)), 1e-3),
    Row("layers 256x784x512x10 f32", layers,
        lambda s: (
            _normal(_size(s, 256), 784), _normal(784, 512) / np.float32(28), _normal(512), _normal(512, 10), _normal(10)
        ), 1e-2),
    Row("attention 8x512x64 f32", attention, lambda s: tuple(_normal(_size(s, 8), 512, 64) for _ in range(3)), 1e-3),
    Row("power step 1024x1024x256 f32", power_step,
        lambda s: (_normal(_size(s, 1024), 1024), _normal(1024, 256)), 1e-3),
    Row("sin(x)*x+b 16 elements f32", sin_times_x, lambda s: (_normal(16), 1.0)),
)

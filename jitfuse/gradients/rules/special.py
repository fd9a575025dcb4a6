"""Special functions, by their derivatives in terms of one another (DLMF chapters 5, 6, 8, 10, 25)."""
from __future__ import annotations

import math

from jitfuse.gradients.rule import elementwise, without
from jitfuse.gradients.values import Tensor, choose

_SQRT_PI = math.sqrt(math.pi)
_NONE = "no operator computes it. Wrap that operand in jf.stop_gradient, or leave it out of argnums."


def _density(x: Tensor) -> Tensor:
    """Return the density of the normal distribution."""
    return x.multiply(x).multiply(-0.5).exp().multiply(1 / math.sqrt(2 * math.pi))


def _psi(x: Tensor) -> Tensor:
    return x.call("digamma")


def _hazard(x: Tensor, y: Tensor) -> Tensor:
    """Return the density over exp(y), the distribution; far below 0, where logs of both cancel, Laplace's fraction."""
    far = x.less(-8)
    near, z = choose(far, 0, x), choose(far, x.negative(), 8)
    fraction = z
    for k in range(12, 0, -1):
        fraction = z.add(fraction.call("reciprocal").multiply(k))
    density = near.multiply(near).multiply(-0.5).subtract(choose(far, 0, y)).exp()
    return choose(far, fraction, density.multiply(1 / math.sqrt(2 * math.pi)))


def _gamma_density(a: Tensor, x: Tensor) -> Tensor:
    """Return x**(a - 1) * exp(-x) / gamma(a)."""
    return a.subtract(1).call("xlogy", x).subtract(x).subtract(a.call("gammaln")).exp()


def _beta_slope(a: Tensor, b: Tensor) -> Tensor:
    return _psi(a).subtract(_psi(a.add(b)))


def _slope_of_i1(x: Tensor, i0: Tensor, i1: Tensor, scale: Tensor | None) -> Tensor:
    """Return i0 - i1 / x; near 0, where derivatives of the quotient cancel, the first terms of the series in x.

    `scale`: what i0 and i1 are multiplied by.
    """
    near = x.call("abs").less(0.1)
    square = x.multiply(x)
    terms = x.literal(9 / 1474560)
    for term in (7 / 18432, 5 / 384, 3 / 16, 1 / 2):
        terms = terms.multiply(square).add(term)
    return choose(near, terms if scale is None else terms.multiply(scale),
                  i0.subtract(i1.divide(choose(near, 1, x))))


elementwise("gammaln", lambda x, y: _psi(x))
elementwise("gamma", lambda x, y: y.multiply(_psi(x)))
elementwise("rgamma", lambda x, y: y.multiply(_psi(x)).negative())
elementwise("digamma", lambda x, y: x.literal(2.0).call("zeta", x))
elementwise("betaln", lambda a, b, y: _beta_slope(a, b), lambda a, b, y: _beta_slope(b, a))
elementwise("beta", lambda a, b, y: y.multiply(_beta_slope(a, b)), lambda a, b, y: y.multiply(_beta_slope(b, a)))
elementwise("gammainc", _NONE, lambda a, x, y: _gamma_density(a, x), unbounded=True)
elementwise("gammaincc", _NONE, lambda a, x, y: _gamma_density(a, x).negative(), unbounded=True)
elementwise("gammaincinv", _NONE, lambda a, p, y: _gamma_density(a, y).call("reciprocal"), unbounded=True)
elementwise("i0", lambda x, y: x.call("i1"))
elementwise("i0e", lambda x, y: x.call("i1e").subtract(x.call("sign").multiply(y)))
elementwise("i1", lambda x, y: _slope_of_i1(x, x.call("i0"), y, None))
elementwise("i1e", lambda x, y: _slope_of_i1(x, x.call("i0e"), y, x.call("abs").negative().exp()).subtract(
    x.call("sign").multiply(y)))
elementwise("ndtr", lambda x, y: _density(x))
elementwise("log_ndtr", lambda x, y: _hazard(x, y))
elementwise("erfinv", lambda x, y: y.multiply(y).exp().multiply(_SQRT_PI / 2), unbounded=True)
elementwise("erfcinv", lambda x, y: y.multiply(y).exp().multiply(-_SQRT_PI / 2), unbounded=True)
elementwise("ndtri", lambda p, y: _density(y).call("reciprocal"), unbounded=True)
elementwise("zeta", _NONE, lambda s, q, y: s.negative().multiply(s.add(1).call("zeta", q)), unbounded=True)
without("its derivative has no operator", "riemann_zeta")

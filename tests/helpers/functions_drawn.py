"""Texts of less common functions for random programs: special functions, order statistics, complex numbers, products.

Owns the choice of functions over given names, each with the slack of its result. Does not own when they are drawn.
"""
from __future__ import annotations

import random
from typing import Any

import numpy as np

ONE_OPERAND = ("gammaln", "gamma", "rgamma", "psi", "i0", "i0e", "i1", "i1e", "ndtr", "log_ndtr", "erfinv", "erfcinv",
               "ndtri", "erf", "erfc", "expit", "log_expit", "logit", "zeta")
TWO_OPERANDS = ("beta", "betaln", "gammainc", "gammaincc", "gammaincinv", "zeta", "xlogy")


def special_function(rng: random.Random, x: str, y: str) -> tuple[str, tuple[str, ...], str]:
    """Return (expression, names read, slack) of a function of scipy.special."""
    if rng.random() < 0.6:
        return f"special.{rng.choice(ONE_OPERAND)}({x})", (x,), "ulp"
    # arguments of the incomplete functions are inverted by iteration: NumPy's own elements, no slack of theirs
    return f"special.{rng.choice(TWO_OPERANDS)}({x}, {y})", (x, y), "ulp"


def order_statistic(rng: random.Random, x: str, value: Any, axis: str) -> tuple[str, tuple[str, ...], str]:
    """Return (expression, names read, slack) of what sorting finds in the array named x, which has elements."""
    rank, size = np.ndim(value), np.size(value)
    one = rng.randrange(-rank, rank)
    k = rng.randrange(np.shape(value)[one])
    keepdims = ", keepdims=True" if rng.random() < 0.4 else ""
    at = f"[{':, ' * (one % rank)}{k}]"
    share = rng.choice(("0.25", "0", "1", "[0.5, 0.1]", "0.9"))
    method = rng.choice(("", ", method='lower'", ", method='nearest'", ", method='midpoint'", ", method='hazen'"))
    percents = rng.choice(("25", "0", "[50, 12.5]"))
    choices = [
        (f"np.sort({x}, axis={one})", ""), (f"np.argsort({x}, axis={one}, stable=True)", ""),
        (f"np.sort({x}, axis=None)", ""), (f"np.partition({x}, {k}, axis={one}){at}", ""),
        (f"np.take_along_axis({x}, np.argpartition({x}, {k}, axis={one}), axis={one}){at}", ""),
        (f"np.median({x}, axis={axis}{keepdims})", "ulp"), (f"np.nanmedian({x}, axis={axis}{keepdims})", "ulp"),
        (f"np.quantile({x}, {share}, axis={axis}{method}{keepdims})", "ulp"),
        (f"np.nanquantile({x}, {share}, axis={axis}{method})", "ulp"),
        (f"np.percentile({x}, {percents}, axis={axis}{method})", "ulp"),
        (f"np.nanpercentile({x}, {percents}, axis={axis}{keepdims})", "ulp"),
        (f"np.searchsorted(np.sort({x}.ravel()), {x}, side={rng.choice(('left', 'right'))!r})", ""),
        (f"np.digitize({x}, np.array([-1.0, 0.5, 3.0]))", ""),
    ]
    if size > 4000:  # many quantiles at once are slow in NumPy
        choices = choices[:5]
    text, slack = rng.choice(choices)
    return text, (x,), slack


def complex_function(rng: random.Random, x: str, y: str) -> tuple[str, str]:
    """Return (expression, slack) of a function that takes complex numbers apart or puts them together."""
    return rng.choice((
        (f"np.real({x}) * 1", ""), (f"np.imag({x}) * 1", ""), (f"{x}.real + 0", ""), (f"{x}.imag + {y}", ""),
        (f"np.conj({x})", ""), (f"{x}.conj()", ""), (f"np.angle({x})", "ulp"), (f"{x} + 1j * {y}", "ulp"),
        (f"jf.make_complex({x}, {y})", ""), (f"np.iscomplex({x})", ""), (f"np.isreal({x})", ""),
        (f"jf.cummax({x}.ravel() * 1j, axis=0)", "zero"), (f"jf.cummin({x}.ravel() - 1j, axis=0)", "zero"),
        (f"np.argmax({x} * 1j, axis=-1)", ""), (f"np.abs({x}) * (1 - 2j)", "ulp"), (f"np.exp(1j * {x})", "ulp"),
        (f"({x} * np.conj({x})).real * 1", f"product {x} {x}"),
    ))


def small_function(rng: random.Random, x: str, y: str, value: Any) -> tuple[str, str]:
    """Return (expression, slack) of a function that few programs use, over two arrays of one shape."""
    rank = np.ndim(value)
    choices = [
        (f"np.bitwise_count({x})", ""), (f"np.positive({x})", ""), (f"jf.copy({x})", ""), (f"np.reciprocal({x})", ""),
        (f"np.square({x})", ""), (f"np.lcm({x}, {y})", ""), (f"np.gcd({x}, {y})", ""), (f"np.invert({x})", ""),
        (f"np.frexp({x})[{rng.randrange(2)}]", ""), (f"np.modf({x})[{rng.randrange(2)}]", ""),
        (f"({x} + 1 if jf.is_training() else {x} * 2)", ""), (f"jf.nn.dropout(np.abs({x}) * 0.5, 0.5)", ""),
        (f"{x} + (jf.random.uniform({np.shape(value)}) < 2)", ""), (f"np.ldexp({x}, {rng.randint(-5, 5)})", ""),
        (f"np.power({x}, np.abs(np.real({y})) % 4)", "ulp"), (f"np.add.outer({x}, {y}[..., :2])", ""),
        (f"np.copysign({x}, {y})", ""), (f"np.nextafter({x}, {y})", ""), (f"np.spacing({x})", ""),
        (f"np.atleast_1d({x})", ""), (f"np.atleast_3d({x})", ""), (f"np.append({x}, {y})", ""),
        (f"np.dstack([{x}, {y}])", ""), (f"jf.hypot({x}, 2)", "ulp"), (f"jf.relu({x})", "zero"),
        (f"np.meshgrid({x}, {y})[{rng.randrange(2)}]", ""), (f"np.diagflat({x})", ""),
        (f"np.count_nonzero({x}) * {y}", ""), (f"np.shape({x})[0] * {y} + np.size({x})", ""),
        (f"np.degrees({x})", "ulp"),
        (f"np.linalg.norm({x}.ravel())", "ulp"),
    ]
    if rank:
        axis = rng.randrange(-rank, rank)
        choices += [
            (f"jf.cummax({x}, axis={axis})", "zero"), (f"jf.cummin({x}, axis={axis})", "zero"),
            (f"np.unstack({x}, axis={axis})[0] * 1", ""), (f"np.nanargmin({x}, axis={axis})", ""),
            (f"np.nanargmax({x}, axis={axis})", ""), (f"np.nancumprod(np.sign({x}), axis={axis})", ""),
            (f"np.average({x}, axis={axis})", f"mean {x} {axis} False"), (f"np.rollaxis({x}, {axis}) * 1", ""),
            (f"np.trapezoid({x}, axis={axis})", f"sum {x} {axis} False"),
        ]
    if rank > 1:
        choices += [
            (f"np.fliplr({x})", ""), (f"np.flipud({x})", ""), (f"np.matrix_transpose({x})", ""),
            (f"np.trace(np.abs({x}))", "ulp"), (f"np.hsplit({x}, 1)[0]", ""), (f"np.linalg.diagonal({x}) * 1", ""),
        ]
    return rng.choice(choices)


def small_product(rng: random.Random, x: str, y: str, value: Any) -> tuple[str, str]:
    """Return (expression, slack) of a product of two arrays of one shape, of rank 1 or more."""
    rank = np.ndim(value)
    letters = "abcde"[:rank]
    along = f"einsum {letters},{letters}->{letters[:-1]} {x} {y}"
    whole = f"einsum {letters},{letters}-> {x} {y}"
    choices = [
        (f"np.linalg.vecdot({x}, {y})", along), (f"np.vdot({x}, {y})", whole),
        (f"np.tensordot({x}, {y}, {rank})", whole), (f"np.multiply({x}, {y}).sum()", whole),
        (f"np.einsum('...i,...i', {x}, {y})", along),
    ]
    if rank == 1:
        choices += [(f"np.kron({x}, {y}[:3])", ""), (f"np.outer({x}, {y}[:4])", "")]
    return rng.choice(choices)

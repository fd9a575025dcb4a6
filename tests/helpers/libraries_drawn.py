"""Texts of linear algebra, Fourier transforms and random numbers for random programs.

Owns the choice of functions. Matrices are made well conditioned, so that how far a result may be off is known.
"""
from __future__ import annotations

import random
from typing import Any

import numpy as np

TRANSFORMS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
TRANSFORMS_OF_AXES = ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn")


def linear_algebra(rng: random.Random, x: str, value: Any) -> tuple[str, str]:
    """Return (expression, slack) over matrices made of the array named x, of rank 2 or more and with elements."""
    k = rng.randint(1, min(4, *np.shape(value)[-2:]))
    matrix = f"((np.abs({x}[..., :{k}, :{k}]) < 1) * 0.5 + 9 * np.eye({k}))"
    if rng.random() < 0.3:
        matrix += ".astype('float32')"
    elif rng.random() < 0.3:
        matrix = f"({matrix} * (1 - 0.5j))"
    symmetric = f"({matrix} + np.conj(np.matrix_transpose({matrix})))"
    part = rng.randrange(3)
    return rng.choice((
        f"np.linalg.det({matrix})", f"np.linalg.inv({matrix})", f"np.linalg.cholesky({symmetric})",
        f"np.linalg.slogdet({matrix})[{part % 2}]", f"np.linalg.svd({matrix})[{part}]",
        f"np.linalg.svd({matrix}, compute_uv=False)", f"np.linalg.svdvals({matrix})",
        f"np.linalg.qr({matrix})[{part % 2}]", f"np.linalg.eigh({symmetric})[{part % 2}]",
        f"np.linalg.eigvalsh({symmetric})", f"np.linalg.eig({matrix} + 0j)[{part % 2}]",
        f"np.linalg.eigvals({matrix} + 0j)", f"np.linalg.solve({matrix}, {matrix}[..., :1])",
        f"np.linalg.pinv({matrix})", f"np.linalg.matrix_power({matrix}, 2)",
    )), "library"


def transform(rng: random.Random, x: str, value: Any) -> tuple[str, str]:
    """Return (expression, slack) of a Fourier transform of the array named x, of rank 1 or more and with elements."""
    rank = np.ndim(value)
    norm = rng.choice(("", ", norm='ortho'", ", norm='forward'"))
    if rank > 1 and rng.random() < 0.4:
        return f"np.fft.{rng.choice(TRANSFORMS_OF_AXES)}({x}{norm})", "library"
    points = rng.choice(("None", "None", "3", "8"))
    axis = rng.randrange(-rank, rank)
    return rng.choice((
        f"np.fft.{rng.choice(TRANSFORMS)}({x}, {points}, axis={axis}{norm})", f"np.fft.fftshift({x})",
    )), "library"


def random_numbers(rng: random.Random, x: str, value: Any) -> str:
    """Return an expression that draws from a generator of its own: numbers, or elements of the array named x."""
    size = rng.choice((str(np.shape(value)), "(2, 3)", "5", "None"))
    draw = rng.choice((
        f"random({size})", f"standard_normal({size}, dtype='float32')", f"normal(2, 0.5, {size})",
        f"uniform(-1, 1, size={size})", f"exponential(size={size})", f"integers(-3, 9, {size})",
        f"integers(0, 200, {size}, dtype='uint8')", f"poisson(4, {size})", f"permutation({x})", f"choice({x}, 4)",
    ))
    return f"np.random.default_rng({rng.randrange(1000)}).{draw}"

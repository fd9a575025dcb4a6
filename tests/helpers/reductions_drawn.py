"""Texts of reductions, scans and normalisations for random programs, each with how far it may be off.

Owns the choice of functions and options over one array. Sums and products are kept within ranges where another order
of the same terms cannot overflow or cancel into something else.
"""
from __future__ import annotations

import random
from typing import Any

import numpy as np

NAN_SUMS = ("nansum", "nanmean", "nanvar", "nanstd")


def reduced(rng: random.Random, x: str, value: Any, axis: str) -> tuple[str, str]:
    """Return (expression, slack) of a reduction of the array named x over axes."""
    keepdims = rng.random() < 0.5
    over = f"axis={axis}" + (", keepdims=True" if keepdims else "")
    exact_sums = np.asarray(value).dtype.kind in "iub"
    one = axis if axis.lstrip("-").isdigit() else "None"
    bounded = f"np.sign({x})" if np.iscomplexobj(value) else f"np.clip({x}, 0.97, 1.03)"
    options: list[tuple[str, str]] = [
        (f"np.argmin({x}, axis={one})", ""), (f"np.argmax({x}, axis={one}, keepdims={keepdims})", ""),
        (f"{x}.argmax()", ""), (f"np.count_nonzero({x}, {over})", ""), (f"np.ptp({x}, {over})", "zero"),
        (f"np.prod({x if exact_sums else bounded}, {over})", f"prod {x} {axis} {keepdims}"),
        (f"np.max({x}, {over}, initial=1, where={x} > 0)", "zero"), (f"np.min({x}, {over}, initial=-2)", "zero"),
        (f"np.sum({x}, {over}, where={x} > 0, initial=2)", "" if exact_sums else f"sum {x} {axis} {keepdims}"),
        (f"np.any({x}, {over}, where={x} < 1)", ""), (f"np.nanmin({x}, {over})", "zero"),
        (f"np.nanmax({x}, {over})", "zero"), (f"np.std({x}, {over}, ddof=1)", f"std {x} {axis} {keepdims}"),
        (f"jf.logsumexp({x}, {over})", f"sum {x} {axis} {keepdims}"),
        (f"np.add.reduce({x}, {over})", "" if exact_sums else f"sum {x} {axis} {keepdims}"),
        (f"np.maximum.reduce({x}, {over})", "zero"),
        (f"np.nanprod(np.sign({x}), {over})", f"nanprod {x} {axis} {keepdims}" if np.iscomplexobj(value) else "zero"),
    ]
    name = rng.choice(NAN_SUMS)
    slack = "" if exact_sums and name == "nansum" else f"{name} {x} {axis} {keepdims}"
    options.append((f"np.{name}({x}, {over})", slack))
    return rng.choice(options)


def scanned(rng: random.Random, x: str, value: Any) -> tuple[str, str]:
    """Return (expression, slack) of a scan, a difference or a normalisation of the array named x, of rank 1 or more."""
    shape = np.shape(value)
    axis = rng.randrange(-len(shape), len(shape))
    name = rng.choice(("add", "multiply", "maximum", "minimum"))
    bounded = f"np.clip({x}, -3, 3)"
    turned = f"np.sign({x})" if np.iscomplexobj(value) else x
    return rng.choice((
        (f"np.cumsum({x}, axis={axis})", ""), (f"{x}.cumsum()", ""), (f"np.cumprod({turned}, axis={axis})", ""),
        (f"np.{name}.accumulate({x}, axis={axis})", "zero" if name[0] == "m" else ""),
        (f"np.cumulative_sum({x}, axis={axis}, include_initial=True)", ""), (f"np.nancumsum({x}, axis={axis})", ""),
        (f"np.cumsum({x}[::-1], axis={axis})[..., ::-1]", ""), (f"np.diff({x}, axis={axis})", ""),
        (f"np.diff({x}, {rng.choice((0, 2, 3))}, axis={axis}, prepend=1)", ""), (f"np.ediff1d({x})", ""),
        (f"jf.nn.log_softmax({bounded}, {axis})", f"normalised {axis}"),
        (f"jf.nn.layer_norm({bounded}, axis={axis})", f"normalised {axis}"),
        (f"jf.nn.rms_norm({bounded}, axis={axis})", f"normalised {axis}"),
    ))

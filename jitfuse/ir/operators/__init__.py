"""The rows of the op table, in the order of the table; importing this package enters them all."""
from __future__ import annotations

from jitfuse.ir.operators import (
    arrangements,
    complex_numbers,
    contractions,
    control,
    creation,
    elementwise,
    fourier,
    indexing,
    linear_algebra,
    normalisations,
    ordering,
    random_and_mode,
    reductions,
    scans,
    special,
    views,
)

__all__ = [
    "arrangements",
    "complex_numbers",
    "contractions",
    "control",
    "creation",
    "elementwise",
    "fourier",
    "indexing",
    "linear_algebra",
    "normalisations",
    "ordering",
    "random_and_mode",
    "reductions",
    "scans",
    "special",
    "views",
]

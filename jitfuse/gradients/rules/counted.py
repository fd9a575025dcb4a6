"""Data-dependent shapes: indices are constant; the elements of sets have no rule."""
from __future__ import annotations

from jitfuse.gradients.rule import constant, without

constant("nonzero_counted", "repeat_counted")
without("take the elements at the indices that the function returns", "unique_padded", "intersect1d_padded",
        "union1d_padded", "setdiff1d_padded", "setxor1d_padded")

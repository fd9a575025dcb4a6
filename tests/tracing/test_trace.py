"""Memory that written arrays share, as NumPy compares each pair."""
from __future__ import annotations

import random

import numpy as np

from jitfuse.tracing.trace import overlap


def test_overlap_is_that_of_every_pair() -> None:
    draw, memory, found_any = random.Random(1), np.zeros(300), set()
    for _ in range(500):
        arrays = {}
        for key in range(draw.choice((1, 2, 6))):
            start, count, step = draw.randrange(0, 270), draw.choice((0, 1, 4, 10)), draw.choice((1, 3, -2))
            arrays[key] = memory[start : start + 30][::step][:count]
        written = {k for k in arrays if draw.random() < 0.5}
        pairs = {(a, b) for a in written for b in arrays if a != b and np.may_share_memory(arrays[a], arrays[b])}
        found = overlap(arrays, written)
        assert found in pairs if pairs else found is None
        found_any.add(found is None)
    assert found_any == {True, False}

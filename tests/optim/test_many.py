"""Optimisers over many arrays: as few launches as over few, and each array moves as it would alone."""
from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest

import jitfuse as jf

SIZES = (1, 5, 0, 1000, 64, 4097, 33, 20_000, 7, 7)


def made(kind: Any, dtypes: tuple[str, ...], **options: Any) -> tuple[Any, Any, Any, list[Any]]:
    """Return parameters, an optimiser, a step that applies gradients, and gradients."""
    rng = np.random.default_rng(0)
    kinds = [dtypes[k % len(dtypes)] for k in range(len(SIZES))]
    params = jf.nn.parameters([rng.normal(size=n).astype(t) for n, t in zip(SIZES, kinds, strict=True)])
    optimiser = kind(params, lr=0.1, **options)
    step = jf.fuse(lambda *g: optimiser.apply(list(g)), training=True)
    return params, optimiser, step, [rng.normal(size=n).astype(t) for n, t in zip(SIZES, kinds, strict=True)]


@pytest.mark.parametrize("dtypes", [("float64",), ("float64", "float32")], ids=str)
@pytest.mark.parametrize("options", [{}, {"clip_norm": 0.5}], ids=str)
@pytest.mark.parametrize("kind", [jf.optim.Adam, jf.optim.SGD], ids=lambda k: k.__name__)
def test_each_array_moves_as_by_hand(kind: Any, options: Any, dtypes: tuple[str, ...]) -> None:
    params, optimiser, step, gradients = made(kind, dtypes, **options)
    plain, by_hand = deepcopy((params, optimiser))
    loose = 1e-5 if "float32" in dtypes else 1e-12
    for k in range(4):
        if k % 2 and len(dtypes) == 1:
            gradients[-1] = gradients[-2]  # one array, two gradients
        step(*gradients, training=False)
        step(*gradients)
        by_hand.apply(gradients)
        assert optimiser.count.item() == k + 1
        for a, b in zip(params, plain, strict=True):
            np.testing.assert_allclose(a.array, b.array, rtol=loose, atol=loose)


@pytest.mark.parametrize(("dtypes", "options", "count"), [
    (("float32",), {}, 2), (("float64", "float32"), {}, 3), (("float32",), {"clip_norm": 0.5}, 5),
])
def test_launches(dtypes: tuple[str, ...], options: Any, count: int) -> None:
    _, _, step, gradients = made(jf.optim.Adam, dtypes, **options)
    step(*gradients)
    before = step.stats()["launches"]
    step(*gradients)
    assert step.stats()["launches"] - before <= count


def test_a_step_that_raises_moves_nothing() -> None:
    params, optimiser, _, gradients = made(jf.optim.Adam, ("float32",))
    picked = jf.fuse(lambda g, rows, at: (optimiser.apply(g), rows[at])[1], training=True)
    was = [p.array.copy() for p in params]
    for _ in range(2):
        with pytest.raises(IndexError):
            picked(gradients, np.arange(3.0), np.array([3]))
        for p, w in zip(params, was, strict=True):
            np.testing.assert_array_equal(p.array, w)
    assert picked(gradients, np.arange(3.0), np.array([2])) == 2
    assert all((p.array != w).any() for p, w in zip(params, was, strict=True) if w.size)

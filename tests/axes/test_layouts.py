"""The proof that a reshape is a view, beside NumPy's reshape that must not copy."""
from __future__ import annotations

import math
import random

import numpy as np
import pytest

from jitfuse.axes.layouts import Layout, reshaped


def factors(r: random.Random, count: int) -> tuple[int, ...]:
    """Return a random shape of so many elements, with axes of size 1."""
    shape = []
    while count > 1:
        n = r.choice([d for d in range(2, count + 1) if count % d == 0])
        shape.append(n)
        count //= n
    for _ in range(r.randint(0, 2)):
        shape.insert(r.randint(0, len(shape)), 1)
    return tuple(shape)


def array(r: random.Random) -> np.ndarray:
    """Return a view of some layout: transposed, with steps, backwards, repeated."""
    x = np.zeros([r.choice([1, 2, 2, 3, 4, 6]) for _ in range(r.randint(1, 4))])
    x = x.transpose(r.sample(range(x.ndim), x.ndim))
    if r.random() < 0.3:
        x = x[tuple(slice(None, None, r.choice([1, -1, 2])) for _ in x.shape)]
    return np.broadcast_to(x, (r.choice([2, 3]), *x.shape)) if r.random() < 0.2 else x


@pytest.mark.parametrize("seed", range(4))
def test_reshapes_are_views_where_numpy_makes_them(seed: int) -> None:
    r = random.Random(seed)
    views = 0
    for _ in range(500):
        x = array(r)
        shape = factors(r, x.size)
        try:
            view = x.reshape(shape, copy=False)
            want = {k: s // x.itemsize for k, (n, s) in enumerate(zip(shape, view.strides)) if n != 1}
            views += 1
        except ValueError:
            want = None
        found = reshaped(Layout(x.shape, tuple(s // x.itemsize for s in x.strides)), shape)
        got = None if found is None else {k: s for k, (n, s) in enumerate(zip(shape, found.strides)) if n != 1}
        assert got == want, (x.shape, x.strides, shape)
    assert 100 < views < 500


def test_nothing_is_any_view() -> None:
    found = reshaped(Layout((0, 3), (1, 7)), (5, 0))
    assert found is not None and math.prod(found.shape) == 0

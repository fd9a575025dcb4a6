"""Layouts, index maps and accesses against element-by-element arithmetic."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
from amount import drawn
from hypothesis import given, settings
from hypothesis import strategies as st

from jitfuse.plans.layout import (
    Access,
    Flat,
    Layout,
    Lin,
    access,
    contiguous,
    flatten_linear,
    of_cells,
    reshape_groups,
    strided,
)

extents = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)


@st.composite
def arrays(draw: Any) -> Any:
    """Return a float64 array of any layout: sliced with any steps, transposed, broadcast."""
    shape = draw(extents)
    steps = [draw(st.sampled_from([1, 1, 2, -1, -3])) for _ in shape]
    base = np.zeros(tuple(n * abs(k) for n, k in zip(shape, steps, strict=True)))
    view = base[tuple(slice(None, None, k) for k in steps)]
    view = view.transpose(draw(st.permutations(range(len(shape)))))
    repeated = [draw(st.booleans()) and draw(st.booleans()) for _ in shape]
    kept = view[tuple(slice(0, 1) if r else slice(None) for r in repeated)]
    return np.broadcast_to(kept, view.shape)


def layout_of(x: Any) -> Layout:
    return strided(x.shape, x.strides, x.itemsize)


@given(arrays())
def test_layouts_know_their_classes(x: Any) -> None:
    layout = layout_of(x)
    assert layout.contiguous == x.flags.c_contiguous
    for k, (n, stride, kind) in enumerate(zip(layout.shape, layout.strides, layout.classes, strict=True)):
        assert n == 1 or stride == x.strides[k]
        assert kind == "n" or stride == {"0": 0, "1": x.itemsize}[kind]
    for k, merges in enumerate(layout.merges):
        assert not merges or layout.strides[k] == layout.strides[k + 1] * layout.shape[k + 1]


@given(arrays(), st.data())
def test_cells_are_adjacent_elements(x: Any, data: Any) -> None:
    lead = data.draw(st.integers(0, x.ndim - 1))
    cells = of_cells(layout_of(x), lead) if lead else None
    if cells is None:
        assert not lead or not x.flags.c_contiguous
        return
    size = x.itemsize * math.prod(x.shape[lead:])
    assert cells.shape == x.shape[:lead] and x[(0,) * lead].flags.c_contiguous
    for n, stride, own, kind in zip(cells.shape, cells.strides, x.strides[:lead], cells.classes, strict=True):
        assert n == 1 or (stride == own and (kind == "n" or stride == {"0": 0, "1": size}[kind]))


@st.composite
def walks(draw: Any) -> tuple[Any, tuple[Any, ...], tuple[int, ...]]:
    """Return (array, index map, kernel extents): linear indices that stay inside the array."""
    x, sizes = draw(arrays()), draw(extents)
    index = []
    for n in x.shape:
        terms: dict[int, int] = {}
        reach = 0
        for a in draw(st.permutations(range(len(sizes)))):
            room = (n - 1 - reach) // max(sizes[a] - 1, 1)
            c = draw(st.integers(0, max(room, 0))) if sizes[a] > 1 else draw(st.integers(0, 2))
            if c and draw(st.booleans()):
                terms[a] = c
                reach += c * (sizes[a] - 1)
        index.append(Lin(draw(st.integers(0, n - 1 - reach)), tuple(sorted(terms.items()))))
    return x, tuple(index), sizes


def value_at(part: Lin, position: tuple[int, ...]) -> int:
    return part.const + sum(c * position[a] for a, c in part.terms)


def check_access(found: Access, sizes: tuple[int, ...], address: Any, itemsize: int) -> None:
    for position in np.ndindex(*sizes):
        assert found.offset + sum(s * p for s, p in zip(found.strides, position, strict=True)) == address(position)
    for stride, kind, n in zip(found.strides, found.classes, sizes, strict=True):
        assert kind == "n" or n == 1 or stride == {"0": 0, "1": itemsize}[kind]
    for a, merges in enumerate(found.merges):
        if merges and sizes[a] > 1 and sizes[a + 1] > 1:
            assert found.strides[a] == found.strides[a + 1] * sizes[a + 1]


@given(walks())
@settings(max_examples=drawn(300))
def test_accesses_walk_where_the_index_says(walk: tuple[Any, tuple[Any, ...], tuple[int, ...]]) -> None:
    x, index, sizes = walk
    layout = layout_of(x)

    def address(position: tuple[int, ...]) -> int:
        return sum(value_at(p, position) * s for p, s in zip(index, layout.strides, strict=True))

    check_access(access(layout, index, sizes, 8), sizes, address, 8)


@given(extents, extents)
def test_flat_positions(shape: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    index = tuple(Lin(0, ((k % len(sizes), 1),)) for k in range(len(shape)))
    lin = flatten_linear(shape, index)
    assert lin is not None
    weights = [math.prod(shape[k + 1 :]) for k in range(len(shape))]

    def address(position: tuple[int, ...]) -> int:
        return 8 * sum(w * value_at(p, position) for w, p in zip(weights, index, strict=True))

    check_access(access(contiguous(shape, 8), Flat(lin), sizes, 8), sizes, address, 8)


@given(extents, st.randoms(use_true_random=False))
def test_reshape_blocks_cover_both_shapes(old: tuple[int, ...], rng: Any) -> None:
    rest, new = math.prod(old), []
    while rest > 1:
        new.append(rng.choice([d for d in range(1, rest + 1) if rest % d == 0]))
        rest //= new[-1]
    new.insert(rng.randint(0, len(new)), 1)
    groups = reshape_groups(old, tuple(new))
    assert groups is not None
    assert [k for g in groups for k in g.old] == list(range(len(old)))
    assert [k for g in groups for k in g.new] == list(range(len(new)))
    for g in groups:
        assert math.prod(old[k] for k in g.old) == math.prod(new[k] for k in g.new)


def test_reshape_blocks_are_small() -> None:
    assert reshape_groups((2, 3, 4), (6, 4)) == [((0, 1), (0,)), ((2,), (1,))]
    assert reshape_groups((6, 4), (2, 3, 4)) == [((0,), (0, 1)), ((1,), (2,))]
    assert reshape_groups((1, 5), (1, 1, 5)) == [((), (0,)), ((0,), (1,)), ((1,), (2,))]
    assert reshape_groups((5,), (5, 1)) == [((0,), (0,)), ((), (1,))]
    assert reshape_groups((0, 3), (3, 0)) is None

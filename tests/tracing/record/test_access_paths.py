"""Views of views, written and read through different spellings of the same places, against NumPy."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jitfuse as jf
from jitfuse.tracing.record.access_paths import Paths

ROWS, COLUMNS = 5, 6


def _spellings(start: int, stop: int, extent: int) -> list[slice]:
    """Return slices that mean the same elements in the same order."""
    first, last = start - extent, stop - extent
    return [slice(start, stop), slice(first, last or None), slice(start, stop, 1), slice(np.int64(start), stop)]


@st.composite
def _indices(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    items: list[Any] = []
    for extent in shape[: draw(st.integers(0, len(shape)))]:
        kind = draw(st.sampled_from(["int", "region", "backwards", "steps", "all", "none left"]))
        start = draw(st.integers(0, max(extent - 1, 0)))
        if kind == "int" and extent:
            items.append(draw(st.sampled_from([start, start - extent, np.int64(start)])))
        elif kind == "region":
            items.append(draw(st.sampled_from(_spellings(start, draw(st.integers(start, extent)), extent))))
        elif kind == "backwards":
            items.append(slice(None, None, -1))
        elif kind == "steps":
            items.append(slice(start, None, 2))
        elif kind == "none left":
            items.append(slice(start, start))
        else:
            items.append(slice(None))
    return tuple(items) if len(items) != 1 or draw(st.booleans()) else items[0]


@st.composite
def _programs(draw: st.DrawFn) -> list[tuple[str, int, Any]]:
    """Draw steps: a view of an earlier view, or a write into one; each view's shape is that of the array it is of."""
    views = [np.zeros((ROWS, COLUMNS))]
    program: list[tuple[str, int, Any]] = []
    for _ in range(draw(st.integers(1, 9))):
        number = draw(st.integers(0, len(views) - 1))
        of = views[number]
        kind = draw(st.sampled_from(["view", "write", "write", "add", "transpose", "flat"]))
        if kind in ("view", "write", "add"):
            index = draw(_indices(of.shape))
            if kind == "view" and not isinstance(of[index], np.ndarray):
                kind = "write"
            program.append((kind, number, index))
        else:
            program.append((kind, number, None))
        if kind in ("view", "transpose", "flat"):
            views.append(_view(of, kind, program[-1][2]))
    return program


def _view(x: Any, kind: str, index: Any) -> Any:
    return x[index] if kind == "view" else x.T if kind == "transpose" else x.reshape(-1)


def _run(program: list[tuple[str, int, Any]], x: Any, y: Any) -> Any:
    views = [x]
    for k, (kind, number, index) in enumerate(program):
        of = views[number]
        if kind == "write":
            of[index] = y[0, 0] * (k + 2)
        elif kind == "add":
            of[index] += y[0, 1] + k
        else:
            views.append(_view(of, kind, index))
    return [view + 0 for view in views]


@given(program=_programs())
def test_views_written_through_different_spellings_are_numpys(program: list[tuple[str, int, Any]]) -> None:
    x, y = np.arange(float(ROWS * COLUMNS)).reshape(ROWS, COLUMNS), np.full((2, 2), 0.5)
    mine = x.copy()
    want = _run(program, x, y)
    fused = jf.fuse(lambda x, y: _run(program, x, y))
    got = fused(mine, y)
    assert fused.stats()["fallbacks"] == 0
    np.testing.assert_array_equal(mine, x)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g, w)
        assert g.shape == w.shape


@pytest.mark.parametrize("further", ["slice", "reshape", "transpose"])
def test_equal_views_are_one_object_and_different_ones_are_not(further: str) -> None:
    paths = Paths()

    def made(axes: tuple[int, int] = (1, 0), start: int = 1) -> Any:
        region = paths.sliced(None, (4, 6), (start, 0), (1, 1), (2, 6))
        if further == "slice":
            return paths.sliced(region, (2, 6), (0, 2), (1, 2), (2, 2))
        if further == "reshape":
            return paths.reshaped(paths.reshaped(region, (2, 6), (3, 4)), (3, 4), (12,))
        return paths.further(region, (2, 6), "transpose", {"axes": axes}, (6, 2))

    assert made() is made() and made() is not made(start=2)
    if further == "slice":  # a region of a region is a region
        assert made() is paths.sliced(None, (4, 6), (1, 2), (1, 2), (2, 2))

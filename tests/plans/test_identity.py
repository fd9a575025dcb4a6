"""Kernel forms hold classes of shapes, never shapes: one set of kernels for every shape of a class.

The published classes: a reduction of two to four elements per grid point is unrolled, and one with few grid
points over many elements is split. Lanes two to four elements apart have kernels of their own. So do many rows of few
elements, by their number. Columns and rows, arrays with an axis of extent 1, may be walked along their other axis.
"""
from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitfuse as jf
from jitfuse.ir.kernels.form import MAX_CELL, MAX_STATIC_EXTENT
from jitfuse.ir.kernels.sum_tree import CHUNK
from jitfuse.plans import ProgramPlan
from jitfuse.plans.cells import LEAST_CELLS
from jitfuse.plans.group import SPLIT_GRID
from jitfuse.tracing.schedule.scheduler import size_class as schedule_class

Shape = tuple[int, ...]


def wave(x: Any, b: Any) -> Any:
    return np.sin(x) * x + b


def layer_norm(x: Any, g: Any) -> Any:
    return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5) * g


def softmax(x: Any, g: Any) -> Any:
    return jf.softmax(x, axis=-1) * g


def columns(x: Any, g: Any) -> Any:
    return x.sum(axis=0), (x * x).max(axis=0) + g


def both(x: Any, g: Any) -> Any:
    return x / x.sum(axis=0) + x.mean(axis=1, keepdims=True)


def turned(x: Any, g: Any) -> Any:
    return x.T + g[:, None], x.T.copy()


def windows(x: Any, g: Any) -> Any:
    return x[1:] - x[:-1], x[::-1, ::-1] * 2


def joined(x: Any, g: Any) -> Any:
    return np.concatenate([x, x * 2], axis=1), np.stack([x, x + g])


def flat(x: Any, g: Any) -> Any:
    return x.reshape(-1) * 2, x.reshape(-1, 1) + 1


def centred(x: Any, g: Any) -> Any:
    return x - x.sum(axis=1)[:, None], (x.max(axis=1, keepdims=True) * 2).reshape(-1)


def updated(x: Any, g: Any) -> Any:
    y = np.zeros_like(x)
    y[1:, :-1] = x[:-1, 1:] + 1
    return y


def total(x: Any, g: Any) -> Any:
    return x.sum(), (x * g).max()


def multiplied(x: Any, g: Any) -> Any:
    return np.exp((x * 2) @ (x.T + 1)).sum(axis=1)


def siblings(x: Any, g: Any) -> Any:
    return [np.sort(x * k) + g for k in (2, 3, 4)]


WITH_EMPTY_REGIONS = (windows, updated)
IN_PIECES = (joined, updated)


def reduced_axes(function: Callable[..., Any]) -> tuple[tuple[int, ...], ...]:
    return {
        layer_norm: ((1,),), softmax: ((1,),), columns: ((0,),), both: ((0,), (1,)), centred: ((1,),),
        total: ((0, 1),), multiplied: ((0,),),
    }.get(function, ())


def size_class(function: Callable[..., Any], shape: Shape) -> tuple[Any, ...]:
    """Return the published class: its schedule's, each reduction's (unrolled, split), the few elements that rows of
    two to four are apart, the elements of cells, the axes of extent 1.
    """
    result: list[Any] = [schedule_class(2, 8 * math.prod(shape))]
    for axes in reduced_axes(function):
        grid = math.prod(n for k, n in enumerate(shape) if k not in axes)
        inner = math.prod(shape[k] for k in axes)
        unrolled = len(axes) < len(shape) and 2 <= inner <= MAX_STATIC_EXTENT
        result.append((unrolled, grid < SPLIT_GRID and inner >= 2 * CHUNK))
    few = tuple(n if n in range(2, MAX_STATIC_EXTENT + 1) else 0 for n in shape)
    return (*result, few, cells(function, shape), tuple(n == 1 for n in shape))


def cells(function: Callable[..., Any], shape: Shape) -> tuple[Any, ...]:
    """Return the elements of rows and of columns that are few, and whether there are enough of them for cells.

    The functions make values of as many of them, of one less, and of twice as many.
    """
    most = MAX_CELL if function in IN_PIECES else MAX_STATIC_EXTENT
    return tuple(
        (length, count - 1 >= LEAST_CELLS, count >= LEAST_CELLS, 2 * count >= LEAST_CELLS)
        for count, length in (shape, shape[::-1]) if 0 < length <= most
    )


def shapes(seed: int, count: int) -> list[Shape]:
    """Return shapes, small ones first, after one that leaves no region of any function empty."""
    rng = random.Random(seed)
    found = [(7, 9), *((n, m) for n in (1, 2, 3, 4, 5, 40) for m in (1, 2, 3, 4, 5, 40) if n * m > 1)]
    while len(found) < count:
        n, m = (rng.choice((1, 2, 3, rng.randint(5, 500))) for _ in range(2))
        if n * m > 1:  # which axis of extent 1 is which, nothing in an array of one element can tell
            found.append((n, m))
    return found


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "C": lambda x: x,
    "F": lambda x: x.copy("F"),
    "reversed": lambda x: x[::-1],
    "strided": lambda x: np.repeat(np.repeat(x, 2, 0), 2, 1)[::2, ::2],
}


@pytest.mark.parametrize("function", [
    wave, layer_norm, softmax, columns, both, centred, turned, windows, joined, flat, updated, total, multiplied,
    siblings,
])
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_one_set_of_kernels_per_size_class(
    function: Callable[..., Any], layout: str, plan_of: Callable[..., ProgramPlan]
) -> None:
    found: dict[Any, tuple[Shape, list[str], str]] = {}
    for shape in shapes(1, 100 if layout == "C" else 60):
        if 1 in shape and (layout != "C" or function in WITH_EMPTY_REGIONS):
            continue  # in row-major order too; nothing to do
        x, g = LAYOUTS[layout](np.ones(shape)), np.ones(shape[1])
        plan = plan_of(function, x, g).best()
        forms = sorted({launch.form.content_hash for launch in plan.launches})
        text = "\n".join(str(launch.form) for launch in plan.launches)
        # who contracts is chosen over size classes
        key = ("library" in plan.kind, *size_class(function, shape))
        first = found.setdefault(key, (shape, forms, text))
        assert first[1] == forms, f"{shape} has other kernels than {first[0]}:\n{text}\nthan\n{first[2]}"
    for schedule in {key[:2] for key in found}:
        alike = [key for key in found if key[:2] == schedule and not any(key[-2])]
        plain = [key for key in alike if all(c == (False, False) for c in key[2:-2])]
        assert len({tuple(found[key][1]) for key in plain}) <= 3


def test_columns_and_rows_run_along_their_long_axis(plan_of: Callable[..., ProgramPlan]) -> None:
    for function, args in (
        (lambda x: x[:, None] + 1, [np.ones(50)]),
        (lambda x, y: x[:, None] + y, [np.ones(50), np.ones((50, 1))]),
        (lambda x, y: x + y, [np.ones((50, 1)), np.ones((1, 1))]),
        (lambda x: x.reshape(-1) * 2, [np.ones((50, 1))]),
    ):
        (launch,) = plan_of(function, *args).best().launches
        assert launch.sizes[launch.form.lane_axis] == 50
        large = [o for o in launch.form.operands if o.strides[launch.form.lane_axis] != "0"]
        assert all(o.strides[launch.form.lane_axis] == "1" for o in large)

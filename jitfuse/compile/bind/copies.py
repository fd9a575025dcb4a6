"""Bind copies between windows of different layouts.

Does not own which windows are copied (`jitfuse.compile.bind.control_ops`, `jitfuse.graph_breaks.table`).
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitfuse.compile.bind.steps import Location, StepBinder
from jitfuse.compile.call_plans.call_plan import Window
from jitfuse.dtypes import itemsize


def window_bytes(window: Window) -> int:
    """Return the size of a window's elements in bytes."""
    return itemsize(window.dtype) * math.prod(window.shape)


def copy_window(binder: StepBinder, location: Location, window: Window, source: Location, site: int) -> None:
    """Copy a window that begins at `source` into C order at a location; `site` is the step that errors name."""
    if window.contiguous:
        binder.builder.copy(location, source, window_bytes(window))
        return
    transfer_window(binder, window.replace(contiguous=True), location, window, source, site)


def transfer_window(
    binder: StepBinder, target: Window, location: Location, window: Window, source: Location, site: int
) -> None:
    """Copy a window to another of the same shape."""
    run, innermost = itemsize(window.dtype), True
    axes: list[tuple[int, int, int]] = []
    strides = [in_order(w.shape, run) if w.contiguous else w.strides for w in (target, window)]
    for n, to, from_ in reversed(list(zip(window.shape, *strides, strict=True))):
        innermost = innermost and (n == 1 or to == from_ == run)
        if innermost:
            run *= n
        elif n != 1:
            axes.insert(0, (n, to, from_))
    if not run or any(not n for n, _, _ in axes):
        return
    if len(axes) <= 2:
        binder.builder.copy_strided(location, source, run, axes)
    else:
        sides = [binder.array(target, location, True), binder.array(window, source)]
        binder.builder.host(_assign, sides, site=site)


def _assign(target: np.ndarray[Any, Any], source: np.ndarray[Any, Any]) -> None:
    target[...] = source


def in_order(shape: Sequence[int], expected: int) -> tuple[int, ...]:
    """Return the strides of C order."""
    strides: list[int] = []
    for extent in reversed(shape):
        strides.insert(0, expected)
        expected *= extent
    return tuple(strides)

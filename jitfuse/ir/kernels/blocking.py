"""Cut the index space of a contraction into blocks: one unit of the kernel computes one block.

Owns the two axes of a block, and the numbers of blocks. They depend on sizes alone, and no bit of the result depends on
them. Does not own the blocking inside a unit, which is the backend's.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from jitfuse.dtypes import itemsize
from jitfuse.ir.kernels.form import KernelForm

BLOCK_ROWS: Final = 252
BLOCK_LANE_BYTES: Final = 2048
SWEPT_BYTES: Final = 1 << 19
"""Bytes of a block that is kept while later stages sweep whole rows: it stays in a private cache."""
COLUMN_LANES: Final = 64
"""Lanes of a block of whole columns."""
_SMALLEST_ROWS: Final = 28
_SMALLEST_LANES: Final = 64
_SMALLEST_SWEPT: Final = 8


def row_axis(form: KernelForm) -> int:
    """Return the axis of the result along which lanes do not run: the last grid axis, or the inner one."""
    last = len(form.grid) - 1
    return last if form.lane_axis > last else last + 1


def sweeps(form: KernelForm) -> bool:
    """Return whether later stages need all inner points of a grid point at once."""
    return form.lane_axis < len(form.grid) or any(s.reductions or s.kind == "point" for s in form.stages)


def block_counts(form: KernelForm, sizes: Sequence[int]) -> tuple[int, int]:
    """Return the number of blocks along the rows and along the lanes of a contraction over these extents.

    For a chain, the extents of its first form decide.
    """
    contraction = form.contraction
    assert contraction is not None
    size, sizes = itemsize(contraction.dtype), sizes[: len(form.axes)]
    rows, lanes = sizes[row_axis(form)], sizes[form.lane_axis]
    if form.lane_axis < len(form.grid):
        return 1, max(1, -(-lanes // COLUMN_LANES))
    batch = max(1, math.prod(sizes[: len(form.grid) - 1]))
    if sweeps(form) or form.then is not None:
        block = min(BLOCK_ROWS, max(_SMALLEST_ROWS // 2, SWEPT_BYTES // (size * max(lanes, 1))))
        several = min(-(-_wanted(math.prod(sizes)) // batch), rows // _SMALLEST_SWEPT)
        return max(1, -(-rows // block), several), 1
    return _balanced(batch, rows, lanes, math.prod(sizes), size)


def chained(form: KernelForm, sizes: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the extents of both forms of a chain, which a launch holds one after the other."""
    return tuple(sizes[: len(form.axes)]), tuple(sizes[len(form.axes) :])


def link_row_bytes(form: KernelForm, sizes: Sequence[int]) -> int:
    """Return the bytes from one row to the next of a chain's intermediate value: whole cache lines."""
    return -(-sizes[form.lane_axis] * itemsize(form.operands[form.link[0]].dtype) // 64) * 64


def link_bytes(form: KernelForm, sizes: Sequence[int]) -> int:
    """Return the bytes of one block of a chain's intermediate value; blocks are whole tiles, of at most 14 rows."""
    row_blocks, _ = block_counts(form, sizes)
    return (-(-sizes[row_axis(form)] // row_blocks) + 13) * link_row_bytes(form, sizes) + 64


def _wanted(products: int) -> int:
    """Return how many blocks keep several threads busy, from a million products on."""
    return 1 << min(3, max(0, products.bit_length() - 18) // 3)


def _balanced(batch: int, rows: int, lanes: int, products: int, size: int) -> tuple[int, int]:
    """Return block counts that fit the caches, and keep several threads busy."""
    row_blocks = max(1, -(-rows * size // (4 * BLOCK_ROWS)))
    lane_blocks = max(1, -(-lanes * size // BLOCK_LANE_BYTES))
    wanted = _wanted(products)
    while batch * row_blocks * lane_blocks < wanted:
        tall = rows // row_blocks >= lanes // lane_blocks // 2
        if tall and rows // row_blocks >= 2 * _SMALLEST_ROWS:
            row_blocks += row_blocks
        elif lanes // lane_blocks >= 2 * _SMALLEST_LANES:
            lane_blocks += lane_blocks
        elif rows // row_blocks >= 2 * _SMALLEST_ROWS:
            row_blocks += row_blocks
        else:
            break
    return row_blocks, lane_blocks

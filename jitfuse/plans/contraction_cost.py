"""Estimate the cost of contractions in own kernels and in libraries, to choose between them.

Estimates are over size classes: extents are rounded up to powers of two, so that one choice holds for every shape of a
class. The figures are of one ordinary core with vectors of 64 bytes; only their ratios matter. Owns these figures. Does
not own the choice (`jitfuse.plans.plan`).
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from jitfuse.dtypes import itemsize
from jitfuse.ir.kernels.blocking import row_axis
from jitfuse.ir.kernels.form import KernelForm

THREADS: Final = 2
"""Threads that a launch or a large library call uses."""
PRODUCT_BYTES_PER_NS: Final = 480
"""Bytes of one operand multiplied and summed per nanosecond: 120 products of float32, 60 of float64."""
TILE_ROWS: Final = 4
TILE_LANE_BYTES: Final = 64
"""Rows and lanes are rounded up to this many bytes."""
IN_PLACE_ROWS: Final = 130
"""Up to this many rows in a block, a right operand that is adjacent along the lanes is not packed."""
PACK_ELEMENTS_PER_NS: Final = 16
CALL_NS: Final = 1_000
"""Overhead of a library call, which goes through Python and makes arrays."""
LIBRARY_BYTES_PER_NS: Final = 64
"""Rate for a matrix that a library multiplies by one row or column, without packing."""
LIBRARY_PACKED_BYTES_PER_NS: Final = 20
"""Rate for operands that a library packs for other products."""
LIBRARY_THREADED: Final = 1 << 20
"""From this many products on, a library uses threads."""
_LIBRARY_PRODUCTS_PER_NS: Final = {"float32": 120, "float64": 55, "complex64": 30, "complex128": 15}
_SLOW_PRODUCTS_PER_NS: Final = 1
"""Rate of NumPy's loops for dtypes that BLAS does not support."""


def size_class(n: int) -> int:
    """Return n rounded up to a power of two."""
    return 1 << max(n - 1, 0).bit_length() if n > 0 else 0


def contraction_ns(form: KernelForm, sizes: Sequence[int], counts: tuple[int, int]) -> int:
    """Return the estimated nanoseconds of the sums of products of a kernel, packing included.

    `counts`: the numbers of its blocks along rows and along lanes.
    """
    contraction = form.contraction
    assert contraction is not None
    size = itemsize(contraction.dtype)
    rows, lanes, depth = sizes[row_axis(form)], sizes[form.lane_axis], sizes[-1]
    batch = math.prod(sizes) // max(1, rows * lanes * depth)
    row_blocks, lane_blocks = counts
    whole_rows = -(-rows // TILE_ROWS) * TILE_ROWS
    whole_bytes = -(-lanes * size // TILE_LANE_BYTES) * TILE_LANE_BYTES
    products = whole_rows * whole_bytes * depth // PRODUCT_BYTES_PER_NS
    packed = rows * lane_blocks * depth // PACK_ELEMENTS_PER_NS
    if rows > IN_PLACE_ROWS * row_blocks or not _lies_in_rows(form):
        packed += lanes * row_blocks * depth // PACK_ELEMENTS_PER_NS
    return batch * (products + packed)


def _lies_in_rows(form: KernelForm) -> bool:
    """Return whether the right operand is read without packing, adjacent along the lanes."""
    contraction = form.contraction
    assert contraction is not None
    made = form.stages[0].body[contraction.right]
    if made.op != "load":
        return False
    operand, *unusual = made.imm
    return form.operands[operand].strides[form.lane_axis] == "1" and not any(unusual)


def library_ns(dtype: str, batch: int, rows: int, lanes: int, depth: int, *, symmetric: bool = False) -> int:
    """Return the estimated nanoseconds of a library's product of matrices of these extents.

    `symmetric`: the product of a matrix with its own transpose; the library forms half of it and packs one operand.
    """
    batch, rows, lanes, depth = map(size_class, (batch, rows, lanes, depth))
    rate = _LIBRARY_PRODUCTS_PER_NS.get(dtype, _SLOW_PRODUCTS_PER_NS)
    if rows * lanes * depth >= LIBRARY_THREADED and rate > _SLOW_PRODUCTS_PER_NS:
        rate *= THREADS
    read = (rows * depth + depth * lanes) * itemsize(dtype)
    if symmetric:
        rate, read = 2 * rate, read // 2
    once = read // (LIBRARY_BYTES_PER_NS if min(rows, lanes) <= 1 else LIBRARY_PACKED_BYTES_PER_NS)
    return CALL_NS + batch * (200 + rows * lanes * depth // rate + once)

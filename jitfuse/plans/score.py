"""What a plan costs: an integer estimate of time, then the seed's integers, compared lexicographically.

The estimate is a roofline: per launch the larger of bytes over bandwidth and operations over peak, plus a
fixed cost. Plans are not compared over their own shapes but over the reference shape of their size class, so
that the choice is the same for every shape of a class. There are two classes: rows that are kept in scratch fit
the second-level cache, or they do not. Figures are of one ordinary CPU core; only their ratios matter.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from jitfuse.dtypes import itemsize
from jitfuse.ir.kernel import KernelForm
from jitfuse.plans.launch import Launch, bytes_moved
from jitfuse.plans.nodes import operation_cost

LAUNCH_NS: Final = 200
MEMORY_BYTES_PER_NS: Final = 32
CACHE_BYTES_PER_NS: Final = 128
ROW_CACHE_BYTES: Final = 1 << 18
"""Scratch rows up to this size stay in the second-level cache of every supported CPU."""
OPERATIONS_PER_NS: Final = 32
REFERENCE_BITS: Final = 20
"""Reference shapes have 2**20 elements."""


class Score(NamedTuple):
    """Lower is better, field by field."""

    time_ns: int
    peak_bytes: int
    materialised: int
    allocations: int
    kernels: int
    steps: int


def size_class(n: int) -> int:
    """Return n rounded up to a power of two."""
    return 1 << max(n - 1, 0).bit_length() if n > 0 else 0


def launch_ns(form: KernelForm, sizes: Sequence[int]) -> int:
    """Return the estimated nanoseconds of one launch on one core."""
    points = math.prod(sizes[: len(form.grid)])
    inner = math.prod(sizes[len(form.grid) :])
    rows = inner * sum(itemsize(d) for d in form.keeps)
    rate = CACHE_BYTES_PER_NS if rows <= ROW_CACHE_BYTES else MEMORY_BYTES_PER_NS
    memory = bytes_moved(form, sizes) // MEMORY_BYTES_PER_NS
    operations = points * inner * _inner_operations(form) // OPERATIONS_PER_NS
    return LAUNCH_NS + max(memory, operations) + 2 * points * rows // rate


def reference_sizes(launch: Launch, kept_bytes: int) -> tuple[int, ...]:
    """Return the extents over which plans are compared; `kept_bytes` is the most that a plan keeps per element."""
    grid = len(launch.form.grid)
    inner = math.prod(launch.sizes[grid:])
    bits = 0 if grid == len(launch.sizes) else 10 if inner * kept_bytes <= ROW_CACHE_BYTES else 18
    return (*_shared(REFERENCE_BITS - bits, grid), *_shared(bits, len(launch.sizes) - grid))


def _shared(bits: int, axes: int) -> list[int]:
    """Return powers of two, as equal as can be, whose product is 2**bits (nothing for no axes)."""
    return [1 << (bits * (k + 1) // axes - bits * k // axes) for k in range(axes)]


def _inner_operations(form: KernelForm) -> int:
    return sum(operation_cost(i.op) for stage in form.stages for i in stage.body)


def score(launches: Sequence[Launch], hosts: int, arena_bytes: int, temporaries: Sequence[int]) -> Score:
    """Return the score of a plan from its launches, library calls and temporaries (bytes each)."""
    return Score(
        sum(launch_ns(launch.form, launch.sizes) for launch in launches), size_class(arena_bytes),
        size_class(sum(temporaries)), len(temporaries), len(launches) + hosts,
        sum(len(s.body) for launch in launches for s in launch.form.stages),
    )


def reference_ns(launches: Sequence[Launch], kept_bytes: int) -> int:
    """Return the estimated nanoseconds of a plan over the reference shapes of its launches."""
    return sum(launch_ns(launch.form, reference_sizes(launch, kept_bytes)) for launch in launches)


def kept_bytes(launches: Sequence[Launch]) -> int:
    """Return the most bytes per element that a launch keeps in scratch rows."""
    return max((sum(itemsize(d) for d in launch.form.keeps) for launch in launches), default=0)

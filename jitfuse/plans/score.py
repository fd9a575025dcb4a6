"""What a plan costs: an integer estimate of time, then the seed's integers, compared lexicographically.

The estimate is a roofline: per launch the larger of bytes over bandwidth and operations over peak, plus a
fixed cost. Bytes and operations are rounded up to powers of two first (the published size classes), so that
the choice is the same for every shape of a class. Figures are of one ordinary CPU core; only their ratios
matter.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from jitfuse.dtypes import itemsize
from jitfuse.ir.kernel import KernelForm
from jitfuse.plans.form import Launch
from jitfuse.plans.nodes import operation_cost

LAUNCH_NS: Final = 200
MEMORY_BYTES_PER_NS: Final = 32
CACHE_BYTES_PER_NS: Final = 128
ROW_CACHE_BYTES: Final = 1 << 18
"""Scratch rows up to this size stay in the second-level cache of every supported CPU."""
OPERATIONS_PER_NS: Final = 32


class Score(NamedTuple):
    """Lower is better, field by field."""

    time_ns: int
    peak_bytes: int
    materialised: int
    allocations: int
    kernels: int
    steps: int


def size_class(n: int) -> int:
    """Return n rounded up to a power of two: the published size class."""
    return 1 << max(n - 1, 0).bit_length() if n > 0 else 0


def launch_ns(launch: Launch) -> int:
    """Return the estimated nanoseconds of one launch on one core."""
    points = math.prod(launch.sizes[: len(launch.form.grid)])
    inner = math.prod(launch.sizes[len(launch.form.grid) :])
    operations = size_class(points * inner) * _inner_operations(launch.form)
    rows = size_class(inner) * sum(itemsize(d) for d in launch.form.keeps)
    rate = CACHE_BYTES_PER_NS if rows <= ROW_CACHE_BYTES else MEMORY_BYTES_PER_NS
    scratch = 2 * size_class(points) * rows // rate
    memory = size_class(launch.bytes_moved) // MEMORY_BYTES_PER_NS
    return LAUNCH_NS + max(memory, operations // OPERATIONS_PER_NS) + scratch


def _inner_operations(form: KernelForm) -> int:
    return sum(operation_cost(i.op) for stage in form.stages for i in stage.body)


def score(launches: Sequence[Launch], hosts: int, arena_bytes: int, temporaries: Sequence[int]) -> Score:
    """Return the score of a plan from its launches, library calls and temporaries (bytes each)."""
    return Score(
        sum(map(launch_ns, launches)), size_class(arena_bytes), size_class(sum(temporaries)), len(temporaries),
        len(launches) + hosts, sum(len(s.body) for launch in launches for s in launch.form.stages),
    )

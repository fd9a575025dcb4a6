"""Estimate what a plan costs: time first, then further integers, compared lexicographically.

The estimate is a roofline. Per launch it is the larger of bytes over bandwidth and operations over peak, on the thread
with the most work, plus a fixed cost. Plans are not compared over their own shapes but over the reference shape of
their size class, so that the choice is the same for every shape of a class. The figures are of one ordinary CPU with
two threads; only their ratios matter.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from jitfuse.base.records import NamedTuple
from jitfuse.dtypes import itemsize
from jitfuse.ir.kernels.blocking import block_counts, chained
from jitfuse.ir.kernels.form import MAX_STATIC_EXTENT, KernelForm
from jitfuse.ir.kernels.stages import Stage
from jitfuse.ir.kernels.sum_tree import CHUNK
from jitfuse.plans.contraction_cost import THREADS, contraction_ns, size_class
from jitfuse.plans.launch import Launch, bytes_moved
from jitfuse.plans.nodes import operation_cost

LAUNCH_NS: Final = 200
MEMORY_BYTES_PER_NS: Final = 16
COLUMN_BYTES_PER_NS: Final = 12
LAST_CACHE_BYTES_PER_NS: Final = 32
CACHE_BYTES_PER_NS: Final = 64
OPERATION_BYTES_PER_NS: Final = 192
"""Rates of one thread; up to `THREADS` of them share the work of a launch."""
ROW_CACHE_BYTES: Final = 1 << 18
LAST_CACHE_BYTES: Final = 1 << 22
"""Up to this size, memory that is swept again (scratch rows included) stays in cache on every supported CPU: in the
second level, or in a thread's share of the last one."""
NARROW: Final = 32
"""Rows up to this length are a class of their own: what comes once a row counts there."""
FEW: Final = 8
"""Fewer long rows than this are a class of their own."""
LANES: Final = 16
BLOCK_LANES: Final = 64
"""Lanes of a vector, and columns that a kernel sweeps at once."""
BLOCK_NS: Final = 16
"""What a block of columns takes besides its elements: measured over two columns and two rows."""
STRIDED_COST: Final = 16
"""Extra operations of a load or store of one element if the lanes' elements are not adjacent."""
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


@lru_cache(maxsize=64)
def launch_ns(form: KernelForm, sizes: tuple[int, ...], *, streams: bool = False) -> int:
    """Return the estimated nanoseconds of one launch.

    The slowest thread has its share of the grid points: few points leave threads idle. Memory that moves along the
    inner axes is swept once for each stage that reads it: from cache if a grid point's part fits. All memory of a
    launch lies in a cache that holds it, unless it `streams`.
    """
    if form.then is not None:
        return _chain_ns(form, sizes)
    space = _LaunchSpace(form, sizes)
    if form.contracted:
        return LAUNCH_NS + round(_contraction_ns(space, block_counts(form, sizes)) * space.share)
    moved = bytes_moved(form, sizes)
    memory = moved / (space.rate if streams else _rate(moved, space.rate)) + _further_sweeps(space)
    operations = _operations_ns(space) + BLOCK_NS * space.blocks
    rows = space.inner * sum(itemsize(d) for d in form.keeps)
    kept = 2 * space.points * rows / _rate(rows, MEMORY_BYTES_PER_NS)
    return LAUNCH_NS + round((max(memory, operations) + kept) * space.share)


def _contraction_ns(space: _LaunchSpace, counts: tuple[int, int]) -> float:
    """Return the nanoseconds of a contraction and of the stages that process its sums in cache."""
    form, sizes = space.form, space.sizes
    operations = _operations_ns(space)
    moved = bytes_moved(form, sizes)
    return contraction_ns(form, sizes, counts) + operations + moved / _rate(moved, MEMORY_BYTES_PER_NS)


def _chain_ns(form: KernelForm, sizes: Sequence[int]) -> int:
    """Return the nanoseconds of a chain; the value between its forms moves in cache."""
    assert form.then is not None
    firsts, seconds = chained(form, sizes)
    counts = block_counts(form, firsts)
    total, share = 0.0, 1.0
    for part, extents, linked in ((form.then, seconds, form.link[1]), (form.replace(then=None), firsts, form.link[0])):
        nowhere = part.operands[linked]._replace(strides=("0",) * len(part.axes))
        operands = (*part.operands[:linked], nowhere, *part.operands[linked + 1 :])
        space = _LaunchSpace(part.replace(operands=operands), extents)
        total += _contraction_ns(space, counts)
        units = space.batch * counts[0]
        share = -(-units // THREADS) / max(units, 1)
    return LAUNCH_NS + round(total * share)


class _LaunchSpace:
    """The features of a launch's index space that time depends on."""

    def __init__(self, form: KernelForm, sizes: Sequence[int]) -> None:
        self.form = form
        self.sizes = sizes
        rank = len(form.grid)
        chunks = sizes[rank - 1] if any(r.phase == "partial" for s in form.stages for r in s.reductions) else 1
        self.inner = math.prod(sizes[rank : rank + len(form.inner)])
        self.points = math.prod(sizes[:rank]) // max(chunks, 1)
        lanes = max(sizes[form.lane_axis], 1)
        self.columns = bool(form.inner) and form.lane_axis < rank
        padding = -(-lanes // LANES) * LANES / lanes
        self.padded = self.points * self.inner * padding
        self.once = self.points * (padding if self.columns or not form.inner else LANES)
        units = self.points * chunks if form.inner else -(-self.points // 4096)
        self.block = BLOCK_LANES if self.columns else 1
        self.blocks = self.points // lanes * -(-lanes // BLOCK_LANES) if self.columns else 0
        self.rate = COLUMN_BYTES_PER_NS if self.columns else MEMORY_BYTES_PER_NS
        self.batch = max(1, math.prod(sizes[: rank - 1]))
        units = self.batch * math.prod(block_counts(form, sizes)) if form.contracted else -(-units // self.block)
        self.share = -(-units // THREADS) / max(units, 1)
        self.sweeps = [_swept_operands(form, stage) for stage in form.stages] if form.inner else []


def _swept_operands(form: KernelForm, stage: Stage) -> set[int]:
    """Return the operands that a stage reads or writes along the inner axes."""
    rank = len(form.grid)
    touched = {i.imm[0] for i in stage.body if i.op in ("load", "store")}
    return {o for o in touched if any(c != "0" for c in form.operands[o].strides[rank:])}


def _further_sweeps(space: _LaunchSpace) -> float:
    """Return the nanoseconds of sweeping again over memory that an earlier stage has swept."""
    seen: set[int] = set()
    again = 0
    for swept in space.sweeps:
        again += sum(itemsize(space.form.operands[o].dtype) for o in swept & seen)
        seen |= swept
    part = space.inner * space.block * sum(itemsize(space.form.operands[o].dtype) for o in seen)
    return space.points * space.inner * again / _rate(part, space.rate)


def _rate(swept: int, memory: int) -> int:
    """Return the bytes per nanosecond of sweeping again; `memory` is the rate if no cache holds `swept` bytes."""
    if swept <= ROW_CACHE_BYTES:
        return CACHE_BYTES_PER_NS
    return LAST_CACHE_BYTES_PER_NS if swept <= LAST_CACHE_BYTES else memory


def _operations_ns(space: _LaunchSpace) -> float:
    """Return the nanoseconds of all operations. What comes once for a row of lanes takes the time of a whole vector."""
    form = space.form
    return sum((space.once if stage.kind == "point" else space.padded) * _operation_bytes(form, stage)
               for stage in form.stages) / OPERATION_BYTES_PER_NS


def _operation_bytes(form: KernelForm, stage: Stage) -> int:
    """Return the bytes of results that a stage's operations make per element, with the cost of gathered lanes.

    Computing a contraction's sides costs little beside its products.
    """
    total = 0
    if stage.contraction is not None:
        return total
    inner_axes = range(len(form.grid), len(form.axes))
    for i in stage.body:
        cost = operation_cost(i.op)
        if i.op in ("load", "store"):
            operand = form.operands[i.imm[0]]
            distance = operand.element_distance(form.lane_axis)
            if form.inner and all(operand.strides[a] == "0" for a in (form.lane_axis, *inner_axes)):
                cost = 0
            else:
                cost += STRIDED_COST if distance is None else max(distance - 1, 0)
        total += cost * itemsize(i.dtype)
    return total


def reference_sizes(launch: Launch, largest: int) -> tuple[int, ...]:
    """Return the extents over which plans are compared: the representative of the launch's class.

    `largest` is the size of the program's largest value; it is scaled to 2**20 elements. Rows are tiny, narrow, short
    (a kernel can keep them in cache) or long; few long rows are one or four. Tiny rows do not count as elements, so
    that their reduction has as many points here as the kernels that read it. A value of a half to a quarter of the
    largest value's elements counts as the result of a tiny reduction. Far smaller maps, tiny reductions among them, are
    a class of their own. So are lanes along few columns.
    """
    form = launch.form
    grid = len(form.grid)
    chunked = any(r.phase == "partial" for s in form.stages for r in s.reductions)
    final = any(r.phase == "final" for s in form.stages for r in s.reductions)
    points, inner = math.prod(launch.sizes[: grid - chunked]), math.prod(launch.sizes[grid:])
    tiny = inner <= MAX_STATIC_EXTENT
    ratio = largest // max(points * (1 if tiny else inner), 1)
    fewer = 0 if ratio <= 1 else 2 if ratio <= MAX_STATIC_EXTENT else 10 if tiny else 0
    if grid == len(launch.sizes):
        return _shared(REFERENCE_BITS - fewer, grid)
    few = final or (inner >= 2 * CHUNK and points < FEW)
    if few:
        rows = 1 if points <= THREADS else 4
        lead: tuple[int, ...] = (rows, *(1,) * (grid - chunked - 1))[: grid - chunked]
        row = (4,) if final else (*(1,) * (len(launch.sizes) - grid - 1), (1 << REFERENCE_BITS) // rows)
    else:
        bits = 2 if tiny else 18 if inner >= 2 * CHUNK else 4 if inner <= NARROW else 10
        rest = REFERENCE_BITS - fewer - (0 if tiny else bits)
        lead, row = _shared(max(rest, 0), grid - chunked), _shared(bits, len(launch.sizes) - grid)
        if form.lane_axis < len(lead) > 1 and launch.sizes[form.lane_axis] < LANES:
            few_lanes = size_class(launch.sizes[form.lane_axis])
            others = list(_shared(max(rest, 0) - few_lanes.bit_length() + 1, len(lead) - 1))
            lead = (*others[: form.lane_axis], few_lanes, *others[form.lane_axis :])
    return (*lead, *((4,) if chunked else ()), *row)


def _shared(bits: int, axes: int) -> tuple[int, ...]:
    """Return powers of two, as equal as possible, whose product is 2**bits (nothing for no axes)."""
    return tuple(1 << (bits * (k + 1) // axes - bits * k // axes) for k in range(axes))


def class_ns(launches: Sequence[Launch], libraries: Sequence[int]) -> int:
    """Return the estimated nanoseconds of a plan over its size classes: every extent rounded up to a power of two.

    `libraries`: the nanoseconds of each library call.
    """
    return sum(libraries) + sum(
        launch_ns(launch.form, tuple(map(size_class, launch.sizes))) for launch in launches
    )


def _time_ns(launches: Sequence[Launch], libraries: Sequence[int]) -> int:
    if libraries or any(launch.form.contracted for launch in launches):
        return class_ns(launches, libraries)
    return sum(launch_ns(launch.form, launch.sizes) for launch in launches)


def score(
    launches: Sequence[Launch], libraries: Sequence[int], arena_bytes: int, temporaries: Sequence[int]
) -> Score:
    """Return the score of a plan from its launches, library calls (nanoseconds each) and temporaries (bytes each)."""
    return Score(
        _time_ns(launches, libraries), size_class(arena_bytes),
        size_class(sum(temporaries)), len(temporaries), len(launches) + len(libraries),
        sum(len(s.body) for launch in launches for s in launch.form.stages),
    )


def reference_ns(launches: Sequence[Launch], largest: int) -> int:
    """Return the estimated nanoseconds of a plan over the reference shapes of its launches."""
    return sum(launch_ns(launch.form, reference_sizes(launch, largest), streams=True) for launch in launches)

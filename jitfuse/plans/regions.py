"""Regions of arrays: what slices read and updates write. Owns nothing else."""
from __future__ import annotations

import math

from jitfuse.ir.program import OpStep

Region = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Starts, steps and counts along the axes."""


def region_of(step: OpStep) -> Region:
    """Return the region that a slice reads or an update writes."""
    (_, counts), (_, starts), (_, steps) = step.attrs  # in alphabetical order
    return starts, steps, counts  # type: ignore[return-value]


def whole(shape: tuple[int, ...]) -> Region:
    """Return the region that is all of an array."""
    return (0,) * len(shape), (1,) * len(shape), shape


def within(outer: Region, inner: Region) -> Region:
    """Return a region of a region."""
    starts = tuple(a + b * s for a, b, s in zip(outer[0], inner[0], outer[1], strict=True))
    return starts, tuple(s * t for s, t in zip(outer[1], inner[1], strict=True)), inner[2]


def are_disjoint(a: Region, b: Region) -> bool:
    """Return whether two regions of one array are known to have no element in common."""
    return any(_are_disjoint(x, y) for x, y in zip(zip(*a, strict=True), zip(*b, strict=True), strict=True))


def _are_disjoint(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Return whether two (start, step, count) along one axis are known to have no position in common."""
    if not a[2] or not b[2]:
        return True
    ends = [sorted((start, start + step * (count - 1))) for start, step, count in (a, b)]
    if ends[0][1] < ends[1][0] or ends[1][1] < ends[0][0]:
        return True
    common = math.gcd(a[1], b[1])
    return common > 1 and (a[0] - b[0]) % common != 0

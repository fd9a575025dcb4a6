"""One sum of products of two tensors as a record for native code: which loops it has, and in which order.

Source of the idea, loops over merged axes with one that is a vector: Matthews, "High-performance tensor contraction
without transposition", 2018. Does not own the record's words (`words.py`).
"""
from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Final, TypeVar

import numpy as np

from jitfuse.base.records import NamedTuple
from jitfuse.ir.semirings import words as r

_T = TypeVar("_T")
LANES: Final = 4
"""Numbers of a vector, for the choice of loops: the same on every machine."""
CHUNK: Final = 512
"""Elements of the inner axis that stay in the nearest cache while loops over axes that they lack go on."""
STRIDED_CHUNK: Final = 64
"""The same where each of them may have a cache line of its own."""
THREADED: Final = 1 << 17
"""Products from which on units are handed out to threads."""
MOST_OFFSETS: Final = 1 << 12
FEW_OFFSETS: Final = 8
"""Summed indices besides the inner axis that one record lists, if they are those of several axes: few where tensors are
large and rows short. Rows for different indices lie far apart, by powers of two with binary variables, so that of many
the nearest cache keeps none until the next unit comes, which has their neighbours.
"""
IN_CACHE: Final = 1 << 14
"""Products up to which that does not matter."""
FEWER: Final = 8
"""How many times as many elements the larger tensor has, at least, as what is then summed between: that is written and
read.
"""
_UNIT_NS, _SUM_NS, _TERM_NS, _VECTOR_NS, _ELEMENT_NS, _FAR_NS = 2.0, 6.0, 0.7, 0.25, 0.6, 3.0
"""What a unit takes, its one number where the inner axis is summed, a summed index besides, a vector, an element of its
own, and one that is far from the next.
"""
_FAR: Final = 512
"""A stride from which on elements are far apart: those of one chunk compete for few places of the cache."""


class Operand(NamedTuple):
    """A tensor: the number of its memory, its first element, and for each axis its stride; 0 where it has none."""

    memory: int
    first: int
    strides: tuple[int, ...]


class Axis(NamedTuple):
    """A loop: its extent, and the strides of the result, a and b; the result's is 0 where it is summed."""

    extent: int
    out: int
    a: int
    b: int


def sum_of_products(
    out: Operand, a: Operand, b: Operand, extents: Sequence[int], new: Callable[[int], tuple[int, int]]
) -> list[np.ndarray]:
    """Return the records of a sum of products: several where some axes had better be summed first.

    Args:
        out: where the result goes; its axes are in order of descending strides. Those with stride 0 are summed.
        a, b: what is multiplied.
        extents: that of each axis.
        new: returns the memory and the first of so many elements, for what is summed between.
    """
    record = record_of(out, a, b, extents)
    if record is not None:
        return [record]
    first = _first([i for i, (n, stride) in enumerate(zip(extents, out.strides)) if n != 1 and not stride])
    left = [i for i in range(len(extents)) if i not in first]
    size, strides = 1, [0] * len(extents)
    for i in reversed(left):
        strides[i], size = size, size * extents[i]
    between = Operand(*new(size), tuple(strides))
    sums, rows = (Operand(x.memory, x.first, tuple([x.strides[i] for i in left])) for x in (out, between))
    return [*sum_of_products(between, a, b, extents, new),
            *sum_of_products(sums, rows, Operand(r.ONE, 0, (0,) * len(left)), [extents[i] for i in left], new)]


def record_of(out: Operand, a: Operand, b: Operand, extents: Sequence[int]) -> np.ndarray | None:
    """Return a sum of products as one record; None where some of several summed axes had better be summed first."""
    pattern = _pattern(tuple(extents), out.strides, a.strides, b.strides)
    if pattern is None:
        return None
    record = pattern.record.copy()
    first, second = (b, a) if pattern.swapped else (a, b)
    record[r.OUT : r.B + 2] = out.memory, out.first, first.memory, first.first, second.memory, second.first
    return record


class _Pattern(NamedTuple):
    """A record without places, and whether a and b changed theirs."""

    record: np.ndarray
    swapped: bool


@lru_cache(2048)
def _pattern(
    extents: tuple[int, ...], out: tuple[int, ...], a: tuple[int, ...], b: tuple[int, ...]
) -> _Pattern | None:
    axes = [Axis(*each) for each in zip(extents, out, a, b) if each[0] != 1]
    most = _most_offsets(axes)
    kept = _merged([x for x in axes if x.out])
    summed = _merged(sorted((x for x in axes if not x.out), key=lambda x: (-max(x.a, x.b), -min(x.a, x.b))))
    inner, kind, swap = _inner(kept, summed)
    if swap:
        kept, summed, inner = ([_swapped(x) for x in kept], [_swapped(x) for x in summed], _swapped(inner))
    units = [x for x in kept if x != inner]
    offsets = [x for x in summed if x != inner]
    count = prod(x.extent for x in offsets)
    is_short = kind == r.STRIDED or inner.extent < CHUNK
    if count > (most if is_short else max(most, MOST_OFFSETS)):
        return None
    chunk = CHUNK if kind != r.STRIDED else STRIDED_CHUNK
    if inner.out and inner.extent > chunk and inner.extent % chunk == 0:
        units.append(Axis(inner.extent // chunk, *(s * chunk for s in inner[1:])))
        inner = inner._replace(extent=chunk)
    units.sort(key=lambda x: (x.a == 0, -x.a))  # a is read in order; its chunk stays in the cache for axes of b alone
    number = prod(x.extent for x in units)
    threads = int(number * inner.extent * count >= THREADED and number > 1)
    head = [0, kind, threads, number, 0, 0, 0, 0, 0, 0, *inner, count, len(units)]
    return _Pattern(_record(head, units, np.stack([offsets_of(offsets, 2), offsets_of(offsets, 3)], axis=-1)), swap)


def _most_offsets(axes: Sequence[Axis]) -> int:
    """Return how many offsets short rows may have: few, if what is then summed between is much smaller than a or b."""
    summed = [x.extent for x in axes if not x.out]
    if len(summed) < 2:
        return sys.maxsize
    products = prod(x.extent for x in axes)
    between = products // prod(_first(summed))
    largest = max(prod(x.extent for x in axes if x.a), prod(x.extent for x in axes if x.b))
    return FEW_OFFSETS if products > IN_CACHE and between * FEWER <= largest else MOST_OFFSETS


def _first(summed: list[_T]) -> list[_T]:
    """Return those of the summed axes that are summed first, where not all are at once: what is left are rows."""
    return summed[: len(summed) // 2]


def extremes(out: Operand, largest: Operand, smallest: Operand, count: int, batch: int) -> np.ndarray:
    """Return the record that finds the scale of a tensor, each of a batch, from `count` numbers for either extreme."""
    places = [*out[:2], *largest[:2], *smallest[:2]]
    return _record([0, r.EXTREMES, 0, 1, *places, batch, 1, 1, 1, count, 0], (), np.zeros((0, 2), np.int64))


def extremes_of_parts(out: Operand, a: Operand, parts: int, count: int, batch: int) -> np.ndarray:
    """Return the record that finds the extremes of parts of a tensor, of `count` elements each."""
    places = [*out[:2], *a[:2], *a[:2]]
    axes = [Axis(parts, batch, count * batch, count * batch)]
    return _record([0, r.PARTS, 1, parts, *places, batch, 1, 1, 1, count, 1], axes, np.zeros((0, 2), np.int64))


def branches(lengths: Sequence[Sequence[int]]) -> np.ndarray:
    """Return the record that runs the records behind it as branches: `lengths` are the words of those of each."""
    words = [sum(each) for each in lengths]
    starts = [sum(words[:k]) for k in range(len(words))]
    pairs = [word for start, each in zip(starts, lengths) for word in (start, len(each))]
    record = np.array([0, r.BRANCHES, 1, len(words), sum(words), *pairs], np.int64)
    record[r.LENGTH] = len(record)
    return record


def _record(head: list[int], units: Sequence[Axis], offsets: np.ndarray) -> np.ndarray:
    words = np.array([*head, *(word for axis in units for word in axis)], np.int64)
    record = np.concatenate([words, offsets.reshape(-1)])
    record[r.LENGTH] = len(record)
    return record


def _merged(axes: Sequence[Axis]) -> list[Axis]:
    """Return axes with neighbours as one where every tensor has them as one."""
    merged: list[Axis] = []
    for axis in axes:
        if merged and all(outer == inner * axis.extent for outer, inner in zip(merged[-1][1:], axis[1:])):
            merged[-1] = axis._replace(extent=merged[-1].extent * axis.extent)
        else:
            merged.append(axis)
    return merged


def _swapped(axis: Axis) -> Axis:
    return Axis(axis.extent, axis.out, axis.b, axis.a)


def _inner(kept: Sequence[Axis], summed: Sequence[Axis]) -> tuple[Axis, int, bool]:
    """Return the inner axis that takes the least time, its kind, and whether a and b change places."""
    units, terms = prod(x.extent for x in kept), prod(x.extent for x in summed)
    best = (units * (_UNIT_NS + terms * (_TERM_NS + _ELEMENT_NS)), Axis(1, 1, 1, 0), r.STRIDED, False)
    for axis in (*kept, *summed):
        strides = axis.a, axis.b
        swap = strides == (0, 1)
        is_row = strides in ((1, 0), (0, 1), (1, 1))
        row = _TERM_NS + -(-axis.extent // LANES) * _VECTOR_NS
        if axis.out == 1 and is_row:
            kind = r.PAIRS if strides == (1, 1) else r.SPLAT
            cost = units // axis.extent * (_UNIT_NS + terms * row)
        elif axis.out:
            kind, swap = r.STRIDED, not axis.a
            element = _FAR_NS if max(axis[1:]) >= _FAR else _ELEMENT_NS
            cost = units // axis.extent * (_UNIT_NS + terms * (_TERM_NS + axis.extent * element))
        elif is_row:
            kind = r.SUM_PAIRS if strides == (1, 1) else r.SUM_SPLAT
            cost = units * (_UNIT_NS + _SUM_NS + terms // axis.extent * row)
        else:
            continue
        best = min(best, (cost, axis, kind, swap))
    return best[1:]


def offsets_of(axes: Sequence[Axis], tensor: int) -> np.ndarray:
    """Return the offset of each summed index in a tensor, the last axis fastest."""
    offsets = np.zeros(1, np.int64)
    for axis in axes:
        offsets = (offsets[:, None] + np.arange(axis.extent, dtype=np.int64) * axis[tensor]).reshape(-1)
    return offsets

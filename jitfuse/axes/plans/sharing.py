"""Products that are one: of parts on the right that differ in a summand of one sum alone, such as several projections.

`contract((ax[n, d], ax[d, q + k]), (ax[n, q], ax[n, k]))` is a product for each part of the second array, or one with
all of it, which is cut behind. Owns when that is so. Does not own which of them is better: the score tells.
"""
from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from jitfuse.axes.parts import Dim, Keys, Part, Split
from jitfuse.axes.plans.draft import size_key
from jitfuse.axes.routing import Sources
from jitfuse.base.records import NamedTuple


class Shared(NamedTuple):
    """One product for several parts on the right.

    `array` is a left array, whose axes are `dims` with a sum as one axis `key`; of its parts it is the one of number
    `part`, and the operand `place` of the product. The other operands are those of `sources`.
    """

    rights: tuple[int, ...]
    """The parts on the right, in the order of the sum."""
    sources: Sources
    place: int
    array: int
    dims: tuple[Dim, ...]
    part: int
    key: str
    summands: tuple[Keys, ...]
    """The axes that the sum has for each of the parts."""


def shared_products(
    arrays: Sequence[tuple[Dim, ...]], lefts: Sequence[Part], rights: Sequence[Part], sources: Sequence[Sources]
) -> list[Shared]:
    """Return products that several parts on the right can share; each part is in one of them at most."""
    found: list[Shared] = []
    taken: set[int] = set()
    first = 0
    for array, dims in enumerate(arrays):
        for d, k, before, behind in _sums(dims):
            split = dims[d][k]
            assert isinstance(split, Split)
            summands = tuple(tuple(map(size_key, alternative)) for alternative in split.alternatives)
            key = size_key(split)
            keyed = (*dims[:d], (*dims[d][:k], key, *dims[d][k + 1 :]), *dims[d + 1 :])
            for part in range(before * behind):
                start = first + part // behind * len(summands) * behind + part % behind
                numbers = range(start, start + len(summands) * behind, behind)
                users = _users(numbers, summands, lefts, rights, sources)
                if users is not None and taken.isdisjoint(users):
                    taken.update(users)
                    own = sources[users[0]]
                    found.append(Shared(users, own, own.index(start), array, keyed, part, key, summands))
        first += math.prod(_count(dim) for dim in dims)
    return found


def _sums(dims: Sequence[Dim]) -> Iterator[tuple[int, int, int, int]]:
    """Yield the sums of an array that have no sums inside: axis, factor, and how many choices the others have."""
    items = [(d, k, item) for d, dim in enumerate(dims) for k, item in enumerate(dim) if isinstance(item, Split)]
    counts = [_count((item,)) for _, _, item in items]
    for n, (d, k, item) in enumerate(items):
        if counts[n] == len(item.alternatives):
            yield d, k, math.prod(counts[:n]), math.prod(counts[n + 1 :])


def _count(dim: Dim) -> int:
    """Return the number of parts that an axis has."""
    return math.prod(sum(map(_count, item.alternatives)) for item in dim if isinstance(item, Split))


def _users(
    numbers: Sequence[int], summands: Sequence[Keys], lefts: Sequence[Part], rights: Sequence[Part],
    sources: Sequence[Sources],
) -> tuple[int, ...] | None:
    """Return the parts that are made of these parts of an array, one of each, if they can share a product.

    They can if they have the same other operands, all axes of their summand, and otherwise the same axes of operands.
    """
    users = [n for number in numbers for n, own in enumerate(sources) if number in own]
    if len(users) != len(numbers) or len(set(users)) != len(users):
        return None
    alike = set()
    for number, keys, user in zip(numbers, summands, users):
        own = sources[user]
        others = [lefts[k].axes for k in own if k != number]
        written = [key for axis in lefts[number].dims for key in axis]
        inside, rest = frozenset(keys), frozenset(written).union(*others) - frozenset(keys)
        if not others or len(others) != len(own) - 1 or not inside <= rights[user].axes or any(
                written.count(key) != 1 for key in keys) or not inside.isdisjoint(frozenset().union(*others)):
            return None
        alike.add((own.index(number), tuple(k for k in own if k != number), rights[user].axes & rest))
    return tuple(users) if len(alike) == 1 else None

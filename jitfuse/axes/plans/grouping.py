"""Groups of axes: keys that stay neighbours through all of a plan's steps are one axis of its arrays."""
from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from jitfuse.axes.parts import Keys
from jitfuse.axes.plans.steps import Dims


def runs(order: Sequence[str], follows: Mapping[str, str]) -> list[Keys]:
    """Return keys in runs of those that follow one another."""
    found: list[list[str]] = []
    for key in order:
        if found and follows.get(found[-1][-1]) == key:
            found[-1].append(key)
        else:
            found.append([key])
    return list(map(tuple, found))


def ordered(groups: Dims, wanted: Sequence[str]) -> Dims:
    """Return the groups that are wanted, in the wanted order."""
    place = {key: k for k, key in enumerate(wanted)}
    return tuple(sorted((group for group in groups if group and group[0] in place), key=lambda group: place[group[0]]))


def with_new(groups: Dims, wanted: Sequence[str]) -> Dims:
    """Return the groups with keys that none of them has, in the wanted order."""
    have = {key for group in groups for key in group}
    return ordered((*groups, *((key,) for key in wanted if key not in have)), wanted)


def fitting(groups: Dims, target: Dims) -> Dims:
    """Return groups cut where the axes of an array begin, so that each lies within one."""
    ends = set(itertools.accumulate(map(len, target)))
    found, at = [], 0
    for group in groups:
        cuts = [k for k in range(1, len(group)) if at + k in ends]
        found += [group[a:b] for a, b in itertools.pairwise((0, *cuts, len(group)))]
        at += len(group)
    return tuple(found)


def together(groups: Dims, wanted: Sequence[str]) -> Dims:
    """Return the groups that are runs of the wanted order, and the keys of the others on their own."""
    place = {key: k for k, key in enumerate(wanted)}
    found: list[Keys] = []
    for group in groups:
        is_run = group and group == tuple(wanted[place[group[0]] :][: len(group)])
        found += [group] if is_run else [(key,) for key in group]
    return tuple(found)

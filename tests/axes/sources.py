"""The judge of rule 4: which parts on the left each part on the right is made of."""
from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

Keys = tuple[int, frozenset[Any]]
"""A part: which array it is of, and its axes."""
Made = list[tuple[int, ...]]


class RefusedError(Exception):
    """The page demands an error of this code; "axes" is an axis lost or added, or a part that nothing gives."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class UnclearError(Exception):
    """The page does not decide."""


def sources(kind: str, left: list[Keys], right: list[Keys]) -> Made:
    """Return for each part on the right the numbers of parts on the left that it is made of."""
    if kind in ("view", "rearrange"):
        made = _same(left, right)
    elif kind in ("repeat", "reduce"):
        made = _one(left, right, _most_inside if kind == "repeat" else _least_outside)
    elif kind == "contract" or len(right) == 1:
        made = _products(left, right, new=kind == "einop")
    else:
        made = _smallest(left, right)
    if {at for of in made for at in of} != set(range(len(left))):
        raise RefusedError("unused_part")
    for of, (_, wanted) in zip(made, right):
        if len(of) > 1 and any(map(_is_number, wanted.union(*(left[at][1] for at in of)))):
            raise RefusedError("number_in_product")
    return made


def _is_number(key: Any) -> bool:
    return isinstance(key[0], str) and key[0].isdigit()


def _same(left: list[Keys], right: list[Keys]) -> Made:
    taken: set[int] = set()
    made: Made = []
    for _, wanted in right:
        same = [at for at, (_, keys) in enumerate(left) if keys == wanted]
        if not same:
            raise RefusedError("axes")
        free = [at for at in same if at not in taken]
        if not free:
            raise UnclearError("taken more often than it is there")
        taken.add(free[0])
        made.append((free[0],))
    return made


def _untaken(left: list[Keys], wanted: frozenset[Any], made: Made) -> int | None:
    taken = {at for of in made for at in of}
    return next((at for at, (_, keys) in enumerate(left) if keys == wanted and at not in taken), None)


def _only(best: list[Any]) -> Any:
    """Return the only one of equals."""
    if not best:
        raise RefusedError("axes")
    if len(best) > 1:
        raise RefusedError("ambiguous_parts")
    return best[0]


def _most_inside(left: list[Keys], wanted: frozenset[Any]) -> int:
    inside = {at: len(keys) for at, (_, keys) in enumerate(left) if keys <= wanted}
    return int(_only([at for at, count in inside.items() if count == max(inside.values())]))


def _least_outside(left: list[Keys], wanted: frozenset[Any]) -> int:
    outside = {at: len(keys) for at, (_, keys) in enumerate(left) if keys >= wanted}
    return int(_only([at for at, count in outside.items() if count == min(outside.values())]))


def _one(left: list[Keys], right: list[Keys], choose: Callable[[list[Keys], frozenset[Any]], int]) -> Made:
    made: Made = []
    for _, wanted in right:
        same = _untaken(left, wanted, made)
        made.append((choose(left, wanted) if same is None else same,))
    return made


def _foreign(keys: frozenset[Any], at: int, right: list[Keys]) -> bool:
    others = frozenset[Any]().union(*(other for i, (_, other) in enumerate(right) if i != at))
    if any(_is_number(key) for key in (keys - right[at][1]) & others):
        raise UnclearError("a number that is foreign")
    return bool((keys - right[at][1]) & others)


def _products(left: list[Keys], right: list[Keys], new: bool) -> Made:
    arrays = [[at for at, (array, _) in enumerate(left) if array == number] for number in sorted({a for a, _ in left})]
    made: Made = []
    for at, (_, wanted) in enumerate(right):
        of = []
        for array in arrays:
            if len(array) > 1:
                known = {i: len(left[i][1] & wanted) for i in array if not _foreign(left[i][1], at, right)}
                array = [_only([i for i, count in known.items() if count == max(known.values())])]
            of.append(array[0])
        if not new and not wanted <= frozenset().union(*(left[i][1] for i in of)):
            raise RefusedError("axes")
        made.append(tuple(of))
    return made


def _smallest(left: list[Keys], right: list[Keys]) -> Made:
    made: Made = []
    for at, (_, wanted) in enumerate(right):
        same = _untaken(left, wanted, made)
        if same is not None:
            made.append((same,))
            continue
        fine = [i for i, (_, keys) in enumerate(left) if not _foreign(keys, at, right)]
        needed = wanted & frozenset().union(*(left[i][1] for i in fine))
        for count in range(1, len(fine) + 1):
            best = [
                of for of in itertools.combinations(fine, count)
                if needed <= frozenset().union(*(left[i][1] for i in of)) and len({left[i][0] for i in of}) == count
            ]
            if best:
                made.append(tuple(_only(best)))
                break
        else:
            raise RefusedError("axes")
    return made

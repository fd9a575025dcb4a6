"""Which parts on the left each part on the right is made of: the rules of docs/named-axes.md, one function each."""
from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from jitfuse.axes.faults import Fault, Place
from jitfuse.axes.parts import Part

Sources = tuple[int, ...]
"""Numbers of parts on the left that are multiplied."""
LOSES = frozenset({"reduce", "contract", "einop"})
"""Operations whose right side may lack axes of the left."""
GAINS = frozenset({"repeat", "einop"})
"""Operations whose right side may have axes that the left lacks."""


def sources(operation: str, lefts: Sequence[Part], rights: Sequence[Part]) -> list[Sources]:
    """Return the sources of each part on the right.

    Raises:
        Fault: axes are lost or come from nowhere, a choice is not unique, or a part on the left is not used.
    """
    _check_axes(operation, lefts, rights)
    if len(lefts) == len(rights) == 1:
        return [(0,)]
    found = _RULES[operation](lefts, rights)
    used = set(itertools.chain(*found))
    for k, left in enumerate(lefts):
        if k not in used:
            raise Fault("unused_part", f"nothing on the right is made of {describe(left)}", help=(
                "Give it a place on the right, or leave it out by slicing the array first."
            ), place=Place("left", left.array))
    return found


def describe(part: Part) -> str:
    """Return a part in words."""
    axes = ", ".join(dict.fromkeys(_written(key) for keys in part.dims for key in keys)) or "no axes"
    return f"the part with {axes} of array {part.array + 1}"


def _check_axes(operation: str, lefts: Sequence[Part], rights: Sequence[Part]) -> None:
    """Check that axes neither vanish nor come from nowhere: also sizes without a name, and sums that count as one."""
    left: frozenset[str] = frozenset().union(*(p.axes for p in lefts))
    right: frozenset[str] = frozenset().union(*(p.axes for p in rights))
    if operation not in GAINS and (new := sorted(right - left)):
        raise Fault("added_axis", f"{_written(new[0])} is on the right alone", place=_place("right", rights, new[0]),
                    help="repeat and einop make new axes; the others use those of the left.")
    if operation not in LOSES and (gone := sorted(left - right)):
        raise Fault("lost_axis", f"{_written(gone[0])} is on the left alone", place=_place("left", lefts, gone[0]),
                    help="reduce, contract and einop take axes away; the others keep them all.")


def _place(side: str, parts: Sequence[Part], key: str) -> Place:
    """Return the first term that a key stands in: packs count as one axis here, so that axes are terms."""
    return next(Place(side, p.array, n) for p in parts for n, keys in enumerate(p.dims) if key in keys)


def _written(key: str) -> str:
    """Return an axis as it is written."""
    return key.partition("#")[0].partition(".")[0]


def _exact(lefts: Sequence[Part], rights: Sequence[Part]) -> list[int | None]:
    """Return for each right part the left one of the same axes: each left part once, in order."""
    free: dict[frozenset[str], list[int]] = {}
    for k, left in enumerate(lefts):
        free.setdefault(left.axes, []).append(k)
    return [same.pop(0) if (same := free.get(right.axes)) else None for right in rights]


def _unique(right: Part, best: Sequence[Sources], lefts: Sequence[Part]) -> Sources:
    """Return the only one of the best choices; else raise Fault."""
    if len(best) == 1:
        return best[0]
    if not best:
        raise Fault("no_source", f"no part on the left gives {_right(right)}", help=(
            "A part needs axes that a part on the left has; write several operations for more."
        ), place=Place("right", right.array))
    listed = " or ".join(" and ".join(describe(lefts[k]) for k in choice) for choice in best[:3])
    raise Fault("ambiguous_parts", f"{_right(right)} may be made of {listed}", help=(
        "Give the axes different names, or write several operations."), place=Place("right", right.array))


def _right(part: Part) -> str:
    return describe(part).replace("of array", "of result")


def _least(choices: Sequence[int], cost: Callable[[int], int]) -> list[Sources]:
    """Return the choices of the smallest cost."""
    smallest = min(map(cost, choices), default=0)
    return [(k,) for k in choices if cost(k) == smallest]


# ---------------------------------------------------------------- the rules
def _rearranged(lefts: Sequence[Part], rights: Sequence[Part]) -> list[Sources]:
    return [_unique(right, [] if k is None else [(k,)], lefts) for k, right in zip(_exact(lefts, rights), rights)]


def _repeated(lefts: Sequence[Part], rights: Sequence[Part]) -> list[Sources]:
    found = []
    for same, right in zip(_exact(lefts, rights), rights):
        fitting = [k for k, left in enumerate(lefts) if left.axes <= right.axes] if same is None else [same]
        found.append(_unique(right, _least(fitting, lambda k: -len(lefts[k].axes)), lefts))
    return found


def _reduced(lefts: Sequence[Part], rights: Sequence[Part]) -> list[Sources]:
    found = []
    for same, right in zip(_exact(lefts, rights), rights):
        fitting = [k for k, left in enumerate(lefts) if left.axes >= right.axes] if same is None else [same]
        found.append(_unique(right, _least(fitting, lambda k: len(lefts[k].axes)), lefts))
    return found


def _foreign(number: int, rights: Sequence[Part]) -> frozenset[str]:
    """Return the axes that other parts on the right have and this one has not."""
    others: frozenset[str] = frozenset().union(*(r.axes for k, r in enumerate(rights) if k != number))
    return others - rights[number].axes


def _contracted(lefts: Sequence[Part], rights: Sequence[Part]) -> list[Sources]:
    arrays: dict[int, list[int]] = {}
    for k, left in enumerate(lefts):
        arrays.setdefault(left.array, []).append(k)
    found: list[Sources] = []
    for number, right in enumerate(rights):
        foreign = _foreign(number, rights)
        chosen: list[int] = []
        for own in arrays.values():
            fitting = own if len(own) == 1 else [k for k in own if not lefts[k].axes & foreign]
            cost = {k: -len(lefts[k].axes & right.axes) for k in fitting}
            chosen += _unique(right, _least(fitting, cost.__getitem__), lefts)
        found.append(tuple(chosen))
    return found


def _general(lefts: Sequence[Part], rights: Sequence[Part]) -> list[Sources]:
    if len(rights) == 1:
        return _contracted(lefts, rights)
    found: list[Sources] = []
    for number, (same, right) in enumerate(zip(_exact(lefts, rights), rights)):
        if same is not None:
            found.append((same,))
            continue
        foreign = _foreign(number, rights)
        free = [k for k, left in enumerate(lefts) if not left.axes & foreign]
        found.append(_unique(right, _smallest_covers(free, lefts, right), lefts))
    return found


def _smallest_covers(free: Sequence[int], lefts: Sequence[Part], right: Part) -> list[Sources]:
    """Return the smallest sets of parts, one of an array, that have all axes of `right` that any of `free` has."""
    wanted = right.axes & frozenset().union(*(lefts[k].axes for k in free))
    useful = [k for k in free if lefts[k].axes & wanted] or free
    for size in range(1, len(useful) + 1):
        covers = [
            chosen for chosen in itertools.combinations(useful, size)
            if len({lefts[k].array for k in chosen}) == size
            and wanted <= frozenset().union(*(lefts[k].axes for k in chosen))
        ]
        if covers:
            return covers
    return []


_RULES: dict[str, Callable[[Sequence[Part], Sequence[Part]], list[Sources]]] = {
    "view": _rearranged, "rearrange": _rearranged, "repeat": _repeated, "reduce": _reduced, "contract": _contracted,
    "einop": _general,
}

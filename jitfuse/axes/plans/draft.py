"""A plan while it is made: slots, steps, and the small rules that leave steps out.

Owns the making of each primitive step from keys. Does not own which steps an operation takes.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from jitfuse.axes.parts import Dim, Keys, Part, Split, part
from jitfuse.axes.plans.products import Promote
from jitfuse.axes.plans.steps import Dims, Slot, SymbolicStep
from jitfuse.axes.plans.structural import Concat, Cut, Diagonal, Embed, Expand, Permute, Reduce, Reshape
from jitfuse.axes.reducers import Reducer


class Draft:
    """The steps so far. Methods take a slot and its axes, add the steps that are needed, and return the new slot."""

    def __init__(self, inputs: int) -> None:
        self.steps: list[SymbolicStep] = []
        self._slots = inputs

    def add(self, make: Callable[[Slot], SymbolicStep]) -> Slot:
        """Add a step with one result."""
        slot = self._slots
        self._slots += 1
        self.steps.append(make(slot))
        return slot

    def promote(self, slots: Sequence[Slot]) -> list[Slot]:
        """Give arrays their common dtype."""
        results = tuple(range(self._slots, self._slots + len(slots)))
        self._slots += len(results)
        self.steps.append(Promote(tuple(slots), results))
        return list(results)

    def reshape(self, slot: Slot, dims: Dims, wanted: Dims) -> Slot:
        """Group the axes otherwise."""
        return slot if dims == wanted else self.add(lambda s: Reshape((slot,), (s,), wanted))

    def permute(self, slot: Slot, dims: Dims, wanted: Dims) -> Slot:
        """Put the axes into another order."""
        if dims == wanted:
            return slot
        return self.add(lambda s: Permute((slot,), (s,), tuple(map(dims.index, wanted))))

    def expand(self, slot: Slot, dims: Dims, wanted: Dims) -> Slot:
        """Add the axes that are not there yet."""
        if dims == wanted:
            return slot
        new = tuple(k for k, keys in enumerate(wanted) if keys not in dims)
        return self.add(lambda s: Expand((slot,), (s,), wanted, new))

    def reduce(self, slot: Slot, dims: Dims, gone: Sequence[Keys], reducer: Reducer) -> tuple[Slot, Dims]:
        """Reduce axes."""
        axes = tuple(map(dims.index, gone))
        made = self.add(lambda s: Reduce((slot,), (s,), dims, tuple(sorted(axes)), reducer))
        return made, tuple(keys for keys in dims if keys not in gone)

    def without_repeats(self, slot: Slot, dims: Dims) -> tuple[Slot, Dims]:
        """Take the diagonals of axes that stand there twice."""
        flat = [key for keys in dims for key in keys]
        if len(set(flat)) == len(flat):
            return slot, dims
        single: Dims = tuple((key,) for key in flat)
        slot = self.reshape(slot, dims, single)
        while twice := [keys for k, keys in enumerate(single) if keys in single[:k]]:
            one = single.index(twice[0])
            other = single.index(twice[0], one + 1)
            slot = self.add(lambda s, x=slot, at=(one, other): Diagonal((x,), (s,), at))  # type: ignore[misc]
            single = (*(keys for k, keys in enumerate(single) if k not in (one, other)), twice[0])
        return slot, single

    def with_repeats(self, slot: Slot, dims: Dims, wanted: Sequence[str]) -> tuple[Slot, Dims]:
        """Fill diagonals: each axis of `dims` holds one key, `wanted` has some of them again."""
        made: list[Keys] = list(dims)
        for k, key in enumerate(wanted):
            if len(made) <= k or made[k] != (key,):
                first = made.index((key,))
                made.insert(k, (key,))
                axis = first if first < k else first + 1
                grown = tuple(made)
                slot = self.add(lambda s, x=slot, d=grown, a=axis, n=k: Embed((x,), (s,), d, a, n))  # type: ignore[misc]
        return slot, tuple(made)

    # ------------------------------------------------------------ parts
    def unfold(self, array: int, slot: Slot, dims: Sequence[Dim]) -> list[tuple[Slot, Part]]:
        """Cut an array into its parts, in their order."""
        found = first_split(dims)
        if found is None:
            return [(slot, part(array, tuple(dims)))]  # type: ignore[arg-type]
        separate, axis = separated(dims, found)
        split = separate[axis][0]
        assert isinstance(split, Split)
        if len(separate) != len(dims):
            raw, own = (tuple(map(flat_keys, d)) for d in (separate, dims))
            slot = self.reshape(slot, own, raw)
        results = tuple(range(self._slots, self._slots + len(split.alternatives)))
        self._slots += len(results)
        sizes = tuple(map(flat_keys, split.alternatives))
        self.steps.append(Cut((slot,), results, axis, sizes))
        return [
            pair for piece, alternative in zip(results, split.alternatives)
            for pair in self.unfold(array, piece, (*separate[:axis], alternative, *separate[axis + 1 :]))
        ]

    def fold(self, dims: Sequence[Dim], build: Callable[[tuple[Dim, ...]], Slot]) -> Slot:
        """Join an array of its parts, which `build` makes in their order."""
        found = first_split(dims)
        if found is None:
            return build(tuple(dims))
        separate, axis = separated(dims, found)
        split = separate[axis][0]
        assert isinstance(split, Split)
        made = tuple(
            self.fold((*separate[:axis], alternative, *separate[axis + 1 :]), build)
            for alternative in split.alternatives
        )
        slot = made[0] if len(made) == 1 else self.add(lambda s: Concat(made, (s,), axis))
        if len(separate) != len(dims):
            raw, own = (tuple(map(flat_keys, d)) for d in (separate, dims))
            slot = self.reshape(slot, raw, own)
        return slot


def leaves(dims: Sequence[Dim]) -> Iterator[tuple[Dim, ...]]:
    """Yield the axes of the parts of an array, in their order: each sum is an axis of its own."""
    found = first_split(dims)
    if found is None:
        yield tuple(dims)
        return
    separate, axis = separated(dims, found)
    split = separate[axis][0]
    assert isinstance(split, Split)
    for alternative in split.alternatives:
        yield from leaves((*separate[:axis], alternative, *separate[axis + 1 :]))


def first_split(dims: Sequence[Dim]) -> tuple[int, int] | None:
    """Return the axis and the factor of the first sum among axes."""
    return next(((d, k) for d, dim in enumerate(dims) for k, item in enumerate(dim) if isinstance(item, Split)), None)


def separated(dims: Sequence[Dim], at: tuple[int, int]) -> tuple[tuple[Dim, ...], int]:
    """Return the axes with a sum as an axis of its own, and the number of that axis."""
    d, k = at
    dim = dims[d]
    before, behind = (dim[:k],) if k else (), (dim[k + 1 :],) if dim[k + 1 :] else ()
    return (*dims[:d], *before, (dim[k],), *behind, *dims[d + 1 :]), d + len(before)


def flat_keys(dim: Dim) -> Keys:
    """Return a product as keys for sizes alone: numbers and sums as text of their own."""
    return tuple(size_key(item) for item in dim)


def size_key(item: object) -> str:
    """Return the key under which a number or a sum has its size."""
    if isinstance(item, Split):
        return "(" + " + ".join("*".join(map(size_key, a)) or "1" for a in item.alternatives) + ")"
    return item if isinstance(item, str) else f"{item}#0"

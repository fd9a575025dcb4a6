"""Plans while they are made: slots, steps, and the small rules that leave steps out.

All plans of an operation are made of one draft, and what they do alike is one step. Owns the making of each primitive
step from keys. Does not own which steps an operation takes.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jitfuse.axes.parts import Dim, Keys, Part, Split, part
from jitfuse.axes.plans.products import Promote
from jitfuse.axes.plans.steps import Dims, Slot, SymbolicStep
from jitfuse.axes.plans.structural import Concat, Cut, Diagonal, Embed, Expand, Permute, Reduce, Reshape
from jitfuse.axes.reducers import Reducer


class Draft:
    """The steps so far. Methods take a slot and its axes, add the steps that are needed, and return the new slot.

    Equal steps are one within a `scope`, which is a part of a result: two results never are one array.
    """

    def __init__(self, inputs: int) -> None:
        self.scope: object = -1
        self._makers: dict[Slot, SymbolicStep] = {}
        self._slots = inputs
        self._made: dict[tuple[Any, ...], tuple[Slot, ...]] = {}

    def add(self, kind: type[SymbolicStep], operands: tuple[Slot, ...], *fields: Any) -> Slot:
        """Add a step with one result."""
        return self.add_several(1, kind, operands, *fields)[0]

    def add_several(
        self, count: int, kind: type[SymbolicStep], operands: tuple[Slot, ...], *fields: Any
    ) -> tuple[Slot, ...]:
        """Add a step with several results."""
        key = self.scope, kind, operands, fields
        slots = self._made.get(key)
        if slots is None:
            slots = self._made[key] = tuple(range(self._slots, self._slots + count))
            self._slots += count
            self._makers |= dict.fromkeys(slots, kind(operands, slots, *fields))
        return slots

    def steps(self, outputs: Sequence[Slot]) -> tuple[SymbolicStep, ...]:
        """Return the steps that some slots need, each behind those that it needs itself."""
        found: dict[tuple[Slot, ...], SymbolicStep] = {}

        def visit(slots: Sequence[Slot]) -> None:
            for slot in slots:
                step = self._makers.get(slot)
                if step is not None and step.results not in found:
                    visit(step.operands)
                    found[step.results] = step

        visit(outputs)
        return tuple(found.values())

    def promote(self, slots: Sequence[Slot]) -> tuple[Slot, ...]:
        """Give arrays their common dtype."""
        return self.add_several(len(slots), Promote, tuple(slots))

    def reshape(self, slot: Slot, dims: Dims, wanted: Dims) -> Slot:
        """Group the axes otherwise."""
        return slot if dims == wanted else self.add(Reshape, (slot,), wanted)

    def permute(self, slot: Slot, dims: Dims, wanted: Dims) -> Slot:
        """Put the axes into another order."""
        return slot if dims == wanted else self.add(Permute, (slot,), tuple(map(dims.index, wanted)))

    def expand(self, slot: Slot, dims: Dims, wanted: Dims) -> Slot:
        """Add the axes that are not there yet."""
        if dims == wanted:
            return slot
        return self.add(Expand, (slot,), wanted, tuple(k for k, keys in enumerate(wanted) if keys not in dims))

    def reduce(self, slot: Slot, dims: Dims, gone: Sequence[Keys], reducer: Reducer) -> tuple[Slot, Dims]:
        """Reduce axes."""
        made = self.add(Reduce, (slot,), dims, tuple(sorted(map(dims.index, gone))), reducer)
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
            slot = self.add(Diagonal, (slot,), (one, other))
            single = (*(keys for k, keys in enumerate(single) if k not in (one, other)), twice[0])
        return slot, single

    def with_repeats(self, slot: Slot, dims: Dims, wanted: Sequence[str]) -> tuple[Slot, Dims]:
        """Fill diagonals: each axis of `dims` holds one key, `wanted` has some of them again."""
        made: list[Keys] = list(dims)
        for k, key in enumerate(wanted):
            if len(made) <= k or made[k] != (key,):
                first = made.index((key,))
                made.insert(k, (key,))
                slot = self.add(Embed, (slot,), tuple(made), first if first < k else first + 1, k)
        return slot, tuple(made)

    def cut(self, slot: Slot, axis: int, sizes: Dims) -> tuple[Slot, ...]:
        """Cut an array along an axis into ranges of these sizes."""
        return self.add_several(len(sizes), Cut, (slot,), axis, sizes)

    def concat(self, slots: tuple[Slot, ...], axis: int) -> Slot:
        """Join arrays along an axis."""
        return slots[0] if len(slots) == 1 else self.add(Concat, slots, axis)

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
        results = self.cut(slot, axis, tuple(map(flat_keys, split.alternatives)))
        return [
            pair for piece, alternative in zip(results, split.alternatives)
            for pair in self.unfold(array, piece, (*separate[:axis], alternative, *separate[axis + 1 :]))
        ]

    def fold(self, dims: Sequence[Dim], parts: Iterator[Slot]) -> Slot:
        """Join an array of its parts, which are as `leaves` of these axes."""
        found = first_split(dims)
        if found is None:
            return next(parts)
        separate, axis = separated(dims, found)
        split = separate[axis][0]
        assert isinstance(split, Split)
        made = tuple(
            self.fold((*separate[:axis], alternative, *separate[axis + 1 :]), parts)
            for alternative in split.alternatives
        )
        slot = self.concat(made, axis)
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

"""Reads and writes at indices, in vectorised loops.

An index that moves by a fixed step reads a slice of an axis, which becomes a loop axis. Of an array that a loop
carries, each iteration has its own part: the axis that each iteration indexes at one position of its own is *taken*, so
the rest of the array has one axis less in an iteration. Inside of branches, indices are 0 where the condition is false.
Elements read there may be wrong, but are unused (`LoopValue.only`); writes there keep the old elements.

Owns gathers, scatters, and views of carried arrays. Does not own other operators
(`jitfuse.tracing.control.vectorise.steps`).
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jitfuse.ir.program import FusedProgram, OpStep
from jitfuse.tracing.control.vectorise.values import LoopAxes, LoopValue, OwnPartError, raise_not_vectorised
from jitfuse.tracing.numbers.linear import Linear

Pairs = list[tuple[int, LoopValue]]
"""Pairs of an axis and its index."""


class Arrays(LoopAxes):
    """Steps that read and write elements."""

    # ------------------------------------------------------------------ which axes are meant
    @staticmethod
    def axis_of(x: LoopValue, name: int) -> int:
        """Return which of the remaining own axes corresponds to an axis of the carried array."""
        gone = {t.axis for t in x.taken}
        left = [n for n in x.names if n not in gone]
        return left.index(name)

    def _own_pairs(self, step: OpStep, x: LoopValue, indices: Sequence[LoopValue]) -> Pairs:
        """Return pairs of the remaining axes of an array, numbered among its own axes, and their indices."""
        if any(i.rank or i.is_array or i.total is not None for i in indices):
            raise_not_vectorised()
        pairs = list(zip(step.attr("axes"), indices, strict=True))
        if not x.is_array:
            return pairs
        for loop_axis, carry in x.pending:
            for axis, index in pairs:
                linear, name = _linear(index), x.names[axis]
                if (name is not None and linear is not None and linear.loop_axis is not None
                        and linear.loop_axis[0] == loop_axis):
                    raise OwnPartError(loop_axis, carry, name, linear)
            raise_not_vectorised()
        for taken in x.taken:
            if [_linear(index) for axis, index in pairs if x.names[axis] == taken.axis] != [taken.at]:
                raise_not_vectorised()
        gone = [k for k, name in enumerate(x.names) if name in {t.axis for t in x.taken}]
        return [(axis - sum(g < axis for g in gone), index) for axis, index in pairs if axis not in gone]

    def is_within(self, known: Linear, extent: int) -> bool:
        """Return whether an index is within an axis in all iterations."""
        low, high = known.ends(self.extents)
        return low >= 0 and high < extent

    def part(self, x: LoopValue, indices: Sequence[tuple[int, Linear]]) -> LoopValue:
        """Return the part of an array at indices that are constant, or move along a loop axis, which replaces
        theirs."""
        own, over = self.own(x), self.over(x)
        starts, counts, steps = [0] * len(own), list(own), [1] * len(own)
        axes, dropped = {}, []
        for axis, known in indices:
            starts[axis], counts[axis] = known.constant, 1
            if known.loop_axis is None:
                dropped.append(axis)
            else:
                loop_axis, steps[axis] = known.loop_axis
                counts[axis], axes[loop_axis] = self.extents[loop_axis], axis
        tensor = x.tensor
        if (starts, counts, steps) != ([0] * len(own), list(own), [1] * len(own)):
            tensor = self.emit("slice", (tensor,), self.region(over, starts, counts, steps))
        return self.moved(x._replace(tensor=tensor), axes, dropped)

    # ------------------------------------------------------------------ reads
    def read(self, step: OpStep, values: Sequence[LoopValue]) -> LoopValue:
        """Return the elements that a gather reads."""
        x, *indices = values
        if x.total is not None:
            raise_not_vectorised()
        only = x.only.union(*(i.only for i in indices))
        pairs = self._own_pairs(step, x, indices)
        taken = {index.within.condition for index in indices if x.is_array and index.within is not None}
        x = LoopValue(x.tensor, x.loop_axes, x.rank)
        sliced, conditions = self._sliced(x, pairs)
        rest = [(axis, index) for axis, index in pairs if axis not in [a for a, _ in sliced]]
        alike = [(axis, index) for axis, index in rest if not index.loop_axes]
        by_iteration = [(axis, index) for axis, index in rest if index.loop_axes]
        if alike:  # first, because it makes the array smaller
            x = self._gathered(x, alike)
            sliced, by_iteration = _after(alike, sliced), _after(alike, by_iteration)
        if sliced:
            x = self.part(x, sliced)
            by_iteration = _after(sliced, by_iteration)
        if by_iteration:
            x = self._gathered(x, by_iteration)
        return x._replace(only=only | taken | conditions)

    def _sliced(self, x: LoopValue, pairs: Pairs) -> tuple[list[tuple[int, Linear]], set[int]]:
        """Return the axes that can be read as slices, and the conditions under which these reads are right."""
        own, loop_axes = self.own(x), set()
        sliced: list[tuple[int, Linear]] = []
        conditions: set[int] = set()
        for axis, index in pairs:
            known = _linear(index)
            if known is not None and not known.steps and known.constant < 0:
                known = known._replace(constant=known.constant + own[axis])
            if known is None or len(known.steps) > 1 or not self.is_within(known, own[axis]):
                continue
            if known.loop_axis is not None:
                loop_axis = known.loop_axis[0]
                if loop_axis in loop_axes or (loop_axis < x.loop_axes and self.over(x)[loop_axis] != 1):
                    continue
                loop_axes.add(loop_axis)
            sliced.append((axis, known))
            if index.known is None and index.within is not None:
                conditions.add(index.within.condition)
        return sliced, conditions

    def _gathered(self, x: LoopValue, pairs: Pairs) -> LoopValue:
        """Return the elements at any indices, with NumPy's checks of bounds."""
        pairs = sorted(pairs, key=lambda pair: pair[0])
        indices = [self._on(index) for _, index in pairs]
        axes = [x.loop_axes + axis for axis, _ in pairs]
        loop_axes = max(i.loop_axes for i in indices)
        if not loop_axes:
            made = self.emit("gather", (x.tensor, *(i.tensor for i in indices)), {"axes": axes, "place": 0})
            return LoopValue(made, x.loop_axes, x.rank - len(axes))
        loop_axes = max(loop_axes, x.loop_axes)
        if any(n == 0 for n in self.own(x)):
            raise_not_vectorised()
        over = self.joint([x, *indices])
        at = [self.aligned(i, loop_axes, 0) for i in indices]
        front = [self.run.scalar(0, "int64") if n == 1 else self.aligned(self.count(loop_axis, 0), loop_axes, 0)
                 for loop_axis, n in enumerate(self.over(x))]
        made = self.emit("gather", (x.tensor, *front, *at), {"axes": (*range(x.loop_axes), *axes), "place": 0})
        rank = x.rank - len(axes)
        shape = self.meta(made).shape
        return LoopValue(self.reshaped(made, (*over, *shape[len(shape) - rank :])), loop_axes, rank)

    def _on(self, index: LoopValue) -> LoopValue:
        """Return an index that is 0 in inactive iterations.

        An index that is the same in all iterations becomes 0 only if none of them is active, which needs `may_end`.
        """
        if self.mask is None or not (index.loop_axes or self.may_end):
            return index
        on = self.mask if index.loop_axes else LoopValue(self.any_of(self.mask.tensor))
        return self.chosen(on, index, LoopValue(self.run.scalar(0, self.meta(index.tensor).dtype)))

    # ------------------------------------------------------------------ writes
    def written(self, program: FusedProgram, step: OpStep, known: Mapping[int, LoopValue]) -> LoopValue:
        """Return the array after a scatter."""
        x, value, *indices = [known[i] for i in step.input_ids]
        if step.attr("combine") != "set" or x.total is not None or not value.is_plain or x.only:
            raise_not_vectorised()
        pairs = self._own_pairs(step, x, indices)
        conditions = {i.within.condition for i in indices if i.known is None and i.within is not None and x.taken}
        if any(index.loop_axes for _, index in pairs) or value.only - conditions or len(conditions) > 1:
            raise_not_vectorised()
        mask = self.mask
        for condition in conditions:
            if not self._is_kept(program, step, known, condition):
                raise_not_vectorised()
            on = next(v for v in known.values() if v.tensor == condition and not v.rank)
            mask = on if mask is None else self.among("logical_and", mask, on)
        return self._stored(x, value._replace(only=frozenset()), pairs, mask)

    def _is_kept(
        self, program: FusedProgram, step: OpStep, known: Mapping[int, LoopValue], condition: int
    ) -> bool:
        """Return whether a write keeps the old element where the condition is false."""
        maker = program.producers.get(step.input_ids[1])
        while maker is not None and maker.op_name == "astype":
            maker = program.producers.get(maker.input_ids[0])
        if maker is None or maker.op_name != "where" or known[maker.input_ids[0]].tensor != condition:
            return False
        old = program.producers.get(maker.input_ids[2])
        if old is None or old.op_name != "gather" or old.input_ids[0] != step.input_ids[0]:
            return False
        if old.attr("axes") != step.attr("axes"):
            return False
        both = zip(old.input_ids[1:], step.input_ids[2:], strict=True)
        return all(_is_same(known[a], known[b]) for a, b in both)

    def _stored(self, x: LoopValue, value: LoopValue, pairs: Pairs, mask: LoopValue | None) -> LoopValue:
        over = self.over(x) if x.taken else self.joint([x, value, *([] if mask is None else [mask])])
        whole = self.broadcast_along(x, over)
        axes, at = [len(over) + axis for axis, _ in pairs], [index.tensor for _, index in pairs]
        rank = x.rank - len(axes)
        if value.rank > rank:
            raise_not_vectorised()
        tensor = self.cast(value.tensor, self.meta(x.tensor).dtype)
        new = LoopValue(
            self.aligned(value._replace(tensor=tensor), len(over), rank), len(over) if value.loop_axes else 0, rank
        )
        if mask is not None:
            old = LoopValue(whole, len(over), x.rank)
            if axes:
                old = LoopValue(self.emit("gather", (whole, *at), {"axes": axes, "place": 0}), len(over), rank)
            new = self.among("where", mask, new, old)
        if new.loop_axes > len(over) or any(n not in (1, m) for n, m in zip(self.over(new), over)):
            raise_not_vectorised()
        if axes:
            made = self.emit("scatter", (whole, new.tensor, *at), {"axes": axes, "place": 0, "combine": "set"})
        else:
            made, shape = new.tensor, self.meta(whole).shape
            if self.meta(made).shape != shape:
                made = self.emit("broadcast_to", (made,), {"shape": shape})
        return x._replace(tensor=made, loop_axes=len(over))

    def updated(self, step: OpStep, x: LoopValue, value: LoopValue) -> LoopValue:
        """Return an array that the iteration has made, with a region replaced."""
        over = self.joint([x, value, *([] if self.mask is None else [self.mask])])
        here = self.region(over, **step.attr_dict)
        whole = self.broadcast_along(x, over)
        tensor = self.cast(value.tensor, self.meta(x.tensor).dtype)
        new = LoopValue(self.aligned(value._replace(tensor=tensor), len(over), x.rank), len(over), x.rank)
        if not value.loop_axes:
            new = new._replace(loop_axes=0, rank=value.rank)
        if self.mask is not None:
            new = self.among("where", self.mask, new, LoopValue(self.emit("slice", (whole,), here), len(over), x.rank))
        return LoopValue(self.emit("update_slice", (whole, new.tensor), here), len(over), x.rank)

    # ------------------------------------------------------------------ views of carried arrays
    def view(self, program: FusedProgram, step: OpStep, values: Sequence[LoopValue]) -> LoopValue:
        """Return a view of a carried array, or the array after a write into a view of it."""
        x, attrs = values[0], step.attr_dict
        shape = program.meta[step.input_ids[0]].shape
        gone = [k for k, name in enumerate(x.names) if name in {t.axis for t in x.taken}]
        if step.op_name == "reshape":
            return self._reshaped(x, gone, shape, tuple(attrs["shape"]))
        region = [attrs["starts"], attrs["counts"], attrs["steps"]]
        whole = [(s, c, t) == (0, n, 1) for s, c, t, n in zip(*region, shape)]
        if not all(whole[k] for k in gone):
            raise_not_vectorised()
        starts, counts, steps = ([v for k, v in enumerate(vs) if k not in gone] for vs in region)
        over = self.over(x)
        here = self.region(over, starts, counts, steps)
        if step.op_name == "slice":
            names = tuple([name if full else None for name, full in zip(x.names, whole)])
            return x._replace(tensor=self.emit("slice", (x.tensor,), here), names=names)
        part = values[1]
        if not x.taken or (part.taken, part.pending) != (x.taken, x.pending) or part.only or self.over(part) != over:
            raise_not_vectorised()
        if program.meta[step.input_ids[1]].shape != tuple(attrs["counts"]):
            raise_not_vectorised()
        if any(part.names[k] != x.names[k] for k in gone):
            raise_not_vectorised()
        return x._replace(tensor=self.emit("update_slice", (x.tensor, part.tensor), here))

    def _reshaped(self, x: LoopValue, gone: list[int], before: tuple[int, ...], after: tuple[int, ...]) -> LoopValue:
        """Return a carried array with axes of length 1 removed or inserted."""
        if [n for n in before if n != 1] != [n for n in after if n != 1] or any(before[k] == 1 for k in gone):
            raise_not_vectorised()
        long = [k for k, n in enumerate(before) if n != 1]
        names: list[int | None] = []
        own, met = [], 0
        for n in after:
            k = None if n == 1 else long[met]
            met += n != 1
            names.append(None if k is None else x.names[k])
            own += [n] if k not in gone else []
        tensor = self.reshaped(x.tensor, (*self.over(x), *own))
        return x._replace(tensor=tensor, rank=len(own), names=tuple(names))


def _linear(index: LoopValue) -> Linear | None:
    """Return the index as far as it is known, also if only inside of a branch."""
    return index.known if index.known is not None or index.within is None else index.within.known


def _is_same(one: LoopValue, other: LoopValue) -> bool:
    if one.known is not None or one.within is not None:
        return (one.known, one.within) == (other.known, other.within)
    return one.tensor == other.tensor


def _after(gone: Sequence[tuple[int, Any]], pairs: Sequence[tuple[int, Any]]) -> list[tuple[int, Any]]:
    """Renumber the axes of pairs after other axes are removed."""
    axes = [a for a, _ in gone]
    return [(axis - sum(a < axis for a in axes), what) for axis, what in pairs]

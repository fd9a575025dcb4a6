"""The steps that move, cut, join, repeat and reduce arrays."""
from __future__ import annotations

import itertools
import operator
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from jitfuse.axes.layouts import Layout, Shape, contiguous, reshaped
from jitfuse.axes.plans.steps import FREE, Dims, SpecializationContext, StepScore, SymbolicStep, stored
from jitfuse.axes.reducers import Reducer


class Reshape(SymbolicStep, frozen=True):
    """The array with its axes grouped otherwise, in the same order."""

    dims: Dims
    name: ClassVar[str] = "reshape"

    def _write(self, context: SpecializationContext) -> list[str]:
        return self._line(context.library.reshape(self._operand, context.shape(self.dims)))

    def score(self, context: SpecializationContext, layouts: Sequence[Layout]) -> tuple[list[Layout], StepScore]:
        """Return the view in the shape, or a copy where there is none."""
        shape = context.shape(self.dims)
        free = reshaped(layouts[0], shape)
        layout, cost = (free, FREE) if free is not None else stored(contiguous(shape))
        return [layout], cost


class Permute(SymbolicStep, frozen=True):
    """The view with the axes in another order."""

    order: tuple[int, ...]
    name: ClassVar[str] = "permute"

    def _write(self, context: SpecializationContext) -> list[str]:
        return self._line(context.library.permute(self._operand, self.order))

    def score(self, context: SpecializationContext, layouts: Sequence[Layout]) -> tuple[list[Layout], StepScore]:
        """Return the view, which is free."""
        shape, strides = layouts[0]
        return [Layout(tuple(shape[k] for k in self.order), tuple(strides[k] for k in self.order))], FREE


class Diagonal(SymbolicStep, frozen=True):
    """The view of the diagonal of two axes, as the last axis."""

    axes: tuple[int, int]
    name: ClassVar[str] = "view"

    def _write(self, context: SpecializationContext) -> list[str]:
        return self._line(context.library.diagonal(self._operand, *self.axes))

    def score(self, context: SpecializationContext, layouts: Sequence[Layout]) -> tuple[list[Layout], StepScore]:
        """Return the view, which is free."""
        shape, strides = layouts[0]
        rest = [k for k in range(len(shape)) if k not in self.axes]
        one, other = self.axes
        return [Layout(
            (*(shape[k] for k in rest), shape[one]), (*(strides[k] for k in rest), strides[one] + strides[other])
        )], FREE


class Cut(SymbolicStep, frozen=True):
    """The views of ranges along an axis, one after the other."""

    axis: int
    parts: Dims
    name: ClassVar[str] = "split"

    def _write(self, context: SpecializationContext) -> list[str]:
        lines, start = [], 0
        for slot, keys in zip(self.results, self.parts):
            stop = start + context.size(keys)
            lines.append(f"v{slot} = {context.library.cut(self._operand, self.axis, start, stop)}")
            start = stop
        return lines

    def score(self, context: SpecializationContext, layouts: Sequence[Layout]) -> tuple[list[Layout], StepScore]:
        """Return the views, which are free."""
        shape, strides = layouts[0]
        return [Layout((*shape[: self.axis], context.size(keys), *shape[self.axis + 1 :]), strides)
                for keys in self.parts], FREE


class Concat(SymbolicStep, frozen=True):
    """Arrays joined along an axis."""

    axis: int
    name: ClassVar[str] = "concat"

    def _write(self, context: SpecializationContext) -> list[str]:
        return self._line(context.library.concat([f"v{s}" for s in self.operands], self.axis))

    def score(self, context: SpecializationContext, layouts: Sequence[Layout]) -> tuple[list[Layout], StepScore]:
        """Return a new array."""
        shape = layouts[0].shape
        total = sum(layout.shape[self.axis] for layout in layouts)
        layout, cost = stored(contiguous((*shape[: self.axis], total, *shape[self.axis + 1 :])))
        return [layout], cost


class Expand(SymbolicStep, frozen=True):
    """The array with new axes, along which it repeats: `dims` are all axes of the result, `new` the new ones."""

    dims: Dims
    new: tuple[int, ...]
    name: ClassVar[str] = "expand"

    def _write(self, context: SpecializationContext) -> list[str]:
        shape = context.shape(self.dims)
        narrow = tuple(1 if k in self.new else n for k, n in enumerate(shape))
        made = context.library.reshape(self._operand, narrow)
        grown = {k: shape[k] for k in self.new if shape[k] != 1}
        if grown:
            return self._line(context.library.expand(made, shape, grown))
        return self._line(f"{made}.copy()" if context.library.writes else made)

    def score(self, context: SpecializationContext, layouts: Sequence[Layout]) -> tuple[list[Layout], StepScore]:
        """Return a view with strides of 0, or what the library's repeats store, one after the other."""
        shape = context.shape(self.dims)
        if context.library.writes:
            layout, grown = contiguous(shape), [shape[k] for k in self.new if shape[k] != 1]
            copies = itertools.accumulate(grown[:-1], operator.floordiv, initial=layout.elements)
            return [layout], StepScore(0, sum(copies) if all(grown) else 0, max(1, len(grown)), max(1, len(grown)))
        strides = iter(layouts[0].strides)
        return [Layout(shape, tuple(0 if k in self.new else next(strides) for k in range(len(shape))))], FREE


class Reduce(SymbolicStep, frozen=True):
    """The array with axes reduced; `dims` are all its axes."""

    dims: Dims
    axes: tuple[int, ...]
    reducer: Reducer
    name: ClassVar[str] = "reduce"

    def _write(self, context: SpecializationContext) -> list[str]:
        x, axes = self._operand, self.axes
        if not axes:  # over no axes: every element is a group of its own
            x, axes = f"{context.library.reshape(x, (*context.shape(self.dims), 1))}", (len(self.dims),)
        if not isinstance(self.reducer, str):
            return self._line(f"{self._function}({x}, {axes})")
        count = context.size([key for k in self.axes for key in self.dims[k]])
        return self._line(context.library.reduce(x, self.reducer, axes, count))

    @property
    def _function(self) -> str:
        return f"reducer{self.results[0]}"

    def _constants(self, context: SpecializationContext) -> Mapping[str, Any]:
        named = context.library.functions
        return named if isinstance(self.reducer, str) else {**named, self._function: self.reducer}

    def score(self, context: SpecializationContext, layouts: Sequence[Layout]) -> tuple[list[Layout], StepScore]:
        """Return a new array."""
        layout, cost = stored(contiguous(context.shape(
            tuple(keys for k, keys in enumerate(self.dims) if k not in self.axes))))
        return [layout], cost


class Embed(SymbolicStep, frozen=True):
    """The array with one axis on the diagonal of itself and a new one, and zeros around it."""

    dims: Dims
    axis: int
    new: int
    name: ClassVar[str] = "reindex"

    def _write(self, context: SpecializationContext) -> list[str]:
        shape = context.shape(self.dims)
        mask = tuple(n if k in (self.axis, self.new) else 1 for k, n in enumerate(shape))
        narrow = tuple(1 if k == self.new else n for k, n in enumerate(shape))
        return self._line(context.library.embed(self._operand, narrow, shape[self.axis], mask))

    def score(self, context: SpecializationContext, layouts: Sequence[Layout]) -> tuple[list[Layout], StepScore]:
        """Return a new array."""
        layout, cost = stored(contiguous(context.shape(self.dims)))
        return [layout], cost


class Reindex(SymbolicStep, frozen=True):
    """A new array into which arrays are written, each repeated along the axes that it lacks.

    `joined` are the axes of the new array, each a sum of products; `places` says for each operand which summand of
    each axis it is, and `views` its axes in that place, and which of them it has: it repeats along the others.
    """

    joined: tuple[Dims, ...]
    places: tuple[tuple[int, ...], ...]
    views: tuple[tuple[Dims, tuple[bool, ...]], ...]
    name: ClassVar[str] = "reindex"

    def _write(self, context: SpecializationContext) -> list[str]:
        shape = tuple(sum(map(context.size, summands)) for summands in self.joined)
        made, xs = f"v{self.results[0]}", [f"v{s}" for s in self.operands]
        dtype = f"{xs[0]}.dtype" if len(set(xs)) == 1 else f"result_type({', '.join(dict.fromkeys(xs))})"
        lines = [f"{made} = empty({shape}, {dtype})"]
        for x, place, (dims, own) in zip(xs, self.places, self.views):
            target = made + self._cut(context, shape, place)
            inner = context.shape(dims)
            outer = tuple(context.size(summands[k]) for summands, k in zip(self.joined, place))
            if inner != outer:
                target = context.library.reshape(target, inner)
            source = x if all(own) else context.library.reshape(
                x, tuple(n if mine else 1 for n, mine in zip(inner, own)))
            lines.append(f"{target}[...] = {source}")
        return lines

    def _cut(self, context: SpecializationContext, shape: Shape, place: tuple[int, ...]) -> str:
        ranges = []
        for summands, k, n in zip(self.joined, place, shape):
            start = sum(map(context.size, summands[:k]))
            stop = start + context.size(summands[k])
            ranges.append(":" if (start, stop) == (0, n) else f"{start}:{stop}")
        return "" if all(r == ":" for r in ranges) else f"[{', '.join(ranges)}]"

    def score(self, context: SpecializationContext, layouts: Sequence[Layout]) -> tuple[list[Layout], StepScore]:
        """Return a new array, with one pass for each operand."""
        layout = contiguous(tuple(sum(map(context.size, summands)) for summands in self.joined))
        return [layout], StepScore(0, layout.elements, 1, len(self.operands))

"""Values in vectorised loops: one `LoopValue` for all iterations.

Vectorised loops are nested, and each is a *loop axis*: an axis in front of a value's own axes, of extent 1 where the
value is the same in all iterations. Owns what is known of such values, and how their tensors are brought into one
shape. Does not own the operators (`jitfuse.tracing.control.vectorise.steps`), nor the loops
(`jitfuse.tracing.control.vectorise.vectorised_loop`).
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from jitfuse.base.records import NamedTuple
from jitfuse.ir.program import Meta
from jitfuse.tracing.numbers.linear import Linear
from jitfuse.tracing.record.recorder import Recorder


class NotVectorisedError(Exception):
    """A loop cannot, or should not, be vectorised."""


class OwnPartError(Exception):
    """Each iteration turns out to have its own part of an array that the loop writes."""

    def __init__(self, loop_axis: int, carry: int, axis: int, at: Linear) -> None:
        super().__init__()
        self.loop_axis, self.carry, self.axis, self.at = loop_axis, carry, axis, at


def raise_not_vectorised() -> NoReturn:
    """Reject the loop for vectorising: it then runs in order."""
    raise NotVectorisedError


class Taken(NamedTuple):
    """An axis of an array that has become a loop axis: each iteration has the part at its own index."""

    axis: int
    at: Linear


class Within(NamedTuple):
    """An index that is known where a condition (a tensor) holds, and is 0 elsewhere."""

    condition: int
    known: Linear


class LoopValue(NamedTuple):
    """A value in all iterations.

    loop_axes  how many axes of its tensor are loop axes; 0: it is the same in all iterations
    rank       how many own axes it has, without the taken ones
    known      a known int
    within     an int that is known only inside of a branch
    only       conditions (tensors) that must hold for the value to be right
    taken      axes of an array that have become loop axes
    pending    of an array that no iteration has read or written yet: the axes of the loops that carry it, each with
               the number of the carried value
    names      of a carried array or a view of one: the array's axis for each own axis, taken ones included
    total      what a loop adds up, without the start: of ints, `tensor` is what this iteration has added
    """

    tensor: int
    loop_axes: int = 0
    rank: int = 0
    known: Linear | None = None
    within: Within | None = None
    only: frozenset[int] = frozenset()
    taken: tuple[Taken, ...] = ()
    pending: tuple[tuple[int, int], ...] = ()
    names: tuple[int | None, ...] = ()
    total: Total | None = None

    @property
    def is_array(self) -> bool:
        """Whether it is an array that an outer loop carries, or a view of one."""
        return bool(self.taken or self.pending)

    @property
    def is_plain(self) -> bool:
        """Whether it is neither a carried array nor a total."""
        return not self.taken and not self.pending and self.total is None


class Total(NamedTuple):
    """A number to which the iterations of a loop axis add.

    carry      the number of the carried value
    is_begun   whether anything has been added yet
    is_python  whether it is a Python int, which does not wrap
    parts      of floats, the addends in order: each a number, or an axis of them
    how        of bools, "all" or "any" of the iterations
    """

    loop_axis: int
    carry: int
    is_begun: bool = False
    is_python: bool = False
    parts: tuple[Any, ...] = ()
    how: str = ""


class LoopAxes:
    """The present loop axes, and tensors of values over them."""

    def __init__(self, run: Recorder) -> None:
        self.run = run
        self.extents: list[int] = []
        self.mask: LoopValue | None = None
        """Which iterations are active; None: all."""
        self.may_end = False
        """Whether iterations may be inactive because a loop has ended in them."""
        self.source: str | None = None
        """The user's line of the step that is being vectorised."""

    # ------------------------------------------------------------------ steps
    def emit(self, op_name: str, inputs: Sequence[int], attrs: Mapping[str, Any] | Any = ()) -> int:
        """Record one operator."""
        return self.run.emit(op_name, tuple(inputs), attrs, source=self.source)

    def meta(self, tensor: int) -> Meta:
        """Return a tensor's shape and dtype."""
        return self.run.graph.metas[tensor]

    def reshaped(self, tensor: int, shape: Sequence[int]) -> int:
        """Return a tensor in another shape."""
        return tensor if self.meta(tensor).shape == tuple(shape) else self.emit("reshape", (tensor,), {"shape": shape})

    def cast(self, tensor: int, dtype: str) -> int:
        """Return a tensor in a dtype."""
        return tensor if self.meta(tensor).dtype == dtype else self.emit("astype", (tensor,), {"dtype": dtype})

    # ------------------------------------------------------------------ shapes
    def own(self, value: LoopValue) -> tuple[int, ...]:
        """Return the extents of a value's own axes."""
        return self.meta(value.tensor).shape[value.loop_axes :]

    def over(self, value: LoopValue) -> tuple[int, ...]:
        """Return the extents of a value's loop axes."""
        return self.meta(value.tensor).shape[: value.loop_axes]

    def aligned(self, value: LoopValue, loop_axes: int, rank: int) -> int:
        """Return a value's tensor with this many loop axes and own axes; one without loop axes is returned as it is."""
        if not value.loop_axes:
            return value.tensor
        filled = (1,) * (loop_axes - value.loop_axes + rank - value.rank)
        return self.reshaped(value.tensor, (*self.over(value), *filled, *self.own(value)))

    def broadcast_along(self, value: LoopValue, over: Sequence[int]) -> int:
        """Return a value's tensor over loop axes of these extents; rejects one that differs along other loop axes."""
        own = self.own(value)
        tensor = self.aligned(value, max(len(over), value.loop_axes), value.rank)
        if value.loop_axes > len(over):
            if any(n != 1 for n in self.over(value)[len(over) :]):
                raise_not_vectorised()
            tensor = self.reshaped(tensor, (*self.over(value)[: len(over)], *own))
        shape = (*over, *own)
        if value.loop_axes and any(n not in (1, m) for n, m in zip(self.meta(tensor).shape, over)):
            raise_not_vectorised()
        return tensor if self.meta(tensor).shape == shape else self.emit("broadcast_to", (tensor,), {"shape": shape})

    def joint(self, values: Sequence[LoopValue]) -> tuple[int, ...]:
        """Return the extents of the loop axes to which all values broadcast."""
        count = max((v.loop_axes for v in values), default=0)
        found = [1] * count
        for v in values:
            for k, n in enumerate(self.over(v)):
                found[k] = max(found[k], n)
        return tuple(found)

    def moved(self, value: LoopValue, axes: Mapping[int, int], dropped: Sequence[int] = ()) -> LoopValue:
        """Return a value some of whose own axes become loop axes; `axes` maps loop axes to own axes.

        `dropped` are own axes of length 1 to remove.
        """
        shape, loop_axes = self.meta(value.tensor).shape, max([value.loop_axes, *(loop_axis + 1 for loop_axis in axes)])
        order, over, ones = [], [], []
        for loop_axis in range(loop_axes):
            there = loop_axis < value.loop_axes
            if loop_axis in axes:
                if there and shape[loop_axis] != 1:
                    raise_not_vectorised()
                ones += [loop_axis] if there else []
                order.append(value.loop_axes + axes[loop_axis])
                over.append(shape[order[-1]])
            else:
                order += [loop_axis] if there else []
                over.append(shape[loop_axis] if there else 1)
        gone = {*axes.values(), *dropped}
        rest = [value.loop_axes + a for a in range(value.rank) if a not in gone]
        permuted = (*order, *rest, *ones, *(value.loop_axes + a for a in dropped))
        tensor = value.tensor
        if permuted != tuple(range(len(shape))):
            tensor = self.emit("transpose", (tensor,), {"axes": permuted})
        tensor = self.reshaped(tensor, (*over, *(shape[a] for a in rest)))
        return value._replace(tensor=tensor, loop_axes=loop_axes, rank=len(rest))

    @staticmethod
    def region(
        over: Sequence[int], starts: Sequence[int], counts: Sequence[int], steps: Sequence[int]
    ) -> dict[str, Any]:
        """Return the attributes of a region of a value's own axes, in all iterations."""
        zeros, ones = (0,) * len(over), (1,) * len(over)
        return {"starts": (*zeros, *starts), "counts": (*over, *counts), "steps": (*ones, *steps)}

    # ------------------------------------------------------------------ numbers
    def count(self, loop_axis: int, low: int) -> LoopValue:
        """Return the index of the iteration along a loop axis, counted from `low`."""
        n = self.extents[loop_axis]
        tensor = self.emit("arange", (), {"start": low, "step": 1, "count": n, "dtype": "int64"})
        return LoopValue(
            self.reshaped(tensor, (*(1,) * loop_axis, n)), loop_axis + 1, 0, Linear(low, ((loop_axis, 1),))
        )

    def constant(self, value: int) -> LoopValue:
        """Return an int64 that is the same in all iterations."""
        return LoopValue(self.run.scalar(value, "int64"), known=Linear(value))

    def any_of(self, tensor: int) -> int:
        """Return whether a bool holds in any iteration."""
        return tensor if not self.meta(tensor).ndim else self.emit("any", (tensor,), {"axis": None, "keepdims": False})

    def among(self, op_name: str, *values: LoopValue) -> LoopValue:
        """Return the result of an elementwise operator for strong values of one dtype."""
        loop_axes, rank = max(v.loop_axes for v in values), max(v.rank for v in values)
        made = self.emit(op_name, [self.aligned(v, loop_axes, rank) for v in values])
        return LoopValue(made, loop_axes, rank)

    def chosen(self, mask: LoopValue | None, new: LoopValue, old: LoopValue) -> LoopValue:
        """Return the new value where a mask holds, the old one elsewhere."""
        return new if mask is None else self.among("where", mask, new, old)

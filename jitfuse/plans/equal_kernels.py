"""Build kernels that differ only in the memory they read and write once.

Item assignment in Python loops makes thousands of kernels that compute the same over equal shapes at other offsets.
Such a kernel is recognised by its steps and by which of its memory locations coincide. A further launch of it is the
first launch with other buffers and offsets. Owns what distinguishes kernels. Does not own how they are built
(`jitfuse.plans.kernels`).
"""
from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final

from jitfuse.base.floats import exact_text
from jitfuse.dtypes import COMPONENT
from jitfuse.ir.operators import ops
from jitfuse.ir.program import Attrs, FusedProgram, OpStep
from jitfuse.plans.body import Locate
from jitfuse.plans.creation import is_offset
from jitfuse.plans.groups import Grouping
from jitfuse.plans.launch import Launch

_VIEWS: Final = frozenset({"reshape", "transpose", "broadcast_to"})
_NUMBERS: Final = frozenset({"full", "zeros"})

Where = tuple[Any, int]
"""A buffer, and an offset in bytes from its start."""


class _DiffersError(Exception):
    """The kernel is more than a computation over strided windows; never leaves this module."""


class EqualKernels:
    """The kernels built so far for a program, and for other lowerings of it."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[Launch, tuple[int, ...], bool] | None] = {}

    def launch(self, kernel: ComparableKernel | None, build: Callable[[], tuple[Launch, bool]]) -> tuple[Launch, bool]:
        """Return the result of `build`: a launch, and whether values are kept in scratch rows."""
        if kernel is None:
            return build()
        known = self._known.get(kernel.key)
        if known is not None:
            launch, operands, kept = known
            return launch._replace(buffers=tuple([kernel.locations[k] for k in operands])), kept
        launch, kept = build()
        if kernel.key not in self._known:
            number = {location: k for k, location in enumerate(kernel.locations)}
            operands = tuple([number.get(location, -1) for location in launch.buffers])
            self._known[kernel.key] = None if -1 in operands or launch.checks else (launch, operands, kept)
        return launch, kept


class ComparableKernel:
    """A kernel over strided windows: `key` is equal for equal kernels; `locations` are its locations in memory."""

    def __init__(self, key: Hashable, locations: list[Where]) -> None:
        self.key = key
        self.locations = locations


def described(
    grouping: Grouping, locate: Locate, fused: frozenset[int], ends: Iterable[int],
    targets: Iterable[tuple[Where, Any]], more: Hashable,
) -> ComparableKernel | None:
    """Return the description of a kernel; None if it reads other than by strides.

    `ends` are the values that it stores and reduces. `targets` are where it stores, with everything else that matters.
    `more` holds the rest of what determines it.
    """
    program = grouping.program
    if not program.dtypes.isdisjoint(COMPONENT):
        return None
    try:
        return _KernelWalk(program, locate, fused, grouping.values.inlining.unrolled, grouping.order).described(
            tuple(ends), targets, more)
    except _DiffersError:
        return None


class _KernelWalk:
    """The walk from the values that a kernel stores down to the memory that it reads."""

    def __init__(
        self, program: FusedProgram, locate: Locate, fused: frozenset[int], unrolled: set[int], order: dict[int, int]
    ) -> None:
        self._program, self._locate, self._fused, self._unrolled, self._order = program, locate, fused, unrolled, order
        self._number: dict[int, int] = {}
        self._where: dict[Where, int] = {}
        self._memory: dict[int, Any] = {}
        self._key: list[Hashable] = []
        self._exact = False
        """Whether the kernel computes with the offsets of windows."""

    def described(
        self, ends: tuple[int, ...], targets: Iterable[tuple[Where, Any]], more: Hashable
    ) -> ComparableKernel:
        """Return the description; raises _DiffersError."""
        computed = self._computed(ends)
        self._exact = any(map(self._folds, computed))
        for value in sorted(computed, key=self._order.__getitem__):
            self._add(value)
        last = tuple([self._read(value) for value in ends])
        stored = tuple([(self._at(where), rest) for where, rest in targets])
        return ComparableKernel((tuple(self._key), last, stored, more), list(self._where))

    def _computed(self, ends: tuple[int, ...]) -> set[int]:
        """Return the values that the kernel computes."""
        producers, found, stack = self._program.producers, set(ends), list(ends)
        computed = set()
        while stack:
            value = stack.pop()
            in_memory = self._memory[value] = self._locate(value)
            if in_memory is None:
                computed.add(value)
                fresh = [i for i in producers[value].input_ids if i not in found]
                found.update(fresh)
                stack += fresh
        return computed

    def _add(self, value: int) -> None:
        step = self._program.producers[value]
        if step.op_name == "slice":
            self._add_window(value, step)
            return
        op = ops.get(step.op_name)
        assert op is not None
        attrs: Any = step.attrs
        if op.kind == ops.ELEMENTWISE or step.op_name in _NUMBERS:
            attrs = exact_text(attrs) if attrs else None
            attrs = (attrs, is_offset(self._program, step)) if step.op_name == "full" else attrs
        elif op.kind == ops.REDUCTION:
            if value not in self._fused or value in self._unrolled:
                raise _DiffersError
        elif step.op_name not in _VIEWS:
            raise _DiffersError
        read = tuple([self._read(i) for i in step.input_ids])
        self._note(value, (step.op_name, attrs, read, self._program.meta[value]))

    def _add_window(self, value: int, step: OpStep) -> None:
        """Add a slice of memory. Of its start, unless offsets are exact, only matters on which axes it is 0."""
        in_memory = self._memory[step.input_ids[0]]
        if in_memory is None:
            raise _DiffersError
        buffer, layout = in_memory
        starts, rest = _region(step.attrs)
        offset = sum([start * stride for start, stride in zip(starts, layout.strides, strict=True)])
        begin = starts if self._exact else tuple([start != 0 for start in starts])
        self._note(value, (self._at((buffer, offset)), layout, rest, begin, self._program.meta[value]))

    def _folds(self, value: int) -> bool:
        """Return whether a step reshapes by more than extents of 1: kernels may have to divide positions for it."""
        step = self._program.producers[value]
        if step.op_name != "reshape":
            return False
        old, new = (self._program.meta[v].shape for v in (step.input_ids[0], value))
        return [n for n in old if n != 1] != [n for n in new if n != 1]

    def _read(self, value: int) -> int:
        """Return the number of a value; a value in memory gets one when it is first read."""
        number = self._number.get(value)
        if number is None:
            buffer, layout = self._memory[value]
            number = self._note(value, (self._at((buffer, 0)), layout, self._program.meta[value]))
        return number

    def _note(self, value: int, key: Hashable) -> int:
        self._key.append(key)
        self._number[value] = len(self._key)
        return len(self._key)

    def _at(self, where: Where) -> int:
        return self._where.setdefault(where, len(self._where))


def _region(attrs: Attrs) -> tuple[Any, Any]:
    (_, counts), (_, starts), (_, steps) = attrs  # in alphabetical order
    return starts, (counts, steps)

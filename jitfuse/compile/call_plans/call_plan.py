"""Call plans: what one mode of one signature does in every call, as plain numbers, and the same as bytes.

A call plan is a runtime plan (`jitfuse.plans`) after all choices: which kernel over how many units, with which kernel
arguments and buffer offsets. Binding it needs no passes, no planning and no kernel forms, so a process that finds one
on disk imports none of them. Owns its bytes: plain values by `marshal`, under the cache's checksum. Does not own how it
is made (`jitfuse.compile.planning`) or stored (`jitfuse.compile.objects.stored_plans`).
"""
from __future__ import annotations

import itertools
import marshal
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from jitfuse.base.records import Record

Buffer = tuple[str, int]
"""("feed", id), ("const", id), ("value", id), ("partial", id), ("positions", id) or ("reserved", id)."""

_MARSHAL: Final = 2
"""Version of marshal's format: the newest in which equal values have equal bytes."""


class IndexCheck(Record, frozen=True):
    """An index that a kernel checks: its axis, the extent, the user's line."""

    axis: int
    extent: int
    source: str | None


class KernelCall(Record, frozen=True):
    """A launch: the kernel's number in the plan, its division, its buffers with byte offsets, its arguments (`words`).

    `turns`, for kernels that access all buffers in the same order: for each buffer, when it is loaded last or stored
    first, per element; -1 if it is read in another order. A buffer may then be written over one that is loaded earlier.
    `loads_first`: whether the kernel stores nothing before it has loaded everything, at whatever location. `sweep` as
    of kernel forms: units and buffers are those of the first iteration, the arguments those of all. `batched`: it runs
    at the same time as the launch before it, which has the same kernel and needs nothing of it.
    """

    kernel: int
    units: int
    cost_ns: int
    scratch: int
    buffers: tuple[tuple[Buffer, int], ...]
    words: tuple[int, ...]
    checks: tuple[IndexCheck, ...]
    turns: tuple[int, ...]
    loads_first: bool
    sweep: tuple[tuple[int, int], ...] | None = None
    batched: bool = False


class Window(Record, frozen=True):
    """Memory as an array: an offset in a buffer, and the layout of the elements there."""

    buffer: Buffer
    offset: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    contiguous: bool


class BodyPlan(Record, frozen=True):
    """A program that a loop or branch holds: its feeds (id, dtype) in the order of operands, and its plan."""

    feeds: tuple[tuple[int, str], ...]
    plan: CallPlan


class LibraryCall(Record, frozen=True):
    """A library call, a loop or a branch: the operator, its attributes, inputs, outputs, and the user's line.

    `bodies` are the attributes that are programs, by name; `attrs` all others.
    """

    name: str
    attrs: tuple[tuple[str, Any], ...]
    inputs: tuple[Window, ...]
    outputs: tuple[Window, ...]
    step: int
    source: str | None
    bodies: tuple[tuple[str, BodyPlan], ...]


class CallPlan(Record, frozen=True):
    """Everything that a call does, in order.

    steps     launches and library calls; `commits` are the launches that write arguments and state, at the end
    results   path in the returned tree -> (value, dtype)
    outputs   value -> (dtype, shape): the buffers that become results
    views     returned value -> its window into the buffer of another value
    offsets   buffer -> its offset in the arena
    literals  value -> (dtype, little-endian bytes) of the program's literal arrays
    """

    steps: tuple[KernelCall | LibraryCall, ...]
    commits: tuple[KernelCall, ...]
    results: Mapping[str, tuple[int, str]]
    outputs: Mapping[int, tuple[str, tuple[int, ...]]]
    views: Mapping[int, Window]
    offsets: Mapping[Buffer, int]
    arena_bytes: int
    literals: Mapping[int, tuple[str, bytes]]

    @property
    def launches(self) -> int:
        """How many launches a call has; a batch counts once."""
        return sum(type(s) is KernelCall and not s.batched for s in (*self.steps, *self.commits))


class NotPlainError(Exception):
    """A value that cannot be written as plain bytes; never leaves this package."""


_PLAIN: Final = frozenset({int, str, bytes, bool, float, complex, type(None)})


def exact_bytes(value: Any) -> bytes:
    """Return plain values (numbers, strings, bytes, tuples, dicts) as bytes: equal ones for bitwise equal values.

    Raises NotPlainError for any other type, also for subclasses of these except named tuples.
    """
    return marshal.dumps(value if _is_plain(value) else _plain(value), _MARSHAL)


def _is_plain(value: Any) -> bool:
    """Return whether a value consists of plain values and tuples alone; searches level by level, for speed."""
    values = [value]
    while others := set(map(type, values)) - _PLAIN:
        if others != {tuple}:
            return False
        tuples = itertools.compress(values, map(operator.is_, map(type, values), itertools.repeat(tuple)))
        values = list(itertools.chain.from_iterable(tuples))
    return True


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, tuple):
        if _PLAIN.issuperset(map(type, value)):
            return value if kind is tuple else tuple(value)
        return tuple([_plain(v) for v in value])
    if isinstance(value, Record):
        held = value.__dict__
        return tuple([_plain(held[field]) for field in value._fields])
    if isinstance(value, Mapping):
        return tuple((_plain(k), _plain(v)) for k, v in value.items())
    raise NotPlainError(kind.__name__)


def encode(plan: CallPlan, lines: Sequence[str]) -> bytes:
    """Return the bytes of a plan, with the user's lines as numbers: they may move between processes.

    Raises NotPlainError if an attribute cannot be written, or a line is not among `lines`.
    """
    number = {line: k for k, line in enumerate(lines)}

    def numbered(source: str | None) -> int | None:
        if source is not None and source not in number:
            raise NotPlainError("a line of no step")
        return None if source is None else number[source]

    return exact_bytes(_with_sources(plan, numbered))


def decode(data: bytes, lines: Sequence[str]) -> CallPlan:
    """Return the plan that `encode` wrote, with the lines of its program."""
    plan = _call_plan(marshal.loads(data))
    return _with_sources(plan, lambda source: None if source is None else lines[source])


def _call_plan(fields: tuple[Any, ...]) -> CallPlan:
    steps, commits, results, outputs, views, offsets, arena_bytes, literals = fields
    return CallPlan(
        tuple(map(_step, steps)), tuple(map(_step, commits)), dict(results), dict(outputs),
        {v: Window(*w) for v, w in views}, dict(offsets), arena_bytes, dict(literals),
    )


def _step(fields: tuple[Any, ...]) -> Any:
    if type(fields[0]) is int:
        kernel, units, cost_ns, scratch, buffers, words, checks, *order = fields
        checked = tuple(IndexCheck(*c) for c in checks)
        return KernelCall(kernel, units, cost_ns, scratch, buffers, words, checked, *order)
    name, attrs, inputs, outputs, step, source, bodies = fields
    held = tuple((name, BodyPlan(feeds, _call_plan(plan))) for name, (feeds, plan) in bodies)
    reads, writes = (tuple(Window(*w) for w in side) for side in (inputs, outputs))
    return LibraryCall(name, attrs, reads, writes, step, source, held)


def _with_sources(plan: CallPlan, change: Callable[[Any], Any]) -> CallPlan:
    """Return the plan with every line changed."""

    def changed(step: Any) -> Any:
        if type(step) is LibraryCall:
            bodies = tuple((name, b.replace(plan=_with_sources(b.plan, change))) for name, b in step.bodies)
            return step.replace(source=change(step.source), bodies=bodies)
        if not step.checks:
            return step
        return step.replace(checks=tuple(c.replace(source=change(c.source)) for c in step.checks))

    return plan.replace(steps=tuple(map(changed, plan.steps)), commits=tuple(map(changed, plan.commits)))

"""Call plans on disk: a program found there needs no passes, no planning and no kernel forms.

An entry holds the call plan of one mode of a traced program, and the keys and canonical forms of its kernels' objects.
These are entries of their own, shared by programs. Owns the keys and the format of plan entries. Does not own the
plan's bytes (`jitfuse.compile.call_plans.call_plan`) nor the store.
"""
from __future__ import annotations

import marshal
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from jitfuse.base.lazy import cached_property
from jitfuse.base.records import Record
from jitfuse.cache import Entry, cache_key, default_store, find_entry
from jitfuse.compile.call_plans.call_plan import CallPlan, NotPlainError, decode, encode, exact_bytes
from jitfuse.compile.objects.kernel_object import Kernels
from jitfuse.compile.objects.keys import environment, kernel_parts
from jitfuse.compile.objects.objects import find_object, first_of
from jitfuse.compile.objects.origin import Origin
from jitfuse.ir.operators import ops
from jitfuse.ir.program import AttrValue, FusedProgram, Meta, OpStep
from jitfuse.tracing.trace import Trace


class PlanName(Record, frozen=True):
    """The name of a stored plan: the canonical form behind its key, and the source lines that its steps may name."""

    canonical: bytes
    lines: tuple[str, ...]

    @cached_property
    def key(self) -> str:
        """The key of the plan on this machine, of this jitfuse and Python."""
        return cache_key({**environment(touches_python=True), **kernel_parts(), "plan": self.canonical})


class FoundPlan(Record, frozen=True):
    """A plan from the disk with its kernels (None: it launches none)."""

    call: CallPlan
    kernels: Kernels | None


def plan_name(trace: Trace, training: bool, schedule: str) -> PlanName | None:
    """Return the name of one mode's plan, or None if the program holds a value that cannot be written as bytes.

    Source lines enter it only by which steps share one: their position in a file may change.
    """
    program = trace.program
    written = tuple(step_lines(program))
    lines = tuple(dict.fromkeys(line for _, line in written))
    number = {line: k for k, line in enumerate(lines)}
    shared = tuple((step, number[line]) for step, line in written)
    strides = tuple((feed, s.strides) for feed, s in sorted(trace.feeds.items()) if s.kind == "array")
    try:
        canonical = exact_bytes((_program(program), strides, shared, training, schedule))
    except NotPlainError:
        return None
    return PlanName(canonical, lines)


def step_lines(program: FusedProgram) -> Iterator[tuple[int, str]]:
    """Yield (step, line) of a program's steps, then of those of the programs that its steps hold."""
    yield from sorted(program.sources.items())
    for step in program.steps:
        for _, value in step.attrs if step.op_name in ops.HOLD_PROGRAMS else ():
            if isinstance(value, FusedProgram):
                yield from step_lines(value)


def _program(program: FusedProgram) -> tuple[Any, ...]:
    number: dict[Meta, int] = {}
    return (
        program.version,
        tuple(sorted(program.feeds)),
        _pairs(program.feed_names),
        tuple([_step(s) for s in program.steps]),
        tuple(program.outputs.items()),
        tuple(sorted(program.state_in)),
        _pairs(program.state_out),
        _pairs(program.writes),
        tuple([(value, number.setdefault(meta, len(number))) for value, meta in sorted(program.meta.items())]),
        tuple(map(tuple, number)),
    )


def _step(step: OpStep) -> tuple[Any, ...]:
    if step.op_name not in ops.HOLD_PROGRAMS:
        return tuple(step)
    return (*step[:3], tuple((name, _attribute(value)) for name, value in step.attrs), *step[4:])


def _pairs(mapping: Any) -> tuple[Any, ...]:
    return tuple(sorted(mapping.items()))


def _attribute(value: AttrValue) -> Any:
    if isinstance(value, FusedProgram):
        return "program", _program(value)
    return tuple(map(_attribute, value)) if type(value) is tuple else value


def find_plan(name: PlanName, origin: Origin) -> FoundPlan | None:
    """Return the plan of this name and its kernels, or None if either is neither in this process nor on disk."""
    return first_of(lambda accept: find_entry(lambda: name.key, name.canonical, count=False, accept=accept),
                    lambda entry: plan_of(entry, name, origin))


def plan_of(entry: Entry, name: PlanName, origin: Origin) -> FoundPlan | None:
    """Return the plan of an entry, or None if one of its objects is missing."""
    try:
        made_of, members, written = marshal.loads(entry.code)
        call = decode(written, name.lines)
        if not members:
            return FoundPlan(call, None)
        found = [find_object(partial(str, key), canonical, origin) for key, canonical in made_of]
        objects = [one for one in found if one is not None]
        if len(objects) < len(found):
            return None
        kernels = Kernels([(objects[k][0], objects[k][1] + number) for k, number in members])
    except (ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, TypeError, ValueError) as error:
        # not written by jitfuse: marshal allocates any length that it reads
        default_store().reject(name.key, f"it is no plan: {error}", count=False)
        return None
    return FoundPlan(call, kernels)


def plan_entry(name: PlanName, call: CallPlan, kernels: Kernels | None, origin: Origin) -> Entry | None:
    """Return the entry of a plan, or None if it holds a value that cannot be written as bytes."""
    try:
        written = encode(call, name.lines)
    except NotPlainError:
        return None
    objects = () if kernels is None else kernels.objects
    made_of = tuple((made.key, made.canonical) for made in objects)
    members = () if kernels is None else tuple((objects.index(made), number) for made, number in kernels.members)
    metadata = {"kind": "plan", "function": origin.function, "source": origin.source, "created": int(time.time())}
    return Entry(name.key, metadata, name.canonical, exact_bytes((made_of, members, written)))

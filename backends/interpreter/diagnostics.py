"""CutWireErrors: where a program failed, with the steps before and after.

Owns: how an error is filled from a program and the available values. Each function returns the error to raise.
An error is also a ShapeError, DTypeError, ArgumentError, BoundsError or NumericError where its cause is one,
so that ``except ValueError`` catches the same mistakes as with NumPy.
"""
from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from jitfuse.base.records import NamedTuple
from jitfuse.errors import (
    ArgumentError,
    BoundInput,
    BoundsError,
    CutWireError,
    DTypeError,
    Neighbour,
    NumericError,
    ShapeError,
)
from jitfuse.ir.formats.text import meta_text, step_text
from jitfuse.ir.operators import ops
from jitfuse.ir.program import FusedProgram, Meta, OpStep

DEPTH: Final = 2


class CutWireShapeError(CutWireError, ShapeError):
    """Shapes that do not fit at one step or feed of a program."""


class CutWireDTypeError(CutWireError, DTypeError):
    """Dtypes that do not fit at one step or feed of a program."""


class CutWireArgumentError(CutWireError, ArgumentError):
    """An attribute, a device or a value of the wrong kind at one step or feed of a program."""


class CutWireNumericError(CutWireError, NumericError):
    """A value for which an operator raises, such as an integer raised to a negative power."""


class CutWireBoundsError(CutWireError, BoundsError):
    """An index among a step's operands that is out of bounds of its axis."""


_KINDS: Final[tuple[tuple[type[BaseException], type[CutWireError]], ...]] = (
    (ShapeError, CutWireShapeError), (DTypeError, CutWireDTypeError), (ArgumentError, CutWireArgumentError),
    (IndexError, CutWireBoundsError), (ValueError, CutWireNumericError), (ArithmeticError, CutWireNumericError),
)


def of_cause(cause: BaseException) -> type[CutWireError]:
    """Return the kind of CutWireError that can be caught like its cause."""
    return next((kind for base, kind in _KINDS if isinstance(cause, base)), CutWireError)


def at_step(
    program: FusedProgram, step: OpStep, reason: str, *, known: Mapping[int, Meta | None],
    expected: str | None = None, actual: str | None = None, kind: type[CutWireError] = CutWireError,
) -> CutWireError:
    """Return the error of a failure at a step; `known` maps each available value to its meta.

    An input is missing where neither the caller nor an earlier step makes it. Results of earlier steps may be
    unavailable: steps are checked before the first one runs, and a mode skips steps that it does not need.
    """
    made = {*known, *_made_before(program, step)}
    inputs = tuple(
        BoundInput(i, i in made, known.get(i) or program.meta.get(i)) for i in dict.fromkeys(step.input_ids)
    )
    return kind(
        reason, step_id=step.step_id, op_name=step.op_name, inputs=inputs,
        result_id=step.result_id if step.result_ids else None, expected=expected, actual=actual,
        producers=tuple(producers(program, step.input_ids)),
        consumers=tuple(consumers(program, step.result_ids)), source=program.sources.get(step.step_id),
    )


def _made_before(program: FusedProgram, step: OpStep) -> Iterator[int]:
    for earlier in program.steps:
        if earlier is step:
            return
        yield from earlier.result_ids


def at_boundary(
    program: FusedProgram, reason: str, feeds: Iterable[BoundInput], *, expected: str | None = None,
    actual: str | None = None, kind: type[CutWireError] = CutWireError,
) -> CutWireError:
    """Return the error of a failure between the caller and the program's feeds."""
    inputs = tuple(feeds)
    readers = tuple(consumers(program, [i.id for i in inputs]))
    source = program.sources.get(readers[0].step_id) if readers else None
    return kind(reason, inputs=inputs, expected=expected, actual=actual, consumers=readers, source=source)


def unknown_operator(
    program: FusedProgram, step: OpStep, cls: type, known: Mapping[int, Meta]
) -> CutWireError:
    """Return the error of an operator that is not in the op table or that the class does not define."""
    there = [op.name for op in ops.table() if op.kind == ops.CREATION or hasattr(cls, op.name)]
    close = difflib.get_close_matches(step.op_name, there, n=3, cutoff=0.5)
    hint = f"the closest are {', '.join(close)}" if close else "no operator has a name like it"
    why = "is no operator" if ops.get(step.op_name) is None else "is no method of this class"
    return at_step(
        program, step, f"{step.op_name!r} {why}; searched {cls.__module__}.{cls.__qualname__}: {hint}",
        known=known, kind=CutWireArgumentError,
    )


def feed_text(program: FusedProgram, feed: int) -> str:
    """Return a feed as text: its name, if it has one, and its id."""
    name = program.feed_names.get(feed)
    return f"{name} (%{feed})" if name else f"%{feed}"


def describe(meta: Meta) -> str:
    """Return shape, dtype and device as text."""
    return meta_text(meta)


class Clash(NamedTuple):
    """A difference between a value and its meta in the program, and the kind of error for it."""

    what: str
    kind: type[CutWireError]


def clash(expected: Meta | None, actual: Meta) -> Clash | None:
    """Return the first difference of a value from its meta; None where it fits or has no meta."""
    if expected is None:
        return None
    if expected.shape != actual.shape:
        return Clash("shape", CutWireShapeError)
    if expected.dtype != actual.dtype:
        return Clash("dtype", CutWireDTypeError)
    if expected.weak != actual.weak:
        return Clash("kind of scalar (weak or strong)", CutWireDTypeError)
    if expected.device != actual.device and not expected.weak:
        return Clash("device", CutWireArgumentError)
    return None


def producers(program: FusedProgram, ids: Iterable[int]) -> Iterator[Neighbour]:
    """Yield the steps that make the values, each followed by those before it, two deep, each step once."""
    yield from _walk(program, ids, 1, backwards=True, seen=set())


def consumers(program: FusedProgram, ids: Iterable[int]) -> Iterator[Neighbour]:
    """Yield the steps that read the values, each followed by those after it, two deep, each step once."""
    yield from _walk(program, ids, 1, backwards=False, seen=set())


def _walk(
    program: FusedProgram, ids: Iterable[int], distance: int, *, backwards: bool, seen: set[int]
) -> Iterator[Neighbour]:
    beside: dict[int, OpStep] = {}
    for i in ids:
        made = program.producers.get(i)
        steps = ((made,) if made else ()) if backwards else program.consumers.get(i, ())
        beside.update((step.step_id, step) for step in steps if step.step_id not in seen)
    seen.update(beside)
    for step in beside.values():
        yield Neighbour(step.step_id, step.op_name, distance, step_text(program, step))
        if distance < DEPTH:
            further = step.input_ids if backwards else step.result_ids
            yield from _walk(program, further, distance + 1, backwards=backwards, seen=seen)

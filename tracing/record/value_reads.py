"""Reads of traced values by Python, and the interface that answers them.

Owns `Question` and `Answer`, and how a read gets from a traced tensor to the trace's breaker. Does not own graph
breaks (`jitfuse.graph_breaks`) or values that are known while tracing (`jitfuse.tracing.record.known_values`).
"""
from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

import numpy as np

from jitfuse.base.records import NamedTuple, Record
from jitfuse.ir.program import Meta
from jitfuse.tracing.record.known_values import UnknownValueError, known_truth, value_read_error
from jitfuse.tracing.record.session import ModeMattersSignal, Session
from jitfuse.tracing.record.source import user_line

if TYPE_CHECKING:
    from jitfuse.reasons import Reason
    from jitfuse.tracing.record.recorder import Recorder

MAX_READ: Final = 4096
"""Elements of an array that Python may read as a whole: its values become part of the program."""


class Answer(NamedTuple):
    """The answer to a read: a key that is equal for equal answers, bit by bit, and the value that Python gets.

    `arrays`: what the answer brings that is no part of the key. It is live from then on.
    """

    key: Hashable
    value: Any
    arrays: tuple[np.ndarray[Any, Any], ...] = ()


class Cost(Record):
    """What the calls of a library function have taken."""

    calls: int = 0
    nanoseconds: int = 0


class Question(Record, frozen=True):
    """A read of traced values: its name, the user's line, and the function from the arrays' values to the answer.

    `number` is the Python type of the answer if the answer is the one value read, unchanged, in that type. `extent`:
    the value is, or bounds, an extent of an array with a data-dependent shape. `reads_data`: the answer is made of one
    array in C order, and the read has no other effect. `brings`: the answer may bring arrays; asking has no effect.
    `cost`: what asking takes, if that is a call of Python's, and `given` its arguments that are not traced.
    `of_numbers`: what is read is made of the call's own numbers alone, which are data because they vary.
    """

    what: str
    line: str
    ask: Callable[..., Answer]
    number: type | None = None
    extent: bool = False
    reads_data: bool = False
    brings: bool = False
    cost: Cost | None = None
    given: Hashable = None
    of_numbers: bool = False


Site = tuple[str, int, int] | tuple[str, str, int]
"""File, line and column of a branch of the user's code; or the operation that makes a Python number, file and line."""


class GraphBreaker(Protocol):
    """Answers the reads of values of one trace."""

    training: bool
    """The mode of the call that is traced."""

    @property
    def most_operators(self) -> int:
        """How many operators the run may record."""
        ...

    def decides(self, site: Site) -> bool:
        """Return whether Python decides a branch at a site, or reads a number there as soon as it is made."""
        ...

    def varies(self, name: str) -> bool:
        """Return whether Python has read many values of the number of this name, so that it counts as data."""
        ...

    def decide(self, sites: Iterable[Site]) -> NoReturn:
        """Have Python decide at these sites from now on, and end this run of the function."""
        ...

    def give_up(self, reason: Reason, text: str) -> NoReturn:
        """Run the function as plain Python from now on, and end this run of it."""
        ...

    def note_operators(self, count: int, line: str) -> None:
        """Record that a run has so many operators, the last at a line; may end the run, as `give_up` does."""
        ...

    @property
    def asked(self) -> bool:
        """Whether Python has read any value."""
        ...

    def answer(self, run: Recorder, question: Question, tensors: tuple[int, ...]) -> Any:
        """Return the value that Python gets."""
        ...


def read_value(run: Recorder, tensor: int, what: str, convert: Callable[[Any], Any], *, extent: bool = False) -> Any:
    """Return the value that Python gets when it reads a tensor; raises TracedValueError where it cannot be known."""
    if run.graph.metas[tensor].size > MAX_READ:
        raise value_read_error(run.graph.describe(tensor), what)

    def answer(array: np.ndarray[Any, Any]) -> Answer:
        value = convert(array[()])
        if isinstance(value, np.ndarray):
            value = value.copy()  # the answer outlives the call, and the array may be an argument
        return Answer((what, exact(value)), value)

    number = _number(run.graph.metas[tensor], convert)
    if number is None and tensor in run.session.feeds and may_break(run):
        tensor = run.emit("copy", (tensor,))  # independent of the argument's strides
    return ask(run, Question(what, run.fixed_source or user_line(), answer, number, extent, reads_data=True), (tensor,))


def read_truth(run: Recorder, tensor: int) -> bool:
    """Return the value of a bool, which Python reads where it is not known."""
    try:
        return known_truth(run, tensor)
    except UnknownValueError:
        return bool(read_value(run, tensor, "bool()", bool))


def _number(meta: Meta, convert: Callable[[Any], Any]) -> type | None:
    """Return the Python type of a read that takes one value unchanged, else None."""
    as_it_is = {"bool": bool, "int32": int, "int64": int, "float32": float, "float64": float}.get(meta.dtype)
    wanted = int if convert is operator.index else convert
    return as_it_is if meta.size == 1 and wanted is as_it_is else None


def may_break(run: Recorder) -> bool:
    """Return whether a graph break is possible where the run is now."""
    return run.breaker is not None and run.session.region is None and not run.session.on_device


def may_put_off(run: Recorder) -> bool:
    """Return whether a read may be deferred here, because a later graph break or another trace can still make it."""
    loops = run.loops
    return may_break(run) or bool(run.breaker is not None and loops and run.session.region is loops[-1].region)


def ask(run: Recorder, question: Question, tensors: tuple[int, ...]) -> Any:
    """Break the graph at a read and return the value that Python gets; raises TracedValueError outside `may_break`."""
    breaker = run.breaker
    if breaker is None or not may_break(run):
        raise value_read_error(run.graph.describe(tensors[0]), question.what)
    if run.speculative_loops:
        run.raise_copied()
    if run.active_branches:
        breaker.decide((run.active_branches[-1].both.site,))
    if not breaker.asked:
        if run.replays or (run.mode != breaker.training and run.mode_read):
            run.mode_matters = True
            raise ModeMattersSignal
        run.mode = breaker.training
    if tensors and all(_is_of_numbers(run.session, tensor) for tensor in tensors):
        question = question.replace(of_numbers=True)
    found = breaker.answer(run, question, tensors)
    run.value_reads += 1
    return found


def _is_of_numbers(session: Session, tensor: int) -> bool:
    """Return whether a tensor is computed from the call's numbers and constants alone."""
    todo, seen = [tensor] if session.dynamic else [], set[int]()
    while todo:
        t = todo.pop()
        node = session.graph.node(t)
        if node is None and t not in session.dynamic:
            return False
        seen.add(t)
        todo += () if node is None else (i for i in node.input_ids if i not in seen)
    return bool(seen)


def exact(value: Any) -> Hashable:
    """Return a key that is equal for values of equal type and bits alone."""
    if isinstance(value, np.ndarray | np.generic):
        return type(value).__name__, value.shape, value.dtype.str, value.tobytes()
    return type(value).__name__, repr(value)

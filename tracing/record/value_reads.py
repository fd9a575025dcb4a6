"""Questions that Python asks of traced data: what is asked, and who answers.

Owns `Question`, what a question's answer is made of, and the way from a traced tensor to the breaker of the trace.
Does not own splitting (`jitfuse.graph_breaks`) or values that are known while tracing
(`jitfuse.tracing.record.known_values`).
"""
from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final, NoReturn, Protocol

import numpy as np

from jitfuse.base.records import NamedTuple, Record
from jitfuse.ir.program import Meta
from jitfuse.tracing.record.known_values import value_read_error
from jitfuse.tracing.record.mode import ModeMattersSignal
from jitfuse.tracing.record.recorder import Recorder
from jitfuse.tracing.record.source import user_line

MAX_READ: Final = 4096
"""Elements of an array that Python may look at as a whole: its values become part of the program."""


class Answer(NamedTuple):
    """What a question found: a key that tells answers apart, the value itself bit by bit, and what Python gets."""

    key: Hashable
    value: Any


class Question(Record, frozen=True):
    """A look at traced data: what it is called, the user's line, and how its answer comes from the arrays' values.

    `number` is the Python type of the answer where it is nothing but the one value asked for, as that type has it.
    `extent` says that the value is one, or bounds one, of arrays whose shapes depend on data. `reads_data` says that
    the answer is what Python sees of one array in C order, and that nothing else happens where it is asked.
    """

    what: str
    place: str
    ask: Callable[..., Answer]
    number: type | None = None
    extent: bool = False
    reads_data: bool = False


Site = tuple[str, int, int] | tuple[str, str, int]
"""File, line and column of a branch of the user's code; or what makes a number of Python's, file and line."""


class GraphBreaker(Protocol):
    """Answers questions for one trace."""

    training: bool
    """The mode of the call that is traced."""

    def decides(self, place: Site) -> bool:
        """Return whether Python decides in a branch which way to go, or looks at a number when it is made."""
        ...

    def decide(self, places: Iterable[Site]) -> NoReturn:
        """Have Python decide in branches from now on, and end this run of the function."""
        ...

    def give_up(self, why: str) -> NoReturn:
        """Have the function be plain Python from now on, and end this run of it."""
        ...

    def note_operators(self, count: int, line: str) -> None:
        """Hear that a run has recorded so many operators, last at a line; may end it, as `give_up` does."""
        ...

    @property
    def asked(self) -> bool:
        """Whether anything has been asked."""
        ...

    def answer(self, run: Recorder, question: Question, tensors: tuple[int, ...]) -> Any:
        """Return what Python gets."""
        ...


def read_value(run: Recorder, tensor: int, what: str, convert: Callable[[Any], Any], *, extent: bool = False) -> Any:
    """Return what Python sees when it looks at a tensor's value; raises TracedValueError where nobody can tell."""
    if run.graph.metas[tensor].size > MAX_READ:
        raise value_read_error(run.graph.describe(tensor), what)

    def answer(array: np.ndarray[Any, Any]) -> Answer:
        value = convert(array[()])
        if isinstance(value, np.ndarray):
            value = value.copy()  # it is kept, and the array may be an argument
        return Answer((what, exact(value)), value)

    number = _number(run.graph.metas[tensor], convert)
    if number is None and tensor in run.session.feeds and may_break(run):
        tensor = run.emit("copy", (tensor,))  # whatever the argument's strides are
    return ask(run, Question(what, run.fixed_source or user_line(), answer, number, extent, reads_data=True), (tensor,))


def _number(meta: Meta, convert: Callable[[Any], Any]) -> type | None:
    """Return the Python type of a look at one value that takes it as it is."""
    as_it_is = {"bool": bool, "int32": int, "int64": int, "float32": float, "float64": float}.get(meta.dtype)
    wanted = int if convert is operator.index else convert
    return as_it_is if meta.size == 1 and wanted is as_it_is else None


def may_break(run: Recorder) -> bool:
    """Return whether somebody answers looks at data where the run is now."""
    return run.breaker is not None and run.session.region is None and not run.session.on_device


def may_put_off(run: Recorder) -> bool:
    """Return whether what Python would look at may stay traced data here: a look, or another trace, is the way out."""
    loops = run.loops
    return may_break(run) or bool(run.breaker is not None and loops and run.session.region is loops[-1].region)


def ask(run: Recorder, question: Question, tensors: tuple[int, ...]) -> Any:
    """Split the program at a question; return its answer's value."""
    breaker = run.breaker
    if breaker is None or not may_break(run):
        raise value_read_error(run.graph.describe(tensors[0]), question.what)
    if run.speculative_loops:
        run.refuse_copies()
    if run.active_branches:
        breaker.decide((run.active_branches[-1].both.place,))
    if not breaker.asked:
        if run.replays or (run.mode != breaker.training and run.mode_read):
            run.mode_matters = True
            raise ModeMattersSignal
        run.mode = breaker.training
    found = breaker.answer(run, question, tensors)
    run.value_reads += 1
    return found


def exact(value: Any) -> Hashable:
    """Return a key that tells values apart bit by bit, and by type."""
    if isinstance(value, np.ndarray | np.generic):
        return type(value).__name__, value.shape, value.dtype.str, value.tobytes()
    return type(value).__name__, repr(value)

"""The audit of a train step before training: all that is wrong with it at once, with lines.

The step is traced in training mode, and all that the trace has recorded is run in the interpreter, also what nothing
needs. Where Python reads a traced value, the interpreter answers from what is recorded until there.
"""
from __future__ import annotations

import copy
import functools
import types
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, NoReturn

import numpy as np

from jitfuse.backends.interpreter.runner import ProgramRunner
from jitfuse.errors import ArgumentError, DerivativeError, UntraceableError
from jitfuse.function.call import Call
from jitfuse.fuse import FusedFunction
from jitfuse.gradients.findings import collected
from jitfuse.graph_breaks.signals import RestartSignal
from jitfuse.ir.formats.phases import phase_of
from jitfuse.ir.operators import ops
from jitfuse.ir.program import FusedProgram, Meta, OpStep
from jitfuse.random_state import state_feeds
from jitfuse.reasons import Reason, Why
from jitfuse.reports import public_methods
from jitfuse.tracing.record.output import held
from jitfuse.tracing.record.recorder import Recorder
from jitfuse.tracing.record.regions import in_closed
from jitfuse.tracing.record.session import Session
from jitfuse.tracing.record.value_reads import Question, Site
from jitfuse.tracing.subgraph import TracedSubgraph, cut
from jitfuse.tracing.trace import TraceEnd

_RUNS: Final = 64
"""Runs of a step after which Python is not asked about further branches."""


def audit(step: Any, *args: Any, exempt: Collection[str] = (), **kwargs: Any) -> None:
    """Check a train step on the arguments of its first call; no state moves, nothing is compiled.

    Reports operators without a derivative, parameters that the loss does not depend on, and the steps that make the
    first infinities and NaNs out of finite numbers: in all that the function computes, in gradients and in what is
    written. Graph breaks are gone through: Python reads what the interpreter has computed.

    Args:
        step: a fused function that calls `minimize`.
        args, kwargs: arguments of a call.
        exempt: names of operators and parameters that are not reported.

    Returns:
        None.

    Raises:
        DerivativeError: all that is found, with lines.
        UntraceableError: calls of the step run as plain Python.

    Example:
        >>> params = jf.nn.parameters({"w": np.zeros(2), "b": np.zeros(2)})
        >>> opt = jf.optim.SGD(params, lr=0.1)
        >>> @jf.fuse(training=True)
        ... def step(x):
        ...     opt.minimize(np.sum(np.log(params["w"]) * np.round(x * params["w"])))
        >>> try:
        ...     jf.optim.audit(step, np.ones(2))
        ... except jf.DerivativeError as error:
        ...     print(str(error).splitlines()[0])
        the audit of step finds 2 faults:
    """
    exempt = (exempt,) if isinstance(exempt, str) else tuple(exempt)
    if isinstance(step, types.MethodType) and isinstance(step.__func__, FusedFunction):
        step, args = step.__func__, (step.__self__, *args)
    if not isinstance(step, FusedFunction):
        raise ArgumentError(f"jf.optim.audit takes a fused function, not a {type(step).__name__}; decorate it with "
                            "jf.fuse(training=True)")
    definition = step.parts.definition
    options = copy.copy(definition.options)
    options.training = True
    again: FusedFunction[..., Any] = FusedFunction(definition.fn, options)
    with collected() as found:
        faults = public_methods.report(lambda call: _non_finite(call, exempt), again.parts, args, kwargs)
    known = [text for about, text in found if not (about and about <= set(exempt))]
    if faults or known:
        listed = [*known, *faults]
        lines = "".join(f"\n- {text}" for text in listed)
        raise DerivativeError(f"the audit of {step.name} finds {len(listed)} fault{'s' * (len(listed) > 1)}:{lines}")


def _non_finite(call: Call, exempt: Collection[str]) -> list[str]:
    """Run the step in the interpreter, and return what makes the first numbers that are not finite."""
    call.hold_generators()  # reads their states
    call.release_generators()
    sites: set[Site] = set()
    for _ in range(_RUNS):
        answers = _Answers(sites, call.table.definition.options.budget.operators)
        try:
            with held():
                end = call.table.trace(call, answers)
        except RestartSignal:
            continue
        if not answers.ended:  # else user code has caught the signal
            assert isinstance(end, TraceEnd)
            return _faults(answers, end, exempt)
    raise UntraceableError(f"the audit of {call.table.definition.name} has not come to an end in {_RUNS} runs")


class _Answers:
    """The breaker of an audit: answers what Python reads by the interpreter. `sites`: where Python decides."""

    training = True
    asked = True  # of this run alone there is a record of all steps

    def __init__(self, sites: set[Site], most_operators: int) -> None:
        self.most_operators = most_operators
        self.ended = False
        self._sites = sites
        self._brought: list[np.ndarray[Any, Any]] = []

    def run(
        self, session: Session, part: TracedSubgraph, after: Callable[[FusedProgram, OpStep, Any], None] | None = None
    ) -> list[Any]:
        """Run what has been recorded, and return its outputs; `after` is called with each step that has run."""
        program = part.program("slack")
        values = [self._value(session, slot.kind == "live", slot.number) for slot in part.slots]
        feeds = {feed: values[feed] for feed in program.feeds}
        ran = ProgramRunner(program)(feeds, True, None if after is None else functools.partial(after, program))
        return list(ran.outputs.values())

    def _value(self, session: Session, is_brought: bool, number: int) -> Any:
        if is_brought:
            return self._brought[number]
        feed = session.feeds[number]
        return state_feeds()[feed.source] if feed.kind == "state" else feed.value

    # ------------------------------------------------------------------ as a `GraphBreaker`
    def answer(self, run: Recorder, question: Question, tensors: tuple[int, ...]) -> Any:
        """Answer a read; arrays that the answer brings are feeds from then on."""
        session = run.session
        made = self.run(session, cut(session, {str(k): tensor for k, tensor in enumerate(tensors)}, {}))
        answer = question.ask(*map(np.asarray, made))
        for array in answer.arrays:
            meta = Meta(array.shape, array.dtype.name)
            session.live[session.graph.add_feed(meta, f"a result of {question.what}")] = len(self._brought)
            self._brought.append(array)
        return answer.value

    def decides(self, site: Site) -> bool:
        """Return whether Python decides a branch at a site."""
        return site in self._sites

    def varies(self, name: str) -> bool:
        """Return whether a number counts as data: never, in one call."""
        return False

    def decide(self, sites: Iterable[Site]) -> NoReturn:
        """Have Python decide at these sites from now on, and end this run."""
        self._sites.update(sites)
        self.ended = True
        raise RestartSignal

    def give_up(self, reason: Reason, text: str) -> NoReturn:
        """Raise an error: calls of the step run as plain Python."""
        raise UntraceableError(Why(reason, text))

    def note_operators(self, count: int, line: str) -> None:
        """Do nothing: `most_operators` is the limit."""


def _faults(answers: _Answers, end: TraceEnd, exempt: Collection[str]) -> list[str]:
    """Run all that the trace has recorded of the function itself, and what its derivatives deliver."""
    session = end.session
    forward = [op for op in session.graph.ops if not phase_of(op.source) and not in_closed(session, op.id)]
    read = {i for op in forward for i in op.input_ids}
    ends = [r for op in forward for r in op.result_ids if r not in read]
    outputs = dict.fromkeys((*end.boundary.outputs.values(), *ends))
    faults: dict[str, None] = {}

    def after(program: FusedProgram, step: OpStep, store: Any) -> None:
        row = ops.get(step.op_name)
        if step.op_name in exempt or row is None or row.kind == ops.CREATION:
            return
        if all(_finite(store[i]) for i in step.input_ids if i in store) and not all(
                _finite(store[r]) for r in step.result_ids):
            kinds = "NaN" if any(np.isnan(np.asarray(store[r].value)).any() for r in step.result_ids) else "infinity"
            faults[f"{step.op_name} makes {kinds} of finite numbers, {_line(program, step)}"] = None

    answers.run(session, cut(session, {str(k): t for k, t in enumerate(outputs)}, end.boundary.writes), after)
    return list(faults)


def _line(program: FusedProgram, step: OpStep) -> str:
    return f"at {program.sources.get(step.step_id, 'a line of jitfuse')}"


def _finite(tensor: Any) -> bool:
    value = np.asarray(tensor.value)
    return value.dtype.kind not in "fc" or bool(np.isfinite(value).all())

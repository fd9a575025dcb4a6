"""Adds edges to the trace tree: the user's function runs once more, and its reads of traced values are answered.

Owns `Building`, the breaker of one trace. Reads on the known path are answered from the tree. Each later read is a
graph break: it ends a subgraph, which is compiled and run with the call's own data, and the function continues with the
answer. Does not own the tree or the walk along it (`jitfuse.graph_breaks.tree`).
"""
from __future__ import annotations

import sys
import types
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from jitfuse.compile.guards.matching import Conditions
from jitfuse.compile.run.delivery import Delivery
from jitfuse.errors import OverlapError
from jitfuse.graph_breaks.compiled_subgraph import CompiledSubgraph
from jitfuse.graph_breaks.signals import (
    BRANCHED,
    BRANCHED_IF_REPEATED,
    LOOPED,
    REPLAYED,
    BackEdgeSignal,
    BreakSignal,
    RestartSignal,
)
from jitfuse.graph_breaks.tree import Edge, TraceTree, TreePosition, TreeResult, TreeState, Walk
from jitfuse.tracing.interception.chain import Guard
from jitfuse.tracing.numbers.arithmetic import is_of_data
from jitfuse.tracing.observe.python_state import (
    PythonState,
    calling_frames,
    python_state,
    reading_frames,
    repeats,
)
from jitfuse.tracing.record.memory import Storage
from jitfuse.tracing.record.recorder import Recorder
from jitfuse.tracing.record.session import Session
from jitfuse.tracing.record.source import is_user_code
from jitfuse.tracing.record.value_reads import Answer, Question
from jitfuse.tracing.rewrite import branches
from jitfuse.tracing.subgraph import TracedSubgraph, ValueSlot, cut
from jitfuse.tracing.trace import FeedSource, TraceEnd, feed_sources, guards_of, reject_overlap

if TYPE_CHECKING:
    from jitfuse.graph_breaks.breaks import Breaks

_PATHS: Final = 6
"""Python states remembered per instruction, one of which may recur but for counters: a loop has a path per branch."""


class Building:
    """The breaker of one trace. `position` is the end of the tree, and advances with it."""

    def __init__(self, tree: TraceTree, walk: Walk, position: TreePosition, training: bool, breaks: Breaks) -> None:
        self.position = position
        self._tree = tree
        self._walk, self._training, self._breaks, self._limits = walk, training, breaks, breaks.limits
        state, answer, _ = position
        self._known = state.path() + ([(state, answer)] if answer is not None else [])
        self._count = 0
        self._ops = self._recorded = 0
        self._mark: Hashable = None
        self._guards = 0
        self._steps = 0
        self._checked: dict[int, Any] = {}
        self._stopped: BaseException | None = None
        self._pythons: dict[Hashable, deque[PythonState]] = {}
        """The last Python states at each instruction that has read a traced value."""
        self._often: dict[str, int] = {}
        self._added: dict[str, int] = {}
        """By source line: reads that the run made, and graph breaks that it added to the tree."""
        self._decided: set[str] = set()
        """Source lines with frequent reads whose branches could not be if-converted."""

    @property
    def signal(self) -> BreakSignal | OverlapError | None:
        """What ended the run although plain Python would have continued; user code may have caught it."""
        return self._stopped if isinstance(self._stopped, BreakSignal | OverlapError) else None

    @property
    def effort(self) -> tuple[int, int, int]:
        """How many operators the run has recorded, graph breaks it has added, and steps of the new subgraphs."""
        return self._recorded, max(0, self._count - len(self._known)), self._steps

    def close(self) -> None:
        """Drop the exception that ended the run, whose traceback keeps the call alive: the run is over."""
        self._stopped = None

    # ------------------------------------------------------------------ reads of values
    def answer(self, run: Recorder, question: Question, tensors: tuple[int, ...]) -> Any:
        """Answer one read: from the tree, or by running what was traced since the last one."""
        if self._stopped is not None:
            raise self._stopped  # user code caught it and continued
        try:
            self._move_mark(run.session)
            self._recorded = run.recorded
            nth, self._count = self._count, self._count + 1
            often = self._often[question.line] = self._often.get(question.line, 0) + 1
            new = nth - len(self._known)
            if new >= 0:
                added = self._added[question.line] = self._added.get(question.line, 0) + 1
                if new >= self._limits.budget.branches or added > self._limits.budget.branches // 2:
                    self._limits.note_length(question, new)
            due = often >= (BRANCHED_IF_REPEATED if run.repeats else BRANCHED) and nth >= len(self._known)
            if due and question.line not in self._decided and self._convert_branches(question):
                raise RestartSignal
            if often == LOOPED and nth >= len(self._known) and question.number is bool and self._capture_loop():
                raise RestartSignal
            if often == REPLAYED and nth < len(self._known):
                self._limits.note_iterations(question)
            if nth < len(self._known):
                return self._replay(run, question, tensors, *self._known[nth])
            return self._run_to(run, question, tensors, _written(run))
        except BaseException as error:
            self._stopped = error
            raise

    def _convert_branches(self, question: Question) -> bool:
        """If-convert the branches that read data, or capture their loops; False if that is done already, or cannot be
        done."""
        self._decided.add(question.line)
        of_int = question.what == "int()"
        if not (of_int or question.number is bool) or not self._limits.may_branch:
            return False
        if not _wanted_here(branches.want_loop if of_int else branches.want):
            return False
        self._limits.note_branching()
        return True

    def _capture_loop(self) -> bool:
        """Capture the loop that ends by this read; False as for `_convert_branches`."""
        if not self._limits.may_branch or not _wanted_here(branches.want_end):
            return False
        self._limits.note_branching()
        return True

    def _note_answer(self, question: Question, answer: Answer) -> None:
        """Count an answer; capture the loop of a range whose bound has taken too many values."""
        is_new = question.what == "int()" and question.line not in self._decided
        if is_new and self._limits.is_one_too_many(question, answer) and self._convert_branches(question):
            raise RestartSignal
        self._limits.note_answer(question, answer)

    def _note_state(self, run: Recorder, question: Question, python: PythonState | None) -> None:
        """Set `run.repeats`: whether the run may be in a loop that returns to the same state but for its counters."""
        if python is None:
            run.repeats = False
            return
        instruction = python[0]  # the instruction: a line may have several
        before = self._pythons.setdefault(instruction, deque(maxlen=_PATHS))
        run.repeats = any(repeats(state, python, run.counted) for state in before)
        before.append(python)

    def _move_mark(self, session: Session) -> None:
        """Add newly recorded operators and feeds to the mark."""
        ops = session.graph.ops
        new = tuple((op.op_name, op.input_ids, repr(op.attrs), op.result_ids) for op in ops[self._ops :])
        self._ops = len(ops)
        feeds = tuple((feed.id, feed.kind, feed.meta) for feed in session.feeds.values())
        self._mark = hash((self._mark, new, feeds))

    def _replay(
        self, run: Recorder, question: Question, tensors: tuple[int, ...], state: TreeState, answer: Answer,
    ) -> Any:
        known = state.question
        assert known is not None
        if (state.mark, state.asked, known.what, known.line, known.given) != (
                self._mark, tensors, question.what, question.line, question.given):
            self._limits.note_change()
            raise RestartSignal
        self._conditions(run.session, run.environment.guard_log.guards, _written(run))
        self._note_state(run, question, state.python)
        if self._count == len(self._known):
            self._note_answer(question, answer)  # a walk has met it
        self._adopt(run, state, answer)
        return answer.value

    def _adopt(self, run: Recorder, state: TreeState, answer: Answer) -> None:
        """Make the values that are live at a state, and what the answer brings, available to the run."""
        session = run.session
        for storage in (*_live(run), *run.storages.values()):
            storage.cache = {}  # views are read again: their earlier values are not carried across the break
        session.live = {tensor: number for number, tensor in enumerate(state.live)}
        for meta in state.brings.get(answer.key, ()):
            assert state.question is not None
            session.live[session.graph.add_feed(meta, f"a result of {state.question.what}")] = len(session.live)
        if state.python is not None:  # a back edge may lead here: live values and all computed of them are data
            session.known.clear()
            session.known_bytes = 0
            session.varying.update(session.live)

    def _run_to(
        self, run: Recorder, question: Question, tensors: tuple[int, ...], written: Mapping[int, int]
    ) -> Any:
        reject_overlap(run.session, written)  # else a read of memory that overlaps a written feed would see old values
        frames = calling_frames() if question.brings else reading_frames()
        live = _live(run)
        python = python_state(run, frames, live, at_call=question.brings)
        self._note_state(run, question, python)
        numbers = self._live(run, live)
        loop = self._ancestor(question, python)
        part, slots = self._cut(run.session, (*tensors, *numbers))
        target = loop or TreeState(
            question, self.position.state, self._answer_here(), tensors, numbers, self._mark, python)
        edge = self._edge(
            run.session, run.environment.guard_log.guards, part, written, asked=slots[: len(tensors)],
            keep=slots[len(tensors) :], target=target,
        )
        self._attach(edge)
        self._breaks.count()
        self._limits.note_effort(question, *self.effort)
        answer = self._walk.run(edge)
        assert answer is not None
        self.position = TreePosition(target, answer, answer.key)
        self._note_answer(question, answer)
        if loop is not None:
            raise BackEdgeSignal
        self._adopt(run, target, answer)
        return answer.value

    def _answer_here(self) -> Answer:
        """Return the answer that the next edge belongs to."""
        return self.position.answer or Answer(self.position.key, None)

    def _ancestor(self, question: Question, python: PythonState | None) -> TreeState | None:
        """Return the earlier state of this path from which the function continues exactly as from here."""
        state: TreeState | None = self.position.state if python is not None else None
        while state is not None:
            known = state.question
            if state.python == python and known is not None and (known.what, known.given) == (
                    question.what, question.given):
                return state
            state = state.parent
        return None

    def _live(self, run: Recorder, live: Sequence[Storage]) -> tuple[int, ...]:
        """Return the tensors live across the break: those of live arrays, and the values of written feeds."""
        session = run.session
        values = [s.value for s in live] + [s.value for s in run.storages.values()]
        values += [run.mixed[t].truth for t in values if t in run.mixed]
        weak = {t for t in values if session.graph.metas[t].weak and not is_of_data(session, t)} - session.counters
        return tuple(dict.fromkeys(t for t in values if t not in session.feeds and t not in weak))

    # ------------------------------------------------------------------ the end
    def end(self, end: TraceEnd) -> Delivery:
        """Add the last edge of the path, run it, and return the delivery of the call's results."""
        if self._stopped is not None:
            raise self._stopped
        if self._count < len(self._known):
            self._limits.note_change()
            raise RestartSignal
        session, boundary = end.session, end.boundary
        self._ops = len(session.graph.ops)
        outputs: dict[str, int] = {}
        slots: dict[str, ValueSlot] = {}
        for path, tensor in boundary.outputs.items():
            live_number = session.live.get(tensor)
            if live_number is not None and ValueSlot("live", live_number) not in slots.values():
                slots[path] = ValueSlot("live", live_number)
            else:
                slots[path] = ValueSlot("made", len(outputs))
                outputs[path] = tensor
        part = cut(session, dict(zip(map(str, range(len(outputs))), outputs.values())), boundary.writes)
        result = TreeResult(end.result, slots, session.torch)
        edge = self._edge(session, end.guards, part, boundary.writes, result=result)
        self._attach(edge)
        return self._walk.finish(edge)

    # ------------------------------------------------------------------ edges
    def _cut(self, session: Session, tensors: Sequence[int]) -> tuple[TracedSubgraph, tuple[ValueSlot, ...]]:
        """Return the subgraph that computes these tensors, and the slot of each."""
        slots: list[ValueSlot] = []
        made: dict[int, int] = {}
        for tensor in tensors:
            live_number = session.live.get(tensor)
            if live_number is not None:
                slots.append(ValueSlot("live", live_number))
            elif tensor in session.feeds:
                slots.append(ValueSlot("feed", tensor))
            else:
                slots.append(ValueSlot("made", made.setdefault(tensor, len(made))))
        return cut(session, {str(k): tensor for tensor, k in made.items()}, {}, for_later=True), tuple(slots)

    def _edge(
        self, session: Session, guards: Sequence[Guard], part: TracedSubgraph, writes: Mapping[int, int], **rest: Any
    ) -> Edge:
        conditions, feeds = self._conditions(session, guards, writes)
        empty = not part.boundary.outputs and not part.boundary.writes
        for feed in feeds:
            self._walk.bound[feed] = session.feeds[feed].value  # not read again: the function may have written to it
        self._walk.eager = self._walk.eager or session.eager
        draws = session.random_feed is not None
        subgraph = None if empty else self._subgraph(part)
        return Edge(conditions, feeds, draws, subgraph, () if empty else part.slots, **rest)

    def _subgraph(self, part: TracedSubgraph) -> CompiledSubgraph:
        """Return the compiled subgraph of a part, and add its steps to the call's cost; raises GiveUpSignal."""
        subgraph = self._breaks.subgraph_of(part, self._training)
        self._steps += subgraph.steps
        self._limits.note_writes(subgraph.spec.trace.program)
        return subgraph

    def _attach(self, edge: Edge) -> None:
        self.position.state.edges.setdefault(self.position.key, []).append(edge)
        self._tree.size += 1

    def _conditions(
        self, session: Session, found: Sequence[Guard], writes: Mapping[int, int]
    ) -> tuple[Conditions | None, dict[int, FeedSource]]:
        """Return what the function has come to depend on since the last graph break, and the feeds that are new."""
        guards, aliases = guards_of(session, found[self._guards :], writes)
        self._guards = len(found)
        checks = {
            f: self._check_of(session, f, f in writes) for f, feed in session.feeds.items() if feed.kind != "state"
        }
        if not guards and not aliases and checks == self._checked:
            return None, {}
        sources = {f: s for f, s in feed_sources(session).items() if f in checks}
        new = {f: s for f, s in sources.items() if f not in self._checked}
        changed = {f: s for f, s in sources.items() if self._checked.get(f) != checks[f]}
        self._checked.update(checks)
        values, ranges = dict(session.guarded_values), dict(session.int_ranges)
        conditions = Conditions(guards, changed, sources, aliases, values, ranges, frozenset(writes))
        return conditions, new

    @staticmethod
    def _check_of(session: Session, feed: int, written: bool) -> Any:
        """Return what is checked of a feed."""
        return repr(session.guarded_values.get(feed)), session.int_ranges.get(feed), written


def _wanted_here(want: Callable[[types.CodeType, int], bool]) -> bool:
    """Request a rewrite of the user's code at the current read; False if there is none."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and not is_user_code(frame.f_code.co_filename):
        frame = frame.f_back
    return frame is not None and want(frame.f_code, frame.f_lineno)


def _written(run: Recorder) -> dict[int, int]:
    """Return the current values of the feeds that were written."""
    return {feed: storage.value for feed, storage in run.storages.items() if storage.value != feed}


def _live(run: Recorder) -> list[Storage]:
    """Return the storages that Python still holds, in creation order."""
    found = [(ref, storage) for ref in run.born if (storage := ref()) is not None]
    run.born[:] = [ref for ref, _ in found]
    return [storage for _, storage in found]



"""One call's path through the trace tree, and the tracing that continues where the tree ends.

Owns the position of a call and the decision to run the function again. Does not own the tree or the walk along it
(`jitfuse.graph_breaks.tree`), or the edges added at its end (`jitfuse.graph_breaks.building`).
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from jitfuse import reasons
from jitfuse.base.later import Later
from jitfuse.compile.interface import Specialisation
from jitfuse.compile.native_entries import Returned
from jitfuse.compile.run.delivery import Delivery
from jitfuse.errors import VolatileError
from jitfuse.ir.program import RANDOM_STATE
from jitfuse.random_state import state_feeds
from jitfuse.tracing.record import output
from jitfuse.tracing.record.fallback_reason import why_plain
from jitfuse.tracing.trace import Trace, TraceEnd

if TYPE_CHECKING:
    from jitfuse.function.call import Call
    from jitfuse.graph_breaks.building import Building
    from jitfuse.graph_breaks.tree import TraceTree, TreePosition, Walk
    from jitfuse.reasons import Reason
    from jitfuse.tracing.record.recorder import Recorder
    from jitfuse.tracing.record.value_reads import Question, Site

signals = Later("jitfuse.graph_breaks.signals")


class Path:
    """A call's path through the trace tree. As a `GraphBreaker` it answers reads where the tree ends."""

    def __init__(self, call: Call) -> None:
        self.call, self.training = call, call.training
        self._table, self._breaks = call.table, call.table.breaks
        self.tree: TraceTree | None = None
        self.walk: Walk | None = None
        self._position: TreePosition | None = None
        self._building: Building | None = None
        self._ended_by: BaseException | None = None
        """The exception with which this path ended the run of the function; user code may have caught it."""

    @classmethod
    def from_tree(cls, call: Call, tree: TraceTree, walk: Walk, arrive: Callable[[], TreePosition]) -> Path:
        """Return the path of a call that native code has brought to the position that `arrive` returns."""
        path = cls(call)
        path.tree, path.walk, path._position = tree, walk, arrive()
        return path

    # ------------------------------------------------------------------ to the answer
    def follow(self) -> Returned | Specialisation:
        """Follow the tree, and extend it where needed, until the call is answered or a whole signature answers it.

        Raises VolatileError if the call has to run as plain Python, and whatever the function raises.
        """
        try:
            return self._followed()
        except VolatileError:
            if self.walk is not None:
                self.walk.restore_rng_state()  # plain Python makes the same RNG calls again
            raise

    def _followed(self) -> Returned | Specialisation:
        limits = self._breaks.limits
        while True:
            done: Returned | Specialisation | None = self._go_along()
            if done is not None:
                limits.note_known()
                self._table.attach_tree(self)
                return done
            if limits.reason is not None:
                limits.note_lost()
                raise VolatileError(limits.reason)
            with self._table.lock:
                done = self._extend()
                if done is not None:
                    if self._building is not None:
                        limits.note_path(self._building.effort, self._table.launched)
                    return done

    def is_known(self, tree: TraceTree) -> bool:
        """Return whether the tree has an edge by which such a call can begin."""
        walk, position = self._start(tree)
        return walk.edge_from(position) is not None

    def _go_along(self) -> Returned | None:
        """Follow known edges; return the call's result if they reach the end of a path, else None."""
        tree = self.tree or self._breaks.tree
        if tree is None:
            return None
        from jitfuse.graph_breaks.tree import go_along

        walk, position = self._start(tree)
        self.call.hold_generators(after_code=self._began)
        self._position, last = go_along(walk, position)
        if last is None:
            self.call.release_generators()
            return None
        return self._returned(walk, walk.finish(last))

    def _extend(self) -> Returned | Specialisation | None:
        """Run the function once more, from the end of the known path; None: follow the tree again.

        Returns a signature if the function reads no traced value, and the result of the call if it does.
        """
        table, limits = self._table, self._breaks.limits
        if not self._began:
            known = table.find(self.call)
            if known is not None:
                return known
        if self._can_go_on():
            return None  # another thread was here first
        why = table.why_new(self.call)
        try:
            with table.counters.counting():
                made = self._run_function()
                if isinstance(made, Returned):
                    return made
                limits.note_program(made.program)
                limits.note_writes(made.program)
                limits.note_signature(made.recorded, len(made.program.steps), table.launched, why)
        except signals.BackEdgeSignal:
            return None
        except signals.RestartSignal:
            self._breaks.drop_tree()
            self._begin_again()
            return None
        except signals.GiveUpSignal:
            assert limits.reason is not None
            self._breaks.drop_native()
            raise VolatileError(limits.reason) from None
        except VolatileError as error:
            if self._building is not None:
                limits.reason = why_plain(error)
                self._breaks.drop_native()
            raise
        return table.add(self.call, made, why)

    # ------------------------------------------------------------------ how far the call has come
    @property
    def _began(self) -> bool:
        """Whether the call has read a traced value."""
        return self._position is not None and self._position.answer is not None

    def _can_go_on(self) -> bool:
        """Return whether an edge leads on from the call's position."""
        return self.walk is not None and self._position is not None and (
            self.walk.edge_from(self._position) is not None)

    def _begin_again(self) -> None:
        """Reset the call's position to the start of the tree."""
        if self.walk is not None:
            self.walk.restore_rng_state()
        self.tree = self.walk = self._position = self._building = self._ended_by = None
        output.forget()

    def _start(self, tree: TraceTree) -> tuple[Walk, TreePosition]:
        from jitfuse.graph_breaks.tree import TreePosition, Walk, start_key

        if self.walk is None or self._position is None:
            call = self.call
            self.tree = tree  # a reference: without one the tree would be deleted
            self.walk = Walk(call.args, call.kwargs, state_feeds()[RANDOM_STATE])
            self._position = TreePosition(tree.start, None, start_key(call.args, call.kwargs, call.training))
        return self.walk, self._position

    def _returned(self, walk: Walk, made: Delivery) -> Returned:
        return Returned(self.call.deliver(made, torch=walk.torch, eager=walk.eager))

    # ------------------------------------------------------------------ one run of the function
    def _run_function(self) -> Returned | Trace:
        """Run the function; return its trace if it reads no traced value, else the result of the call.

        Raises a BreakSignal if the function did not run to its end.
        """
        table, limits = self._table, self._breaks.limits
        self._building = self._ended_by = None
        try:
            made = table.trace(self.call, self)
            self._note_values(made)
            if any(effect.moves for effect in made.result.effects):
                limits.note_moving_state()
            if self._ended_by is not None:
                raise self._ended_by  # user code caught it and continued
            if isinstance(made, TraceEnd):
                assert self._building is not None and self.walk is not None
                self.call.hold_generators(after_code=True)
                return self._returned(self.walk, self._building.end(made))
        except BaseException as error:
            if isinstance(self._cause(error), signals.BreakSignal):
                table.counters.counts["traces"] += 1
            if self._cause(error) is not error:
                raise self._cause(error) from None
            raise
        finally:
            if self._building is not None:
                self._position = self._building.position
                limits.note_run(*self._building.effort)
                self._building.close()
        if self._began:
            limits.note_change()
            raise signals.RestartSignal
        return made

    def _note_values(self, made: Trace | TraceEnd) -> None:
        """Record the values of numbers that Python has read in a run."""
        seen = made.session if isinstance(made, TraceEnd) else made
        for feed, value in seen.guarded_values.items():
            if not isinstance(value, bytes):
                self._breaks.limits.note_number(str(seen.feeds[feed].source), value)

    def _cause(self, error: BaseException) -> BaseException:
        """Return what ended the run; user code may have raised another error from it.

        No frame that an error passes keeps it in a variable: that would keep the call alive until a garbage collection.
        """
        signal = self._ended_by or (self._building.signal if self._building is not None else None)
        return error if signal is None else signal

    # ------------------------------------------------------------------ as a `GraphBreaker`
    @property
    def asked(self) -> bool:
        """Whether the current run of the function has read a traced value."""
        return self._building is not None

    def answer(self, run: Recorder, question: Question, tensors: tuple[int, ...]) -> Any:
        """Answer a read of a traced value."""
        if self._building is None:
            from jitfuse.graph_breaks.building import Building
            from jitfuse.graph_breaks.tree import TraceTree

            tree = self.tree or self._breaks.tree
            if tree is None:
                tree = self._breaks.tree = TraceTree()
            walk, position = self._start(tree)
            self._building = Building(tree, walk, position, self.call.training, self._breaks)
        return self._building.answer(run, question, tensors)

    @property
    def most_operators(self) -> int:
        """How many operators the run may record."""
        return self._breaks.limits.budget.operators

    def decides(self, site: Site) -> bool:
        """Return whether Python takes this branch itself, so that it is not if-converted."""
        return self._breaks.limits.decides(site)

    def varies(self, name: str) -> bool:
        """Return whether Python has read many values of a number, so that it counts as data."""
        return self._breaks.limits.varies(name)

    def decide(self, sites: Iterable[Site]) -> NoReturn:
        """Have Python take these branches itself from now on, and end this run of the function."""
        self._breaks.limits.note_branching(sites)
        self._ended_by = signals.RestartSignal()
        raise self._ended_by

    def give_up(self, reason: Reason, text: str) -> NoReturn:
        """Have the function run as plain Python from now on, and end this run of it."""
        try:
            self._breaks.limits.give_up(reason, text)
        except signals.GiveUpSignal as signal:
            self._ended_by = signal
            raise

    def note_operators(self, count: int, line: str) -> None:
        """Count the operators of a run; end it if the call has graph breaks and exceeds its budget."""
        if self._building is None:
            return  # no graph break so far
        _, reads, steps = self._building.effort
        if self._breaks.limits.is_too_much(count, reads, steps):
            self.give_up(reasons.LARGE_CALL,
                         f"a call that reads data comes to more than {count:,} operators, last at {line}, not "
                         "counting what had to be traced again, and each is traced. Work on whole arrays (np.where, "
                         "masks), or use jf.cond, jf.fori_loop and jf.while_loop.")

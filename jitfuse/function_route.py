"""One call's way through a function's tree, and on from where the tree ends.

Owns how far a call has come. Does not own when a function runs once more (`jitfuse.function_splits`), the walk
(`jitfuse.splitting.tree`), or what is built where the tree ends (`jitfuse.splitting.building`).
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from jitfuse.compile.delivery import Delivery
from jitfuse.frameworks import deliver
from jitfuse.function_signatures import random_state
from jitfuse.ir.program import RANDOM_STATE
from jitfuse.later import Later
from jitfuse.records import NamedTuple
from jitfuse.tracing import output
from jitfuse.tracing.found import TraceEnd

if TYPE_CHECKING:
    from jitfuse.function_splits import Splits
    from jitfuse.splitting import signals
    from jitfuse.splitting.building import Building
    from jitfuse.splitting.tree import Call, Position, Tree
    from jitfuse.tracing.observing import Question, Site
    from jitfuse.tracing.recorder import Recorder
else:
    signals = Later("jitfuse.splitting.signals")


class Returned(NamedTuple):
    """What a call returned that was answered by segments."""

    value: Any


class Route:
    """One call on its way through the tree; as a splitter, it answers looks at data where the tree ends."""

    def __init__(self, function: Splits, training: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.function, self.training, self.args, self.kwargs = function, training, args, kwargs
        self.tree: Tree | None = None
        self.call: Call | None = None
        self.position: Position | None = None
        self._building: Building | None = None
        self._branching: BaseException | None = None
        """What has ended the run for another way of its branches."""
        self._states = function._limits.states
        self._returns: bool | None = None
        """Whether the call had gone a known way when the function first ran for it."""
        self.rerun = 0
        """Operators that have been recorded for such a call."""

    @property
    def added(self) -> int:
        """How many looks have been added to the tree since the call began."""
        return max(0, self.function._limits.states - self._states)

    def begin_again(self) -> None:
        """Forget how far the call has come."""
        if self.call is not None:
            self.call.draw_again()
        self.tree = self.call = self.position = self._building = self._branching = None
        self._states = self.function._limits.states
        output.forget()

    @property
    def began(self) -> bool:
        """Whether data has been looked at in the call."""
        return self.position is not None and self.position.answer is not None

    @property
    def asked(self) -> bool:
        """Whether the run of the function that is going on has looked at data."""
        return self._building is not None

    def walk(self) -> Returned | None:
        """Go on as far as the way is known; return what the call returns where it is known to the end."""
        tree = self.tree or self.function._tree
        if tree is None:
            return None
        from jitfuse.splitting.tree import walk

        call, position = self._start(tree)
        self.function._hold_generators(looked=self.began)
        self.position, last = walk(call, position)
        if last is None:
            self.function._release_generators()
            return None
        return self._returned(call, call.finish(last))

    def is_split(self, tree: Tree) -> bool:
        """Return whether such a call begins in the tree."""
        call, position = self._start(tree)
        return call.way_on(position) is not None

    def can_walk(self) -> bool:
        """Return whether a way on is known."""
        return self.call is not None and self.position is not None and self.call.way_on(self.position) is not None

    def grow(self) -> Any:
        """Run the function; return its trace where it does not look at data, else what it `Returned`.

        Raises a SplitSignal where the function did not run to its end.
        """
        function, self._building, self._branching = self.function, None, None
        self._returns = self.began if self._returns is None else self._returns
        try:
            made = function._trace(self.training, self.args, self.kwargs, self)
            if any(effect.moves for effect in made.result.effects):
                function._limits.note_moving_state()
            if self._branching is not None:
                raise self._branching  # user code has caught it and went on
            if isinstance(made, TraceEnd):
                assert self._building is not None and self.call is not None
                function._hold_generators(looked=True)
                return self._returned(self.call, self._building.end(made))
        except BaseException as error:
            if isinstance(self._cause(error), signals.SplitSignal):
                function._counts["traces"] += 1
            if self._cause(error) is not error:
                raise self._cause(error) from None
            raise
        finally:
            if self._building is not None:
                self.position = self._building.position
                self.rerun += self._building.recorded if self._returns else 0
                function._limits.note_run(*self._building.effort)
                self._building.close()
        if self.began:
            raise signals.ChangedSignal
        return made

    def decides(self, place: Site) -> bool:
        """Return whether Python decides in a branch which way to go."""
        return self.function._limits.decides(place)

    def decide(self, places: Iterable[Site]) -> NoReturn:
        """Have Python decide in branches from now on, and end this run of the function."""
        self.function._limits.note_branching(places)
        self._branching = signals.BranchSignal()
        raise self._branching

    def give_up(self, why: str) -> NoReturn:
        """Have the function be plain Python from now on, and end this run of it."""
        try:
            self.function._limits.give_up(why)
        except signals.GiveUpSignal as signal:
            self._branching = signal
            raise

    def note_operators(self, count: int, line: str) -> None:
        """Hear that a run has recorded so many operators; ends it where the call looks at data and is worth no more."""
        if self._building is None:
            return  # it has not looked at any
        _, looks, steps = self._building.effort
        if self.function._limits.is_too_much(count, looks, steps):
            self.give_up(f"a call that looks at data comes to more than {count:,} operators, last at {line}, not "
                         "counting what had to be traced again, and each is traced. Work on whole arrays (np.where, "
                         "masks), or use jf.cond, jf.fori_loop and jf.while_loop.")

    def _cause(self, error: BaseException) -> BaseException:
        """Return what has ended the run; user code may have made another error of it.

        No frame that an error passes keeps it in a variable: the call would live until the garbage is collected.
        """
        signal = self._branching or (self._building.signal if self._building is not None else None)
        return error if signal is None else signal

    def answer(self, run: Recorder, question: Question, tensors: tuple[int, ...]) -> Any:
        """Answer a look at data, as a `jitfuse.tracing.observing.Splitter`."""
        if self._building is None:
            from jitfuse.splitting.building import Building
            from jitfuse.splitting.tree import Tree

            tree = self.tree or self.function._tree
            if tree is None:
                tree = self.function._tree = Tree()
            call, position = self._start(tree)
            self._building = Building(tree, call, position, self.training, self.function, self.function._limits)
        return self._building.answer(run, question, tensors)

    def _start(self, tree: Tree) -> tuple[Call, Position]:
        from jitfuse.splitting.tree import Call, Position, start_key

        if self.call is None or self.position is None:
            self.tree = tree  # held: a tree that nobody holds takes its states apart
            self.call = Call(self.args, self.kwargs, random_state()[RANDOM_STATE])
            self.position = Position(tree.start, None, start_key(self.args, self.kwargs, self.training))
        return self.call, self.position

    def _returned(self, call: Call, made: Delivery) -> Returned:
        return Returned(deliver(made, call.args, call.kwargs, torch=call.torch, eager=call.eager))

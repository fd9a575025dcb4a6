"""Calls of functions that look at the values of traced data: along the function's tree, or with a new branch of it.

Owns when a call is split, the limits on how often, and when plain Python has to do. Does not own the tree and its
edges (`jitfuse.splitting`).
"""
from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Final

from jitfuse import compile as compiler
from jitfuse.errors import VolatileError
from jitfuse.frameworks import as_eager, as_torch
from jitfuse.function_signatures import Signatures, raise_status, random_state
from jitfuse.ir.program import RANDOM_STATE
from jitfuse.later import Later
from jitfuse.options import Options
from jitfuse.records import NamedTuple
from jitfuse.tracing.look import way_out
from jitfuse.tracing.tracer import Trace, TraceEnd

if TYPE_CHECKING:
    from jitfuse.splitting import signals
    from jitfuse.splitting.building import Building
    from jitfuse.splitting.native import NativeTree
    from jitfuse.splitting.segment import Segment
    from jitfuse.splitting.tree import Call, Position, Tree
    from jitfuse.tracing.cutting import Part
    from jitfuse.tracing.observing import Answer, Question
    from jitfuse.tracing.recorder import Recorder
else:
    signals = Later("jitfuse.splitting.signals")

MAX_VALUES: Final = 8
"""Different values at one place that a function may look at; past that it runs as plain Python."""
MAX_SHAPES: Final = 64
"""The same for shapes that depend on data."""
MAX_SEGMENTS: Final = 512
"""Segments that a function keeps ready; past that it starts over, with every kernel still cached."""
MAX_STATES: Final = 20_000
"""Looks in a tree; past that the function starts over."""
MAX_REFUSALS: Final = 3
"""Calls in a row that cannot be traced before the function runs as plain Python without another try."""
WATCHED: Final = 16
MAX_GROWING: Final = 12
MAX_GROWN: Final = 96
"""How many of the last so many calls may add branches, and looks that they may add together."""
MAX_CHANGES: Final = 3
"""Times that a function may ask other questions in the same situation before it runs as plain Python."""


class Returned(NamedTuple):
    """What a call returned that was answered by segments."""

    value: Any


class Splits(Signatures):
    """What a fused function knows of calls in which Python looks at data."""

    def __init__(self, fn: Callable[..., Any], options: Options) -> None:
        super().__init__(fn, options)
        self._tree: Tree | None = None
        self._segments: dict[Hashable, Segment] = {}
        self._values: dict[tuple[str, str], set[Hashable]] = {}
        self._changes = 0
        self._states = 0
        self._run_through: dict[str, int] = {}
        """How often the rounds of a loop at a place had to be run through to find another end."""
        self._plain: str | None = None
        """Why every call that fits no signature runs as plain Python."""
        self._refusals = 0
        """Calls in a row that could not be traced, and that plain Python has answered."""
        self._growing: tuple[int, ...] = ()
        """How many looks each of the last calls has added."""
        self._native_tree: NativeTree | None = None

    def _answer(self, training: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the specialisation that a call belongs to, or what it `Returned` where it was split.

        Raises VolatileError where it has to run as plain Python, and whatever the function raises.
        """
        with self._lock:
            spec = self._known_signature(training, args, kwargs)
        if spec is not None:
            return spec
        if self._plain is not None:
            raise VolatileError(self._plain)
        if self._options.strict or self._options.device == "gpu":
            with self._lock:
                return self._signature(training, args, kwargs)
        if self._tree is not None and self.native and compiler.runtime_is_ready():
            compiler.native_runtime().accept_error_state()
        if self._states > MAX_STATES:
            with self._lock:
                self._forget_segments()
        return self._along(_Route(self, training, args, kwargs))

    def _along(self, route: _Route) -> Any:
        """Go along the tree and add what is missing until the call is answered, as `_answer` returns it."""
        while True:
            done = route.walk()
            if done is not None:
                self._note_growth(route.added)
                self._note_walk(route)
                return done
            if self._plain is not None:
                raise VolatileError(self._plain)
            with self._lock:
                done = self._grow(route)
                if done is not None:
                    self._note_growth(route.added)
                    return done

    def _route_at(self, tree: Tree, call: Call, position: Position, training: bool) -> _Route:
        """Return the route of a call that has come to a position in a tree."""
        route = _Route(self, training, tuple(call.args), dict(call.kwargs))
        route._tree, route._call, route._position = tree, call, position
        return route

    def _go_on(self, tree: Tree, call: Call, arrive: Callable[[], Position], training: bool) -> Any:
        """Answer a call that native code has brought to the position in the tree that `arrive` returns."""
        raise NotImplementedError

    def _note_walk(self, route: _Route) -> None:
        """Have native code answer such calls where that is possible, and it is time for it."""
        tree, call = route._tree, route._call
        assert tree is not None and call is not None
        if not self.native or call.eager:
            return
        from jitfuse.splitting.native import NativeTree
        from jitfuse.splitting.tree import start_key

        if self._native_tree is None:
            handler, torch = functools.partial(raise_status, self.name), bool(self._tensor_places)
            self._native_tree = NativeTree(self.name, handler, weakref.WeakMethod(self._go_on), torch=torch)
        if not self._native_tree.is_due(tree) or not compiler.runtime_is_ready():
            return
        with self._lock:
            if tree is self._tree and self._plain is None:
                key = start_key(route.args, route.kwargs, route.training)
                entry = self._native_tree.make(tree, call, key, route.training)
                if entry is not None:
                    compiler.native_runtime().accept_error_state()
                    self._prepend(entry)

    def _grow(self, route: _Route) -> Any:
        """Run the function once more, from where nothing is known of how it goes on; None: go on walking.

        Returns a specialisation where it does not look at data, and what it `Returned` where it does.
        """
        if not route.began:
            known = self._known_signature(route.training, route.args, route.kwargs)
            if known is not None:
                return known
        if route.can_walk():
            return None  # another thread was here first
        why = self._why_not(route.args, route.kwargs)
        try:
            with self._counting():
                made = route.grow()
        except signals.LoopClosedSignal:
            return None
        except signals.GiveUpSignal:
            assert self._plain is not None
            raise VolatileError(self._plain) from None
        except signals.ChangedSignal:
            self._changes += 1
            self._drop_tree()
            route.begin_again()
            if self._changes <= MAX_CHANGES:
                return None
            changing = "Python takes other decisions in the same situation from call to call"
            self._give_up(changing)
            raise VolatileError(changing) from None
        except VolatileError as error:
            if route.asked:
                self._give_up(str(error))
            raise
        return self._add_signature(made, why, route.args, route.kwargs) if isinstance(made, Trace) else made

    # ------------------------------------------------------------------ what the tree is made of
    def note_refusal(self, error: Exception) -> None:
        """Hear of a call that could not be traced where plain Python has answered it; that is not tried for ever."""
        self._refusals += 1
        if self._refusals >= MAX_REFUSALS:
            self._plain = str(error).splitlines()[0]

    def segment_of(self, part: Part, training: bool) -> Segment:
        """Return the segment of a part, compiled; one for all parts that are equal."""
        from jitfuse.splitting.segment import Segment

        key = part.key, training
        found = self._segments.get(key)
        if found is None:
            if len(self._segments) >= MAX_SEGMENTS:
                self._forget_segments()
            note = weakref.WeakMethod(self._note_fallback)
            found = self._segments[key] = Segment(part, training, self._origin(), self._options, note)
        return found

    def _forget_segments(self) -> None:
        """Start over with no tree: its size is bounded, its kernels stay cached. Calls that are walking go on."""
        self._launches += sum(s.launches for s in self._segments.values())
        self._segments = {}
        self._drop_tree()
        self._states = 0

    def _forget_signatures(self) -> None:
        """Start over with no signatures; the tree's entries, which stand among theirs, are made again."""
        super()._forget_signatures()
        if self._native_tree is not None:
            self._native_tree.drop()

    def _drop_tree(self) -> None:
        """Forget the tree; calls that are walking go on along it."""
        self._tree = None
        if self._native_tree is not None:
            self._native_tree.drop()

    def _give_up(self, why: str) -> None:
        """Have every call from now on run as plain Python."""
        self._plain = why
        if self._native_tree is not None:
            self._native_tree.drop()

    def count_split(self) -> None:
        """Count a split."""
        self._counts["splits"] += 1
        self._states += 1

    def note_rounds(self, question: Question) -> None:
        """Hear of a loop that is run through round by round; raises GiveUpSignal where that has happened often."""
        times = self._run_through[question.place] = self._run_through.get(question.place, 0) + 1
        if times > MAX_VALUES:
            self._give_up(f"a loop at {question.place} is traced round by round, because each round changes what "
                          "Python knows (a list that grows, a counter that is more than counted with), and its end "
                          "changes from call to call. Count in an array, or use jf.while_loop.")
            raise signals.GiveUpSignal

    def note_length(self, question: Question) -> None:
        """Hear of a call that looks at data too often for its looks to be traced one by one; raises GiveUpSignal."""
        self._give_up(f"Python looks at data more than {signals.TRACED} times in a call, last at {question.place}, and "
                      "each look is traced once. Work on whole arrays (np.where, masks), or use jf.while_loop and "
                      "jf.fori_loop.")
        raise signals.GiveUpSignal

    def _note_growth(self, added: int) -> None:
        """Hear how many looks a call has added: what goes another way in each call is not traced for ever.

        What is known goes on to be answered natively.
        """
        self._growing = (*self._growing, added)[-WATCHED:]
        if sum(map(bool, self._growing)) >= MAX_GROWING and sum(self._growing) >= MAX_GROWN:
            self._plain = ("Python looks at data and goes another way in each call, which is traced each time. Work on "
                           "whole arrays (np.where, masks), or use jf.cond and jf.while_loop.")

    def note_answer(self, question: Question, answer: Answer) -> None:
        """Count an answer at its place; raises GiveUpSignal where there have been too many different ones."""
        values = self._values.setdefault((question.place, question.what), set())
        values.add(answer.key)
        limit = MAX_SHAPES if answer.arrays else MAX_VALUES
        if len(values) > limit:
            what = "shapes" if answer.arrays else "values"
            self._give_up(f"{question.what} at {question.place} has looked at more than {limit} different {what} of "
                          f"traced data, and each is traced anew. {way_out(question.what)} Or use jf.cond and "
                          "jf.while_loop.")
            raise signals.GiveUpSignal

    def _explain_split(self, training: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
        """Return the report of a function whose calls with such arguments have been split; None where they were not."""
        tree = self._tree
        if tree is None or not _Route(self, training, args, kwargs).is_split(tree):
            return None
        from jitfuse.splitting.report import tree_report

        title = f"{self.name}, {'training' if training else 'evaluation'}, split where Python looks at data"
        return f"{title}\n\n{tree_report(tree, {s: k for k, s in enumerate(self._segments.values())})}"

    def _renew_locks(self) -> None:
        """In a forked child: fresh locks, for threads that are not there may have held the old ones."""
        self._lock = threading.RLock()
        self._busy = threading.local()
        for segment in self._segments.values():
            segment.lock = threading.Lock()


class _Route:
    """One call on its way through the tree; as a splitter, it answers looks at data where the tree ends."""

    def __init__(self, function: Splits, training: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.function, self.training, self.args, self.kwargs = function, training, args, kwargs
        self._tree: Tree | None = None
        self._call: Call | None = None
        self._position: Position | None = None
        self._building: Building | None = None
        self._states = function._states

    @property
    def added(self) -> int:
        """How many looks have been added to the tree since the call began."""
        return max(0, self.function._states - self._states)

    def begin_again(self) -> None:
        """Forget how far the call has come."""
        self._tree = self._call = self._position = self._building = None

    @property
    def began(self) -> bool:
        """Whether data has been looked at in the call."""
        return self._position is not None and self._position.answer is not None

    @property
    def asked(self) -> bool:
        """Whether the run of the function that is going on has looked at data."""
        return self._building is not None

    def walk(self) -> Returned | None:
        """Go on as far as the way is known; return what the call returns where it is known to the end."""
        tree = self._tree or self.function._tree
        if tree is None:
            return None
        from jitfuse.splitting.tree import walk

        call, position = self._start(tree)
        self._position, last = walk(call, position)
        return None if last is None else self._returned(call, call.finish(last))

    def is_split(self, tree: Tree) -> bool:
        """Return whether such a call begins in the tree."""
        call, position = self._start(tree)
        return call.way_on(position) is not None

    def can_walk(self) -> bool:
        """Return whether a way on is known."""
        return self._call is not None and self._position is not None and self._call.way_on(self._position) is not None

    def grow(self) -> Any:
        """Run the function; return its trace where it does not look at data, else what it `Returned`.

        Raises a SplitSignal where the function did not run to its end.
        """
        function, self._building = self.function, None
        try:
            made = function._trace(self.training, self.args, self.kwargs, self)
            if isinstance(made, TraceEnd):
                assert self._building is not None and self._call is not None
                return self._returned(self._call, self._building.end(made))
        except BaseException as error:
            if isinstance(self._cause(error), signals.SplitSignal):
                function._counts["traces"] += 1
            if self._cause(error) is not error:
                raise self._cause(error) from None
            raise
        finally:
            if self._building is not None:
                self._position = self._building.position
                self._building.close()
        if self.began:
            raise signals.ChangedSignal
        return made

    def _cause(self, error: BaseException) -> BaseException:
        """Return what has ended the run; user code may have made another error of it.

        No frame that an error passes keeps it in a variable: the call would live until the garbage is collected.
        """
        signal = self._building.signal if self._building is not None else None
        return error if signal is None else signal

    def answer(self, run: Recorder, question: Question, tensors: tuple[int, ...]) -> tuple[Any, tuple[int, ...]]:
        """Answer a look at data, as a `jitfuse.tracing.observing.Splitter`."""
        if self._building is None:
            from jitfuse.splitting.building import Building
            from jitfuse.splitting.tree import Tree

            tree = self._tree or self.function._tree
            if tree is None:
                tree = self.function._tree = Tree()
            call, position = self._start(tree)
            self._building = Building(tree, call, position, self.training, self.function)
        return self._building.answer(run, question, tensors)

    def _start(self, tree: Tree) -> tuple[Call, Position]:
        from jitfuse.splitting.tree import Call, Position, start_key

        if self._call is None or self._position is None:
            self._tree = tree  # held: a tree that nobody holds takes its states apart
            self._call = Call(self.args, self.kwargs, random_state()[RANDOM_STATE])
            self._position = Position(tree.start, None, start_key(self.args, self.kwargs, self.training))
        return self._call, self._position

    def _returned(self, call: Call, value: Any) -> Returned:
        if self.function._tensor_places:
            return Returned(value)  # the caller delivers it
        return Returned(as_torch(value) if call.torch else as_eager(value) if call.eager else value)

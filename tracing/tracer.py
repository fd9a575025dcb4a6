"""The tracer: runs a Python function on traced tensors and returns its program.

Owns `trace` and `trace_call`: the runs of the function, and how their records become a scheduled program with a result
tree. Does not own the `Trace` that it returns (`jitfuse.tracing.trace`). Compiles nothing and runs no program.
"""
from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitfuse.base.gc_pause import PAUSED
from jitfuse.base.later import Later
from jitfuse.base.records import Record
from jitfuse.errors import (
    WATCH,
    ArgumentError,
    BoundsError,
    DivisionByZeroError,
    DTypeError,
    JitfuseError,
    OutOfRangeError,
    ReadOnlyError,
    ShapeError,
    UnsupportedDTypeError,
    VolatileError,
)
from jitfuse.ir.analysis.liveness import looks_at_mode
from jitfuse.tracing.control.reroll.long_runs import reroll_long
from jitfuse.tracing.hooks import TracingHooks
from jitfuse.tracing.interception.chain import Chain
from jitfuse.tracing.interception.reader import TracingEnvironment
from jitfuse.tracing.interception.user_code import has_own_setter
from jitfuse.tracing.numpy_like import traced_array as traced_array  # the base of TracedTensor
from jitfuse.tracing.record.foreign import Foreign
from jitfuse.tracing.record.mode import ModeFlag
from jitfuse.tracing.record.recorder import Recorder, activate
from jitfuse.tracing.record.regions import reject_leaked
from jitfuse.tracing.record.rng_states import RngStates
from jitfuse.tracing.record.session import ModeMattersSignal, Session
from jitfuse.tracing.record.source import line_of, was_caught
from jitfuse.tracing.results.containers import reject_unlike
from jitfuse.tracing.results.leaves import classify, in_memory_order, merge, picked, settle_selections
from jitfuse.tracing.results.returned import (
    AccessPathLeaf,
    OutputLeaf,
    PickedCopy,
    PickedView,
    RawLeaf,
    ResultLeaf,
    ResultTree,
    flatten,
)
from jitfuse.tracing.schedule.translator import Boundary, schedule
from jitfuse.tracing.tensor.traced import TracedTensor
from jitfuse.tracing.trace import Trace, TraceEnd, feed_sources, guards_of, reject_overlap

if TYPE_CHECKING:
    from jitfuse.tracing.record.value_reads import GraphBreaker
    from jitfuse.tracing.results.effects import Effect

branch_values = Later("jitfuse.tracing.scalars.branch_values")
effects = Later("jitfuse.tracing.results.effects")
try_blocks = Later("jitfuse.tracing.record.try_blocks")
mixed_numbers = Later("jitfuse.tracing.tensor.mixed_numbers")


Transform = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Makes a function of a function, such as its gradient; it runs in a trace alone."""


def transformed(function: Callable[..., Any], transforms: Sequence[Transform]) -> Callable[..., Any]:
    """Return what transforms make of a function, the first one first."""
    for transform in transforms:
        function = transform(function)
    return function


def _run_in(environment: TracingEnvironment, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return environment.run(fn, args, kwargs)


class _ModeRun(Record):
    """One run of the function in one mode."""

    recorder: Recorder
    environment: TracingEnvironment
    paths: list[str]
    leaves: list[RawLeaf]
    spec: Any
    effects: tuple[Effect, ...]
    chosen: tuple[tuple[int, str], ...]
    picked: tuple[PickedView | PickedCopy, ...]


def trace(
    fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], *, training: bool = False,
    declares_training: bool = False, static_argnames: Collection[str] = (), schedule_method: str = "slack",
    on_host: bool = True, foreign: frozenset[int] = frozenset(), states: RngStates | None = None,
) -> Trace:
    """Trace one call and return its program; a read of a traced value raises TracedValueError. See `trace_call`."""
    made = trace_call(
        fn, args, kwargs, None, training=training, declares_training=declares_training,
        static_argnames=static_argnames, schedule_method=schedule_method, on_host=on_host, foreign=foreign,
        states=states,
    )
    assert isinstance(made, Trace)
    return made


@PAUSED
def trace_call(
    fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], breaker: GraphBreaker | None, *,
    training: bool = False, declares_training: bool = False, static_argnames: Collection[str] = (),
    schedule_method: str = "slack", on_host: bool = True, foreign: frozenset[int] = frozenset(),
    states: RngStates | None = None, transforms: Sequence[Transform] = (),
) -> Trace | TraceEnd:
    """Trace one call and return its program.

    `kwargs` come without `training`; a function that declares it (`declares_training`) gets the flag. `training` is
    the mode of the call: only the run in this mode keeps its writes to globals and containers. The training run comes
    first, so that the program does not depend on the mode of the first call. The breaker answers reads of traced
    values; after such a read, a `TraceEnd` of the call's mode alone is returned. `on_host`: the program runs where
    loops are cheap. `foreign` has the ids of arrays that are views of torch tensors, `states` those of RNG states.
    `transforms` make another function of it, such as its gradient; that is what is traced.
    Raises JitfuseErrors for unsupported code, and all that the function raises.
    """
    begin = time.perf_counter()
    call = _TracedCall(
        fn, args, kwargs, declares_training, frozenset(static_argnames), breaker, foreign,
        RngStates() if states is None else states, tuple(transforms),
    )
    mode: bool | None = None
    try:
        session = Session()
        runs = call.runs(session, training)
    except ModeMattersSignal:
        mode, session = training, Session(one_mode=True)
        runs = [call.run(session, mode=training)]
        call.settle(runs[0], keep=True)
    closing = Recorder(session)
    closing.fixed_source = call.definition
    leaves = _merged_leaves(runs, closing)
    result, outputs = _result_tree(runs[0], leaves, closing)
    boundary = Boundary(outputs, *_state(session, closing), _writes(session, runs, closing))
    reject_overlap(session, boundary.writes)
    if breaker is not None and breaker.asked:
        return TraceEnd(session, runs[0].environment.guard_log.guards, result, boundary)
    program = schedule(*reroll_long(session.graph, boundary, on_host), schedule_method)
    reject_leaked(session, program.feeds)
    guards, aliases = guards_of(session, (g for r in runs for g in r.environment.guard_log.guards), boundary.writes)
    return Trace(
        program=program,
        feeds=feed_sources(session),
        guards=guards,
        aliases=aliases,
        guarded_values=dict(session.guarded_values),
        int_ranges=dict(session.int_ranges),
        result=result,
        positional=len(args),
        keywords=tuple(kwargs),
        mode_sensitive=len(runs) > 1 or looks_at_mode(program),
        trace_ms=(time.perf_counter() - begin) * 1e3,
        mode=mode,
        torch=session.torch,
        recorded=len(session.graph.ops),
    )


class _TracedCall(Record, frozen=True):
    """The traced call, with all that both runs need."""

    fn: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    declares_training: bool
    static: frozenset[str]
    breaker: GraphBreaker | None
    foreign: frozenset[int]
    states: RngStates
    transforms: tuple[Transform, ...]

    @property
    def definition(self) -> str:
        """File and line of the function's definition."""
        code = getattr(self.fn, "__code__", None)
        return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else "<unknown>:0"

    def runs(self, session: Session, training: bool) -> list[_ModeRun]:
        """Run the function, once for each mode if Python reads the flag; raises ModeMattersSignal."""
        first = self.run(session, mode=True)
        split = self.breaker is not None and self.breaker.asked
        if split or not first.recorder.mode_read:
            self.settle(first, keep=True)
            return [first]
        self.settle(first, keep=training)
        second = self.run(session, mode=False, replay=True)
        if second.effects != first.effects:
            self.settle(second, keep=False)
            raise ModeMattersSignal
        self.settle(second, keep=not training)
        return [first, second]

    def run(self, session: Session, mode: bool, replay: bool = False) -> _ModeRun:
        """Run the function once in one mode and classify its results."""
        recorder = Recorder(session, mode, replay, self.breaker)
        hooks = TracingHooks(recorder, self.foreign, self.states)
        environment = recorder.environment = TracingEnvironment(hooks)
        before, watched = activate(recorder), WATCH.errors
        WATCH.errors = []
        try:
            seen = [self._argument(environment, Chain.arg(k), v, self._name(k)) for k, v in enumerate(self.args)]
            named = {k: self._argument(environment, Chain.arg(k), v, k) for k, v in self.kwargs.items()}
            if self.declares_training:
                named["training"] = ModeFlag(recorder)
            if not self.transforms:
                result = environment.run(self.fn, seen, named)
            else:
                function = functools.partial(_run_in, environment, self.fn)
                result = transformed(function, self.transforms)(*seen, **named)
            if recorder.speculative_loops:
                recorder.raise_copied()  # the function has caught an error in a loop
            for generator in recorder.external_generators.values():
                generator.give_back()
            if recorder.active_branches or recorder.loops:
                recorder.undo_conversion()  # the function has caught an error in a branch
            def is_leaf(value: Any) -> bool:
                return id(value) in environment.reals or environment.path_of(value) is not None

            reject_unlike(result, is_leaf)
            paths, values, spec = flatten(result, is_leaf=is_leaf)
            put = self._effects(recorder, environment, result, paths, values)
            returned = len(values) - sum(effect.count for effect in put)
            settle_selections(recorder, values, returned)
            if recorder.converted_sites:
                branch_values.returned(recorder, values)
            leaves = [self._leaf(recorder, environment, v, p) for p, v in zip(paths, values, strict=True)]
            if put and effects.are_views(values, leaves, sum(effect.count for effect in put)):
                environment.guard_log.volatile.append(
                    f"{put[0].target} or another result keeps a view of what outlives the call"
                )
            if recorder.session.torch:
                _reject_both_kinds(values, paths)
            chosen = mixed_numbers.among(recorder, values) if recorder.mixed else []
            leaves += [RawLeaf(None, mixed.truth, "scalar", -mixed.truth) for _, mixed in chosen]
            paths += [f"{paths[k]} is Python's" for k, _ in chosen]
            views = picked(recorder, values[:returned], leaves, paths)
            if recorder.mode_matters:
                raise ModeMattersSignal
            _reject_caught(None)
        except BaseException as error:
            branches = [loop.site for loop in recorder.loops] or [
                branch.both.site for branch in recorder.active_branches[-1:]
            ]
            recorder.end()
            environment.rollback()
            if recorder.mode_matters:
                raise ModeMattersSignal from None
            if recorder.speculative_loops and isinstance(error, Exception):
                assert self.breaker is not None
                self.breaker.decide(recorder.speculative_loops)  # a replicated iteration may have raised it
            if recorder.converted_sites and isinstance(error, Exception):
                assert self.breaker is not None
                self.breaker.decide(branches or recorder.converted_sites)  # Python might have taken another branch
            _reject_caught(error)
            _locate(error)
            if self.declares_training or recorder.mode_read:
                error.add_note(f"(raised while tracing with training={mode}; both modes are traced)")
            raise
        finally:
            for action in reversed(hooks.at_end):
                action()
            activate(before)
            WATCH.errors = watched
        return _ModeRun(
            recorder, environment, paths, leaves, spec, put, tuple([(k, mixed.python) for k, mixed in chosen]), views
        )

    def settle(self, run: _ModeRun, keep: bool) -> None:
        """Keep a run's writes to globals and containers, or undo them; its tensors are invalid afterwards.

        Raises VolatileError, with nothing written, where the trace is not cacheable: Python must run in every call.
        """
        try:
            volatile = run.environment.settle(self.args, self.kwargs)
            if volatile:
                run.environment.rollback()
                raise VolatileError(
                    f"{volatile[0]}, so that no call can do without Python. Pass the state in and return what changes."
                )
            if keep:
                run.environment.commit(self.args, self.kwargs)
            else:
                run.environment.rollback()
        finally:
            run.recorder.end()

    def _effects(
        self, recorder: Recorder, environment: TracingEnvironment, result: Any, paths: list[str], values: list[Any]
    ) -> tuple[Effect, ...]:
        """Return the effects of the function, and add their leaves to those of the result."""
        found = environment.rebound()
        if not found:
            return ()
        made: list[Effect] = []
        by_user = {w.chain for w in environment.written.values() if has_own_setter(w.owner)}
        returned, taken = len(values), set(paths)
        for target, value, is_new in found:
            one = type(value) not in (list, tuple, dict) or environment.path_of(value) is not None
            its_paths, leaves, spec = ([str(target)], [value], None) if one else flatten(value, str(target))
            if not taken.isdisjoint(its_paths):  # two free variables of one name, a global of the name "result"
                its_paths = [f"{path} ({len(made)})" for path in its_paths]
            taken.update(its_paths)
            paths += its_paths
            values += [environment.known(leaf) if environment.hooks.is_array(leaf) else leaf for leaf in leaves]
            before = environment.values.get(target)
            moves = is_new or (before is not None and effects.is_changed(before[0], value))
            made.append(effects.Effect(target, spec, len(leaves), moves, target in by_user))
        read_sources = {recorder.session.feeds[feed].source for feed in recorder.session.guarded_values}
        counted = next((target for target, _, _ in found if target in read_sources), None)
        if counted is not None:
            why = f"Python reads the value of {counted}, which changes from call to call"
            environment.guard_log.volatile.append(why)
        trees = [result, *(value for _, value, _ in found)]
        if effects.share_containers(trees, environment.path_of) or effects.share_memory(values, returned):
            why = f"{found[0][0]} shares memory, or a container, with what else is delivered"
            environment.guard_log.volatile.append(why)
        return tuple(made)

    def _argument(self, environment: TracingEnvironment, chain: Chain, value: Any, name: str | None) -> Any:
        if name not in self.static:
            return environment.read(chain, value)
        if isinstance(value, np.ndarray):
            raise ArgumentError(f"the static argument {name!r} is an array; static arguments are compared by "
                                "equality. Take it out of static_argnames.")
        return environment.static(chain, value)

    def _name(self, position: int) -> str | None:
        if not self.static:
            return None
        names = list(inspect.signature(self.fn).parameters)
        return names[position] if position < len(names) else None

    @staticmethod
    def _leaf(recorder: Recorder, environment: TracingEnvironment, value: Any, path: str) -> RawLeaf:
        environment.hooks.reject_generator(path, value)
        real = value if type(value) is TracedTensor or isinstance(value, Foreign) else environment.real(value)
        found_path = environment.path_of(real)
        if found_path is not None:
            return RawLeaf(AccessPathLeaf(found_path), None, "object", id(real))
        return classify(recorder, real, path, lambda x: id(x) in environment.origin)


_PLAIN_PYTHON_HAS: Final = (BoundsError, DTypeError, DivisionByZeroError, OutOfRangeError, ReadOnlyError, ShapeError)
"""Errors that plain Python raises too, where tracing does."""
_OURS_ALONE: Final = (UnsupportedDTypeError, VolatileError)
"""Subclasses of these that plain Python does not raise."""


def _reject_caught(ending: BaseException | None) -> None:
    """Raise an error of tracing again if the function has caught it, and plain Python would not have raised it.

    Also if plain Python would have raised this type, but the function may have seen the message, which differs.
    `ending` is the exception that has ended the function since.
    """
    if isinstance(ending, JitfuseError) or (ending is not None and not isinstance(ending, Exception)):
        return
    caught = was_caught(e for e in WATCH.errors or () if (
        isinstance(e, _OURS_ALONE) or not isinstance(e, _PLAIN_PYTHON_HAS) or try_blocks.shows_what_it_caught(e)))
    if caught is not None:
        raise caught from None


def _reject_both_kinds(values: Sequence[Any], paths: Sequence[str]) -> None:
    """Raise VolatileError for a result of NumPy's in a function that has met torch's tensors: all become tensors."""
    for value, path in zip(values, paths, strict=True):
        traced = isinstance(value, TracedTensor) and not value.weak
        if traced or isinstance(value, np.ndarray | np.generic):
            raise VolatileError(f"{path} is NumPy's, in a function that reads torch tensors: Python runs in every call."
                                " Return torch.from_numpy(...) of it, or pass arrays alone.")


def _locate(error: BaseException) -> None:
    """Add the user's line to the text of a JitfuseError that does not name it yet."""
    line = line_of(error)
    if not isinstance(error, JitfuseError) or line is None or not error.args or line in str(error):
        return
    error.args = (f"{error.args[0]} (at {line})", *error.args[1:])


# ---------------------------------------------------------------- from runs to a program
def _merged_leaves(runs: list[_ModeRun], closing: Recorder) -> list[RawLeaf]:
    first = runs[0]
    if len(runs) == 1:
        return first.leaves
    second = runs[1]
    if (first.spec, first.chosen, first.picked) != (second.spec, second.chosen, second.picked):
        raise ArgumentError(
            "the result differs between the modes: training returns "
            f"{first.spec or 'an array'}, evaluation returns {second.spec or 'an array'}. "
            "Return the same tree from both, with an array where you return None."
        )
    pairs = zip(first.leaves, second.leaves, first.paths, strict=True)
    return [merge(a, b, path, closing) for a, b, path in pairs]


def _result_tree(run: _ModeRun, leaves: list[RawLeaf], closing: Recorder) -> tuple[ResultTree, dict[str, int]]:
    """Return the result tree and the program's outputs; an object that is returned twice is one output."""
    outputs: dict[str, int] = {}
    first_path: dict[int, OutputLeaf] = {}
    made: list[ResultLeaf] = []
    taken = {raw.tensor for raw in leaves if raw.tensor is not None}
    for raw, path in zip(leaves, run.paths, strict=True):
        if raw.leaf is not None:
            made.append(raw.leaf)
            continue
        assert raw.tensor is not None
        found = first_path.get(raw.identity)
        if found is None:
            found = first_path[raw.identity] = OutputLeaf(path, raw.kind, closing.graph.metas[raw.tensor].dtype)
            outputs[path] = in_memory_order(closing, raw.tensor, raw.axes, taken)
        made.append(found)
    return ResultTree(run.spec, tuple(made), run.effects, run.chosen, run.picked), outputs


def _state(session: Session, closing: Recorder) -> tuple[frozenset[int], dict[int, int]]:
    """Return state_in and state_out: the random counter advances once a call, if the function has RNG calls."""
    feed = session.random_feed
    if feed is None:
        return frozenset(), {}
    return frozenset({feed}), {feed: closing.emit("random_advance", (feed,))}


def _writes(session: Session, runs: list[_ModeRun], closing: Recorder) -> dict[int, int]:
    """Return the tensor that each written array holds after the call, selected by mode where the runs differ."""
    held = [{f: s.value for f, s in r.recorder.storages.items()} for r in runs]
    writes: dict[int, int] = {}
    for feed in sorted(set().union(*held)):
        values = [h.get(feed, feed) for h in held]
        if any(v != feed for v in values):
            same = len(set(values)) == 1
            writes[feed] = values[0] if same else closing.emit("mode_select", (values[0], values[1]))
    return writes

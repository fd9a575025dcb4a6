"""A fused function as a node of torch's autograd: its forward pass with what to keep, and its backward pass.

The function is recorded as one program, differentiated by the tensors that require gradients, and cut in two. What is
kept between both is the choice of `jitfuse.gradients.keeping`. Does not own torch's node
(`jitfuse.function.autograd`).
"""
from __future__ import annotations

import contextlib
import itertools
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from jitfuse.base.records import NamedTuple, Record
from jitfuse.dtypes import itemsize
from jitfuse.errors import UnsupportedError
from jitfuse.gradients.bodies import between
from jitfuse.gradients.keeping import kept
from jitfuse.gradients.programs import reverse
from jitfuse.gradients.values import is_smooth
from jitfuse.ir.formats.text import meta_text
from jitfuse.ir.program import FusedProgram
from jitfuse.tracing.control.derivatives import Differentiable, Recorded, record, spliced
from jitfuse.tracing.record.foreign import Foreign, bare, host_array, requires_grad
from jitfuse.tracing.record.recorder import Recorder, active
from jitfuse.tracing.record.session import Feed, ModeMattersSignal, Session
from jitfuse.tracing.results.trees import Tree, tree_of
from jitfuse.tracing.tensor.traced import TracedTensor, fresh, tensor_id

Place = tuple[int, tuple[int, ...], tuple[int, ...], str]
"""Where an array's memory begins, its shape, its strides in bytes, its dtype."""


class Backward(Record, frozen=True, eq=False):
    """The backward pass of one trace, and how its forward pass gives the function's result.

    program      (kept values, cotangents of smooth outputs) -> gradients of the leaves
    tree         the result; a leaf is `Output` or `Outside`, or a value that is the same in each call
    smooth       which outputs have derivatives: floats and complex numbers that come of what requires gradients
    reached      of each of these, the leaves that it comes of, as bits
    shared       kept value -> the output that it is
    reads_names  whether a tensor is read that is no argument
    once         whether the function draws random numbers or writes, so that it cannot run again
    lines        a line of a report for each kept value
    """

    program: FusedProgram
    tree: Tree
    smooth: tuple[int, ...]
    reached: tuple[int, ...]
    shared: dict[int, int]
    reads_names: bool
    once: bool
    lines: tuple[str, ...]


class Output(NamedTuple):
    """A leaf of the result that the forward pass computes."""

    number: int


class Outside(NamedTuple):
    """A leaf of the result that is a tensor from outside, as it is."""

    number: int


class Forward(NamedTuple):
    """What a forward pass returns.

    token    names the backward pass
    outputs  the leaves of the result that it computes
    outside  those that are tensors from outside
    leaves   the tensors from outside by which it is differentiated
    others   those that required no gradients when it was traced
    kept     values for the backward pass
    """

    token: int
    outputs: tuple[Any, ...]
    outside: tuple[Any, ...]
    leaves: tuple[Any, ...]
    others: tuple[Any, ...]
    kept: tuple[Any, ...]


class _Given(threading.local):
    tensors: Sequence[Any] = ()


class ForwardPass:
    """The transform of a function into its forward pass. `given` are the tensors of this thread's call.

    `limit`: of the backward passes that are kept. `may_print`: what the function prints comes in the trace alone, and
    that is no reason to refuse it.
    """

    def __init__(self, *, may_print: bool, limit: int) -> None:
        self.given = _Given()
        self._limit = limit
        self._may_print = may_print
        self._passes: dict[tuple[int, bool], Backward] = {}
        self._tokens: weakref.WeakKeyDictionary[Session, int] = weakref.WeakKeyDictionary()
        self._next = itertools.count()

    @contextlib.contextmanager
    def of(self, tensors: Sequence[Any]) -> Iterator[None]:
        """Trace for a call with these tensors."""
        before, self.given.tensors = self.given.tensors, tensors
        try:
            yield
        finally:
            self.given.tensors = before

    def backward(self, token: int, training: bool) -> Backward | None:
        """Return the backward pass of a trace for the mode of a call; one that does not read the mode has one.

        None where it has been dropped: signatures are too, after that many.
        """
        return self._passes.get((token, training)) or self._passes.get((token, True))

    def __call__(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        """Return the forward pass."""
        def forward(*args: Any, **kwargs: Any) -> Forward:
            run = active()
            assert run is not None
            run.keeps_gradients, result = True, _Result()
            places, run.may_print = self._places(), self._may_print
            recorded = record(run, "the forward pass", result.split(fun), args, kwargs, Differentiable({}, []), False,
                              copies=False)
            if run.mode_read and not run.session.one_mode:
                run.mode_matters = True
                raise ModeMattersSignal  # each mode keeps other values
            return self._forward(run, recorded, result, places)

        return forward

    def _places(self) -> set[Place]:
        """Return where the arguments are that require gradients: the trace has arrays in their place.

        Others may be there too, such as `x.detach()`: torch takes no gradients of them.
        """
        tensors = [tensor for tensor in self.given.tensors if requires_grad(tensor)]
        if any(tensor.is_conj() or tensor.is_neg() for tensor in tensors):
            raise UnsupportedError("an argument is lazily conjugated or negated, and requires gradients")
        return {place_of(host_array(tensor)) for tensor in tensors}

    def _forward(self, run: Recorder, recorded: Recorded, result: _Result, places: set[Place]) -> Forward:
        """Splice the forward pass, and enter the backward pass."""
        outside = {feed: run.session.feeds[t] for feed, t in zip(
            recorded.program.ordered_feeds, recorded.operands, strict=True) if _is_smooth_feed(run, t)}
        wanted = [i for i, feed in outside.items() if _requires(run, feed, places)]
        if any(outside[i] is storage.feed for i in wanted for storage in recorded.written):
            raise UnsupportedError("the function writes into a tensor that requires gradients")
        moving = _moving(recorded.program, wanted)
        reached = {name: moving.get(recorded.program.outputs[name], 0) for name in recorded.names}
        names = [name for name in recorded.names if reached[name]]
        made = reverse(recorded.program, wanted, names).last()
        program = made.program
        ids = spliced(run, program, program.steps[: made.forward], dict(
            zip(recorded.program.ordered_feeds, recorded.operands, strict=True)))
        (outputs, _), numbers = recorded.finished(program, ids), [program.outputs[name] for name in recorded.names]
        keep = kept(made, set(numbers))
        changes = {str(k): program.outputs[f"d{k}"] for k in range(len(wanted))}
        wrapped = [run.wrapped_modules[feed.id] for feed in outside.values()]
        while len(self._passes) >= self._limit:
            self._passes.pop(next(iter(self._passes)), None)
        token = self._tokens.setdefault(run.session, next(self._next))
        self._passes[token, run.mode] = Backward(
            between(program, [*keep, *made.changes], changes), result.tree,
            tuple([k for k, name in enumerate(recorded.names) if reached[name]]),
            tuple([reached[name] for name in names]),
            {k: numbers.index(i) for k, i in enumerate(keep) if i in numbers},
            any(feed.id in {f.id for _, f in run.session.met.values()} for feed in outside.values()),
            recorded.draws or bool(recorded.written), tuple([_line(program, i) for i in keep]))
        written = [storage.feed for storage in recorded.written]  # what they held is kept, not what they hold
        of, kind = dict(zip(outside, wrapped, strict=True)), cast(Any, type(wrapped[0]) if wrapped else Foreign)
        return Forward(
            token, outputs, tuple(result.outside), tuple([of[i] for i in wanted]),
            tuple([x for i, x in of.items() if i not in wanted]),
            tuple([of[i] if i in of and outside[i] not in written else kind(fresh(run, ids[i], scalar=False))
                   for i in keep]))


def _requires(run: Recorder, feed: Feed, places: set[Place]) -> bool:
    for tensor, met in run.session.met.values():
        if met is feed:
            return requires_grad(tensor)
    return place_of(feed.value) in places or not feed.value.size  # empty arrays are nowhere


def _line(program: FusedProgram, value: int) -> str:
    step, meta = program.producers.get(value), program.meta[value]
    what = "from outside" if step is None else f"{step.op_name}, {program.sources.get(step.step_id)}"
    return f"{meta_text(meta)}, {meta.size * itemsize(meta.dtype)} B: {what}"


class _Result:
    """The function's result: its tensors, which are outputs, apart from the tree."""

    def __init__(self) -> None:
        self.tree: Any = None
        self.outside: list[Any] = []

    def split(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function that returns the tensors which it has made."""
        def function(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
            tree = tree_of(fun(*args, **kwargs), "result")
            outputs: list[Any] = []
            self.tree = tree._replace(leaves=tuple([self._leaf(leaf, outputs) for leaf in tree.leaves]))
            if len({id(leaf.tensor._storage) for leaf in outputs}) < len(outputs):
                raise UnsupportedError("two results share memory")
            return tuple(outputs)

        return function

    def _leaf(self, leaf: Any, outputs: list[Any]) -> Any:
        if not isinstance(leaf, Foreign):
            if isinstance(leaf, TracedTensor):
                raise UnsupportedError("a result is no torch tensor")
            return leaf
        if leaf.tensor._storage.feed is None:
            same = [k for k, other in enumerate(outputs) if other.tensor is leaf.tensor]
            if not same:
                outputs.append(leaf)
            return Output(same[0] if same else len(outputs) - 1)
        if leaf.tensor._path is not None:
            raise UnsupportedError("a result is a view of a tensor from outside")
        self.outside.append(leaf)
        return Outside(len(self.outside) - 1)


class Spliced(Record, frozen=True, eq=False):
    """The transform that puts a program in a function's place."""

    program: FusedProgram

    def __call__(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function that runs the program."""
        def run_program(*tensors: Any) -> tuple[Any, ...]:
            run = active()
            assert run is not None
            ids = dict(zip(self.program.ordered_feeds, [tensor_id(bare(t)) for t in tensors], strict=True))
            spliced(run, self.program, self.program.steps, ids)
            kind = type(tensors[-1])
            return tuple([kind(fresh(run, ids[i], scalar=False)) for i in self.program.outputs.values()])

        return run_program


def place_of(array: Any) -> Place:
    """Return where an array's elements are."""
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype.name


def _is_smooth_feed(run: Recorder, tensor: int) -> bool:
    feed = run.session.feeds.get(tensor)
    return feed is not None and feed.kind == "array" and is_smooth(feed.meta) and feed.id in run.wrapped_modules


def _moving(program: FusedProgram, wanted: Sequence[int]) -> dict[int, int]:
    """Return the values that torch would give a place in its graph, whatever their derivatives are.

    With each are the wanted feeds that it comes of, as bits.
    """
    moving = {feed: 1 << k for k, feed in enumerate(wanted)}
    for step in program.steps:
        bits = 0
        for i in () if step.op_name == "stop_gradient" else step.input_ids:
            bits |= moving.get(i, 0)
        if bits:
            moving.update((i, bits) for i in step.result_ids if is_smooth(program.meta[i]))
    return moving

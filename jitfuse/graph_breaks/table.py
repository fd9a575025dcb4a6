"""A part of a trace tree as one table of the native driver: subgraphs, reads of their answers, jumps, ends.

A call runs from the entrance to a result without Python. If an answer has no edge, the table ends in a Python function
that receives the state of the call and continues it (`resume`). Owns the ops. Does not own the slots of values
(`jitfuse.graph_breaks.slots`), the choice of edges (`jitfuse.graph_breaks.paths`), or the ops of a subgraph
(`jitfuse.compile.bind.steps`).
"""
from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from jitfuse.backends.llvm.runtime.plan_table import Label
from jitfuse.backends.llvm.runtime.result_tree import ArrayResult, CallResult, Output, ResultTree, SlotResult
from jitfuse.compile.bind.copies import copy_window
from jitfuse.compile.bind.plan import Outputs, delivered, known_result, scalar_result, step_binder
from jitfuse.compile.bind.steps import PlanMemory
from jitfuse.compile.call_plans.call_plan import Window
from jitfuse.compile.guards.guard_tables import BoundEntry
from jitfuse.dtypes import itemsize, numpy_dtype
from jitfuse.graph_breaks.compiled_subgraph import CompiledSubgraph
from jitfuse.graph_breaks.paths import RANDOM_FEED, NativeEdge, NativePaths
from jitfuse.graph_breaks.slots import ArenaSlots, Free, Held, made_by
from jitfuse.graph_breaks.tree import TreeState
from jitfuse.ir.program import Meta
from jitfuse.tracing.record.layout import contiguous
from jitfuse.tracing.results.returned import OutputLeaf, ResultLeaf, SameLeaf, ViewLeaf
from jitfuse.tracing.subgraph import ValueSlot

GUESSED: Final = 32
"""Assumed number of iterations of a loop, for cost estimates."""
_STATE: Final = Meta((2,), "int64")


class Left(NamedTuple):
    """A point at which a call leaves the table: a state whose question has an unknown answer, and the call's values.

    feeds      the bound feeds, in the order in which their objects are passed
    live       how many live arrays are passed next; then the arrays asked about that are no feeds, and the RNG state
    asked      for each array asked about its feed, or None if it is passed as an array
    moves_rng  whether the RNG state is passed last
    """

    state: TreeState
    feeds: tuple[int, ...]
    live: int
    asked: tuple[int | None, ...]
    moves_rng: bool


class _Todo(NamedTuple):
    edge: NativeEdge
    live: Sequence[Held]
    reserved: int
    free: Free
    moves_rng: bool


class PathTable:
    """Writes the table of a part; `resume` makes the function that continues a call where it leaves the table."""

    def __init__(
        self, part: NativePaths, bound: BoundEntry, resume: Callable[[Left], Callable[[list[Any]], Any]]
    ) -> None:
        self._part, self._bound, self._resume = part, bound, resume
        self._builder = bound.entry.plan_builder()
        self._binder = step_binder(bound, self._builder)
        self._scratch = self._binder.reserve(
            max((self._arena(edge.tree_edge.subgraph) for edge in part.edges), default=0)
        )
        self._rng_state = Held(*self._binder.room(16), _STATE) if RANDOM_FEED in bound.feed_values else None
        self._slots = ArenaSlots(part, self._binder)
        self._labels: dict[tuple[TreeState, Hashable], Label] = {}
        self._late: dict[Any, list[Output]] = {}
        self._taken: dict[Any, int] = {}
        """By kind: how many late outputs the current end has used."""

    def _arena(self, subgraph: CompiledSubgraph | None) -> int:
        return 0 if subgraph is None else subgraph.spec.plans[self._part.training].call.arena_bytes

    def build(self) -> Any:
        """Return the plan; raises UnfitSignal if values cannot be placed."""
        todo = [_Todo(self._part.edges[0], (), self._binder.reserved, {}, False)]
        while todo:
            item = todo.pop()
            self._binder.release(item.reserved)
            if item.edge is not self._part.edges[0]:
                self._builder.place(self._label(item.edge.source, item.edge.key))
            todo.extend(self._write_edge(item))
        return self._builder.build(cost=self._binder.cost)

    def _label(self, state: TreeState, key: Hashable) -> Label:
        found = self._labels.get((state, key))
        if found is None:
            found = self._labels[state, key] = self._builder.label()
        return found

    # ------------------------------------------------------------------ one edge
    def _write_edge(self, item: _Todo) -> list[_Todo]:
        """Write an edge; return the edges that follow it."""
        edge, target = item.edge, item.edge.tree_edge.target
        if edge.tree_edge.moves_rng and not item.moves_rng:
            self._take_rng_state()
        drawn = item.moves_rng or edge.tree_edge.moves_rng
        if target is None:
            self._end(edge, item.live)
            return []
        made, free = self._slots.made(edge, item.free)
        if edge.tree_edge.subgraph is not None:
            self._run(edge, edge.tree_edge.subgraph, item.live, made)
        keep, asked = (
            [self._held(edge, p, item.live, made) for p in ps] for ps in (edge.tree_edge.keep, edge.tree_edge.asked)
        )
        live, moved = self._slots.turn(edge, keep)
        asked = [moved.get(held.value, held) for held in asked]
        if not edge.back and edge.home is None:
            free = self._slots.freed(free, (*item.live, *made), live)
        brought = self._write_answer(edge, target, live, asked, drawn)
        if edge.back:
            return []
        following = self._part.following.get(target, {}).values()
        return [_Todo(w, (*live, *brought.get(w.key, ())), self._binder.reserved, free, drawn)
                for w in reversed(list(following))]

    def _take_rng_state(self) -> None:
        """Copy the RNG state and advance the original: once in a call."""
        assert self._rng_state is not None
        state = self._bound.feed_values[RANDOM_FEED]
        self._builder.copy(self._rng_state.location, (state, 0), self._rng_state.nbytes)
        self._builder.count(state, 1, offset=8)

    def _held(self, edge: NativeEdge, slot: ValueSlot, live: Sequence[Held], made: Sequence[Held]) -> Held:
        """Return where a value lies after an edge's subgraph has run."""
        if slot.kind == "live":
            return live[slot.number]
        if slot.kind == "made":
            return made[slot.number]
        number = edge.feeds.get(slot.number)
        if number is None:
            assert self._rng_state is not None
            return self._rng_state
        return Held(self._bound.feed_values[number], 0, self._bound.entrance.feeds[number].meta)

    def _feeds(self, edge: NativeEdge, live: Sequence[Held]) -> dict[int, tuple[int, int]]:
        return {k: self._held(edge, slot, live, ()).location for k, slot in enumerate(edge.tree_edge.inputs)}

    def _run(self, edge: NativeEdge, subgraph: CompiledSubgraph, live: Sequence[Held], made: Sequence[Held]) -> None:
        """Write the steps of a subgraph whose outputs lie in the slots `made`."""
        binder, reserved = self._binder, self._binder.reserved
        compiled = subgraph.spec.plans[self._part.training]
        plan = compiled.call
        outputs: dict[int, tuple[int, int]] = {}
        copied = []
        for held, (value, window, whole) in zip(made, made_by(plan), strict=True):
            if whole and value not in outputs:
                outputs[value] = held.location
            else:
                copied.append((held, value, window))
        for value, (dtype, shape) in plan.outputs.items():
            if value not in outputs:
                outputs[value] = binder.room(Held(0, 0, Meta(shape, dtype)).nbytes)
        memory = self._memory(subgraph, self._feeds(edge, live), outputs)
        binder.steps(plan.steps, memory, 1 if edge.home is None else GUESSED)
        for held, value, window in copied:
            at, offset = outputs[value]
            copy_window(binder, held.location, window, (at, offset + window.offset), 0)
        binder.release(reserved)

    def _memory(
        self, subgraph: CompiledSubgraph, feeds: Mapping[int, tuple[int, int]], outputs: Mapping[int, tuple[int, int]]
    ) -> PlanMemory:
        compiled = subgraph.spec.plans[self._part.training]
        self._builder.hold(subgraph)
        self._binder.kernels = compiled.kernels
        return PlanMemory(compiled.call, feeds, outputs, self._binder.constants(compiled.constants), self._scratch)

    # ------------------------------------------------------------------ reads of values
    def _write_answer(
        self, edge: NativeEdge, state: TreeState, live: Sequence[Held], asked: Sequence[Held], drawn: bool
    ) -> Mapping[Hashable, list[Held]]:
        """Write a jump for each known answer, and the exit to Python for any other; return what answers bring."""
        known = self._part.following.get(state, {})
        assert state.question is not None
        number, other = state.question.number, self._builder.label()
        at, offset = asked[0].location if asked else (0, 0)  # a print may have strings alone
        brought: dict[Hashable, list[Held]] = {}
        if state.question.brings and known:
            brought = self._write_call(edge, state, known, asked)
        elif number is None:
            for content, key in list(state.seen.items()):
                if key in known:
                    self._builder.match(at, content, self._label(state, key), offset=offset)
        elif number is bool and known:
            labels = {_answer(key, bool): self._label(state, key) for key in known}
            self._builder.branch(at, labels.get(False, other), offset=offset, wanted=False)
            self._builder.jump(labels.get(True, other))
        elif known:
            cases = [(_answer(key, number), self._label(state, key)) for key in known]
            self._builder.observe(at, asked[0].meta.dtype, cases, offset=offset)
        if number is not bool or len(known) < 2:
            self._builder.place(other)
            self._leave(edge, state, live, asked, drawn)
        return brought

    def _write_call(
        self, edge: NativeEdge, state: TreeState, known: Mapping[Hashable, NativeEdge], asked: Sequence[Held]
    ) -> dict[Hashable, list[Held]]:
        """Write a call of Python that asks a question, and a jump for each known answer; return what answers bring."""
        flag = Held(*self._binder.room(8), Meta((), "int64"))
        brought = {key: self._slots.brought(state, key) for key in known}
        # writeable: compiled functions of libraries want that, also of what they only read
        arrays = [self._binder.array(self._window(edge, held, slot), held.location, True)
                  for held, slot in zip(asked, edge.tree_edge.asked, strict=True)]
        arrays += [self._binder.array(_whole(held), held.location, True)
                   for held in (*(h for parts in brought.values() for h in parts), flag)]
        self._builder.host(_asking(state, len(asked), {key: len(parts) for key, parts in brought.items()}), arrays)
        cases = [(number, self._label(state, key)) for number, key in enumerate(brought)]
        self._builder.observe(flag.value, "int64", cases, offset=flag.offset)
        return brought

    def _window(self, edge: NativeEdge, held: Held, slot: ValueSlot) -> Window:
        """Return the layout of a value that is asked about; a feed has its own strides."""
        if slot.kind != "feed" or slot.number not in edge.feeds:
            return _whole(held)
        strides = self._bound.entrance.feeds[edge.feeds[slot.number]].strides
        in_order = strides == contiguous(held.meta.shape, itemsize(held.meta.dtype)).strides
        return _whole(held).replace(strides=strides, contiguous=in_order)

    def _leave(
        self, edge: NativeEdge, state: TreeState, live: Sequence[Held], asked: Sequence[Held], drawn: bool
    ) -> None:
        """Write an exit to Python."""
        self._taken = {}
        feeds = tuple(edge.feeds)
        numbers = [p.number if p.kind == "feed" and p.number in edge.feeds else None for p in edge.tree_edge.asked]
        copied = [*live, *(held for held, feed in zip(asked, numbers, strict=True) if feed is None)]
        if drawn:
            assert self._rng_state is not None
            copied.append(self._rng_state)
        entrance = self._bound.entrance
        items: list[ResultTree] = [SlotResult(k) for k in range(entrance.positional + len(entrance.keywords))]
        items += [SlotResult(self._bound.feed_slots[edge.feeds[feed]]) for feed in feeds]
        items += [self._copied(held) for held in copied]
        left = Left(state, feeds, len(live), tuple(numbers), drawn)
        self._builder.finish(CallResult(self._resume(left), tuple(items)))

    # ------------------------------------------------------------------ ends
    def _end(self, edge: NativeEdge, live: Sequence[Held]) -> None:
        """Write the last subgraph of a path, the result, and the writes into arguments."""
        result, subgraph = edge.tree_edge.result, edge.tree_edge.subgraph
        assert result is not None
        self._taken = {}
        results: dict[str, ResultTree] = {}
        if subgraph is not None:
            plan = subgraph.spec.plans[self._part.training].call
            outputs = Outputs(plan, self._output)
            memory = self._memory(subgraph, self._feeds(edge, live), outputs.locations)
            self._binder.steps(plan.steps, memory)
        for leaf in result.tree.leaves:
            if isinstance(leaf, OutputLeaf) and leaf.path not in results:
                slot = result.outputs[leaf.path]
                made = slot.kind == "made"
                results[leaf.path] = (
                    outputs.result(str(slot.number), leaf.kind, memory) if made
                    else self._live_result(live[slot.number], leaf)
                )
        if subgraph is not None:
            self._binder.steps(plan.commits, memory)
        leaves = [self._leaf(edge, leaf, results) for leaf in result.tree.leaves]
        self._builder.finish(delivered(self._bound, result.tree, leaves))

    def _live_result(self, held: Held, leaf: OutputLeaf) -> ResultTree:
        return self._copied(held) if leaf.kind == "array" else scalar_result(held.location, leaf.dtype, leaf.kind)

    def _leaf(self, edge: NativeEdge, leaf: ResultLeaf, results: Mapping[str, ResultTree]) -> ResultTree:
        if isinstance(leaf, OutputLeaf):
            return results[leaf.path]
        renamed = leaf.replace(feed=edge.feeds[leaf.feed]) if isinstance(leaf, SameLeaf | ViewLeaf) else leaf
        return known_result(self._bound, renamed)

    def _output(self, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> Output:
        """Return an output that is allocated here, because only the ends of other paths have it."""
        kind = dtype, shape, strides
        pool, nth = self._late.setdefault(kind, []), self._taken.get(kind, 0)
        if nth == len(pool):
            pool.append(self._builder.output(dtype, shape, strides, late=True))
        self._taken[kind] = nth + 1
        self._builder.allocate(pool[nth])
        return pool[nth]

    def _copied(self, held: Held) -> ResultTree:
        """Return a new array with a copy of a value."""
        output = self._output(numpy_dtype(held.meta.dtype), held.meta.shape)
        self._builder.copy((output.value, 0), held.location, held.nbytes)
        return ArrayResult(output)


def _whole(held: Held) -> Window:
    return Window(("value", 0), 0, held.meta.dtype, held.meta.shape, (), True)


def _asking(state: TreeState, count: int, known: Mapping[Hashable, int]) -> Callable[..., None]:
    """Return the host function that asks a state's question about `count` arrays.

    Then come the arrays for what each known answer brings, and the number of the answer, -1 for another one.
    """
    places, at = {}, count
    for number, (key, parts) in enumerate(known.items()):
        places[key] = number, at
        at += parts
    assert state.question is not None
    ask = state.question.ask

    def run(*arrays: Any) -> None:
        try:
            answer = ask(*arrays[:count])
        except Exception:  # nothing has been written: Python asks again, and plain Python has the error and its writes
            arrays[-1][...] = -1
            return
        number, first = places.get(answer.key, (-1, 0))
        arrays[-1][...] = number
        if number >= 0:
            for k, part in enumerate(answer.arrays):
                arrays[first + k][...] = part

    return run


def _answer(key: Hashable, number: type) -> Any:
    """Return the value of a key of `jitfuse.tracing.record.value_reads.exact`: 0.0 and -0.0 differ."""
    assert isinstance(key, tuple)
    kind, text = key[1]
    assert kind == number.__name__
    return text == "True" if number is bool else number(text)

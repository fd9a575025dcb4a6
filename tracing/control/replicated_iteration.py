"""The steps of one iteration of a loop, and copies of them for other iterations.

Owns when recorded iterations are alike, and the recording of copies. Does not own which loops these belong to, nor when
Python runs them (`jitfuse.tracing.control.replication`).
"""
from __future__ import annotations

import weakref
from itertools import pairwise
from typing import Any, Final

from jitfuse.base.records import made
from jitfuse.tracing.record.graph import OpNode
from jitfuse.tracing.record.memory import Storage
from jitfuse.tracing.record.recorder import Mixed, Recorder

_MOVING: Final = frozenset({"slice", "update_slice"})
_CONSTANTS: Final = frozenset({"full", "constant"})

Mark = tuple[int, int, int]
"""How many ops, tensors, and slices that meet an end of their axis have been recorded."""
Held = dict[weakref.ref[Storage], int]
"""The tensor that each storage holds at some time."""


def held_now(run: Recorder) -> Held:
    """Return the tensors that all live storages hold."""
    return {weakref.ref(storage): storage.value for storage in alive(run)}


def mark(run: Recorder) -> Mark:
    """Return how much has been recorded."""
    if run.slices is None:
        run.slices = []
    return len(run.graph.ops), len(run.graph.metas), len(run.slices)


def _slices(run: Recorder, begin: Mark, end: Mark) -> list[Any]:
    assert run.slices is not None
    return run.slices[begin[2] : end[2]]


def alive(run: Recorder) -> list[Storage]:
    """Return the live storages: those of feeds, and those made in this run."""
    found = [(ref, storage) for ref in run.born if (storage := ref()) is not None]
    run.born[:] = [ref for ref, _ in found]
    return [*(storage for _, storage in found), *run.storages.values()]


def recorded_state(run: Recorder) -> Any:
    """Return the recorded state that equal iterations leave unchanged: all but the ops and the contents of arrays."""
    session, environment = run.session, run.environment
    return (
        run.value_reads, run.rng_calls, run.random_calls, run.random_base, run.mode_read, len(run.placeholders),
        len(run.active_branches),
        len(run.loops), len(run.external_generators), len(run.converted_sites), len(session.asked), len(session.feeds),
        len(session.closed), len(session.counters),
        dict(session.guarded_values), dict(session.int_ranges), session.region, session.torch, session.random_feed,
        len(environment.guard_log.guards), len(environment.guard_log.volatile), len(environment.written),
        len(environment.fresh),
    )


class ReplicatedIteration:
    """The steps of an iteration: the ops of the last compared one, which operands and slices move, and by how much."""

    __slots__ = ("begin", "inputs", "metas", "moves", "ops", "slices", "state", "tensors")

    def __init__(
        self, ops: list[OpNode], inputs: list[Any], moves: list[Any], tensors: int, metas: list[Any], begin: int,
        slices: list[Any],
    ) -> None:
        self.ops, self.tensors, self.metas = ops, tensors, metas
        self.slices = slices
        """Slices that meet an end of their axis; these do not move."""
        self.begin = begin
        """The first of its `tensors` tensors."""
        self.inputs = inputs
        """For each op, which operands iterations make; () for none, True for all."""
        self.moves = moves
        """For each op, by how much the starts of its slice move; () for ops that do not move."""
        self.state: Any = None
        """The recorded state after the copies."""

    @staticmethod
    def of(run: Recorder, spans: list[tuple[Mark, Mark]], first: int, low: int) -> ReplicatedIteration | None:
        """Return the common form of the iterations recorded between marks; None where they differ.

        They may read from iterations whose tensors begin at `first`; what all of them read must be from before `low`.
        """
        graph = run.graph
        sizes = {(end[0] - begin[0], end[1] - begin[1]) for begin, end in spans}
        slices = [_slices(run, begin, end) for begin, end in spans]
        if len(sizes) != 1 or any(one != slices[0] for one in slices):
            return None
        (_, tensors), = sizes
        begins = [begin[1] for begin, _ in spans]
        iterations = [graph.ops[begin[0] : end[0]] for begin, end in spans]
        metas = [graph.metas[begin[1] : end[1]] for begin, end in spans]
        if metas[0] != metas[-1] or metas[1] != metas[-1]:
            return None
        inputs, moves = [], []
        for same_ops in zip(*iterations):
            read, moved = _operands(run, same_ops, tensors, first, low), _moves(same_ops)
            if read is None or moved is None:
                return None
            inputs.append(read)
            moves.append(moved)
        return ReplicatedIteration(iterations[-1], inputs, moves, tensors, metas[-1], begins[-1], slices[0])

    def ahead(self, op: OpNode, read: Any, moved: Any, count: int) -> tuple[tuple[int, ...], Any]:
        """Return the operands and attributes of an op, `count` iterations later."""
        further = count * self.tensors
        inputs = op.input_ids
        if read is True:
            inputs = tuple([t + further for t in inputs])
        elif read:
            inputs = tuple([t + further if made_in else t for t, made_in in zip(inputs, read)])
        return inputs, _with_moved_starts(op.attrs, moved, count) if moved else op.attrs

    @staticmethod
    def _written(op: OpNode, read: Any, moved: Any) -> tuple[Any, ...]:
        """Return an op in the form that `copy` reads many thousand times: the number of moving operands (3: more than
        two), the name, the operands, two of them and whether they move, the starts of a slice that moves, the
        attributes before and after these, all attributes, the results, and the rest."""
        count = len(op.input_ids)
        goes_on = (1,) * count if read is True else tuple(map(int, read)) if read else (0,) * count
        kind = min(count, 3) if any(goes_on) else 0
        (a, i), (b, j) = (*zip(op.input_ids, goes_on), (0, 0), (0, 0))[:2]
        inputs = tuple(zip(op.input_ids, goes_on)) if kind == 3 else op.input_ids
        at = [name for name, _ in op.attrs].index("starts") if moved else 0
        starts: Any = op.attrs[at][1] if moved else ()
        moving = tuple(zip(starts, moved))
        results = op.result_ids[0] if len(op.result_ids) == 1 else op.result_ids
        return (kind, op.op_name, inputs, a, i, b, j, moving, op.attrs[:at], op.attrs[at + 1 :], op.attrs, results,
                op.mode_sensitive, op.source)

    def copy(self, run: Recorder, count: int, before: list[Held], low: int) -> bool:
        """Record `count` further iterations; storages that change in each iteration then hold the last one's tensors.

        `before`: what storages held when the compared iterations began. Operands that do not move are from before
        `low`. Returns False, with nothing recorded, where a live storage changes between iterations in another way.
        """
        shifted = [storage for storage in alive(run) if not _is_constant(run, storage.value)]
        moves = [self._is_moved(storage, before, low) for storage in shifted]
        if None in moves:
            return False
        shifted = [storage for storage, is_moved in zip(shifted, moves) if is_moved]
        end = len(run.graph.metas)
        graph, recorded = run.graph, run.graph.ops
        number, node, tensors = len(recorded), OpNode, self.tensors
        written = [self._written(op, read, moved) for op, read, moved in zip(self.ops, self.inputs, self.moves)]
        makers = [k for k, op in enumerate(self.ops) for _ in op.result_ids]
        for iteration in range(1, count + 1):
            further = iteration * tensors
            graph.producer += [number + k for k in makers]
            for kind, name, inputs, a, i, b, j, moving, before_, after, attrs, results, mode, source in written:
                if kind == 2:
                    inputs = (a + i * further, b + j * further)
                elif kind == 1:
                    inputs = (a + further,)
                elif kind:
                    inputs = tuple([t + on * further for t, on in inputs])
                if moving:
                    attrs = (*before_, ("starts", tuple([s + iteration * by for s, by in moving])), *after)
                made_here = (results + further,) if type(results) is int else tuple([t + further for t in results])
                recorded.append(made(node, (number, name, inputs, attrs, made_here, mode, source)))
                number += 1
            graph.metas += self.metas
        run.replicated_ops += count * len(self.ops)
        for storage in shifted:
            storage.value += count * self.tensors
            storage.cache = {}
        self._note(run, end - len(before) * self.tensors, end, count * self.tensors)
        self.state = recorded_state(run)
        return True

    def _is_moved(self, storage: Storage, before: list[Held], low: int) -> bool | None:
        """Return whether a storage holds in each iteration a tensor of that iteration; None where that is unclear."""
        values = [held.get(weakref.ref(storage)) for held in before]
        values.append(storage.value)
        if values[0] is None:  # a later iteration made it
            begin = self.begin - (len(before) - 1) * self.tensors
            return None if low <= storage.value < begin else storage.value >= begin
        if None in values:
            return None
        if len(set(values)) == 1:
            return False
        steps = {b - a for a, b in pairwise(values[1:])}  # type: ignore[operator]
        return True if steps == {self.tensors} else None

    @staticmethod
    def _note(run: Recorder, low: int, end: int, further: int) -> None:
        """Copy what is known of the tensors of the last compared iterations to their copies."""
        for t, (truth, python) in list(run.mixed.items()):
            if low <= t < end:
                run.mixed[t + further] = Mixed(truth + further if low <= truth < end else truth, python)
        run.bounded |= {t + further for t in run.bounded if low <= t < end}

    def is_again(self, run: Recorder, begin: Mark, count: int) -> bool:
        """Return whether the ops since a mark equal these ops `count` iterations later."""
        graph = run.graph
        now = graph.ops[begin[0] :]
        if len(now) != len(self.ops) or graph.metas[begin[1] :] != self.metas:
            return False
        if _slices(run, begin, mark(run)) != self.slices:
            return False
        expected = self.begin + count * self.tensors
        for op, was, read, moved in zip(now, self.ops, self.inputs, self.moves):
            inputs, attrs = self.ahead(was, read, moved, count)
            inputs = tuple([t if t < expected - 2 * self.tensors else t + begin[1] - expected for t in inputs])
            if (op[1], op[2], op[3], op[5], op[6]) != (was[1], inputs, attrs, was[5], was[6]):
                return False
        return True


def _operands(run: Recorder, same_ops: tuple[OpNode, ...], tensors: int, first: int, low: int) -> Any:
    """Return which operands of an op iterations make; None where it reads others.

    `same_ops`: the op in each iteration.
    """
    results = [tuple([t + k * tensors for t in same_ops[0][4]]) for k in range(len(same_ops))]
    if results != [op[4] for op in same_ops]:
        return None
    a, b, c = (op[2] for op in same_ops)
    if not len(a) == len(b) == len(c):
        return None
    read = []
    for x, y, z in zip(a, b, c):
        if z - y == y - x == tensors and x >= first:
            read.append(True)
        elif x == y == z and (x < low or _is_constant(run, x)):
            read.append(False)
        else:
            return None
    return True if all(read) else tuple(read) if any(read) else ()


def _is_constant(run: Recorder, tensor: int) -> bool:
    """Return whether a tensor is an argument or a literal, which is made once and found again."""
    node = run.graph.node(tensor)
    return node is None or node.op_name in _CONSTANTS


def _moves(same_ops: tuple[OpNode, ...]) -> Any:
    """Return by how much the starts of a slice move in each iteration, () where they stay; None for other ops."""
    one, two, three = same_ops
    if any((op[1], op[5], op[6]) != (one[1], one[5], one[6]) for op in (two, three)):
        return None
    a, b, c = one[3], two[3], three[3]
    if a == b == c:
        return () if a is b is c or repr(a) == repr(b) == repr(c) else None
    if one[1] not in _MOVING:
        return None
    others: list[dict[str, Any]] = [dict(attrs) for attrs in (a, b, c)]
    x, y, z = (found.pop("starts") for found in others)
    if others[0] != others[1] or others[1] != others[2]:
        return None
    moved = tuple([q - p for p, q in zip(x, y)])
    return moved if any(moved) and moved == tuple([q - p for p, q in zip(y, z)]) else None


def _with_moved_starts(attrs: Any, moved: tuple[int, ...], count: int) -> Any:
    """Return the attributes of a slice `count` iterations later."""
    return tuple([
        (name, tuple([s + count * by for s, by in zip(value, moved)])) if name == "starts" else (name, value)
        for name, value in attrs
    ])

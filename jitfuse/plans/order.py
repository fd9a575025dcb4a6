"""Order the kernels and library calls of a plan: the second scheduling.

The scheduler that ordered the program's steps orders the groups after fusion, now by the bytes that they really leave
in the arena. Then launches of one form that need nothing of each other become batches, which run as one launch. Owns
the scheduling problem over groups, and which launches are batched. Does not own the methods
(`jitfuse.tracing.schedule.scheduler`) or the arena (`jitfuse.plans.memory`).
"""
from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from jitfuse.ir.kernels.form import KernelForm
from jitfuse.plans.chain import written
from jitfuse.plans.commits import may_raise
from jitfuse.plans.groups import Grouping
from jitfuse.tracing.schedule.scheduler import ILPScheduler, SchedulingProblem

HELD: Final = 1 << 16
"""Bytes that a batch may add to the arena: those of the smallest size class of schedules."""


def execution_order(grouping: Grouping, nbytes: Mapping[int, int], kept: Collection[int], method: str) -> list[int]:
    """Return group numbers in the order of a scheduling method.

    `nbytes` are those of the values in the arena; `kept` are the values read after all groups have run.
    """
    order = _topological(grouping)
    if len(order) < 3:
        return order
    problem = _problem(grouping, order, nbytes, kept)
    levels = ILPScheduler(method).levels(problem)
    return [order[k] for k in sorted(range(len(order)), key=lambda k: (levels[k], k))]


def _problem(
    grouping: Grouping, order: list[int], nbytes: Mapping[int, int], kept: Collection[int]
) -> SchedulingProblem:
    """Return the groups, numbered in a valid order, as a scheduling problem.

    A tensor is a value that a group stores. If a group needs another but reads nothing that it stores (an empty array),
    a tensor of no bytes represents the dependency.
    """
    groups = [grouping.groups[number] for number in order]
    position = {number: k for k, number in enumerate(order)}
    reads: list[tuple[int, ...]] = []
    for group in groups:
        values = group.host.input_ids if group.host is not None else [v for v, _ in group.leaves]
        read = {grouping.values.base(v) for v in values}
        reads.append((*sorted(read), *(-1 - position[n] for n in sorted(group.needs))))
    results = tuple((*sorted(set(group.roots)), -1 - k) for k, group in enumerate(groups))
    weights = {t: nbytes.get(t, 0) for made in results for t in made}
    return SchedulingProblem(tuple(range(len(order))), tuple(reads), results, weights, frozenset(kept))


def _topological(grouping: Grouping) -> list[int]:
    """Return group numbers so that each comes after all it needs, otherwise in program order."""
    order: list[int] = []
    done: set[int] = set()
    for start in range(len(grouping.groups)):
        stack = [start]
        while stack:
            top = stack[-1]
            if top in done:
                stack.pop()
                continue
            waiting = sorted(grouping.groups[top].needs - done)
            if waiting:
                stack.extend(reversed(waiting))
                continue
            done.add(top)
            order.append(top)
            stack.pop()
    return order


def batched(steps: Sequence[Any], touched: Sequence[Collection[Any]], arena: Mapping[Any, int]) -> list[Any]:
    """Return the steps with launches of one form one after the other, and `Launch.batched`, where they can run as one.

    `touched[k]` are the buffers of step k; `arena` has the bytes of those that share memory with others. Launches move
    forward only, and not before what they need. None that writes an argument moves before a step that may raise.
    """
    batches = _Batches(arena)
    for step, buffers in zip(steps, touched, strict=True):
        batches.add(step, buffers)
    return [step._replace(batched=True) if k else step for batch in batches.made for k, step in enumerate(batch.steps)]


class _Batch:
    """Launches that run as one, or one other step.

    What they read from the arena lies beside what they write: without the batch either might take the other's memory.
    `moved` are bytes written by launches that came from behind other steps, which hold that memory longer.
    """

    def __init__(self) -> None:
        self.steps: list[Any] = []
        self._read = self._written = self._moved = 0

    def add(self, step: Any, read: int, written: int, *, moves: bool) -> bool:
        """Add a step that reads and writes so many bytes of the arena; return False if that would hold too much."""
        read += self._read
        moved, written = self._moved + written * moves, self._written + written * (not moves)
        if self.steps and min(read, written) + moved > HELD:
            return False
        self.steps.append(step)
        self._read, self._written, self._moved = read, written, moved
        return True


class _Batches:
    """The batches made so far, in order."""

    def __init__(self, arena: Mapping[Any, int]) -> None:
        self.made: list[_Batch] = []
        self._arena = arena
        self._latest: dict[KernelForm, int] = {}
        """The last batch of a form."""
        self._touched: dict[Any, int] = {}
        self._written: dict[Any, int] = {}
        """The last batch that touches a buffer, and that writes it."""
        self._safe = 0
        """The first batch after all that may raise."""

    def add(self, step: Any, buffers: Collection[Any]) -> None:
        """Add a step to the last batch of its form, or as a new one."""
        raises, writes = may_raise(step), written(step)
        first = 1 + max([self._written.get(b, -1) for b in buffers] + [self._touched.get(b, -1) for b in writes])
        if any(kind == "feed" for kind, _ in writes):
            first = max(first, self._safe)
        at = self._join(step, first, self._bytes(set(buffers) - writes), self._bytes(writes), alone=raises)
        for b in buffers:
            self._touched[b] = max(at, self._touched.get(b, -1))
        for b in writes:
            self._written[b] = max(at, self._written.get(b, -1))
        if raises:
            self._safe = at + 1

    def _join(self, step: Any, first: int, read: int, writes: int, *, alone: bool) -> int:
        """Add a step to a batch from `first` on; return the batch's number."""
        at = -1 if alone else self._latest.get(step.form, -1)
        if at < first or not self.made[at].add(step, read, writes, moves=at < len(self.made) - 1):
            at = len(self.made)
            self.made.append(_Batch())
            self.made[at].add(step, read, writes, moves=False)
        if not alone:
            self._latest[step.form] = at
        return at

    def _bytes(self, buffers: Collection[Any]) -> int:
        return sum([self._arena.get(b, 0) for b in buffers])

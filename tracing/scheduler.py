"""ILPScheduler: assigns a level to every op of a scheduling problem.

Owns the problem's form and the methods `asap`, `alap` and `slack`. Sizes enter only as published size
classes (`size_class`), so that a schedule does not depend on which of two sizes is the larger one. Does not
know graphs or programs (`jitfuse.tracing.translator`): kernel groups are scheduled by the same code.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Final

from jitfuse.errors import ArgumentError
from jitfuse.records import NamedTuple, Record

METHODS: Final = ("asap", "alap", "slack", "ilp")
SIZE_CLASSES: Final = ((1 << 16, 1 << 12), (1 << 24, 1 << 20), (None, 1 << 28))
"""(upper bound in bytes, bytes that stand for the class): in a core's cache, in a shared cache, in memory."""


def size_class(ndim: int, nbytes: int) -> int:
    """Return the bytes by which a tensor counts: 0 for rank 0, else a power of two for its class."""
    if ndim == 0:
        return 0
    for bound, stands_for in SIZE_CLASSES:
        if bound is None or nbytes <= bound:
            return stands_for
    raise AssertionError("the last size class has no bound")


class SchedulingProblem(Record, frozen=True):
    """What is scheduled: ops by ascending id, the tensors each reads and makes, and what these weigh.

    `inputs` and `results` are in the order of `ids`; a tensor that no op makes is a feed, always there and
    never freed. `kept` are the tensors that stay until the end.
    """

    ids: tuple[int, ...]
    inputs: tuple[tuple[int, ...], ...]
    results: tuple[tuple[int, ...], ...]
    nbytes: Mapping[int, int]
    kept: frozenset[int]

    def predecessors(self) -> list[list[int]]:
        """Return for each op (by position) the positions of the ops whose results it reads."""
        maker = {t: k for k, made in enumerate(self.results) for t in made}
        found = []
        for read in self.inputs:
            makers = [maker[t] for t in read if t in maker]
            found.append(sorted(set(makers)) if len(makers) > 1 else makers)
        return found


class Load(NamedTuple):
    """What an order asks of memory: the most bytes live at once, then their sum over all ops."""

    peak: int
    over_time: int


def load_of(problem: SchedulingProblem, order: Sequence[int]) -> Load:
    """Return the load of running the ops in this order of ids."""
    position = {op: k for k, op in enumerate(problem.ids)}
    reads, readers, _ = _readers(problem)
    live = peak = over_time = 0
    for op in order:
        k = position[op]
        live += sum(problem.nbytes[t] for t in problem.results[k])
        peak = max(peak, live)
        over_time += live
        for t in reads[k]:
            readers[t] -= 1
            if readers[t] == 0 and t not in problem.kept:
                live -= problem.nbytes[t]
    return Load(peak, over_time)


class ILPScheduler:
    """Assigns levels by one method; two ops of which one needs the other never share a level.

    asap    as soon as the inputs are there
    alap    as late as the consumers allow
    slack   a greedy list schedule by bytes allocated minus bytes freed, then slack (alap minus asap level),
            then id; every op gets a level of its own
    ilp     the best order that an integer program finds (`jitfuse.tracing.integer_schedule`), starting from the
            better of asap and slack; for warming and offline use
    """

    def __init__(self, method: str = "slack") -> None:
        if method not in METHODS:
            raise ArgumentError(
                f"schedule={method!r} is not available; use one of {', '.join(map(repr, METHODS))}"
            )
        self.method = method

    def levels(self, problem: SchedulingProblem) -> dict[int, int]:
        """Return op id -> level, deterministically and in time n log n."""
        before = problem.predecessors()
        if self.method == "asap":
            found = _asap(before)
        elif self.method == "alap":
            found = _alap(before, _asap(before))
        elif self.method == "slack":
            found = _slack(problem, before)
        else:
            return _by_integer_program(problem, before)
        return dict(zip(problem.ids, found, strict=True))


def _by_integer_program(problem: SchedulingProblem, before: list[list[int]]) -> dict[int, int]:
    from jitfuse.tracing.integer_schedule import improved

    starts = [linear(problem.ids, found) for found in (_asap(before), _slack(problem, before))]
    order = improved(problem, min(starts, key=lambda order: load_of(problem, order)))
    return {op: level for level, op in enumerate(order)}


def linear(ids: Sequence[int], levels: Sequence[int]) -> list[int]:
    """Return ids in the order of (level, id)."""
    return [op for _, op in sorted(zip(levels, ids, strict=True))]


def _asap(before: list[list[int]]) -> list[int]:
    level: list[int] = []
    for needed in before:
        latest = -1
        for p in needed:
            if level[p] > latest:
                latest = level[p]
        level.append(latest + 1)
    return level


def _alap(before: list[list[int]], early: list[int]) -> list[int]:
    """Return the levels as late as consumers allow; `early` are the earliest."""
    level = [max(early, default=0)] * len(before)
    for k in range(len(before) - 1, -1, -1):
        below = level[k] - 1
        for p in before[k]:
            if level[p] > below:
                level[p] = below
    return level


def _readers(problem: SchedulingProblem) -> tuple[list[list[int]], dict[int, int], dict[int, int]]:
    """Return what each op reads of what ops make, once each; how many ops read it; the sum of their positions."""
    readers = {t: 0 for made in problem.results for t in made}
    positions = dict.fromkeys(readers, 0)
    reads = []
    for k, read in enumerate(problem.inputs):
        made = [t for t in read if t in readers]
        made = list(dict.fromkeys(made)) if len(made) > 1 else made
        reads.append(made)
        for t in made:
            readers[t] += 1
            positions[t] += k
    return reads, readers, positions


def _slack(problem: SchedulingProblem, before: list[list[int]]) -> list[int]:
    """Take the ready op with the least (allocated - freed, slack, id), one after the other.

    An op frees an input when it is its last reader. For that each tensor keeps the sum of its remaining
    readers' positions: with one reader left, the sum is that reader.
    """
    n = len(before)
    after: list[list[int]] = [[] for _ in range(n)]
    for k, needed in enumerate(before):
        for p in needed:
            after[p].append(k)
    early = _asap(before)
    slack = [late - soon for late, soon in zip(_alap(before, early), early, strict=True)]
    nbytes, kept = problem.nbytes, problem.kept
    reads, readers, remaining = _readers(problem)
    cost = [nbytes[made[0]] if len(made) == 1 else sum([nbytes[t] for t in made]) for made in problem.results]
    for t, count in readers.items():
        if count == 1 and t not in kept:
            cost[remaining[t]] -= nbytes[t]
    waiting = [len(needed) for needed in before]
    ready = [(cost[k], slack[k], k) for k in range(n) if not waiting[k]]
    heapify(ready)
    level = [-1] * n
    for at in range(n):
        k = heappop(ready)[2]
        while level[k] >= 0:  # an entry from before its cost fell
            k = heappop(ready)[2]
        level[k] = at
        for t in reads[k]:
            left = readers[t] = readers[t] - 1
            last = remaining[t] = remaining[t] - k
            if left == 1:
                if t not in kept:
                    cost[last] -= nbytes[t]
                if not waiting[last]:
                    heappush(ready, (cost[last], slack[last], last))
        for k2 in after[k]:
            waiting[k2] -= 1
            if not waiting[k2]:
                heappush(ready, (cost[k2], slack[k2], k2))
    return level

"""ILPScheduler: assigns a level to every op of a scheduling problem.

Owns the problem's form and the methods `asap`, `alap` and `slack`. Sizes enter only as documented size classes
(`size_class`), so that a schedule does not depend on small differences in size. Does not own graphs or programs
(`jitfuse.tracing.schedule.translator`): kernel groups are scheduled by the same code.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Final

from jitfuse.base.records import NamedTuple, Record
from jitfuse.errors import ArgumentError

METHODS: Final = ("asap", "alap", "slack", "ilp")
BY_BYTES: Final = frozenset({"slack", "ilp"})
"""The methods that use sizes; the others use dependencies alone."""
SIZE_CLASSES: Final = ((1 << 16, 1 << 12), (1 << 24, 1 << 20), (None, 1 << 28))
"""(upper bound in bytes, bytes that the class counts as): in a core's cache, in a shared cache, in memory."""


def size_class(ndim: int, nbytes: int) -> int:
    """Return the bytes that a tensor counts as: 0 for rank 0, else a power of two for its class."""
    if ndim == 0:
        return 0
    for bound, stands_for in SIZE_CLASSES:
        if bound is None or nbytes <= bound:
            return stands_for
    raise AssertionError("the last size class has no bound")


class SchedulingProblem(Record, frozen=True):
    """A scheduling problem: ops by ascending id, the tensors that each reads and makes, and their sizes.

    `inputs` and `results` are in the order of `ids`. A tensor that no op makes is a feed, which is always available and
    never freed. `kept` are the tensors that are live until the end.
    """

    ids: tuple[int, ...]
    inputs: tuple[tuple[int, ...], ...]
    results: tuple[tuple[int, ...], ...]
    nbytes: Mapping[int, int]
    kept: frozenset[int]

    def positions(self) -> OpPositions:
        """Return the dependencies by numbers: an op's first result has the op's position, further results follow."""
        number = {made[0]: k for k, made in enumerate(self.results) if made}
        owners = list(range(len(self.results)))
        if len(number) != sum(map(len, self.results)):
            for k, made in enumerate(self.results):
                for t in made[1:]:
                    number[t] = len(owners)
                    owners.append(k)
        reads = []
        readers: list[list[int]] = [[] for _ in owners]
        number_of = number.get
        for k, read in enumerate(self.inputs):
            found = [p for t in read if (p := number_of(t)) is not None]
            if len(found) > 1:
                found = list(dict.fromkeys(found))
            reads.append(found)
            for tensor in found:
                readers[tensor].append(k)
        return OpPositions(number, owners, reads, readers)

    def freed(self, number: Mapping[int, int], count: int) -> list[int]:
        """Return the bytes of each number that are freed when its last reader has run."""
        freed = [0] * count
        for t, tensor in number.items():
            freed[tensor] = self.nbytes[t]
        for t in self.kept:
            if t in number:
                freed[number[t]] = 0
        return freed

    def load_of(self, order: Sequence[int]) -> Load:
        """Return the load of running the ops in this order of ids."""
        position = {op: k for k, op in enumerate(self.ids)}
        number, owners, reads, readers = self.positions()
        left = list(map(len, readers))
        freed = self.freed(number, len(owners))
        live = peak = over_time = 0
        for op in order:
            k = position[op]
            live += sum(self.nbytes[t] for t in self.results[k])
            peak = max(peak, live)
            over_time += live
            for tensor in reads[k]:
                left[tensor] -= 1
                if not left[tensor]:
                    live -= freed[tensor]
        return Load(peak, over_time)


class OpPositions(NamedTuple):
    """The tensors that ops make, by numbers, and the positions of their ops.

    `number` maps a tensor to its number, `owners` a number to its op. `reads` has the numbers that an op reads, once
    each; `readers` has the ops that read a number, in order.
    """

    number: dict[int, int]
    owners: list[int]
    reads: list[list[int]]
    readers: list[list[int]]

    def before(self) -> list[list[int]]:
        """Return for each op the ops whose results it reads; ops with several results may be repeated."""
        if len(self.owners) == len(self.reads):
            return self.reads
        return [[self.owners[p] for p in read] for read in self.reads]


class Load(NamedTuple):
    """The memory use of an order: the most bytes live at once, then the sum of live bytes over all ops."""

    peak: int
    over_time: int


class ILPScheduler:
    """Assigns levels by one method; two ops of which one needs the other never share a level.

    asap    as soon as the inputs are available
    alap    as late as the consumers allow
    slack   a greedy list schedule by bytes allocated minus bytes freed, then slack (alap minus asap level),
            then id; every op gets a level of its own
    ilp     the best order that an integer program finds (`jitfuse.tracing.schedule.integer_schedule`), starting from
            the better of asap and slack; for warming and offline use
    """

    def __init__(self, method: str = "slack") -> None:
        if method not in METHODS:
            raise ArgumentError(
                f"schedule={method!r} is not available; use one of {', '.join(map(repr, METHODS))}"
            )
        self.method = method

    def levels(self, problem: SchedulingProblem) -> dict[int, int]:
        """Return op id -> level, deterministically and in time n log n."""
        positions = problem.positions()
        if self.method == "asap":
            found = _asap(positions.before())
        elif self.method == "alap":
            found = _alap(positions.before(), _asap(positions.before()))
        elif self.method == "slack":
            found = _slack(problem, positions)
        else:
            return _by_integer_program(problem, positions)
        return dict(zip(problem.ids, found, strict=True))


def _by_integer_program(problem: SchedulingProblem, positions: OpPositions) -> dict[int, int]:
    from jitfuse.tracing.schedule.integer_schedule import improved

    starts = [linear(problem.ids, found) for found in (_asap(positions.before()), _slack(problem, positions))]
    order = improved(problem, min(starts, key=problem.load_of))
    return {op: level for level, op in enumerate(order)}


def linear(ids: Sequence[int], levels: Sequence[int]) -> list[int]:
    """Return ids in the order of (level, id)."""
    return [op for _, op in sorted(zip(levels, ids, strict=True))]


def _asap(before: list[list[int]]) -> list[int]:
    level: list[int] = []
    for needed in before:
        latest = -1
        for p in needed:
            at = level[p]
            if at > latest:
                latest = at
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


def _slack(problem: SchedulingProblem, positions: OpPositions) -> list[int]:
    """Return levels by taking the ready op with the least (allocated - freed, slack, id), one after the other.

    An op frees an input when it is its last reader. The sum of the remaining readers' positions is kept for each
    tensor: with one reader left, the sum is that reader.
    """
    number, owners, reads, readers = positions
    n = len(reads)
    before = positions.before()
    early = _asap(before)
    slack = [late - soon for late, soon in zip(_alap(before, early), early, strict=True)]
    nbytes, freed = problem.nbytes, problem.freed(number, len(owners))
    left, remaining = list(map(len, readers)), list(map(sum, readers))
    cost = [nbytes[made[0]] if len(made) == 1 else sum([nbytes[t] for t in made]) for made in problem.results]
    for tensor, count in enumerate(left):
        if count == 1:
            cost[remaining[tensor]] -= freed[tensor]
    after = _after(positions)
    waiting = list(map(len, reads))
    ready = [(cost[k], slack[k], k) for k in range(n) if not waiting[k]]
    heapify(ready)
    level = [-1] * n
    for at in range(n):
        k = heappop(ready)[2]
        while level[k] >= 0:  # an outdated entry: the op's cost has fallen since
            k = heappop(ready)[2]
        level[k] = at
        for tensor in reads[k]:
            remaining[tensor] = last = remaining[tensor] - k
            left[tensor] = count = left[tensor] - 1
            if count == 1 and freed[tensor]:
                cost[last] -= freed[tensor]
                if not waiting[last]:
                    heappush(ready, (cost[last], slack[last], last))
        for reader in after[k]:
            waiting[reader] = count = waiting[reader] - 1
            if not count:
                heappush(ready, (cost[reader], slack[reader], reader))
    return level


def _after(positions: OpPositions) -> list[list[int]]:
    """Return for each op the readers of its results, once for each result."""
    _, owners, reads, readers = positions
    n = len(reads)
    if len(owners) == n:
        return readers
    after = [list(found) for found in readers[:n]]
    for tensor in range(n, len(owners)):
        after[owners[tensor]] += readers[tensor]
    return after

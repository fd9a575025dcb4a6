"""Order the kernels and library calls of a plan: the second scheduling.

The scheduler that ordered the program's steps orders the groups after fusion, now by the bytes that they really leave
in the arena. Owns the scheduling problem over groups. Does not own the methods (`jitfuse.tracing.schedule.scheduler`)
or the arena (`jitfuse.plans.memory`).
"""
from __future__ import annotations

from collections.abc import Collection, Mapping

from jitfuse.plans.groups import Grouping
from jitfuse.tracing.schedule.scheduler import ILPScheduler, SchedulingProblem


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

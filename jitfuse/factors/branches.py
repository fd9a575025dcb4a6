"""Branches of a tree that run at the same time: the steps of register programs that threads share out.

The upward program has branches that end in messages, and runs them first; the downward program has branches that begin
with messages, and runs them last. Owns the choice of branches, and the order of steps that follows. Does not own their
records (`assembly.py`).
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Final

from jitfuse.base.records import NamedTuple
from jitfuse.factors.ir.dataflow import Dataflow
from jitfuse.factors.ir.schema import Instruction, OpCode
from jitfuse.factors.work import nanoseconds
from jitfuse.ir.semirings.loops import THREADED

Part = list[list[int]]
"""Places of steps: one list, or several that may run at the same time."""
_BRANCH_NS: Final = 500.0
"""What it takes to hand out a branch."""
_LEAST_NS: Final = 2_000.0
"""What a branch takes at least."""
_SAVED_NS: Final = 50_000.0
"""What branches must save."""
_EACH: Final = 16
"""Branches for each thread, at most."""
_NOBODY: Final[frozenset[int]] = frozenset()


def parts_of(flow: Dataflow, threads: int, batch: int) -> list[Part]:
    """Return the places of all steps as parts that run one after the other.

    Args:
        flow: the upward program first, a downward one last.
        threads: how many there are.
        batch: number of models that run at the same time.
    """
    everything = range(len(flow.steps))
    if threads == 1:
        return [[list(everything)]]
    costs = [_cost(flow.elements(place) * batch, threads) for place in everything]
    before, branches = _divided(_upward(flow), costs, threads)
    behind, leaves = _divided(_downward(flow), costs, threads) if len(flow.programs) > 1 else ([], [])
    taken = {place for branch in (*branches, *leaves, before, behind) for place in branch}
    middle = [place for place in everything if place not in taken]
    parts: list[Part] = [part for part in ([before], branches, [middle], leaves, [behind]) if any(part)]
    return parts if _in_order(parts, flow.inputs) else [[list(everything)]]


def _in_order(parts: Sequence[Part], inputs: Sequence[Sequence[int]]) -> bool:
    """Whether every step comes behind its inputs, in the same list of places or in an earlier part."""
    home = {place: (n, k) for n, part in enumerate(parts) for k, branch in enumerate(part) for place in branch}
    return all(home[i][0] < home[place][0] or (home[i] == home[place] and i < place)
               for place in home for i in inputs[place])


class _Cost(NamedTuple):
    """Nanoseconds in one thread, and in all."""

    alone: float
    shared: float


def _cost(products: int, threads: int) -> _Cost:
    if not products:  # it computes nothing
        return _Cost(0.0, 0.0)
    alone = nanoseconds(products)
    return _Cost(alone, alone / threads if products >= THREADED else alone)


# ---------------------------------------------------------------- who a step belongs to
class _Owned(NamedTuple):
    """For each step of a program the nodes that it works for, and the nodes that each node has messages from or to.

    A step for several nodes runs in no branch.
    """

    owners: dict[int, frozenset[int]]
    children: dict[int, list[int]]

    def starts(self) -> list[int]:
        """Return the nodes next to the root."""
        told = {child for children in self.children.values() for child in children}
        return [child for node, children in self.children.items() if node not in told for child in children]


def _told(step: Instruction) -> tuple[int, int] | None:
    """Return source and target of the message that a step stores."""
    if step.op is not OpCode.STORE_SLOT or step.args["slot"][0] != "msg":
        return None
    _, source, target = step.args["slot"]
    return source, target


def _together(owners: Mapping[int, frozenset[int]], places: Iterable[int]) -> frozenset[int]:
    return _NOBODY.union(*[owners.get(place, _NOBODY) for place in places])


def _upward(flow: Dataflow) -> _Owned:
    """What makes a message belongs to its source."""
    found = _Owned({}, {})
    for place in reversed(flow.programs[0]):
        message = _told(flow.steps[place])
        if message is None:
            found.owners[place] = _together(found.owners, flow.readers[place])
        else:
            found.owners[place] = frozenset({message[0]})
            found.children.setdefault(message[1], []).append(message[0])
    return found


def _downward(flow: Dataflow) -> _Owned:
    """What reads a message belongs to its target; what reads none belongs to the only one that reads it."""
    found = _Owned({}, {})
    for place in flow.programs[-1]:
        step = flow.steps[place]
        message = _told(step)
        if message is not None:
            found.children.setdefault(message[0], []).append(message[1])
        found.owners[place] = _together(found.owners, flow.inputs[place])
        if step.op is OpCode.LOAD_SLOT and (store := flow.inputs[place][0]) in found.owners:
            told = _told(flow.steps[store])
            found.owners[place] = found.owners[store] if told is None else frozenset({told[1]})
    for place in reversed(flow.programs[-1]):
        if not found.owners[place]:
            readers = _together(found.owners, flow.readers[place])
            found.owners[place] = readers if len(readers) == 1 else _NOBODY
    return found


# ---------------------------------------------------------------- which branches
def _divided(owned: _Owned, costs: Sequence[_Cost], threads: int) -> tuple[list[int], Part]:
    """Return the places of steps for several branches, and those of each branch."""
    roots = _cut(owned, costs, threads)
    branch_of: dict[int, int] = {}
    for number, root in enumerate(roots):
        stack = [root]
        while stack:
            node = stack.pop()
            branch_of[node] = number
            stack += owned.children.get(node, ())
    mixed: list[int] = []
    branches: Part = [[] for _ in roots]
    for place in sorted(owned.owners):
        homes = {branch_of.get(node) for node in owned.owners[place]}
        if len(homes) == 1 and None not in homes:
            (home,) = homes
            branches[home].append(place)  # type: ignore[index]
        elif homes - {None}:
            mixed.append(place)
    return mixed, branches


def _cut(owned: _Owned, costs: Sequence[_Cost], threads: int) -> Sequence[int]:
    """Return the nodes whose branches make a program take the least time; nothing, where they save too little.

    The largest branch is divided again and again.
    """
    own: dict[int, _Cost] = {}
    rest = 0.0
    for place, nodes in owned.owners.items():
        if len(nodes) == 1:
            (node,) = nodes
            before = own.get(node, costs[place]._replace(alone=0.0, shared=0.0))
            own[node] = _Cost(before.alone + costs[place].alone, before.shared + costs[place].shared)
        else:
            rest += costs[place].shared
    whole = _whole(owned, own)
    heap = [(-whole[node].alone, node) for node in owned.starts()]
    heapify(heap)
    most = best = rest + sum([whole[node].shared for _, node in heap])
    chosen: Sequence[int] = ()
    total = sum([-alone for alone, _ in heap])
    while heap and len(heap) <= _EACH * threads:
        now = rest + max(-heap[0][0], total / threads) + _BRANCH_NS * len(heap)
        if now < best:
            best, chosen = now, [node for _, node in sorted(heap)]
        alone, node = heappop(heap)
        total += alone
        rest += own[node].shared
        for child in owned.children.get(node, ()):
            if whole[child].alone < _LEAST_NS:
                rest += whole[child].shared
            else:
                heappush(heap, (-whole[child].alone, child))
                total += whole[child].alone
    return chosen if most - best >= _SAVED_NS else ()


def _whole(owned: _Owned, own: dict[int, _Cost]) -> dict[int, _Cost]:
    """Return what each node takes together with all nodes behind it."""
    order = owned.starts()
    for node in order:  # grows
        order += owned.children.get(node, ())
    found: dict[int, _Cost] = {}
    for node in reversed(order):
        mine = own.setdefault(node, _Cost(0.0, 0.0))
        parts = [mine, *[found[child] for child in owned.children.get(node, ())]]
        found[node] = _Cost(sum([p.alone for p in parts]), sum([p.shared for p in parts]))
    return found

"""Branches of a tree that run at the same time: the steps of register programs that threads share out.

The upward program has branches that end in messages, and runs them first; the downward program has branches that begin
with messages, and runs them last. Owns the choice of branches, and the order of steps that follows. Does not own their
records (`assembly.py`).
"""
from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Final

from jitfuse.base.records import NamedTuple
from jitfuse.factors.ir.arguments import written_slot
from jitfuse.factors.ir.schema import Instruction, OpCode, RegID, SlotKey, TensorSpec
from jitfuse.ir.semirings.loops import THREADED

Steps = Sequence[tuple[int, Instruction]]
"""Instructions, each with the number of its program."""
Part = list[list[int]]
"""Places of steps: one list, or several that may run at the same time."""
_RECORD_NS, _ELEMENT_NS, _BRANCH_NS = 100.0, 0.45, 500.0
"""What a step takes besides its products, what a product takes, and what it takes to hand out a branch."""
_LEAST_NS: Final = 2_000.0
"""What a branch takes at least."""
_SAVED_NS: Final = 50_000.0
"""What branches must save."""
_EACH: Final = 16
"""Branches for each thread, at most."""
_NOBODY: Final[frozenset[int]] = frozenset()


def parts_of(steps: Steps, threads: int, batch: int) -> list[Part]:
    """Return the places of all steps as parts that run one after the other.

    Args:
        steps: those of the upward program first, of a downward one last.
        threads: how many there are.
        batch: number of models that run at the same time.
    """
    everything = range(len(steps))
    links = _links(steps) if threads > 1 and steps else None
    if links is None:
        return [[list(everything)]]
    costs = [_cost(links, step, number, batch, threads) for number, step in steps]
    last = steps[-1][0]
    before, branches = _divided(_upward(steps, links), costs, threads)
    behind, leaves = _divided(_downward(steps, links, last), costs, threads) if last else ([], [])
    taken = {place for branch in (*branches, *leaves, before, behind) for place in branch}
    middle = [place for place in everything if place not in taken]
    parts: list[Part] = [part for part in ([before], branches, [middle], leaves, [behind]) if any(part)]
    return parts if _in_order(parts, links.inputs) else [[list(everything)]]


def _in_order(parts: Sequence[Part], inputs: Sequence[Sequence[int]]) -> bool:
    """Whether every step comes behind its inputs, in the same list of places or in an earlier part."""
    home = {place: (n, k) for n, part in enumerate(parts) for k, branch in enumerate(part) for place in branch}
    return all(home[i][0] < home[place][0] or (home[i] == home[place] and i < place)
               for place in home for i in inputs[place])


# ---------------------------------------------------------------- what steps read, and what they take
class _Links(NamedTuple):
    """For each step the places of its inputs, and of the steps that read it; the specification of each register."""

    inputs: list[list[int]]
    readers: list[list[int]]
    specs: dict[tuple[int, RegID], TensorSpec]


class _Cost(NamedTuple):
    """Nanoseconds in one thread, and in all."""

    alone: float
    shared: float


def _links(steps: Steps) -> _Links:
    writers: dict[tuple[int, RegID], int] = {}
    stores: dict[SlotKey, int] = {}
    links = _Links([], [[] for _ in steps], {})
    for place, (number, step) in enumerate(steps):
        found = [writers[number, register] for register in step.reads]
        if step.op is OpCode.LOAD_SLOT:
            found.append(stores[step.args["slot"]])
        links.inputs.append(found)
        for i in found:
            links.readers[i].append(place)
        if step.dst is not None and step.spec is not None:
            writers[number, step.dst] = place
            links.specs[number, step.dst] = step.spec
        if (slot := written_slot(step)) is not None:
            stores[slot] = place
    return links


def _cost(links: _Links, step: Instruction, number: int, batch: int, threads: int) -> _Cost:
    if not step.reads or step.dst is None:
        return _Cost(0.0, 0.0)
    extents = {axis.key: axis.size for register in step.reads for axis in links.specs[number, register].axes}
    products = math.prod(extents.values()) * batch
    alone = _RECORD_NS + _ELEMENT_NS * products
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


def _upward(steps: Steps, links: _Links) -> _Owned:
    """What makes a message belongs to its source."""
    found = _Owned({}, {})
    for place in reversed([place for place, (number, _) in enumerate(steps) if number == 0]):
        message = _told(steps[place][1])
        if message is None:
            found.owners[place] = _together(found.owners, links.readers[place])
        else:
            found.owners[place] = frozenset({message[0]})
            found.children.setdefault(message[1], []).append(message[0])
    return found


def _downward(steps: Steps, links: _Links, last: int) -> _Owned:
    """What reads a message belongs to its target; what reads none belongs to the only one that reads it."""
    found = _Owned({}, {})
    places = [place for place, (number, _) in enumerate(steps) if number == last]
    for place in places:
        step = steps[place][1]
        message = _told(step)
        if message is not None:
            found.children.setdefault(message[0], []).append(message[1])
        found.owners[place] = _together(found.owners, links.inputs[place])
        if step.op is OpCode.LOAD_SLOT and (store := links.inputs[place][0]) in found.owners:
            told = _told(steps[store][1])
            found.owners[place] = found.owners[store] if told is None else frozenset({told[1]})
    for place in reversed(places):
        if not found.owners[place]:
            readers = _together(found.owners, links.readers[place])
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

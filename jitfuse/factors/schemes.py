"""How the product of a model's tables is summed: the ways there are, their scores, and which is the best.

contraction    a bucket for each variable
junction tree  buckets merged into larger cliques, where no large tensor is multiplied more often for it
conditioning   some variables become modes: all the rest is done for each of their states, with smaller messages

Owns the scores. Does not own orders, nor the variables that are conditioned on (`jitfuse.factors.orders`).
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod
from typing import Final

from jitfuse.base.records import NamedTuple, Record
from jitfuse.errors import TooLargeError
from jitfuse.factors.orders.cost import cost
from jitfuse.factors.orders.search import Ordered
from jitfuse.factors.orders.slicing import conditioned, sliced_variables
from jitfuse.factors.structure import Structure
from jitfuse.factors.tree import NO_PARENT, Node, Tree, bucket_tree
from jitfuse.factors.work import AT_ONCE, ITEMSIZE, least_work, work, work_by_twos

TOGETHER: Final = 16
"""States of all variables together that a clique sums out: those of each sample are weighed at the same time."""


class Score(NamedTuple):
    """The lower, field by field, the better.

    excess  bytes by which the messages go beyond the limit
    runs    how often the program runs: once for each state of the variables that are conditioned on
    work    that of all steps (`work.py`), of all runs
    peak    bytes of the messages at once
    kept    bytes of all messages
    """

    excess: int
    runs: int
    work: int
    peak: int
    kept: int


class Scheme(Record, frozen=True, eq=False):
    """A way: its name, its tree, the variables that become modes, its score."""

    name: str
    tree: Tree
    modes: tuple[int, ...]
    score: Score


def schemes_of(
    structure: Structure, ordered: Ordered, keep: tuple[int, ...], limit_bytes: int, *, kept: bool, every: bool = False
) -> list[Scheme]:
    """Return the ways, the best first; of equal ones in the order of the module.

    Args:
        structure: variables and scopes.
        ordered: the order, and the variables that have to be conditioned on.
        keep: variables that stay in the result; then no others are conditioned on.
        limit_bytes: what messages may take.
        kept: whether all messages count, or those that are needed at once.
        every: also condition where nothing demands it, which is never the best: to show what it would take.
    """
    def scored(name: str, tree: Tree, one_run: Structure, modes: tuple[int, ...] = ()) -> Scheme:
        slices = prod([structure.sizes[v] for v in modes])
        one = score_of(one_run, tree, limit_bytes, kept=kept)
        return Scheme(name, tree, modes, one._replace(runs=slices, work=slices * one.work))

    plain = bucket_tree(structure, ordered.order, keep)
    found = [scored("contraction", plain, structure),
             scored("junction tree", junction_tree(structure, plain), structure)]
    modes = () if keep else ordered.sliced or (_first_modes(structure, ordered.order, kept) if every else ())
    if modes:
        tree = bucket_tree(structure, ordered.order, modes)
        found.append(scored("conditioning", tree, conditioned(structure, modes), modes))
    return sorted(found, key=lambda scheme: scheme.score)


def _first_modes(structure: Structure, order: Sequence[int], kept: bool) -> tuple[int, ...]:
    """Return the variables to condition on so that messages take any less memory; none if nothing helps."""
    whole = cost(structure, order).bytes(keep=kept)
    try:
        return sliced_variables(structure, order, whole - 1, keep=kept)[0] if whole else ()
    except TooLargeError:
        return ()


def score_of(structure: Structure, tree: Tree, limit_bytes: int, *, kept: bool = False) -> Score:
    """Return the score of one pass to the root."""
    messages = _messages(structure, tree)
    counted = [0 if node.parent == tree.root and size == 1 else size  # numbers are not counted on
               for node, size in zip(tree.nodes, messages)]
    amount = live = most = 0
    for node, message, own, inputs in zip(tree.nodes, messages, counted, _inputs(structure, tree, messages)):
        amount += _work(structure, tree, prod([structure.sizes[v] for v in node.clique]), inputs, (node,))
        most = max(most, live + message)
        live += own - sum([counted[c] for c in node.children])
    total = sum(messages)
    needed = ITEMSIZE * (total if kept else most)
    return Score(max(0, needed - limit_bytes), 1, amount, ITEMSIZE * most, ITEMSIZE * total)


def _messages(structure: Structure, tree: Tree) -> list[int]:
    """Return the elements of what each node sends; the root sends nothing."""
    return [prod([structure.sizes[v] for v in node.interface]) if node.parent != NO_PARENT else 0
            for node in tree.nodes]


def _inputs(structure: Structure, tree: Tree, messages: Sequence[int]) -> list[Counter[int]]:
    """Return how many tensors of each size meet in a node: factors, and messages of these sizes."""
    tables = [prod([structure.sizes[v] for v in scope]) for scope in structure.scopes]
    return [Counter([*[tables[f] for f in node.factors], *[messages[c] for c in node.children]])
            for node in tree.nodes]


def _work(
    structure: Structure, tree: Tree, elements: int, inputs: Counter[int], nodes: Sequence[Node], gone: int = NO_PARENT
) -> int:
    """Return the work of one node, or of two as one: `gone` is the number of the child that is no other node then.

    Args:
        elements: those of the product.
        inputs: how many tensors have so many elements.
        nodes: those that have these tensors. What their children send has the variables that it has in the tree.
    """
    if elements <= AT_ONCE or inputs.total() < 3:
        return work(elements, inputs)
    scopes = [structure.scopes[f] for node in nodes for f in node.factors]
    scopes += [tree.nodes[c].interface for node in nodes for c in node.children if c != gone]
    return work_by_twos(structure.sizes, scopes, elements)


def junction_tree(structure: Structure, tree: Tree) -> Tree:
    """Return the tree with nodes merged into their parents where that is no more work, the first ones first.

    What both multiply is multiplied in one step, over the variables of both, and what both sum out is summed at once.
    The root stays alone.
    """
    nodes: list[Node | None] = list(tree.nodes)
    summed = [prod([structure.sizes[v] for v in node.eliminated]) for node in tree.nodes]
    held = [prod([structure.sizes[v] for v in node.clique]) for node in tree.nodes]
    messages = _messages(structure, tree)
    inputs = _inputs(structure, tree, messages)
    amounts = [_work(structure, tree, *each) for each in zip(held, inputs, zip(tree.nodes))]
    for place, node in enumerate(tree.nodes[:-1]):
        merged = nodes[place]
        assert merged is not None
        for child in node.children:
            if summed[child] * summed[place] > TOGETHER:
                continue
            below = nodes[child]
            assert below is not None
            elements = summed[child] * held[place]  # what the child sends is in the parent's clique
            apart = amounts[child] + amounts[place]
            together = inputs[child] + inputs[place]
            together[messages[child]] -= 1
            if least_work(elements, together.total()) > apart:
                continue
            amount = _work(structure, tree, elements, together, (below, merged), child)
            if amount <= apart:
                nodes[child], merged = None, _merged(below, merged, child, tree.rank)
                summed[place], held[place] = summed[child] * summed[place], elements
                inputs[place], amounts[place] = together, amount
        nodes[place] = merged
    return Tree(_numbered(nodes), tree.rank, tree.axes)


def _merged(child: Node, parent: Node, place: int, rank: Sequence[int]) -> Node:
    """Return a node and its child, which is number `place`, as one."""
    clique = tuple(sorted({*child.clique, *parent.clique}, key=rank.__getitem__))
    children = tuple(sorted([*child.children, *(c for c in parent.children if c != place)]))
    return Node(clique, parent.interface, child.factors + parent.factors, children, parent.parent)


def _numbered(nodes: Sequence[Node | None]) -> tuple[Node, ...]:
    """Return the nodes that are left, with new numbers."""
    number = {place: i for i, place in enumerate([p for p, node in enumerate(nodes) if node is not None])}
    parents = {child: number[place] for place, node in enumerate(nodes) if node is not None for child in node.children}
    return tuple([
        Node(node.clique, node.interface, node.factors, tuple([number[c] for c in node.children]),
             parents.get(place, NO_PARENT))
        for place, node in enumerate(nodes) if node is not None
    ])

"""What a traced function binds anew in Python's state: attributes, items, globals and free variables of its caller's.

After each call such a place holds what the program has computed for it, as if the function had returned it. Owns
`Effect` and the putting in place. Does not own which writes these are (`jitfuse.tracing.interception.rebinding`).
"""
from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from jitfuse.base.records import Record
from jitfuse.tracing.interception.chain import Chain
from jitfuse.tracing.record.foreign import bare
from jitfuse.tracing.results.returned import RawLeaf, ResultTree, tree_of
from jitfuse.tracing.tensor.traced import TracedTensor


class Effect(Record, frozen=True):
    """A place that is bound anew: its chain, the tree of what is put there, and how many leaves that has.

    moves    whether the next call finds another state than the trace has: an item that was not there, other keys or
             another length, shape or text than the function has read
    by_user  whether its owner has a ``__setattr__`` of the user's, which has run while the function was traced
    """

    place: Chain
    spec: Any
    count: int
    moves: bool
    by_user: bool

    @property
    def owner(self) -> Chain | None:
        """What has the attribute or item; None for globals and free variables, whose chains hold it."""
        return self.place.parent

    def binding(self) -> tuple[Callable[[Any, Any, Any], None], Any, Any]:
        """Return what binds the place (of owner, key and value), the owner where a chain holds it, and the key."""
        kind, key = self.place.kind, self.place.value
        if kind == "global":
            return operator.setitem, *key
        if kind == "cell":
            return setattr, key, "cell_contents"
        if kind == "attr":
            return object.__setattr__ if self.by_user else setattr, None, key
        return operator.setitem, None, key


def delivery(tree: ResultTree) -> Callable[[Sequence[Any]], Any]:
    """Return what puts effects in place and returns the result, of the values of all leaves and then the owners."""
    results, owner = len(tree.result_leaves), len(tree.leaves)
    puts, at = [], results
    for effect in tree.effects:
        bind, known, key = effect.binding()
        puts.append((bind, known, owner, key, at, at + effect.count, effect.spec))
        at += effect.count
        owner += effect.owner is not None

    def deliver(values: Sequence[Any]) -> Any:
        values = tree.settled(values)
        for bind, known, owner, key, begin, end, spec in puts:
            value = values[begin] if spec is None else tree_of(spec, values[begin:end])
            bind(values[owner] if known is None else known, key, value)
        return tree_of(tree.spec, values[:results])

    return deliver


def is_changed(before: Any, after: Any) -> bool:
    """Return whether a trace that has read `before` at a place is not one for what the function has put there."""
    if type(before) in (str, bytes):
        return type(after) is not type(before) or bool(after != before)
    if type(before) in (list, tuple, dict):
        if type(after) is not type(before) or len(after) != len(before):
            return True
        return type(before) is dict and tuple(after) != tuple(before)
    shape = getattr(before, "shape", None)
    return shape is not None and tuple(shape) != getattr(bare(after), "shape", None)


def share_containers(trees: Sequence[Any], place_of: Callable[[Any], Chain | None]) -> bool:
    """Return whether a new list or dict comes twice in trees: each place gets one of its own."""
    met: set[int] = set()
    todo = list(trees)
    while todo:
        tree = todo.pop()
        if place_of(tree) is not None:
            continue
        if type(tree) in (list, dict):
            if id(tree) in met:
                return True
            met.add(id(tree))
        if type(tree) in (list, tuple, dict):
            todo += tree.values() if type(tree) is dict else tree
    return False


def are_views(values: Sequence[Any], leaves: Sequence[RawLeaf], kept: int) -> bool:
    """Return whether one of the last `kept` values is a view of an argument that calls would make a copy of."""
    first = len(values) - kept
    for value, leaf in zip(values[first:], leaves[first:], strict=True):
        x = _in_memory(value)
        if x is not None and leaf.leaf is None and x._storage.feed is not None:
            return True
    return False


def share_memory(leaves: Sequence[Any], returned: int) -> bool:
    """Return whether a leaf after the first `returned` and another one are different arrays over one new memory."""
    first: dict[int, Any] = {}
    for at, leaf in enumerate(leaves):
        x = _in_memory(leaf)
        if x is None or x._storage.feed is not None:
            continue
        other = first.setdefault(id(x._storage), x)
        if other is not x and at >= returned:
            return True
    return False


def _in_memory(leaf: Any) -> TracedTensor | None:
    """Return the traced array that a leaf is, with memory that somebody may write into; None for numbers and others."""
    x = bare(leaf)
    return x if type(x) is TracedTensor and not x._scalar and not x.weak else None

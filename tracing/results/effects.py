"""Effects: attributes, items, globals and free variables of the caller's that a traced function rebinds.

After each call they hold values computed by the program, like further results. Owns `Effect` and the assignments. Does
not own which writes become effects (`jitfuse.tracing.interception.rebinding`).
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
    """A binding that is set anew: its chain, the tree of the new value, and its number of leaves.

    moves    whether the next call sees a state other than the traced one: a new item, or other keys, another length,
             shape or text than the function has read
    by_user  whether the owner's class has a ``__setattr__`` of the user's, which has run during the trace
    """

    target: Chain
    spec: Any
    count: int
    moves: bool
    by_user: bool

    @property
    def owner(self) -> Chain | None:
        """The chain of the object with the attribute or item; None for globals and free variables."""
        return self.target.parent

    def binding(self) -> tuple[Callable[[Any, Any, Any], None], Any, Any]:
        """Return the function that sets the binding (of owner, key, value), the owner if it is known, and the key."""
        kind, key = self.target.kind, self.target.value
        if kind == "global":
            return operator.setitem, *key
        if kind == "cell":
            return setattr, key, "cell_contents"
        if kind == "attr":
            return object.__setattr__ if self.by_user else setattr, None, key
        return operator.setitem, None, key


def delivery(tree: ResultTree) -> Callable[[Sequence[Any]], Any]:
    """Return the function that sets the effects and returns the result, from all leaves' values, then the owners."""
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
    """Return whether a trace that has read `before` is invalid for the value `after` that the function has bound."""
    if type(before) in (str, bytes):
        return type(after) is not type(before) or bool(after != before)
    if type(before) in (list, tuple, dict):
        if type(after) is not type(before) or len(after) != len(before):
            return True
        return type(before) is dict and tuple(after) != tuple(before)
    shape = getattr(before, "shape", None)
    return shape is not None and tuple(shape) != getattr(bare(after), "shape", None)


def share_containers(trees: Sequence[Any], path_of: Callable[[Any], Chain | None]) -> bool:
    """Return whether a new list or dict occurs twice in trees: calls would make two objects of it."""
    met: set[int] = set()
    todo = list(trees)
    while todo:
        tree = todo.pop()
        if path_of(tree) is not None:
            continue
        if type(tree) in (list, dict):
            if id(tree) in met:
                return True
            met.add(id(tree))
        if type(tree) in (list, tuple, dict):
            todo += tree.values() if type(tree) is dict else tree
    return False


def are_views(values: Sequence[Any], leaves: Sequence[RawLeaf], kept: int) -> bool:
    """Return whether one of the last `kept` values is a view of an argument, of which calls would make a copy."""
    first = len(values) - kept
    for value, leaf in zip(values[first:], leaves[first:], strict=True):
        x = _in_memory(value)
        if x is not None and leaf.leaf is None and x._storage.feed is not None:
            return True
    return False


def share_memory(leaves: Sequence[Any], returned: int) -> bool:
    """Return whether a leaf after the first `returned` shares new memory with a leaf that is another array."""
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
    """Return a leaf's traced array, whose memory can be written; None for numbers and other values."""
    x = bare(leaf)
    return x if type(x) is TracedTensor and not x._scalar and not x.weak else None

"""Binds feeds and delivers results without native code: for the interpreter and for launches from Python.

Owns the reading of a trace's feeds for one call, and the building of its result tree. Does not run anything.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jitfuse.base.records import NamedTuple
from jitfuse.dtypes import numpy_dtype
from jitfuse.tracing.interception.chain import Chain
from jitfuse.tracing.record.device_array import unwrapped
from jitfuse.tracing.record.foreign import is_torch_tensor
from jitfuse.tracing.results.returned import (
    AccessPathLeaf,
    ConstantLeaf,
    OutputLeaf,
    ResultTree,
    SameLeaf,
    ViewLeaf,
    window,
)
from jitfuse.tracing.trace import Trace

State = Mapping[str, np.ndarray[Any, Any]]


def bind_feeds(trace: Trace, args: Sequence[Any], kwargs: Mapping[str, Any], state: State) -> dict[int, Any]:
    """Return the object of every feed for arguments that match the trace's signature."""
    return {
        feed: unwrapped(s.source.resolve(args, kwargs)) if isinstance(s.source, Chain) else state[s.source]
        for feed, s in trace.feeds.items()
    }


def returned_tensors(trace: Trace, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[int, Any]:
    """Return the torch tensors among the feeds that are results as they are: they may belong to torch's graph."""
    feeds = {leaf.feed for leaf in trace.result.leaves if isinstance(leaf, SameLeaf)}
    chains = {feed: trace.feeds[feed].source for feed in feeds}
    found = {feed: c.resolve(args, kwargs) for feed, c in chains.items() if isinstance(c, Chain)}
    return {feed: x for feed, x in found.items() if is_torch_tensor(x)}


class Delivery(NamedTuple):
    """The computed results of a call before they are delivered: the leaves of a result tree, and the proxies of the
    caller's own lists and dicts."""

    tree: ResultTree
    values: Sequence[Any]

    @staticmethod
    def of(tree: ResultTree, outputs: Mapping[str, Any], bound: Mapping[int, Any]) -> Delivery:
        """Return the values of a tree's leaves; `outputs` are the program's by path, `bound` the feeds' objects."""
        return Delivery(tree, [_leaf(leaf, outputs, bound) for leaf in tree.leaves])

    def map(self, function: Callable[[Any], Any]) -> Delivery:
        """Return a delivery with a function applied to its values."""
        return self._replace(values=[*map(function, self.values)])

    def to(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Apply the call's effects on Python state, and return its result."""
        values = [v.chain.resolve(args, kwargs) if isinstance(v, AccessPathLeaf) else v for v in self.values]
        if not self.tree.effects:
            return self.tree.rebuild(values)
        from jitfuse.tracing.results.effects import delivery  # few functions write state

        return delivery(self.tree)([*values, *(chain.resolve(args, kwargs) for chain in self.tree.owners)])


def _leaf(leaf: Any, outputs: Mapping[str, Any], bound: Mapping[int, Any]) -> Any:
    if isinstance(leaf, AccessPathLeaf):
        return leaf
    if isinstance(leaf, ConstantLeaf):
        return leaf.value
    if isinstance(leaf, SameLeaf):
        return bound[leaf.feed]
    if isinstance(leaf, ViewLeaf):
        return window(bound[leaf.feed], leaf)
    assert isinstance(leaf, OutputLeaf)
    value = outputs[leaf.path]
    if leaf.kind == "array":
        return np.asarray(value)
    number = np.asarray(value).astype(numpy_dtype(leaf.dtype))[()]
    return number if leaf.kind == "scalar" else number.item()

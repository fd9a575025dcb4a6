"""Feeds in and results out, without native code: for the interpreter and for kernels launched from Python.

Owns the reading of a trace's feeds for one call, and the building of its result tree. Does not run anything.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jitfuse.dtypes import numpy_dtype
from jitfuse.tracing.device_array import unwrapped
from jitfuse.tracing.found import Trace
from jitfuse.tracing.results import ConstantLeaf, OutputLeaf, ResultTree, SameLeaf, ViewLeaf
from jitfuse.tracing.view import Chain

State = Mapping[str, np.ndarray[Any, Any]]


def bind_feeds(trace: Trace, args: Sequence[Any], kwargs: Mapping[str, Any], state: State) -> dict[int, Any]:
    """Return the object behind every feed for these arguments, whose signature is the trace's."""
    return {
        feed: unwrapped(s.source.resolve(args, kwargs)) if isinstance(s.source, Chain) else state[s.source]
        for feed, s in trace.feeds.items()
    }


def build_result(tree: ResultTree, outputs: Mapping[str, Any], bound: Mapping[int, Any]) -> Any:
    """Return what the call returns; `outputs` are the program's by path."""
    return tree.rebuild([_leaf(leaf, outputs, bound) for leaf in tree.leaves])


def _leaf(leaf: Any, outputs: Mapping[str, Any], bound: Mapping[int, Any]) -> Any:
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


def window(whole: np.ndarray[Any, Any], leaf: ViewLeaf) -> np.ndarray[Any, Any]:
    """Return the view of an argument that a function returns."""
    return np.asarray(_Window(whole, leaf)).view(whole.dtype)


class _Window:
    """Memory of an array under another shape and strides; keeps the array alive."""

    def __init__(self, whole: np.ndarray[Any, Any], leaf: ViewLeaf) -> None:
        self.whole = whole
        self.__array_interface__ = {
            **whole.__array_interface__, "shape": leaf.shape, "strides": leaf.strides,
            "data": (whole.ctypes.data + leaf.offset, not whole.flags.writeable),
        }

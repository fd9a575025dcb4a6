"""Run a trace in the interpreter: what a call does when native code cannot be had.

Owns the binding of a trace's feeds outside native code, and the delivery of results, writes and state. Results
agree with the native ones within the operators' tolerance; state and arguments change only after everything
that can raise.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jitfuse.backends.interpreter.runner import ProgramRunner
from jitfuse.tracing.results import ConstantLeaf, OutputLeaf, SameLeaf, ViewLeaf
from jitfuse.tracing.tracer import Trace
from jitfuse.tracing.view import Chain


def interpret(
    trace: Trace, training: bool, args: Sequence[Any], kwargs: Mapping[str, Any],
    state: Mapping[str, np.ndarray[Any, Any]],
) -> Any:
    """Return what the traced function returns for these arguments, whose signature is the trace's."""
    bound = {
        feed: source.source.resolve(args, kwargs) if isinstance(source.source, Chain) else state[source.source]
        for feed, source in trace.feeds.items()
    }
    program = trace.program
    ran = ProgramRunner(program)({feed: bound[feed] for feed in program.feeds}, training=training)
    leaves = [_leaf(leaf, ran.outputs, bound) for leaf in trace.result.leaves]
    for feed, value in {**ran.writes, **ran.state}.items():
        np.copyto(bound[feed], value)
    return trace.result.rebuild(leaves)


def _leaf(leaf: Any, outputs: Mapping[str, Any], bound: Mapping[int, Any]) -> Any:
    if isinstance(leaf, ConstantLeaf):
        return leaf.value
    if isinstance(leaf, SameLeaf):
        return bound[leaf.feed]
    if isinstance(leaf, ViewLeaf):
        return np.asarray(_Window(bound[leaf.feed], leaf))
    assert isinstance(leaf, OutputLeaf)
    value = outputs[leaf.path]
    if leaf.kind == "array":
        return np.asarray(value)
    number = np.asarray(value).astype(leaf.dtype)[()]
    return number if leaf.kind == "scalar" else number.item()


class _Window:
    """Memory of an array under another shape and strides; keeps the array alive."""

    def __init__(self, whole: np.ndarray[Any, Any], leaf: ViewLeaf) -> None:
        self.whole = whole
        self.__array_interface__ = {
            **whole.__array_interface__, "shape": leaf.shape, "strides": leaf.strides,
            "data": (whole.ctypes.data + leaf.offset, not whole.flags.writeable),
        }

"""A call of a fused function as source: the program's export with the function's own names and result.

Does not own the export itself (`jitfuse.exporting`).
"""
from __future__ import annotations

import inspect
import re
from typing import Any

from jitfuse.errors import UnsupportedError
from jitfuse.exporting import export
from jitfuse.exporting.names import RESERVED, identifier
from jitfuse.exporting.results import Argument, Constant, Delivered, FeedWindow, Leaf
from jitfuse.ir.program import FusedProgram
from jitfuse.tracing.results.returned import ConstantLeaf, OutputLeaf, ResultLeaf, SameLeaf, ViewLeaf, tree_of
from jitfuse.tracing.trace import Trace


def export_call(function: Any, trace: Trace, training: bool) -> str:
    """Return a call as source, from its trace."""

    kept = trace.result.chains
    if kept:
        raise UnsupportedError(
            f"{function.name} returns or changes {kept[0]}, which is the caller's; an exported function has arrays and "
            "numbers alone. Return a new container, and what changes.")

    def leaf(found: ResultLeaf) -> Leaf:
        if isinstance(found, OutputLeaf):
            return Delivered(found.path, found.kind)
        if isinstance(found, SameLeaf):
            return Argument(found.feed)
        if isinstance(found, ViewLeaf):
            return FeedWindow(found.feed, found.shape, found.strides, found.offset, trace.feeds[found.feed].strides)
        assert isinstance(found, ConstantLeaf)
        return Constant(found.value)

    leaves = {id(found): leaf(found) for found in trace.result.leaves}
    tree = tree_of(trace.result.spec, [leaves[id(found)] for found in trace.result.result_leaves])
    program = with_feeds_of_the_result(trace)
    return export(
        program, training, identifier(function.name.rpartition(".")[2], "fused"), tree=tree,
        called=_parameters(function, program), fixed=trace.guarded_values,
    )


def with_feeds_of_the_result(trace: Trace) -> FusedProgram:
    """Return the trace's program with feeds also for arguments that are only returned, or read by Python."""
    program = trace.program
    returned = {leaf.feed for leaf in trace.result.leaves if isinstance(leaf, SameLeaf | ViewLeaf)}
    more = (returned | set(trace.guarded_values)) - program.feeds
    return program.replace(feeds=program.feeds | more, meta={**program.meta, **{i: trace.feeds[i].meta for i in more}},
        feed_names={**program.feed_names, **{i: str(trace.feeds[i].source) for i in more}},
    )


def _parameters(function: Any, program: FusedProgram) -> dict[int, str]:
    """Return the feeds' names: the function's own parameter names in place of ``args[k]``."""
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        names = []

    def called(text: str) -> str:
        found = re.match(r"args\[(\d+)\]", text)
        if found is None or int(found[1]) >= len(names) or names[int(found[1])] in RESERVED:
            return text
        return names[int(found[1])] + text[found.end() :]

    return {feed: called(name) for feed, name in program.feed_names.items()}

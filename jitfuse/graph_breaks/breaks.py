"""The graph breaks of one key: the tree of subgraphs between them, what it may still grow by, and its native side.

Owns which tree calls go along, and when native code takes it over. Does not own one call's path through it
(`jitfuse.graph_breaks.call_path`), the budget (`jitfuse.graph_breaks.budget`), or trees (`jitfuse.graph_breaks`).
"""
from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Final

from jitfuse.function.counters import Counters
from jitfuse.graph_breaks.budget import Limits

if TYPE_CHECKING:
    from jitfuse.function.definition import Definition
    from jitfuse.graph_breaks.compiled_subgraph import CompiledSubgraph
    from jitfuse.graph_breaks.native import NativeTree
    from jitfuse.graph_breaks.tree import TraceTree
    from jitfuse.tracing.subgraph import TracedSubgraph

MANY_SUBGRAPHS: Final = 4
"""Subgraphs of a function after which further ones are re-rolled into loops as far as they can be: so little is
compiled for each."""


class Breaks:
    """What the calls of one key, and whatever extends their tree, share."""

    def __init__(self, definition: Definition, counters: Counters) -> None:
        self.limits = Limits()
        self.tree: TraceTree | None = None
        self.subgraphs: dict[Hashable, CompiledSubgraph] = {}
        self.native_tree: NativeTree | None = None
        self._definition, self._counters = definition, counters
        self._chosen: dict[int, Any] = {}
        """The best ways to lower subgraphs, by their structure."""

    def renew_locks(self) -> None:
        """In a forked child: fresh locks."""
        for subgraph in self.subgraphs.values():
            subgraph.lock = threading.Lock()

    @property
    def is_fallback(self) -> bool:
        """Whether calls that fit no signature run as plain Python, with no known path tried before."""
        return self.limits.reason is not None and (self.tree is None or not self.limits.keeps_paths)

    @property
    def launches(self) -> int:
        """How many kernels the subgraphs have launched."""
        return sum(subgraph.launches for subgraph in self.subgraphs.values())

    def subgraph_of(self, part: TracedSubgraph, training: bool) -> CompiledSubgraph:
        """Return the subgraph of a part, compiled; one for all parts that are equal."""
        from jitfuse.graph_breaks.compiled_subgraph import CompiledSubgraph

        key = part.key, training
        found = self.subgraphs.get(key)
        if found is None:
            if self.limits.are_full(len(self.subgraphs)):
                self.forget()
            many = len(self.subgraphs) >= MANY_SUBGRAPHS
            found = self.subgraphs[key] = CompiledSubgraph(
                part, training, self._definition.origin, self._definition.options, self._counters.note_fallback,
                many=many, chosen=self._chosen)
        return found

    def count(self) -> None:
        """Count a graph break."""
        self._counters.counts["splits"] += 1
        self.limits.states += 1

    # ------------------------------------------------------------------ starting over
    def forget(self) -> None:
        """Start over with no tree: its size is bounded, its kernels stay cached. Calls that are walking go on."""
        self._counters.launches += self.launches
        self.subgraphs = {}
        self._chosen = {}
        self.drop_tree()
        self.limits.states = 0

    def drop_tree(self) -> None:
        """Forget the tree; calls that are walking go on along it."""
        self.tree = None
        self.drop_native()

    def drop_native(self) -> None:
        """Have native code answer calls along the tree no more."""
        if self.native_tree is not None:
            self.native_tree.drop()

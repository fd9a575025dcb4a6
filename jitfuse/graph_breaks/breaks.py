"""The graph breaks of one key: the trace tree, its budget, and its native side.

Owns which tree calls follow, and when native code takes it over. Does not own one call's path through it
(`jitfuse.graph_breaks.call_path`), what is used of the budget (`jitfuse.graph_breaks.limits`), or trees
(`jitfuse.graph_breaks.tree`).
"""
from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Final

from jitfuse.graph_breaks.limits import Limits

if TYPE_CHECKING:
    from jitfuse.function.counters import Counters
    from jitfuse.function.definition import Definition
    from jitfuse.graph_breaks.compiled_subgraph import CompiledSubgraph
    from jitfuse.graph_breaks.native import NativeTree
    from jitfuse.graph_breaks.tree import TraceTree
    from jitfuse.tracing.subgraph import TracedSubgraph

MANY_SUBGRAPHS: Final = 4
"""Subgraphs of a function after which further ones are re-rolled as far as they can be, to compile less for each."""


class Breaks:
    """The state shared by all calls of one key, and by whatever extends their tree."""

    def __init__(self, definition: Definition, counters: Counters) -> None:
        self.limits = Limits(definition.options.budget)
        self.tree: TraceTree | None = None
        self.subgraphs: dict[Hashable, CompiledSubgraph] = {}
        self.native_tree: NativeTree | None = None
        self._definition, self._counters = definition, counters
        self._chosen: dict[int, Any] = {}
        """The best lowerings of subgraphs, by their structure."""

    def renew_locks(self) -> None:
        """Replace the locks in a forked child."""
        for subgraph in self.subgraphs.values():
            subgraph.lock = threading.Lock()

    @property
    def keeps_paths(self) -> bool:
        """Whether calls still follow known paths although the function has fallen back."""
        return self.tree is not None and self.limits.keeps_paths

    @property
    def launches(self) -> int:
        """How many kernels the subgraphs have launched."""
        return sum(subgraph.launches for subgraph in self.subgraphs.values())

    def subgraph_of(self, part: TracedSubgraph, training: bool) -> CompiledSubgraph:
        """Return the compiled subgraph of a part; equal parts share one."""
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
        """Start over with no tree, because its size is bounded; kernels stay cached. Calls on the old tree continue."""
        self._counters.launches += self.launches
        self.subgraphs = {}
        self._chosen = {}
        self.drop_tree()
        self.limits.states = 0

    def drop_tree(self) -> None:
        """Forget the tree; calls that already follow it continue."""
        self.tree = None
        self.drop_native()

    def drop_native(self) -> None:
        """Stop native code from answering calls along the tree."""
        if self.native_tree is not None:
            self.native_tree.drop()

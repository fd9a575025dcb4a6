"""The tree of a function with graph breaks as text, for `FusedFunction.explain`. Decides nothing."""
from __future__ import annotations

from collections.abc import Iterator, Mapping

from jitfuse.graph_breaks.compiled_subgraph import CompiledSubgraph
from jitfuse.graph_breaks.tree import Edge, TraceTree, TreeState
from jitfuse.ir.formats.text import report_lines


def tree_report(tree: TraceTree, number: Mapping[CompiledSubgraph, int]) -> str:
    """Return the states with their answers, indented by depth, then the subgraphs, named by their `number`."""
    lines = ["subgraphs by what Python saw", *("  " + line for line in _state(tree.start, number, {}))]
    for subgraph, k in number.items():
        arrays, numbers = report_lines(subgraph.spec.trace.program)
        lines += ["", f"subgraph {k}", *("  " + line for line in (*arrays, *numbers))]
    return "\n".join(lines)


def _state(state: TreeState, number: Mapping[CompiledSubgraph, int], seen: dict[int, int]) -> Iterator[str]:
    seen[id(state)] = len(seen)
    for edges in state.edges.values():
        for edge in edges:
            yield from _edge(edge, state, number, seen)


def _edge(edge: Edge, state: TreeState, number: Mapping[CompiledSubgraph, int], seen: dict[int, int]) -> Iterator[str]:
    runs = "nothing" if edge.subgraph is None else f"subgraph {number[edge.subgraph]}"
    key = next(k for k, edges in state.edges.items() if edge in edges)
    saw = "call" if state.question is None else _shown(key)
    target = edge.target
    if target is None or target.question is None:
        yield f"{saw}: {runs}, then the result"
    elif id(target) in seen:
        yield f"{saw}: {runs}, then break {seen[id(target)]} again (a loop)"
    else:
        yield f"{saw}: {runs}, then break {len(seen)}: {target.question.what} at {target.question.line}"
        yield from ("  " + line for line in _state(target, number, seen))


def _shown(key: object) -> str:
    assert isinstance(key, tuple)
    found = key[1]
    if isinstance(found, tuple) and found and isinstance(found[0], str):
        return str(found[1]) if len(found) == 2 else f"{found[0]}{list(found[1])}"
    return ", ".join(map(str, found)) if isinstance(found, tuple) else str(found)

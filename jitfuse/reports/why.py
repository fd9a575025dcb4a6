"""Why calls take the time that they take: what runs as plain Python, what Python does in each call, what is not fused.

Decides nothing: the reasons are those of warnings, graph breaks and plans. Owns the text of `FusedFunction.why`.
"""
from __future__ import annotations

from collections.abc import Iterator

from jitfuse.function.parts import Parts
from jitfuse.graph_breaks.tree import TraceTree, TreeState
from jitfuse.reasons import LIBRARY_CALL, VALUE_READ
from jitfuse.reports.explain import refusals


def why(parts: Parts) -> str:
    """Return the reasons, most costly kind first; a line says so where there are none."""
    counters, name = parts.counters, parts.definition.name
    states = [state for table in parts.tables if table.breaks.tree is not None for state in _states(table.breaks.tree)]
    count = counters.counts["fallbacks"]
    sections = {
        f"plain Python, {count} call{'s' * (count != 1)} so far": sorted(map(str, counters.warned)) if count else [],
        f"called by Python in each call, between compiled code [{LIBRARY_CALL.code}]": sorted(set(_calls(states))),
        f"read by Python, which takes a path for each answer [{VALUE_READ.code}]": sorted(set(_reads(states))),
        "not fused": sorted({line for spec in parts.specs for made in spec.plans.values()
                             for line in refusals(made.runtime, by_line=True)}),
    }
    lines = [line for title, found in sections.items() if found for line in (title, *(f"  {one}" for one in found), "")]
    if not lines:
        return f"{name}: all calls so far are compiled and fused as a whole"
    return "\n".join([name, "", *lines[:-1]])


def _states(tree: TraceTree) -> Iterator[TreeState]:
    todo, seen = [tree.start], {id(tree.start)}
    while todo:
        state = todo.pop()
        if state.question is not None:
            yield state
        for edge in (e for edges in state.edges.values() for e in edges):
            if edge.target is not None and id(edge.target) not in seen:
                seen.add(id(edge.target))
                todo.append(edge.target)


def _calls(states: list[TreeState]) -> Iterator[str]:
    """Yield library calls by name and line, with their mean time."""
    spent: dict[tuple[str, str], tuple[int, int]] = {}
    for question in (state.question for state in states):
        if question is not None and question.cost is not None:
            calls, nanoseconds = spent.get((question.what, question.line), (0, 0))
            spent[question.what, question.line] = (
                calls + question.cost.calls, nanoseconds + question.cost.nanoseconds)
    for (what, line), (calls, nanoseconds) in spent.items():
        mean = nanoseconds / max(calls, 1) / 1000
        yield f"{what} at {line}: {mean:,.1f} us a call, {calls} calls. NumPy's functions would be part of the program"


def _reads(states: list[TreeState]) -> Iterator[str]:
    """Yield reads of values by line, with the number of answers so far."""
    answers: dict[tuple[str, str], set[object]] = {}
    for state in states:
        if state.question is not None and state.question.cost is None:
            answers.setdefault((state.question.what, state.question.line), set()).update(state.edges)
    for (what, line), keys in answers.items():
        yield f"{what} at {line}: {len(keys)} answer{'s' * (len(keys) != 1)}"

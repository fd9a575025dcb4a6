"""The public methods of `FusedFunction` beside the call: reports, exports, and compiling without a call.

Does not own the reports' texts (`jitfuse.reports.explain`, `jitfuse.reports.misses`) or signatures.
"""
from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from jitfuse.base import background
from jitfuse.compile import interface as compiler
from jitfuse.compile import native_entries
from jitfuse.compile.run.delivery import bind_feeds
from jitfuse.errors import UntraceableError
from jitfuse.function import pipeline
from jitfuse.function.adapters import materialise_specs
from jitfuse.function.call import Call, normalise
from jitfuse.function.parts import Parts
from jitfuse.graph_breaks.call_path import Path
from jitfuse.ir.program import FusedProgram
from jitfuse.random_state import state_feeds
from jitfuse.tracing.interruption import WORK

if TYPE_CHECKING:
    from jitfuse.tracing.trace import Trace

T = TypeVar("T")


def report(of: Callable[[Call], T], parts: Parts, args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
    """Return a report of a call, whose key includes the state of the global RNG if the call uses it."""
    before = WORK.going_on
    try:
        WORK.going_on = True
        given = parts.definition.pop_mode(args, kwargs)
        call = normalise(parts, *given)
        try:
            return of(call)
        except UntraceableError:
            if not call.must_bring_global_rng():
                raise
        return of(normalise(parts, *given))
    finally:
        WORK.going_on = before


def traced(call: Call) -> Trace:
    """Return the trace of a call, traced now if it is new; nothing is compiled."""
    with call.table.lock:
        spec = call.table.find(call, any_mode=True)
        return spec.trace if spec is not None else call.table.trace_whole(call)


def program(call: Call) -> FusedProgram:
    """Return the program of a call."""
    made = traced(call).program
    assert isinstance(made, FusedProgram)
    return made


def feeds(call: Call) -> dict[int, Any]:
    """Return what a call gives to the feeds of its program; arrays are copies, of the same memory order."""
    trace = traced(call)
    with call.going_on():
        bound = bind_feeds(trace, call.args, call.kwargs, state_feeds())
        given = {feed: bound[feed] for feed in trace.program.ordered_feeds}
        return {feed: np.array(x, order="K") if isinstance(x, np.ndarray) else x for feed, x in given.items()}


def export(call: Call, function: Any, path: str | os.PathLike[str] | None) -> str:
    """Return a call as Python source, and write it to a file if one is named."""
    from jitfuse.reports.export import export_call

    text = export_call(function, traced(call), call.training)
    if path is not None:
        from jitfuse.base.files import write_whole

        write_whole(path, text)
    return text


def explain(call: Call, function: Any, html: str | os.PathLike[str] | None) -> str:
    """Return the report of how a call runs; compile it if it is new."""
    from jitfuse.reports.explain import explain, kernels_of

    table, training = call.table, call.training
    with table.lock:
        split = _explain_breaks(call)
        if split is not None:
            return split
        spec = table.find_or_trace(call)
        if pipeline.runs_on_gpu(call, spec):
            made = pipeline.gpu.GpuCall(call, spec).plan()
            plan, kernels = made.plan, tuple(made.kernels)
        else:
            table.compile(spec, training)
            plan, kernels = spec.plans[training].runtime, kernels_of([spec])
        budget = str(table.breaks.limits)
        if html is not None:
            from jitfuse.reports.explain_html import write_page

            write_page(html, function, spec, training, plan, kernels, budget)
        return explain(function, spec, training, plan, budget)


def _explain_breaks(call: Call) -> str | None:
    """Return the report of calls with graph breaks, or that run as plain Python.

    None for all other calls.
    """
    table, breaks, plain = call.table, call.table.breaks, ""
    name = table.definition.name
    if breaks.limits.reason is not None and table.find(call) is None:
        plain = f"{name} runs as plain Python: {breaks.limits.reason}"
    if breaks.tree is None or not Path(call).is_known(breaks.tree):
        return plain or None
    from jitfuse.graph_breaks.report import tree_report

    title = f"{name}, {'training' if call.training else 'evaluation'}, with graph breaks where Python reads data"
    title += f"\n{plain}" if plain else ""
    title += f"\nbudget: {breaks.limits}"
    return f"{title}\n\n{tree_report(breaks.tree, {s: k for k, s in enumerate(breaks.subgraphs.values())})}"


def warm(parts: Parts, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Trace, compile and store for these arguments, without running anything."""
    report(_warm, parts, *materialise_specs(args, kwargs))
    background.wait()


def _warm(call: Call) -> None:
    table = call.table
    with table.lock:
        spec = table.find_or_trace(call)
        if pipeline.runs_on_gpu(call, spec):
            with table.counters.counting():
                pipeline.gpu.GpuCall(call, spec).prepare()
            return
        table.compile(spec, call.training)
        if native_entries.is_supported:
            compiler.native_runtime()


def stats(parts: Parts) -> dict[str, int]:
    """Return the counts of all tables together."""
    entries = {id(one): one for table in parts.tables for one in (table.entries, table.function_entries)}
    launches = parts.counters.launches + sum(one.launches for one in entries.values())
    launches += sum(table.breaks.launches for table in parts.tables)
    return {**parts.counters.counts, "launches": launches}


def kernels(parts: Parts) -> tuple[Any, ...]:
    """Return every kernel that the tables have compiled or loaded."""
    from jitfuse.reports.explain import kernels_of

    return tuple(kernel for table in parts.tables for kernel in kernels_of(
        [*table.specs, *(subgraph.spec for subgraph in table.breaks.subgraphs.values())]))


def why(parts: Parts) -> str:
    """Return what is plain Python, called by Python, read by Python, and not fused."""
    from jitfuse.reports.why import why

    return why(parts)


def explain_miss(parts: Parts) -> str:
    """Return why the last new call was new."""
    from jitfuse.reports.misses import explain_miss

    counters, options = parts.counters, parts.definition.options
    entries = {kernel.key: kernel.entry for kernel in kernels(parts)}
    missed = [(made.key, entries.get(made.key)) for made in counters.missed]
    return explain_miss(parts.definition.name, len(parts.specs), counters.why_new, missed, options.cache)

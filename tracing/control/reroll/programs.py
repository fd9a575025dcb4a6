"""Long runs of equal iterations in a program that is going to be differentiated become loops first.

A derivative of unrolled iterations is several times as long, and reads what each iteration has made, so that it could
not be re-rolled. Only loops that derivatives know are made (`jitfuse.gradients.loops`); else the program stays as it
is.
"""
from __future__ import annotations

from jitfuse.gradients.bodies import arranged
from jitfuse.gradients.rolled_loops import is_scan
from jitfuse.ir.program import FusedProgram
from jitfuse.tracing.control.reroll.long_runs import REROLLED_OPS, reroll_long
from jitfuse.tracing.record.graph import ProcessGraph
from jitfuse.tracing.schedule.translator import Boundary, schedule


def rerolled(program: FusedProgram) -> FusedProgram:
    """Return a program with long runs as loops, its feeds numbered from 0 in the same order."""
    if len(program.steps) < REROLLED_OPS:
        return program
    made = schedule(*reroll_long(*_graph(program), on_host=True, merges=False))
    if "rolled_loop" not in made.op_names or not all(map(is_scan, made.steps)):
        return program
    of_name = {name: feed for feed, name in made.feed_names.items()}
    feeds = [of_name.get(str(k), program.meta[feed]) for k, feed in enumerate(program.ordered_feeds)]
    return arranged(made, feeds, {name: made.outputs[name] for name in program.outputs})


def _graph(program: FusedProgram) -> tuple[ProcessGraph, Boundary]:
    """Return a program as a graph, its feeds named by their order."""
    graph, ids = ProcessGraph(), dict[int, int]()
    for k, feed in enumerate(program.ordered_feeds):
        ids[feed] = graph.add_feed(program.meta[feed], str(k))
    for step in program.steps:
        inputs, source = tuple([ids[i] for i in step.input_ids]), program.sources.get(step.step_id, "")
        metas = [program.meta[r] for r in step.result_ids]
        if len(metas) == 1:
            made: tuple[int, ...] = (graph.add_op(
                step.op_name, inputs, step.attrs, metas[0], mode_sensitive=step.mode_sensitive, source=source),)
        else:
            made = graph.add_op_of_many(step.op_name, inputs, step.attrs, metas, source=source)
        ids.update(zip(step.result_ids, made, strict=True))
    return graph, Boundary({name: ids[i] for name, i in program.outputs.items()})

"""Programs as bodies of steps: without what nothing needs, and with their feeds in the order of the operands."""
from __future__ import annotations

from collections.abc import Mapping, Sequence

from jitfuse.ir.operators import ops
from jitfuse.ir.program import FusedProgram, Meta, OpStep


def pruned(program: FusedProgram) -> FusedProgram:
    """Return a program without the steps that nothing needs, and the metas of its values alone."""
    needed = {*program.outputs.values(), *program.state_out.values(), *program.writes.values()}
    kept: list[OpStep] = []
    for step in reversed(program.steps):
        if not needed.isdisjoint(step.result_ids):
            kept.append(step)
            needed.update(step.input_ids)
    kept.reverse()
    values = program.feeds.union(*(s.result_ids for s in kept))
    return FusedProgram(
        program.feeds, tuple(kept), program.outputs, {i: program.meta[i] for i in sorted(values)}, program.feed_names,
        program.state_in, program.state_out, program.writes,
        {s.step_id: program.sources[s.step_id] for s in kept if s.step_id in program.sources}, program.version)


def arranged(program: FusedProgram, feeds: Sequence[int | Meta], outputs: Mapping[str, int]) -> FusedProgram:
    """Return a program as the body of a step: its feeds in this order, a meta for one that it does not read."""
    program = pruned(FusedProgram(
        program.feeds, program.steps, outputs, program.meta, program.feed_names, sources=program.sources))
    ids: dict[int, int] = {}
    meta: dict[int, Meta] = {}
    for place, feed in enumerate(feeds):
        meta[place] = feed if isinstance(feed, Meta) else program.meta[feed]
        if not isinstance(feed, Meta):
            ids[feed] = place
    steps: list[OpStep] = []
    for number, step in enumerate(program.steps):
        for r in step.result_ids:
            ids[r] = len(meta)
            meta[ids[r]] = program.meta[r]
        steps.append(step._replace(
            step_id=number, level=number, input_ids=tuple([ids[i] for i in step.input_ids]),
            result_ids=tuple([ids[r] for r in step.result_ids])))
    sources = {n: program.sources[s.step_id] for n, s in enumerate(program.steps) if s.step_id in program.sources}
    return FusedProgram(frozenset(range(len(feeds))), tuple(steps), {k: ids[i] for k, i in outputs.items()}, meta,
                        sources=sources)


def between(program: FusedProgram, given: Sequence[int], outputs: Mapping[str, int]) -> FusedProgram:
    """Return the program that computes outputs from given values, its feeds in their order."""
    known = set(given)
    steps = tuple([step for step in program.steps if not known.issuperset(step.result_ids)])
    return arranged(FusedProgram(
        frozenset(given), steps, outputs, program.meta, sources=program.sources), given, outputs)


def differentiated(program: FusedProgram) -> FusedProgram:
    """Return a program that will not be differentiated again: results with derivatives of their own are any values."""
    ids: dict[int, int] = {}
    steps: list[OpStep] = []
    changed = False
    for step in program.steps:
        inputs = tuple([ids.get(i, i) for i in step.input_ids])
        if step.op_name in ops.WITH_RULES:
            ids.update(zip(step.result_ids, inputs, strict=False))
            changed = True
            continue
        attrs = step.attrs
        if any(isinstance(value, FusedProgram) for _, value in attrs):
            attrs = tuple([(k, differentiated(v) if isinstance(v, FusedProgram) else v) for k, v in attrs])
            changed = changed or any(a is not b for (_, a), (_, b) in zip(attrs, step.attrs, strict=True))
        steps.append(step._replace(input_ids=inputs, attrs=attrs))
    if not changed:
        return program
    ends = ({name: ids.get(i, i) for name, i in side.items()}
            for side in (program.outputs, program.writes, program.state_out))
    outputs, writes, state_out = ends
    return pruned(program.replace(steps=tuple(steps), outputs=outputs, writes=writes, state_out=state_out))

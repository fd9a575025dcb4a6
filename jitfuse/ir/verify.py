"""The rules of a valid FusedProgram, and the check that finds every break of them at once."""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from jitfuse.dtypes import SUPPORTED
from jitfuse.errors import JitfuseError, VerifyError
from jitfuse.ir import ops
from jitfuse.ir.attributes import attr_problems
from jitfuse.ir.program import PROGRAM_VERSION, FusedProgram, Meta, OpStep
from jitfuse.ir.text import meta_text, step_text


def verify(program: FusedProgram) -> None:
    """Raise VerifyError with all findings where a program is not valid. A valid program keeps these rules:

    1. Its version is the one that this jitfuse works with.
    2. Ids are integers from 0 on. No two steps share an id.
    3. Every value is made once: by one step, in one place of its results, or by the caller, as a feed.
       A step makes at least one value.
    4. A step reads only feeds and values that an earlier step makes.
    5. Levels never fall from one step to the next.
    6. Every step names an operator of the op table and has as many operands as its row says.
    7. A step carries exactly the attributes of its row, sorted by name, each of the kind that its name stands
       for (`attr_problems`).
    8. A step is marked mode-sensitive exactly where its row is.
    9. Feeds and results have a meta, and nothing else has. Its dtype is supported, its extents are not
       negative, a weak value has rank 0, and named axes are as many as the extents.
    10. The metas of a step's results are those that the row infers from its operands' metas and attributes.
    11. Outputs, new state and writes are values that exist. Names belong to feeds.
    12. State is a set of feeds; new state belongs to state, and has its shape, dtype and device. The random
        state is state of shape [2] and dtype int64.
    13. Writes go to feeds that are not state, and have the feed's shape, dtype and device.
    14. A program among a step's attributes is valid itself, and its feeds in ascending order have the shapes,
        dtypes and devices of the step's operands, one for one, or of what the operator's row makes of these.

    A finding names the rule and what is wrong, and shows the step as printed with the user's line.
    """
    findings = tuple(_findings(program))
    if findings:
        raise VerifyError(findings)


def _findings(program: FusedProgram) -> Iterator[str]:
    if program.version != PROGRAM_VERSION:
        yield f"rule 1: the version is {program.version}, not {PROGRAM_VERSION}"
    bad = [i for i in _all_ids(program) if type(i) is not int or i < 0]
    if bad:
        yield from (f"rule 2: {i!r} is no id" for i in dict.fromkeys(bad))
        return
    yield from _repetitions(program)
    made = set(program.feeds)
    level: int | None = None
    for step in program.steps:
        for finding in _step_findings(program, step, made, level):
            yield f"{finding}\n    {step_text(program, step)}"
        made.update(step.result_ids)
        level = step.level
    yield from _meta_findings(program, made)
    yield from _boundary_findings(program, made)


def _all_ids(program: FusedProgram) -> Iterator[Any]:
    yield from program.feeds
    for step in program.steps:
        yield from (step.step_id, *step.input_ids, *step.result_ids)
    for mapping in (program.state_out, program.writes):
        yield from (*mapping, *mapping.values())
    yield from (*program.outputs.values(), *program.state_in, *program.meta, *program.feed_names)


def _repetitions(program: FusedProgram) -> Iterator[str]:
    for i in _repeated(step.step_id for step in program.steps):
        yield f"rule 2: several steps have the id {i}"
    results = [r for step in program.steps for r in step.result_ids]
    for i in _repeated(results):
        yield f"rule 3: %{i} is made more than once"
    for i in sorted(program.feeds & set(results)):
        yield f"rule 3: %{i} is a feed, and a step makes it too"


def _repeated(ids: Iterable[int]) -> list[int]:
    seen: set[int] = set()
    return [i for i in ids if i in seen or seen.add(i)]  # type: ignore[func-returns-value]


# ---------------------------------------------------------------- steps
def _step_findings(program: FusedProgram, step: OpStep, made: set[int], level: int | None) -> Iterator[str]:
    if not step.result_ids:
        yield "rule 3: the step makes no value"
    for i in dict.fromkeys(step.input_ids):
        if i not in made:
            why = "a later step makes it" if i in program.producers else "neither feed nor step makes it"
            yield f"rule 4: %{i} is read, but {why}"
    if level is not None and step.level < level:
        yield f"rule 5: the level falls from {level} to {step.level}"
    op = ops.get(step.op_name)
    if op is None:
        yield f"rule 6: {step.op_name!r} is no operator"
        return
    arity_fits = op.arity in (ops.VARIADIC, len(step.input_ids))
    if not arity_fits:
        yield f"rule 6: {op.name} takes {op.arity} operand(s), not {len(step.input_ids)}"
    attrs = [name for name, _ in step.attrs]
    problems = attr_problems(op, step.attr_dict)
    if attrs != sorted(set(attrs)):
        problems.append("the attributes are not sorted by name, each once")
    yield from (f"rule 7: {problem}" for problem in problems)
    if step.mode_sensitive != op.mode_sensitive:
        yield f"rule 8: {op.name} {'looks' if op.mode_sensitive else 'does not look'} at the mode"
    metas = [program.meta.get(i) for i in (*step.input_ids, *step.result_ids)]
    if arity_fits and not problems and all(m is not None and m.dtype in SUPPORTED for m in metas):
        yield from _inference(program, step, op)
        yield from _nested(program, step, op)


def _inference(program: FusedProgram, step: OpStep, op: ops.Op) -> Iterator[str]:
    try:
        metas = op.result_metas([program.meta[i] for i in step.input_ids], step.attr_dict)
    except JitfuseError as error:
        yield f"rule 10: {error}"
        return
    if len(metas) != len(step.result_ids):
        yield f"rule 10: {op.name} makes {len(metas)} value(s), not {len(step.result_ids)}"
        return
    for i, meta in zip(step.result_ids, metas, strict=True):
        found = program.meta[i]
        if not _alike(found, meta) or found.weak != meta.weak:
            yield f"rule 10: %{i} should be {meta_text(meta)}, not {meta_text(found)}"


def _nested(program: FusedProgram, step: OpStep, op: ops.Op) -> Iterator[str]:
    operands = [program.meta[i] for i in step.input_ids]
    for name, nested in nested_programs(step):
        yield from (f"rule 14: in {name}: {finding}" for finding in _findings(nested))
        if op.nested_feeds is not None:
            operands = op.nested_feeds([program.meta[i] for i in step.input_ids], step.attr_dict)
        feeds = [nested.meta.get(i) for i in nested.ordered_feeds]
        if len(feeds) != len(operands):
            yield f"rule 14: {name} has {len(feeds)} feeds for {len(operands)} operands"
            continue
        for feed, meta, operand in zip(nested.ordered_feeds, feeds, operands, strict=True):
            if meta is not None and not _alike(meta, operand):
                yield (
                    f"rule 14: feed %{feed} of {name} is {meta_text(meta)}, "
                    f"its operand is {meta_text(operand)}"
                )


def nested_programs(step: OpStep) -> Iterator[tuple[str, FusedProgram]]:
    """Yield the programs among a step's attributes, with the attribute's name."""

    def within(value: Any) -> Iterator[FusedProgram]:
        if isinstance(value, FusedProgram):
            yield value
        elif isinstance(value, tuple):
            for item in value:
                yield from within(item)

    for name, value in step.attrs:
        for nested in within(value):
            yield name, nested


def _alike(a: Meta, b: Meta) -> bool:
    return (a.shape, a.dtype, a.device) == (b.shape, b.dtype, b.device)


# ---------------------------------------------------------------- metas and the boundary
def _meta_findings(program: FusedProgram, made: set[int]) -> Iterator[str]:
    for i in sorted(made - program.meta.keys()):
        yield f"rule 9: %{i} has no meta"
    for i in sorted(program.meta.keys() - made):
        yield f"rule 9: %{i} has a meta, but nothing makes it"
    for i, meta in sorted(program.meta.items()):
        if meta.dtype not in SUPPORTED:
            yield f"rule 9: the dtype {meta.dtype} of %{i} is not supported"
        if any(type(n) is not int or n < 0 for n in meta.shape):
            yield f"rule 9: %{i} has the shape {meta.shape}"
        if meta.weak and meta.shape != ():
            yield f"rule 9: %{i} is weak and has the shape {meta.shape}"
        if meta.axes is not None and len(meta.axes) != len(meta.shape):
            yield f"rule 9: %{i} has {len(meta.shape)} extents and {len(meta.axes)} named axes"


def _boundary_findings(program: FusedProgram, made: set[int]) -> Iterator[str]:
    delivered = [(f"output {path!r}", i) for path, i in program.outputs.items()]
    delivered += [(f"the new state of %{feed}", i) for feed, i in program.state_out.items()]
    delivered += [(f"the write to %{feed}", i) for feed, i in program.writes.items()]
    for what, i in delivered:
        if i not in made:
            yield f"rule 11: {what} is %{i}, which nothing makes"
    for i in sorted(program.feed_names.keys() - program.feeds):
        yield f"rule 11: %{i} has the name {program.feed_names[i]!r}, but is no feed"
    for i in sorted(program.state_in - program.feeds):
        yield f"rule 12: %{i} is state, but no feed"
    for i in sorted(program.state_out.keys() - program.state_in):
        yield f"rule 12: %{i} has a new state, but is no state"
    for i in sorted(program.feeds):
        meta = program.meta.get(i)
        fits = i in program.state_in and meta is not None and meta_text(meta) == "int64[2]"
        if program.is_random_state(i) and not fits:
            yield f"rule 12: the random state %{i} is {meta_text(meta)}, not state of int64[2]"
    for i in sorted(program.writes.keys() - (program.feeds - program.state_in)):
        yield f"rule 13: %{i} is written, but is no feed, or is state"
    for rule, mapping in ((12, program.state_out), (13, program.writes)):
        for feed, new in sorted(mapping.items()):
            old_meta, new_meta = program.meta.get(feed), program.meta.get(new)
            if old_meta and new_meta and not _alike(old_meta, new_meta):
                yield (
                    f"rule {rule}: %{feed} is {meta_text(old_meta)}, what replaces it, %{new}, "
                    f"is {meta_text(new_meta)}"
                )

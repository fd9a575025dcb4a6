"""The rules of a valid FusedProgram, and the check that finds all violations at once."""
from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, Final

from jitfuse.base.records import NamedTuple
from jitfuse.dtypes import SUPPORTED, itemsize
from jitfuse.errors import JitfuseError, VerifyError
from jitfuse.ir.analysis.attributes import attr_problems
from jitfuse.ir.formats.text import meta_text, step_text
from jitfuse.ir.operators import ops
from jitfuse.ir.schema import PROGRAM_VERSION, Meta, OpStep, ProgramData

NESTED: Final = 50
"""How deep programs may be nested."""
_LARGEST: Final = 1 << 63
"""Ids, levels and the bytes of a value are below this."""
_RANK: Final = 64
"""The most axes of a NumPy array."""
_WEAK: Final = frozenset({"bool", "int64", "uint64", "float64", "complex128"})
"""Dtypes of Python's numbers."""
_SHOWN: Final = 400
"""Characters of a step that a finding shows."""


class _BrokenRule(NamedTuple):
    """A broken rule: its number, what is wrong, the steps that show it, and the path to the nested program."""

    rule: int
    what: str
    path: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()

    def text(self) -> str:
        nested = f"rule 14: in {', '.join(self.path)}: " if self.path else ""
        return "\n    ".join((f"{nested}rule {self.rule}: {self.what}", *self.steps))


def verify(program: ProgramData) -> None:
    """Raise VerifyError with all findings where a program is not valid. A valid program keeps these rules:

    1. Its version is the one that this jitfuse works with.
    2. Ids are integers from 0 on, of 63 bits. No two steps share an id. Sources belong to steps.
    3. Every value is made once: by one step, as one of its results, or by the caller, as a feed.
       A step makes at least one value.
    4. A step reads only feeds and values that an earlier step makes.
    5. Levels are integers from 0 on, of 63 bits, and never fall from one step to the next.
    6. Every step names an operator of the op table and has as many operands as its row says.
    7. A step carries exactly the attributes of its row, sorted by name, each of the kind that its name requires
       (`attr_problems`).
    8. A step is marked mode-sensitive exactly where its row is.
    9. Feeds and results have a meta, and nothing else has. Its dtype is supported. It has at most 64 extents, none of
       them negative. It has fewer than 2**63 bytes, not counting axes of extent 0. A weak value has rank 0 and a
       dtype of Python's numbers. There are as many named axes as extents.
    10. The metas of a step's results are those that the row infers from its operands' metas and its attributes.
    11. Outputs, new state and writes are values that exist. Names belong to feeds.
    12. State is a set of feeds; new state belongs to state, and has its shape, dtype and device. The random
        state is state of shape [2] and dtype int64, and there is one at most.
    13. Writes go to feeds that are not state, and have the feed's shape, dtype and device.
    14. A program among a step's attributes is valid itself. Its feeds in ascending order have the shapes, dtypes and
        devices of the step's operands, one for one, or of what the operator's row derives from them. It has neither
        state nor writes. Programs are nested at most 50 deep.

    A finding names the rule and what is wrong, and shows the step as printed, with the user's line. In a nested program
    it also shows the path of steps from the outside, and the outermost of these steps.
    """
    findings = tuple([finding.text() for finding in _findings(program, 0)])
    if findings:
        raise VerifyError(findings)


def _findings(program: ProgramData, depth: int) -> Iterator[_BrokenRule]:
    if program.version != PROGRAM_VERSION:
        yield _BrokenRule(1, f"the version is {program.version}, not {PROGRAM_VERSION}")
    bad = [i for i in _all_ids(program) if not _is_count(i)]
    yield from (_BrokenRule(2, f"{i!r} is no id") for i in dict.fromkeys(bad))
    if not bad:
        yield from _repetitions(program)
    made = set(program.feeds)
    level = 0
    for step in program.steps:
        nested = [*_nested(step, depth)]
        own = [] if bad else [*_step_findings(program, step, made, level, sound=not nested)]
        if own or nested:
            shown = _shown(program, step)
            yield from (finding._replace(steps=(shown,)) for finding in own)
            yield from (finding._replace(steps=(*finding.steps[:1], shown)) for finding in nested)
        made.update(step.result_ids)
        level = step.level
    if not bad:
        yield from _meta_findings(program, made)
        yield from _boundary_findings(program, made)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _LARGEST


def _shown(program: ProgramData, step: OpStep) -> str:
    text = step_text(program, step)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 4]} ..."


def _all_ids(program: ProgramData) -> Iterator[Any]:
    yield from program.feeds
    for step in program.steps:
        yield from (step.step_id, *step.input_ids, *step.result_ids)
    for mapping in (program.state_out, program.writes):
        yield from (*mapping, *mapping.values())
    yield from (*program.outputs.values(), *program.state_in, *program.meta, *program.feed_names)


def _repetitions(program: ProgramData) -> Iterator[_BrokenRule]:
    steps = [step.step_id for step in program.steps]
    for i in _repeated(steps):
        yield _BrokenRule(2, f"several steps have the id {i}")
    for i in sorted(program.sources.keys() - set(steps)):
        yield _BrokenRule(2, f"{i} has a source, but is no step")
    results = [r for step in program.steps for r in step.result_ids]
    for i in _repeated(results):
        yield _BrokenRule(3, f"%{i} is made more than once")
    for i in sorted(program.feeds & set(results)):
        yield _BrokenRule(3, f"%{i} is a feed, and a step makes it too")


def _repeated(ids: Iterable[int]) -> list[int]:
    seen: set[int] = set()
    return [i for i in ids if i in seen or seen.add(i)]  # type: ignore[func-returns-value]


# ---------------------------------------------------------------- steps
def _step_findings(
    program: ProgramData, step: OpStep, made: set[int], level: int, *, sound: bool
) -> Iterator[_BrokenRule]:
    """Yield what is wrong with a step itself; `sound`: the programs that it holds are valid."""
    if not step.result_ids:
        yield _BrokenRule(3, "the step makes no value")
    for i in dict.fromkeys(step.input_ids):
        if i not in made:
            why = "a later step makes it" if i in program.producers else "neither feed nor step makes it"
            yield _BrokenRule(4, f"%{i} is read, but {why}")
    if not _is_count(step.level):
        yield _BrokenRule(5, f"{step.level} is no level")
    elif step.level < level:
        yield _BrokenRule(5, f"the level falls from {level} to {step.level}")
    op = ops.get(step.op_name)
    if op is None:
        yield _BrokenRule(6, f"{step.op_name!r} is no operator")
        return
    arity_fits = op.arity in (ops.VARIADIC, len(step.input_ids))
    if not arity_fits:
        yield _BrokenRule(6, f"{op.name} takes {op.arity} operand(s), not {len(step.input_ids)}")
    attrs = [name for name, _ in step.attrs]
    problems = attr_problems(op, step.attr_dict)
    if attrs != sorted(set(attrs)):
        problems.append("the attributes are not sorted by name, each once")
    yield from (_BrokenRule(7, problem) for problem in problems)
    if step.mode_sensitive != op.mode_sensitive:
        yield _BrokenRule(8, f"{op.name} {'depends' if op.mode_sensitive else 'does not depend'} on the mode")
    metas = [program.meta.get(i) for i in (*step.input_ids, *step.result_ids)]
    if arity_fits and sound and not problems and not any(m is None or _meta_problems(m) for m in metas):
        yield from _inference(program, step, op)


def _inference(program: ProgramData, step: OpStep, op: ops.Op) -> Iterator[_BrokenRule]:
    operands, attrs = [program.meta[i] for i in step.input_ids], step.attr_dict
    try:
        metas = op.result_metas(operands, attrs)
        feeds = operands if op.nested_feeds is None else op.nested_feeds(operands, attrs)
    except JitfuseError as error:
        yield _BrokenRule(10, str(error))
        return
    if len(metas) != len(step.result_ids):
        yield _BrokenRule(10, f"{op.name} makes {len(metas)} value(s), not {len(step.result_ids)}")
        return
    for i, meta in zip(step.result_ids, metas, strict=True):
        found = program.meta[i]
        if not _alike(found, meta) or found.weak != meta.weak:
            yield _BrokenRule(10, f"%{i} should be {meta_text(meta)}, not {meta_text(found)}")
    for name, nested in nested_programs(step):
        yield from _bound(name, nested, feeds)


def _bound(name: str, nested: ProgramData, operands: list[Meta]) -> Iterator[_BrokenRule]:
    """Yield which feeds of a program among a step's attributes do not match their operands."""
    feeds = nested.ordered_feeds
    if len(feeds) != len(operands):
        yield _BrokenRule(14, f"{name} has {len(feeds)} feeds for {len(operands)} operands")
        return
    for feed, operand in zip(feeds, operands, strict=True):
        meta = nested.meta[feed]
        if not _alike(meta, operand):
            yield _BrokenRule(14, f"feed %{feed} of {name} is {meta_text(meta)}, its operand is {meta_text(operand)}")


def _nested(step: OpStep, depth: int) -> Iterator[_BrokenRule]:
    """Yield what is wrong in the programs among a step's attributes, with the path to them."""
    for name, nested in nested_programs(step):
        owner = f"{name} of step {step.step_id}"
        if depth == NESTED:
            yield _BrokenRule(14, f"programs lie more than {NESTED} deep in one another", (owner,))
            continue
        for kind, held in (("state", nested.state_in), ("writes", nested.writes)):
            if held:
                yield _BrokenRule(14, f"it has {kind}: {', '.join(f'%{i}' for i in sorted(held)[:9])}", (owner,))
        for finding in _findings(nested, depth + 1):
            yield finding._replace(path=(owner, *finding.path))


def nested_programs(step: OpStep) -> Iterator[tuple[str, ProgramData]]:
    """Yield the programs among a step's attributes, with the attribute's name."""
    for name, value in step.attrs:
        if isinstance(value, ProgramData):
            yield name, value


def _alike(a: Meta, b: Meta) -> bool:
    return (a.shape, a.dtype, a.device) == (b.shape, b.dtype, b.device)


# ---------------------------------------------------------------- metas and the boundary
def _meta_findings(program: ProgramData, made: set[int]) -> Iterator[_BrokenRule]:
    for i in sorted(made - program.meta.keys()):
        yield _BrokenRule(9, f"%{i} has no meta")
    for i in sorted(program.meta.keys() - made):
        yield _BrokenRule(9, f"%{i} has a meta, but nothing makes it")
    for i, meta in sorted(program.meta.items()):
        yield from (_BrokenRule(9, problem) for problem in _meta_problems(meta, i))


def _is_shape(meta: Meta) -> bool:
    if len(meta.shape) > _RANK or not all(map(_is_count, meta.shape)):
        return False
    size = itemsize(meta.dtype) if meta.dtype in SUPPORTED else 1
    return math.prod([extent or 1 for extent in meta.shape]) * size < _LARGEST


def _meta_problems(meta: Meta, i: int = 0) -> list[str]:
    """Return what is wrong with the meta of a value."""
    problems = []
    if type(meta.dtype) is not str or meta.dtype not in SUPPORTED:
        problems.append(f"the dtype {meta.dtype} of %{i} is not supported")
    if not _is_shape(meta):
        problems.append(f"%{i} has the shape {meta.shape}")
    if meta.weak and (meta.shape != () or meta.dtype not in _WEAK):
        problems.append(f"%{i} is weak and has the shape {meta.shape} and the dtype {meta.dtype}")
    if meta.axes is not None and len(meta.axes) != len(meta.shape):
        problems.append(f"%{i} has {len(meta.shape)} extents and {len(meta.axes)} named axes")
    return problems


def _boundary_findings(program: ProgramData, made: set[int]) -> Iterator[_BrokenRule]:
    delivered = [(f"output {path!r}", i) for path, i in program.outputs.items()]
    delivered += [(f"the new state of %{feed}", i) for feed, i in program.state_out.items()]
    delivered += [(f"the write to %{feed}", i) for feed, i in program.writes.items()]
    for what, i in delivered:
        if i not in made:
            yield _BrokenRule(11, f"{what} is %{i}, which nothing makes")
    for i in sorted(program.feed_names.keys() - program.feeds):
        yield _BrokenRule(11, f"%{i} has the name {program.feed_names[i]!r}, but is no feed")
    yield from _state_findings(program)
    for i in sorted(program.writes.keys() - (program.feeds - program.state_in)):
        yield _BrokenRule(13, f"%{i} is written, but is no feed, or is state")
    for rule, mapping in ((12, program.state_out), (13, program.writes)):
        for feed, new in sorted(mapping.items()):
            old_meta, new_meta = program.meta.get(feed), program.meta.get(new)
            if old_meta and new_meta and not _alike(old_meta, new_meta):
                now = f"is {meta_text(old_meta)}, what replaces it, %{new}, is {meta_text(new_meta)}"
                yield _BrokenRule(rule, f"%{feed} {now}")


def _state_findings(program: ProgramData) -> Iterator[_BrokenRule]:
    for i in sorted(program.state_in - program.feeds):
        yield _BrokenRule(12, f"%{i} is state, but no feed")
    for i in sorted(program.state_out.keys() - program.state_in):
        yield _BrokenRule(12, f"%{i} has a new state, but is no state")
    random = [i for i in sorted(program.feeds) if program.is_random_state(i)]
    for i in random:
        meta = program.meta.get(i)
        if i not in program.state_in or meta is None or meta_text(meta) != "int64[2]":
            yield _BrokenRule(12, f"the random state %{i} is {meta_text(meta)}, not state of int64[2]")
    for i in random[1:]:
        yield _BrokenRule(12, f"%{i} is the random state, and so is %{random[0]}")

"""The machinery of every pass: build a new program step by step from an old one.

Owns `ProgramBuilder`, which infers metas, numbers values and keeps source lines; `BuilderTensor`, which records
decompositions; and `rewrite`, the visitor. Does not own any particular rewriting.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from jitfuse.base.floats import exact_text
from jitfuse.base.records import NamedTuple, made
from jitfuse.dtypes import WEAK_DTYPE
from jitfuse.ir.operators import ops
from jitfuse.ir.program import Attrs, FusedProgram, Meta, OpStep, make_attrs
from jitfuse.tracing.abstract import AbstractTensor


class Recorded(NamedTuple):
    """Steps, each of one result, and the value for which they were appended."""

    steps: tuple[OpStep, ...]
    result: int


class ProgramBuilder:
    """Collects steps of a new program over the feeds of an old one; feeds keep their ids.

    As long as the collected steps are the old program's own, in ascending order of ids, they keep their ids, and only
    their number is recorded. Every step has a higher id than the one before it, and so has its result.
    """

    def __init__(self, old: FusedProgram, *, share: bool = False) -> None:
        self.old = old
        self.meta: dict[int, Meta] = dict(old.meta)
        """Until the program is finished, also holds old values that it no longer has."""
        self.makers: dict[int, OpStep] = dict(old.producers)
        """Value id -> the new step that makes it."""
        self.source: str | None = None
        self.unchanged = True
        """Whether all collected steps are the first ones of the old program. If so, only their number is kept."""
        self._kept = 0
        self._steps: list[OpStep] = []
        self._sources: dict[int, str] = {}
        self._next = max(old.meta, default=-1) + 1
        self._number, self._last = 0, -1
        self._seen: dict[Any, int] | None = {} if share else None

    @staticmethod
    def behind(old: FusedProgram) -> ProgramBuilder:
        """Return a builder that goes on behind all steps of a program, which keep their ids."""
        builder = ProgramBuilder(old)
        builder.unchanged = False
        builder._steps, builder._sources = list(old.steps), dict(old.sources)
        builder._number = 1 + max([max(s.step_id, s.level) for s in old.steps], default=-1)
        return builder

    def step(self, op_name: str, inputs: Iterable[int], attrs: Attrs, *, meta: Meta | None = None) -> int:
        """Append a step and return its result's id, or that of an equal earlier step if the builder shares."""
        ids = tuple(inputs)
        key = None
        if self._seen is not None:
            key = _shared_key(op_name, ids, attrs)
            found = self._seen.get(key)
            if found is not None:
                self.change()
                return found
        op = ops.get(op_name)
        assert op is not None, op_name
        if meta is None:
            meta = op.result_meta([self.meta[i] for i in ids], dict(attrs))
        new = self._append(op_name, ids, attrs, (meta,), op.mode_sensitive)
        if key is not None and self._seen is not None:
            self._seen[key] = new
        return new

    def copied(self, step: OpStep, inputs: tuple[int, ...], metas: Sequence[Meta] | None) -> int:
        """Append an old step over other inputs and return its first result's id; the ids of other results follow it.

        `metas` are those of its results; None: they are inferred, because those of inputs have changed. Loops, branches
        and steps with several results are never shared.
        """
        keeps = self.unchanged and step.step_id >= self._number and step.result_ids[0] > self._last
        if is_whole(step):
            if keeps:
                return self._keep(step)
            before = [self.old.meta[r] for r in step.result_ids]
            return self._append(step.op_name, inputs, step.attrs, before, step.mode_sensitive)
        if not keeps:
            if metas is None or self._seen is not None:
                return self.step(step.op_name, inputs, step.attrs, meta=None if metas is None else metas[0])
            return self._append(step.op_name, inputs, step.attrs, metas, step.mode_sensitive)
        if self._seen is not None:
            key = _shared_key(step.op_name, inputs, step.attrs)
            found = step.result_ids[0] if key is None else self._seen.setdefault(key, step.result_ids[0])
            if found != step.result_ids[0]:
                self.change()
                return found
        return self._keep(step)

    def _keep(self, step: OpStep) -> int:
        """Append the next step of the old program unchanged."""
        self._last = step.result_ids[-1]
        self._kept += 1
        number, level = step.step_id, step.level
        self._number = (number if number > level else level) + 1
        return step.result_ids[0]

    def change(self) -> None:
        """Start collecting steps that differ from those of the old program."""
        if self.unchanged:
            self.unchanged = False
            self._steps = list(self.old.steps[: self._kept])
            sources = self.old.sources
            self._sources = {s.step_id: sources[s.step_id] for s in self._steps if s.step_id in sources}

    def _append(
        self, op_name: str, inputs: tuple[int, ...], attrs: Attrs, metas: Sequence[Meta], mode_sensitive: bool
    ) -> int:
        new, number = self._next, self._number
        results = (new,) if len(metas) == 1 else tuple(range(new, new + len(metas)))
        self._next += len(metas)
        self._number += 1
        self.change()
        step = made(OpStep, (number, op_name, inputs, attrs, results, mode_sensitive, number))
        self._steps.append(step)
        for result, meta in zip(results, metas):
            self.meta[result] = meta
            self.makers[result] = step
        if self.source is not None:
            self._sources[number] = self.source
        return new

    @property
    def count(self) -> int:
        """How many steps there are, once they differ from the old program's."""
        return len(self._steps)

    def steps_from(self, first: int) -> tuple[OpStep, ...]:
        """Return the steps from a count on."""
        return tuple(self._steps[first:])

    def placeholder(self, meta: Meta) -> int:
        """Return the id of a new value that no step makes: a further feed, or one that nothing kept reads."""
        self.change()
        new = self._next
        self._next += 1
        self.meta[new] = meta
        return new

    def step_of_many(self, op_name: str, inputs: Iterable[int], attrs: Attrs) -> tuple[int, ...]:
        """Append a step with any number of results, and return their ids."""
        op, ids = ops.get(op_name), tuple(inputs)
        assert op is not None, op_name
        metas = op.result_metas([self.meta[i] for i in ids], dict(attrs))
        first = self._append(op_name, ids, attrs, metas, op.mode_sensitive)
        return tuple(range(first, first + len(metas)))

    def inlined(self, program: FusedProgram, operands: Sequence[BuilderTensor]) -> list[BuilderTensor]:
        """Append the steps of a program over operands for its feeds, and return its outputs."""
        ids = dict(zip(program.ordered_feeds, [x.id for x in operands], strict=True))
        for step in program.steps:
            self.source = program.sources.get(step.step_id, self.source)
            made = self.step_of_many(step.op_name, [ids[i] for i in step.input_ids], step.attrs)
            ids.update(zip(step.result_ids, made, strict=True))
        return [self.tensor(ids[i]) for i in program.outputs.values()]

    def recorded(self, make: Callable[[], int]) -> Recorded:
        """Return the steps that `make` appends, with the value that it returns."""
        self.change()
        count = len(self._steps)
        result = make()
        return Recorded(tuple(self._steps[count:]), result)

    def again(self, recorded: Recorded, ids: dict[int, int]) -> int:
        """Append recorded steps over other values; `ids` maps the recorded values to them. Return the result."""
        for step in recorded.steps:
            inputs, result = tuple([ids[i] for i in step.input_ids]), step.result_ids[0]
            ids[result] = self._append(step.op_name, inputs, step.attrs, (self.meta[result],), step.mode_sensitive)
        return ids[recorded.result]

    def source_of(self, value: int) -> str | None:
        """Return the user's line of the step that makes a value."""
        sources = self.old.sources if self.unchanged else self._sources
        return sources.get(self.makers[value].step_id)

    def reshaped(self, x: int, shape: tuple[int, ...]) -> int:
        """Return a value in another shape; a reshape of a reshape reads the original."""
        inner = self.makers.get(x)
        source = inner.input_ids[0] if inner is not None and inner.op_name == "reshape" else x
        if self.meta[source].shape == shape:
            return source
        return self.step("reshape", (source,), make_attrs({"shape": shape}))

    def is_transposed(self, value: int) -> bool:
        """Return whether a transpose has made a value."""
        maker = self.makers.get(value)
        return maker is not None and maker.op_name == "transpose"

    def tensor(self, value: int) -> BuilderTensor:
        """Return a value as a tensor whose methods append steps."""
        return BuilderTensor(self, value)

    def finish(self, ids: dict[int, int], **changes: Any) -> FusedProgram:
        """Return the new program; `ids` maps old values to new ones."""
        old = self.old
        self.change()
        fields: dict[str, Any] = {
            "outputs": old.outputs, "state_out": old.state_out, "writes": old.writes,
            "state_in": old.state_in, "feeds": old.feeds, "feed_names": old.feed_names, **changes,
        }
        for name in ("outputs", "state_out", "writes"):
            fields[name] = {k: ids.get(v, v) for k, v in fields[name].items()}
        meta = {feed: self.meta[feed] for feed in fields["feeds"]}
        meta.update([(result, self.meta[result]) for step in self._steps for result in step.result_ids])
        return FusedProgram(steps=tuple(self._steps), meta=meta, sources=self._sources, version=old.version, **fields)


class BuilderTensor(AbstractTensor):
    """A value of a program under construction."""

    __slots__ = ("_builder", "id")

    def __init__(self, builder: ProgramBuilder, value: int) -> None:
        self._builder = builder
        self.id = value

    @property
    def builder(self) -> ProgramBuilder:
        """What the value's program is made with."""
        return self._builder

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the value."""
        return self._builder.meta[self.id].shape

    @property
    def dtype(self) -> str:
        """The dtype's name."""
        return self._builder.meta[self.id].dtype

    @property
    def weak(self) -> bool:
        """Whether the value is weak in promotion."""
        return self._builder.meta[self.id].weak

    def _apply(self, op: ops.Op, inputs: tuple[AbstractTensor, ...], attrs: dict[str, Any]) -> BuilderTensor:
        ids = [t.id for t in inputs if isinstance(t, BuilderTensor)]
        assert len(ids) == len(inputs)
        return BuilderTensor(self._builder, self._builder.step(op.name, ids, make_attrs(attrs)))

    def call_all(self, op_name: str, *others: BuilderTensor, **attrs: Any) -> list[BuilderTensor]:
        """Carry out an operator with any number of results, this tensor being the first operand."""
        found = self._builder.step_of_many(op_name, (self.id, *(t.id for t in others)), make_attrs(attrs))
        return [BuilderTensor(self._builder, r) for r in found]

    def _lift(self, value: Any) -> BuilderTensor:
        dtype = WEAK_DTYPE[next(k for k in WEAK_DTYPE if isinstance(value, k))]
        attrs = make_attrs({"shape": (), "value": value, "dtype": dtype, "weak": True})
        return BuilderTensor(self._builder, self._builder.step("full", (), attrs))


_INTEGERS: Final = (ops.VIEW, ops.UPDATE)
"""Kinds of operators whose attributes, once primitive, hold only integers."""


def _shared_key(op_name: str, inputs: tuple[int, ...], attrs: Attrs) -> Any:
    """Return a key that is equal for equal steps; None for steps that are made anew each time.

    Sizes that happen to be equal must not make another kernel than sizes that differ. A copy is a result's own memory,
    of which the result may be a view.
    """
    op = ops.get(op_name)
    assert op is not None
    if op_name == "copy":
        return None
    if not attrs or (op.kind in _INTEGERS and op.decompose is None):
        return op_name, inputs, attrs
    if op.kind == ops.CREATION and (op_name != "full" or dict(attrs).get("shape") != ()):
        return None
    return op_name, inputs, exact_text(attrs)  # it distinguishes 0.0 and -0.0, 1 and True; == does not


def is_whole(step: OpStep) -> bool:
    """Return whether a step is kept whole: it holds programs, or has several results."""
    return step.op_name in ops.HOLD_PROGRAMS or len(step.result_ids) > 1


Visit = Callable[[ProgramBuilder, OpStep, tuple[int, ...]], "int | None"]


def rewrite(program: FusedProgram, visit: Visit | None = None, *, share: bool = False) -> FusedProgram:
    """Rebuild a program: `visit(builder, step, inputs)` returns the new id of the step's result.

    `inputs` are already new ids. None copies the step as it is; if no step changes, the program itself is returned.
    Steps stay in order. Loops, branches and steps with several results are copied without a visit: the programs that
    they hold go through passes of their own.
    """
    builder = ProgramBuilder(program, share=share)
    metas, sources = program.meta, program.sources
    ids: dict[int, int] = {}
    changed: set[int] = set()
    for step in program.steps:
        inputs = tuple([ids.get(i, i) for i in step.input_ids]) if ids else step.input_ids
        builder.source = sources.get(step.step_id)
        new = None if visit is None or is_whole(step) else visit(builder, step, inputs)
        if new is None:
            kept = not changed or changed.isdisjoint(inputs)
            new = builder.copied(step, inputs, (metas[step.result_ids[0]],) if kept else None)
        for result in step.result_ids:
            if new != result:
                builder.change()
                ids[result] = new
                now, before = builder.meta[new], metas[result]
                if now is not before and now != before:  # most are the same object, and == takes 1 µs
                    changed.add(new)
            new += 1
    return program if builder.unchanged else builder.finish(ids)

"""The machinery of every pass: build a new program step by step from an old one.

Owns: `ProgramBuilder`, which infers metas, numbers values and keeps source lines, `BuilderTensor`, through
which decompositions are recorded, and `rewrite`, the visitor. Does not own any particular rewriting.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jitfuse.dtypes import WEAK_DTYPE
from jitfuse.ir import ops
from jitfuse.ir.program import Attrs, FusedProgram, Meta, OpStep, make_attrs
from jitfuse.tracing.abstract import AbstractTensor


class ProgramBuilder:
    """Collects steps of a new program over the feeds of an old one; feeds keep their ids."""

    def __init__(self, old: FusedProgram, *, share: bool = False) -> None:
        self.old = old
        self.meta: dict[int, Meta] = {i: old.meta[i] for i in old.feeds}
        self.steps: list[OpStep] = []
        self.sources: dict[int, str] = {}
        self.source: str | None = None
        self._next = max(old.meta, default=-1) + 1
        self._seen: dict[tuple[str, tuple[int, ...], str], int] | None = {} if share else None

    def step(
        self, op_name: str, inputs: Iterable[int], attrs: Attrs, *, meta: Meta | None = None, fresh: bool = False
    ) -> int:
        """Append a step and return its result's id; an equal earlier step where the builder shares, unless fresh."""
        ids = tuple(inputs)
        if self._seen is not None and not fresh:
            # repr tells 0.0 from -0.0 and 1 from True, which == does not
            key = (op_name, ids, repr(attrs))
            found = self._seen.get(key)
            if found is not None:
                return found
        op = ops.get(op_name)
        assert op is not None, op_name
        if meta is None:
            meta = op.result_meta([self.meta[i] for i in ids], dict(attrs))
        new = self._next
        self._next += 1
        number = len(self.steps)
        self.steps.append(OpStep(number, op_name, ids, attrs, (new,), op.mode_sensitive, number))
        self.meta[new] = meta
        if self.source is not None:
            self.sources[number] = self.source
        if self._seen is not None and not fresh:
            self._seen[key] = new
        return new

    def copied(self, step: OpStep, inputs: tuple[int, ...], attrs: Attrs, metas: Sequence[Meta]) -> tuple[int, ...]:
        """Append a step of any number of results, never shared, and return their ids."""
        new = tuple(range(self._next, self._next + len(metas)))
        self._next += len(metas)
        number = len(self.steps)
        self.steps.append(OpStep(number, step.op_name, inputs, attrs, new, step.mode_sensitive, number))
        self.meta.update(zip(new, metas, strict=True))
        if self.source is not None:
            self.sources[number] = self.source
        return new

    def tensor(self, value: int) -> BuilderTensor:
        """Return a value as a tensor whose methods append steps."""
        return BuilderTensor(self, value)

    def finish(self, ids: dict[int, int], **changes: Any) -> FusedProgram:
        """Return the new program; `ids` maps old values to new ones."""
        old = self.old
        fields: dict[str, Any] = {
            "outputs": old.outputs, "state_out": old.state_out, "writes": old.writes,
            "state_in": old.state_in, "feeds": old.feeds, "feed_names": old.feed_names, **changes,
        }
        for name in ("outputs", "state_out", "writes"):
            fields[name] = {k: ids.get(v, v) for k, v in fields[name].items()}
        return FusedProgram(
            steps=tuple(self.steps), meta=self.meta, sources=self.sources, version=old.version, **fields
        )


class BuilderTensor(AbstractTensor):
    """A value of a program under construction."""

    __slots__ = ("_builder", "id")

    def __init__(self, builder: ProgramBuilder, value: int) -> None:
        self._builder = builder
        self.id = value

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

    def _lift(self, value: Any) -> BuilderTensor:
        dtype = WEAK_DTYPE[next(k for k in WEAK_DTYPE if isinstance(value, k))]
        attrs = make_attrs({"shape": (), "value": value, "dtype": dtype, "weak": True})
        return BuilderTensor(self._builder, self._builder.step("full", (), attrs))


def holds_programs(step: OpStep) -> bool:
    """Return whether a step is a loop or a branch, which may have several results."""
    op = ops.get(step.op_name)
    return op is not None and op.kind == ops.CONTROL


Visit = Callable[[ProgramBuilder, OpStep, tuple[int, ...]], "int | None"]


def rewrite(program: FusedProgram, visit: Visit, *, share: bool = False) -> FusedProgram:
    """Rebuild a program: `visit(builder, step, inputs)` returns the new id of the step's result.

    `inputs` are already new ids. None copies the step as it is. Steps stay in order. Loops and branches are copied
    without a visit: the programs that they hold go through passes of their own.
    """
    builder = ProgramBuilder(program, share=share)
    ids: dict[int, int] = {}
    metas, sources = program.meta, program.sources
    for step in program.steps:
        inputs = tuple([ids.get(i, i) for i in step.input_ids])
        builder.source = sources.get(step.step_id)
        if holds_programs(step):
            copies = builder.copied(step, inputs, step.attrs, [metas[r] for r in step.result_ids])
            ids.update(zip(step.result_ids, copies, strict=True))
            continue
        new = visit(builder, step, inputs)
        if new is None:
            meta: Meta | None = metas[step.result_id]
            for i, j in zip(inputs, step.input_ids, strict=True):
                now, before = builder.meta[i], metas[j]
                if now is not before and now != before:  # most are the same object, and == takes a microsecond
                    meta = None
                    break
            new = builder.step(step.op_name, inputs, step.attrs, meta=meta)
        ids[step.result_id] = new
    return builder.finish(ids)

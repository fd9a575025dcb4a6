"""The body of a re-rolled loop, as a program. Its feeds: carried values, windows, written arrays, other operands.

Literals are operands, except those on which an operator's kernel depends; so the bodies of inner loops are equal.
`jitfuse.tracing.control.reroll.literals` puts them back inside at the end. Literals that differ between iterations
become an array that is read element by element. Does not own what the iterations of a run read
(`jitfuse.tracing.control.reroll.run`), nor the arrays that they write (`jitfuse.tracing.control.reroll.arrays`).
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from jitfuse.base.records import made
from jitfuse.dtypes import numpy_dtype
from jitfuse.ir.operators import ops
from jitfuse.ir.program import Attrs, FusedProgram, Meta, OpStep, make_attrs
from jitfuse.ir.semantics.rerolled import IterationWindow
from jitfuse.tracing.control.reroll.arrays import MovingRegion, WrittenArrays, in_order
from jitfuse.tracing.control.reroll.run import Carry, Inner, Iterations, NoLoopError, Outer, Source, Varying, attr
from jitfuse.tracing.control.reroll.stored_values import Stored
from jitfuse.tracing.record.graph import OpNode

EXACT: Final = frozenset({"power", "float_power"})
"""Operators whose kernels depend on the value of a literal, which then must not differ between iterations."""


class BodyWriter:
    """A body under construction. After `program`, `reads` and `writes` are its windows, `others` its further operands,
    and `operands` maps phases to the operands of their windows.

    The values of the body have these keys: a carried value its `Carry`, a window its `IterationWindow`, an array its
    number, an operand or literal its tensor, the result of an op (phase, result). `_one` maps reshaped values of one
    element to the original values.
    """

    def __init__(
        self, run: Iterations, arrays: WrittenArrays, carries: Sequence[Carry], stored: Mapping[Carry, Stored],
    ) -> None:
        self.run, self.arrays, self.carries, self.stored = run, arrays, carries, stored
        self.others: list[int] = []
        self.reads: list[IterationWindow] = []
        self.writes: list[IterationWindow] = []
        self._metas = run.tensors.metas
        self._scanned: dict[tuple[int, ...], IterationWindow] = {}
        self._meta: dict[int, Meta] = {}
        self._steps: list[OpStep] = []
        self._sources: dict[int, str] = {}
        self._carried: dict[Carry, int] = {}
        self._windows: dict[IterationWindow, int] = {}
        self._outer: dict[int, int] = {}
        self._made: dict[tuple[int, int], int] = {}
        self._written: dict[int, int] = {}
        self._pieces: dict[int, int] = {}
        self._one: dict[int, int] = {}
        self._fitted: dict[tuple[int, str, tuple[int, ...]], int] = {}
        """Values that were cast and broadcast for an update, by value, dtype and shape."""

    def program(self) -> FusedProgram:
        """Return the body."""
        run, arrays = self.run, self.arrays
        self._slices = {phase: found for phase in range(run.period) if (found := self._window(phase)) is not None}
        pieces = {k: self._add(piece.hull.access(k, arrays.meta(k).shape)) for k, piece in arrays.pieces.items()}
        for phase, sources in enumerate(run.inputs):
            if phase not in self._slices and phase not in arrays.values and phase not in run.hoisted:
                self._collect(sources, run.ops[phase].op_name in EXACT)
        self._carried = {key: self._feed(self._result_meta(key)) for key in self.carries}
        self._windows = {access: self._feed(self._window_meta(access)) for access in self.reads}
        self._pieces = {k: self._windows[access] for k, access in pieces.items()}
        whole = [self._feed(arrays.meta(k)) for k in range(len(arrays.chains))]
        self._outer = {tensor: self._feed(self._metas[tensor]) for tensor in self.others}
        feeds = frozenset(self._meta)
        for key, target in self.stored.items():
            value = self._carried[target.array]
            for name, attrs, meta in target.views(self._result_meta(target.array), self._result_meta(key)):
                value, = self._emit(name, (value,), attrs, [meta], run.ops[key[0]])
            self._carried[key] = value
        for phase in range(run.period):
            if phase not in run.hoisted:
                self._write(phase, whole)
        outputs = [self._next(key) for key in self.carries]
        for number in range(len(arrays.chains)):
            for region, value in self._written_regions(number):
                access = region.access(number, arrays.meta(number).shape)
                self.writes.append(access)
                outputs.append(self._shaped(value, access.shape))
        named = {str(k): value for k, value in enumerate(outputs)}
        steps = _needed(self._steps, outputs)
        metas = {t: self._meta[t] for t in sorted(feeds.union(*(s.result_ids for s in steps)))}
        lines = {s.step_id: self._sources[s.step_id] for s in steps}
        return FusedProgram(feeds, steps, named, metas, sources=lines)

    @property
    def operands(self) -> dict[int, int]:
        """By phase of a region: the operand of its window."""
        arrays, number = self.arrays, self.arrays.number
        found = {phase: access.operand for phase, access in self._slices.items()} | number
        found |= {phase: number[update] for phase, update in arrays.values.items()}
        return found | {phase: number[self._inner(phase).phase] for phase in arrays.inside}

    def _feed(self, meta: Meta) -> int:
        number = len(self._meta)
        self._meta[number] = meta
        return number

    def _result_meta(self, key: Carry) -> Meta:
        return self._metas[self.run.ops[key[0]].result_ids[key[1]]]

    def _window_meta(self, access: IterationWindow) -> Meta:
        number = access.operand - len(self.arrays.chains)
        of = self.arrays.meta(access.operand) if number < 0 else self._metas[self.others[number]]
        return Meta(access.shape, of.dtype, of.device, bool(access.weak))

    def _next(self, key: Carry) -> int:
        """Return the carried value for the next iteration."""
        phase, result, lag = key
        return self._made[phase, result] if lag == 1 else self._carried[phase, result, lag - 1]

    # ------------------------------------------------------------------ what comes from outside
    def _window(self, phase: int) -> IterationWindow | None:
        """Return the window that a slice reads; None for other slices."""
        arrays, source = self.arrays, self.run.inputs[phase][0] if self.run.inputs[phase] else None
        if phase in arrays.windows:
            number = arrays.number[self._inner(phase).phase]
            return self._add(arrays.windows[phase].access(number, arrays.meta(number).shape))
        if self.run.ops[phase].op_name == "slice" and arrays.moves(phase) and isinstance(source, Outer):
            shape = self._metas[source.tensor].shape
            return self._add(arrays.region(phase).access(self._operand(source.tensor), shape))
        return None

    def _inner(self, phase: int) -> Inner:
        source = self.run.inputs[phase][0]
        assert isinstance(source, Inner)
        return source

    def _collect(self, sources: Sequence[Source], exact: bool) -> None:
        """Collect the operands and scanned literals that an op reads."""
        for source in sources:
            if isinstance(source, Outer):
                literal = self.run.tensors.literals.get(source.tensor)
                if not exact or literal is None or literal.op_name == "constant":
                    self._operand(source.tensor)
            elif isinstance(source, Varying) and source.tensors not in self._scanned:
                self._scanned[source.tensors] = self._add(self._scan(source.tensors))

    def _operand(self, tensor: int) -> int:
        """Return the number of an operand that the loop only reads."""
        if tensor not in self.others:
            self.others.append(tensor)
        return len(self.arrays.chains) + self.others.index(tensor)

    def _add(self, access: IterationWindow) -> IterationWindow:
        if access not in self.reads:
            self.reads.append(access)
        return access

    def _scan(self, tensors: Sequence[int]) -> IterationWindow:
        """Return the window into an array of literals."""
        made_tensors = self.run.tensors
        literals = [made_tensors.literals[t] for t in tensors]
        meta = self._metas[tensors[0]]
        if any(self._metas[t] != meta or op.op_name != literals[0].op_name
               for t, op in zip(tensors, literals, strict=True)):
            raise NoLoopError
        if literals[0].op_name == "constant":
            dtype = numpy_dtype(meta.dtype).newbyteorder("<")
            array = np.stack([np.frombuffer(attr(op, "data"), dtype) for op in literals])
        else:
            array = np.array([attr(op, "value") for op in literals], numpy_dtype(meta.dtype))
        tensor = made_tensors.constant(array.reshape(len(literals), *meta.shape), meta.dtype, literals[0].source)
        return IterationWindow(self._operand(tensor), 0, meta.size, int(meta.weak), meta.shape, in_order(meta.shape))

    # ------------------------------------------------------------------ steps
    def _write(self, phase: int, whole: Sequence[int]) -> None:
        """Write the op of a phase, or find the value that replaces it."""
        arrays, op = self.arrays, self.run.ops[phase]
        if phase in arrays.number:
            self._written[phase] = self._stored(phase, whole)
            self._update(phase)
        elif phase in arrays.inside:
            self._made[phase, 0] = self._within(phase)
        elif phase in self._slices:
            window = self._windows[self._slices[phase]]
            self._made[phase, 0] = self._shaped(window, self._metas[op.result_ids[0]].shape)
        elif phase in arrays.values:
            self._made[phase, 0] = self._written[arrays.values[phase]]
        else:
            inputs = tuple(self._read(source, whole, op.op_name in EXACT) for source in self.run.inputs[phase])
            if op.op_name == "reshape" and inputs[0] in self._one:
                self._made[phase, 0] = self._shaped(inputs[0], attr(op, "shape"))
                return
            made = self._emit(op.op_name, inputs, op.attrs, [self._metas[t] for t in op.result_ids], op)
            self._made.update({(phase, k): value for k, value in enumerate(made)})

    def _read(self, source: Source, whole: Sequence[int], exact: bool = False) -> int:
        """Return the value that an op reads; `exact`: literals are not made operands."""
        if isinstance(source, Varying):
            return self._windows[self._scanned[source.tensors]]
        if isinstance(source, Outer):
            literal = self.run.tensors.literals.get(source.tensor) if exact else None
            return self._outer[source.tensor] if literal is None or literal.op_name == "constant" else self._literal(
                literal)
        if source.phase in self.arrays.number:
            return whole[self.arrays.number[source.phase]]
        return self._carried[source] if source.lag else self._made[source.phase, source.result]

    def _literal(self, op: OpNode) -> int:
        value, = self._emit(op.op_name, (), op.attrs, [self._metas[op.result_ids[0]]], op)
        return value

    def _stored(self, phase: int, whole: Sequence[int]) -> int:
        """Return the value that an update writes, in the array's dtype and the region's shape."""
        op, counts = self.run.ops[phase], self.arrays.region(phase).counts
        value, array = self._read(self.run.inputs[phase][1], whole), self._metas[op.result_ids[0]]
        key = value, array.dtype, counts
        found = self._fitted.get(key)
        if found is None:
            found = self._fitted[key] = self._fit(value, array, counts, op)
        return found

    def _fit(self, value: int, array: Meta, counts: tuple[int, ...], op: OpNode) -> int:
        """Return a value in the dtype of an array and the shape of a region."""
        meta = self._meta[value]
        if meta.dtype != array.dtype or meta.weak:
            meta = Meta(meta.shape, array.dtype, array.device)
            value, = self._emit("astype", (value,), make_attrs({"dtype": array.dtype}), [meta], op)
        if meta.shape != counts:
            meta, one = Meta(counts, array.dtype, array.device), value
            value, = self._emit("broadcast_to", (value,), make_attrs({"shape": counts}), [meta], op)
            if meta.size == 1:
                self._one[value] = self._one.get(one, one)
        return value

    def _shaped(self, value: int, shape: tuple[int, ...]) -> int:
        """Return a value of one element in this shape; all other values have it already."""
        meta, one = self._meta[value], self._one.get(value, value)
        if meta.shape == shape:
            return value
        if self._meta[one].shape == shape:
            return one
        meta = Meta(shape, meta.dtype, meta.device)
        made, = self._emit("reshape", (one,), make_attrs({"shape": shape}), [meta], self.run.ops[0])
        self._one[made] = one
        return made

    # ------------------------------------------------------------------ pieces of arrays
    def _update(self, phase: int) -> None:
        """Write an update of a piece."""
        number = self.arrays.number[phase]
        if number not in self.arrays.pieces:
            return
        target = self._piece(phase)
        meta, region = self._meta[target], self.arrays.region(phase).within(self.arrays.pieces[number].hull)
        made, = self._emit("update_slice", (target, self._written[phase]), region, [meta], self.run.ops[phase])
        self._made[phase, 0] = made

    def _within(self, phase: int) -> int:
        """Return what a slice reads of a piece."""
        piece, op = self._piece(phase), self.run.ops[phase]
        hull = self.arrays.pieces[self.arrays.number[self._inner(phase).phase]].hull
        value, = self._emit("slice", (piece,), self.arrays.region(phase).within(hull),
                            [self._metas[op.result_ids[0]]], op)
        return value

    def _piece(self, phase: int) -> int:
        """Return the present value of the piece that a slice or update belongs to."""
        source = self._inner(phase)
        return self._pieces[self.arrays.number[source.phase]] if source.lag else self._made[source.phase, 0]

    def _written_regions(self, number: int) -> Iterator[tuple[MovingRegion, int]]:
        """Yield the regions of an array that an iteration writes, with their values."""
        arrays, chain = self.arrays, self.arrays.chains[number]
        if number not in arrays.pieces:
            last_of = {arrays.region(phase): phase for phase in chain}
            yield from ((region, self._written[phase]) for phase in chain
                        if last_of[region := arrays.region(phase)] == phase)
            return
        piece, last = arrays.pieces[number], chain[-1]
        if arrays.region(last) == piece.written:
            yield piece.written, self._written[last]
            return
        of = self._meta[self._made[last, 0]]
        meta = Meta(piece.written.counts, of.dtype, of.device)
        value, = self._emit("slice", (self._made[last, 0],), piece.written.within(piece.hull), [meta],
                            self.run.ops[last])
        yield piece.written, value

    def _emit(
        self, name: str, inputs: tuple[int, ...], attrs: Attrs, metas: Sequence[Meta], op: OpNode
    ) -> tuple[int, ...]:
        row = ops.get(name)
        assert row is not None
        number = len(self._steps)
        results = tuple([self._feed(meta) for meta in metas])
        self._steps.append(made(OpStep, (number, name, inputs, attrs, results, row.mode_sensitive, number)))
        self._sources[number] = op.source
        return results


def _needed(steps: Sequence[OpStep], outputs: Sequence[int]) -> tuple[OpStep, ...]:
    """Return the steps that outputs need, without overwritten ones."""
    read, kept = set(outputs), []
    for step in reversed(steps):
        if not read.isdisjoint(step.result_ids):
            read.update(step.input_ids)
            kept.append(step)
    return tuple(kept[::-1])

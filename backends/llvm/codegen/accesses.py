"""Loads and stores of a kernel's values: their addresses, masks and offsets, and runs of adjacent lanes.

Owns: values by number, as scalars or vectors, and how they are loaded and stored. Does not own what is computed
(`jitfuse.backends.llvm.codegen.body`) or the instructions of one access (`jitfuse.backends.llvm.codegen.memory`).
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jitfuse.backends.llvm import math
from jitfuse.backends.llvm.codegen import cells, pairs
from jitfuse.backends.llvm.codegen.analysis import Analysis
from jitfuse.backends.llvm.codegen.bounds import NOWHERE, bounds_of
from jitfuse.backends.llvm.codegen.elements.masks import any_lane
from jitfuse.backends.llvm.codegen.elements.types import COMPONENT, ITEMSIZE, i64
from jitfuse.backends.llvm.codegen.frame import Address, LoadedLaunch, VectorGroup
from jitfuse.backends.llvm.codegen.memory import VectorMemory
from jitfuse.backends.llvm.math.lockstep import Batch, Context
from jitfuse.backends.llvm.text.builder import Function, Value, vector
from jitfuse.ir.kernels.stages import Instr
from jitfuse.ir.kernels.values import access


class Accesses:
    """The values of a kernel under construction, and their loads and stores."""

    def __init__(self, f: Function, analysis: Analysis, launch: LoadedLaunch, has_fma: bool) -> None:
        self.f = f
        self.analysis = analysis
        self.bounds = bounds_of(analysis) or NOWHERE
        self.launch = launch
        self.lanes = launch.lanes
        self.producers = {n: i for _, body, _ in analysis.form.numbered for n, i in body}
        called = math.repeated((i.op for i in self.producers.values()), math.FUNCTIONS)
        self.context = Context(f, has_fma, called=called)
        self.memory = VectorMemory(self.context, launch.lanes)
        self.values: dict[int, Batch] = {}
        self._splats: dict[int, Value] = {}

    def define(self, number: int, scalar: Value) -> None:
        """Define a value that all lanes share, computed outside the loops that read it."""
        self.values[number] = self.context.batch([scalar])
        if number in self.analysis.splatted:
            self._splats[number] = self._splat(number, scalar)

    def _splat(self, number: int, scalar: Value) -> Value:
        instr = self.producers.get(number)
        if instr is not None and instr.op == "const":
            return self.f.const(vector(scalar.type, self.lanes), instr.imm)
        return self.f.splat(scalar, self.lanes)

    def vectors(self, number: int, frame: VectorGroup) -> Batch:
        """Return a value as the vectors of a frame."""
        if number in frame.scalars:
            return self.context.batch([self.f.splat(frame.scalars[number], self.lanes)] * frame.count)
        batch = self.values[number]
        if not self.analysis.info[number].uniform:
            return batch
        one = self._splats.get(number) or self._splat(number, batch.values[0])
        return self.context.batch([one] * frame.count)

    def shared(self, number: int, frame: VectorGroup) -> Value | None:
        """Return a value that is the same in all lanes of a frame as a scalar, or None."""
        if number in frame.scalars:
            return frame.scalars[number]
        return self.values[number].values[0] if self.analysis.info[number].uniform else None

    def _optional(self, instr: Instr, first: int) -> tuple[int | None, int | None]:
        """Return the value numbers of a load's or store's offset and mask."""
        kind = access(instr)
        offset = instr.args[first] if kind.offset else None
        mask = instr.args[first + kind.offset] if kind.mask else None
        return offset, mask

    def _scalar(self, number: int | None) -> Value | None:
        return None if number is None else self.values[number].values[0]

    def _moved_by(self, address: Address, offset: int | None, frame: VectorGroup) -> Address:
        """Return an address moved by the value of a byte offset."""
        if offset is None:
            return address
        f = self.f
        if self.analysis.info[offset].uniform:
            base = f.offset(address.base, self.values[offset].values[0])
            return replace(address, base=base)
        offsets = [
            v if p is None else f.add(p, v)
            for p, v in zip(self._offsets(address, frame), self.values[offset].values, strict=True)
        ]
        return Address("free", address.base, offsets=offsets)

    def _offsets(self, address: Address, frame: VectorGroup) -> Sequence[Value | None]:
        """Return the byte offsets of all lanes from the base, None for 0."""
        f = self.f
        if address.kind == "same":
            return [None] * frame.count
        if address.kind == "free":
            return address.offsets
        assert address.steps is not None and address.stride is not None
        ahead = [f.mul(address.stride, i64(j * self.lanes)) for j in range(frame.count)]
        return [f.add(address.steps, f.splat(a, self.lanes)) for a in ahead]

    def masks(self, mask: int | None, frame: VectorGroup) -> list[Value | None]:
        """Return, for each vector of a frame, the lanes that are active and whose `mask` is set; None for all."""
        own: list[Value | None] = [None] * frame.count if frame.masks is None else list(frame.masks)
        if mask is None:
            return own
        given = self.vectors(mask, frame).values
        return [g if o is None else self.f.and_(o, g) for o, g in zip(own, given, strict=True)]

    def load(self, instr: Instr, frame: VectorGroup, uniform: bool) -> Batch:
        """Return a load's result for a frame's vectors, or one scalar for all lanes (`uniform`)."""
        offset, mask = self._optional(instr, 0)
        operand, part = access(instr).operand, access(instr).part
        if uniform:
            base = self._address(operand, offset, frame).base
            if part is not None:
                base = pairs.part_pointer(self.memory, self.launch.form.operands[operand].dtype, base, part)
            # the kernel arguments are memory that can be read
            return self.memory.load_one(instr.dtype, base, self._scalar(mask), self.launch.words)
        if part is None:
            return self._load_vectors(operand, offset, mask, frame)[0]
        found = frame.pairs.get((operand, offset, mask))
        if found is None:
            found = frame.pairs[operand, offset, mask] = self._load_vectors(operand, offset, mask, frame)
        return found[part]

    def _load_vectors(self, operand: int, offset: int | None, mask: int | None, frame: VectorGroup) -> Sequence[Batch]:
        """Load one batch, or the two of the components of a complex operand."""
        address = self._address(operand, offset, frame)
        if mask is None:
            return self._load_lanes(operand, address, frame, self.masks(None, frame))
        shared = self.shared(mask, frame)
        if shared is not None:
            wanted, masks = shared, self.masks(None, frame)
        else:
            masks = self.masks(mask, frame)
            wanted = any_lane(self.context.batch([m for m in masks if m is not None]))
        return self._load_if(wanted, operand, address, frame, masks)

    def _load_lanes(
        self, operand: int, address: Address, frame: VectorGroup, masks: Sequence[Value | None]
    ) -> Sequence[Batch]:
        dtype = self.launch.form.operands[operand].dtype
        if address.kind == "runs":
            return self._load_runs(dtype, operand, address.base, frame, masks)
        return self._load_at(dtype, address, masks)

    def _load_if(
        self, wanted: Value, operand: int, address: Address, frame: VectorGroup, masks: Sequence[Value | None]
    ) -> Sequence[Batch]:
        """Load the active lanes where `wanted` says that there are any, else return 0, by a branch.

        A masked load without active lanes takes a hundred times as long where its address is not mapped: the
        processor detects the fault and drops it.
        """
        f = self.f
        if address.kind == "runs":
            frame.run()  # the frame caches it, so it must not be computed inside the branch
        inside, end, before = f.fresh("wanted"), f.fresh("loaded"), f.block
        f.cond_br(wanted, inside, end)
        f.label(inside)
        found = self._load_lanes(operand, address, frame, masks)
        last = f.block
        f.br(end)
        f.label(end)
        return [
            self.context.batch([f.phi(v.type, [(v, last), (f.const(v.type, 0), before)]) for v in batch.values])
            for batch in found
        ]

    def _load_at(self, dtype: str, address: Address, masks: Sequence[Value | None]) -> Sequence[Batch]:
        if dtype in COMPONENT:
            return pairs.load_pairs(self.memory, dtype, address, masks)
        return [self.memory.load_each(dtype, address, masks)]

    def _load_runs(
        self, dtype: str, operand: int, base: Value, frame: VectorGroup, masks: Sequence[Value | None]
    ) -> Sequence[Batch]:
        """Load lanes that sweep several axes, by the fastest of three methods that is valid at run time.

        Within one run the lanes are evenly spaced. A vector that crosses into the next run once is loaded in two pieces
        (not for pairs). Otherwise every lane is loaded from its own address.
        """
        f = self.f
        separate, end = f.fresh("apart"), f.fresh("loaded")
        together = f.fresh("together")
        variants: list[tuple[Sequence[Batch], str]] = []
        f.cond_br(frame.run()[0], together, separate, likely=True)
        f.label(together)
        variants.append((self._load_at(dtype, frame.straight(operand, base), masks), f.block))
        f.br(end)
        f.label(separate)
        if frame.breaks(operand) and dtype not in COMPONENT:
            broken, scattered = f.fresh("broken"), f.fresh("scattered")
            f.cond_br(frame.runs_are_long(), broken, scattered)
            f.label(broken)
            variants.append(([self.memory.load_broken(dtype, frame.pieces(operand, base), masks)], f.block))
            f.br(end)
            f.label(scattered)
        variants.append((self._load_at(dtype, frame.bent(operand, base, here=True), masks), f.block))
        f.label(end)
        blocks = [block for _, block in variants]
        joined = []
        for batches in zip(*(found for found, _ in variants), strict=True):
            columns = zip(*(batch.values for batch in batches), strict=True)
            joined.append([f.phi(c[0].type, list(zip(c, blocks, strict=True))) for c in columns])
        return [self.context.batch(values) for values in joined]

    def _store_runs(
        self, x: Sequence[Batch], dtype: str, operand: int, base: Value, frame: VectorGroup,
        masks: Sequence[Value | None]
    ) -> None:
        f = self.f
        together, separate, end = f.fresh("together"), f.fresh("apart"), f.fresh("stored")
        f.cond_br(frame.run()[0], together, separate, likely=True)
        f.label(together)
        self._store_at(x, dtype, frame.straight(operand, base), masks)
        f.br(end)
        f.label(separate)
        self._store_at(x, dtype, frame.bent(operand, base, here=True), masks)
        f.label(end)

    def _address(self, operand: int, offset: int | None, frame: VectorGroup) -> Address:
        address = frame.address(operand)
        varying = offset is not None and not self.analysis.info[offset].uniform
        if varying and address.kind == "runs":
            address = frame.bent(operand, address.base)
        if varying and address.kind == "next":
            dtype = self.launch.form.operands[operand].dtype
            steps = self.f.mul(self.launch.iota, self.f.const(self.launch.iota.type, ITEMSIZE[dtype]))
            address = Address("step", address.base, steps, i64(ITEMSIZE[dtype]))
        return self._moved_by(address, offset, frame)

    def store(self, instr: Instr, frame: VectorGroup, uniform: bool) -> None:
        """Write a store of a frame's vectors."""
        operand = access(instr).operand
        dtype = self.launch.form.operands[operand].dtype
        component = COMPONENT.get(dtype, dtype)
        given = instr.args[: self.launch.form.operands[operand].cell * (2 if dtype in COMPONENT else 1)]
        offset, mask = self._optional(instr, len(given))
        address = self._address(operand, offset, frame)
        if uniform:
            for k, number in enumerate(given):
                base = self.f.offset(address.base, k * ITEMSIZE[component])
                self.memory.store_one(self.values[number].values[0], component, base, self._scalar(mask))
            return
        x, masks = [self.vectors(n, frame) for n in given], self.masks(mask, frame)
        if address.kind == "runs":
            self._store_runs(x, component, operand, address.base, frame, masks)
        elif frame.masks is None and operand in frame.streams:
            adjacent, component = cells.interleaved(self.memory, x, component) if len(x) > 1 else (x[0], component)
            self.memory.stream(adjacent, component, address, frame.streams[operand])
        else:
            self._store_at(x, component, address, masks)

    def _store_at(self, x: Sequence[Batch], dtype: str, address: Address, masks: Sequence[Value | None]) -> None:
        if len(x) > 1:
            cells.store_cells(self.memory, x, dtype, address, masks)
        else:
            self.memory.store_each(x[0], dtype, address, masks)

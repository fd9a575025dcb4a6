"""Writes the instructions of stage bodies: each for all vectors of a frame before the next.

Owns: values by number, loads, stores, kept rows, indices, the status word. Values that all lanes share are
scalars, made once per kernel or once per unit where they depend on no loop. Does not own loops.
"""
from __future__ import annotations

from collections.abc import Sequence

from jitfuse.backends.llvm.builder import Function, Value, vector
from jitfuse.backends.llvm.codegen import elementwise, integers, philox
from jitfuse.backends.llvm.codegen.analysis import BODY, POINT, Analysis, access
from jitfuse.backends.llvm.codegen.casts import astype
from jitfuse.backends.llvm.codegen.frame import Address, Frame, Launch
from jitfuse.backends.llvm.codegen.masks import any_lane
from jitfuse.backends.llvm.codegen.stream import alignment
from jitfuse.backends.llvm.codegen.types import (
    ITEMSIZE,
    KIND,
    MEMORY,
    REGISTER,
    i64,
    memory_type,
    register_type,
)
from jitfuse.backends.llvm.math.lockstep import Batch, Context
from jitfuse.ir.kernel import Instr

NEGATIVE_POWER = 1
"""Status code: integer to a negative power."""


class Body:
    """Values of a kernel under construction, and what writes more of them."""

    def __init__(self, f: Function, analysis: Analysis, launch: Launch, has_fma: bool) -> None:
        self.f = f
        self.analysis = analysis
        self.launch = launch
        self.lanes = launch.lanes
        self.context = Context(f, has_fma)
        self.values: dict[int, Batch] = {}
        self._splats: dict[int, Value] = {}
        self._producers = {n: i for _, body, _ in analysis.numbered() for n, i in body}
        self._kept: dict[tuple[int, str], Batch] = {}
        self._status: Value | None = None
        if any(i.op == "power" and KIND[i.dtype] == "int" for i in self._producers.values()):
            self._status = f.alloca("i64")
            f.store(i64(0), self._status)

    def status(self) -> Value:
        """Return the kernel's status code so far."""
        return i64(0) if self._status is None else self.f.load("i64", self._status)

    # ------------------------------------------------------------------ values
    def define(self, number: int, scalar: Value) -> None:
        """Give a value that all lanes share, made outside the loops that read it."""
        self.values[number] = self.context.batch([scalar])
        if number in self.analysis.splatted:
            self._splats[number] = self._splat(number, scalar)

    def _splat(self, number: int, scalar: Value) -> Value:
        instr = self._producers.get(number)
        if instr is not None and instr.op == "const":
            return self.f.const(vector(scalar.type, self.lanes), instr.imm)
        return self.f.splat(scalar, self.lanes)

    def vectors(self, number: int, frame: Frame) -> Batch:
        """Return a value as the vectors of a frame."""
        batch = self.values[number]
        if not self.analysis.info[number].uniform:
            return batch
        one = self._splats.get(number) or self._splat(number, batch.values[0])
        return self.context.batch([one] * frame.count)

    def hoist(self, body: Sequence[tuple[int, Instr]], scope: int, frame: Frame) -> None:
        """Write those instructions of a body that belong to a scope outside its loops."""
        for number, instr in body:
            if self.analysis.info[number].scope == scope:
                self._write(number, instr, frame)

    def run(self, body: Sequence[tuple[int, Instr]], frame: Frame) -> None:
        """Write the instructions of a body that belong in its loops, for a frame's vectors."""
        self.hoist(body, BODY, frame)

    def run_point(self, body: Sequence[tuple[int, Instr]], frame: Frame) -> None:
        """Write a body that no loop over inner axes surrounds, for a frame's vectors."""
        for number, instr in body:
            if self.analysis.info[number].scope >= POINT:
                self._write(number, instr, frame)

    def _write(self, number: int, instr: Instr, frame: Frame) -> None:
        uniform = self.analysis.info[number].uniform
        if instr.op == "store":
            self._store(instr, frame, uniform)
        elif instr.op == "keep":
            self._keep(instr, frame)
        elif uniform:
            args = [self.values[a] for a in instr.args]
            self.define(number, self._make(number, instr, frame, args, True).values[0])
        else:
            args = [] if instr.op == "load" else [self.vectors(a, frame) for a in instr.args]
            self.values[number] = self._make(number, instr, frame, args, False)

    def _make(self, number: int, instr: Instr, frame: Frame, args: list[Batch], uniform: bool) -> Batch:
        op = instr.op
        if op == "param":
            return self._param(int(instr.imm), instr.dtype)
        if op == "const":
            return self.context.batch([self.f.const(REGISTER[instr.dtype], instr.imm)])
        if op == "index":
            axis = int(instr.imm)
            positions = [frame.inner.get(axis, frame.indices.get(axis))] if uniform else frame.positions(axis)
            return self.context.batch([p for p in positions if p is not None])
        if op == "load":
            return self._load(instr, frame, uniform)
        if op == "kept":
            return self._take(instr, frame)
        if op == "random":
            return philox.uniform(args[0], args[1], args[2], args[3], instr.dtype)
        sources = [self.dtype(a) for a in instr.args]
        if op == "astype":
            return astype(args[0], sources[0], instr.dtype)
        if op == "power":
            return self._power(instr, frame, args, uniform)
        return elementwise.apply(op, sources[-1], args)

    def dtype(self, number: int) -> str:
        """Return the dtype of a value."""
        return self.launch.form.instructions[number].dtype

    def _param(self, k: int, dtype: str) -> Batch:
        word = 8 * self.launch.form.param_word(k)
        x = self.f.field(MEMORY[dtype], self.launch.words, word)
        return self.context.batch([self._from_memory(x, dtype)])

    # ------------------------------------------------------------------ powers
    def _power(self, instr: Instr, frame: Frame, args: list[Batch], uniform: bool) -> Batch:
        x, exponent = args
        producer = self._producers.get(instr.args[1])
        known = producer.imm if producer is not None and producer.op == "const" else None
        if KIND[instr.dtype] == "float":
            simple = None if known is None else elementwise.float_power_by_constant(x, float(known))
            return elementwise.apply("power", instr.dtype, args) if simple is None else simple
        if known is not None and known >= 0:
            return integers.power_by_constant(x, int(known))
        negative = exponent.compare("slt", 0)
        if frame.masks is not None and not uniform:
            negative = negative & self.context.batch(frame.masks)
        assert self._status is not None
        with self.f.if_(any_lane(negative), likely=False):
            self.f.store(i64(NEGATIVE_POWER), self._status)
        return integers.power(x, exponent)

    # ------------------------------------------------------------------ memory
    def _from_memory(self, x: Value, dtype: str) -> Value:
        return self.f.icmp("ne", x, self.f.const(x.type, 0)) if dtype == "bool" else x

    def _to_memory(self, x: Value, dtype: str) -> Value:
        return self.f.cast("zext", x, x.type.replace("i1", "i8")) if dtype == "bool" else x

    def load_lanes(self, dtype: str, pointer: Value, count: int, align: int | None = None) -> Batch:
        """Return `count` vectors of adjacent elements."""
        type_ = memory_type(dtype, self.lanes)
        pointers = [self.f.offset(pointer, j * self.lanes, MEMORY[dtype]) for j in range(count)]
        loaded = [self.f.load(type_, p, align or ITEMSIZE[dtype]) for p in pointers]
        return self.context.batch([self._from_memory(v, dtype) for v in loaded])

    def store_lanes(
        self, x: Batch, dtype: str, pointer: Value, align: int | None = None, *, nontemporal: bool = False
    ) -> None:
        """Store vectors next to each other."""
        for j, v in enumerate(x.values):
            at = self.f.offset(pointer, j * self.lanes, MEMORY[dtype])
            self.f.store(self._to_memory(v, dtype), at, align or ITEMSIZE[dtype], nontemporal=nontemporal)

    def _optional(self, instr: Instr, first: int) -> tuple[int | None, int | None]:
        """Return the value numbers of a load's or store's offset and mask."""
        kind = access(instr)
        offset = instr.args[first] if kind.offset else None
        mask = instr.args[first + kind.offset] if kind.mask else None
        return offset, mask

    def _place(self, address: Address, offset: int | None, frame: Frame) -> Address:
        """Return an address moved by the value of a byte offset."""
        if offset is None:
            return address
        f = self.f
        if self.analysis.info[offset].uniform:
            base = f.offset(address.base, self.values[offset].values[0])
            return Address(address.kind, base, address.steps, address.stride, address.offsets)
        offsets = [
            v if p is None else f.add(p, v)
            for p, v in zip(self._offsets(address, frame), self.values[offset].values, strict=True)
        ]
        return Address("free", address.base, offsets=offsets)

    def _offsets(self, address: Address, frame: Frame) -> Sequence[Value | None]:
        """Return the byte offsets of all lanes from the base, None for 0."""
        f = self.f
        if address.kind == "same":
            return [None] * frame.count
        if address.kind == "free":
            return address.offsets
        assert address.steps is not None and address.stride is not None
        ahead = [f.mul(address.stride, i64(j * self.lanes)) for j in range(frame.count)]
        return [f.add(address.steps, f.splat(a, self.lanes)) for a in ahead]

    def masks(self, mask: int | None, frame: Frame) -> list[Value | None]:
        """Return, for each vector of a frame, the lanes that are active and whose `mask` is set; None for all."""
        own: list[Value | None] = [None] * frame.count if frame.masks is None else list(frame.masks)
        if mask is None:
            return own
        given = self.vectors(mask, frame).values
        return [g if o is None else self.f.and_(o, g) for o, g in zip(own, given, strict=True)]

    def _load(self, instr: Instr, frame: Frame, uniform: bool) -> Batch:
        offset, mask = self._optional(instr, 0)
        operand = access(instr).operand
        address = self._address(operand, offset, frame)
        if uniform:
            return self._load_shared(instr.dtype, address.base, mask)
        return self.load_each(instr.dtype, address, self.masks(mask, frame))

    def load_each(self, dtype: str, address: Address, masks: Sequence[Value | None]) -> Batch:
        """Return the vectors at an address, one for each mask (None: all lanes); 0 in lanes that are off."""
        f, size = self.f, ITEMSIZE[dtype]
        type_ = memory_type(dtype, self.lanes)
        zero = f.const(type_, 0)
        loaded = []
        for j, m in enumerate(masks):
            if address.kind == "next":
                pointer = f.offset(address.base, j * self.lanes, MEMORY[dtype])
                loaded.append(
                    f.load(type_, pointer, size) if m is None else f.masked_load(type_, pointer, m, zero, size)
                )
            else:
                every = m or f.const(vector("i1", self.lanes), True)
                loaded.append(f.masked_gather(type_, self._pointers(address, j), every, zero, size))
        return self.context.batch([self._from_memory(v, dtype) for v in loaded])

    def _address(self, operand: int, offset: int | None, frame: Frame) -> Address:
        address = frame.address(operand)
        varying = offset is not None and not self.analysis.info[offset].uniform
        if varying and address.kind == "next":
            dtype = self.launch.form.operands[operand].dtype
            steps = self.f.mul(self.launch.iota, self.f.const(self.launch.iota.type, ITEMSIZE[dtype]))
            address = Address("step", address.base, steps, i64(ITEMSIZE[dtype]))
        return self._place(address, offset, frame)

    def _pointers(self, address: Address, j: int) -> Value:
        f = self.f
        type_ = vector("ptr", self.lanes)
        if address.kind == "step":
            assert address.steps is not None and address.stride is not None
            base = f.offset(address.base, f.mul(address.stride, i64(j * self.lanes))) if j else address.base
            offsets = address.steps
        elif address.kind == "same":
            return f.splat(address.base, self.lanes)
        else:
            base, offsets = address.base, address.offsets[j]
        return f.value(type_, f"getelementptr i8, ptr {base.ref}, {offsets.type} {offsets.ref}")

    def _load_shared(self, dtype: str, pointer: Value, mask: int | None) -> Batch:
        f = self.f
        if mask is None:
            return self.context.batch([self._from_memory(f.load(MEMORY[dtype], pointer), dtype)])
        wanted = self.values[mask].values[0]
        # the launch's words are memory that can be read
        x = f.load(MEMORY[dtype], f.select(wanted, pointer, self.launch.words))
        return self.context.batch([self._from_memory(f.select(wanted, x, f.const(x.type, 0)), dtype)])

    def _store(self, instr: Instr, frame: Frame, uniform: bool) -> None:
        offset, mask = self._optional(instr, 1)
        operand = access(instr).operand
        dtype = self.launch.form.operands[operand].dtype
        address = self._address(operand, offset, frame)
        if uniform:
            self._store_shared(self.values[instr.args[0]].values[0], dtype, address.base, mask)
            return
        x, masks = self.vectors(instr.args[0], frame), self.masks(mask, frame)
        if frame.masks is None and operand in frame.streams:
            self._stream(x, dtype, address, frame.streams[operand])
        else:
            self.store_each(x, dtype, address, masks)

    def _stream(self, x: Batch, dtype: str, address: Address, past_caches: Value) -> None:
        """Store whole vectors of adjacent elements, past the caches or not."""
        f = self.f
        align = alignment(dtype, self.lanes)
        past, cached, end = f.fresh("past"), f.fresh("cached"), f.fresh("stored")
        f.cond_br(past_caches, past, cached)
        f.label(past)
        self.store_lanes(x, dtype, address.base, align, nontemporal=True)
        f.br(end)
        f.label(cached)
        self.store_lanes(x, dtype, address.base)
        f.label(end)

    def store_each(self, x: Batch, dtype: str, address: Address, masks: Sequence[Value | None]) -> None:
        """Store vectors at an address, the lanes that are on in each mask (None: all)."""
        f, size = self.f, ITEMSIZE[dtype]
        values = [self._to_memory(v, dtype) for v in x.values]
        for j, (v, m) in enumerate(zip(values, masks, strict=True)):
            if address.kind == "next":
                pointer = f.offset(address.base, j * self.lanes, MEMORY[dtype])
                if m is None:
                    f.store(v, pointer, size)
                else:
                    f.masked_store(v, pointer, m, size)
            else:
                every = m or f.const(vector("i1", self.lanes), True)
                f.masked_scatter(v, self._pointers(address, j), every, size)

    def _store_shared(self, x: Value, dtype: str, pointer: Value, mask: int | None) -> None:
        x = self._to_memory(x, dtype)
        if mask is None:
            self.f.store(x, pointer)
        else:
            with self.f.if_(self.values[mask].values[0]):
                self.f.store(x, pointer)

    # ------------------------------------------------------------------ kept rows
    def _keep(self, instr: Instr, frame: Frame) -> None:
        k, value = int(instr.imm), self.vectors(instr.args[0], frame)
        if frame.keeps:
            self.store_lanes(value, self.launch.form.keeps[k], frame.keeps[k])
        else:
            self._kept[k, self._point(frame)] = value

    def _take(self, instr: Instr, frame: Frame) -> Batch:
        k = int(instr.imm)
        if frame.keeps:
            return self.load_lanes(self.launch.form.keeps[k], frame.keeps[k], frame.count)
        return self._kept[k, self._point(frame)]

    def _point(self, frame: Frame) -> str:
        return " ".join(index.ref for _, index in sorted(frame.inner.items()))

    def identity(self, dtype: str, value: float | int | bool) -> Value:
        """Return a vector whose lanes all hold a constant."""
        return self.f.const(register_type(dtype, self.lanes), value)

"""Evaluates kernel forms with NumPy: the oracle of the codegen tests. Slow, and meant to be obviously right.

Every value is an array over all axes of the form (extent 1 where it does not vary); memory is read and written
element by element through byte addresses.
"""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from jitfuse.ir.kernels.form import KernelForm, Operand
from jitfuse.ir.kernels.stages import POSITIONS, Instr, Reduction
from jitfuse.ir.kernels.sum_tree import CHUNK, SUM_DEPTH, sum_lanes
from jitfuse.ir.operators import ops
from jitfuse.ir.semantics import reference
from jitfuse.ir.statuses import OUT_OF_BOUNDS

Array = Any
TRANSCENDENTAL = {op.name for op in ops.table() if op.ulps}


@dataclass
class Memory:
    """A view to bind to an operand: its buffer, where element 0 is, the byte stride of every axis."""

    buffer: Array
    start: int
    strides: tuple[int, ...]
    dtype: str

    @property
    def address(self) -> int:
        return int(self.buffer.ctypes.data) + self.start

    def copy(self) -> Memory:
        return Memory(self.buffer.copy(), self.start, self.strides, self.dtype)

    def operand(self, out: bool = False) -> Operand:
        size = np.dtype(self.dtype).itemsize
        return Operand(self.dtype, tuple({0: "0", size: "1"}.get(s, "n") for s in self.strides), out)


def memory(x: Array) -> Memory:
    """Bind a (possibly strided, broadcast or misaligned) NumPy array, whose axes are the form's."""
    base = x
    while isinstance(base.base, np.ndarray):
        base = base.base
    raw = np.ndarray((base.nbytes,), np.uint8, base.data if base.flags.c_contiguous else memoryview(base.T).cast("B"))
    return Memory(raw, x.__array_interface__["data"][0] - raw.ctypes.data, x.strides, x.dtype.name)


class Evaluator:
    """One evaluation of a form; `run` changes the memories of its outputs."""

    def __init__(self, form: KernelForm, sizes: tuple[int, ...], operands: list[Memory], params: list[Any]) -> None:
        self.form, self.sizes, self.operands, self.params = form, sizes, operands, params
        self.values: list[Any] = []
        self.keeps: dict[int, Array] = {}
        self.status = 0
        self.chunked = any(r.phase == "partial" for s in form.stages for r in s.reductions)

    def run(self) -> int:
        with np.errstate(all="ignore"):
            for stage in self.form.stages:
                for instr in stage.body:
                    self.values.append(self.instruction(instr, stage.kind != "point"))
                for r in stage.reductions:
                    self.values += self.reduction(r)
        return self.status

    # ------------------------------------------------------------------ index space
    def grid(self) -> int:
        return len(self.form.grid)

    def shape(self, inner: bool) -> tuple[int, ...]:
        return self.sizes if inner else self.sizes[: self.grid()] + (1,) * (len(self.sizes) - self.grid())

    def position(self, axis: int, inner: bool) -> Array:
        shape = [1] * len(self.sizes)
        shape[axis] = self.shape(inner)[axis]
        return np.arange(shape[axis], dtype=np.int64).reshape(shape)

    def addresses(self, o: int, inner: bool) -> Array:
        total = np.full(self.shape(inner), self.operands[o].start, np.int64)
        for axis, stride in enumerate(self.operands[o].strides):
            total = total + self.position(axis, inner) * stride
        return total

    # ------------------------------------------------------------------ memory
    def read(self, o: int, addresses: Array, mask: Array) -> Array:
        dtype = np.dtype(self.operands[o].dtype)
        addresses, mask = np.broadcast_arrays(addresses, mask)
        where = np.where(mask, addresses, 0)[..., None] + np.arange(dtype.itemsize)
        if self.operands[o].buffer.size < dtype.itemsize or not where.size:
            return np.zeros(addresses.shape, dtype)
        data = np.ascontiguousarray(self.operands[o].buffer[where]).view(dtype)[..., 0]
        return np.where(mask, data, dtype.type(0))

    def write(self, o: int, addresses: Array, value: Array, mask: Array) -> None:
        dtype = np.dtype(self.operands[o].dtype)
        addresses, value, mask = np.broadcast_arrays(addresses, np.asarray(value, dtype), mask)
        for at, v in zip(addresses[mask].tolist(), value[mask]):
            self.operands[o].buffer[at : at + dtype.itemsize] = np.frombuffer(v.tobytes(), np.uint8)

    # ------------------------------------------------------------------ instructions
    def instruction(self, instr: Instr, inner: bool) -> Any:
        args = [self.values[a] for a in instr.args]
        dtype = np.dtype(instr.dtype)
        if instr.op == "param":
            return np.full((1,) * len(self.sizes), self.params[instr.imm], dtype)
        if instr.op == "const":
            return np.full((1,) * len(self.sizes), instr.imm, dtype)
        if instr.op == "index":
            return self.position(instr.imm, inner)
        if instr.op in ("load", "store"):
            return self.access(instr, args, inner)
        if instr.op == "keep":
            self.keeps[instr.imm] = args[0]
            return None
        if instr.op == "kept":
            return self.keeps[instr.imm]
        if instr.op == "random":
            return self.random(args, dtype)
        if instr.op == "require":
            self.status = max(self.status, 0 if np.all(args[1]) else instr.imm)
            return args[0]
        if instr.op == "scan":
            return self.scan(instr.imm, np.broadcast_to(args[0], self.shape(True)))
        if instr.op == "astype":
            return reference.astype(args[0], dtype=instr.dtype)
        if instr.op == "power":
            return self.power(instr, args)
        if instr.op == "bounded":
            return self.bounded(instr, args)
        row = ops.get(instr.op)
        assert row is not None
        if instr.op in TRANSCENDENTAL and dtype == np.float32:
            args = [a.astype(np.float64) for a in args]  # NumPy's own are up to 4 ulp off
        elif instr.op.startswith("logaddexp"):
            args = [a.astype(np.longdouble) for a in args]  # sums of operands and logarithms cancel
        return np.asarray(row.numpy(*args)).astype(dtype)

    def access(self, instr: Instr, args: list[Any], inner: bool) -> Any:
        o, offset, mask = instr.imm
        cell = self.form.operands[o].cell
        rest = args[cell if instr.op == "store" else 0 :]
        addresses = self.addresses(o, inner)
        if offset:
            addresses = addresses + rest[0]
        active = rest[-1] if mask else np.True_
        if instr.op == "load":
            return self.read(o, addresses, active)
        for k, value in enumerate(args[:cell]):
            self.write(o, addresses + k * np.dtype(instr.dtype).itemsize, value, active)
        return None

    def bounded(self, instr: Instr, args: list[Any]) -> Any:
        index, extent, *mask = args
        found = np.where(index < 0, index + extent, index)
        outside = (found < 0) | (found >= extent)
        wrong = np.broadcast_to(index, outside.shape)[outside & (mask[0] if mask else True)]
        if wrong.size:
            self.status = int(wrong.max()) << 16 | int(instr.imm) << 8 | OUT_OF_BOUNDS
        return np.where(outside, 0, found)

    def power(self, instr: Instr, args: list[Any]) -> Any:
        producer = self.form.instructions[instr.args[1]]
        if isinstance(producer, Instr) and producer.op == "const" and producer.dtype.startswith("float"):
            return np.power(args[0], producer.imm)
        if instr.dtype.startswith("int") and np.any(args[1] < 0):
            self.status = 1
            args[1] = np.maximum(args[1], 0)
        return np.power(args[0], args[1])

    def random(self, args: list[Any], dtype: Any) -> Any:
        args = np.broadcast_arrays(*args)
        result = np.empty(args[0].shape, dtype)
        for at in np.ndindex(result.shape):
            seed, counter, index, element = (int(a[at]) for a in args)
            state = np.array([seed, counter], np.int64)
            result[at] = reference.random_uniform(state, index, shape=(element + 1,), dtype=dtype.name)[element]
        return result

    def scan(self, combine: str, x: Array) -> Array:
        """Return the scan over the inner axes in row-major order."""
        rows = x.reshape(*x.shape[: self.grid()], -1)
        function = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}[combine]
        result = rows.copy()
        for k in range(1, rows.shape[-1]):
            result[..., k] = function(result[..., k - 1], rows[..., k])
        return result.reshape(x.shape)

    # ------------------------------------------------------------------ reductions
    def rows(self, value: Array) -> Array:
        """Return a value as (grid..., points of the inner axes in row-major order)."""
        full = np.broadcast_to(value, self.shape(True))
        return full.reshape(self.sizes[: self.grid()] + (math.prod(self.sizes[self.grid() :]),))

    def reduction(self, r: Reduction) -> list[Any]:
        dtype = np.dtype(r.dtype)
        if r.combine in POSITIONS:
            return self.positions(r, dtype)
        lanes = sum_lanes(dtype.itemsize)
        if r.phase == "final":
            at = self.addresses(r.load_from[0], True)[..., None] + np.arange(lanes) * dtype.itemsize
            return [self.point(fold_groups(self.read(r.load_from[0], at, np.True_), r.combine, dtype), r.combine)]
        results = []
        for v in r.values:
            x = self.rows(self.values[v]).astype(dtype)
            if r.phase == "whole":
                results.append(self.point(tree(x, r.combine, dtype), r.combine))
                continue
            addresses = self.addresses(r.store_to[0], False)[..., None] + np.arange(lanes) * dtype.itemsize
            addresses = addresses.reshape(self.sizes[: self.grid()] + (lanes,))
            for c in range(self.sizes[self.grid() - 1]):
                row = tree(x[..., c, c * CHUNK : (c + 1) * CHUNK], r.combine, dtype)
                self.write(r.store_to[0], addresses[..., c, :], row, np.True_)
            results.append(None)
        return results

    def positions(self, r: Reduction, dtype: Any) -> list[Any]:
        """Return the positions of extremes, or store those of chunks with the extremes themselves."""
        find = np.argmax if r.combine == "argmax" else np.argmin
        if r.phase == "final":
            extremes, positions = (self.read(o, self.addresses(o, True), np.True_) for o in r.load_from)
            chosen = find(self.rows(extremes), axis=-1)
            return [np.take_along_axis(self.rows(positions), chosen[..., None], -1).reshape(self.shape(False))]
        x = self.rows(self.values[r.values[0]]).astype(dtype)
        if r.phase == "whole":
            return [find(x, axis=-1).reshape(self.shape(False))]
        places = [self.addresses(o, False).reshape(self.sizes[: self.grid()]) for o in r.store_to]
        for c in range(self.sizes[self.grid() - 1]):
            chunk = x[..., c, c * CHUNK : (c + 1) * CHUNK]
            at = find(chunk, axis=-1)
            self.write(r.store_to[0], places[0][..., c], np.take_along_axis(chunk, at[..., None], -1)[..., 0], np.True_)
            self.write(r.store_to[1], places[1][..., c], at + c * CHUNK, np.True_)
        return [None]

    def point(self, lanes: Array, combine: str) -> Array:
        """Fold the lanes; shape as a point value."""
        while lanes.shape[-1] > 1:
            half = lanes.shape[-1] // 2
            lanes = join(combine, lanes[..., :half], lanes[..., half:])
        if combine == "sum" and lanes.dtype.kind == "f":
            lanes = lanes + lanes.dtype.type(0)
        return lanes.reshape(self.shape(False))


def join(combine: str, a: Array, b: Array) -> Array:
    """Combine two parts of a reduction, the older one first; of zeros -0.0 is the smaller one."""
    if a.dtype.kind == "f" and combine in ("min", "max"):
        b = np.where((a == b) & (np.signbit(a) == (combine == "min")), a, b)
    functions: dict[str, Any] = {
        "sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum, "any": np.logical_or,
        "all": np.logical_and,
    }
    return functions[combine](a, b)


def identity(combine: str, dtype: Any) -> Any:
    """Return what changes nothing."""
    if combine in ("any", "all"):
        return dtype.type(combine == "all")
    if combine == "sum":
        return dtype.type(-0.0 if dtype.kind == "f" else 0)
    if combine == "prod":
        return dtype.type(1)
    if dtype.kind == "b":
        return dtype.type(combine == "min")
    if dtype.kind == "f":
        return dtype.type(np.inf if combine == "min" else -np.inf)
    info = np.iinfo(dtype)
    return dtype.type(info.max if combine == "min" else info.min)


def tree(x: Array, combine: str, dtype: Any) -> Array:
    """Return the W lanes of the defined tree over the last axis."""
    lanes = sum_lanes(dtype.itemsize)
    size = SUM_DEPTH * lanes
    blocks = -(-x.shape[-1] // size)
    padded = np.full(x.shape[:-1] + (blocks * size,), identity(combine, dtype), dtype)
    padded[..., : x.shape[-1]] = x
    padded = padded.reshape(x.shape[:-1] + (blocks, SUM_DEPTH, lanes))
    result = padded[..., 0, :]
    for d in range(1, SUM_DEPTH):
        result = join(combine, result, padded[..., d, :])
    return fold_groups(result, combine, dtype)


def fold_groups(rows: Array, combine: str, dtype: Any) -> Array:
    """Combine rows (..., k, W) lane by lane as a binary counter does."""
    groups: list[tuple[int, Array]] = []
    for k in range(rows.shape[-2]):
        group = (1, rows[..., k, :])
        while groups and groups[-1][0] == group[0]:
            older = groups.pop()
            group = (older[0] * 2, join(combine, older[1], group[1]))
        groups.append(group)
    if not groups:
        return np.full(rows.shape[:-2] + rows.shape[-1:], identity(combine, dtype), dtype)
    result = groups[-1][1]
    for _, older_lanes in reversed(groups[:-1]):
        result = join(combine, older_lanes, result)
    return result

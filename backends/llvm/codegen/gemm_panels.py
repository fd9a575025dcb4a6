"""Packed panels: a side of a contraction, computed and laid out as the tiles read it.

A panel holds `width` adjacent elements of one axis of the result for each position along the contracted axis. The
side may be a strided or transposed array or an elementwise expression, which is computed here. Vectors run along the
panel's axis; where memory is adjacent along the contracted axis, they run along that one and are transposed. Owns:
these two methods. Does not own which elements are packed when (`gemm`).
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence

from jitfuse.backends.llvm.codegen.analysis import BODY, ENTRY, POINT, UNIT, Analysis
from jitfuse.backends.llvm.codegen.body import KernelBody
from jitfuse.backends.llvm.codegen.elements.masks import tail_masks
from jitfuse.backends.llvm.codegen.elements.types import MEMORY, i64
from jitfuse.backends.llvm.codegen.frame import LoadedLaunch, VectorGroup
from jitfuse.backends.llvm.codegen.gemm_tile import Tile
from jitfuse.backends.llvm.jit import Target
from jitfuse.backends.llvm.text.builder import Function, Value
from jitfuse.base.records import Record
from jitfuse.ir.kernels.form import KernelForm
from jitfuse.ir.kernels.stages import Instr
from jitfuse.ir.kernels.sum_tree import CONTRACTION_BLOCK
from jitfuse.ir.kernels.values import access, needed

FEW_ROWS = 130
"""The most rows of a product whose right operand is read in place, if its own rows are at most `NEAR_BYTES` apart.

Rows further apart compete for the same sets of the first-level cache. An operand that is read only once is always read
in place.
"""
NEAR_BYTES = 2048

Numbered = list[tuple[int, Instr]]


class Range(Record, frozen=True):
    """Positions from `start` up to `stop` along an axis."""

    start: Value
    stop: Value


class PanelColumns:
    """Where the columns of a part of the right operand lie: whole panels in memory, the others packed.

    `packed_from`: the first packed column, a whole number of panels after the part's first column.
    """

    def __init__(self, f: Function, part: Range, packed: Value, width: int, panel: Value, row_bytes: int) -> None:
        self.f, self.part, self.packed, self.width = f, part, packed, width
        self.panel, self.row_bytes = panel, row_bytes
        self.packed_from = part.start
        self._memory: tuple[Value, Value] | None = None

    def in_memory(self, use: Value, base: Value, row_bytes: Value) -> None:
        """Read whole panels from memory where `use` holds; `base` is the address of column 0 at the first product."""
        f = self.f
        whole = f.mul(f.udiv(f.sub(self.part.stop, self.part.start), i64(self.width)), i64(self.width))
        self.packed_from = f.select(use, f.add(self.part.start, whole), self.part.start)
        self._memory = base, row_bytes

    def address(self, column: Value) -> tuple[Value, Value]:
        """Return the address of a panel that begins at a column, and the bytes between its rows."""
        f = self.f
        number = f.udiv(f.sub(column, self.packed_from), i64(self.width))
        at, step = f.offset(self.packed, f.mul(number, self.panel)), i64(self.row_bytes)
        if self._memory is None:
            return at, step
        packed = f.icmp("sge", column, self.packed_from)
        base, row_bytes = self._memory
        size = self.row_bytes // self.width
        memory = f.offset(base, f.mul(column, i64(size)))
        return f.select(packed, at, memory), f.select(packed, step, row_bytes)


class UnpackedPanels:
    """The right operand in memory, for products of so few rows that packing would cost more than it saves."""

    def __init__(self, side: Side, use: Value | None, base: Value | None) -> None:
        self._side, self._use, self._base = side, use, base

    def columns(self, part: Range, products: Range, packed: Value) -> PanelColumns:
        """Return where the columns of a part lie, for a range of products."""
        side, f = self._side, self._side.f
        size = side.tile.itemsize
        panel = f.mul(padded(f, f.sub(products.stop, products.start), side.tile.lanes), i64(side.width * size))
        columns = PanelColumns(f, part, packed, side.width, panel, side.width * size)
        if self._use is not None and self._base is not None:
            operand = side.plain_operand
            assert operand is not None
            base = side.launch.moved(self._base, operand, side.contracted, products.start)
            columns.in_memory(self._use, base, side.launch.stride(operand, side.contracted))
        return columns


class Side:
    """The left or right operand of a contraction: `axis` is the axis of the result along which it varies."""

    def __init__(
        self, f: Function, form: KernelForm, words: Value, target: Target, tile: Tile, value: int, axis: int, width: int
    ) -> None:
        self.f, self.tile, self.value, self.axis, self.width = f, tile, value, axis, width
        self.vector_bytes = target.vector_bytes
        self.contracted = len(form.axes) - 1
        wanted = needed(form, [value])
        instructions = [(n, i) for n, i in enumerate(form.stages[0].body) if n in wanted]
        self.transposed = _is_adjacent(form, instructions, self.contracted) and not _is_adjacent(
            form, instructions, axis
        )
        packing = form.replace(
            grid=form.grid + form.inner, inner=form.contracted, contracted=(),
            lane_axis=self.contracted if self.transposed else axis,
        )
        # the layout of the kernel arguments depends on the axes in order and on the contraction, and stays the same
        self.analysis = Analysis(packing)
        self.launch = LoadedLaunch(f, self.analysis, words, tile.lanes)
        self.body = KernelBody(f, self.analysis, self.launch, target.has_fma)
        self.instructions = instructions
        self.body.hoist(
            instructions, ENTRY, VectorGroup(self.launch, 0, i64(0), dict(enumerate(self.launch.addresses)))
        )

    @property
    def plain_operand(self) -> int | None:
        """The operand that this side consists of, if adjacent along the panel's axis in memory; else None."""
        if len(self.instructions) != 1 or self.instructions[0][1].op != "load":
            return None
        number, offset, mask, part = access(self.instructions[0][1])
        plain = not offset and not mask and part is None and self.launch.form.operands[number].strides[self.axis] == "1"
        return number if plain else None

    def in_place(self, batch: Mapping[int, Value], rows: Value) -> UnpackedPanels:
        """Return the decision whether panels are read in place, for products of so many rows."""
        operand, f = self.plain_operand, self.f
        if operand is None:
            return UnpackedPanels(self, None, None)
        base = self.launch.addresses[operand]
        for axis, index in batch.items():
            base = self.launch.moved(base, operand, axis, index)
        once = f.icmp("sle", rows, i64(self.tile.rows))
        near = f.icmp("ule", self.launch.stride(operand, self.contracted), i64(NEAR_BYTES))
        return UnpackedPanels(self, f.or_(once, f.and_(f.icmp("sle", rows, i64(FEW_ROWS)), near)), base)

    @property
    def _size(self) -> int:
        return self.tile.itemsize

    def pack(self, batch: Mapping[int, Value], along: Range, contracted: Range, out: Value, scratch: Value) -> None:
        """Write panels over two ranges to `out`, one after the other; `scratch` holds one panel."""
        f = self.f
        pointers = self._moved(dict(enumerate(self.launch.addresses)), batch)
        unit = VectorGroup(self.launch, 0, i64(0), pointers, indices=batch)
        self.body.hoist(self.instructions, UNIT, unit) if not self.transposed else None
        count = padded(f, f.sub(contracted.stop, contracted.start), self.tile.lanes)
        panel = f.mul(count, i64(self.width * self._size))
        with f.loop(along.start, along.stop, self.width) as loop:
            at = loop.carry(out)
            stop = f.intrinsic("smin", "i64", f.add(loop.index, i64(self.width)), along.stop)
            if self.transposed:
                self._pack_across(unit, batch, Range(loop.index, stop), contracted, at, scratch)
            else:
                self._pack_along(unit, Range(loop.index, stop), contracted, at)
            loop.update(0, f.offset(at, panel))

    def _moved(self, pointers: Mapping[int, Value], indices: Mapping[int, Value]) -> dict[int, Value]:
        moved = dict(pointers)
        for o in moved:
            for axis, index in indices.items():
                moved[o] = self.launch.moved(moved[o], o, axis, index)
        return moved

    # ------------------------------------------------------------------ vectors along the panel's axis
    def _pack_along(self, unit: VectorGroup, along: Range, contracted: Range, out: Value) -> None:
        f, lanes = self.f, self.tile.lanes
        count = -(-self.width // lanes)
        if count * lanes != self.width:
            self._rows(unit, along, contracted, out, masked=True)
            return
        whole, part, end = f.fresh("whole"), f.fresh("part"), f.fresh("packed")
        f.cond_br(f.icmp("eq", f.sub(along.stop, along.start), i64(self.width)), whole, part, likely=True)
        for label, masked in ((whole, False), (part, True)):
            f.label(label)
            self._rows(unit, along, contracted, out, masked=masked)
            f.br(end)
        f.label(end)

    def _rows(self, unit: VectorGroup, along: Range, contracted: Range, out: Value, *, masked: bool) -> None:
        """Write one row of the panel after the other; lanes past its end are overwritten by the next row."""
        f, lanes = self.f, self.tile.lanes
        count = -(-self.width // lanes)
        masks = tail_masks(f, along.start, along.stop, lanes, count, self.vector_bytes) if masked else None
        frame = unit.group(count, along.start, masks).prepare()
        self.body.hoist(self.instructions, POINT, frame)
        with f.loop(contracted.start, contracted.stop) as loop:
            at = loop.carry(out)
            self._store(frame.at({self.contracted: loop.index}, ()), at)
            loop.update(0, f.offset(at, self.width * self._size))

    def _store(self, frame: VectorGroup, at: Value) -> None:
        self.body.hoist(self.instructions, BODY, frame)
        self.body.memory.store_lanes(self.body.vectors(self.value, frame), self.tile.dtype, at)

    # ------------------------------------------------------------------ vectors along the contracted axis
    def _pack_across(
        self, unit: VectorGroup, batch: Mapping[int, Value], along: Range, contracted: Range, out: Value, scratch: Value
    ) -> None:
        """Compute each of the panel's lines along the contracted axis into scratch, then transpose."""
        f = self.f
        with f.loop(along.start, along.stop) as loop:
            at = loop.carry(scratch)
            here = {**batch, self.axis: loop.index}
            line = VectorGroup(
                self.launch, 0, i64(0), self._moved(unit.pointers, {self.axis: loop.index}), indices=here
            )
            self.body.hoist(self.instructions, UNIT, line)
            self._line(line, contracted, at)
            loop.update(0, f.offset(at, CONTRACTION_BLOCK * self._size))
        self._transpose(f.sub(contracted.stop, contracted.start), scratch, out)

    def _line(self, line: VectorGroup, contracted: Range, out: Value) -> None:
        f, lanes = self.f, self.tile.lanes
        length = f.sub(contracted.stop, contracted.start)
        whole = f.add(contracted.start, f.and_(length, i64(-lanes)))
        with f.loop(contracted.start, whole, lanes) as loop:
            at = loop.carry(out)
            self._store(line.group(1, loop.index), at)
            loop.update(0, f.offset(at, lanes * self._size))
        with f.if_(f.icmp("slt", whole, contracted.stop)):
            masks = tail_masks(f, whole, contracted.stop, lanes, 1, self.vector_bytes)
            done = f.offset(out, f.sub(whole, contracted.start), MEMORY[self.tile.dtype])
            self._store(line.group(1, whole, masks), done)

    def _transpose(self, count: Value, lines: Value, out: Value) -> None:
        """Turn `width` lines of `count` elements into rows of the panel; a few rows past the last are overwritten."""
        f, lanes, size = self.f, self.tile.lanes, self._size
        with f.loop(i64(0), count, lanes) as loop:
            source = f.offset(lines, f.mul(loop.index, i64(size)))
            target = f.offset(out, f.mul(loop.index, i64(self.width * size)))
            stores = []
            for first in range(0, self.width, lanes):
                real = min(lanes, self.width - first)
                sources = [f.offset(source, (first + r) * CONTRACTION_BLOCK * size) for r in range(real)]
                square = [f.load(self.tile.vector, p, lanes * size) for p in sources]
                square += [f.const(self.tile.vector, 0)] * (lanes - real)
                stores += [(k * self.width + first, row) for k, row in enumerate(transposed(f, square))]
                if self.width % lanes == 0:
                    self._store_all(stores, target)
                    stores = []
            # vectors that reach past the panel's width come before what they overlap
            self._store_all(sorted(stores), target)

    def _store_all(self, stores: Sequence[tuple[int, Value]], target: Value) -> None:
        for at, row in stores:
            self.f.store(row, self.f.offset(target, at * self._size), self._size)


def transposed(f: Function, rows: Sequence[Value]) -> list[Value]:
    """Return the transpose of a square of as many vectors as they have lanes: exchange blocks, then halve them."""
    square, n = list(rows), len(rows)
    apart = n // 2
    while apart:
        for k in range(n):
            if k & apart:
                continue
            a, b = square[k], square[k + apart]
            square[k] = f.shuffle(a, b, [j if not j & apart else n + j - apart for j in range(n)])
            square[k + apart] = f.shuffle(a, b, [j + apart if not j & apart else n + j for j in range(n)])
        apart //= 2
    return square


def padded(f: Function, count: Value, multiple: int) -> Value:
    """Return a count rounded up to a multiple, a power of two."""
    return f.and_(f.add(count, i64(multiple - 1)), i64(-multiple))


def _is_adjacent(form: KernelForm, instructions: Numbered, axis: int) -> bool:
    """Return whether some load of these is adjacent along an axis."""
    loads = [access(i).operand for _, i in instructions if i.op == "load"]
    return any(form.operands[o].strides[axis] == "1" for o in loads)

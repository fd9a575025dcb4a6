"""Kernels that begin with a contraction: packed panels, tiles in registers, then the stages that follow.

A unit is a block of the result (`jitfuse.ir.kernels.blocking`). Its sums of products are stored in scratch, where the
ordinary code for rows and columns reads them as a kept row. The loops around a tile are those of Goto and van de Geijn
("Anatomy of high-performance matrix multiplication", 2008): blocks of the contracted axis, a packed right block, packed
left blocks, tiles. Owns: these loops and the layout of scratch. Does not own panels (`gemm_panels`), tiles
(`gemm_tile`) or later stages (`rows`, `columns`).
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence

from jitfuse.backends.llvm.codegen.analysis import ENTRY, UNIT, Analysis
from jitfuse.backends.llvm.codegen.body import KernelBody
from jitfuse.backends.llvm.codegen.column_addresses import Contracted
from jitfuse.backends.llvm.codegen.columns import emit_block
from jitfuse.backends.llvm.codegen.elements.types import MEMORY, i64
from jitfuse.backends.llvm.codegen.frame import LoadedLaunch, VectorGroup
from jitfuse.backends.llvm.codegen.gemm_panels import Numbered, PanelColumns, Range, Side, padded
from jitfuse.backends.llvm.codegen.gemm_tile import Tile, Tiles, emit_tile, tiles_of
from jitfuse.backends.llvm.codegen.layout import SUB_LANE_BYTES, SUB_ROW_BYTES
from jitfuse.backends.llvm.codegen.odometer import decode
from jitfuse.backends.llvm.codegen.rows import Row
from jitfuse.backends.llvm.jit import KERNEL_ATTRIBUTES, Target
from jitfuse.backends.llvm.text.builder import Function, Module, Value
from jitfuse.ir.kernels.blocking import row_axis, sweeps
from jitfuse.ir.kernels.form import KernelForm
from jitfuse.ir.kernels.stages import Reduction, Stage
from jitfuse.ir.kernels.sum_tree import CONTRACTION_BLOCK
from jitfuse.ir.kernels.values import needed


def emit_contraction(
    module: Module, name: str, form: KernelForm, target: Target, *, internal: bool = False
) -> None:
    """Write a form that begins with a contraction as a function, as `kernel.emit_kernel` does."""
    contraction = form.contraction
    assert contraction is not None and len(form.contracted) == len(form.inner) == 1
    tiles = tiles_of(contraction, target)
    for tile in tiles:
        emit_tile(module, tile, target.has_fma)
    f = module.function(
        name, "i64", [("words", "ptr"), ("begin", "i64"), ("end", "i64"), ("scratch", "ptr")],
        internal=internal, attributes=KERNEL_ATTRIBUTES,
    )
    words, begin, end, scratch = f.args
    with f.if_(f.icmp("sge", begin, end), likely=False):
        f.ret(i64(0))
    kernel = _GemmKernel(f, form, words, target, tiles)
    kernel.units(begin, end, scratch)
    f.ret(kernel.status())


class _GemmKernel:
    """The state that the loops of one kernel share."""

    def __init__(self, f: Function, form: KernelForm, words: Value, target: Target, tiles: Tiles) -> None:
        contraction = form.contraction
        assert contraction is not None
        tile = tiles.whole
        self.f, self.form, self.tile, self.tiles = f, form, tile, tiles
        self.vector_bytes = target.vector_bytes
        self.rows_axis, self.lanes_axis = row_axis(form), form.lane_axis
        self.swept, self.on_grid = sweeps(form), form.lane_axis < len(form.grid)
        self.left = Side(f, form, words, target, tile, contraction.left, self.rows_axis, tile.rows)
        self.right = Side(f, form, words, target, tile, contraction.right, self.lanes_axis, tile.columns)
        analysis = Analysis(form)
        self.launch = LoadedLaunch(f, analysis, words, tile.lanes)
        self.body = KernelBody(f, analysis, self.launch, target.has_fma)
        self.before = self._read_later(analysis)
        entry = VectorGroup(self.launch, 0, i64(0), dict(enumerate(self.launch.addresses)))
        for _, instructions, _ in self._stages():
            self.body.hoist(instructions, ENTRY, entry)
        self.counts = [f.field("i64", words, 8 * (form.words.blocks + k)) for k in range(2)]
        self.extents = self.launch.extents[self.rows_axis], self.launch.extents[self.lanes_axis]
        self.products = self.launch.extents[-1]
        steps = tile.rows, tile.columns
        self.block = tuple(
            _multiple(f, _divided(f, n, count), step)
            for n, count, step in zip(self.extents, self.counts, steps, strict=True)
        )
        self.row_bytes = f.mul(self.block[1], i64(tile.itemsize))
        limits = SUB_ROW_BYTES // tile.itemsize // tile.rows * tile.rows, SUB_LANE_BYTES // tile.itemsize
        self.part = tuple(f.intrinsic("smin", "i64", n, i64(most)) for n, most in zip(self.block, limits, strict=True))

    def _read_later(self, analysis: Analysis) -> Numbered:
        """Return the instructions of the first stage that later stages read; none varies along the contracted axis."""
        numbered = list(analysis.form.numbered)
        later = [n for _, body, reductions in numbered[1:] for n, _ in (*body, *reductions)]
        wanted = needed(self.form, later)
        return [(n, i) for n, i in numbered[0][1] if n in wanted]

    def _stages(self) -> list[tuple[Stage, Numbered, Sequence[tuple[int, Reduction]]]]:
        first, *later = list(self.body.analysis.form.numbered)
        return [(first[0], self.before, ()), *later]

    def status(self) -> Value:
        """Return the largest status code of the three parts."""
        a, b, c = (part.status() for part in (self.left.body, self.right.body, self.body))
        both = self.f.intrinsic("umax", "i64", a, b)
        return self.f.intrinsic("umax", "i64", both, c)

    # ------------------------------------------------------------------ units
    def units(self, begin: Value, end: Value, scratch: Value) -> None:
        """Write the loop over units, each a block of one matrix of the batch."""
        f = self.f
        batch_axes = [a for a in range(len(self.form.grid)) if a not in (self.rows_axis, self.lanes_axis)]
        ordered = [*(self.launch.extents[a] for a in batch_axes), self.counts[1], self.counts[0]]
        addresses = self._divide(scratch)
        with f.loop(begin, end) as loop:
            positions = decode(f, loop.index, ordered)
            batch = dict(zip(batch_axes, positions, strict=False))
            rows = self._range(0, positions[-1])
            lanes = self._range(1, positions[-2])
            # where whole rows or columns are reduced, an axis without elements is still reduced
            along = (rows, lanes) if not self.swept else (lanes,) if self.on_grid else (rows,)
            some = [f.icmp("slt", k.start, k.stop) for k in along]
            with f.if_(some[0] if len(some) == 1 else f.and_(*some)):
                self._contract(batch, rows, lanes, addresses)
                self._finish(batch, rows, lanes, addresses)

    def _range(self, k: int, number: Value) -> Range:
        f = self.f
        start = f.mul(number, self.block[k])
        return Range(start, f.intrinsic("smin", "i64", f.add(start, self.block[k]), self.extents[k]))

    def _divide(self, scratch: Value) -> list[Value]:
        """Return the addresses in scratch of the block, the left and right panels, a panel's lines, and the rest."""
        f, size = self.f, self.tile.itemsize
        depth = f.intrinsic("smin", "i64", padded(f, self.products, self.tile.lanes), i64(CONTRACTION_BLOCK))
        lengths = [
            f.mul(self.block[0], self.block[1]), f.mul(self.part[0], depth), f.mul(self.part[1], depth),
            i64(self.tile.columns * CONTRACTION_BLOCK),
        ]
        addresses = [scratch]
        for n in lengths:
            # a spare cache line, because vectors reach past the end
            addresses.append(f.offset(addresses[-1], f.add(padded(f, f.mul(n, i64(size)), 64), i64(64))))
        return addresses

    # ------------------------------------------------------------------ products
    def _contract(self, batch: Mapping[int, Value], rows: Range, lanes: Range, addresses: list[Value]) -> None:
        f = self.f
        block, left, right, scratch, _ = addresses
        # one iteration even without products, which stores empty sums
        stop = f.intrinsic("smax", "i64", self.products, i64(1))
        in_place = self.right.in_place(batch, f.sub(rows.stop, rows.start))
        with f.loop(i64(0), stop, CONTRACTION_BLOCK) as depth:
            end = f.intrinsic("smin", "i64", f.add(depth.index, i64(CONTRACTION_BLOCK)), self.products)
            products = Range(depth.index, end)
            first = f.icmp("eq", depth.index, i64(0))
            with f.loop(lanes.start, lanes.stop, self.part[1]) as across:
                part = Range(across.index, f.intrinsic("smin", "i64", f.add(across.index, self.part[1]), lanes.stop))
                columns = in_place.columns(part, products, right)
                self.right.pack(batch, Range(columns.packed_from, part.stop), products, right, scratch)
                with f.loop(rows.start, rows.stop, self.part[0]) as down:
                    end = f.intrinsic("smin", "i64", f.add(down.index, self.part[0]), rows.stop)
                    strip = Range(down.index, end)
                    self.left.pack(batch, strip, products, left, scratch)
                    origin = f.add(
                        f.mul(f.sub(strip.start, rows.start), self.row_bytes),
                        f.mul(f.sub(part.start, lanes.start), i64(self.tile.itemsize)),
                    )
                    self._tiles(strip, part, columns, products, first, left, f.offset(block, origin))

    def _tiles(
        self, rows: Range, lanes: Range, columns: PanelColumns, products: Range, first: Value, left: Value, out: Value
    ) -> None:
        """Write the loops over tiles: whole ones, then low ones; narrow ones where few lanes remain."""
        f, tile, low, narrow = self.f, self.tile, self.tiles.low, self.tiles.narrow
        count = f.sub(products.stop, products.start)
        depth = f.mul(padded(f, count, tile.lanes), i64(tile.itemsize))
        panel = f.mul(depth, i64(tile.rows))
        # remaining rows that would need too many low tiles take a whole tile
        whole = f.add(f.sub(rows.stop, rows.start), i64(tile.rows - 1 - (tile.rows - 1) // low.rows * low.rows))
        whole = f.add(rows.start, f.mul(f.udiv(whole, i64(tile.rows)), i64(tile.rows)))

        def call(tile: Tile, at_left: Value, at: Value) -> None:
            f.call(tile.name, "void", [count, at_left, at_right, right_bytes, at, self.row_bytes, first])

        with f.loop(lanes.start, lanes.stop, tile.columns) as across:
            column = across.carry(out)
            at_right, right_bytes = columns.address(across.index)
            few = f.icmp("sle", f.sub(lanes.stop, across.index), i64(narrow.columns))
            with f.loop(rows.start, whole, tile.rows) as down:
                at_left, at = down.carry(left), down.carry(column)
                wide, end = f.fresh("wide"), f.fresh("done")
                thin = f.fresh("thin")
                f.cond_br(few, thin, wide)
                for label, kind in ((thin, narrow), (wide, tile)):
                    f.label(label)
                    call(kind, at_left, at)
                    f.br(end)
                f.label(end)
                down.update(0, f.offset(at_left, panel))
                down.update(1, f.offset(at, f.mul(self.row_bytes, i64(tile.rows))))
            at_left, at = down.result(0), down.result(1)
            with f.loop(whole, rows.stop, low.rows) as rest:
                at_left, at = rest.carry(at_left), rest.carry(at)
                call(low, at_left, at)
                rest.update(0, f.offset(at_left, low.rows * tile.itemsize))
                rest.update(1, f.offset(at, f.mul(self.row_bytes, i64(low.rows))))
            across.update(0, f.offset(column, tile.columns * tile.itemsize))

    # ------------------------------------------------------------------ what follows
    def _finish(self, batch: Mapping[int, Value], rows: Range, lanes: Range, addresses: list[Value]) -> None:
        f, body = self.f, self.body
        pointers = list(self.launch.addresses)
        for o in range(len(pointers)):
            for axis, index in batch.items():
                pointers[o] = self.launch.moved(pointers[o], o, axis, index)
        unit = VectorGroup(self.launch, 0, i64(0), dict(enumerate(pointers)), indices=batch)
        if body.analysis.lanes_on_grid:
            for _, instructions, _ in self._stages():
                body.hoist(instructions, UNIT, unit)
            kept = Contracted(addresses[0], lanes.start, self.row_bytes, self.before)
            emit_block(body, unit, lanes.start, lanes.stop, addresses[-1], self.vector_bytes, kept)
            return
        with f.loop(rows.start, rows.stop) as loop:
            at = loop.carry(addresses[0])
            moved = {o: self.launch.moved(p, o, self.rows_axis, loop.index) for o, p in enumerate(pointers)}
            here = VectorGroup(self.launch, 0, i64(0), moved, indices={**batch, self.rows_axis: loop.index})
            body.hoist(self.before, UNIT, here)
            start = f.offset(at, f.sub(i64(0), lanes.start), MEMORY[self.tile.dtype])
            row = Row(body, here, addresses[-1], self.vector_bytes, (lanes.start, lanes.stop), start)
            for stage, instructions, reductions in list(body.analysis.form.numbered)[1:]:
                row.stage(stage, instructions, reductions)
            loop.update(0, f.offset(at, self.row_bytes))


def _divided(f: Function, n: Value, count: Value) -> Value:
    return f.udiv(f.add(n, f.sub(count, i64(1))), count)


def _multiple(f: Function, n: Value, step: int) -> Value:
    return f.mul(f.udiv(f.add(n, i64(step - 1)), i64(step)), i64(step))

"""The innermost loop of a contraction: one tile of the result in registers.

Owns: the sizes of a tile, which depend on the target's registers alone, and the function that computes one from
packed panels. Does not own panels (`gemm_panels`) or the loops around a tile (`gemm`).
"""
from __future__ import annotations

from jitfuse.backends.llvm.codegen.elements.types import ITEMSIZE, KIND, REGISTER, i64
from jitfuse.backends.llvm.jit import KERNEL_ATTRIBUTES, Target
from jitfuse.backends.llvm.text.builder import Function, Module, Value, vector
from jitfuse.base.records import NamedTuple, Record
from jitfuse.ir.kernels.stages import Contraction


class Tile(Record, frozen=True):
    """A tile of `rows` rows of `vectors` vectors, out of panels of `panel_rows` rows."""

    dtype: str
    lanes: int
    rows: int
    vectors: int
    panel_rows: int

    @property
    def columns(self) -> int:
        """Elements of a row."""
        return self.vectors * self.lanes

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return ITEMSIZE[self.dtype]

    @property
    def vector(self) -> str:
        """The type of a vector in registers."""
        return vector(REGISTER[self.dtype], self.lanes)

    @property
    def name(self) -> str:
        """The name of the function that computes such a tile."""
        return f"tile_{self.dtype}_{self.rows}x{self.vectors}"


class Tiles(NamedTuple):
    """The tiles of a contraction.

    `whole`: of two vectors, so that each element of the left panel serves two multiplications; all but two or three
    registers hold its sums. `low` and `narrow`: for the remaining rows and lanes, with enough sums to hide the
    latency of a multiplication.
    """

    whole: Tile
    low: Tile
    narrow: Tile


def tiles_of(contraction: Contraction, target: Target) -> Tiles:
    """Return the tiles of a contraction on a target: 14 rows where there are 32 vector registers, else 6."""
    lanes = target.vector_bytes // ITEMSIZE[contraction.dtype]
    rows, low = (14, 4) if target.vector_bytes == 64 else (6, 3)
    whole = Tile(contraction.dtype, lanes, rows, 2, rows)
    return Tiles(whole, whole.replace(rows=low), whole.replace(vectors=1))


def emit_tile(module: Module, tile: Tile, has_fma: bool) -> None:
    """Add ``void name(i64 count, ptr left, ptr right, i64 right_bytes, ptr out, i64 row_bytes, i1 first)``, once.

    It sums `count` products for every element of a tile, in order. It stores the sums if `first`, else adds them to
    `out`. The left panel holds the tile's rows adjacent for each product; the right operand has adjacent columns,
    and rows `right_bytes` apart.
    """
    if module.defines(tile.name):
        return
    f = module.function(
        tile.name, "void",
        [("count", "i64"), ("left", "ptr"), ("right", "ptr"), ("right_bytes", "i64"), ("out", "ptr"),
         ("row_bytes", "i64"), ("first", "i1")],
        internal=True, attributes=KERNEL_ATTRIBUTES,
    )
    count, left, right, right_bytes, out, row_bytes, first = f.args
    size, width = tile.itemsize, tile.lanes * tile.itemsize
    with f.loop(i64(0), count) as loop:
        sums = [loop.carry(f.const(tile.vector, 0)) for _ in range(tile.rows * tile.vectors)]
        at_left, at_right = loop.carry(left), loop.carry(right)
        row = [f.load(tile.vector, f.offset(at_right, j * width), size) for j in range(tile.vectors)]
        for r in range(tile.rows):
            x = f.splat(f.load(REGISTER[tile.dtype], f.offset(at_left, r * size), size), tile.lanes)
            for j in range(tile.vectors):
                k = r * tile.vectors + j
                loop.update(k, _multiply_add(f, tile, has_fma, x, row[j], sums[k]))
        loop.update(len(sums), f.offset(at_left, tile.panel_rows * size))
        loop.update(len(sums) + 1, f.offset(at_right, right_bytes))
    sums = [loop.result(k) for k in range(len(sums))]
    fresh, more, end = f.fresh("fresh"), f.fresh("more"), f.fresh("end")
    f.cond_br(first, fresh, more)
    for block in (fresh, more):
        f.label(block)
        at = out
        for r in range(tile.rows):
            for j in range(tile.vectors):
                x, address = sums[r * tile.vectors + j], f.offset(at, j * width)
                if block == more:
                    x = _add(f, tile, f.load(tile.vector, address, width), x)
                f.store(x, address, width)
            at = f.offset(at, row_bytes)
        f.br(end)
    f.label(end)
    f.ret()


def _multiply_add(f: Function, tile: Tile, has_fma: bool, x: Value, y: Value, total: Value) -> Value:
    if KIND[tile.dtype] != "float":
        return f.add(f.mul(x, y), total)
    return f.fma(x, y, total) if has_fma else f.fadd(f.fmul(x, y), total)


def _add(f: Function, tile: Tile, x: Value, y: Value) -> Value:
    return f.fadd(x, y) if KIND[tile.dtype] == "float" else f.add(x, y)

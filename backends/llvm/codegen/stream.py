"""Outputs past the caches: computed into a tile in the first-level cache, copied with non-temporal stores.

Owns: the tiles and the copy. The body of a kernel is the same either way; only the address of its output
differs.
"""
from __future__ import annotations

from collections.abc import Sequence

from jitfuse.backends.llvm.builder import Function, Value, vector
from jitfuse.backends.llvm.codegen.analysis import Analysis
from jitfuse.backends.llvm.codegen.layout import block, streamed
from jitfuse.backends.llvm.codegen.types import ITEMSIZE, MEMORY, i64

_LINE = 64
"""Bytes of a cache line; non-temporal stores write whole ones."""
_UNROLL = 4


class Streams:
    """The streamed outputs of a kernel; without any, nothing is written."""

    def __init__(self, f: Function, analysis: Analysis, flag: Value) -> None:
        self._f = f
        self._flag = flag
        self._dtypes = [o.dtype for o in analysis.form.operands]
        size = block(analysis)
        self.tiles = {
            o: f.alloca(MEMORY[self._dtypes[o]], size, align=_LINE) for o in streamed(analysis)
        }

    def redirect(self, pointers: Sequence[Value], first: Value) -> list[Value]:
        """Return the operands' addresses at lane 0 with those of streamed outputs put into their tiles.

        `first` is the position along the lanes where the block, and so the tile, begins.
        """
        f = self._f
        result = list(pointers)
        for o, tile in self.tiles.items():
            back = f.offset(tile, f.sub(i64(0), first), MEMORY[self._dtypes[o]])
            result[o] = f.select(self._flag, back, pointers[o])
        return result

    def flush(self, pointers: Sequence[Value], first: Value, stop: Value) -> None:
        """Copy the tiles of a block to the outputs, whose addresses at lane 0 are given."""
        if not self.tiles:
            return
        f = self._f
        with f.if_(self._flag):
            for o, tile in self.tiles.items():
                memory, size = MEMORY[self._dtypes[o]], ITEMSIZE[self._dtypes[o]]
                target = f.offset(pointers[o], first, memory)
                _copy(f, target, tile, f.sub(stop, first), memory, size)

    def finish(self) -> None:
        """Order the non-temporal stores before whatever the caller does next."""
        if self.tiles:
            with self._f.if_(self._flag):
                self._f.emit("fence seq_cst")


def _copy(f: Function, target: Value, source: Value, count: Value, memory: str, size: int) -> None:
    """Copy `count` elements: single ones up to a line's start, lines past the caches, the rest singly."""
    address = f.cast("ptrtoint", target, "i64")
    to_line = f.and_(f.sub(i64(0), address), i64(_LINE - 1))
    head = f.intrinsic("smin", "i64", f.lshr(to_line, i64(size.bit_length() - 1)), count)
    line = _LINE // size
    lines = f.sub(count, head)
    whole = f.add(head, f.and_(lines, i64(-line * _UNROLL)))
    single = f.add(head, f.and_(lines, i64(-line)))
    _move(f, target, source, i64(0), head, memory, 1, 1)
    _move(f, target, source, head, whole, memory, line, _UNROLL)
    _move(f, target, source, whole, single, memory, line, 1)
    _move(f, target, source, single, count, memory, 1, 1)


def _move(
    f: Function, target: Value, source: Value, start: Value, stop: Value, memory: str, width: int, repeat: int
) -> None:
    type_ = vector(memory, width)
    size = {"float": 4, "double": 8, "i32": 4, "i64": 8, "i8": 1}[memory]
    with f.loop(start, stop, width * repeat) as loop:
        reads = [f.offset(f.offset(source, loop.index, memory), k * width, memory) for k in range(repeat)]
        values = [f.load(type_, p, size) for p in reads]
        for k, v in enumerate(values):
            to = f.offset(f.offset(target, loop.index, memory), k * width, memory)
            f.store(v, to, _LINE if width > 1 else size, nontemporal=width > 1)

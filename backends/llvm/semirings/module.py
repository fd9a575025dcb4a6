"""The object of one semiring: a function that runs tables of records, and one for each kind of record.

Owns the loop over units, and how records are handed out to threads. Does not own the sums (`blocks.py`).
"""
from __future__ import annotations

from jitfuse.backends.llvm.semirings.blocks import KEPT, Unit, Writer
from jitfuse.backends.llvm.semirings.carriers import TABLE, Shared
from jitfuse.backends.llvm.text.builder import Function, Module, Value
from jitfuse.ir.semirings import words as r

ENTRY = "jf_semiring"
_ONE_RECORD = "jf_semiring_one"
_TYPES = {"float64": "double", "float32": "float"}
_ZERO, _ONE = Value("0", "i64"), Value("1", "i64")
_RECORD, _MEMORY, _MODULUS, _MOVES = range(0, 32, 8)
"""Bytes at which the words of a kernel hold the record, the addresses of memory, the modulus, and by how many elements
the result, a and b begin later.
"""
_WORDS = 6
TILE, FEWEST_UNITS = 64, 16
"""Units of the last axes whose places are computed once, at most, and of how many units in all, at least."""


def module_text(carrier: str, dtype: str, vector_bytes: int, has_fma: bool) -> str:
    """Return the object as LLVM assembly.

    ``i64 jf_semiring(ptr records, i64 count, ptr memory, double modulus, ptr parallel)`` runs records one after the
    other; those that belong to a `REPEAT` or to `BRANCHES` are not counted. `memory` has the address of each memory,
    `parallel` is that of `jf_parallel`, or null: one thread. The memory `LEAST` holds one number, which becomes the
    least number but 0 of all tensors over their scales, of scales, and of one over these, if that is smaller.
    """
    module = Module()
    type_ = _TYPES[dtype]
    width = vector_bytes // (8 if dtype == "float64" else 4)
    kinds = [*r.SUMS, *([r.EXTREMES, r.PARTS] if carrier in ("sum_product", "max_product") else [])]
    for kind in kinds:
        _emit_kernel(module, kind, carrier, type_, width, has_fma)
    _emit_branches(module)
    _emit_one(module, [*kinds, r.BRANCHES])
    _emit_entry(module)
    return module.text()


def _name(kind: int) -> str:
    return f"jf_semiring_{kind}"


def _emit_kernel(module: Module, kind: int, carrier: str, type_: str, width: int, has_fma: bool) -> None:
    """``i64 jf_semiring_<kind>(ptr words, i64 begin, i64 end, ptr scratch)`` computes units of a record."""
    f = module.function(_name(kind), "i64", [("words", "ptr"), ("begin", "i64"), ("end", "i64"), ("scratch", "ptr")],
                        internal=True, attributes='nounwind "no-builtins"')
    words, begin, end, _ = f.args
    record = f.field("ptr", words, _RECORD)
    memory = f.field("ptr", words, _MEMORY)
    modulus = f.field("double", words, _MODULUS)
    reciprocal = f.fdiv(f.const("double", 1.0), modulus)

    def word(number: int) -> Value:
        return f.field("i64", record, 8 * number)

    def start(number: int) -> Value:
        base = f.load("ptr", f.offset(memory, word(number), "ptr"))
        moved = f.field("i64", words, _MOVES + 4 * (number - r.OUT))
        return f.offset(base, f.add(word(number + 1), moved), type_)

    rank = word(r.RANK)
    axes = f.offset(record, 8 * r.AXES)
    offsets = f.offset(axes, f.shl(rank, f.const("i64", 2)), "i64")
    strides = (word(r.INNER_STRIDES), word(r.INNER_STRIDES + 1), word(r.INNER_STRIDES + 2))
    whole = Unit(start(r.OUT), start(r.A), start(r.B), word(r.EXTENT), strides, offsets, word(r.OFFSETS))
    writer = Writer(f, kind, TABLE[carrier], type_, width, Shared(has_fma, modulus, reciprocal))
    if kind in (r.EXTREMES, r.PARTS):
        one_offset = f.alloca("i64", 2)
        f.store(_ZERO, one_offset)
        f.store(_ZERO, f.offset(one_offset, 1, "i64"))
        whole = whole._replace(offsets=one_offset)
    if kind == r.EXTREMES:
        writer.extremes(whole, f.field("ptr", memory, 8 * r.LEAST))
        f.ret(_ZERO)
        return
    tile = _Tile(f, axes, rank, f.sub(end, begin), type_)
    walk = _Walk(f, axes, tile.rank, type_, (whole.out, whole.a, whole.b))
    (first,) = f.branch(f.icmp("ne", begin, _ZERO), [_ZERO], lambda: [f.udiv(begin, tile.units)])
    walk.go_to(first)
    with f.loop(f.mul(first, tile.units), end, tile.units) as tiles:
        starts = walk.pointers()
        low, high = f.sub(begin, tiles.index), f.sub(end, tiles.index)
        low = f.select(f.icmp("slt", low, _ZERO), _ZERO, low)
        high = f.select(f.icmp("slt", high, tile.units), high, tile.units)
        with f.loop(low, high) as units:
            out, a, b = tile.pointers(starts, units.index)
            unit = whole._replace(out=out, a=a, b=b)
            if kind == r.PARTS:
                writer.extremes(unit, None, f.mul(word(r.UNITS), unit.extent))
            else:
                (writer.kept if kind in KEPT else writer.summed)(unit)
        walk.advance()
    f.ret(_ZERO)


class _Tile:
    """The units of the last axes: where each begins, beside the first of them, is computed once.

    Rows of a few numbers would wait for the walk from one to the next: its position is in memory, and axes of two
    wrap around every other time.
    """

    def __init__(self, f: Function, axes: Value, rank: Value, units: Value, type_: str) -> None:
        self._f, self._type = f, type_
        self._places = f.alloca("i64", 3 * TILE)
        for k in range(3):
            f.store(_ZERO, f.offset(self._places, k, "i64"))
        many = f.icmp("sge", units, f.const("i64", FEWEST_UNITS))
        with f.loop(_ZERO, f.select(many, rank, _ZERO)) as loop:
            size, left = loop.carry(_ONE), loop.carry(rank)
            number = f.sub(f.sub(rank, loop.index), _ONE)
            at = f.offset(axes, f.shl(number, f.const("i64", 2)), "i64")
            extent, *strides = [f.load("i64", f.offset(at, k, "i64")) for k in range(4)]
            whole = f.mul(size, extent)
            behind_fit = f.icmp("eq", f.add(number, _ONE), left)
            fits = f.and_(behind_fit, f.icmp("sle", whole, f.const("i64", TILE)))
            with f.loop(_ONE, f.select(fits, extent, _ONE)) as positions:
                moves = [f.mul(stride, positions.index) for stride in strides]
                begin = f.mul(size, positions.index)
                with f.loop(_ZERO, size) as known:
                    source, target = self._place(known.index), self._place(f.add(begin, known.index))
                    for k, move in enumerate(moves):
                        f.store(f.add(f.load("i64", f.offset(source, k, "i64")), move), f.offset(target, k, "i64"))
            loop.update(0, f.select(fits, whole, size))
            loop.update(1, f.select(fits, number, left))
        self.units, self.rank = loop.result(0), loop.result(1)

    def _place(self, unit: Value) -> Value:
        return self._f.offset(self._places, self._f.mul(unit, self._f.const("i64", 3)), "i64")

    def pointers(self, starts: list[Value], unit: Value) -> list[Value]:
        """Return where the tensors of a unit begin, given those of the first."""
        f, place = self._f, self._place(unit)
        return [f.offset(start, f.load("i64", f.offset(place, k, "i64")), self._type) for k, start in enumerate(starts)]


class _Walk:
    """The position of a unit along all axes, and where its tensors begin; both in memory, as the rank is not known."""

    def __init__(self, f: Function, axes: Value, rank: Value, type_: str, starts: tuple[Value, Value, Value]) -> None:
        self._f, self._axes, self._rank, self._type = f, axes, rank, type_
        self._positions = f.alloca("i64", r.MAX_RANK)
        self._pointers = f.alloca("ptr", 3)
        for k, start in enumerate(starts):
            f.store(start, f.offset(self._pointers, k, "ptr"))

    def pointers(self) -> list[Value]:
        return [self._f.load("ptr", self._f.offset(self._pointers, k, "ptr")) for k in range(3)]

    def _axis(self, number: Value) -> tuple[Value, list[Value], Value]:
        """Return an axis's extent, its strides, and where its position is."""
        f = self._f
        at = f.offset(self._axes, f.shl(number, f.const("i64", 2)), "i64")
        extent, *strides = [f.load("i64", f.offset(at, k, "i64")) for k in range(4)]
        return extent, strides, f.offset(self._positions, number, "i64")

    def _move(self, strides: list[Value], count: Value) -> None:
        f = self._f
        for k, stride in enumerate(strides):
            slot = f.offset(self._pointers, k, "ptr")
            f.store(f.offset(f.load("ptr", slot), f.mul(stride, count), self._type), slot)

    def go_to(self, unit: Value) -> None:
        """Go from the first unit to another one."""
        f = self._f
        with f.loop(_ZERO, self._rank) as loop:
            f.store(_ZERO, f.offset(self._positions, loop.index, "i64"))
        with f.if_(f.icmp("ne", unit, _ZERO)), f.loop(_ZERO, self._rank) as loop:
            rest = loop.carry(unit)
            number = f.sub(f.sub(self._rank, _ONE), loop.index)
            extent, strides, slot = self._axis(number)
            quotient = f.udiv(rest, extent)
            position = f.sub(rest, f.mul(quotient, extent))
            f.store(position, slot)
            self._move(strides, position)
            loop.update(0, quotient)

    def advance(self) -> None:
        """Go to the next unit: the last axis moves, and each whose next inner one wrapped around."""
        f = self._f
        before, again, wrapped, done = (f.fresh(x) for x in ("before", "axis", "wrapped", "moved"))
        f.label(before)
        f.br(again)
        f.label(again)
        inner, following = f.fresh("n"), f.fresh("n")
        f.emit(f"%{inner} = phi i64 [ {self._rank.ref}, %{before} ], [ %{following}, %{wrapped} ]")
        stays = f.fresh("stays")
        f.cond_br(f.icmp("eq", Value(f"%{inner}", "i64"), _ZERO), done, stays)
        f.label(stays)
        f.emit(f"%{following} = sub i64 %{inner}, 1")
        extent, strides, slot = self._axis(Value(f"%{following}", "i64"))
        position = f.add(f.load("i64", slot), _ONE)
        f.store(position, slot)
        self._move(strides, _ONE)
        f.cond_br(f.icmp("slt", position, extent), done, wrapped)
        f.label(wrapped)
        f.store(_ZERO, slot)
        self._move(strides, f.sub(_ZERO, extent))
        f.br(again)
        f.label(done)


def _emit_one(module: Module, kinds: list[int]) -> None:
    """``void jf_semiring_one(ptr record, ptr words, ptr parallel)``: run a record on tensors that the words move."""
    f = module.function(_ONE_RECORD, "void", [("record", "ptr"), ("words", "ptr"), ("parallel", "ptr")], internal=True)
    record, words, parallel = f.args
    f.set_field(record, words, _RECORD)
    kind, units = f.field("i64", record, 8 * r.KIND), f.field("i64", record, 8 * r.UNITS)
    function = Value(f"@{_name(kinds[0])}", "ptr")
    for other in kinds[1:]:
        function = f.select(f.icmp("eq", kind, f.const("i64", other)), Value(f"@{_name(other)}", "ptr"), function)
    threads = f.field("i64", record, 8 * r.PARALLEL)
    with f.if_(f.and_(f.icmp("ne", threads, _ZERO), f.icmp("ne", parallel, f.null))):
        f.call_pointer(parallel, "i64", [function, words, units, _ZERO, f.null, _ZERO])
        f.ret()
    f.call_pointer(function, "i64", [words, _ZERO, units, f.null])
    f.ret()


def _emit_branches(module: Module) -> None:
    """``i64 jf_semiring_<BRANCHES>(ptr words, i64 begin, i64 end, ptr scratch)`` runs lists of records."""
    f = module.function(_name(r.BRANCHES), "i64", [
        ("words", "ptr"), ("begin", "i64"), ("end", "i64"), ("scratch", "ptr")], internal=True)
    words, begin, end, _ = f.args
    branches = f.field("ptr", words, _RECORD)
    own = f.alloca("i64", _WORDS)
    for place, type_ in ((_MEMORY, "ptr"), (_MODULUS, "double"), *((_MOVES + 8 * k, "i64") for k in range(3))):
        f.set_field(f.field(type_, words, place), own, place)
    lists = f.offset(branches, 8 * r.LISTS)
    with f.loop(begin, end) as unit:
        at = f.offset(lists, f.shl(unit.index, _ONE), "i64")
        start, count = f.load("i64", at), f.load("i64", f.offset(at, 1, "i64"))
        first = f.offset(_behind(f, branches), start, "i64")
        with f.loop(_ZERO, count) as loop:
            record = loop.carry(first)
            f.call(_ONE_RECORD, "void", [record, own, f.null])
            loop.update(0, _behind(f, record))
    f.ret(_ZERO)


def _emit_entry(module: Module) -> None:
    f = module.function(ENTRY, "i64", [
        ("records", "ptr"), ("count", "i64"), ("memory", "ptr"), ("modulus", "double"), ("parallel", "ptr")])
    records, count, memory, modulus, parallel = f.args
    words = f.alloca("i64", _WORDS)
    f.set_field(memory, words, _MEMORY)
    f.set_field(modulus, words, _MODULUS)
    moves = f.offset(words, _MOVES)
    for k in range(3):
        f.store(_ZERO, f.offset(moves, k, "i64"))
    with f.loop(_ZERO, count) as loop:
        record = loop.carry(records)
        repeat, alone, done = f.fresh("repeat"), f.fresh("alone"), f.fresh("ran")
        following = f.alloca("ptr")  # where the next record is
        f.cond_br(f.icmp("eq", f.field("i64", record, 8 * r.KIND), f.const("i64", r.REPEAT)), repeat, alone)
        f.label(repeat)
        _emit_repeat(f, record, words, parallel, following)
        f.br(done)
        f.label(alone)
        has_lists = f.icmp("eq", f.field("i64", record, 8 * r.KIND), f.const("i64", r.BRANCHES))
        inside = f.select(has_lists, f.field("i64", record, 8 * r.INSIDE), _ZERO)
        f.store(f.offset(_behind(f, record), inside, "i64"), following)
        f.call(_ONE_RECORD, "void", [record, words, parallel])
        f.br(done)
        f.label(done)
        loop.update(0, f.load("ptr", following))
    f.ret(_ZERO)


def _behind(f: Function, record: Value) -> Value:
    return f.offset(record, f.field("i64", record, 8 * r.LENGTH), "i64")


def _emit_repeat(f: Function, repeat: Value, words: Value, parallel: Value, following: Value) -> None:
    """Run the records behind a REPEAT as often as it says; `following` is where the address behind them goes."""
    first, body = _behind(f, repeat), f.field("i64", repeat, 8 * r.BODY)
    moves, moved = f.offset(repeat, 8 * r.MOVES), f.offset(words, _MOVES)
    with f.loop(_ZERO, f.field("i64", repeat, 8 * r.TIMES)) as times, f.loop(_ZERO, body) as loop:
        record = loop.carry(first)
        for k in range(3):
            number = f.add(f.mul(loop.index, f.const("i64", 3)), f.const("i64", k))
            move = f.load("i64", f.offset(moves, number, "i64"))
            f.store(f.mul(move, times.index), f.offset(moved, k, "i64"))
        f.call(_ONE_RECORD, "void", [record, words, parallel])
        behind = _behind(f, record)
        f.store(behind, following)
        loop.update(0, behind)
    for k in range(3):
        f.store(_ZERO, f.offset(moved, k, "i64"))

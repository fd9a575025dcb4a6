"""Python's code objects, taken apart into instructions and put together again with more of them.

Owns the three encodings that move when instructions are inserted: jump distances, the exception table and the
line and column table (CPython's Objects/locations.md and Objects/exception_handling_notes.md; the same
from 3.11 on). Which instructions to insert is decided in `jitfuse.tracing.view.rewrite`.
"""
from __future__ import annotations

import opcode
import types
from collections.abc import Iterator
from typing import Any, Final

from jitfuse.records import NamedTuple

_EXTENDED: Final = opcode.opmap["EXTENDED_ARG"]
_CACHES: Final[Any] = getattr(opcode, "_inline_cache_entries", {})
_JUMPS: Final = frozenset(opcode.hasjrel)
_BACKWARD: Final = frozenset(op for op in opcode.hasjrel if "BACKWARD" in opcode.opname[op])


def caches(op: int) -> int:
    """Return how many code units of inline cache follow an instruction."""
    if isinstance(_CACHES, dict):
        return int(_CACHES.get(opcode.opname[op], 0))
    return int(_CACHES[op])


_CACHE_UNITS: Final = tuple(caches(op) if op < len(opcode.opname) else 0 for op in range(256))


class Step(NamedTuple):
    """One instruction: opcode, argument, and for a jump the unit offset in the old code that it leads to."""

    op: int
    arg: int
    target: int = -1


def parse(code: types.CodeType) -> list[tuple[int, Step]]:
    """Return each instruction with its offset in code units (that of its first EXTENDED_ARG)."""
    raw = code.co_code
    found: list[tuple[int, Step]] = []
    unit, start, high, end = 0, 0, 0, len(raw) // 2
    while unit < end:
        op, arg = raw[2 * unit], raw[2 * unit + 1] | high
        unit += 1
        if op == _EXTENDED:
            high = arg << 8
            continue
        unit += _CACHE_UNITS[op]
        target = -1
        if op in _JUMPS:
            target = unit - arg if op in _BACKWARD else unit + arg
        found.append((start, Step(op, arg, target)))
        start, high = unit, 0
    return found


def assemble(
    code: types.CodeType, groups: list[tuple[int, list[Step]]], consts: tuple[Any, ...], more_stack: int,
) -> types.CodeType:
    """Return the code with each old instruction replaced by its group of new ones.

    groups: (old offset in units, new steps) in order; jumps to an old instruction lead to its group.
    """
    steps = [step for _, group in groups for step in group]
    sizes = [1 + _extensions(step.arg if step.target < 0 else 0) + _CACHE_UNITS[step.op] for step in steps]
    while True:
        places = _places(code, groups, sizes)
        args, grown, unit = [], False, 0
        for position, step in enumerate(steps):
            unit += sizes[position]
            arg = step.arg if step.target < 0 else abs(places[step.target] - unit)
            need = 1 + _extensions(arg) + _CACHE_UNITS[step.op]
            if need > sizes[position]:
                sizes[position], grown = need, True
            args.append(arg)
        if not grown:
            break
    out = bytearray()
    for step, arg, size in zip(steps, args, sizes):
        for level in range(size - 1 - _CACHE_UNITS[step.op], 0, -1):
            out += bytes((_EXTENDED, arg >> 8 * level & 0xFF))
        out += bytes((step.op, arg & 0xFF)) + bytes(2 * _CACHE_UNITS[step.op])
    return code.replace(
        co_code=bytes(out), co_consts=consts, co_stacksize=code.co_stacksize + more_stack,
        co_linetable=_line_table(code.co_linetable, places),
        co_exceptiontable=_exception_table(code.co_exceptiontable, places))


def _extensions(arg: int) -> int:
    return 0 if arg < 1 << 8 else 1 if arg < 1 << 16 else 2 if arg < 1 << 24 else 3


def _places(code: types.CodeType, groups: list[tuple[int, list[Step]]], sizes: list[int]) -> list[int]:
    """Return the new offset of every old code unit; a unit inside an instruction counts to the next one."""
    places: list[int] = []
    unit = position = 0
    for start, group in groups:
        places += [unit] * (start + 1 - len(places))
        for _ in group:
            unit += sizes[position]
            position += 1
    return places + [unit] * (len(code.co_code) // 2 + 1 - len(places))


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Read a varint of the exception table: most significant six bits first."""
    byte = data[position]
    value = byte & 63
    while byte & 64:
        position += 1
        byte = data[position]
        value = value << 6 | byte & 63
    return value, position + 1


def _exception_table(table: bytes, places: list[int]) -> bytes:
    out = bytearray()
    position = 0
    while position < len(table):
        start, position = _varint(table, position)
        length, position = _varint(table, position)
        target, position = _varint(table, position)
        depth, position = _varint(table, position)
        begin = places[start]
        for place, value in enumerate((begin, places[start + length] - begin, places[target], depth)):
            digits = [value & 63]
            while value := value >> 6:
                digits.append(value & 63 | 64)
            digits[-1] |= 128 if place == 0 else 0
            out += bytes(reversed(digits))
    return bytes(out)


def _entries(table: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield (form, length in units, payload) of the line table."""
    position = 0
    while position < len(table):
        first = table[position]
        end = position + 1
        while end < len(table) and table[end] < 128:
            end += 1
        yield first >> 3 & 15, (first & 7) + 1, table[position + 1: end]
        position = end


def _line_table(table: bytes, places: list[int]) -> bytes:
    """Stretch each entry over its instruction's group; an entry says at most eight units."""
    out = bytearray()
    unit = 0
    for form, length, payload in _entries(table):
        units = places[unit + length] - places[unit]
        unit += length
        while units > 0:
            chunk = min(units, 8)
            out.append(128 | form << 3 | chunk - 1)
            out += payload
            units -= chunk
            form, payload = _same_line(form, payload)
    return bytes(out)


def _same_line(form: int, payload: bytes) -> tuple[int, bytes]:
    """Return an entry's form and payload without its step to another line."""
    if form in {10, 11, 12}:
        return 10, payload
    if form in {13, 14}:
        after = next(place for place, byte in enumerate(payload) if not byte & 64) + 1
        return form, b"\0" + payload[after:]
    return form, payload

"""Code objects of Python, disassembled into instructions and assembled again with more of them.

Owns which instruction sets are known and what differs between them: all other modules ask this one. Owns the three
encodings that change when instructions are inserted: jump distances, the exception table, and the table of lines and
columns (CPython's Objects/locations.md and Objects/exception_handling_notes.md; the same from 3.11 on). Which
instructions to insert is decided in `jitfuse.tracing.interception.bytecode`.
"""
from __future__ import annotations

import opcode
import sys
import types
from _frozen_importlib_external import MAGIC_NUMBER
from typing import Any, Final

from jitfuse.base.records import NamedTuple

_HAS_GIL: Final = object.__basicsize__ == 16
IS_KNOWN: Final = int.from_bytes(MAGIC_NUMBER[:2], "little") in {3495, 3531, 3571} and _HAS_GIL
"""Whether the instructions are those of CPython 3.11, 3.12 or 3.13, which this number in compiled files tells apart.

Where they are not, nothing may be parsed or assembled.
"""


def number(name: str) -> int:
    """Return an instruction's number, -1 where this Python has no such instruction."""
    return opcode.opmap.get(name, -1)


NULL_AFTER: Final = sys.version_info >= (3, 13)
"""Whether a call's NULL lies above the function, not below."""
ATTR_SHIFT: Final = int(sys.version_info >= (3, 12))
"""Bits of LOAD_ATTR's argument below the name; the lowest makes it the load of a method."""
COMPARE_SHIFT: Final = 0 if sys.version_info < (3, 12) else 4 if sys.version_info < (3, 13) else 5
"""Bits of COMPARE_OP's argument below the operator."""
LOAD_CELL: Final = "LOAD_CLOSURE" if sys.version_info < (3, 13) else "LOAD_FAST"
ENDS: Final = frozenset({
    "RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD", "JUMP_BACKWARD",
    "JUMP_BACKWARD_NO_INTERRUPT",
})
"""Instructions after which the next one does not run."""
CALLS: Final = frozenset({"CALL", "CALL_KW"})
CALL_PARTS: Final = frozenset({"PRECALL", "KW_NAMES"})
"""Instructions that CPython 3.11 and 3.12 have before a call."""
FORMATS: Final = frozenset(map(number, ("FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC"))) - {-1}
"""Instructions that format values in f-strings."""
_PAIRS: Final = {
    number(pair): (number(first), number(second)) for pair, first, second in (
        ("LOAD_FAST_LOAD_FAST", "LOAD_FAST", "LOAD_FAST"), ("STORE_FAST_LOAD_FAST", "STORE_FAST", "LOAD_FAST"),
        ("STORE_FAST_STORE_FAST", "STORE_FAST", "STORE_FAST"),
    ) if pair in opcode.opmap
}
"""Instructions of 3.13 that do the work of two, whose arguments have four bits each."""
_COMPARE, _TO_BOOL, _COMPARED_TO_BOOL = number("COMPARE_OP"), number("TO_BOOL"), 16
"""From 3.13 on a bit of a comparison says that TO_BOOL is part of it."""
_COMPOUND: Final = frozenset({*_PAIRS, _COMPARE}) if _TO_BOOL >= 0 else frozenset()
_EXTENDED: Final = number("EXTENDED_ARG")
_CACHES: Final[Any] = getattr(opcode, "_inline_cache_entries", {})
_JUMPS: Final = frozenset(opcode.hasjrel)
_BACKWARD: Final = frozenset(op for op in opcode.hasjrel if "BACKWARD" in opcode.opname[op])


def caches(op: int) -> int:
    """Return how many code units of inline cache follow an instruction."""
    if isinstance(_CACHES, dict):
        return int(_CACHES.get(opcode.opname[op], 0))
    return int(_CACHES[op])


_CACHE_BYTES: Final = tuple(bytes(2 * caches(op)) if op < len(opcode.opname) else b"" for op in range(256))
_WIDTHS: Final = tuple(2 + len(cache) for cache in _CACHE_BYTES)


class CodeStep(NamedTuple):
    """One instruction: opcode, argument, its bytes, and for a jump its target's unit offset in the old code."""

    op: int
    arg: int
    code: bytes
    target: int = -1


class InstructionGroup(NamedTuple):
    """The replacement of an instruction: its offset in units, straight code, and last the instruction if it jumps."""

    offset: int
    code: bytes
    jump: CodeStep | None = None


def encoded(op: int, arg: int = 0) -> bytes:
    """Return the bytes of an instruction and its inline cache."""
    if arg < 256:
        return bytes((op, arg)) + _CACHE_BYTES[op]
    more = b"".join([bytes((_EXTENDED, arg >> shift & 0xFF)) for shift in (24, 16, 8) if arg >> shift])
    return more + bytes((op, arg & 0xFF)) + _CACHE_BYTES[op]


def parse(code: types.CodeType) -> list[tuple[int, CodeStep]]:
    """Return each instruction with its offset in code units (that of its first EXTENDED_ARG).

    Instructions that do the work of two become two at one offset, so that one table of rules serves all versions.
    """
    raw = code.co_code
    found: list[tuple[int, CodeStep]] = []
    at, start, high, end = 0, 0, 0, len(raw)
    while at < end:
        op, arg = raw[at], raw[at + 1] | high
        at += _WIDTHS[op]
        if op == _EXTENDED:
            high = arg << 8
            continue
        target = -1
        if op in _JUMPS:
            target = (at >> 1) - arg if op in _BACKWARD else (at >> 1) + arg
        if op in _COMPOUND and (parts := _parts(op, arg)):
            found += [(start >> 1, CodeStep(one, its, encoded(one, its))) for one, its in parts]
        else:
            found.append((start >> 1, CodeStep(op, arg, raw[start:at], target)))
        start, high = at, 0
    return found


def _parts(op: int, arg: int) -> tuple[tuple[int, int], ...]:
    """Return the two instructions, with their arguments, whose work one does; none where it does that of one."""
    if op == _COMPARE:
        return ((op, arg & ~_COMPARED_TO_BOOL), (_TO_BOOL, 0)) if arg & _COMPARED_TO_BOOL else ()
    first, second = _PAIRS[op]
    return (first, arg >> 4), (second, arg & 15)


def assemble(
    code: types.CodeType, groups: list[InstructionGroup], consts: tuple[Any, ...], more_stack: int,
) -> types.CodeType:
    """Return the code with each old instruction replaced by its group; jumps to it lead to the group's start.

    There is one group for each instruction that `parse` returns, in the same order.
    """
    jumps = [(k, jump) for k, (_, _, jump) in enumerate(groups) if jump is not None]
    bodies = [body for _, body, _ in groups]
    tails = [b""] * len(groups)
    for k, jump in jumps:
        tails[k] = encoded(jump.op)
    grown = True
    while grown:
        grown = False
        places = _places(code, groups, bodies, tails)
        for k, jump in jumps:
            start = places[groups[k].offset]
            distance = places[jump.target] - start - (len(bodies[k]) + len(tails[k])) // 2
            tail = encoded(jump.op, abs(distance))
            grown |= len(tail) > len(tails[k])
            # a tail never shrinks, or the iteration might not end
            tails[k] = bytes((_EXTENDED, 0)) * ((len(tails[k]) - len(tail)) // 2) + tail
    new = b"".join([part for pair in zip(bodies, tails) for part in pair]) if jumps else b"".join(bodies)
    return code.replace(
        co_code=new, co_consts=consts, co_stacksize=code.co_stacksize + more_stack,
        co_linetable=_line_table(code.co_linetable, places),
        co_exceptiontable=_exception_table(code.co_exceptiontable, places))


def _places(code: types.CodeType, groups: list[InstructionGroup], bodies: list[bytes], tails: list[bytes]) -> list[int]:
    """Return the new offset of every old code unit; a unit inside of an instruction maps to the next instruction."""
    places: list[int] = []
    new = 0
    for group, body, tail in zip(groups, bodies, tails):
        places += [new] * (group[0] + 1 - len(places))
        new += len(body) + len(tail) >> 1
    return places + [new] * (len(code.co_code) // 2 + 1 - len(places))


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


def _line_table(table: bytes, places: list[int]) -> bytes:
    """Extend each entry over its instruction's group; an entry covers at most eight units."""
    out: list[bytes] = []
    at = unit = new = 0
    while at < len(table):
        first = table[at]
        form = first >> 3 & 15
        end = at + 1 + _PAYLOADS[form]
        while end < len(table) and table[end] < 128:
            end += 1
        payload = table[at + 1 : end]
        at = end
        unit += (first & 7) + 1
        units, new = places[unit] - new, places[unit]
        if units > 8 and form >= _MOVES:
            out += bytes((first | 7,)), payload
            units -= 8
            form, payload = _same_line(form, payload)
        if units:
            out.append((bytes((128 | form << 3 | 7,)) + payload) * (units - 1 >> 3))
            out += bytes((128 | form << 3 | units - 1 & 7,)), payload
    return b"".join(out)


_MOVES: Final = 10
"""From this form on, an entry stores its line relative to the previous entry."""
_PAYLOADS: Final = (*[1] * 10, *[2] * 3, 0, 0, 0)
"""The fewest bytes after the first one, for an entry of each form."""


def _same_line(form: int, payload: bytes) -> tuple[int, bytes]:
    """Return an entry's form and payload without its change of line."""
    if form in {10, 11, 12}:
        return 10, payload
    if form in {13, 14}:
        after = next(place for place, byte in enumerate(payload) if not byte & 64) + 1
        return form, b"\0" + payload[after:]
    return form, payload

"""Links object code for Linux on x86-64: lays an object out and relocates it once, so that loading is copying.

Owns: layout and relocation. Does not own reading objects (`jitfuse.backends.llvm.load.elf`), nor the encoding and
loading of images (`jitfuse.backends.llvm.load.image`).

An object becomes one run of pages in two parts: executable sections and constants, then data. Between executable
sections and constants lie a jump for each imported symbol, and slots with the addresses of the imported symbols and
of the object's own symbols whose address is read. Imports are called through a jump and its slot, because the code of
the process is too far away for calls of 32 bits. Relocations are those of the System V ABI for x86-64, chapter 4.4.
Code is linked for address 0. Loading adds the load address to whole words only; code that needs more is rejected.
"""
from __future__ import annotations

import struct
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final

from jitfuse.backends.llvm.load.elf import (
    ALLOCATED,
    EXECUTABLE,
    NOBITS,
    PROGBITS,
    RELA,
    UNDEFINED,
    WRITABLE,
    ObjectFile,
    Section,
)
from jitfuse.backends.llvm.load.image import DAMAGED, Image, encode
from jitfuse.backends.llvm.load.process import PAGE, refuse_foreign
from jitfuse.base.records import NamedTuple, Record
from jitfuse.errors import CompileError

LARGEST: Final = 1 << 28
"""The most bytes of an object in memory: more than any kernel, and within reach of calls of 32 bits."""

_TEXT, _CONSTANTS, _DATA = range(3)
"""Kinds of sections, in the order of the layout."""
_RELOCATABLE: Final = 1
_X86_64: Final = 62
_IGNORED: Final = (".eh_frame", ".note", ".comment", ".llvm")
_RUN_AT_LOAD: Final = (".ctors", ".dtors")

_WORD: Final = 1
_CALL: Final = 4
_SLOTS: Final = frozenset({9, 41, 42})
"""GOTPCREL, GOTPCRELX, REX_GOTPCRELX: the distance to the slot with a symbol's address."""
_UINT64: Final = struct.Struct("<Q")
_INT32: Final = struct.Struct("<i")
_FIELDS: Final = {
    _WORD: _UINT64,  # R_X86_64_64: a symbol's address
    2: _INT32, _CALL: _INT32, 24: struct.Struct("<q"),  # PC32, PLT32, PC64: the distance to it
    **dict.fromkeys(_SLOTS, _INT32),
}
"""Types of relocations, and the format of the integers that they write."""


class _Relocation(NamedTuple):
    """A relocation at `offset` of the section with the number `section`."""

    section: int
    offset: int
    kind: int
    symbol: int
    addend: int


class _PageLayout(Record, frozen=True):
    """The layout of the pages: offsets in bytes from their start."""

    sections: Mapping[int, int]
    jumps: Mapping[int, int]
    """Offsets of the jumps of imported symbols, by symbol number."""
    slots: Mapping[int, int]
    """Offsets of the slots of imported symbols, in order, then of the object's own whose address is read."""
    text_end: int
    code_end: int
    """Where data begins, at a page boundary."""
    filled: int
    """The end of the copied content; zeros follow."""
    end: int
    """The end of the image, at a page boundary."""


def link(object_code: bytes, *, allowed: Container[str] = ()) -> bytes:
    """Return the image of an object, for `jitfuse.backends.llvm.load.image.load`.

    Undefined symbols must be in `allowed`, and are taken from CPython and the C library when the image is loaded.
    Raises CompileError naming the others, and for objects that are damaged, made for another machine, or that depend
    on their address in other fields than whole words.
    """
    try:
        return encode(_linked(ObjectFile(object_code), allowed))
    except DAMAGED as error:
        raise CompileError(f"damaged object of {len(object_code)} bytes: {error}") from None


def _linked(file: ObjectFile, allowed: Container[str]) -> Image:
    if (file.type, file.machine) != (_RELOCATABLE, _X86_64):
        raise CompileError(f"not a relocatable object for x86-64: type {file.type}, machine {file.machine}")
    names = file.global_symbols()
    imported = [k for k in names if file.symbols[k][3] == UNDEFINED]
    refuse_foreign((names[k] for k in imported), allowed)
    found = list(_relocations(file))
    own = sorted({r.symbol for r in found if r.kind in _SLOTS} - set(imported))
    layout = _lay_out(file, imported, own)
    places = _symbol_places(file, layout)
    content = _content(file, layout)
    words = _relocate(file, layout, content, places, found)
    for k in own:
        _UINT64.pack_into(content, layout.slots[k], places[k])
        words.append(layout.slots[k])
    return Image(
        layout.code_end, layout.end, (bytes(content[: layout.code_end]), bytes(content[layout.code_end :])),
        tuple(words), layout.slots[imported[0]] if imported else 0, tuple([names[k] for k in imported]),
        tuple([(name, places[k]) for k, name in names.items() if k in places]), layout.text_end,
    )


# ---------------------------------------------------------------------- layout
def _kind(section: Section) -> int | None:
    """Return the kind of a section, None for one that is not loaded."""
    if not section.flags & ALLOCATED or section.name.startswith(_IGNORED):
        return None
    known = ALLOCATED | WRITABLE | EXECUTABLE | 0x10 | 0x20 | 0x200  # mergeable, strings, in a group
    if section.kind not in (PROGBITS, NOBITS) or section.flags & ~known or section.name.startswith(_RUN_AT_LOAD):
        raise CompileError(
            f"section {section.name} of kind {section.kind:#x} and flags {section.flags:#x} cannot be loaded"
        )
    if section.flags & EXECUTABLE:
        return _TEXT
    if section.flags & WRITABLE and not section.name.startswith(".data.rel.ro"):
        return _DATA
    return _CONSTANTS


def _lay_out(file: ObjectFile, imported: Sequence[int], own: Sequence[int]) -> _PageLayout:
    """Return the layout of an object's sections; raises CompileError for sections that do not fit."""
    members: tuple[list[int], list[int], list[int]] = ([], [], [])
    for k, section in enumerate(file.sections):
        kind = _kind(section)
        if kind is not None:
            members[kind].append(k)
    members[_DATA].sort(key=lambda k: file.sections[k].kind == NOBITS)
    places: dict[int, int] = {}
    text_end = _place(file, members[_TEXT], 0, places)
    begin = -(-text_end // 16) * 16
    words = range(begin, begin + 8 * (2 * len(imported) + len(own)), 8)
    text_end = words.stop if words else text_end
    filled = _place(file, members[_CONSTANTS], text_end, places)
    code_end = -(-filled // PAGE) * PAGE
    written = [k for k in members[_DATA] if file.sections[k].kind != NOBITS]
    if written:
        filled = _place(file, written, code_end, places)
    end = -(-_place(file, members[_DATA][len(written) :], filled if written else code_end, places) // PAGE) * PAGE
    if end > LARGEST:
        raise CompileError(f"an object of {end} bytes is larger than {LARGEST}")
    jumps = dict(zip(imported, words))
    slots = dict(zip((*imported, *own), words[len(imported) :]))
    return _PageLayout(places, jumps, slots, text_end, code_end, filled, end)


def _place(file: ObjectFile, sections: Sequence[int], begin: int, places: dict[int, int]) -> int:
    """Add the offsets of these sections to `places`, in order, and return the end of the last one."""
    at = begin
    for k in sections:
        section = file.sections[k]
        alignment = max(section.alignment, 1)
        if alignment > PAGE:
            raise CompileError(f"section {section.name} is aligned to {alignment} bytes")
        places[k] = -(-at // alignment) * alignment
        at = places[k] + section.size
    return at


def _symbol_places(file: ObjectFile, layout: _PageLayout) -> dict[int, int]:
    """Return the offsets, by number, of the symbols that the object defines in loaded sections."""
    return {
        k: layout.sections[number] + value for k, (_, _, _, number, value, _) in enumerate(file.symbols)
        if number in layout.sections
    }


def _content(file: ObjectFile, layout: _PageLayout) -> bytearray:
    """Return the bytes before relocation: sections and jumps."""
    content = bytearray(layout.filled)
    for k, at in layout.sections.items():
        section = file.sections[k]
        if section.kind == PROGBITS:
            memoryview(content)[at : at + section.size] = file.content(section)
    for k, at in layout.jumps.items():  # jmp *slot(%rip); int3 behind it
        struct.pack_into("<HiH", content, at, 0x25FF, layout.slots[k] - at - 6, 0xCCCC)
    return content


# ---------------------------------------------------------------------- relocations
def _relocations(file: ObjectFile) -> Iterator[_Relocation]:
    """Yield the relocations of loaded sections."""
    for table in file.sections:
        if table.kind == RELA and _kind(file.sections[table.info]) is not None:
            for relocation in file.relocations(table):
                yield _Relocation(table.info, *relocation)


def _relocate(
    file: ObjectFile, layout: _PageLayout, content: bytearray, places: Mapping[int, int], relocations: list[_Relocation]
) -> list[int]:
    """Write addresses into the content, and return the offsets of the words to which the load address is added."""
    words: list[int] = []
    for number, offset, kind, symbol, addend in relocations:
        section = file.sections[number]
        field = _FIELDS.get(kind)
        if field is None:
            raise CompileError(f"a relocation at {section.name}+{offset:#x} fails: its type {kind} is unknown")
        place = layout.sections[number] + offset
        targets = layout.slots if kind in _SLOTS else places
        if kind == _CALL and symbol in layout.jumps:  # only calls may go through jumps
            targets = layout.jumps
        try:
            if kind == _WORD:
                field.pack_into(content, place, (targets[symbol] + addend) % 2**64)
                words.append(place)
            else:
                field.pack_into(content, place, targets[symbol] + addend - place)
        except KeyError:
            raise CompileError(
                f"a relocation at {section.name}+{offset:#x} fails: its symbol {symbol} is not loaded"
            ) from None
        except struct.error:
            raise CompileError(
                f"a relocation at {section.name}+{offset:#x} fails: symbol {symbol} is out of reach for type {kind}"
            ) from None
    return words

"""Loads object code into the process.

Owns: which loader a system gets, and the one for Linux on x86-64, where a few hundred lines of Python replace
LLVM: a process that finds everything in its cache starts none. Does not own reading objects
(`jitfuse.backends.llvm.elf`), pages (`jitfuse.backends.llvm.process`), or LLVM's loader (`jitfuse.backends.llvm.jit`).

An object becomes one run of pages in three parts: executable sections, constants, data. Behind the executable
sections lie, for each symbol of the object, a jump through a slot and the slot with the symbol's address: what
imports are called through, because the process' own code is too far away for calls of 32 bits. Relocations
are those of the System V ABI for x86-64, chapter 4.4.
"""
from __future__ import annotations

import os
import struct
import sys
from collections.abc import Container, Iterator, Mapping
from typing import Final, Protocol

from jitfuse.backends.llvm.elf import (
    ABSOLUTE,
    ALLOCATED,
    EXECUTABLE,
    FIRST_RESERVED,
    NOBITS,
    PROGBITS,
    REL,
    RELA,
    UNDEFINED,
    WRITABLE,
    ObjectFile,
    Section,
)
from jitfuse.backends.llvm.process import EXECUTE, PAGE, READ, WRITE, Pages, import_addresses
from jitfuse.errors import CompileError
from jitfuse.records import Record

OWN_LOADER: Final = sys.platform == "linux" and sys.maxsize > 2**32 and os.uname().machine == "x86_64"
"""Whether this system has the loader of this module; others load through LLVM."""

LARGEST: Final = 1 << 28
"""Bytes of an object in memory; more than any object of ours, and within reach of calls of 32 bits."""

_RELOCATABLE: Final = 1
_X86_64: Final = 62
_IGNORED: Final = (".eh_frame", ".note", ".comment", ".llvm")
_RUN_AT_LOAD: Final = (".ctors", ".dtors")
_TEXT: Final = 0
_CONSTANTS: Final = 1
_DATA: Final = 2
ACCESS: Final = (READ | EXECUTE, READ, READ | WRITE)


class Library(Protocol):
    """Loaded code: the addresses of its global symbols, valid as long as this object lives."""

    names: frozenset[str]

    def address(self, name: str) -> int:
        """Return the address of a global symbol of the object; KeyError where it has none of that name."""


def load(object_code: bytes, *, allowed: Container[str] = ()) -> Library:
    """Link object code, or its image, into the process; its memory is freed when the returned library is dropped.

    Undefined symbols must be in `allowed` and are then taken from CPython and the C library. Raises
    CompileError naming the others, and those the process lacks, and for objects that are damaged or made
    for another machine.
    """
    if OWN_LOADER:
        from jitfuse.backends.llvm import image

        if image.is_image(object_code):
            return image.LoadedImage(object_code, allowed)
        return LoadedObject(ObjectFile(object_code), allowed)
    from jitfuse.backends.llvm import jit

    return jit.load(object_code, allowed=allowed)


class LoadedObject:
    """The `Library` of this module's loader."""

    def __init__(self, file: ObjectFile, allowed: Container[str]) -> None:
        if (file.type, file.machine) != (_RELOCATABLE, _X86_64):
            raise CompileError(f"not a relocatable object for x86-64: type {file.type}, machine {file.machine}")
        names = file.global_symbols()
        undefined = {k: name for k, name in names.items() if file.symbols[k][3] == UNDEFINED}
        imports = import_addresses(undefined.values(), allowed)
        layout = lay_out(file)
        self._pages = Pages(layout.ends[_DATA])
        base = self._pages.address
        places = symbol_places(file, layout, base)
        self._addresses = {name: places[k] for k, name in names.items() if k in places}
        self.names = frozenset(self._addresses)
        places |= {k: imports[name] for k, name in undefined.items()}
        image = image_of(file, layout, places)
        relocate(file, layout, image, places, undefined, base)
        begins = (0, *layout.ends)
        self._pages.fill(bytes(image), zip(begins, layout.ends, ACCESS, strict=False))

    def address(self, name: str) -> int:
        """Return the address of a global symbol of the object; KeyError where it has none of that name."""
        return self._addresses[name]


# ---------------------------------------------------------------------- layout
class Layout(Record, frozen=True):
    """Where things lie in the pages, in bytes from their begin."""

    sections: Mapping[int, int]
    jumps: int
    slots: int
    filled: int
    """The end of what is copied; zeros follow."""
    ends: tuple[int, int, int]
    """Of the three parts, at page borders."""


def _part(section: Section) -> int | None:
    """Return the part of the pages that a section belongs to, None for one that code does not need."""
    if not section.flags & ALLOCATED or section.name.startswith(_IGNORED):
        return None
    known = ALLOCATED | WRITABLE | EXECUTABLE | 0x10 | 0x20 | 0x200  # mergeable, strings, in a group
    if section.kind not in (PROGBITS, NOBITS) or section.flags & ~known or section.name.startswith(_RUN_AT_LOAD):
        raise CompileError(
            f"section {section.name} of kind {section.kind:#x} and flags {section.flags:#x} has no loader"
        )
    if section.flags & EXECUTABLE:
        if section.flags & WRITABLE or section.kind == NOBITS:
            raise CompileError(f"section {section.name} would be code and data at once")
        return _TEXT
    if section.flags & WRITABLE and not section.name.startswith(".data.rel.ro"):
        return _DATA
    return _CONSTANTS


def lay_out(file: ObjectFile) -> Layout:
    """Return where the sections of an object go; raises CompileError for sections that have no loader."""
    parts: tuple[list[int], list[int], list[int]] = ([], [], [])
    for k, section in enumerate(file.sections):
        part = _part(section)
        if part is not None:
            parts[part].append(k)
    parts[_DATA].sort(key=lambda k: file.sections[k].kind == NOBITS)
    places: dict[int, int] = {}
    ends = []
    at = filled = jumps = 0
    for part, members in enumerate(parts):
        for k in members:
            section = file.sections[k]
            alignment = max(section.alignment, 1)
            if alignment & (alignment - 1) or alignment > PAGE:
                raise CompileError(f"section {section.name} is aligned to {alignment} bytes")
            places[k] = -(-at // alignment) * alignment
            at = places[k] + section.size
            if part != _DATA or section.kind != NOBITS:
                filled = at
        if part == _TEXT:
            jumps = -(-at // 16) * 16
            filled = at = jumps + 16 * len(file.symbols)
        at = -(-at // PAGE) * PAGE
        ends.append(at)
    if at > LARGEST:
        raise CompileError(f"an object of {at} bytes is larger than {LARGEST}")
    return Layout(places, jumps, jumps + 8 * len(file.symbols), filled, (ends[0], ends[1], ends[2]))


def symbol_places(file: ObjectFile, layout: Layout, base: int) -> dict[int, int]:
    """Return the addresses of the symbols that the object defines in what is loaded, by number."""
    begins = {k: base + at for k, at in layout.sections.items()}
    sizes = [section.size for section in file.sections]
    places: dict[int, int] = {}
    for k, (_, _, _, number, value, _) in enumerate(file.symbols):
        if number in begins:
            if value > sizes[number]:
                file.damaged("a symbol lies outside of its section")
            places[k] = begins[number] + value
        elif number >= FIRST_RESERVED:
            if number != ABSOLUTE:
                raise CompileError(
                    f"symbols of section {number:#x} (common, or beyond 65,280 sections) have no loader"
                )
            places[k] = value
    return places


def image_of(file: ObjectFile, layout: Layout, places: Mapping[int, int]) -> bytearray:
    """Return the bytes before relocation: sections, jumps and slots."""
    image = bytearray(layout.filled)
    for k, at in layout.sections.items():
        section = file.sections[k]
        if section.kind == PROGBITS:
            image[at : at + section.size] = file.content(section)
    count = len(file.symbols)
    # jmp *slot(%rip), which every jump finds at the same distance; int3 behind it
    image[layout.jumps : layout.slots] = struct.pack("<HiH", 0x25FF, 8 * count - 6, 0xCCCC) * count
    struct.pack_into(f"<{count}Q", image, layout.slots, *(places.get(k, 0) for k in range(count)))
    return image


# ---------------------------------------------------------------------- relocations
def relocate(
    file: ObjectFile, layout: Layout, image: bytearray, places: Mapping[int, int], imported: Container[int], base: int
) -> None:
    """Write addresses into the image; `places` has the addresses of symbols by number.

    Nearly all are of the first two kinds, and their number is what loading costs: they take the shortest way.
    """
    jumps, slots = base + layout.jumps, base + layout.slots
    write = _INT32
    for table, section, begin in tables(file, layout):
        kind = symbol = offset = 0
        last, here = section.size - 4, base + begin
        try:
            for offset, kind, symbol, addend in file.relocations(table):
                if offset > last:
                    file.damaged("a relocation lies outside of its section")
                if kind == _RELATIVE:
                    write(image, begin + offset, places[symbol] + addend - here - offset)
                elif kind == CALL:  # and nothing else, may go through a jump
                    target = jumps + 8 * symbol if symbol in imported else places[symbol]
                    write(image, begin + offset, target + addend - here - offset)
                else:
                    width, pack, how = _FIELDS[kind]
                    if offset + width > section.size:
                        file.damaged("a relocation lies outside of its section")
                    target = places[symbol]
                    target = (slots + 8 * symbol if how == _SLOT else target) + addend
                    if how != _PLACE:
                        target -= here + offset
                    pack(image, begin + offset, target % 2**64 if kind == WORD else target)
        except KeyError:
            what = f"type {kind} is unknown" if kind not in _FIELDS else f"symbol {symbol} is not loaded"
            raise CompileError(f"a relocation at {section.name}+{offset:#x} fails: its {what}") from None
        except struct.error:
            raise CompileError(
                f"a relocation at {section.name}+{offset:#x} fails: symbol {symbol} is out of reach for type {kind}"
            ) from None


def tables(file: ObjectFile, layout: Layout) -> Iterator[tuple[Section, Section, int]]:
    """Yield (relocations, the section they are for, where that lies)."""
    for table in file.sections:
        if table.kind not in (RELA, REL) or table.info not in layout.sections:
            continue
        section = file.sections[table.info]
        if table.kind == REL or section.kind == NOBITS or table.link != file.symbol_table or not file.symbols:
            raise CompileError(f"relocations of {section.name} have no loader")
        yield table, section, layout.sections[table.info]


WORD: Final = 1
_RELATIVE: Final = 2
CALL: Final = 4
_PLACE, _DISTANCE, _SLOT = range(3)
_INT32: Final = struct.Struct("<i").pack_into
_FIELDS: Final = {
    WORD: (8, struct.Struct("<Q").pack_into, _PLACE),  # R_X86_64_64
    _RELATIVE: (4, _INT32, _DISTANCE),  # PC32
    CALL: (4, _INT32, _DISTANCE),  # PLT32
    9: (4, _INT32, _SLOT),  # GOTPCREL
    10: (4, struct.Struct("<I").pack_into, _PLACE),  # 32
    11: (4, _INT32, _PLACE),  # 32S
    24: (8, struct.Struct("<q").pack_into, _DISTANCE),  # PC64
    41: (4, _INT32, _SLOT),  # GOTPCRELX
    42: (4, _INT32, _SLOT),  # REX_GOTPCRELX
}
"""Types of relocations: bytes they write, how (a value that does not fit is an error), and what: where a symbol is, how
far it is, or how far the slot is that says so."""
PLACES: Final = frozenset(kind for kind, (_, _, what) in _FIELDS.items() if what == _PLACE)
SLOTS: Final = frozenset(kind for kind, (_, _, what) in _FIELDS.items() if what == _SLOT)

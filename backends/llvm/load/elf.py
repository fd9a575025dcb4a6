"""Reads relocatable ELF objects, without trusting their content.

Owns: sections, symbols and relocations of a little-endian 64-bit object, with every offset checked against the
object's size. Does not own the meaning of relocations (`jitfuse.backends.llvm.load.linker`).

Layout: System V ABI, chapter 4: headers of 64 bytes, symbols and relocations with addends of 24.
"""
from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NoReturn

from jitfuse.base.records import NamedTuple, Record
from jitfuse.errors import CompileError

PROGBITS: Final = 1
SYMTAB: Final = 2
STRTAB: Final = 3
RELA: Final = 4
NOBITS: Final = 8
REL: Final = 9

WRITABLE: Final = 0x1
ALLOCATED: Final = 0x2
EXECUTABLE: Final = 0x4

UNDEFINED: Final = 0
FIRST_RESERVED: Final = 0xFF00
ABSOLUTE: Final = 0xFFF1

_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_RELOCATION: Final = struct.Struct("<QIIq")
_LAST_LOCAL: Final = 0xF
"""The largest `info` of a local symbol: the upper four bits are the binding, STB_LOCAL is 0."""


class Section(NamedTuple):
    """A section header; `offset` and `size` lie inside the object unless it is of kind `NOBITS`."""

    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry: int


class Symbols(Record, frozen=True):
    """Global names in an object: those it defines and those it expects from elsewhere."""

    defined: frozenset[str]
    undefined: frozenset[str]


class ObjectFile:
    """A relocatable object: its sections, and its symbols as (name offset, info, other, section, value, size)."""

    def __init__(self, code: bytes) -> None:
        self.code = code
        if code[:6] != b"\x7fELF\x02\x01":
            raise CompileError(f"not a 64-bit little-endian ELF object: it starts with {code[:6]!r}")
        if len(code) < _HEADER.size:
            self.damaged("the header is cut off")
        (_, self.type, self.machine, _, _, _, table, _, _, _, _, size, count, names) = _HEADER.unpack_from(code)
        if size != _SECTION.size or count == 0 or table + size * count > len(code):
            self.damaged("there are no whole section headers")
        headers = list(_SECTION.iter_unpack(memoryview(code)[table : table + size * count]))
        for kind, _, _, offset, length in (header[1:6] for header in headers):
            if kind not in (0, NOBITS) and offset + length > len(code):
                self.damaged("a section ends outside")
        if names >= count or headers[names][1] != STRTAB:
            self.damaged("sections have no names")
        start, length = headers[names][4:6]
        self.sections = [
            Section(self._string(start, length, at), kind, flags, offset, size, link, info, alignment, entry)
            for at, kind, flags, _, offset, size, link, info, alignment, entry in headers
        ]
        self.symbol_table, self._names = self._find_symbols()
        self.symbols: list[tuple[int, int, int, int, int, int]] = (
            list(_SYMBOL.iter_unpack(self.content(self.sections[self.symbol_table]))) if self.symbol_table else []
        )

    def damaged(self, why: str) -> NoReturn:
        """Raise CompileError."""
        raise CompileError(f"damaged ELF object of {len(self.code)} bytes: {why}")

    def _find_symbols(self) -> tuple[int, Section | None]:
        """Return the number of the symbol table, 0 without one, and the section with its names."""
        tables = [k for k, section in enumerate(self.sections) if section.kind == SYMTAB]
        if not tables:
            return 0, None
        section = self.sections[tables[0]]
        if len(tables) > 1 or section.size % _SYMBOL.size or section.link >= len(self.sections):
            self.damaged("its symbol table makes no sense")
        if self.sections[section.link].kind != STRTAB:
            self.damaged("symbols have no names")
        return tables[0], self.sections[section.link]

    def _string(self, start: int, length: int, at: int) -> str:
        end = self.code.find(b"\0", start + at, start + length)
        if end < 0:
            self.damaged("a name has no end")
        try:
            return self.code[start + at : end].decode()
        except UnicodeDecodeError:
            self.damaged("a name is no text")

    def content(self, section: Section) -> memoryview:
        """Return the bytes of a section."""
        return memoryview(self.code)[section.offset : section.offset + section.size]

    def relocations(self, section: Section) -> Iterator[tuple[int, int, int, int]]:
        """Return the relocations of a `RELA` section as (offset, type, symbol, addend)."""
        if section.size % _RELOCATION.size:
            self.damaged("relocations are cut off")
        return _RELOCATION.iter_unpack(self.content(section))

    def global_symbols(self) -> dict[int, str]:
        """Return the names, by number, of the symbols that this object exports or imports."""
        if self._names is None:
            return {}
        try:
            text = str(self.content(self._names), "ascii")
            return {
                k: text[symbol[0] : text.index("\0", symbol[0])] for k, symbol in enumerate(self.symbols)
                if symbol[1] > _LAST_LOCAL and k
            }
        except UnicodeDecodeError:
            self.damaged("a name is no text")
        except ValueError:
            self.damaged("a name has no end")


def object_symbols(object_code: bytes) -> Symbols:
    """Return the global symbols of an ELF object; CompileError for anything else."""
    file = ObjectFile(object_code)
    defined: set[str] = set()
    undefined: set[str] = set()
    for k, name in file.global_symbols().items():
        (defined if file.symbols[k][3] != UNDEFINED else undefined).add(name)
    return Symbols(frozenset(defined), frozenset(undefined))


def undefined_symbols(object_code: bytes) -> frozenset[str]:
    """Return the names that an ELF object expects from elsewhere."""
    return object_symbols(object_code).undefined

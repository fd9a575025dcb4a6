"""Reads relocatable ELF objects, as LLVM writes them in this process.

Owns: sections, symbols and relocations of a little-endian 64-bit object. Does not own the meaning of relocations
(`jitfuse.backends.llvm.load.linker`). A damaged object raises one of `jitfuse.backends.llvm.load.image.DAMAGED`.

Layout: System V ABI, chapter 4: headers of 64 bytes, symbols and relocations with addends of 24.
"""
from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from jitfuse.base.records import NamedTuple, Record
from jitfuse.errors import CompileError

PROGBITS: Final = 1
SYMTAB: Final = 2
RELA: Final = 4
NOBITS: Final = 8

WRITABLE: Final = 0x1
ALLOCATED: Final = 0x2
EXECUTABLE: Final = 0x4

UNDEFINED: Final = 0

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
        (_, self.type, self.machine, _, _, _, table, _, _, _, _, size, count, names) = _HEADER.unpack_from(code)
        headers = [_SECTION.unpack_from(code, table + size * k) for k in range(count)]
        self.sections = [
            Section(self._string(headers[names][4] + at), kind, flags, offset, length, link, info, alignment)
            for at, kind, flags, _, offset, length, link, info, alignment, _ in headers
        ]
        (symbols,) = (section for section in self.sections if section.kind == SYMTAB)
        self._names = self.sections[symbols.link].offset
        self.symbols: list[tuple[int, int, int, int, int, int]] = list(_SYMBOL.iter_unpack(self.content(symbols)))

    def _string(self, at: int) -> str:
        return self.code[at : self.code.index(b"\0", at)].decode()

    def content(self, section: Section) -> memoryview:
        """Return the bytes of a section."""
        return memoryview(self.code)[section.offset : section.offset + section.size]

    def relocations(self, section: Section) -> Iterator[tuple[int, int, int, int]]:
        """Return the relocations of a `RELA` section as (offset, type, symbol, addend)."""
        return _RELOCATION.iter_unpack(self.content(section))

    def global_symbols(self) -> dict[int, str]:
        """Return the names, by number, of the symbols that this object exports or imports."""
        return {
            k: self._string(self._names + symbol[0]) for k, symbol in enumerate(self.symbols)
            if symbol[1] > _LAST_LOCAL and k
        }


def object_symbols(object_code: bytes) -> Symbols:
    """Return the global symbols of an ELF object."""
    file = ObjectFile(object_code)
    names = file.global_symbols()
    undefined = frozenset(name for k, name in names.items() if file.symbols[k][3] == UNDEFINED)
    return Symbols(frozenset(names.values()) - undefined, undefined)

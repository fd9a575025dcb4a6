"""Linked images: an object laid out and relocated once, so that loading it again is copying it.

Owns: making an image of an object, and putting one into the process. Does not own layout and relocation
(`jitfuse.backends.llvm.loader`), which an object goes through for each process otherwise: two thirds of the time of
loading the native runtime, whose hundreds of relocations all but fifty come out alike wherever it lies.
"""
from __future__ import annotations

import marshal
import struct
from collections.abc import Container, Iterator
from typing import Final

from jitfuse.backends.llvm.elf import ABSOLUTE, UNDEFINED, ObjectFile
from jitfuse.backends.llvm.loader import (
    ACCESS,
    CALL,
    PLACES,
    SLOTS,
    WORD,
    Layout,
    image_of,
    lay_out,
    relocate,
    symbol_places,
    tables,
)
from jitfuse.backends.llvm.process import Pages, import_addresses
from jitfuse.errors import CompileError

_MAGIC: Final = b"jitfuse image\0"
_MARSHAL: Final = 2
"""The last version of the format that writes equal values alike."""
_UINT64: Final = struct.Struct("<Q")


def is_image(code: bytes) -> bool:
    """Return whether these bytes are an image, not an object."""
    return code.startswith(_MAGIC)


def link_image(object_code: bytes) -> bytes | None:
    """Return the image of an object; None for one whose code depends on where it lies in more than words.

    It holds the bytes as they are at address 0, where the address is to be added, and which slots wait for symbols of
    the process. Raises CompileError for what is no object, or one that `load` refuses too.
    """
    file = ObjectFile(object_code)
    layout = lay_out(file)
    imported = {k for k, symbol in enumerate(file.symbols) if symbol[3] == UNDEFINED}
    places = {k: at for k, at in symbol_places(file, layout, 0).items() if file.symbols[k][3] != ABSOLUTE}
    found = list(_relocations(file, layout))
    if not all(
        symbol in imported if symbol not in places and (kind in SLOTS or kind == CALL)
        else symbol in places and (kind == WORD or kind not in PLACES)
        for _, kind, symbol in found
    ):
        return None
    image = image_of(file, layout, places)
    relocate(file, layout, image, places | dict.fromkeys(imported, 0), imported, 0)
    words = [at for at, kind, _ in found if kind == WORD]
    words += sorted({layout.slots + 8 * symbol for _, kind, symbol in found if kind in SLOTS and symbol in places})
    names = file.global_symbols()
    imports = tuple((name, layout.slots + 8 * k) for k, name in names.items() if k in imported)
    exports = tuple((name, places[k]) for k, name in names.items() if k in places)
    return _MAGIC + marshal.dumps((layout.ends, bytes(image), tuple(words), imports, exports), _MARSHAL)


def _relocations(file: ObjectFile, layout: Layout) -> Iterator[tuple[int, int, int]]:
    """Yield (place in the image, type, symbol)."""
    for table, _, begin in tables(file, layout):
        for offset, kind, symbol, _ in file.relocations(table):
            yield begin + offset, kind, symbol


class LoadedImage:
    """The library of an image."""

    def __init__(self, code: bytes, allowed: Container[str]) -> None:
        try:
            ends, content, words, imports, exports = marshal.loads(memoryview(code)[len(_MAGIC):])
            addresses = import_addresses([name for name, _ in imports], allowed)
            image = bytearray(content)
            self._pages = Pages(ends[-1])
            base = self._pages.address
            for at in words:
                _UINT64.pack_into(image, at, base + _UINT64.unpack_from(image, at)[0])
            for name, at in imports:
                _UINT64.pack_into(image, at, addresses[name])
            self._base = base
            self._exports: dict[str, int] = dict(exports)
            self.names = frozenset(self._exports)
            self._pages.fill(bytes(image), zip((0, *ends), ends, ACCESS, strict=False))
        except (EOFError, IndexError, TypeError, ValueError, struct.error) as error:  # not what we write
            raise CompileError(f"damaged image of {len(code)} bytes: {error}") from None

    def address(self, name: str) -> int:
        """Return the address of a global symbol of the object; KeyError where it has none of that name."""
        return self._base + self._exports[name]

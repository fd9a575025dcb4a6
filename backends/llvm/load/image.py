"""Images: linked code in its stored form, which is loaded by copying it and adding a few addresses.

Owns: the bytes of an image, and loading one into the process. Does not own linking
(`jitfuse.backends.llvm.load.linker`). Layout and relocation take two thirds of the time of loading an object; their
result depends on the load address in only a few words.
"""
from __future__ import annotations

import marshal
import struct
from typing import Final

from jitfuse.backends.llvm.load.process import EXECUTE, READ, Pages, process_addresses
from jitfuse.base.records import NamedTuple
from jitfuse.errors import CompileError

_MAGIC: Final = b"jitfuse image\0"
_MARSHAL: Final = 2
"""The last version of the format that writes equal values as equal bytes."""
_UINT64: Final = struct.Struct("<Q")
DAMAGED: Final = (
    ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, TypeError, ValueError, struct.error,
)
"""Exceptions for an image that `encode` did not make; marshal allocates any length that it reads."""


class Image(NamedTuple):
    """Code linked for address 0. All offsets are in bytes from the start of its pages.

    Two parts, each of whole pages: code with its constants, and data. Constants share the pages of the code, so that
    most kernels fit in one page; read-only data may be executable.
    """

    code_end: int
    end: int
    parts: tuple[bytes, bytes]
    """The content of the two parts, without trailing zeros."""
    words: tuple[int, ...]
    """Offsets of the 64-bit words to which the address of the pages is added."""
    slots: int
    """Offset of the addresses of `imports`, in their order."""
    imports: tuple[str, ...]
    """Symbols of CPython and of the C library."""
    exports: tuple[tuple[str, int], ...]
    """Names of the code's own global symbols, and their offsets."""
    text_end: int
    """Offset where the executable sections, jumps and slots end, and constants begin."""


def is_image(code: bytes) -> bool:
    """Return whether these bytes are an image, not an object."""
    return code.startswith(_MAGIC)


def encode(image: Image) -> bytes:
    """Return an image as bytes."""
    return _MAGIC + marshal.dumps(tuple(image), _MARSHAL)


def decode(code: bytes) -> Image:
    """Return the image of bytes that `encode` made. For other bytes, this or a use of the result raises one of
    `DAMAGED`."""
    return Image._make(marshal.loads(memoryview(code)[len(_MAGIC):]))


def load(code: bytes) -> LoadedImage:
    """Return the library of an encoded image; raises CompileError for one that is damaged or lacks a symbol."""
    try:
        return LoadedImage(decode(code))
    except DAMAGED as error:
        raise CompileError(f"damaged image of {len(code)} bytes: {error}") from None


class LoadedImage:
    """The `jitfuse.backends.llvm.loader.Library` of an image; its memory is freed when this object is dropped."""

    def __init__(self, image: Image) -> None:
        self._pages = Pages(image.end)
        self._base = base = self._pages.address
        self._exports = dict(image.exports)
        code, data = image.parts
        if image.words or image.imports:
            code, data = _addressed(image, base)
        self._pages.write(0, code)
        if data:
            self._pages.write(image.code_end, data)
        self._pages.protect(image.code_end, READ | EXECUTE)

    @property
    def names(self) -> frozenset[str]:
        """The global symbols of the code."""
        return frozenset(self._exports)

    def address(self, name: str) -> int:
        """Return the address of a global symbol of the code; KeyError where it has none of that name."""
        return self._base + self._exports[name]


def _addressed(image: Image, base: int) -> tuple[bytes, bytes]:
    """Return the parts of an image for the address `base`, with its own addresses and those of its imports."""
    code, data = map(bytearray, image.parts)
    for at in image.words:
        part, place = (code, at) if at < image.code_end else (data, at - image.code_end)
        _UINT64.pack_into(part, place, base + _UINT64.unpack_from(part, place)[0])
    struct.pack_into(f"<{len(image.imports)}Q", code, image.slots, *process_addresses(image.imports))
    return bytes(code), bytes(data)

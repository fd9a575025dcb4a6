"""Images: linked code as it is stored, which loading again copies, and adds a few addresses to.

Owns: the bytes of an image, and putting one into the process. Does not own how an object becomes one
(`jitfuse.backends.llvm.linker`): layout and relocation take two thirds of the time of loading an object, and come out
alike wherever it lies but for some words.
"""
from __future__ import annotations

import marshal
import struct
from typing import Final

from jitfuse.backends.llvm.process import EXECUTE, READ, WRITE, Pages, process_addresses
from jitfuse.errors import CompileError
from jitfuse.records import NamedTuple

_MAGIC: Final = b"jitfuse image\0"
_MARSHAL: Final = 2
"""The last version of the format that writes equal values alike."""
_UINT64: Final = struct.Struct("<Q")

TEXT: Final = 0
CONSTANTS: Final = 1
DATA: Final = 2
_ACCESS: Final = (READ | EXECUTE, READ, READ | WRITE)
"""To the three parts of an image."""


class Image(NamedTuple):
    """Code linked for address 0. All offsets are in bytes from the begin of its pages."""

    ends: tuple[int, int, int]
    """Of its parts `TEXT`, `CONSTANTS` and `DATA`, at page borders."""
    content: bytes | bytearray
    """What the pages hold, up to where only zeros follow."""
    words: tuple[int, ...]
    """Offsets of the 64-bit words that the address of the pages is added to."""
    slots: int
    """Offset of the addresses of `imports`, in their order."""
    imports: tuple[str, ...]
    """Symbols of CPython and of the C library."""
    exports: tuple[tuple[str, int], ...]
    """Names of the code's own global symbols, and their offsets."""


def is_image(code: bytes) -> bool:
    """Return whether these bytes are an image, not an object."""
    return code.startswith(_MAGIC)


def encode(image: Image) -> bytes:
    """Return an image as bytes, without the zeros that fill up pages."""
    begins = (0, *image.ends)
    parts = tuple([bytes(image.content[b:e]).rstrip(b"\0") for b, e in zip(begins, image.ends, strict=False)])
    return _MAGIC + marshal.dumps((image.ends, parts, *image[2:]), _MARSHAL)


def decode(code: bytes) -> Image:
    """Return the image of bytes that `encode` made. Raises EOFError, TypeError or ValueError for others."""
    ends, parts, *rest = marshal.loads(memoryview(code)[len(_MAGIC):])
    first, second, third = parts
    return Image(ends, b"".join((first.ljust(ends[0], b"\0"), second.ljust(ends[1] - ends[0], b"\0"), third)), *rest)


def load(code: bytes) -> LoadedImage:
    """Return the library of an encoded image; raises CompileError for one that is damaged or lacks a symbol."""
    try:
        return LoadedImage(decode(code))
    except (EOFError, IndexError, OverflowError, TypeError, ValueError, struct.error) as error:  # not what we write
        raise CompileError(f"damaged image of {len(code)} bytes: {error}") from None


class LoadedImage:
    """The `jitfuse.backends.llvm.loader.Library` of an image; its memory is freed when this object is dropped."""

    def __init__(self, image: Image) -> None:
        content = bytearray(image.content)
        self._pages = Pages(image.ends[DATA])
        base = self._pages.address
        for at in image.words:
            _UINT64.pack_into(content, at, base + _UINT64.unpack_from(content, at)[0])
        struct.pack_into(f"<{len(image.imports)}Q", content, image.slots, *process_addresses(image.imports))
        self._exports = dict(image.exports)
        self._base = base
        self._pages.fill(bytes(content), zip((0, *image.ends), image.ends, _ACCESS, strict=False))

    @property
    def names(self) -> frozenset[str]:
        """The global symbols of the code."""
        return frozenset(self._exports)

    def address(self, name: str) -> int:
        """Return the address of a global symbol of the code; KeyError where it has none of that name."""
        return self._base + self._exports[name]

"""Images: linked code as it is stored, which loading again copies, and adds a few addresses to.

Owns: the bytes of an image, and putting one into the process. Does not own how an object becomes one
(`jitfuse.backends.llvm.load.linker`): layout and relocation take two thirds of the time of loading an object, and come
out alike wherever it lies but for some words.
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
"""The last version of the format that writes equal values alike."""
_UINT64: Final = struct.Struct("<Q")
DAMAGED: Final = (
    ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, TypeError, ValueError, struct.error,
)
"""What comes of an image that `encode` did not make; marshal makes room for any length that it reads."""


class Image(NamedTuple):
    """Code linked for address 0. All offsets are in bytes from the begin of its pages.

    Two parts, each of whole pages: code with its constants, and data. Constants need no pages of their own: most
    kernels fit in one page so, and what the code may not write it may well execute.
    """

    code_end: int
    end: int
    parts: tuple[bytes, bytes]
    """What they hold, without the zeros behind it."""
    words: tuple[int, ...]
    """Offsets of the 64-bit words that the address of the pages is added to."""
    slots: int
    """Offset of the addresses of `imports`, in their order."""
    imports: tuple[str, ...]
    """Symbols of CPython and of the C library."""
    exports: tuple[tuple[str, int], ...]
    """Names of the code's own global symbols, and their offsets."""
    text_end: int
    """Where executable sections and what is behind them end, and constants begin."""


def is_image(code: bytes) -> bool:
    """Return whether these bytes are an image, not an object."""
    return code.startswith(_MAGIC)


def encode(image: Image) -> bytes:
    """Return an image as bytes."""
    return _MAGIC + marshal.dumps(tuple(image), _MARSHAL)


def decode(code: bytes) -> Image:
    """Return the image of bytes that `encode` made. For others it raises one of `DAMAGED`, or reading what it returns
    does."""
    return Image._make(marshal.loads(memoryview(code)[len(_MAGIC):]))


def load(code: bytes) -> LoadedImage:
    """Return the library of an encoded image; raises CompileError for one that is damaged or lacks a symbol."""
    try:
        return LoadedImage(decode(code))
    except DAMAGED as error:
        raise CompileError(f"damaged image of {len(code)} bytes: {error}") from None


class LoadedImage:
    """The `jitfuse.backends.llvm.load.loader.Library` of an image; its memory is freed when this object is dropped."""

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
    """Return the parts of an image that lies at `base`, with its own addresses and those of its imports."""
    code, data = map(bytearray, image.parts)
    for at in image.words:
        part, place = (code, at) if at < image.code_end else (data, at - image.code_end)
        _UINT64.pack_into(part, place, base + _UINT64.unpack_from(part, place)[0])
    struct.pack_into(f"<{len(image.imports)}Q", code, image.slots, *process_addresses(image.imports))
    return bytes(code), bytes(data)

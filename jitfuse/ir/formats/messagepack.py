"""A FusedProgram as MessagePack: the document of `jitfuse.ir.formats.encoding` in binary, with the same version and
checks.

Floats are IEEE doubles with all their bits, bytes are raw; integers beyond 64 bits and bytes are extension types.
Owns nothing of the document's structure.
"""
from __future__ import annotations

from typing import Any, Final

from jitfuse.base.floats import float_text, text_float
from jitfuse.errors import JitfuseError
from jitfuse.ir.formats import encoding
from jitfuse.ir.formats.decoding import program_of, unique_keys
from jitfuse.ir.schema import P, ProgramData

_BYTES: Final = 1
_INTEGER: Final = 2
_INTEGER_BYTES: Final = 1024
"""The longest integer that is read: Python can still print its digits."""


def to_messagepack(program: ProgramData) -> bytes:
    """Return the program with its sources as MessagePack bytes; `from_messagepack` gives back an equal program."""
    import msgpack  # type: ignore[import-untyped]

    packed: bytes = msgpack.packb(_packed(encoding.document(program)), use_bin_type=True)
    return packed


def from_messagepack(data: bytes, kind: type[P]) -> P:
    """Return the program that `to_messagepack` wrote, valid or not.

    Raises JitfuseError where the bytes are damaged, are another kind of document, or have an unknown version.
    """
    import msgpack

    try:
        found = _unpacked(msgpack.unpackb(data, ext_hook=_extension, object_pairs_hook=_object))
    except (ValueError, TypeError, RecursionError, MemoryError) as error:  # MemoryError: a list may claim any length
        reason = str(error) or type(error).__name__
        raise JitfuseError(f"this is no program: the bytes are not MessagePack ({reason})") from error
    return program_of(found, kind)


def _packed(value: Any) -> Any:
    """Return a part of the document with its tagged floats and bytes as MessagePack has them."""
    import msgpack

    if isinstance(value, dict):
        if value.keys() == {"float"}:
            return text_float(value["float"])
        if value.keys() == {"bytes"}:
            return msgpack.ExtType(_BYTES, encoding.text_bytes(value["bytes"]))
        return {k: _packed(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_packed(v) for v in value]
    if type(value) is int and not -(1 << 63) <= value < 1 << 64:
        return msgpack.ExtType(_INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))
    return value


def _object(pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
    if not all(isinstance(key, str) for key, _ in pairs):
        raise ValueError("a key is no string")
    return unique_keys(pairs)


def _extension(code: int, data: bytes) -> Any:
    if code == _BYTES:
        return {"bytes": encoding.bytes_text(data)}
    if code == _INTEGER and len(data) <= _INTEGER_BYTES:
        return int.from_bytes(data, "big", signed=True)
    raise ValueError(f"extension type {code} of {len(data)} bytes is unknown")


def _unpacked(value: Any) -> Any:
    """Return a part of the document as JSON has it."""
    if isinstance(value, float):
        return {"float": float_text(value)}
    if isinstance(value, dict):
        return {k: _unpacked(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_unpacked(v) for v in value]
    return value

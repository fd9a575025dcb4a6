"""The file format of one cache entry. Owns its bytes; does not own folders or policy.

    offset  size  content, integers little-endian
    0       8     magic "JITFUSE\\0"
    8       4     format version
    12      8     length of the whole file
    20      32    digest (`jitfuse.base.digests`) of everything from offset 52 on
    52      32    key
    84      20    lengths of metadata (4), canonical form (8) and code (8)
    104           metadata (JSON object, UTF-8), canonical form, code

Decoding reads lengths and copies bytes; nothing in an entry is unpickled, evaluated or imported.
"""
from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from jitfuse.base.digests import digest
from jitfuse.base.records import NamedTuple

if TYPE_CHECKING:
    from json.encoder import encode_basestring_ascii as _quoted
else:
    try:
        from _json import encode_basestring_ascii as _quoted  # json's own, without the rest of it
    except ImportError:
        from json.encoder import encode_basestring_ascii as _quoted

MAGIC = b"JITFUSE\0"
FORMAT_VERSION = 3
MAX_ENTRY_BYTES = 1 << 28
_MAX_TEXT_BYTES = 1 << 26
MAX_METADATA_BYTES = 1 << 24
_MAX_DEPTH = 32
_HEADER = struct.Struct("<8sIQ32s")
_SECTIONS = struct.Struct("<32sIQQ")
_BODY = _HEADER.size + _SECTIONS.size


class EntryError(Exception):
    """The bytes are no valid entry; never leaves the cache package."""


class Entry(NamedTuple):
    """One cached object: `code` is opaque, `canonical` is its source in canonical form, `metadata` is for people.

    `key` is 64 lower-case hex digits; `metadata` must be representable in JSON.
    """

    key: str
    metadata: Mapping[str, Any]
    canonical: bytes
    code: bytes


def is_key(text: str) -> bool:
    """Tell whether `text` is a full key: 64 lower-case hex digits, so that it is safe as a file name."""
    return len(text) == 64 and not text.strip("0123456789abcdef")


def encode(entry: Entry) -> bytes:
    """Return the bytes of `entry`. Raises ValueError or TypeError for a bad key or metadata beyond JSON."""
    if not is_key(entry.key):
        raise ValueError(f"not a cache key: {entry.key!r}")
    metadata = json_text(dict(entry.metadata)).encode()
    sections = _SECTIONS.pack(bytes.fromhex(entry.key), len(metadata), len(entry.canonical), len(entry.code))
    body = b"".join((sections, metadata, entry.canonical, entry.code))
    total = _HEADER.size + len(body)
    if total > MAX_ENTRY_BYTES:
        raise ValueError(f"an entry of {total} bytes exceeds the limit of {MAX_ENTRY_BYTES}")
    return _HEADER.pack(MAGIC, FORMAT_VERSION, total, digest(body)) + body


def json_text(value: object) -> str:
    """Return a value as JSON text with sorted keys and no white space, without importing json (1 ms).

    Raises TypeError for types that JSON lacks.
    """
    if isinstance(value, str):
        return _quoted(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        text = float.__repr__(value)
        return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(text, text)
    if isinstance(value, list | tuple):
        return f"[{','.join(map(json_text, value))}]"
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise TypeError("names in metadata are texts")
        return f"{{{','.join(f'{_quoted(name)}:{json_text(value[name])}' for name in sorted(value))}}}"
    raise TypeError(f"{type(value).__name__} is no JSON")


def decode(data: bytes, key: str) -> Entry:
    """Return the entry in `data`, which must be the one stored under `key`. Raises EntryError otherwise."""
    if len(data) < _BODY:
        raise EntryError(f"truncated to {len(data)} bytes")
    magic, version, total, checksum = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise EntryError("not a jitfuse cache entry")
    if version != FORMAT_VERSION:
        raise EntryError(f"format version {version}, this jitfuse reads {FORMAT_VERSION}")
    if total != len(data):
        raise EntryError(f"{len(data)} bytes where the header says {total}")
    if digest(memoryview(data)[_HEADER.size:]) != checksum:
        raise EntryError("checksum mismatch")
    stored, metadata_size, canonical_size, code_size = _SECTIONS.unpack_from(data, _HEADER.size)
    if _BODY + metadata_size + canonical_size + code_size != total:
        raise EntryError("section lengths do not add up")
    if stored.hex() != key:
        raise EntryError(f"holds the entry of another key, {stored.hex()[:16]}")
    canonical_at = _BODY + metadata_size
    code_at = canonical_at + canonical_size
    return Entry(key, JsonObject(data[_BODY:canonical_at]), data[canonical_at:code_at], data[code_at:])


class JsonObject(Mapping[str, Any]):
    """A JSON object that is parsed on first access; loading and running a kernel never parses it.

    It is empty if its text is no JSON object; `parse_metadata` raises instead.
    """

    def __init__(self, text: bytes) -> None:
        self.text = text
        self._parsed: dict[str, Any] | None = None

    def _content(self) -> dict[str, Any]:
        if self._parsed is None:
            try:
                self._parsed = parse_metadata(self.text)
            except EntryError:
                self._parsed = {}
        return self._parsed

    def __getitem__(self, name: str) -> Any:
        return self._content()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._content())

    def __len__(self) -> int:
        return len(self._content())

    def __repr__(self) -> str:
        return repr(self._content())


def parse_metadata(text: bytes) -> dict[str, Any]:
    """Return the JSON object in `text`. Raises EntryError where it is none."""
    import json

    if len(text) > MAX_METADATA_BYTES:
        raise EntryError(f"{len(text)} bytes of metadata, more than {MAX_METADATA_BYTES}")
    try:
        metadata = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise EntryError("metadata is not JSON") from error
    if not isinstance(metadata, dict):
        raise EntryError("metadata is not a JSON object")
    level: list[Any] = [metadata]
    for _ in range(_MAX_DEPTH):
        level = [item for value in level for item in (value.values() if isinstance(value, dict) else value)
                 if isinstance(item, dict | list)]
    if level:
        raise EntryError(f"metadata is nested deeper than {_MAX_DEPTH} times")
    return metadata


def compress_text(text: str) -> dict[str, str]:
    """Return `text` as a small JSON value, so that long listings in metadata do not slow down loading."""
    import binascii  # imported only where texts are written or shown, not where kernels are loaded
    import zlib

    packed = zlib.compress(text.encode("utf-8", "surrogatepass"), 1)
    return {"zlib": binascii.b2a_base64(packed, newline=False).decode("ascii")}


def expand_text(value: object, most: int = _MAX_TEXT_BYTES) -> str:
    """Return the text of a metadata value: a string, a result of `compress_text`, or "" if it is neither.

    At most `most` bytes are unpacked, so that a crafted entry cannot exhaust memory.
    """
    import base64
    import zlib

    if isinstance(value, str):
        return value[:most]
    packed = value.get("zlib") if isinstance(value, dict) else None
    if not isinstance(packed, str) or not most:
        return ""  # zlib takes 0 for no bound
    try:
        raw = zlib.decompressobj().decompress(base64.b64decode(packed), most)
    except (ValueError, zlib.error):
        return ""
    return raw.decode("utf-8", "replace")

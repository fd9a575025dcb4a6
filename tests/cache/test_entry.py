"""The entry format: whatever was written comes back, and nothing else is ever taken for it."""
from __future__ import annotations

import hashlib
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jitfuse.base.digests import digest
from jitfuse.cache.entry import (
    FORMAT_VERSION,
    MAX_ENTRY_BYTES,
    Entry,
    EntryError,
    compress_text,
    decode,
    encode,
    expand_text,
    is_key,
    json_text,
    parse_metadata,
)

KEY = hashlib.sha256(b"key").hexdigest()
OTHER = hashlib.sha256(b"other").hexdigest()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


def small() -> Entry:
    return Entry(KEY, {"function": "f"}, b"form", b"code")


def sealed(body: bytes, *, magic: bytes = b"JITFUSE\0", version: int = FORMAT_VERSION) -> bytes:
    """Return `body` under a header that is right for it."""
    total = (52 + len(body)).to_bytes(8, "little")
    return magic + version.to_bytes(4, "little") + total + digest(body) + body


def lengths(metadata: int, canonical: int, code: int) -> bytes:
    """Return the three lengths as the format writes them."""
    return metadata.to_bytes(4, "little") + canonical.to_bytes(8, "little") + code.to_bytes(8, "little")


@given(st.dictionaries(st.text(max_size=6), JSON, max_size=4), st.binary(max_size=64), st.binary(max_size=64))
def test_round_trip(metadata: dict[str, object], canonical: bytes, code: bytes) -> None:
    entry = Entry(KEY, metadata, canonical, code)
    assert decode(encode(entry), KEY) == entry


def test_layout_is_what_the_docstring_says() -> None:
    data = encode(small())
    metadata = b'{"function":"f"}'
    sections = lengths(len(metadata), 4, 4)
    assert data == sealed(bytes.fromhex(KEY) + sections + metadata + b"form" + b"code")


def test_truncated_at_every_length() -> None:
    data = encode(small())
    for length in range(len(data)):
        with pytest.raises(EntryError):
            decode(data[:length], KEY)


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_every_byte_flipped(flip: int) -> None:
    data = encode(small())
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= flip
        with pytest.raises(EntryError):
            decode(bytes(damaged), KEY)


def test_bytes_appended() -> None:
    with pytest.raises(EntryError, match="bytes where"):
        decode(encode(small()) + b"\0", KEY)


def test_anothers_key() -> None:
    with pytest.raises(EntryError, match="another key"):
        decode(encode(small()), OTHER)


def test_other_version_with_a_right_checksum() -> None:
    with pytest.raises(EntryError, match=f"version {FORMAT_VERSION + 1}"):
        decode(sealed(encode(small())[52:], version=FORMAT_VERSION + 1), KEY)


@pytest.mark.parametrize("claimed", [(2**32 - 1, 4, 4), (16, 2**63, 4), (16, 5, 4), (0, 0, 0)])
def test_section_lengths_that_lie_under_a_right_checksum(claimed: tuple[int, int, int]) -> None:
    body = bytearray(encode(small())[52:])
    body[32:52] = lengths(*claimed)
    with pytest.raises(EntryError, match="add up"):
        decode(sealed(bytes(body)), KEY)


@pytest.mark.parametrize("text", [b"", b"[]", b"3", b"{", b"\xff", b"[" * 100_000, pickle.dumps({})])
def test_metadata_that_is_no_json_object_reads_as_empty(text: bytes) -> None:
    sections = lengths(len(text), 4, 4)
    entry = decode(sealed(bytes.fromhex(KEY) + sections + text + b"form" + b"code"), KEY)
    assert dict(entry.metadata) == {} and entry.code == b"code"
    with pytest.raises(EntryError):
        parse_metadata(text)


@pytest.mark.parametrize("key", [
    "", "a" * 63, "a" * 65, "A" * 64, "g" * 64, "../" + "a" * 61, "a" * 63 + "\n", "a" * 63 + "\0", "٣" * 64,
])
def test_what_is_no_key(key: str) -> None:
    assert not is_key(key)
    with pytest.raises(ValueError, match="not a cache key"):
        encode(Entry(key, {}, b"", b""))


def test_metadata_beyond_json_is_our_mistake() -> None:
    with pytest.raises(TypeError):
        encode(Entry(KEY, {"x": object()}, b"", b""))


def test_same_entry_same_bytes_in_any_order_of_metadata() -> None:
    first, second = Entry(KEY, {"a": 1, "b": 2}, b"", b""), Entry(KEY, {"b": 2, "a": 1}, b"", b"")
    assert encode(first) == encode(second)


def test_an_entry_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="exceeds"):
        encode(Entry(KEY, {}, b"", bytes(MAX_ENTRY_BYTES)))



@given(JSON)
def test_metadata_is_written_as_json_writes_it(value: object) -> None:
    assert json_text(value) == json.dumps(value, sort_keys=True, separators=(",", ":"))


@given(st.text())
def test_texts_survive_json_and_compression(text: str) -> None:
    assert expand_text(json.loads(json.dumps(compress_text(text)))) == text
    assert expand_text(text) == text


@pytest.mark.parametrize("value", [None, 3, [], {}, {"zlib": 3}, {"zlib": "?"}, {"zlib": "AAAA"}])
def test_texts_that_are_none_read_as_empty(value: object) -> None:
    assert expand_text(value) == ""


def test_a_compression_bomb_stays_small() -> None:
    assert len(expand_text(compress_text("\0" * (1 << 27)))) == 1 << 26

"""The digest that names and checks what is stored: BLAKE2b of 256 bits, without the OpenSSL that `hashlib` loads."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hashlib import blake2b
else:
    try:
        from _blake2 import blake2b  # what hashlib.blake2b is, 3 ms sooner
    except ImportError:
        from hashlib import blake2b

SIZE = 32
"""Bytes of a digest."""


def new_digest() -> blake2b:
    """Return an empty digest, to be updated piece by piece."""
    return blake2b(digest_size=SIZE)


def digest(data: Any) -> bytes:
    """Return the digest of bytes or of anything with the buffer protocol."""
    return blake2b(data, digest_size=SIZE).digest()


def hex_digest(data: Any) -> str:
    """Return `digest` as 64 lower-case hexadecimal digits."""
    return blake2b(data, digest_size=SIZE).hexdigest()

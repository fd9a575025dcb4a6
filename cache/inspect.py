"""The cache as people look at it: list, find, verify, clear. Returns plain data; `render` draws it.

Reads every file it reports on, so none of this belongs on a call path. Metadata comes from files and is
checked for its type before use; a key typed by a person never becomes a path unless it is hexadecimal.
"""
from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from jitfuse.cache import folder as files
from jitfuse.cache.entry import Entry, EntryError, JsonObject, decode, parse_metadata
from jitfuse.cache.store import Store
from jitfuse.errors import ArgumentError, JitfuseError


@dataclass(frozen=True)
class EntryInfo:
    """One entry in a list. `damaged` says why it cannot be used; then only the first five fields are known.

    `size` is in bytes, `created` and `used` (the time stamp, at most a day behind) are Unix seconds.
    """

    key: str
    layer: str
    size: int
    used: float
    damaged: str | None
    function: str = ""
    source: str = ""
    backend: str = ""
    target: str = ""
    created: float = 0.0
    compile_ms: float = 0.0
    kernels: tuple[str, ...] = ()


@dataclass(frozen=True)
class VerifyReport:
    """How many entries and bytes were read, and those that cannot be used."""

    checked: int
    bytes: int
    damaged: tuple[EntryInfo, ...]


@dataclass(frozen=True)
class ClearReport:
    """How many entries and bytes were removed."""

    removed: int
    bytes: int


def list_entries(store: Store) -> list[EntryInfo]:
    """Return what is in all folders of `store`, in the order of lookup, most recently used first.

    The cache's own records (the digest of jitfuse's sources) are left out.
    """
    return [info for info, entry in _walk(store) if entry is None or entry.metadata.get("kind") != "sources"]


def find(store: Store, prefix: str) -> tuple[EntryInfo, Entry]:
    """Return the one entry whose key begins with `prefix`, hexadecimal digits in either case.

    Raises ArgumentError where `prefix` is no such thing, and JitfuseError where no entry or several match
    (the message lists them) or the entry is damaged.
    """
    wanted = prefix.lower()
    if not 1 <= len(wanted) <= 64 or wanted.strip("0123456789abcdef"):
        raise ArgumentError(
            f"{prefix[:80]!r} is no cache key: give 1 to 64 hexadecimal digits, as shown by "
            "`python -m jitfuse cache list`"
        )
    found: dict[str, tuple[EntryInfo, Entry | None]] = {}
    for layer in store.read_folders():
        for record in files.records(layer):
            if record.key.startswith(wanted) and (record.key not in found or found[record.key][1] is None):
                found[record.key] = _examine(layer, record)
    if len(found) > 1:
        several = ", ".join(key[:16] for key in sorted(found)[:8])
        raise JitfuseError(f"{len(found)} cache entries begin with {prefix}: {several}; give more digits")
    for info, entry in found.values():
        if entry is None:
            raise JitfuseError(f"the cache entry {info.key[:16]} in {info.layer} is damaged: {info.damaged}")
        return info, entry
    raise JitfuseError(f"no cache entry begins with {prefix}; `python -m jitfuse cache list` shows them all")


def verify(store: Store) -> VerifyReport:
    """Read and check every entry of every folder; damaged ones are reported and left for the next writer."""
    checked = [info for info, _ in _walk(store)]
    return VerifyReport(
        len(checked), sum(info.size for info in checked), tuple(info for info in checked if info.damaged),
    )


def clear(store: Store, older_than: float | None = None, function: str | None = None) -> ClearReport:
    """Remove entries of the write layer, and those in memory; read layers are never touched.

    `older_than` (seconds) keeps what was used since; `function` keeps what another function made, compared
    with the whole recorded name or its last part. Without either everything goes, damaged entries too.
    """
    store.memory.clear()
    store.flush()
    layer = store.layers.write
    if layer is None:
        return ClearReport(0, 0)
    horizon = None if older_than is None else time.time() - older_than
    removed = size = 0
    for record in list(files.records(layer)):
        if horizon is not None and record.used > horizon:
            continue
        if function is not None and not _made_by(function, _examine(layer, record)[0].function):
            continue
        if files.remove(layer, record.key):
            removed, size = removed + 1, size + record.size
    files.remove_abandoned(layer)
    return ClearReport(removed, size)


def _made_by(wanted: str, recorded: str) -> bool:
    return recorded == wanted or recorded.rpartition(".")[2] == wanted


def _walk(store: Store) -> Iterator[tuple[EntryInfo, Entry | None]]:
    for layer in store.read_folders():
        for record in sorted(files.records(layer), key=lambda record: (-record.used, record.key)):
            yield _examine(layer, record)


def _examine(layer: str, record: files.FileRecord) -> tuple[EntryInfo, Entry | None]:
    try:
        data, _ = files.read(files.entry_path(layer, record.key))
        entry = decode(data, record.key)
        if isinstance(entry.metadata, JsonObject):
            parse_metadata(entry.metadata.text)
    except OSError as error:
        return EntryInfo(record.key, layer, record.size, record.used, str(error.strerror)), None
    except EntryError as error:
        return EntryInfo(record.key, layer, record.size, record.used, str(error)), None
    metadata = entry.metadata
    kernels = metadata.get("kernels")
    info = EntryInfo(
        record.key, layer, record.size, record.used, None,
        _text(metadata, "function"), _text(metadata, "source"), _text(metadata, "backend"),
        _text(metadata, "target"), _number(metadata, "created"), _number(metadata, "compile_ms"),
        tuple(str(name) for name in kernels) if isinstance(kernels, list) else (),
    )
    return info, entry


def _text(metadata: Mapping[str, object], name: str) -> str:
    value = metadata.get(name)
    return value if isinstance(value, str) else ""


def _number(metadata: Mapping[str, object], name: str) -> float:
    value = metadata.get(name)
    return float(value) if isinstance(value, int | float) and abs(value) < 1e15 else 0.0

"""The cache as people see it: list, filter, find, verify, clear. Returns plain data; `render` draws it.

Reads every file that it reports on, so none of this belongs on a call path. Metadata comes from files: its types are
checked before use. A key typed by a person becomes a path only if it is hexadecimal.
"""
from __future__ import annotations

import fnmatch
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from jitfuse.cache import folder as files
from jitfuse.cache import location, metadata, usage
from jitfuse.cache.entry import Entry, EntryError, JsonObject, decode, parse_metadata
from jitfuse.cache.parts import key_from_parts, recorded_parts
from jitfuse.cache.store import Store
from jitfuse.errors import ArgumentError, JitfuseError


@dataclass(frozen=True)
class EntryInfo:
    """One entry in a list. `damaged` says why it cannot be used; then only the first five fields are known.

    `size` is in bytes, `created` and `used` (the time stamp, at most a day late) are Unix seconds, `source` is
    file:line, `hits` is how often processes loaded it. `claimed` names the fields that only an archive vouches for:
    nothing here has computed them again.
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
    hits: int = 0
    claimed: tuple[str, ...] = ()


@dataclass(frozen=True)
class VerifyReport:
    """How many entries and bytes were read, and the entries that cannot be used."""

    checked: int
    bytes: int
    damaged: tuple[EntryInfo, ...]


@dataclass(frozen=True)
class ClearReport:
    """How many entries and bytes were removed."""

    removed: int
    bytes: int


@dataclass(frozen=True)
class UsageTotals:
    """The content and use of all folders: entries by backend, functions that made them, loads from disk, milliseconds
    of compiling, and milliseconds that loads have saved."""

    backends: Mapping[str, int]
    functions: int
    loads: int
    compile_ms: float
    saved_ms: float


def list_entries(store: Store) -> list[EntryInfo]:
    """Return the entries of all folders of `store`, in lookup order, most recently used first in each.

    The cache's own records (the digest of jitfuse's sources) are left out.
    """
    hits = hit_counts(store)
    shown = [info for info, entry in walk(store) if entry is None or entry.metadata.get("kind") is None]
    return [replace(info, hits=hits.get(info.key, 0)) for info in shown]


def hit_counts(store: Store) -> Mapping[str, int]:
    """Return how often each entry was loaded: the counts in the folders' records, plus this process's since."""
    total = Counter(store.unwritten_hits)
    for layer in store.read_folders():
        total.update(usage.counts(layer))
    return total


def usage_totals(store: Store) -> UsageTotals:
    """Return sums over all entries that are not damaged."""
    entries = [info for info in list_entries(store) if info.damaged is None]
    return UsageTotals(
        dict(Counter(info.backend for info in entries)), len({(info.function, info.source) for info in entries}),
        sum(info.hits for info in entries), sum(info.compile_ms for info in entries),
        sum(info.hits * info.compile_ms for info in entries),
    )


SORTINGS: Mapping[str, Callable[[EntryInfo], Any]] = {
    "key": lambda info: info.key,
    "function": lambda info: info.function,
    "source": lambda info: (info.source.rpartition(":")[0], _line(info.source)),
    "backend": lambda info: info.backend,
    "target": lambda info: info.target,
    "size": lambda info: -info.size,
    "age": lambda info: -info.created,
    "used": lambda info: -info.used,
    "hits": lambda info: -info.hits,
    "compile": lambda info: -info.compile_ms,
}
"""Sort orders of a list: texts from A to Z, numbers from the largest down, times from the latest back."""


def _line(source: str) -> int:
    number = source.rpartition(":")[2]
    return int(number) if number.isdecimal() and len(number) < 10 else 0


def chosen(
    entries: Iterable[EntryInfo], function: str | None = None, backend: str | None = None, source: str | None = None,
    target: str | None = None, older_than: float | None = None,
) -> list[EntryInfo]:
    """Return the entries that pass all of the given filters.

    `function` is a name or a pattern such as ``model.*``, compared with the whole recorded name and with its last part.
    `source` and `target` are substrings of the recorded values. `older_than` is in seconds since the last use.
    """
    horizon = None if older_than is None else time.time() - older_than
    return [
        info for info in entries
        if (function is None or _made_by(function, info.function)) and (backend is None or info.backend == backend)
        and (source is None or source in info.source) and (target is None or target in info.target)
        and (horizon is None or info.used <= horizon)
    ]


def find(store: Store, prefix: str) -> tuple[EntryInfo, Entry]:
    """Return the one entry whose key begins with `prefix`, hexadecimal digits in either case.

    Raises ArgumentError if `prefix` is not hexadecimal, and JitfuseError if no entry or several match (the message
    lists them) or the entry is damaged.
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
        return replace(info, hits=hit_counts(store).get(info.key, 0)), entry
    raise JitfuseError(f"no cache entry begins with {prefix}; `python -m jitfuse cache list` shows them all")


def verify(store: Store) -> VerifyReport:
    """Read and check every entry of every folder; damaged ones are reported, and left for the next writer.

    Checks more than loading does: if an entry records the parts of its key, the key is recomputed and compared.
    """
    checked = [_verified(info, entry) for info, entry in walk(store)]
    return VerifyReport(
        len(checked), sum(info.size for info in checked), tuple(info for info in checked if info.damaged),
    )


def _verified(info: EntryInfo, entry: Entry | None) -> EntryInfo:
    if entry is None or recorded_parts(entry.metadata) is None or key_from_parts(entry) == entry.key:
        return info
    return replace(info, damaged="its key is not made of its parts and its canonical form")


def clear(store: Store, older_than: float | None = None, function: str | None = None) -> ClearReport:
    """Remove entries of the write layer, and those in memory; read layers are never touched.

    `older_than` (seconds) keeps entries used since then; `function`, as in `chosen`, keeps those that other functions
    made. Without either, everything is removed, damaged entries too.
    """
    store.memory.clear()
    store.flush()
    layer = store.layers.write
    if layer is None or location.trusted_folder(layer) is None:
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
    usage.fold(layer)
    return ClearReport(removed, size)


def _made_by(wanted: str, recorded: str) -> bool:
    return any(name == wanted or fnmatch.fnmatchcase(name, wanted) for name in (recorded, recorded.rpartition(".")[2]))


def walk(store: Store) -> Iterator[tuple[EntryInfo, Entry | None]]:
    """Yield every file, folder by folder, the most recently used first, with its entry, or None if damaged."""
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
    stated = entry.metadata
    info = EntryInfo(
        record.key, layer, record.size, record.used, None,
        metadata.text(stated, "function"), metadata.text(stated, "source"), metadata.text(stated, "backend"),
        metadata.text(stated, "target"), metadata.moment(stated, "created"), metadata.number(stated, "compile_ms"),
        metadata.names(stated, "kernels"), claimed=tuple(sorted(metadata.claimed(stated))),
    )
    return info, entry

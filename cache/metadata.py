"""Read an entry's metadata as untrusted data: check types, bound sizes, make texts printable.

Metadata is for people: no decision depends on it. It comes from files, and `cache import` takes it from archives, so
every reader for people uses this module. Owns the bounds of what is read and shown. Does not own the file format
(`entry`) or layout (`render`).
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from jitfuse.base.records import NamedTuple
from jitfuse.cache.entry import expand_text

LISTINGS: Final = ("program", "forms", "ir", "wgsl")
"""Names of the listings in an entry's metadata."""
MOST_SHOWN: Final = 1 << 22
"""Characters of all listings of an entry that are shown together."""
MOST_COMPARED: Final = 1 << 16
"""Characters of a listing compared with another: the time of comparing grows faster than their number."""
_MOST_NAME: Final = 500
MOST_NAMES: Final = 1000
_MOST_PROGRAM: Final = 1 << 16
_LAST_SECOND: Final = 253_402_300_799
"""The end of the year 9999, beyond which there are no dates."""
_CUT: Final = " ..."


class Listings(NamedTuple):
    """Listings by name, and the names of those that are cut short."""

    texts: dict[str, str]
    cut: tuple[str, ...]


def text(metadata: Mapping[str, Any], name: str) -> str:
    """Return a short text; "" where there is none."""
    value = metadata.get(name)
    return shortened(value) if isinstance(value, str) else ""


def number(metadata: Mapping[str, Any], name: str) -> float:
    """Return a number from 0 on; 0 if there is none that makes sense."""
    value = metadata.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
        return 0.0
    return float(value)


def moment(metadata: Mapping[str, Any], name: str) -> float:
    """Return a point in time in Unix seconds; 0 where there is none."""
    seconds = number(metadata, name)
    return seconds if seconds <= _LAST_SECOND else 0.0


def names(metadata: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return a list of short texts; () where there is none."""
    value = metadata.get(name)
    found = value[:MOST_NAMES] if isinstance(value, list) else []
    return tuple([shortened(item) for item in found if isinstance(item, str)])


def claimed(metadata: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the fields that only an archive vouches for; all other fields were computed here."""
    return frozenset(names(metadata, "claimed"))


def claims(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields that only an entry's maker knows, printable and short: whose code it is, of which program."""
    named = {name: printable(text(metadata, name)) for name in ("function", "source")}
    return {**named, "program": printable(listings(metadata, ["program"], _MOST_PROGRAM).texts["program"])}


def listings(metadata: Mapping[str, Any], wanted: Iterable[str] = LISTINGS, most: int = MOST_SHOWN) -> Listings:
    """Unpack listings up to `most` characters in total; later text and later listings are cut."""
    found, cut = {}, []
    for name in wanted:
        unpacked = expand_text(metadata.get(name), most + 1)
        if len(unpacked) > most:
            unpacked = unpacked[:most]
            cut.append(name)
        found[name] = unpacked
        most -= len(unpacked)
    return Listings(found, tuple(cut))


def plain(value: Any, most: int = 2000) -> str:
    """Return any value of metadata as one short text."""
    if isinstance(value, Mapping):
        items = [f"{shortened(name)} {plain(item, most)}" for name, item in _few(sorted(value.items()))]
        return shortened(", ".join(items), most)
    if isinstance(value, list | tuple):
        return shortened(", ".join([plain(item, most) for item in _few(value)]), most)
    return shortened(value if isinstance(value, str) else str(value), most)


def _few(items: Any) -> Any:
    return items[:MOST_NAMES]


def shortened(value: str, most: int = _MOST_NAME) -> str:
    """Return a text, cut where it has more characters than `most`."""
    return value if len(value) <= most else value[:most] + _CUT


def printable(value: str) -> str:
    """Return a text with characters that a terminal could take for commands replaced; line ends and tabs stay."""
    return "".join([c if c.isprintable() or c in "\n\t" else "\ufffd" for c in value])

"""Record the parts of a key in an entry's metadata, so that keys can be checked and compared.

Owns how parts are written in JSON, and the texts about parts that differ. `keys` makes the keys themselves; loading
never uses this module.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jitfuse.base.records import NamedTuple
from jitfuse.cache import metadata as entry_metadata
from jitfuse.cache.entry import Entry, expand_text
from jitfuse.cache.keys import Part, cache_key

_MEANING = {
    "abi": "the layout of tables that the call path reads",
    "adapter": "the GPU, its driver or wgpu",
    "backend": "the backend",
    "entry_format": "the format of cache entries",
    "jitfuse": "jitfuse's version",
    "level": "the level of code generation",
    "machine": "the processor, or the build of llvmlite",
    "numpy_abi": "NumPy's binary interface",
    "python_abi": "Python's binary interface",
    "runtime": "the part of the runtime",
    "sources": "jitfuse's own code-generating sources",
}
_CODE = ("form", "forms", "the kernel forms")


class Difference(NamedTuple):
    """One part in which two keys differ: its name, what it means, and both values as text for people."""

    part: str
    meaning: str
    first: str
    second: str


def describe(parts: Mapping[str, Part], canonical_part: str | None) -> dict[str, Any]:
    """Return metadata that records a key's parts; the part that the entry holds as its canonical form is only named."""
    shown = {name: _to_json(value) for name, value in parts.items() if name != canonical_part}
    return {"key_parts": shown, "key_canonical": canonical_part}


def recorded_parts(metadata: Mapping[str, Any]) -> dict[str, Part] | None:
    """Return the parts in an entry's metadata without the canonical form, or None where none are recorded."""
    parts = metadata.get("key_parts")
    if not isinstance(parts, Mapping):
        return None
    try:
        return {str(name): _from_json(value) for name, value in parts.items()}
    except (TypeError, ValueError, RecursionError):
        return None


def key_from_parts(entry: Entry) -> str | None:
    """Return the key that results from an entry's parts and canonical form; None if it records no such parts."""
    parts = recorded_parts(entry.metadata)
    if parts is None:
        return None
    name = entry.metadata.get("key_canonical")
    try:
        return cache_key(parts if name is None else {**parts, str(name): entry.canonical})
    except (TypeError, RecursionError):
        return None


def differences(first: Entry, second: Entry) -> list[Difference]:
    """Return the parts in which two entries' keys differ, the code's own first; none for equal keys."""
    found = []
    if first.canonical != second.canonical:
        found.append(Difference(*_CODE[1:], _forms_summary(first), _forms_summary(second)))
    a, b = recorded_parts(first.metadata) or {}, recorded_parts(second.metadata) or {}
    for name in sorted(a.keys() | b.keys()):
        if name not in a or name not in b or (type(a[name]), a[name]) != (type(b[name]), b[name]):
            found.append(Difference(name, _MEANING.get(name, "an option"), *_values_of(name, first, second)))
    return found


def forms_text(entry: Entry) -> str:
    """Return the kernel forms of an entry as text for people; of many, as many as can be compared."""
    return entry_metadata.listings(entry.metadata, ["forms"], entry_metadata.MOST_COMPARED).texts["forms"]


def _forms_summary(entry: Entry) -> str:
    count = len(entry_metadata.names(entry.metadata, "kernels"))
    return f"{count} kernel{'' if count == 1 else 's'}, {len(entry.canonical)} bytes of canonical form"


def _values_of(name: str, first: Entry, second: Entry) -> tuple[str, str]:
    """Return both values of a part as text; of long lists only the items that the other one lacks."""
    values = [(recorded_parts(e.metadata) or {}).get(name) for e in (first, second)]
    a, b = values
    if name == "machine":
        found = _processors(first, second)
        if found is not None:
            return found
    if isinstance(a, tuple) and isinstance(b, tuple):
        known = [set(map(repr, x)) for x in (b, a)]  # items may be unhashable lists, and many
        only = [tuple(word for word in x if repr(word) not in k) for x, k in zip((a, b), known, strict=True)]
        return _plain(only[0]) or "(the same words)", _plain(only[1]) or "(the same words)"
    return _plain(a), _plain(b)


def _processors(first: Entry, second: Entry) -> tuple[str, str] | None:
    """Return the model and the features that the other processor lacks; None if they do not differ."""
    texts = []
    most = entry_metadata.MOST_COMPARED
    features = [set(expand_text(e.metadata.get("features"), most).split(",")) for e in (first, second)]
    for k, entry in enumerate((first, second)):
        more = sorted(f[1:] for f in features[k] - features[1 - k] if f.startswith("+"))
        target = entry_metadata.text(entry.metadata, "target")
        texts.append(f"{target}{' with ' + ' '.join(more) if more else ''}")
    return None if texts[0] == texts[1] else (texts[0], texts[1])


def _plain(value: Part) -> str:
    """Return a part as text for people."""
    return "absent" if value is None else entry_metadata.plain(value.hex() if isinstance(value, bytes) else value)


def _to_json(value: Part) -> Any:
    if isinstance(value, tuple):
        return [_to_json(item) for item in value]
    return {"hex": value.hex()} if isinstance(value, bytes) else value


def _from_json(value: Any) -> Part:
    if isinstance(value, list):
        return tuple([_from_json(item) for item in value])
    if isinstance(value, dict):
        return bytes.fromhex(value["hex"]) if value.keys() == {"hex"} else _reject(value)
    return value if value is None or isinstance(value, str | int) else _reject(value)


def _reject(value: Any) -> Part:
    raise TypeError(f"no part of a key: {type(value).__name__}")

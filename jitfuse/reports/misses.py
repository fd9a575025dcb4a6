"""Why the last new call of a function was new: the text of `FusedFunction.explain_miss`.

Owns the comparison of compiled kernels with the cache's entries, made when the report is. Which conditions failed comes
from `jitfuse.compile.guards.mismatch`. Decides nothing.
"""
from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Final

from jitfuse.cache import Entry, Store, default_store
from jitfuse.cache.inspect import EntryInfo, walk
from jitfuse.cache.parts import differences, forms_text
from jitfuse.cache.render import form_changes, format_age_since, short_path

_LINES: Final = 30
"""Most lines shown of a difference between kernel forms."""


def explain_miss(
    name: str, known: int, why: Sequence[str] | None, missed: Sequence[tuple[str, Entry | None]], use_cache: bool
) -> str:
    """Return the report: what was new in the last traced call, and in the kernels compiled for it.

    `known` counts signatures; `why` is None if no call was traced yet; `missed` has the keys missing from the
    cache, with their entries.
    """
    if why is None:
        return f"{name}: no call was new so far"
    lines = [f"{name}: the last call that was new became signature {known}"]
    if why:
        lines += ["the nearest of the signatures before it differs in", *(f"  {line}" for line in why)]
    else:
        lines.append("there was no signature before it")
    if not missed:
        lines.append("nothing was compiled: its kernels were in the cache, or in this process already")
    for key, entry in missed:
        if not use_cache:
            lines.append(f"kernel {key[:12]} was compiled: cache=False skips the cache")
        else:
            lines += _kernel_lines(key, entry, default_store())
    return "\n".join(lines)


def _kernel_lines(key: str, entry: Entry | None, store: Store) -> list[str]:
    lines = [f"kernel {key[:12]} was compiled: it was not in the cache"]
    near = nearest(entry, store) if entry is not None else None
    if entry is None or near is None:
        return [*lines, "  the cache holds nothing else of this function, and nothing with the same kernel forms"]
    info, other = near
    lines.append(
        f"  the nearest entry is {info.key[:12]} of {info.function}, {short_path(info.source)}, "
        f"made {format_age_since(info.created)}; it differs in"
    )
    for found in differences(other, entry):
        if found.part == "forms":
            changed = form_changes(other, entry)[2:]
            lines += [f"  {found.meaning}", *(f"    {line}" for line in changed[:_LINES])]
            lines += [f"    and {len(changed) - _LINES} lines more"] * (len(changed) > _LINES)
        else:
            lines.append(f"  {found.part} ({found.meaning}): was {found.first}, is {found.second}")
    return lines


def nearest(entry: Entry, store: Store) -> tuple[EntryInfo, Entry] | None:
    """Return the entry most similar to `entry`, of its function or of the same kernel forms.

    The order: fewest differing parts of the key, most similar kernel forms, newest. Reads the whole cache.
    """
    function, backend = entry.metadata.get("function"), entry.metadata.get("backend")
    found = [
        (info, other) for info, other in walk(store)
        if other is not None and other.key != entry.key and info.backend == backend
        and (info.function == function or other.canonical == entry.canonical)
    ]
    text = forms_text(entry).splitlines()

    def distance(pair: tuple[EntryInfo, Entry]) -> tuple[int, float, float]:
        alike = difflib.SequenceMatcher(None, forms_text(pair[1]).splitlines(), text, autojunk=False).ratio()
        return len(differences(pair[1], entry)), -alike, -pair[0].created

    return min(found, key=distance, default=None)

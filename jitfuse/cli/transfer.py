"""``jitfuse cache export`` and ``import``: which entries of an archive are taken, and the report on the rest.

An archive is never trusted: each entry is rebuilt from its kernel form, and if that gives the same code, the rebuilt
one is taken, with listings of its own. With ``--unchecked`` the user vouches for the file instead, and all its metadata
is marked as its claim.
"""
from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jitfuse.cache import Entry, Store, default_store
from jitfuse.cli.output import print_json, progress
from jitfuse.errors import JitfuseError

if TYPE_CHECKING:
    from jitfuse.compile.rebuild import Remade

_SHOWN = 20


def export_entries(options: argparse.Namespace) -> int:
    """Write the entries that pass the filters, with the runtime, to one file."""
    from jitfuse.cache import inspect
    from jitfuse.cache.archive import write_archive
    from jitfuse.cache.render import format_bytes

    store = default_store()
    kernels = [(i, entry) for i, entry in inspect.walk(store) if entry and entry.metadata.get("kind") is None]
    chosen = inspect.chosen([info for info, _ in kernels], options.function, options.backend, options.source)
    wanted = {info.key for info in chosen}
    taken = {info.key: entry for info, entry in reversed(kernels) if info.key in wanted}  # the first folder wins
    size = write_archive(options.file, list(taken.values()), replace=options.force)
    if options.json:
        print_json({"file": options.file, "entries": len(taken), "bytes": size, "keys": sorted(taken)})
    else:
        print(f"{len(taken)} exported to {options.file} ({format_bytes(size)})")
    return 0


@dataclasses.dataclass
class _Report:
    """The results of an import: `skipped` entries are of other machines or versions; `refused` says why, per entry."""

    imported: int = 0
    present: int = 0
    skipped: int = 0
    refused: list[str] = dataclasses.field(default_factory=list)


def import_entries(options: argparse.Namespace) -> int:
    """Import entries from an archive; exit code 1 if one is damaged or differs from its rebuilt code."""
    from jitfuse.cache.archive import read_archive

    store, report = default_store(), _Report()
    if store.layers.write is None:
        raise JitfuseError("there is no cache folder to import into; `python -m jitfuse doctor` says why")
    for number, item in enumerate(read_archive(options.file, owned=options.unchecked), 1):
        progress(f"entry {number}")
        if isinstance(item, str):
            report.refused.append(item)
        else:
            _take(item, store, report, options.unchecked)
    progress("")
    if options.json:
        print_json(dataclasses.asdict(report))
    else:
        _print(report, store)
    return 1 if report.refused else 0


def _take(entry: Entry, store: Store, report: _Report, unchecked: bool) -> None:
    from jitfuse.compile.rebuild import Verdict, remade

    if not _lacks(store, entry):
        report.present += 1
        return
    found = _believed(entry) if unchecked else remade(entry)
    if found.verdict is Verdict.FOREIGN:
        report.skipped += 1
    elif found.entry is None:
        report.refused.append(f"{entry.key[:16]}: {found.text}")
    elif _stored(store, found.entry):
        report.imported += 1
        for reference in _references(found.entry):
            if _lacks(store, reference):
                store.store(reference, count=False)
    else:
        report.refused.append(f"{entry.key[:16]}: it could not be written")


def _stored(store: Store, entry: Entry) -> bool:
    """Store an entry; return False for one that grows too large when its metadata is written in ASCII."""
    try:
        return store.store(entry, count=False)
    except ValueError:
        return False


def _believed(entry: Entry) -> Remade:
    """Return an entry unchanged, if its key fits its content, with all its metadata marked as claims."""
    from jitfuse.cache.entry import MAX_METADATA_BYTES, json_text
    from jitfuse.cache.metadata import MOST_NAMES
    from jitfuse.cache.parts import key_from_parts
    from jitfuse.compile.rebuild import Remade, Verdict

    if key_from_parts(entry) != entry.key:
        return Remade(Verdict.MISNAMED)
    stated = {name: value for name, value in entry.metadata.items() if name != "claimed"}
    if len(stated) > MOST_NAMES or len(json_text(stated)) > MAX_METADATA_BYTES:
        return Remade(Verdict.BROKEN, "its metadata is too large")
    return Remade(Verdict.SAME, "", entry._replace(metadata={**stated, "claimed": sorted(stated)}))


def _lacks(store: Store, entry: Entry) -> bool:
    """Return whether a store lacks an entry, or has only a reference there, whose object may be gone."""
    held = store.load(entry.key, entry.canonical, count=False)
    return held is None or held.metadata.get("kind") == "reference"


def _references(entry: Entry) -> Iterator[Entry]:
    """Return the references to an object's kernels, which archives do not contain."""
    from jitfuse.cache.parts import key_from_parts
    from jitfuse.compile.objects.kernel_object import references

    native = entry.metadata.get("backend") == "llvm"
    return references(entry, lambda form: str(key_from_parts(entry._replace(canonical=form)))) if native else iter(())


def _print(report: _Report, store: Store) -> None:
    from jitfuse.cache.metadata import printable

    print(f"{report.imported} imported into {store.layers.write}, {report.present} already there, "
          f"{len(report.refused)} refused")
    if report.skipped:
        print(f"{report.skipped} skipped: made for other machines or by other versions, where nothing can be made "
              "again to compare. --unchecked takes them, if whoever wrote the file may run code as you.")
    for why in report.refused[:_SHOWN]:
        print(f"  {printable(why)}")
    if len(report.refused) > _SHOWN:
        print(f"  and {len(report.refused) - _SHOWN} more")

"""Draws what `inspect` returns with rich. Owns layout and wording; prints nothing itself.

Texts come from files, so they are shown as text: no markup is interpreted, and control characters, which a
terminal would obey, are replaced.
"""
from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from jitfuse.cache import metadata as entry_metadata
from jitfuse.cache.entry import Entry
from jitfuse.cache.inspect import EntryInfo
from jitfuse.cache.listing import highlighted
from jitfuse.cache.metadata import printable
from jitfuse.cache.parts import differences, forms_text, recorded_parts

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

CLAIM = " (says the archive)"
"""Text behind values that only an archive vouches for."""
_TITLES = {
    "program": "program that it was first made for", "forms": "kernel forms", "ir": "LLVM IR", "wgsl": "WGSL",
    "asm": "machine code",
}
_LISTED = (
    "function", "source", "backend", "target", "kernels", "compile_ms", "created", "features", "key_parts",
    "key_canonical", "claimed",
)
_MOST_FACTS = 100
_MOST_COLOURED = 1 << 16
"""Characters of all listings of an entry that are shown in colours: colouring takes 0.1 ms per line."""
_COLUMNS = {
    "key": "cyan", "function": "bold", "file:line": "", "backend": "", "target": "dim", "size": "", "age": "",
    "used": "", "hits": "", "compile ms": "",
}
"""The columns of a list and their styles."""
_WIDE = 100
_WIDE_ONLY = ("target", "used")
_UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"))


def entries_table(entries: Iterable[EntryInfo], now: float | None = None, width: int = _WIDE) -> Table:
    """Return a table with a row for each entry; ages count from `now`, in Unix seconds.

    On less than `_WIDE` columns, the target and the last use are left out.
    """
    from rich.table import Table
    from rich.text import Text

    now = time.time() if now is None else now
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title, style in _COLUMNS.items():
        if width >= _WIDE or title not in _WIDE_ONLY:
            right = title in ("size", "age", "used", "hits", "compile ms")
            folds = title in ("function", "file:line", "target")
            table.add_column(
                title, style=style, justify="right" if right else "left", no_wrap=not folds, overflow="fold"
            )
    for info in entries:
        function = info.function + (CLAIM if "function" in info.claimed else "")
        source = short_path(info.source) + (CLAIM if "source" in info.claimed else "")
        cells = [info.key[:12], function, source, info.backend, short_target(info.target)]
        cells.append(format_bytes(info.size))
        if info.damaged is None:
            ages = [format_age(now - info.created) if info.created else "", format_age(now - info.used)]
            cells += [*ages, f"{info.hits:,}", f"{info.compile_ms:.1f}"]
        else:
            cells[1] = f"damaged: {info.damaged}"
            cells += [""] * (len(_COLUMNS) - len(cells))
        shown = [c for t, c in zip(_COLUMNS, cells, strict=True) if width >= _WIDE or t not in _WIDE_ONLY]
        table.add_row(*[Text(printable(cell)) for cell in shown], style=None if info.damaged is None else "red")
    return table


def show_entry(info: EntryInfo, entry: Entry, listing: str | None = None, only: Collection[str] = ()) -> Group:
    """Return everything about one entry: its metadata, then program, kernel forms and code as text.

    `listing` is the disassembly, where there is one; `only` names the parts to show (`PARTS`), all of them by default.
    """
    from rich.console import Group
    from rich.rule import Rule
    from rich.table import Table
    from rich.text import Text

    texts, cut = entry_metadata.listings(entry.metadata)
    texts["asm"] = listing or ""
    colours = _MOST_COLOURED
    parts: list[Table | Rule | Text] = []
    if not only or "metadata" in only:
        facts = Table(box=None, show_header=False, pad_edge=False)
        for name, value in _facts(info, entry):
            facts.add_row(Text(name, style="bold"), Text(printable(value)))
        parts.append(facts)
    for name, text in texts.items():
        if text and (not only or name in only):
            title = _TITLES[name] + (CLAIM if name in info.claimed else "")
            title += f" (cut: more than {entry_metadata.MOST_SHOWN:,} characters of listings)" if name in cut else ""
            colours -= len(text)
            shown = highlighted(printable(text), name) if colours >= 0 else Text(printable(text))
            parts += [Rule(Text(title, style="bold"), align="left"), shown]
    return Group(*parts)


def diff_entries(first: tuple[EntryInfo, Entry], second: tuple[EntryInfo, Entry]) -> Group:
    """Return the parts in which two entries' keys differ, with both values, and the change of the kernel forms."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    found = differences(first[1], second[1])
    heads = [f"{info.key[:12]} {info.function} {short_path(info.source)}{CLAIM if info.claimed else ''}"
             for info, _ in (first, second)]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title, style in (("differs", "bold yellow"), (printable(heads[0]), "red"), (printable(heads[1]), "green")):
        table.add_column(Text(title), style=style, overflow="fold")
    for part, meaning, *values in found:
        name = part if meaning == part else f"{part} ({meaning})"
        table.add_row(*[Text(printable(cell)) for cell in (name, *values)])
    shared = sorted((recorded_parts(first[1].metadata) or {}).keys() - {d.part for d in found})
    lines = Text("\n".join(printable(line) for line in form_changes(first[1], second[1])))
    lines.highlight_regex(r"(?m)^-.*$", "red")
    lines.highlight_regex(r"(?m)^\+.*$", "green")
    if not found:
        return Group(Text("the keys are equal"))
    same = printable(", ".join(shared)) or "nothing that is recorded"
    return Group(table, Text(f"\nthe same in both: {same}\n"), lines)


def form_changes(first: Entry, second: Entry) -> list[str]:
    """Return the kernel forms' unified difference, line by line; none where they are equal."""
    import difflib

    texts = [forms_text(entry) for entry in (first, second)]
    a, b = (text.splitlines() for text in texts)
    lines = list(difflib.unified_diff(a, b, first.key[:12], second.key[:12], n=2, lineterm=""))
    if max(map(len, texts)) >= entry_metadata.MOST_COMPARED:
        lines.append(f"(of their first {entry_metadata.MOST_COMPARED:,} characters)")
    return lines


def _facts(info: EntryInfo, entry: Entry) -> list[tuple[str, str]]:
    def marked(name: str, text: str) -> str:
        return text + CLAIM if name in info.claimed and text else text

    facts = [("key", info.key), ("folder", info.layer), ("function", marked("function", info.function))]
    facts += [("file:line", marked("source", info.source)), ("backend", marked("backend", info.backend))]
    facts += [("target", marked("target", info.target)), ("kernels", ", ".join(info.kernels))]
    facts += [("compile", marked("compile_ms", f"{info.compile_ms:.1f} ms"))]
    for name, seconds in (("created", info.created), ("used", info.used)):
        if seconds:
            facts.append((name, time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))))
    facts += [("hits", f"{info.hits:,}"), ("file", format_bytes(info.size)), ("code", format_bytes(len(entry.code)))]
    for name, value in sorted(entry.metadata.items())[:_MOST_FACTS]:
        if name not in entry_metadata.LISTINGS and name not in _LISTED:
            facts.append((entry_metadata.shortened(printable(name)), marked(name, entry_metadata.plain(value))))
    for name, part in sorted((recorded_parts(entry.metadata) or {}).items())[:_MOST_FACTS]:
        facts.append((f"key: {entry_metadata.shortened(printable(name))}", entry_metadata.plain(part)))
    return facts


def short_path(source: str) -> str:
    """Return file:line relative to the working folder or with ``~`` for the home folder, where that is shorter."""
    try:
        here = os.getcwd()
    except OSError:  # it was removed
        here = os.sep
    for folder, prefix in ((here, ""), (os.path.expanduser("~"), f"~{os.sep}")):
        if folder != os.sep and source.startswith(folder + os.sep):
            return prefix + source[len(folder) + 1 :]
    return source


def short_target(target: str) -> str:
    """Return a native target without what follows the processor's family in the triple; others as they are."""
    triple, _, cpu = target.partition(" ")
    return f"{triple.partition('-')[0]} {cpu}" if cpu and triple.count("-") >= 2 else target


def format_bytes(size: int) -> str:
    """Return `size` in bytes as people read it: ``812 B``, ``10.2 KiB``."""
    value, units = float(size), ["B", "KiB", "MiB", "GiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{value:.0f} B" if units[0] == "B" else f"{value:.1f} {units[0]}"


def format_age_since(moment: float) -> str:
    """Return how long ago a moment was, in Unix seconds."""
    age = format_age(time.time() - moment)
    return age if age == "now" else f"{age} ago"


def format_age(seconds: float) -> str:
    """Return a time span in its largest whole unit: ``3 d``, ``12 min``; what lies ahead counts as now."""
    for length, unit in _UNITS:
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return "now"

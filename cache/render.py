"""Draws what `inspect` returns with rich. Owns layout and wording; prints nothing itself.

Texts come from files, so they are shown as text: no markup is interpreted, and control characters, which a
terminal would obey, are replaced.
"""
from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from jitfuse.cache.entry import Entry, expand_text
from jitfuse.cache.inspect import EntryInfo

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

_TEXTS = ("program", "forms", "ir", "wgsl")
_LEXERS = {"ir": "llvm", "wgsl": "wgsl"}
_LISTED = ("function", "source", "backend", "target", "kernels", "compile_ms", "created")
_UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"))


def entries_table(entries: Iterable[EntryInfo], now: float | None = None) -> Table:
    """Return a table with a row for each entry; ages count from `now`, in Unix seconds."""
    from rich.table import Table
    from rich.text import Text

    now = time.time() if now is None else now
    table = Table(box=None, pad_edge=False)
    for title in ("key", "function", "source", "backend", "target"):
        table.add_column(title, overflow="fold")
    for title in ("size", "age", "used", "compile ms"):
        table.add_column(title, justify="right", no_wrap=True)
    for info in entries:
        cells = [info.key[:12], info.function, info.source, info.backend, info.target]
        cells.append(format_bytes(info.size))
        if info.damaged is None:
            ages = [format_age(now - info.created) if info.created else "", format_age(now - info.used)]
            cells += [*ages, f"{info.compile_ms:.1f}"]
        else:
            cells[1] = f"damaged: {info.damaged}"
        style = None if info.damaged is None else "red"
        table.add_row(*[Text(printable(cell)) for cell in cells], style=style)
    return table


def show_entry(info: EntryInfo, entry: Entry) -> Group:
    """Return everything about one entry: its metadata, then program, kernel forms and code as text."""
    from rich.console import Group
    from rich.rule import Rule
    from rich.syntax import Syntax
    from rich.table import Table
    from rich.text import Text

    facts = Table(box=None, show_header=False, pad_edge=False)
    for name, value in _facts(info, entry):
        facts.add_row(Text(name, style="bold"), Text(printable(value)))
    parts: list[Table | Rule | Syntax] = [facts]
    for name in _TEXTS:
        text = expand_text(entry.metadata.get(name))
        if text:
            parts += [Rule(name, align="left"), Syntax(printable(text), _LEXERS.get(name, "text"))]
    return Group(*parts)


def _facts(info: EntryInfo, entry: Entry) -> list[tuple[str, str]]:
    facts = [("key", info.key), ("folder", info.layer), ("function", info.function), ("source", info.source)]
    facts += [("backend", info.backend), ("target", info.target), ("kernels", ", ".join(info.kernels))]
    facts += [("compile", f"{info.compile_ms:.1f} ms")]
    if info.created:
        facts.append(("created", time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(info.created))))
    facts += [("file", format_bytes(info.size)), ("code", format_bytes(len(entry.code)))]
    for name, value in sorted(entry.metadata.items()):
        if name not in _TEXTS and name not in _LISTED:
            facts.append((name, _plain(value)))
    return facts


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_plain(item)}" for name, item in sorted(value.items()))
    return ", ".join(map(_plain, value)) if isinstance(value, list) else str(value)


def printable(text: str) -> str:
    """Return `text` with what a terminal could take for a command replaced; line ends and tabs stay."""
    return "".join([c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text])


def format_bytes(size: int) -> str:
    """Return `size` in bytes as people read it: ``812 B``, ``10.2 KiB``."""
    value, units = float(size), ["B", "KiB", "MiB", "GiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{value:.0f} B" if units[0] == "B" else f"{value:.1f} {units[0]}"


def format_age(seconds: float) -> str:
    """Return a time span in its largest whole unit: ``3 d``, ``12 min``; what lies ahead counts as now."""
    for length, unit in _UNITS:
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return "now"

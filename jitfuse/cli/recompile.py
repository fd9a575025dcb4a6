"""``jitfuse cache verify --recompile``: rebuilds each entry's code from its kernel form, and compares.

Owns the counts of the results. Does not own how an entry is rebuilt (`jitfuse.compile.rebuild`).
"""
from __future__ import annotations

import dataclasses
from typing import Any

from jitfuse.cache import Store
from jitfuse.cli.output import progress


@dataclasses.dataclass
class Recompiled:
    """How many entries were the same, which differ (key, folder, why), and how many cannot be rebuilt here: those
    of other machines and versions, and those that are too large."""

    same: int = 0
    foreign: int = 0
    different: list[tuple[str, str, str]] = dataclasses.field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return the counts, and the entries that differ."""
        rows = [{"key": key, "layer": layer, "why": why} for key, layer, why in self.different]
        return {"same": self.same, "foreign": self.foreign, "different": rows}

    def show(self) -> None:
        """Print the counts, and the entries that differ."""
        from jitfuse.cache.metadata import printable

        print(f"{self.same} compiled again with the same code, {len(self.different)} with another, {self.foreign} left "
              "out: of other machines or versions, or too large")
        for key, layer, why in self.different:
            print(f"  {key[:16]} in {layer}: {printable(why)}")
        if self.different:
            print("An entry that differs was damaged before it was written, or somebody made it: remove its file.")


def recompiled(store: Store) -> Recompiled:
    """Recompile every kernel of a store; skips damaged entries, plans and references.

    An entry without the parts of its key counts as foreign: nothing here can have stored it.
    """
    from jitfuse.cache.inspect import walk
    from jitfuse.compile.rebuild import Verdict, remade

    report = Recompiled()
    for number, (info, entry) in enumerate(walk(store), 1):
        if entry is None or entry.metadata.get("kind") is not None:
            continue
        progress(f"entry {number}: {info.key[:12]}, {len(report.different)} differ")
        found = remade(entry)
        if found.verdict is Verdict.SAME:
            report.same += 1
        elif found.verdict in (Verdict.FOREIGN, Verdict.UNKNOWN_KEY, Verdict.TOO_LARGE):
            report.foreign += 1
        else:
            report.different.append((info.key, info.layer, found.text))
    progress("")
    return report

"""The parts of a fused function, and its tables of signatures by key.

Does not own a table's contents (`jitfuse.function.table`) or how calls are answered (`jitfuse.function.pipeline`).
"""
from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from jitfuse.backends.llvm.runtime.callable import NativeCallable
from jitfuse.compile.interface import Specialisation
from jitfuse.compile.native_entries import NativeEntries
from jitfuse.function.call import PLAIN, Key
from jitfuse.function.counters import Counters
from jitfuse.function.definition import Definition
from jitfuse.function.options import Options
from jitfuse.function.pipeline import go_on
from jitfuse.function.table import SignatureTable

if TYPE_CHECKING:
    from jitfuse.function.autograd import Gradients


class Parts:
    """The parts of one fused function. `plain` is the table of calls whose arguments native code reads directly."""

    def __init__(self, function: NativeCallable, fn: Callable[..., Any], options: Options) -> None:
        self.definition = Definition(fn, options)
        self.counters = Counters(self.definition.name, strict=options.strict)
        self.entries = NativeEntries(self.definition.training, named=not self.definition.hands_on_mode)
        """The native entries that are tried with the caller's own arguments."""
        self.entries.serve(function)
        self.make: Any = type(function)
        """What makes another fused function, of a function and its options."""
        self.gradients: Gradients | None = None
        """Its passes for torch's autograd, once a call has needed them; None where there are none."""
        self._lock = threading.Lock()
        self.plain = self._table(PLAIN, self.entries)
        self._tables = {PLAIN: self.plain}
        self.settled: dict[Hashable, SignatureTable] = {}
        """Tables that run as plain Python, by the types of the arguments that lead to them."""

    def table(self, key: Key) -> SignatureTable:
        """Return the table of a key: torch promotes differently, and RNG states have to be written back."""
        with self._lock:
            found = self._tables.get(key)
            if found is None:
                found = self._tables[key] = self._table(key, NativeEntries(self.definition.training))
        return found

    def _table(self, key: Key, entries: NativeEntries) -> SignatureTable:
        return SignatureTable(key, self.definition, self.counters, self.entries, entries, go_on)

    @property
    def tables(self) -> list[SignatureTable]:
        """All tables."""
        return list(self._tables.values())

    @property
    def specs(self) -> list[Specialisation]:
        """The signatures of all tables, the newest of each first."""
        return [spec for table in self.tables for spec in table.specs]

    def renew_locks(self) -> None:
        """Replace the locks in a forked child: threads that do not exist there may have held the old ones."""
        self._lock = threading.Lock()
        for table in self.tables:
            table.renew_locks()

"""Queries that compute again only what changed: every message stays, and new evidence reaches those on its way alone.

Owns which records a change reaches. Does not own what runs them (`native.py`).
"""
from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitfuse.factors.assembly import Assembled
from jitfuse.factors.native import run_table
from jitfuse.factors.plans import Plan
from jitfuse.factors.queries import QUERIES
from jitfuse.factors.semirings import Semiring
from jitfuse.factors.work import ITEMSIZE
from jitfuse.ir.semirings import words as r

FRESH: Final = 1e-60
"""Where messages had smaller elements, all is computed again: nobody knows if those that had them still do."""
Row = tuple[int, int]
"""A table: its stack, and its row there."""


class Updates:
    """The messages of the last run of each query."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, str, Semiring, np.dtype[Any]], Held] = {}
        self.ran = 0
        """Records that the last query ran."""

    def run(
        self, plan: Plan, query: str, semiring: Semiring, stacks: Sequence[np.ndarray], dtype: Any
    ) -> tuple[Any, float]:
        """Return what `Plan.run` returns."""
        ready = [np.ascontiguousarray(stack, dtype) for stack in stacks]
        if any(plan.batched(stacks)):
            return plan.run(query, semiring, stacks, dtype)
        table = plan.table(query, (False,) * len(stacks), 1, reuses=False)
        if (table.workspace + table.size) * ITEMSIZE > plan.question.limit_bytes:
            return plan.run(query, semiring, stacks, dtype)
        key = id(table), query, semiring, np.dtype(dtype)
        held = self._held.get(key)
        if held is None or held.least < FRESH:
            held = self._held[key] = Held(table, (np.empty(table.workspace, dtype), np.empty(table.size, dtype)))
            part = table
        else:
            part = held.reached(held.changed(ready))
        self.ran = part.count
        slots, least = run_table(part, semiring, ready, dtype, memory=held.memory)
        held.stacks, held.least = ready, min(held.least, least)
        return QUERIES[query].read(plan, slots), held.least


class Held:
    """A table of records, its memory after the last run, and what each record reads."""

    def __init__(self, table: Assembled, memory: tuple[np.ndarray, np.ndarray]) -> None:
        self.table, self.memory, self.least = table, memory, np.inf
        self.stacks: list[np.ndarray] = []
        self._records: list[np.ndarray] = []
        place = 0
        while place < len(table.code):
            length = int(table.code[place + r.LENGTH])
            self._records.append(table.code[place : place + length])
            place += length
        starts = sorted((*record[r.OUT : r.OUT + 2].tolist(), number) for number, record in enumerate(self._records))
        firsts = [(memory, first) for memory, first, _ in starts]
        self._writers = [
            [starts[bisect_right(firsts, tuple(record[at : at + 2].tolist())) - 1][2] for at in (r.A, r.B)
             if record[at] in (r.WORKSPACE, r.RESULT)] for record in self._records
        ]
        self._tables = [[(int(record[at]) - r.STACKS, int(record[at + 1])) for at in (r.A, r.B)
                         if record[at] >= r.STACKS] for record in self._records]

    def changed(self, stacks: Sequence[np.ndarray]) -> set[Row]:
        """Return the tables that are not what they were, by stack and first element."""
        found: set[Row] = set()
        for number, (old, new) in enumerate(zip(self.stacks, stacks)):
            if old is not new:
                size = new[0].size
                rows = (old.reshape(len(old), -1) != new.reshape(len(new), -1)).any(axis=1)
                found.update((number, int(row) * size) for row in np.flatnonzero(rows))
        return found

    def reached(self, tables: set[Row]) -> Assembled:
        """Return the records that read changed tables, or what such records write."""
        reached = [False] * len(self._records)
        for number, (writers, read) in enumerate(zip(self._writers, self._tables)):
            reached[number] = any(reached[w] for w in writers) or not tables.isdisjoint(read)
        kept = [record for record, yes in zip(self._records, reached) if yes]
        code = np.concatenate(kept) if kept else np.zeros(0, np.int64)
        return self.table.replace(code=code, count=len(kept))


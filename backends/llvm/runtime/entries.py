"""State blocks and entries: the words of one fused function, and of each of its signatures.

Does not own guards (`jitfuse.backends.llvm.runtime.entry_builder`) or plans
(`jitfuse.backends.llvm.runtime.plan_table`).
"""
from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from jitfuse.backends.llvm.runtime.layout import EntryField as EntryWord
from jitfuse.backends.llvm.runtime.layout import StateField
from jitfuse.backends.llvm.runtime.plan_table import Plan, PlanBuilder
from jitfuse.backends.llvm.runtime.words import Words

Handler = Callable[[Any, int], object]
"""``handler(site, status)``: raises for a status that a kernel returned, or that a CHECK found in memory.

Where it returns, the call goes to the miss handler, and no argument has been written.
"""


class StateBlock:
    """The words of one fused function: its entries, its miss handler, its default mode, its counters.

    named: the keyword `training` is the mode of a call; otherwise it is like any other.
    """

    def __init__(self, miss: Callable[..., Any], *, training: bool = False, named: bool = True) -> None:
        self._entries: list[NativeEntry] = []
        name = sys.intern("training" if named else "\0")
        self._words = Words([0, id(miss), int(training), id(name), 0, 0], keep=(miss, name))

    @property
    def address(self) -> int:
        """The address to attach a callable with."""
        return self._words.address

    @property
    def entries(self) -> tuple[NativeEntry, ...]:
        """The entries in the order in which calls try them."""
        return tuple(reversed(self._entries))

    def prepend(self, entry: NativeEntry) -> None:
        """Make calls try this entry first; running calls continue with the old list."""
        assert entry not in self._entries
        entry.words[EntryWord.NEXT] = self._words[StateField.FIRST_ENTRY]
        self._entries.append(entry)
        self._words[StateField.FIRST_ENTRY] = entry.words.address

    @property
    def launches(self) -> int:
        """How many kernel launches were run."""
        return self._words[StateField.LAUNCHES]

    @property
    def misses(self) -> int:
        """How many calls went to the miss handler."""
        return self._words[StateField.MISSES]


class NativeEntry:
    """One signature of a fused function: guards, and a plan for each mode that has been compiled."""

    def __init__(self, words: Words, values: int, keywords: tuple[str, ...]) -> None:
        self.words = words
        self.keywords = keywords
        self._values = values
        self._plans: dict[bool, Plan] = {}

    @property
    def answers(self) -> int:
        """How many calls it has answered."""
        return self.words[EntryWord.ANSWERS]

    def plan_builder(self) -> PlanBuilder:
        """Return a builder for a plan that runs under this entry's guards."""
        return PlanBuilder(self.words[EntryWord.SLOTS], self.words[EntryWord.CELLS], self._values)

    def plan(self, training: bool) -> Plan | None:
        """Return the plan of a mode; None where calls in that mode miss."""
        return self._plans.get(training)

    def set_plan(self, *, training: bool, plan: Plan) -> None:
        """Set the plan of a mode; a replaced plan stays alive for the calls that are running it."""
        if training in self._plans:
            self.words.keep(self._plans[training])
        self._plans[training] = plan
        self.words[EntryWord.TRAINING if training else EntryWord.EVALUATION] = plan.address

    def drop_plan(self, *, training: bool) -> None:
        """Let calls in a mode miss this entry; its plan stays alive for the calls that are running it."""
        if training in self._plans:
            self.words.keep(self._plans.pop(training))
            self.words[EntryWord.TRAINING if training else EntryWord.EVALUATION] = 0

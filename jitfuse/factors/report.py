"""What a query costs, before it runs: the text of `FactorGraph.plan`."""
from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

from jitfuse.base.records import Record
from jitfuse.factors.orders.search import Ordered
from jitfuse.factors.plans import Plan
from jitfuse.factors.rewrites.pipeline import explain


class Report(Record, frozen=True, eq=False):
    """The figures of a plan.

    order       all variables, in the order of elimination
    width       number of variables of the largest table
    states      log2 of its number of elements
    bytes       of the messages at once, for the partition function
    kept_bytes  of all messages, for marginals
    operations  products of two numbers
    ordered     what each method found
    plan        the programs
    """

    order: tuple[Hashable, ...]
    width: int
    states: float
    bytes: int
    kept_bytes: int
    operations: int
    ordered: Ordered
    plan: Plan

    @classmethod
    def of(cls, plan: Plan, names: Sequence[Hashable]) -> Report:
        """Return the report of a plan; names of the variables by number."""
        cost = plan.ordered.cost
        return cls(tuple([names[v] for v in plan.ordered.order]), cost.width, cost.states, cost.bytes(),
                   cost.bytes(keep=True), cost.operations, plan.ordered, plan)

    def __str__(self) -> str:
        head = ", ".join(map(str, self.order[:12])) + (", ..." if len(self.order) > 12 else "")
        lines = [
            f"order: {head}",
            f"width {self.width}: the largest table has 2^{self.states:.1f} numbers",
            f"{self.operations:,} products",
            f"{self.bytes:,} bytes of messages at once, {self.kept_bytes:,} if all are kept (marginals)",
            f"found by {self.ordered.found_by}",
        ]
        lines += [f"  {c.method}: " + (f"largest 2^{c.states:.1f}, all tables together 2^{c.total:.1f}"
                                       if math.isfinite(c.total) else f"given up at a table of 2^{c.states:.1f}")
                  for c in self.ordered.candidates]
        name = dict(zip(self.ordered.order, self.order))
        lines.append("ways, the best first:")
        for way in self.plan.ways(every=True):
            on = f" on {', '.join(str(name[v]) for v in way.modes)}" if way.modes else ""
            score = way.score
            lines.append(
                f"  {way.name}{on}: {score.runs:,} x {len(way.tree.nodes):,} steps, {score.work:,} of work, "
                f"{score.peak:,} bytes at once, {score.kept:,} of all messages"
                + (f", {score.excess:,} beyond the limit" if score.excess else ""))
        return "\n".join(lines)

    def explain(self) -> str:
        """Return these figures, and the program of the partition function before and after each pass over it."""
        return f"{self}\n\n{explain(self.plan.partition_passes)}"

"""When long runs of equal iterations become loops: from how many ops and iterations on.

Does not own how they are found, nor what they become (`jitfuse.tracing.control.reroll.rerolling`).
"""
from __future__ import annotations

from jitfuse.tracing.record.graph import ProcessGraph
from jitfuse.tracing.schedule.translator import Boundary

ROLLED_OPS = 256
"""Ops from which on equal iterations become a loop: fewer compile in tenths of a second, and fuse better."""
ROLLED_OPS_OF_MANY = 32
"""The same where many programs are compiled for one call."""
ROLLED_OPS_ELSEWHERE = 4096
"""The same for a GPU, where loops go through the host."""
ROLLED_ITERATIONS = 16
ROLLED_ITERATIONS_OF_MANY = 4
"""The same where many programs are compiled for one call: each round that is written out makes kernels of its own."""


def roll_long(
    graph: ProcessGraph, boundary: Boundary, on_host: bool, *, many: bool = False
) -> tuple[ProcessGraph, Boundary]:
    """Return the graph and what it delivers, with long runs of equal iterations as loops; `many`: shorter ones too."""
    least = ROLLED_OPS_OF_MANY if many else ROLLED_OPS if on_host else max(ROLLED_OPS, ROLLED_OPS_ELSEWHERE)
    if len(graph.ops) < least:
        return graph, boundary
    from jitfuse.tracing.control.reroll.rerolling import rolled
    from jitfuse.tracing.control.reroll.run import Limits  # few programs have long runs

    return rolled(graph, boundary, Limits(least, ROLLED_ITERATIONS_OF_MANY if many else ROLLED_ITERATIONS))

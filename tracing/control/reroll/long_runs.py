"""When long runs of equal iterations become loops: the least numbers of ops and iterations.

Does not own how they are found, nor what they become (`jitfuse.tracing.control.reroll.rerolling`).
"""
from __future__ import annotations

from jitfuse.tracing.record.graph import ProcessGraph
from jitfuse.tracing.schedule.translator import Boundary

REROLLED_OPS = 256
"""Fewest ops of equal iterations that become a loop: fewer ops compile in tenths of a second, and fuse better."""
REROLLED_OPS_OF_MANY = 32
"""The same where many programs are compiled for one call."""
REROLLED_OPS_ELSEWHERE = 4096
"""The same for a GPU, where loops go through the host."""
REROLLED_ITERATIONS = 16
REROLLED_ITERATIONS_OF_MANY = 4
"""The same where many programs are compiled for one call: each unrolled iteration adds kernels."""


def reroll_long(
    graph: ProcessGraph, boundary: Boundary, on_host: bool, *, many: bool = False, merges: bool = True
) -> tuple[ProcessGraph, Boundary]:
    """Return the graph and what it delivers, with long runs of equal iterations as loops.

    `many`: shorter ones too. `merges`: several short iterations may become one of the loop, which takes less time.
    """
    least = REROLLED_OPS_OF_MANY if many else REROLLED_OPS if on_host else max(REROLLED_OPS, REROLLED_OPS_ELSEWHERE)
    if len(graph.ops) < least:
        return graph, boundary
    from jitfuse.tracing.control.reroll.rerolling import reroll
    from jitfuse.tracing.control.reroll.run import RerollLimits  # few programs have long runs

    iterations = REROLLED_ITERATIONS_OF_MANY if many else REROLLED_ITERATIONS
    return reroll(graph, boundary, RerollLimits(least, iterations, merges))

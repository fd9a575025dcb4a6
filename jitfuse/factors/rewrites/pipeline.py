"""The tuple of passes over register programs: each takes a valid program and returns one that fills the same slots.

None changes which tensors are multiplied with which, nor in which order: no tree of products is built anew, no inputs
change places, no sum moves before a product. A STORE_SLOT stays before the LOAD_SLOT that reads it.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jitfuse.base.lazy import cached_property
from jitfuse.base.records import NamedTuple, Record
from jitfuse.factors.ir.schema import Program
from jitfuse.factors.ir.text import to_text
from jitfuse.factors.rewrites.common_subexpressions import common_subexpressions
from jitfuse.factors.rewrites.dead_code import dead_code
from jitfuse.factors.rewrites.free_early import free_early
from jitfuse.factors.rewrites.fuse_eliminations import fuse_eliminations
from jitfuse.factors.rewrites.levels import by_level, levels
from jitfuse.factors.rewrites.pooling import peak, pool

Pass = Callable[[Program], Program]
PASSES: Final[tuple[Pass, ...]] = (free_early, dead_code, common_subexpressions, fuse_eliminations, by_level)
NEVER_MORE: Final = frozenset({free_early, fuse_eliminations})
"""Passes that hold no more bytes at once, whatever the program: registers only go earlier, or are smaller."""


class Figures(NamedTuple):
    """How many instructions a program has, and the bytes that registers and slots hold at once, at most."""

    instructions: int
    bytes: int


class Step(Record, frozen=True):
    """What a pass did: its name, the program before and what it returned, and whether that was taken.

    The figures of both programs are counted when asked for.
    """

    name: str
    given: Program
    made: Program
    taken: bool

    @cached_property
    def before(self) -> Figures:
        """Those of the program before."""
        return _figures(self.given)

    @cached_property
    def after(self) -> Figures:
        """Those of what the pass returned."""
        return _figures(self.made)


class Rewritten(Record, frozen=True):
    """A program before and after the passes, and what each of them did."""

    given: Program
    program: Program
    steps: tuple[Step, ...]


def rewritten(program: Program, *, limit: int = 0) -> Rewritten:
    """Return what `PASSES` make of a valid program.

    What a pass returns is taken where it holds no more bytes at once than the program before, or at most `limit`.
    """
    current, steps = program, []
    before: int | None = None
    for rewrite in PASSES:
        made, after = rewrite(current), before
        taken = True
        if made is not current:
            after = None
            if rewrite not in NEVER_MORE:
                before = peak(current) if before is None else before
                after = peak(made)
                taken = after <= max(before, limit)
        steps.append(Step(rewrite.__name__, current, made, taken))
        if taken:
            current, before = made, after
    return Rewritten(program, current, tuple(steps))


def _figures(program: Program) -> Figures:
    return Figures(len(program.instructions), peak(program))


def explain(done: Rewritten) -> str:
    """Return what each pass did, the levels and the pool of the last program, and both programs, as text."""
    lines = [f"{'pass':<22} {'instructions':>18} {'bytes at once':>26}"]
    for step in done.steps:
        counts = f"{step.before.instructions} -> {step.after.instructions}"
        amounts = f"{step.before.bytes} -> {step.after.bytes}"
        lines.append(f"{step.name:<22} {counts:>18} {amounts:>26}{'' if step.taken else '  not taken: more memory'}")
    groups, shared = levels(done.program), pool(done.program)
    widest = max(map(len, groups), default=0)
    return "\n".join((
        *lines, f"{len(groups)} levels, at most {widest} instructions at once",
        f"registers: {shared.before} bytes apart, {shared.after} pooled in {len(shared.sizes)} entries",
        "", "before:", to_text(done.given), "", "after:", to_text(done.program),
    ))

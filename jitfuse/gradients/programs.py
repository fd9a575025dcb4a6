"""Derivatives of whole programs: a program in, a program of its values and their changes out.

Feeds keep their ids, and their order among themselves; cotangents or tangents are further feeds, behind them. Owns the
two transforms. Does not own rules, nor programs in steps (`jitfuse.gradients.bodies`).
"""
from __future__ import annotations

from collections.abc import Sequence

from jitfuse.base.records import NamedTuple
from jitfuse.gradients.bodies import differentiated, pruned
from jitfuse.gradients.loops import prepared
from jitfuse.gradients.modes import pull_back, push_forward
from jitfuse.gradients.values import Tensor, fitted, is_smooth, zeros_like
from jitfuse.ir.formats.phases import BACKWARD, TANGENT, in_phase
from jitfuse.ir.program import FusedProgram, Meta
from jitfuse.tracing.program_builder import ProgramBuilder, rewrite


class Derivative(NamedTuple):
    """A program with its changes.

    program   its outputs are those of the function, then the changes, named ``d0``, ``d1``, ...
    forward   how many of its steps compute the function alone; they come first
    changes   the feeds of the given cotangents or tangents, in order
    """

    program: FusedProgram
    forward: int
    changes: tuple[int, ...]

    def last(self) -> Derivative:
        """Return the same for programs that are not differentiated again."""
        own, program = {step.step_id for step in self.program.steps[: self.forward]}, differentiated(self.program)
        return self._replace(program=program, forward=sum(step.step_id in own for step in program.steps))


def reverse(
    program: FusedProgram, wanted: Sequence[int], names: Sequence[str] | None = None, masked: bool = False,
    checkpointed: bool = False,
) -> Derivative:
    """Return the program with the cotangents of feeds, given those of its outputs of float or complex dtype.

    `names`: those of the outputs that have cotangents; None: all. `masked`: a choice behind the program has set
    cotangents to zero. `checkpointed`: its loops keep few carries.

    Equal steps are shared first: their cotangents add up in one. Later each has cotangents of its own, which nothing
    could share, and of a recursion that computes the same again there are exponentially many.
    """
    program = prepared(rewrite(program, share=True), wanted, checkpointed)
    builder = ProgramBuilder.behind(program)
    outputs = _smooth_outputs(builder, program, names)
    changes = [builder.placeholder(_strong(program.meta[i])) for i in outputs]
    given: dict[int, Tensor] = {}
    for i, feed in zip(outputs, changes, strict=True):
        given[i] = given[i].add(builder.tensor(feed)) if i in given else builder.tensor(feed)
    found = pull_back(builder, program.steps, given, set(wanted), set(given) if masked else set())
    return _finished(builder, program, changes, [found.get(i) for i in wanted], [builder.tensor(i) for i in wanted],
                     BACKWARD)


def forward(program: FusedProgram, moved: Sequence[int], names: Sequence[str] | None = None) -> Derivative:
    """Return the program with the tangents of its outputs of float or complex dtype, given those of feeds.

    `names`: those of the outputs that have tangents; None: all.
    """
    if "rolled_loop" in program.op_names:
        program = prepared(program, moved)
    builder = ProgramBuilder.behind(program)
    changes = [builder.placeholder(_strong(program.meta[i])) for i in moved]
    known = push_forward(builder, program.steps, {i: builder.tensor(c) for i, c in zip(moved, changes, strict=True)})
    outputs = _smooth_outputs(builder, program, names)
    return _finished(builder, program, changes, [known.get(i) for i in outputs], [builder.tensor(i) for i in outputs],
                     TANGENT)


def _smooth_outputs(builder: ProgramBuilder, program: FusedProgram, names: Sequence[str] | None) -> list[int]:
    found = program.outputs.values() if names is None else [program.outputs[name] for name in names]
    return [i for i in found if is_smooth(builder.tensor(i))]


def _strong(meta: Meta) -> Meta:
    return meta._replace(weak=False)


def _finished(
    builder: ProgramBuilder, program: FusedProgram, changes: Sequence[int], found: Sequence[Tensor | None],
    likes: Sequence[Tensor], phase: str,
) -> Derivative:
    made = [zeros_like(like) if x is None else fitted(x, like) for x, like in zip(found, likes, strict=True)]
    outputs = {**program.outputs, **{f"d{k}": x.id for k, x in enumerate(made)}}
    feeds = program.feeds | set(changes)
    whole = pruned(builder.finish({}, outputs=outputs, feeds=feeds))
    own = {s.step_id for s in program.steps}
    whole = whole.replace(sources={n: s if n in own else in_phase(s, phase) for n, s in whole.sources.items()})
    return Derivative(whole, sum(s.step_id in own for s in whole.steps), tuple(changes))

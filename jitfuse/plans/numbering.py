"""Turn drafts into the stages of a form: find the live nodes and number their values.

Owns liveness and numbering. A `Numbering` makes the stages of one form over given operands and axes; another form may
number the same nodes again.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jitfuse.base.floats import exact_text
from jitfuse.ir.kernels.stages import Contraction, Instr, Reduction, Stage
from jitfuse.plans.launch import Check
from jitfuse.plans.nodes import INNER, Node, OperandDraft
from jitfuse.plans.stages import StageDraft


class Numbering:
    """Numbers nodes through all stages of a form and collects the parameters that they use.

    `axis_of` maps an axis of the body to the form's. `live` are the identities of the nodes to keep.
    """

    def __init__(
        self, operands: Sequence[OperandDraft], axis_of: Mapping[int, int], live: set[int],
        given_params: Sequence[tuple[str, Any]],
    ) -> None:
        self.params: list[tuple[str, Any]] = []
        self.checks: list[Check] = []
        self.literals: list[str] = []
        """The literals that forms specialise on, as exact text: == does not distinguish 0.0 and -0.0, 1 and True."""
        self._operands = operands
        self._axis_of = axis_of
        self._live = live
        self._given = given_params
        self._next = 0

    def instructions(self, nodes: Sequence[Node]) -> tuple[Instr, ...]:
        """Return the live nodes as instructions, and number them."""
        made = []
        for node in nodes:
            if id(node) in self._live:
                self.take(node)
                made.append(self._instruction(node))
        return tuple(made)

    def take(self, node: Node) -> None:
        """Give a node the next number."""
        node.number = self._next
        self._next += 1

    def stages(self, drafts: Sequence[StageDraft], *, looping: bool) -> tuple[Stage, ...]:
        """Return the stages of drafts; `looping`: whether the form has inner axes."""
        stages = []
        for draft in drafts:
            body = self.instructions(draft.nodes)
            reductions = []
            for step, operand, result in draft.reductions:
                reductions.append(Reduction(step.op_name, operand.dtype, (operand.number,)))
                self.take(result)
            if draft.contraction is not None:
                left, right = draft.contraction
                contraction = Contraction("sum", "multiply", left.dtype, left.number, right.number)
                stages.append(Stage("contract", body, (), contraction))
                continue
            kind = self._kind(draft, bool(reductions), looping)
            if body or reductions:
                stages.append(Stage(kind, body, tuple(reductions)))
        return tuple(stages)

    def _kind(self, draft: StageDraft, reduces: bool, looping: bool) -> str:
        if any(n.op == "scan" and id(n) in self._live for n in draft.nodes):
            return "scan"
        return "reduce" if reduces else "map" if looping and loops(draft, self._live) else "point"

    def _instruction(self, node: Node) -> Instr:
        imm = node.imm
        if node.op in ("load", "store"):
            imm = (self._operands.index(imm[0]), *imm[1:])
        elif node.op == "index":
            imm = self._axis_of[imm]
        elif node.op == "param":
            self.params.append(self._given[imm])
            imm = len(self.params) - 1
        elif node.op == "const":
            self.literals.append(exact_text(imm))
        elif node.op == "bounded":
            self.checks.append(imm)
            imm = len(self.checks) - 1
        return Instr(node.op, node.dtype, tuple(a.number for a in node.args), imm)


def live_nodes(stages: Sequence[StageDraft]) -> set[int]:
    """Return the identities of the nodes that a store, a kept row or a reduction needs."""
    ends: list[Node] = []
    for stage in stages:
        ends += [n for n in stage.nodes if n.op in ("store", "keep")]
        ends += [operand for _, operand, _ in stage.reductions]
        ends += stage.contraction or ()
    return needed(ends)


def needed(ends: Sequence[Node]) -> set[int]:
    """Return the identities of these nodes and of all nodes behind them."""
    live: set[int] = set()
    stack = list(ends)
    while stack:
        node = stack.pop()
        if id(node) not in live:
            live.add(id(node))
            stack.extend(node.args)
    return live


def used_operands(stages: Sequence[StageDraft], live: set[int]) -> list[OperandDraft]:
    """Return the operands that live nodes load and store, in the order of their first use."""
    found: dict[int, OperandDraft] = {}
    for stage in stages:
        for node in stage.nodes:
            if id(node) in live and node.op in ("load", "store"):
                found.setdefault(id(node.imm[0]), node.imm[0])
    return list(found.values())


def loops(stage: StageDraft, live: set[int]) -> bool:
    """Return whether a stage does anything for each inner element."""
    return bool(stage.reductions) or any(n.level == INNER for n in stage.nodes if id(n) in live)


def parted(stage: StageDraft, live: set[int]) -> list[StageDraft]:
    """Take stores per grid point out of a stage that loops: a loop without iterations must not skip them."""
    once = any(n.op == "store" and n.level < INNER for n in stage.nodes)
    if stage.contraction is not None or not loops(stage, live) or not once:
        return [stage]
    before, loop = StageDraft(), StageDraft()
    before.nodes = [n for n in stage.nodes if n.level < INNER]
    loop.nodes = [n for n in stage.nodes if n.level == INNER]
    loop.reductions = stage.reductions
    return [before, loop]

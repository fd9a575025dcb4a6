"""Stages and their nodes: the store in which a kernel's body is built.

Owns `StageDraft` and `NodeTable`, which makes every node once per stage and holds parameters. Does not own the meaning
of nodes.
"""
from __future__ import annotations

from typing import Any

from jitfuse.base.floats import exact_text
from jitfuse.ir.program import OpStep
from jitfuse.plans.nodes import INNER, POINT, UNIFORM, Node


class StageDraft:
    """The nodes of one stage in creation order, and its reductions (step, operand, result).

    `contraction`: the two sides of the stage's sum of products.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.reductions: list[tuple[OpStep, Node, Node]] = []
        self.contraction: tuple[Node, Node] | None = None


class NodeTable:
    """The nodes and parameters of a kernel under construction; `n_grid` axes are grid axes."""

    def __init__(self, n_grid: int) -> None:
        self.n_grid = n_grid
        self.stages: list[StageDraft] = []
        self.params: list[tuple[str, Any]] = []
        self._unique: dict[Any, Node] = {}

    def node(self, op: str, dtype: str, args: tuple[Node, ...] = (), imm: Any = None, level: int = UNIFORM) -> Node:
        """Return the node of an operation, made once in each stage (once at all below inner level)."""
        for arg in args:
            if arg.level > level:
                level = arg.level
        # nodes and operands are keyed by identity; literals by text, which distinguishes 0.0 from -0.0 and 1 from True
        key = (op, dtype, args, exact_text(imm) if op == "const" else imm, len(self.stages) if level == INNER else -1)
        found = self._unique.get(key)
        if found is None:
            found = self._unique[key] = Node(op, dtype, args, imm, level)
            self.stages[-1].nodes.append(found)
        return found

    def index_node(self, part: Any) -> Node:
        """Return an index as an int64 node; numbers derived from shapes are parameters."""
        if isinstance(part, Node):
            return part
        total: Node | None = None if part.const == 0 and part.terms else self.number(part.const)
        for axis, coefficient in part.terms:
            level = INNER if axis >= self.n_grid else POINT
            term = self.times(self.node("index", "int64", (), axis, level), coefficient)
            total = term if total is None else self.node("add", "int64", (total, term))
        assert total is not None
        return total

    def times(self, node: Node, factor: int) -> Node:
        """Return an index times a number derived from shapes."""
        return node if factor == 1 else self.node("multiply", "int64", (node, self.number(factor)))

    def number(self, value: int) -> Node:
        """Return a number derived from shapes as an int64 parameter."""
        return self.param("int64", value)

    def param(self, dtype: str, value: Any) -> Node:
        """Return a new scalar parameter of the launch."""
        made = Node("param", dtype, (), len(self.params))
        self.params.append((dtype, value))
        self.stages[-1].nodes.append(made)
        return made

    def compare(self, op: str, a: Node, number: int) -> Node:
        """Return the comparison of an index with a number derived from shapes."""
        return self.node(op, "bool", (a, self.number(number)))

    def both(self, a: Node | None, b: Node) -> Node:
        """Return the conjunction of two masks; the first may be absent."""
        return b if a is None else self.node("logical_and", "bool", (a, b))

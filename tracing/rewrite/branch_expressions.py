"""Expressions of if-converted branches, and helpers that build syntax trees.

Owns ``a if c else b``, the truths of tests (``and``, ``or``, ``not``, chained comparisons), and the check of functions
that branches call. Does not own statements (`jitfuse.tracing.rewrite.branch_statements`).
"""
from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, Final

NAME: Final = "_jitfuse_both"
MARK: Final = "jitfuse gate: "
TESTS: Final = frozenset({"is_both", "is_loop", "is_unbound", "plain"})
"""Marks that stand for tests of a value, which need no trace."""
FORBIDDEN: Final = (
    ast.Yield, ast.YieldFrom, ast.Await, ast.NamedExpr, ast.Lambda, ast.Starred, ast.ListComp, ast.SetComp,
    ast.DictComp, ast.GeneratorExp,
)
"""Nodes that no branch may contain, because their order of evaluation or their scope differs."""


_SCOPES: Final = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class RewriteContext:
    """The state that all parts of one function share while it is rewritten."""

    def __init__(self, filename: str) -> None:
        self.filename = filename
        self.count = 0
        """How many branches have been rewritten."""
        self.loops: set[int] = set()
        """The lines of loops that may be captured."""
        self.temporaries = 0
        """How many temporary names have been made."""

    def temporary(self) -> str:
        """Return a new name."""
        self.temporaries += 1
        return f"{NAME}{self.temporaries}"

    def site(self, node: ast.expr | ast.stmt) -> ast.expr:
        """Return the site of a branch, as a constant."""
        return constant((self.filename, node.lineno, node.col_offset))


class Expressions(ast.NodeTransformer):
    """If-converts ``a if c else b``, and passes the functions that branches call through a probe."""

    def __init__(self, context: RewriteContext, in_branch: bool = False) -> None:
        self.context, self.in_branch = context, in_branch

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Pass the function that a branch calls through a probe."""
        self.generic_visit(node)
        if self.in_branch:
            named = constant(tuple(k.arg or "" for k in node.keywords))
            node.func = located(call("called", node.func, named), node)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        """If-convert ``a if c else b``."""
        if has(node, *FORBIDDEN):
            return node
        branches = Expressions(self.context, in_branch=True)
        return self._chosen(
            "choose", node, self.truth(node.test), branches.visit(node.body), branches.visit(node.orelse)
        )

    def visit(self, node: ast.AST) -> Any:
        """Rewrite an expression; not in a comprehension, where the temporary names would be local."""
        return node if isinstance(node, _SCOPES) else super().visit(node)

    def truth(self, node: ast.expr) -> ast.expr:
        """Rewrite an expression of which only the truth is used."""
        branches = Expressions(self.context, in_branch=True)
        if isinstance(node, ast.BoolOp):
            *before, made = node.values
            made = branches.truth(made) if before else self.truth(made)
            for value in reversed(before):
                first = self.truth(value) if value is node.values[0] else branches.truth(value)
                results = (made, ast.Constant(False)) if isinstance(node.op, ast.And) else (ast.Constant(True), made)
                made = self._chosen("choose_truth", value, first, *results)
            return made
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self._chosen("choose_truth", node, self.truth(node.operand), ast.Constant(False), ast.Constant(True))
        if isinstance(node, ast.Compare) and len(node.ops) > 1:
            return self.truth(self._comparisons(node))
        found: ast.expr = self.visit(node)
        return found

    def _comparisons(self, node: ast.Compare) -> ast.expr:
        """Return ``a < b < c`` as ``a < (t := b) and t < c``."""
        parts: list[ast.expr] = []
        left = node.left
        for k, (op, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
            given: ast.expr = right
            following = right
            if k + 1 < len(node.ops) and not isinstance(right, ast.Name | ast.Constant):
                t = self.context.temporary()
                given = ast.NamedExpr(ast.Name(t, ast.Store()), right)
                following = load(t)
            parts.append(located(ast.Compare(left, [op], [given]), node))
            left = following
        made: ast.expr = located(ast.BoolOp(ast.And(), parts), node)
        return made

    def _chosen(self, probe_name: str, node: ast.expr, test: ast.expr, body: ast.expr, orelse: ast.expr) -> ast.expr:
        self.context.count += 1
        t = self.context.temporary()
        site = self.context.site(node)
        asked = ast.NamedExpr(ast.Name(t, ast.Store()), call("ask", site, test))
        known = ast.IfExp(load(t), ast.Constant(True), ast.Constant(False))
        either = ast.NamedExpr(ast.Name(t, ast.Store()), ast.IfExp(call("plain", asked), known, load(t)))
        nothing = ast.Constant(None)
        made: ast.expr = located(call(
            probe_name, either, ast.IfExp(call("then", load(t), constant(())), body, nothing),
            ast.IfExp(call("otherwise", load(t)), orelse, nothing),
        ), node)
        return made


def constant(value: Any) -> ast.expr:
    """Return a constant, which may be a tuple."""
    return ast.Constant(value)


def load(name: str) -> ast.expr:
    """Return the value of a name."""
    return ast.Name(name, ast.Load())


def call(name: str, *values: ast.expr) -> ast.expr:
    """Return a call of a step, by the mark that compiled code replaces with a probe."""
    return ast.Call(ast.Constant(MARK + name), list(values), [])


def assign(names: Sequence[str], value: ast.expr) -> ast.stmt:
    """Return an assignment to one name, or to a tuple of names."""
    targets: list[ast.expr] = [ast.Name(n, ast.Store()) for n in names]
    return ast.Assign([targets[0] if len(targets) == 1 else ast.Tuple(targets, ast.Store())], value)


def targets(target: ast.expr) -> list[ast.expr]:
    """Return the elements of an assignment's target."""
    if isinstance(target, ast.Tuple | ast.List):
        return list(target.elts)
    return [target]


def has(node: ast.AST, *kinds: type[ast.AST]) -> bool:
    """Return whether a tree contains a node of these kinds."""
    return any(isinstance(n, kinds) for n in ast.walk(node))


def located(node: Any, like: ast.AST) -> Any:
    """Give a new tree the source location of the node that it replaces."""
    for n in ast.walk(node):
        if isinstance(n, ast.stmt | ast.expr) and not hasattr(n, "lineno"):
            ast.copy_location(n, like)
    return node

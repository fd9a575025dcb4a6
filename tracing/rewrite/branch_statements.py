"""Statements of a function whose branches are if-converted.

An ``if`` becomes, for the names x and y that its branches assign::

    t = ask(site, test)
    if plain(t): t = True if t else False    # not traced, or a graph break is wanted here
    if then(t): ...                          # both branches run where t is traced
    if is_both(t): x, y = begin_other(t, ("x", "y"))
    if otherwise(t): ...
    if is_both(t): x, y = merge(t); and names that only one branch has bound are deleted
    t = None

Owns which statements branches may contain, and which names are selected. Does not own expressions
(`jitfuse.tracing.rewrite.branch_expressions`) or what the calls do (`jitfuse.tracing.control.if_conversion`).
"""
from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from typing import Final

from jitfuse.base.later import Later
from jitfuse.tracing.rewrite import loop_statements
from jitfuse.tracing.rewrite.branch_expressions import (
    FORBIDDEN,
    NAME,
    Expressions,
    RewriteContext,
    assign,
    call,
    constant,
    has,
    load,
    located,
    targets,
)

single_exit = Later("jitfuse.tracing.rewrite.single_exit")

_DEPTH: Final = 8
_OPERATORS: Final = {
    "Add": "__iadd__", "Sub": "__isub__", "Mult": "__imul__", "Div": "__itruediv__", "FloorDiv": "__ifloordiv__",
    "Mod": "__imod__", "Pow": "__ipow__", "BitAnd": "__iand__", "BitOr": "__ior__", "BitXor": "__ixor__",
    "LShift": "__ilshift__", "RShift": "__irshift__", "MatMult": "__imatmul__",
}


class BranchRewriter(RewriteContext):
    """Rewrites one function, with the functions in it."""

    def __init__(
        self, filename: str, lines: Collection[int] = (), long: Collection[int] = (), independent: Collection[int] = (),
        if_converted: bool = True,
    ) -> None:
        """Take the lines of loops: `lines` of those over data-dependent ranges, `long` of those over long known ranges,
        `independent` of those that may be vectorised.

        Without any of these, loops are left alone. Without `if_converted`, only loops in `independent` are rewritten.
        """
        super().__init__(filename)
        self.lines, self.long, self.independent, self._if_converted = lines, long, independent, if_converted
        self._outer: frozenset[str] = frozenset()
        self._function: ast.FunctionDef | None = None
        self._is_inner = False
        """Whether the function is inlined into the loops that call it."""

    def function(self, node: ast.FunctionDef) -> None:
        """Rewrite a function's body in place."""
        before = self._outer, self._function
        self._outer = frozenset(n for s in ast.walk(node) if isinstance(s, ast.Global | ast.Nonlocal) for n in s.names)
        self._function = node
        if loop_statements.catches(node):
            self.lines = self.long = self.independent = ()
        if not any(isinstance(n, ast.Yield | ast.YieldFrom | ast.Await) or _identifies(n) for n in ast.walk(node)):
            if self._if_converted:
                node.body = single_exit.rewritten(node.body) or node.body
            node.body = self.block(node.body, loop=False) if self._if_converted else self._independent_loops(node.body)
        self._outer, self._function = before

    @property
    def makes_loops(self) -> bool:
        """Whether any loop may be captured."""
        return bool(self.lines or self.long or self.independent or self._is_inner)

    def inner(self, node: ast.FunctionDef) -> bool:
        """Rewrite a function that captured loops call: all of it goes through probes, as in a branch.

        Returns False where it does more than compute, or has a ``return`` that cannot be moved to its end.
        """
        self._outer = frozenset(n for s in ast.walk(node) if isinstance(s, ast.Global | ast.Nonlocal) for n in s.names)
        self._function, self._is_inner = node, True
        if loop_statements.catches(node) or any(isinstance(n, ast.FunctionDef | ast.ClassDef) or _identifies(n)
                                                for n in ast.walk(node) if n is not node):
            return False
        body = single_exit.rewritten(node.body)
        if body is None:
            return False
        *steps, end = node.body = body
        assert isinstance(end, ast.Return) and end.value is not None
        if has(end.value, *FORBIDDEN) or (steps and not self.fits(steps)):
            return False
        branches = self.branches()
        node.body = [*branches.block(steps), located(ast.Return(branches.value(end.value)), end)]
        self.count += 1
        return True

    def branches(self) -> BranchBody:
        """Return what rewrites the statements of branches and of captured loops."""
        return BranchBody(self)

    def _independent_loops(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Rewrite the loops that may be vectorised, and nothing else."""
        made: list[ast.stmt] = []
        for s in body:
            loop = loop_statements.as_loop(self, s) if isinstance(s, ast.For) and s.lineno in self.independent else None
            if loop is not None:
                made += loop
                continue
            if isinstance(s, ast.If | ast.For | ast.While | ast.With | ast.Try):
                s.body = self._independent_loops(s.body)
                if not isinstance(s, ast.With):
                    s.orelse = self._independent_loops(s.orelse)
            made.append(s)
        return made

    def block(self, body: Sequence[ast.stmt], loop: bool) -> list[ast.stmt]:
        """Rewrite a block of statements; `loop`: they are the whole body of a loop."""
        made: list[ast.stmt] = []
        body = list(body)
        for k, statement in enumerate(body):
            if isinstance(statement, ast.If):
                rest = body[k + 1 :]
                if loop and rest and not statement.orelse and _is(statement.body, ast.Continue):
                    turned = ast.If(located(ast.UnaryOp(ast.Not(), statement.test), statement), rest, [])
                    if self.fits(turned.body):
                        return [*made, *self._branch(located(turned, statement), loop)]
                chosen = _return_of(statement, rest)
                if chosen is not None:
                    return [*made, *self._statement(chosen)]
                made += self._branch(statement, loop and not rest)
            else:
                made += self._statement(statement)
        return made

    def _statement(self, statement: ast.stmt) -> list[ast.stmt]:
        """Rewrite the inside of a statement other than a branch."""
        if isinstance(statement, ast.FunctionDef):
            self.function(statement)
        elif isinstance(statement, ast.For | ast.While) and self.makes_loops and (
                made := loop_statements.as_loop(self, statement)):
            return made
        elif isinstance(statement, ast.For | ast.While):
            statement.body = self.block(statement.body, loop=True)
            statement.orelse = self.block(statement.orelse, loop=False)
        elif isinstance(statement, ast.With | ast.Try):
            statement.body = self.block(statement.body, loop=False)
        elif isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return | ast.Expr) and (
                statement.value is not None):
            before = self.temporaries
            statement.value = Expressions(self).visit(statement.value)
            return [statement, *([] if isinstance(statement, ast.Return) else self._cleared(before, statement))]
        return [statement]

    def _cleared(self, before: int, like: ast.stmt) -> list[ast.stmt]:
        """Return statements that clear the temporary names made since `before`."""
        names = [f"{NAME}{k + 1}" for k in range(before, self.temporaries)]
        return [located(assign([n], ast.Constant(None)), like) for n in names]

    def _branch(self, node: ast.If, loop: bool, in_branch: bool = False) -> list[ast.stmt]:
        """Rewrite an ``if``: if-converted where its branches only compute and assign.

        `in_branch`: functions that its test calls go through a probe, as in the surrounding branch or captured loop.
        """
        if not self.fits([*node.body, *node.orelse]) or has(node.test, *FORBIDDEN):
            node.body = self.block(node.body, loop)
            node.orelse = self.block(node.orelse, loop)
            return [node]
        self.count += 1
        before, names = self.temporaries, self._assigned(node)
        site = self.site(node)
        t, listed = self.temporary(), constant(tuple(names))
        test = Expressions(self, in_branch).truth(node.test)
        branches = self.branches()
        body, orelse = branches.block(node.body), branches.block(node.orelse)
        made: list[ast.stmt] = [
            assign([t], call("ask", site, test)),
            ast.If(call("plain", load(t)), [assign([t], ast.IfExp(load(t), ast.Constant(True), ast.Constant(False)))],
                   []),
            ast.If(call("then", load(t), listed), body, []),
            ast.If(call("is_both", load(t)), [assign(names, call("begin_other", load(t)))], []),
            ast.If(call("otherwise", load(t)), orelse or [ast.Pass()], []),
            ast.If(call("is_both", load(t)), [
                assign(names, call("merge", load(t))),
                *(ast.If(call("is_unbound", load(n)), [ast.Delete([ast.Name(n, ast.Del())])], []) for n in names),
            ], []),
        ]
        return [*(located(s, node) for s in made), *self._cleared(before, node)]

    def _assigned(self, node: ast.If) -> list[str]:
        """Return the names that an ``if`` assigns and that are read elsewhere."""
        assert self._function is not None
        stored = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        inside: dict[str, int] = {}
        for n in (n for s in (node.body, node.orelse) for x in s for n in ast.walk(x)):
            if isinstance(n, ast.Name) and n.id in stored:
                inside[n.id] = inside.get(n.id, 0) + 1
        outside = dict.fromkeys(stored, 0)
        for n in ast.walk(self._function):
            if isinstance(n, ast.Name) and n.id in stored:
                outside[n.id] += 1
        parameters = {a.arg for a in ast.walk(self._function.args) if isinstance(a, ast.arg)}
        return sorted(
            n for n in stored
            if outside[n] != inside[n] or n in parameters or not (_begins(node.body, n) and _begins(node.orelse, n))
        )

    def fits(self, body: Sequence[ast.stmt], depth: int = 0) -> bool:
        """Return whether statements only compute and assign, as far as their form shows."""
        return bool(body) and depth < _DEPTH and all(self._computes(s, depth) for s in body)

    def _computes(self, s: ast.stmt, depth: int) -> bool:
        if isinstance(s, ast.Pass):
            return True
        if isinstance(s, ast.If):
            return not has(s.test, *FORBIDDEN) and self.fits([*s.body, *s.orelse], depth + 1)
        if isinstance(s, ast.For):
            names = all(isinstance(n, ast.Name) for n in targets(s.target))
            return not s.orelse and names and not has(s.iter, *FORBIDDEN) and self._goes_on(s, depth)
        if isinstance(s, ast.While):
            return self.makes_loops and not s.orelse and not has(s.test, *FORBIDDEN) and self._goes_on(s, depth)
        if isinstance(s, ast.Assign):
            return all(map(self.is_target, s.targets)) and not has(s.value, *FORBIDDEN)
        if isinstance(s, ast.AugAssign):
            return self.is_target(s.target) and not has(s.value, *FORBIDDEN)
        return False

    def _goes_on(self, loop: ast.For | ast.While, depth: int) -> bool:
        """Return whether the body of an inner loop only computes and assigns."""
        body = loop_statements.straight(loop.body, NAME) if self.makes_loops else loop.body
        return self.fits(body, depth + 1)

    def is_target(self, target: ast.expr) -> bool:
        """Return whether a target consists of local names and items."""
        return all(
            (isinstance(t, ast.Name) and t.id not in self._outer)
            or (isinstance(t, ast.Subscript) and not has(t, *FORBIDDEN))
            for t in targets(target)
        )


class BranchBody:
    """The statements of a branch: their writes, and the functions that they call, go through probes."""

    def __init__(self, rewriter: BranchRewriter) -> None:
        self.rewriter = rewriter

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Rewrite a block of statements."""
        return [located(made, s) for s in body for made in self.statement(s)]

    def statement(self, s: ast.stmt) -> list[ast.stmt]:
        """Rewrite one statement."""
        if isinstance(s, ast.If):
            return self.rewriter._branch(s, loop=False, in_branch=True)
        if isinstance(s, ast.For | ast.While):
            made = loop_statements.as_loop(self.rewriter, s) if self.rewriter.makes_loops else None
            if made is not None:
                return made
            assert isinstance(s, ast.For)
            s.iter = call("goes_over", self.value(s.iter))
            s.body = self.block(loop_statements.without_continue(s.body))
            return [s]
        if isinstance(s, ast.AugAssign):
            return [self._augmented(s)]
        if isinstance(s, ast.Assign):
            return self._assignment(s)
        return [s]

    def value(self, node: ast.expr) -> ast.expr:
        """Rewrite an expression."""
        made: ast.expr = Expressions(self.rewriter, in_branch=True).visit(node)
        return made

    def _assignment(self, s: ast.Assign) -> list[ast.stmt]:
        """Rewrite ``a[i], x = value``: unpack into temporary names, then assign one target after the other."""
        value = self.value(s.value)
        if all(isinstance(t, ast.Name) for target in s.targets for t in targets(target)):
            s.value = value
            return [s]
        if len(s.targets) == 1 and isinstance(s.targets[0], ast.Subscript):
            return [self._put(s.targets[0], value)]
        whole = self.rewriter.temporary()
        made: list[ast.stmt] = [assign([whole], value)]
        for target in s.targets:
            parts = targets(target)
            many = isinstance(target, ast.Tuple | ast.List)
            names = [self.rewriter.temporary() for _ in parts] if many else [whole]
            if many:
                made.append(assign(names, load(whole)))
            for part, name in zip(parts, names, strict=True):
                made.append(self._put(part, load(name)) if isinstance(part, ast.Subscript)
                            else assign([part.id], load(name)))  # type: ignore[attr-defined]
            made += [assign([n], ast.Constant(None)) for n in names if many]
        return [*made, assign([whole], ast.Constant(None))]

    def _put(self, target: ast.Subscript, value: ast.expr) -> ast.stmt:
        return ast.Expr(call("put", self.value(target.value), _key(self, target.slice), value))

    def _augmented(self, s: ast.AugAssign) -> ast.stmt:
        name = ast.Constant(_OPERATORS[type(s.op).__name__])
        value = self.value(s.value)
        if isinstance(s.target, ast.Name):
            return assign([s.target.id], call("update", name, load(s.target.id), value))
        assert isinstance(s.target, ast.Subscript)
        return ast.Expr(call("update_item", name, self.value(s.target.value), _key(self, s.target.slice), value))


def _key(branches: BranchBody, node: ast.expr) -> ast.expr:
    """Return an index as a value; slices become calls of `slice`."""
    if isinstance(node, ast.Slice):
        parts = [
            branches.value(p) if p is not None else ast.Constant(None) for p in (node.lower, node.upper, node.step)
        ]
        return call("slice", *parts)
    if isinstance(node, ast.Tuple):
        return ast.Tuple([_key(branches, e) for e in node.elts], ast.Load())
    return branches.value(node)


def _is(body: Sequence[ast.stmt], kind: type[ast.stmt]) -> bool:
    return len(body) == 1 and isinstance(body[0], kind)


def _identifies(node: ast.AST) -> bool:
    """Return whether a node tests for identity, other than with None: a selected value is a new object."""
    if not isinstance(node, ast.Compare):
        return False
    nothing = [isinstance(n, ast.Constant) and n.value in (None, ...) for n in (node.left, *node.comparators)]
    return any(isinstance(o, ast.Is | ast.IsNot) and not any(nothing[k : k + 2]) for k, o in enumerate(node.ops))


def _begins(body: Sequence[ast.stmt], name: str) -> bool:
    """Return whether, on every path through statements, a name is assigned before it is read."""
    for k, s in enumerate(body):
        if not _has(s, name):
            continue
        if isinstance(s, ast.Assign):
            found = [n for n in ast.walk(s) if isinstance(n, ast.Name) and n.id == name]
            return len(found) == 1 and isinstance(found[0].ctx, ast.Store)
        if any(_has(later, name) for later in body[k + 1 :]):
            return False  # a loop without iterations, or a branch not taken, would leave the old value to be read
        if isinstance(s, ast.For):
            return not _has(s.iter, name) and (_has(s.target, name) or _begins(s.body, name))
        return isinstance(s, ast.If) and not _has(s.test, name) and _begins(s.body, name) and _begins(s.orelse, name)
    return True


def _has(node: ast.AST, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(node))


def _return_of(node: ast.If, rest: Sequence[ast.stmt]) -> ast.Return | None:
    """Return ``return a if c else b`` for an ``if`` that returns a, and b otherwise."""
    other = node.orelse if node.orelse else rest
    if not _is(node.body, ast.Return) or not _is(other, ast.Return):
        return None
    one, two = node.body[0], other[0]
    assert isinstance(one, ast.Return) and isinstance(two, ast.Return)
    if one.value is None or two.value is None or (node.orelse and rest):
        return None
    chosen = located(ast.IfExp(node.test, one.value, two.value), node)
    made: ast.Return = located(ast.Return(chosen), node)
    return made

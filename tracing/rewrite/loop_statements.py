"""Captured loops: loops over data-dependent ranges, and loops that end by traced values.

``for k in range(a, b): ...`` whose body only computes and assigns becomes, for the names x and y that it assigns::

    t = loop(site, form, ("x", "y"), range, a, b)       # the range, where Python runs the loop
    for k in t:                                         # else one iteration, or more where dtypes change
        if is_loop(t): x, y = enter(t); and unbound names are deleted
        ...
        if is_loop(t): leave(t)
    if is_loop(t): x, y = finish(t); and names that may be unbound after the loop, such as k, are deleted
    t = None

``break`` sets a name that is passed to `leave`; the statements after it move into the other branch. A ``while c`` is
such a loop without an end, which begins with ``if not c: break``. Both are kept beside their original form, which runs
where Python runs the loop. In branches and captured loops, where Python cannot, they are rejected.

Owns which loops may be captured. Does not own branches (`jitfuse.tracing.rewrite.branch_statements`) or what the calls
do (`jitfuse.tracing.control.loop_capture`).
"""
from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from jitfuse.tracing.rewrite.branch_expressions import FORBIDDEN, NAME, assign, call, constant, has, load, located

if TYPE_CHECKING:
    from jitfuse.tracing.rewrite.branch_statements import BranchRewriter

HARMLESS: Final = frozenset({
    "errstate", "printoptions", "catch_warnings", "nullcontext", "closing", "redirect_stdout", "open", "no_grad",
    "enable_grad", "inference_mode", "autocast", "record_function",
})
"""Context managers of Python, NumPy and torch that do not suppress errors."""


def catches(function: ast.FunctionDef) -> bool:
    """Return whether a function may catch errors: a name that a loop leaves unbound raises where it is used."""
    return any(
        (isinstance(n, ast.Try | ast.TryStar) and bool(n.handlers)) or (isinstance(n, ast.With) and not all(
            isinstance(i.context_expr, ast.Call) and _last_name(i.context_expr.func) in HARMLESS for i in n.items))
        for n in ast.walk(function)
    )


def _last_name(e: ast.expr) -> str:
    return e.attr if isinstance(e, ast.Attribute) else e.id if isinstance(e, ast.Name) else ""


def as_loop(rewriter: BranchRewriter, node: ast.For | ast.While) -> list[ast.stmt] | None:
    """Return the statements that replace a loop; None for a loop of another form."""
    made = _as_for(rewriter, node) if isinstance(node, ast.For) else _as_while(rewriter, node)
    return None if made is None else [located(s, node) for s in made]


def _as_for(rewriter: BranchRewriter, node: ast.For) -> list[ast.stmt] | None:
    target = node.target
    if not isinstance(target, ast.Name) or not rewriter.is_target(target) or node.orelse:
        return None
    over = node.iter
    if not isinstance(over, ast.Call) or not isinstance(over.func, ast.Name) or over.func.id != "range":
        return None
    if over.keywords or not 1 <= len(over.args) <= 3 or has(over, *FORBIDDEN):
        return None
    before = rewriter.temporaries
    t, stop = rewriter.temporary(), rewriter.temporary() if breaks(node.body) else None
    body = straight(node.body, stop)
    if not rewriter.fits(body):
        return None
    stored = _stored(body)
    rebound, names = target.id in stored, sorted(stored - {target.id, stop})
    site = rewriter.site(node)
    rewriter.loops.update(range(over.lineno, (over.end_lineno or over.lineno) + 1))
    rewriter.count += 1
    around = any(
        isinstance(n, ast.For | ast.While) and _line(n) in rewriter.lines for n in (node, *_within(node.body))
        if n is not node or stop is not None)
    branches = rewriter.branches()
    args = [branches.value(a) for a in over.args]
    is_loop, ended = call("is_loop", load(t)), _named([*names, target.id], call("finish", load(t)))
    independent = stop is None and not rebound and node.lineno in rewriter.independent
    form = around, stop is not None, rebound, node.lineno in rewriter.long, independent
    made: list[ast.stmt] = [
        assign([t], call("loop", site, constant(form), constant(tuple(names)), load("range"), *args))]
    begun = _named(names, call("enter", load(t)))
    if stop is None:
        left = [ast.If(is_loop, [_left(t, None)], [])]
        made += [ast.For(target, load(t), [ast.If(is_loop, begun, []), *branches.block(body), *left], []),
                 ast.If(is_loop, ended, [])]
    else:
        looped = [ast.For(target, load(t), [*begun, *branches.block(body), _left(t, stop)], []), *ended]
        own = ast.For(copy.deepcopy(target), load(t), rewriter.block(node.body, loop=True), [])
        made.append(ast.If(is_loop, looped, [own]))
    return [*made, *_cleared(rewriter, before)]


def _as_while(rewriter: BranchRewriter, node: ast.While) -> list[ast.stmt] | None:
    if node.orelse or has(node.test, *FORBIDDEN):
        return None
    before = rewriter.temporaries
    t, stop, variable = rewriter.temporary(), rewriter.temporary(), rewriter.temporary()
    whole = located(ast.If(copy.deepcopy(node.test), straight(node.body, stop), [_set(stop, True)]), node)
    body = [located(_set(stop, False), node), whole]
    if not rewriter.fits(body):
        return None
    names = sorted(_stored(body) - {stop})
    rewriter.loops.update(range(node.lineno, (node.test.end_lineno or node.lineno) + 1))
    rewriter.count += 1
    is_loop, wanted = call("is_loop", load(t)), _line(node) in rewriter.lines
    branches = rewriter.branches()
    looped: list[ast.stmt] = [
        ast.For(ast.Name(variable, ast.Store()), load(t), [
            *_named(names, call("enter", load(t))),
            *branches.block(body),
            _left(t, stop),
        ], []),
        *_named(names, call("finish", load(t))),
    ]
    node.body = rewriter.block(node.body, loop=True)
    return [
        assign([t], call("during", rewriter.site(node), constant(wanted), constant(tuple(names)))),
        ast.If(is_loop, looped, [node]),
        *_cleared(rewriter, before),
    ]


def _stored(body: Sequence[ast.stmt]) -> set[str]:
    return {n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _within(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    return (n for s in body for n in ast.walk(s))


def _line(loop: ast.For | ast.While) -> int:
    return loop.iter.lineno if isinstance(loop, ast.For) else loop.lineno


def _left(t: str, stop: str | None) -> ast.stmt:
    """Return the statement that ends an iteration; `stop` names the flag for the last one."""
    return ast.Expr(call("leave", load(t), ast.Constant(False) if stop is None else load(stop)))


def _set(name: str, value: bool) -> ast.stmt:
    return assign([name], ast.Constant(value))


def _cleared(rewriter: BranchRewriter, before: int) -> list[ast.stmt]:
    return [assign([f"{NAME}{k + 1}"], ast.Constant(None)) for k in range(before, rewriter.temporaries)]


def _named(names: Sequence[str], value: ast.expr) -> list[ast.stmt]:
    """Return statements that assign names, and delete those that are to be unbound."""
    if not names:
        return [ast.Expr(value)]
    return [
        assign(names, value),
        *(ast.If(call("is_unbound", load(n)), [ast.Delete([ast.Name(n, ast.Del())])], []) for n in names),
    ]


def without_continue(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the body of a loop with the statements after ``if c: continue`` in the other branch."""
    for k, s in enumerate(body):
        if isinstance(s, ast.Continue):
            return body[:k] or [located(ast.Pass(), s)]
        if isinstance(s, ast.If) and s.body and isinstance(s.body[-1], ast.Continue):
            first = s.body[:-1] or [located(ast.Pass(), s)]
            rest = without_continue([*s.orelse, *body[k + 1 :]])
            return [*body[:k], located(ast.copy_location(ast.If(s.test, first, rest), s), s)]
    return body


# ---------------------------------------------------------------- loops that end early
def breaks(body: Sequence[ast.stmt]) -> bool:
    """Return whether the body of a loop may leave it by ``break``."""
    return any(
        isinstance(s, ast.Break) or (isinstance(s, ast.If) and (breaks(s.body) or breaks(s.orelse))) for s in body)


def straight(body: Sequence[ast.stmt], stop: str | None) -> list[ast.stmt]:
    """Return a copy of a loop's body without ``continue``; with `stop`, the name of a flag, also without ``break``."""
    made = without_continue([copy.deepcopy(s) for s in body])
    if stop is None or not breaks(made):
        return made
    return [located(_set(stop, False), made[0]), *_without_break(made, stop)]


def _without_break(body: list[ast.stmt], stop: str) -> list[ast.stmt]:
    """Return statements that set the flag in place of ``break``, and then do nothing else."""
    for k, s in enumerate(body):
        if isinstance(s, ast.Break):
            return [*body[:k], located(_set(stop, True), s)]
        if isinstance(s, ast.If) and breaks([s]):
            first, other, rest = _without_break(s.body, stop), _without_break(s.orelse, stop), body[k + 1 :]
            if isinstance(s.body[-1], ast.Break):
                other, rest = [*other, *_unless(stop, rest, breaks(s.orelse))], []
            return [*body[:k], located(ast.copy_location(ast.If(s.test, first, other), s), s),
                    *_unless(stop, rest, True)]
    return body


def _unless(stop: str, rest: list[ast.stmt], asks: bool) -> list[ast.stmt]:
    """Return statements that are skipped where the flag says that the loop has been left."""
    rest = _without_break(rest, stop)
    if not rest or not asks:
        return rest
    made: ast.stmt = located(ast.copy_location(ast.If(ast.UnaryOp(ast.Not(), load(stop)), rest, []), rest[0]), rest[0])
    return [made]

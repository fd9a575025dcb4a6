"""Loops over ranges that are data, as loops of the program.

``for k in range(a, b): ...`` whose body only computes and assigns becomes, for the names x and y that it assigns::

    t = loop(place, around, ("x", "y"), range, a, b)    # the range, where Python goes through it
    for k in t:                                         # else once, or again where types turn out to be others
        if is_loop(t): x, y = enter(t); and what is not bound then is deleted
        ...
        if is_loop(t): leave(t)
    if is_loop(t): x, y = finish(t); and what may not be bound after the loop, k among it, is deleted
    t = None

Owns which loops these are. Does not own branches (`jitfuse.tracing.view.branch_statements`) or what the calls do
(`jitfuse.tracing.looping`).
"""
from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import Final

from jitfuse.tracing.view.branch_expressions import FORBIDDEN, NAME, assign, call, constant, has, load, located
from jitfuse.tracing.view.branch_statements import Arms, Rewriter

HARMLESS: Final = frozenset({
    "errstate", "printoptions", "catch_warnings", "nullcontext", "closing", "redirect_stdout", "open", "no_grad",
    "enable_grad", "inference_mode", "autocast", "record_function",
})
"""Context managers of Python, NumPy and torch that let errors pass."""


def catches(function: ast.FunctionDef) -> bool:
    """Return whether a function may catch errors: names that a loop must not leave bound raise where they are used."""
    return any(
        (isinstance(n, ast.Try | ast.TryStar) and bool(n.handlers)) or (isinstance(n, ast.With) and not all(
            isinstance(i.context_expr, ast.Call) and _last_name(i.context_expr.func) in HARMLESS for i in n.items))
        for n in ast.walk(function)
    )


def _last_name(e: ast.expr) -> str:
    return e.attr if isinstance(e, ast.Attribute) else e.id if isinstance(e, ast.Name) else ""


def as_loop(rewriter: Rewriter, node: ast.For) -> list[ast.stmt] | None:
    """Return what a loop over a range is rewritten to; None where its form is another."""
    target = node.target
    if not isinstance(target, ast.Name) or not rewriter.is_target(target) or node.orelse:
        return None
    over = node.iter
    if not isinstance(over, ast.Call) or not isinstance(over.func, ast.Name) or over.func.id != "range":
        return None
    if over.keywords or not 1 <= len(over.args) <= 3 or has(over, *FORBIDDEN):
        return None
    body = without_continue([copy.deepcopy(s) for s in node.body])
    if not rewriter.fits(body):
        return None
    names = sorted({n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
                   - {target.id})
    before = rewriter.temporaries
    t, place = rewriter.temporary(), rewriter.place(node)
    rewriter.loops.update(range(over.lineno, (over.end_lineno or over.lineno) + 1))
    rewriter.count += 1
    around = any(isinstance(n, ast.For) and n.iter.lineno in rewriter.lines for s in node.body for n in ast.walk(s))
    arms = Arms(rewriter)
    args = [arms.value(a) for a in over.args]
    begun = _named(names, call("enter", load(t)))
    ended = _named(names, call("finish", load(t)))
    is_loop = call("is_loop", load(t))
    made: list[ast.stmt] = [
        assign([t], call("loop", place, constant(around), constant(tuple(names)), load("range"), *args)),
        ast.For(target, load(t), [
            ast.If(is_loop, begun, []),
            *arms.block(body),
            ast.If(is_loop, [ast.Expr(call("leave", load(t)))], []),
        ], []),
        ast.If(is_loop, [*ended, ast.Delete([ast.Name(target.id, ast.Del())])], []),
    ]
    cleared = [assign([f"{NAME}{k + 1}"], ast.Constant(None)) for k in range(before, rewriter.temporaries)]
    return [located(s, node) for s in (*made, *cleared)]


def _named(names: Sequence[str], value: ast.expr) -> list[ast.stmt]:
    """Return what gives names their values, and deletes those that are to hold nothing."""
    if not names:
        return [ast.Expr(value)]
    return [
        assign(names, value),
        *(ast.If(call("is_unbound", load(n)), [ast.Delete([ast.Name(n, ast.Del())])], []) for n in names),
    ]


def without_continue(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the body of a loop with what comes after ``if c: continue`` in the other arm."""
    for k, s in enumerate(body):
        if isinstance(s, ast.Continue):
            return body[:k] or [located(ast.Pass(), s)]
        if isinstance(s, ast.If) and s.body and isinstance(s.body[-1], ast.Continue):
            first = s.body[:-1] or [located(ast.Pass(), s)]
            rest = without_continue([*s.orelse, *body[k + 1 :]])
            return [*body[:k], located(ast.copy_location(ast.If(s.test, first, rest), s), s)]
    return body

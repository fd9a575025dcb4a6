"""Functions with one ``return``, at their end: captured loops that call them need a single exit.

``if c: return a`` with statements after it becomes a branch that assigns the result. A ``return`` in a loop becomes an
assignment and ``break``, if the function returns right after the loop a value that is known before it. Owns this form.
Does not own what becomes of it (`jitfuse.tracing.rewrite.branch_statements`).
"""
from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import Final

from jitfuse.tracing.rewrite.branch_expressions import NAME, assign, load, located
from jitfuse.tracing.rewrite.loop_names import names_in

_RESULT: Final = f"{NAME}_result"


def rewritten(body: Sequence[ast.stmt]) -> list[ast.stmt] | None:
    """Return a function's statements with one ``return``, the last of them; None where there is no such form."""
    body = list(body)
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]  # the docstring
    if not body:
        return None
    if isinstance(body[-1], ast.Return) and not any(map(_returns, body[:-1])):
        return body if body[-1].value is not None else None
    made = _ended(body)
    return None if made is None else [*made, located(ast.Return(load(_RESULT)), body[-1])]


def _returns(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Return) for n in ast.walk(node))


def _always(body: Sequence[ast.stmt]) -> bool:
    """Return whether statements return on every path."""
    last = body[-1] if body else None
    if isinstance(last, ast.If):
        return _always(last.body) and _always(last.orelse)
    return isinstance(last, ast.Return)


def _ended(body: Sequence[ast.stmt]) -> list[ast.stmt] | None:
    """Return statements that assign the function's result; None where they may end without one."""
    for k, s in enumerate(body):
        rest = list(body[k + 1 :])
        if isinstance(s, ast.Return):
            return None if s.value is None else [*body[:k], _named(s)]
        if isinstance(s, ast.If) and _returns(s):
            if not (_always(s.body) or _always(s.orelse) or not rest):
                return None  # the statements that follow would be duplicated
            branches = [branch if _always(branch) else [*branch, *rest] for branch in (s.body, s.orelse)]
            first, other = map(_ended, branches)
            if first is None or other is None:
                return None
            return [*body[:k], located(ast.copy_location(ast.If(s.test, first, other), s), s)]
        if isinstance(s, ast.For | ast.While) and _returns(s):
            return _left(list(body[:k]), s, rest)
        if _returns(s):
            return None
    return None


def _left(before: list[ast.stmt], loop: ast.For | ast.While, rest: Sequence[ast.stmt]) -> list[ast.stmt] | None:
    """Return a loop with ``break`` for ``return``; before it, the result is that of the ``return`` after it."""
    stored = {n.id for n in ast.walk(loop) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    end = rest[0] if len(rest) == 1 else None
    if not isinstance(end, ast.Return) or end.value is None or loop.orelse:
        return None
    if not stored.isdisjoint(names_in(end.value)) or any(isinstance(n, ast.Call) for n in ast.walk(end.value)):
        return None
    made = copy.deepcopy(loop)
    body = _with_breaks(made.body)
    if body is None:
        return None
    made.body = body
    return [*before, _named(end), made]


def _with_breaks(body: Sequence[ast.stmt]) -> list[ast.stmt] | None:
    made: list[ast.stmt] = []
    for s in body:
        if isinstance(s, ast.Return):
            return None if s.value is None else [*made, _named(s), located(ast.Break(), s)]
        if isinstance(s, ast.If) and _returns(s):
            first, other = _with_breaks(s.body), _with_breaks(s.orelse)
            if first is None or other is None:
                return None
            s.body, s.orelse = first, other
        elif _returns(s):
            return None  # in an inner loop
        made.append(s)
    return made


def _named(s: ast.Return) -> ast.stmt:
    assert s.value is not None
    named: ast.stmt = located(assign([_RESULT], s.value), s)
    return named

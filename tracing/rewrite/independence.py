"""Finds, in a function's source, loops over ranges each iteration of which writes elements of its own.

Such loops may be vectorised (`jitfuse.tracing.control.vectorise.vectorised_loop`). The result is a guess that avoids
hopeless attempts. Within the whole body, every array that it writes must be indexed along some axis by one expression
of the loop variable. The body may add to a name, but may not carry any other name between iterations.
"""
from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Final

from jitfuse.tracing.rewrite.loop_names import assignments, begun_in, chain_of, names_in
from jitfuse.tracing.rewrite.loop_statements import breaks
from jitfuse.tracing.rewrite.uniform_loops import METHODS

_NO: Final = (ast.Return, ast.Raise, ast.Try, ast.With, ast.FunctionDef, ast.Lambda, ast.ListComp)


def lines_of(function: ast.FunctionDef) -> frozenset[int]:
    """Return the lines of the outermost loops that may be vectorised."""
    own = {n.arg for n in ast.walk(function) if isinstance(n, ast.arg)} | _changing(function)
    return frozenset(loop.lineno for loop in _outermost(function.body, own))


def _outermost(body: Sequence[ast.stmt], own: set[str]) -> Iterator[ast.For]:
    """Yield the outermost loops that may be vectorised; `own` are the names that the function itself gives values."""
    for s in body:
        if isinstance(s, ast.For) and _is_independent(s, own):
            yield s
        elif isinstance(s, ast.If | ast.For | ast.While | ast.With | ast.Try):
            yield from _outermost(s.body, own)
            if not isinstance(s, ast.With):
                yield from _outermost(s.orelse, own)


def _is_independent(loop: ast.For, own: set[str]) -> bool:
    if not isinstance(loop.target, ast.Name) or any(isinstance(n, _NO) for n in ast.walk(loop)) or breaks(loop.body):
        return False
    variable, body = loop.target.id, loop.body
    if not all(_may_be_called(n.func, own) for s in body for n in ast.walk(s) if isinstance(n, ast.Call)):
        return False
    slices = [n for s in body for n in ast.walk(s) if isinstance(n, ast.Slice)]
    if any(not names_in(n).isdisjoint(_changing(loop)) for n in slices):
        return False  # their lengths may differ between iterations
    items = [n for s in body for n in ast.walk(s) if isinstance(n, ast.Subscript)]
    written = {_name(n) for n in items if isinstance(n.ctx, ast.Store)}
    made = begun_in(body)
    arrays = written - made
    if "" in arrays or not all(_has_own_part(name, variable, body, items) for name in arrays):
        return False
    added = {t.id for _, t in assignments(body)} - made
    return bool(arrays or added) and all(_only_added_to(name, body) for name in added)


def _may_be_called(function: ast.expr, own: set[str]) -> bool:
    """Return whether a callee is a function, an array's method or one of a module: objects' methods may keep state.

    A module is what the function does not give a value itself, whatever its name.
    """
    if isinstance(function, ast.Name) or (isinstance(function, ast.Attribute) and function.attr in METHODS):
        return True
    root = chain_of(function)[:1]
    return bool(root) and root[0] not in own


def _changing(part: ast.AST) -> set[str]:
    """Return the names that a part of a function assigns, loop variables included."""
    return {n.id for n in ast.walk(part) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _name(item: ast.Subscript) -> str:
    return item.value.id if isinstance(item.value, ast.Name) else ""


def _has_own_part(name: str, variable: str, body: Sequence[ast.stmt], items: Sequence[ast.Subscript]) -> bool:
    """Return whether an array is indexed, along some axis, only by one expression of the loop variable."""
    own = [n for n in items if _name(n) == name]
    if len(own) != sum(_uses(s, name) for s in body):
        return False
    keys = [list(n.slice.elts) if isinstance(n.slice, ast.Tuple) else [n.slice] for n in own]
    for axis in range(min(map(len, keys))):
        indices = {ast.dump(key[axis]) for key in keys}
        one = keys[0][axis]
        if len(indices) == 1 and variable in names_in(one) and not isinstance(one, ast.Slice):
            return True
    return False


def _uses(node: ast.AST, name: str) -> int:
    """Return how often a name is used, other than for its shape or dtype."""
    if isinstance(node, ast.Name):
        return node.id == name
    if isinstance(node, ast.Attribute) and node.attr in ("shape", "size", "ndim", "dtype"):
        return 0
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
        return 0
    return sum(_uses(child, name) for child in ast.iter_child_nodes(node))


def _only_added_to(name: str, body: Sequence[ast.stmt]) -> bool:
    """Return whether a name is only the target of ``+=`` and ``-=``."""
    steps = [n for s in body for n in ast.walk(s) if isinstance(n, ast.AugAssign)]
    added = [n for n in steps if isinstance(n.target, ast.Name) and n.target.id == name]
    met = [n for s in body for n in ast.walk(s) if isinstance(n, ast.Name) and n.id == name]
    return len(added) == len(met) and all(
        isinstance(n.op, ast.Add | ast.Sub) and name not in names_in(n.value) for n in added)

"""Names in the source of a loop: those that it assigns, and those that each iteration assigns before it reads them."""
from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any, Final

from jitfuse.tracing.rewrite.branch_expressions import targets

_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def inside(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all nodes in it, but not those of functions."""
    if not isinstance(node, _SCOPES):
        yield node
        for child in ast.iter_child_nodes(node):
            yield from inside(child)


def names_in(e: ast.AST) -> set[str]:
    """Return all names in an expression or statement."""
    return {n.id for n in ast.walk(e) if isinstance(n, ast.Name)}


def names_beside_items(e: ast.AST) -> set[str]:
    """Return the names from which an expression is computed, without those that are only indices."""
    if isinstance(e, ast.Subscript):
        return names_beside_items(e.value)
    if isinstance(e, ast.Name):
        return {e.id}
    return {name for child in ast.iter_child_nodes(e) for name in names_beside_items(child)}


def chain_of(e: ast.expr) -> tuple[str, ...]:
    """Return the names of a chain such as ``np.linalg.norm``; () for other expressions."""
    if isinstance(e, ast.Name):
        return (e.id,)
    root = chain_of(e.value) if isinstance(e, ast.Attribute) else ()
    return (*root, e.attr) if root and isinstance(e, ast.Attribute) else ()


def assignments(body: Sequence[ast.stmt]) -> Iterator[tuple[ast.expr | None, ast.Name]]:
    """Yield the names that statements assign, each with its value; None where the value is one of several."""
    for node in (n for s in body for n in inside(s)):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            yield node.value, node.target
        for whole in node.targets if isinstance(node, ast.Assign) else ():
            parts = targets(whole)
            assert isinstance(node, ast.Assign)
            values: list[Any] = [node.value] if parts == [whole] else [None] * len(parts)
            if isinstance(node.value, ast.Tuple) and parts != [whole] and len(parts) == len(node.value.elts):
                values = node.value.elts
            yield from ((value, t) for value, t in zip(values, parts, strict=True) if isinstance(t, ast.Name))


def begun_in(body: Sequence[ast.stmt], *, in_branches: bool = True) -> set[str]:
    """Return the names that each iteration assigns before it reads them.

    An inner loop may have no iterations, and only one branch runs. So a name that these assign counts only where
    nothing outside of the loop or branch reads it. Without `in_branches`, assignments in branches never count.
    """
    begun: set[str] = set()
    within: set[str] = set()
    late: set[str] = set()
    for s in body:
        names, own = names_in(s), set()
        if isinstance(s, ast.For):
            own = (begun_in(s.body, in_branches=in_branches) | names_in(s.target)) - names_in(s.iter)
        elif isinstance(s, ast.If) and in_branches:
            branches = [(begun_in(branch), set().union(*map(names_in, branch))) for branch in (s.body, s.orelse)]
            own = {n for began, _ in branches for n in began if all(n in b or n not in ns for b, ns in branches)}
            own -= names_in(s.test)
        elif isinstance(s, ast.Assign):
            stores = {t.id for whole in s.targets for t in targets(whole) if isinstance(t, ast.Name)}
            read = names_in(s.value).union(*(
                names_in(t) for whole in s.targets for t in targets(whole) if not isinstance(t, ast.Name)))
            begun |= stores - read - late
        within |= own - begun
        late |= names - begun - own
    return (begun | within) - late

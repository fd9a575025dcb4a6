"""Parses the top-level statement of a module that contains a function.

A module is parsed as a whole once, to find where its statements begin and end. Functions are then parsed and compiled
without the others. Line numbers stay the same. Does not own what is done with the trees.
"""
from __future__ import annotations

import ast
import bisect
import functools
import linecache
import warnings
from collections.abc import Iterator, Sequence


def parsed(filename: str, line: int) -> ast.Module | None:
    """Return the top-level statement of a file that contains a line, with the module's imports, as a new tree that may
    be changed. None where the file has no such statement, or cannot be read."""
    source = "".join(linecache.getlines(filename))
    imports, ends = _statements(source)
    at = bisect.bisect_left(ends, line)
    if at == len(ends):
        return None
    lines = source.split("\n")  # lines as the parser counts them
    first = ends[at - 1] if at else 0
    text = "\n".join(lines[first : ends[at]]) + "\n\n"  # it may end in a backslash
    return _tree(f"{imports}{chr(10) * first}{text}" if first else f"{text}{imports}")


def _tree(source: str) -> ast.Module | None:
    with warnings.catch_warnings(action="ignore"):  # where warnings are errors, no text could be parsed
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError):
            return None


@functools.lru_cache(maxsize=64)
def _statements(source: str) -> tuple[str, tuple[int, ...]]:
    """Return the imports of a module as one line, because CPython compiles calls of imported names differently; and the
    last lines of its statements. Statements that share a line are one."""
    tree = _tree(source)
    if tree is None:
        return "", ()
    ends: list[int] = []
    for node in tree.body:
        if ends and node.lineno <= ends[-1]:
            ends.pop()
        ends.append(node.end_lineno or node.lineno)
    return "; ".join(map(ast.unparse, _imports(tree.body))), tuple(ends)


def _imports(body: Sequence[ast.AST]) -> Iterator[ast.stmt]:
    """Yield the imports in statements and their blocks, but not those in functions and classes."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr):
            yield from _imports(list(ast.iter_child_nodes(node)))


def first_line(node: ast.stmt) -> int:
    """Return the line where a statement begins, decorators included."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(d.lineno for d in decorators)])


def function_at(tree: ast.Module, line: int) -> ast.FunctionDef | None:
    """Return the function that begins at a line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and first_line(node) == line:
            return node
    return None

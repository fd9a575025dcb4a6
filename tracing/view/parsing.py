"""The source of a function as a syntax tree: of its module, the statement of the top level that it stands in.

A module is parsed as a whole once, to know where its statements begin and end; functions are then parsed, and compiled,
without the others. Lines keep their numbers. Does not own what is done with the trees.
"""
from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Iterator, Sequence


def parsed(filename: str, line: int) -> ast.Module | None:
    """Return the statement of a file's top level that a line is in, after the module's imports; a new tree, which may
    be changed. None where the file has no such statement, or cannot be read."""
    lines = linecache.getlines(filename)
    imports, spans = _statements("".join(lines))
    for first, last in spans:
        if first <= line <= last:
            text = "".join(lines[first - 1 : last])
            return ast.parse(f"{imports}{chr(10) * (first - 1)}{text}" if first > 1 else text)
    return None


@functools.lru_cache(maxsize=64)
def _statements(source: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return the imports of a module as one line, for CPython calls what is imported in another way, and the first and
    last lines of its statements; statements that share a line are one."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return "", ()
    imports = list(_imports(tree.body))
    spans: list[tuple[int, int]] = []
    for node in tree.body:
        first, last = first_line(node), node.end_lineno or node.lineno
        if spans and first <= spans[-1][1]:
            first, last = spans[-1][0], max(last, spans.pop()[1])
        spans.append((first, last))
    return "; ".join(map(ast.unparse, imports)), tuple(spans)


def _imports(body: Sequence[ast.AST]) -> Iterator[ast.stmt]:
    """Return the imports among statements and in their blocks, but for those of functions and classes."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr):
            yield from _imports(list(ast.iter_child_nodes(node)))


def first_line(node: ast.stmt) -> int:
    """Return the line where a statement begins, with its decorators."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(d.lineno for d in decorators)])


def function_at(tree: ast.Module, line: int) -> ast.FunctionDef | None:
    """Return the function that begins at a line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and first_line(node) == line:
            return node
    return None

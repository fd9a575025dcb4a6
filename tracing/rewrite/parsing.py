"""Finds a function's source: parses the top-level statement of a module that contains the function.

A module is parsed as a whole once, to find where its statements begin and end. Functions are then parsed and compiled
without the others. Line numbers stay the same. A file may have changed since it was imported, so source counts as a
function's only if it compiles to exactly the function's code. Does not own what is done with the trees.
"""
from __future__ import annotations

import ast
import bisect
import functools
import linecache
import types
import warnings
from collections.abc import Iterator, Sequence
from typing import Final

_REFLECTS: Final = frozenset({"locals", "vars", "eval", "exec", "dir", "id"})


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


def function_in(filename: str, line: int) -> ast.FunctionDef | None:
    """Return the function that begins at a line of a file."""
    tree = parsed(filename, line)
    return None if tree is None else function_at(tree, line)


def source_of(code: types.CodeType) -> ast.FunctionDef | None:
    """Return a function's source; None where the file does not match its code, or the function uses reflection."""
    found = matching(code)
    return None if found is None else found[1]


def matching(code: types.CodeType) -> tuple[ast.Module, ast.FunctionDef] | None:
    """Return the parsed part of the module that defines a function, and the function in it; None as `source_of`."""
    tree = parsed(code.co_filename, code.co_firstlineno)
    node = None if tree is None else function_at(tree, code.co_firstlineno)
    if tree is None or node is None or not _REFLECTS.isdisjoint(code.co_names):
        return None
    same = code_of(tree, code)
    return (tree, node) if same is not None and _are_equal(same, code) else None


def code_of(tree: ast.Module, like: types.CodeType) -> types.CodeType | None:
    """Compile a module; return the code of the function that matches `like`."""
    with warnings.catch_warnings(action="ignore"):
        whole = compile(tree, like.co_filename, "exec", dont_inherit=True)
    todo = [whole]
    while todo:
        code = todo.pop()
        if (code.co_qualname, code.co_firstlineno) == (like.co_qualname, like.co_firstlineno):
            return code
        todo += [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return None


def _are_equal(one: types.CodeType, other: types.CodeType) -> bool:
    fields = ("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_name", "co_linetable")
    if any(getattr(one, f) != getattr(other, f) for f in fields) or len(one.co_consts) != len(other.co_consts):
        return False
    for a, b in zip(one.co_consts, other.co_consts):
        if isinstance(a, types.CodeType):
            if not isinstance(b, types.CodeType) or not _are_equal(a, b):
                return False
        elif type(a) is not type(b) or repr(a) != repr(b):
            return False
    return True

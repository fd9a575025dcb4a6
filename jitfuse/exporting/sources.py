"""Modules of jitfuse as source text: the meaning of each global name, and definitions with names replaced.

Annotations are removed, so that a definition only needs the names that it computes with.
"""
from __future__ import annotations

import ast
import importlib
import re
import sys
import types
from collections.abc import Callable, Iterator
from functools import cache

from jitfuse.base.records import NamedTuple
from jitfuse.errors import UnsupportedError

Rename = Callable[[str, str], str | None]
"""(module, global name) -> the expression that replaces it, or None if the name stays."""


class Global(NamedTuple):
    """The meaning of a name in a module: a statement there, or an import."""

    kind: str
    """"definition", "module" or "import"."""
    module: str
    name: str
    statement: ast.stmt


class Source:
    """The source of one module."""

    def __init__(self, module: str) -> None:
        path = importlib.import_module(module).__file__ or ""
        try:
            with open(path, "rb") as file:
                text = file.read()
        except OSError as error:
            raise UnsupportedError(f"the source of {module}, which the export copies from, is not there") from error
        self.module = module
        self.lines = text.splitlines(keepends=True)
        self.tree = ast.parse(text)
        self.globals = dict(self._globals())

    def _globals(self) -> Iterator[tuple[str, Global]]:
        for node in self.tree.body:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield alias.asname or alias.name, Global("module", alias.name, "", node)
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    found = whole in sys.modules and whole.startswith("jitfuse.")
                    kind, home = ("module", whole) if found else ("import", node.module or "")
                    yield alias.asname or alias.name, Global(kind, home, alias.name, node)
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                yield node.name, Global("definition", self.module, node.name, node)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    if isinstance(target, ast.Name):
                        yield target.id, Global("definition", self.module, target.id, node)

    def lambda_of(self, function: types.FunctionType) -> ast.Lambda:
        """Return the expression that made a lambda; two on one line are distinguished by their columns."""
        code = function.__code__
        columns = [p[2] for p in code.co_positions() if p[0] is not None and p[2]]
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno:
                if node.col_offset <= min(columns) and max(columns) <= (node.end_col_offset or 0):
                    return node
                if node.end_lineno != node.lineno:
                    return node
        raise UnsupportedError(f"no lambda at {self.module}:{code.co_firstlineno}")

    def text_of(self, node: ast.stmt, name: str, new_name: str, rename: Rename) -> str:
        """Return a definition under a new name, without annotations and with its global names replaced."""
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
        edits = [*self._declared(node, name, new_name), *_annotations(node, self._between)]
        meant = ((use, self.meaning(use, rename)) for use in _uses(node))
        edits += [_Edit(_start(use), _end(use), text) for use, text in meant if text is not None]
        lines = list(self.lines[first - 1 : node.end_lineno])
        for edit in sorted(edits, key=lambda e: e.start, reverse=True):
            (a, left), (b, right) = edit.start, edit.end
            joined = lines[a - first][:left] + edit.text.encode() + lines[b - first][right:]
            lines[a - first : b - first + 1] = [joined]
        text = b"".join(lines).decode().rstrip()
        return re.sub(r"\s*# (type: ignore|noqa)[^\n]*", "", text)

    def _declared(self, node: ast.stmt, name: str, new_name: str) -> Iterator[_Edit]:
        """Yield the edit that renames a definition."""
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            line = self.lines[node.lineno - 1]
            at = line.index(b" " + name.encode(), node.col_offset) + 1
            yield _Edit((node.lineno, at), (node.lineno, at + len(name.encode())), new_name)
            return
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:  # type: ignore[attr-defined]
            if isinstance(target, ast.Name) and target.id == name:
                yield _Edit(_start(target), _end(target), new_name)

    def meaning(self, use: ast.Name | ast.Attribute, rename: Rename) -> str | None:
        """Return the replacement of a global name, or of `module.name` in another module of jitfuse."""
        if isinstance(use, ast.Name):
            found = self.globals.get(use.id)
            if found is None or (found.kind == "module" and found.module.startswith("jitfuse.")):
                return None
            return rename(self.module, use.id)
        found = self.globals.get(use.value.id) if isinstance(use.value, ast.Name) else None
        if found is None or found.kind != "module" or not found.module.startswith("jitfuse."):
            return None
        return rename(found.module, use.attr)

    def _between(self, start: tuple[int, int], mark: bytes) -> tuple[int, int]:
        """Return the position of the last mark before a position, on its line or the one before."""
        line, column = start
        at = self.lines[line - 1].rfind(mark, 0, column)
        return (line, at) if at >= 0 else (line - 1, self.lines[line - 2].rfind(mark))


class _Edit(NamedTuple):
    start: tuple[int, int]
    end: tuple[int, int]
    text: str


@cache
def source(module: str) -> Source:
    """Return the source of a module; it is read once."""
    return Source(module)


def _start(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: ast.expr) -> tuple[int, int]:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return node.end_lineno, node.end_col_offset


def _annotations(root: ast.stmt, between: Callable[[tuple[int, int], bytes], tuple[int, int]]) -> Iterator[_Edit]:
    """Yield the edits that remove the annotations of arguments, results and variables."""
    for node in ast.walk(root):
        if isinstance(node, ast.FunctionDef):
            if node.returns is not None:
                line, column = between(_start(node.returns), b" ->")
                yield _Edit((line, column), _end(node.returns), "")
            yield from _argument_annotations(node.args)
        elif isinstance(node, ast.AnnAssign):
            if node.value is None:
                raise UnsupportedError("a declaration without a value cannot be copied")
            yield _Edit(_end(node.target), _end(node.annotation), "")


def _argument_annotations(args: ast.arguments) -> Iterator[_Edit]:
    plain = [*args.posonlyargs, *args.args]
    defaults = dict(zip([a.arg for a in plain[len(plain) - len(args.defaults) :]], args.defaults, strict=True))
    defaults |= {a.arg: d for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if d is not None}
    for arg in (*plain, *args.kwonlyargs, args.vararg, args.kwarg):
        if arg is None or arg.annotation is None:
            continue
        after = arg.lineno, arg.col_offset + len(arg.arg.encode())
        default = defaults.get(arg.arg)
        yield _Edit(after, _end(arg.annotation) if default is None else _start(default), "=" if default else "")


def _uses(root: ast.AST) -> Iterator[ast.Name | ast.Attribute]:
    """Yield the names and the `a.b` that a definition reads from its module, except in annotations."""
    local = local_names(root)
    for node in _walked(root):
        name = node.value if isinstance(node, ast.Attribute) else node
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load) and name.id not in local:
            assert isinstance(node, ast.Name | ast.Attribute)
            yield node


def _walked(root: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a definition, except those of annotations."""
    yield root
    for field, value in ast.iter_fields(root):
        if field not in ("annotation", "returns"):
            for node in value if isinstance(value, list) else [value]:
                if isinstance(node, ast.AST):
                    yield from _walked(node)


def local_names(root: ast.AST) -> set[str]:
    """Return the names that a definition binds inside: arguments, variables, inner functions."""
    names: set[str] = set()
    for node in ast.walk(root):
        if isinstance(node, ast.arg):
            names.add(node.arg)
        elif node is root:
            continue
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
    if isinstance(root, ast.Assign | ast.AnnAssign):
        for target in root.targets if isinstance(root, ast.Assign) else [root.target]:
            names -= {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
    return names

"""Expressions as lines of Python source of bounded width. Does not own the expressions."""
from __future__ import annotations

import ast
from typing import Final

WIDTH: Final = 120
INDENT: Final = "    "


def lay_out(prefix: str, node: ast.expr, suffix: str = "", indent: str = "") -> list[str]:
    """Return `prefix`, the expression and `suffix` as lines; calls, sequences and bytes are broken if needed."""
    line = f"{indent}{prefix}{to_text(node)}{suffix}"
    if len(line) <= WIDTH:
        return [line]
    inner = indent + INDENT
    if isinstance(node, ast.Call):
        head = lay_out(prefix, node.func, "(", indent)
        arguments = [line for a in node.args for line in lay_out("", a, ",", inner)]
        for keyword in node.keywords:
            arguments += lay_out(f"{keyword.arg}=" if keyword.arg else "**", keyword.value, ",", inner)
        return [*head, *arguments, f"{indent}){suffix}"]
    if isinstance(node, ast.Tuple | ast.List) and node.elts:
        opening, closing = ("(", ")") if isinstance(node, ast.Tuple) else ("[", "]")
        return [f"{indent}{prefix}{opening}", *_filled(node.elts, inner), f"{indent}{closing}{suffix}"]
    if isinstance(node, ast.Dict) and node.keys:
        items = zip(node.keys, node.values, strict=True)
        lines = [line for k, v in items if k is not None for line in lay_out(f"{to_text(k)}: ", v, ",", inner)]
        return [f"{indent}{prefix}{{", *lines, f"{indent}}}{suffix}"]
    if isinstance(node, ast.Constant) and isinstance(node.value, bytes | str):
        return [f"{indent}{prefix}(", *(inner + part for part in _chunks(node.value, len(inner))), f"{indent}){suffix}"]
    if isinstance(node, ast.Subscript):
        *first, last = lay_out(prefix, node.value, "", indent)
        return [*first, f"{last}[{to_text(node.slice)}]{suffix}"]
    return [line]


def to_text(node: ast.AST) -> str:
    """Return an expression as one line, with double quotes where possible."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _quoted(node.value)
    return ast.unparse(ast.fix_missing_locations(_Quoted().visit(ast.parse(ast.unparse(node), mode="eval")).body))


class _QuotedText(str):
    """A string whose repr, as written by `ast.unparse`, has double quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return _quoted(str(self))


class _Quoted(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        if isinstance(node.value, str):
            return ast.Constant(_QuotedText(node.value))
        return node


def _quoted(text: str) -> str:
    written = repr(text)
    return f'"{written[1:-1]}"' if written.startswith("'") and '"' not in written else written


def _filled(elements: list[ast.expr], indent: str) -> list[str]:
    lines: list[str] = []
    for element in elements:
        parts = lay_out("", element, ",", indent)
        if len(parts) == 1 and lines and lines[-1].endswith(",") and len(lines[-1]) + len(parts[0]) <= WIDTH:
            lines[-1] += " " + parts[0].lstrip()
        else:
            lines += parts
    return lines


def _chunks(value: bytes | str, indent: int) -> list[str]:
    """Return literals of consecutive parts, each of which fits on a line."""
    parts, start = [], 0
    while start < len(value):
        count = WIDTH - indent - 3
        while len(repr(value[start : start + count])) > WIDTH - indent:
            count -= max((len(repr(value[start : start + count])) - (WIDTH - indent)) // 4, 1)
        parts.append(repr(value[start : start + count]))
        start += count
    return parts

"""One operator call as an expression of NumPy: infix operators, calls of NumPy, or calls of copied helpers.

The op table's NumPy reference alone defines an operator. A reference that is a single expression is inlined, with the
attributes' values in place of their names; any other is copied and called.
"""
from __future__ import annotations

import ast
import importlib
import types
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from jitfuse.base.records import NamedTuple
from jitfuse.dtypes import is_narrow
from jitfuse.errors import UnsupportedError
from jitfuse.exporting.definitions import Definitions
from jitfuse.exporting.literals import is_literal, literal
from jitfuse.exporting.sources import source
from jitfuse.ir.operators import ops
from jitfuse.ir.program import Meta
from jitfuse.ir.semantics import library, reference

_INFIX: Final[dict[Any, ast.operator | ast.cmpop | ast.unaryop]] = {
    np.add: ast.Add(), np.subtract: ast.Sub(), np.multiply: ast.Mult(), np.divide: ast.Div(),
    np.bitwise_and: ast.BitAnd(), np.bitwise_or: ast.BitOr(), np.bitwise_xor: ast.BitXor(),
    np.equal: ast.Eq(), np.not_equal: ast.NotEq(), np.less: ast.Lt(), np.less_equal: ast.LtE(),
    np.greater: ast.Gt(), np.greater_equal: ast.GtE(), np.negative: ast.USub(), np.invert: ast.Invert(),
}
"""Ufuncs that equal Python's operator on arrays for all operands; powers, shifts and quotients do not."""


class OperandText(NamedTuple):
    """An expression for a value, and the value's metadata."""

    node: ast.expr
    meta: Meta

    @property
    def is_array(self) -> bool:
        """Whether it is surely an ndarray, not a scalar."""
        return self.meta.ndim > 0


def call(
    op: ops.Op, operands: Sequence[OperandText], attrs: dict[str, Any], result: Meta, definitions: Definitions
) -> ast.expr:
    """Return the expression of an operator call; raises UnsupportedError for attributes that have no literal."""
    nodes = {name: a if isinstance(a, ast.expr) else literal(a) for name, a in attrs.items()}
    function = op.numpy
    rounds_once = isinstance(function, types.FunctionType) and _maker(function) == reference.rounded_once.__qualname__
    if rounds_once and not is_narrow(operands[0].meta.dtype):  # other dtypes are not rounded
        function = _closed(function)["function"]
        operands = [_strong(o) for o in operands]
    found = _infix(function, operands)
    if found is None:
        found = _Inlined(function, operands, nodes, definitions).expression(op.name)
    if result.ndim and isinstance(found, ast.Subscript) and ast.unparse(found.slice) == "()":
        found = found.value  # drops [()], which is needed for rank 0 only
    if result.weak and op.kind != ops.MODE and op.name != "python_number":  # python_number does it itself
        found = ast.Call(ast.Attribute(found, "item"), [], [])
    return found


def _maker(function: Any) -> str:
    return str(function.__qualname__).partition(".<locals>.")[0]


def _closed(function: Any) -> dict[str, Any]:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {name: cell.cell_contents for name, cell in cells}


def _strong(operand: OperandText) -> OperandText:
    if not operand.meta.weak:
        return operand
    return OperandText(_np_call("asarray", operand.node), operand.meta)


def _np_call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Attribute(ast.Name("np"), name), list(args), [])


def _infix(function: Any, operands: Sequence[OperandText]) -> ast.expr | None:
    """Return `a + b` where Python's operator calls this very ufunc: for arrays, not for two libraries' scalars."""
    operator = _INFIX.get(function) if isinstance(function, np.ufunc) else None
    if operator is None or not any(o.is_array for o in operands):
        return None
    if any(o.meta.dtype == "bfloat16" for o in operands):
        return None
    nodes = [o.node for o in operands]
    if isinstance(operator, ast.unaryop):
        return ast.UnaryOp(operator, nodes[0])
    if isinstance(operator, ast.cmpop):
        return ast.Compare(nodes[0], [operator], [nodes[1]])
    return ast.BinOp(nodes[0], operator, nodes[1])


class _Inlined:
    """A call of a NumPy reference, inlined if the reference is a single expression."""

    def __init__(
        self, function: Callable[..., Any], operands: Sequence[OperandText], attrs: dict[str, ast.expr],
        definitions: Definitions,
    ) -> None:
        self.function = function
        self.operands = operands
        self.attrs = attrs
        self.definitions = definitions
        self.arrays = {ast.dump(o.node) for o in operands if o.is_array}

    def expression(self, name: str) -> ast.expr:
        """Return the call; `name` is the operator's."""
        found = self._body()
        if found is not None:
            return self._in_place(*found)
        nodes = [o.node for o in self.operands]
        function = self.function
        if isinstance(function, types.FunctionType) and _maker(function) == library.special.__qualname__:
            closed = _closed(function)
            metas = [o.meta for o in self.operands]
            widens = closed["widens"] and any(m.dtype != "float32" or m.weak for m in metas) and not any(
                m.dtype == "float64" and not m.weak for m in metas)
            keywords = [ast.keyword("dtype", ast.parse("np.float64", mode="eval").body)] if widens else []
            return ast.Call(ast.parse(f"special.{closed['path']}", mode="eval").body, nodes, keywords)
        keywords = [ast.keyword(k, v) for k, v in self.attrs.items()]
        return ast.Call(self.definitions.function(function, name), nodes, keywords)

    def _body(self) -> tuple[ast.arguments, ast.expr] | None:
        """Return the arguments and the expression of a function that is a single return statement."""
        function = self.function
        if not isinstance(function, types.FunctionType) or function.__closure__:
            return None
        if not function.__module__.startswith("jitfuse."):
            return None
        here = source(function.__module__)
        if function.__qualname__.endswith("<lambda>"):
            node = here.lambda_of(function)
            return node.args, node.body
        found = here.globals.get(function.__qualname__)
        statement = found.statement if found is not None else None
        if not isinstance(statement, ast.FunctionDef) or statement.decorator_list:
            return None
        body = statement.body[1:] if ast.get_docstring(statement) is not None else statement.body
        if len(body) == 1 and isinstance(body[0], ast.Return) and body[0].value is not None:
            return statement.args, body[0].value
        return None

    def _in_place(self, args: ast.arguments, body: ast.expr) -> ast.expr:
        module = self.function.__module__
        plain = [a.arg for a in args.args]
        values: dict[str, Any] = dict(zip(plain, (o.node for o in self.operands), strict=False))
        values |= self.attrs
        rest = [o.node for o in self.operands[len(plain) :]]
        if args.vararg is not None:
            values[args.vararg.arg] = rest
        filled = _Filled(values, module, self.definitions).visit(ast.parse(ast.unparse(body), mode="eval").body)
        assert isinstance(filled, ast.expr)
        return self._without_asarray(filled)

    def _without_asarray(self, node: ast.expr) -> ast.expr:
        """Remove `np.asarray` around arrays."""
        arrays = self.arrays

        class Simplified(ast.NodeTransformer):
            def visit_Call(self, call: ast.Call) -> ast.AST:
                self.generic_visit(call)
                taken_off = ast.unparse(call.func) == "np.asarray" and len(call.args) == 1 and not call.keywords
                return call.args[0] if taken_off and ast.dump(call.args[0]) in arrays else call

        simplified = Simplified().visit(node)
        assert isinstance(simplified, ast.expr)
        return simplified


class _Filled(ast.NodeTransformer):
    """Replaces a function's parameters by values, and evaluates expressions that depend on literals alone."""

    def __init__(self, values: dict[str, Any], module: str, definitions: Definitions) -> None:
        self.values = values
        self.source = source(module)
        self.definitions = definitions

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.values:
            value = self.values[node.id]
            return ast.Tuple(value, ast.Load()) if isinstance(value, list) else value
        return self._meant(node) or node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return self._meant(node) or self.generic_visit(node)

    def _meant(self, node: ast.Name | ast.Attribute) -> ast.expr | None:
        text = self.source.meaning(node, self.definitions.global_name)
        return None if text is None else ast.parse(text, mode="eval").body

    def visit_Starred(self, node: ast.Starred) -> Any:
        if isinstance(node.value, ast.Name) and isinstance(self.values.get(node.value.id), list):
            return self.values[node.value.id]
        return self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.test, ast.Constant):
            return node.body if node.test.value else node.orelse
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        function, node.func = node.func, ast.Constant(None)
        self.generic_visit(node)
        node.func = function
        folded = self._carried_out(node)
        if folded is None:
            node.func = self.visit(function)
        return folded or node

    def _carried_out(self, node: ast.Call) -> ast.expr | None:
        """Return the value of a helper's call over literals, if the value has a literal."""
        plain = not node.keywords and all(map(is_literal, node.args))
        found = self.source.globals.get(node.func.id) if isinstance(node.func, ast.Name) else None
        if not plain or found is None or not found.module.startswith("jitfuse."):
            return None
        function = getattr(importlib.import_module(found.module), found.name)
        try:
            return literal(function(*map(ast.literal_eval, node.args)))
        except UnsupportedError:
            return None

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        match node.slice:
            case ast.Tuple(elts=[ast.Slice() as only]):
                node.slice = only
        return node

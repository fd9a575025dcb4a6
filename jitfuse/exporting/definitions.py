"""The helpers of an exported module: functions and constants of jitfuse, copied with all that they use.

Every copy has a new private name. Does not own how source is read and edited (`jitfuse.exporting.sources`).
"""
from __future__ import annotations

import ast
import builtins
import types
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from jitfuse.errors import JitfuseError, UnsupportedError
from jitfuse.exporting.layout import lay_out
from jitfuse.exporting.literals import literal
from jitfuse.exporting.names import unused
from jitfuse.exporting.sources import Global, local_names, source

_SUBSTITUTES: Final = {("jitfuse.dtypes", "numpy_dtype"): "np.dtype"}
"""Functions replaced by NumPy's own, which is enough after the exported module has imported ml_dtypes if needed."""


class Definitions:
    """Collects definitions; `texts` gives them, each after those that it uses."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = taken
        self._names: dict[tuple[str, str], str] = {}
        self._made: dict[str, str] = {}
        self._texts: list[str] = []
        self.imports: set[str] = set()

    @property
    def texts(self) -> tuple[str, ...]:
        """The source texts of the definitions in order; consecutive constants are one text."""
        texts: list[str] = []
        for text in self._texts:
            if texts and _is_constant(text) and _is_constant(texts[-1]):
                texts[-1] += "\n" + text
            else:
                texts.append(text)
        return tuple(texts)

    def function(self, function: Callable[..., Any], hint: str) -> ast.expr:
        """Return the expression for a function of NumPy's or jitfuse's, and copy the definitions that it uses.

        `hint` names a function that is made by another one. Raises UnsupportedError for one that cannot be copied.
        """
        if getattr(np, getattr(function, "__name__", ""), None) is function:
            return ast.Attribute(ast.Name("np"), function.__name__)
        module, name = str(function.__module__), str(function.__qualname__)
        if not isinstance(function, types.FunctionType) or not module.startswith("jitfuse."):
            raise UnsupportedError(f"{hint}: {function!r} is neither NumPy's nor jitfuse's")
        if name in source(module).globals:
            return ast.Name(self.global_name(module, name) or name)
        if name.endswith("<lambda>"):
            return self._lambda(module, source(module).lambda_of(function))
        return ast.Name(self._made_by(function, module, name, hint))

    def global_name(self, module: str, name: str) -> str | None:
        """Return the expression for a global name of a module of jitfuse; None for a builtin."""
        found = source(module).globals.get(name)
        if found is None:
            return None
        if found.kind == "module":
            self.imports.add(f"import {found.module}" if found.module == name else f"import {found.module} as {name}")
            return name
        if found.kind == "import" and not found.module.startswith("jitfuse."):
            self.imports.add(f"from {found.module} import {found.name}")
            return name
        if found.kind == "import":
            return self.global_name(found.module, found.name)
        return self._copied(found)

    def _copied(self, found: Global) -> str:
        key = found.module, found.name
        if key in _SUBSTITUTES:
            self.imports.add("import numpy as np")
            return _SUBSTITUTES[key]
        if key not in self._names:
            if found.module == "jitfuse.errors":
                return _builtin_error(found.name)
            self._names[key] = new = unused("_" + found.name.lstrip("_"), self._taken)
            text = source(found.module).text_of(found.statement, found.name, new, self.global_name)
            self._texts.append(text)
        return self._names[key]

    def _lambda(self, module: str, node: ast.Lambda) -> ast.expr:
        copied = ast.parse(ast.unparse(node), mode="eval").body
        renamed = _Renamer(module, local_names(node), self.global_name).visit(copied)
        assert isinstance(renamed, ast.expr)
        return renamed

    def _made_by(self, function: types.FunctionType, module: str, name: str, hint: str) -> str:
        """Define a closure as a call of the function that made it, with the closed-over values as arguments."""
        maker, _, _ = name.partition(".<locals>.")
        statement = source(module).globals[maker].statement
        assert isinstance(statement, ast.FunctionDef)
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        closed = {n: cell.cell_contents for n, cell in cells}
        missing = [a.arg for a in statement.args.args if a.arg not in closed]
        if missing:
            raise UnsupportedError(f"{hint}: {maker} does not keep its argument {missing[0]!r}")
        values = [self._value(closed[a.arg], hint) for a in statement.args.args]
        call = ast.Call(ast.Name(self.global_name(module, maker) or maker), values, [])
        key = ast.dump(call)
        if key not in self._made:
            self._made[key] = new = unused(f"_{hint}", self._taken)
            self._texts.append("\n".join(lay_out(f"{new} = ", call)))
        return self._made[key]

    def _value(self, value: Any, hint: str) -> ast.expr:
        return self.function(value, hint) if callable(value) else literal(value)


class _Renamer(ast.NodeTransformer):
    """Replaces the global names in an expression from a module."""

    def __init__(self, module: str, local: set[str], rename: Callable[[str, str], str | None]) -> None:
        self.source = source(module)
        self.local = local
        self.rename = rename

    def visit_Name(self, use: ast.Name) -> ast.expr:
        text = None if use.id in self.local else self.source.meaning(use, self.rename)
        return use if text is None else ast.parse(text, mode="eval").body

    def visit_Attribute(self, use: ast.Attribute) -> ast.AST:
        text = self.source.meaning(use, self.rename)
        return self.generic_visit(use) if text is None else ast.parse(text, mode="eval").body


def _is_constant(text: str) -> bool:
    return not text.startswith(("def ", "class ", "@"))


def _builtin_error(name: str) -> str:
    import jitfuse.errors as errors

    error = getattr(errors, name)
    assert issubclass(error, JitfuseError)
    return next(str(c.__name__) for c in error.__mro__ if c.__module__ == builtins.__name__)

"""A plugin of mypy: `Later("jitfuse.x.y")` has the type of the module that it names."""
from __future__ import annotations

from collections.abc import Callable, Iterator

from mypy.checker import TypeChecker
from mypy.nodes import AssignmentStmt, CallExpr, MypyFile, NameExpr, StrExpr
from mypy.plugin import FunctionContext, Plugin
from mypy.types import ExtraAttrs, Instance, Type


def _named(file: MypyFile) -> Iterator[tuple[int, str]]:
    """Yield the line and the module of each `name = Later("...")` of a file."""
    for node in file.defs:
        call = node.rvalue if isinstance(node, AssignmentStmt) else None
        if isinstance(call, CallExpr) and isinstance(call.callee, NameExpr) and call.callee.name.endswith("Later"):
            (name,) = call.args
            assert isinstance(name, StrExpr), f"{file.path}:{node.line}: Later takes the name itself"
            yield node.line, name.value


def _as_module(context: FunctionContext) -> Type:
    """Return the type of an object with the attributes of the module: a ModuleType may have any."""
    name, checker = context.args[0][0], context.api
    assert isinstance(name, StrExpr) and isinstance(checker, TypeChecker)
    module = checker.expr_checker.module_type(checker.modules[name.value])
    assert module.extra_attrs is not None
    known = ExtraAttrs(module.extra_attrs.attrs, module.extra_attrs.immutable)
    return Instance(checker.named_type("builtins.object").type, [], extra_attrs=known)


class LaterPlugin(Plugin):
    """Makes mypy read the modules that `Later` names, and gives their types."""

    def get_additional_deps(self, file: MypyFile) -> list[tuple[int, str, int]]:
        return [(10, module, line) for line, module in _named(file)]

    def get_function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        return _as_module if fullname == "jitfuse.base.later.Later" else None


def plugin(version: str) -> type[Plugin]:
    """Return the class; mypy calls this."""
    return LaterPlugin

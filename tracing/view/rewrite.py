"""Put a gate behind every instruction that reads Python state, and before every one that writes it.

Instruction names decide, not opcode numbers, so that one table serves Python 3.11 and later; what a newer
version adds runs unhooked. The code keeps its names, flags, line and column table and exception
table. Nested code (functions, lambdas, comprehensions, generators, class bodies) is rewritten with its parent.
"""
from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any, Final

from bytecode import Bytecode, Instr
from bytecode.instr import CellVar, FreeVar

from jitfuse.tracing.view import gate

_PRECALL: Final = sys.version_info < (3, 12)
_NULL_AFTER: Final = sys.version_info >= (3, 13)
_LOAD_CELL: Final = "LOAD_CLOSURE" if sys.version_info < (3, 13) else "LOAD_FAST"
_NESTED: Final = types.CodeType
_KEYS: Final = frozenset(
    {"LOAD_CONST", "LOAD_FAST", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_SMALL_INT", "LOAD_FAST_BORROW"})
_CONSTANTS: Final = frozenset({"LOAD_CONST", "LOAD_SMALL_INT"})

Rule = Callable[["_Rewriter", Instr, bool], None]


class _Rewriter:
    """One code object on its way: `out` grows, `at` is the location that new instructions take."""

    def __init__(self, code: types.CodeType, defaults: frozenset[str], nested: bool) -> None:
        self.code = code
        self.defaults = defaults
        self.nested = nested
        self.source = Bytecode.from_code(code)
        self.out: list[Any] = []
        self.location: Any = None
        self.started = False

    def emit(self, name: str, *arg: Any) -> None:
        self.out.append(Instr(name, *arg, location=self.location))

    def call(self, function: Any, arity: int, *constants: Any) -> None:
        """Call a gate with the `arity` topmost values and the constants; leaves its result.

        One exchange brings the function below its arguments, so of two values the topmost comes first, and of
        three the topmost last. The function goes where an unbound method goes, the topmost value where its ``self`` goes; so no NULL
        is needed, and the layout is the same in all versions.
        """
        self.emit("LOAD_CONST", function)
        self.emit("SWAP", arity + 1)
        for constant in constants:
            self.emit("LOAD_CONST", constant)
        self.plain_call(arity - 1 + len(constants))

    def plain_call(self, count: int) -> None:
        if _PRECALL:
            self.emit("PRECALL", count)
        self.emit("CALL", count)

    def call_alone(self, function: Any, constant: Any) -> None:
        """Call ``function(constant)`` for its effect."""
        self.emit("LOAD_CONST", function)
        self.emit("LOAD_CONST", constant)
        self.plain_call(0)
        self.emit("POP_TOP")

    def as_method(self) -> None:
        """Give the callable on top the form in which a method load leaves it."""
        self.emit("PUSH_NULL")
        if not _NULL_AFTER:
            self.emit("SWAP", 2)

    def run(self) -> types.CodeType:
        source = list(self.source)
        for position, instruction in enumerate(source):
            if not isinstance(instruction, Instr):
                self.out.append(instruction)
                continue
            self.location = instruction.location
            if instruction.name == "LOAD_CONST" and isinstance(instruction.arg, _NESTED):
                self.emit("LOAD_CONST", rewrite(instruction.arg, nested=True))
                continue
            rule = _RULES.get(instruction.name)
            if rule is None:
                self.out.append(instruction)
            else:
                rule(self, instruction, _only_subscripted(source, position))
            if instruction.name == "RESUME" and not self.started:
                self.started = True
                self._start()
        self.source[:] = self.out
        return self.source.to_code(stacksize=self.code.co_stacksize + 6)

    def _start(self) -> None:
        """Announce the call, and pass parameters that may hold a default through the view."""
        if not self.nested:
            self.call_alone(gate.enter, id(self.code))
        for name in sorted(self.defaults):
            self._load_parameter(name)
            self.call(gate.default, 1)
            self.emit(*self._place("STORE", name))
        if self.code.co_name == "__init__" and self.code.co_argcount:
            self._load_parameter(self.code.co_varnames[0])
            self.call(gate.fresh, 1)
            self.emit("POP_TOP")

    def _load_parameter(self, name: str) -> None:
        self.emit(*self._place("LOAD", name))

    def _place(self, verb: str, name: str) -> tuple[str, Any]:
        in_cell = name in self.code.co_cellvars
        return (f"{verb}_DEREF", CellVar(name)) if in_cell else (f"{verb}_FAST", name)


def _only_subscripted(source: list[Any], position: int) -> bool:
    """Tell whether the loaded value is used only as the container of ``[key]`` with a simple key."""
    following = source[position + 1: position + 3]
    if len(following) < 2 or not all(isinstance(step, Instr) for step in following):
        return False
    key, use = following
    simple = key.name in _KEYS and not (isinstance(key.arg, tuple) and key.name == "LOAD_GLOBAL" and key.arg[0])
    return simple and _is_subscript(use)


def _is_subscript(instruction: Instr) -> bool:
    if instruction.name == "BINARY_OP":
        return getattr(instruction.arg, "name", "") == "SUBSCR"
    return instruction.name == "BINARY_SUBSCR"


def _load_global(w: _Rewriter, step: Instr, raw: bool) -> None:
    push_null, name = step.arg if isinstance(step.arg, tuple) else (False, step.arg)
    if push_null and not _NULL_AFTER:
        w.emit("PUSH_NULL")
    w.emit("LOAD_GLOBAL", (False, name) if isinstance(step.arg, tuple) else name)
    w.call(gate.load_name_raw if raw else gate.load_name, 1, name)
    if push_null and _NULL_AFTER:
        w.emit("PUSH_NULL")


def _load_name(w: _Rewriter, step: Instr, raw: bool) -> None:
    w.out.append(step)
    w.call(gate.load_local_name, 1, step.arg)


def _load_deref(w: _Rewriter, step: Instr, raw: bool) -> None:
    w.out.append(step)
    if isinstance(step.arg, FreeVar):
        w.emit(_LOAD_CELL, step.arg)
        w.call(gate.load_cell_raw if raw else gate.load_cell, 2)


def _load_attr(w: _Rewriter, step: Instr, raw: bool) -> None:
    method, name = step.arg if isinstance(step.arg, tuple) else (False, step.arg)
    w.call(gate.load_attr_raw if raw else gate.load_attr, 1, name)
    if method:
        w.as_method()


def _load_method(w: _Rewriter, step: Instr, raw: bool) -> None:
    w.call(gate.load_attr, 1, step.arg)
    w.as_method()


def _load_super_attr(w: _Rewriter, step: Instr, raw: bool) -> None:
    assert isinstance(step.arg, tuple)
    method, *rest = step.arg
    w.emit("LOAD_SUPER_ATTR", (False, *rest))
    w.call(gate.made, 1)
    if method:
        w.as_method()


def _load_item(w: _Rewriter, step: Instr, raw: bool) -> None:
    if not _is_subscript(step):
        w.out.append(step)
        return
    w.call(gate.load_item_raw if raw else gate.load_item, 2)


def _import_name(w: _Rewriter, step: Instr, raw: bool) -> None:
    w.out.append(step)
    w.call(gate.made, 1)


def _import_from(w: _Rewriter, step: Instr, raw: bool) -> None:
    w.out.append(step)
    w.emit("COPY", 2)
    w.call(gate.imported_name, 2, step.arg)


def _store_global(w: _Rewriter, step: Instr, raw: bool) -> None:
    w.call(gate.store_name, 1, step.arg)
    w.out.append(step)


def _delete_global(w: _Rewriter, step: Instr, raw: bool) -> None:
    w.call_alone(gate.delete_name, step.arg)
    w.out.append(step)


def _store_deref(w: _Rewriter, step: Instr, raw: bool) -> None:
    if isinstance(step.arg, FreeVar):
        w.emit(_LOAD_CELL, step.arg)
        w.call(gate.store_cell, 2)
    w.out.append(step)


def _store_attr(w: _Rewriter, step: Instr, raw: bool) -> None:
    w.call(gate.store_attr, 2, step.arg)
    w.emit("POP_TOP")


def _delete_attr(w: _Rewriter, step: Instr, raw: bool) -> None:
    w.call(gate.delete_attr, 1, step.arg)
    w.emit("POP_TOP")


def _store_item(w: _Rewriter, step: Instr, raw: bool) -> None:
    w.call(gate.store_item, 3)
    w.emit("POP_TOP")


def _is(w: _Rewriter, step: Instr, raw: bool) -> None:
    before = w.out[-1] if w.out else None
    if isinstance(before, Instr) and before.name in _CONSTANTS:
        w.out.append(step)
    else:
        w.call(gate.not_same if step.arg else gate.same, 2)


_RULES: Final[dict[str, Rule]] = {
    "LOAD_GLOBAL": _load_global, "LOAD_NAME": _load_name, "LOAD_DEREF": _load_deref,
    "LOAD_ATTR": _load_attr, "LOAD_METHOD": _load_method, "LOAD_SUPER_ATTR": _load_super_attr,
    "BINARY_SUBSCR": _load_item, "BINARY_OP": _load_item,
    "IMPORT_NAME": _import_name, "IMPORT_FROM": _import_from,
    "STORE_GLOBAL": _store_global, "DELETE_GLOBAL": _delete_global, "STORE_DEREF": _store_deref,
    "STORE_ATTR": _store_attr, "DELETE_ATTR": _delete_attr, "STORE_SUBSCR": _store_item, "IS_OP": _is,
}


def is_rewritten(code: types.CodeType) -> bool:
    """Tell whether code has gates already: that of functions made by rewritten code has."""
    return any(type(constant) is types.FunctionType for constant in code.co_consts)


def rewrite(code: types.CodeType, defaults: frozenset[str] = frozenset(), nested: bool = False) -> types.CodeType:
    """Return the code with gates.

    `defaults` names the parameters whose defaults the view wants to see; `nested` code, made by rewritten
    code, does not announce its calls. Raises what `bytecode` raises for code that it does not understand.
    """
    return _Rewriter(code, defaults, nested).run()

"""Inserts a probe after every instruction that reads Python state, and before every one that writes it.

Instruction names decide, not opcode numbers, so one table serves all versions that `assembler` knows. The code keeps
its names, variables, flags, positions and exception table. Nested code (functions, lambdas, comprehensions, generators,
class bodies) is rewritten with its parent.
"""
from __future__ import annotations

import functools
import itertools
import opcode
import types
import weakref
from collections.abc import Callable
from typing import Any, Final

from jitfuse.tracing.interception import assembler, probes
from jitfuse.tracing.interception.assembler import CodeStep, InstructionGroup, assemble, encoded, number, parse
from jitfuse.tracing.interception.counters import NONE, attribute_step, counters_of

_OPS: Final = opcode.opmap
_PRECALL: Final = _OPS.get("PRECALL")
_GET_ITER: Final = number("GET_ITER")
_CONSTANT: Final = number("LOAD_CONST")
_ATTRIBUTES: Final = frozenset({number("LOAD_ATTR"), number("LOAD_METHOD")}) - {-1}
_SUBSCRIPT: Final = number("BINARY_SUBSCR")
_KEYS: Final = frozenset({_CONSTANT, number("LOAD_FAST"), number("LOAD_DEREF")})

Rule = Callable[["_CodeRewriter", CodeStep, bool], None]


class _CodeRewriter:
    """Rewrites one code object."""

    def __init__(self, code: types.CodeType, defaults: frozenset[str], nested: bool, own: types.CodeType) -> None:
        self.code, self.own = code, own
        self.defaults = defaults
        self.nested = nested
        self.names = code.co_names
        self.consts = [rewrite(value, nested=True) if isinstance(value, types.CodeType) else value
                       for value in code.co_consts]
        self.places: dict[tuple[type, Any], int] = {}
        self.first_free = len(code.co_varnames) + len(set(code.co_cellvars) - set(code.co_varnames))
        self.steps = parse(code)
        self.counters = counters_of(code, self.steps)
        self.group: list[bytes] = []
        self.position = 0
        self.previous = -1
        self.previous_arg = 0
        self.following = -1
        self.callee = False
        """Whether the value that the instruction loads, or the attribute read from it next, is called at once."""

    def emit(self, name: str, arg: int = 0) -> None:
        self.group.append(encoded(_OPS[name], arg))

    def constant(self, value: Any) -> None:
        """Load a constant: a probe, a name or a number."""
        key = type(value), value
        place = self.places.get(key)
        if place is None:
            place = self.places[key] = len(self.consts)
            self.consts.append(value)
        self.emit("LOAD_CONST", place)

    def call(self, function: Any, arity: int, *constants: Any) -> None:
        """Call a probe with the `arity` topmost values and the constants; leaves its result.

        One exchange brings the function below its arguments, so of two values the topmost comes first, and of three the
        topmost last. The function takes the slot of an unbound method, the first argument that of its ``self``; so no
        NULL is needed, and the layout is the same in all versions.
        """
        self.constant(function)
        if arity:
            self.emit("SWAP", arity + 1)
        for value in constants:
            self.constant(value)
        self.group.append(_call_of(arity - 1 + len(constants)))

    def as_method(self) -> None:
        """Bring the callable on top into the form that a method load leaves."""
        self.emit("PUSH_NULL")
        if not assembler.NULL_AFTER:
            self.emit("SWAP", 2)

    def run(self) -> types.CodeType:
        groups: list[InstructionGroup] = []
        started = False
        for position, (offset, step) in enumerate(self.steps):
            self.group, self.position = [], position
            if step.op == _GET_ITER:
                self._iterations(position, offset)
            if self.counters is not NONE:
                self._count(position)
            rule = _RULES.get(step.op)
            self.following = self.steps[position + 1][1].op if position + 1 < len(self.steps) else -1
            self.callee = self._is_callee(step)
            if rule is not None:
                rule(self, step, self._only_subscripted(position))
            elif step.target < 0:
                self.group.append(step.code)
            if not started and step.op == _RESUME:
                started = True
                self._start()
            self.previous, self.previous_arg = step.op, step.arg
            groups.append(InstructionGroup(offset, b"".join(self.group), step if step.target >= 0 else None))
        return assemble(self.code, groups, tuple(self.consts), more_stack=6)

    def _only_subscripted(self, position: int) -> bool:
        """Tell whether the loaded value is used only as the container of ``[key]`` with a simple key."""
        if position + 2 >= len(self.steps) or self.steps[position + 2][1].op != _SUBSCRIPT:
            return False
        key = self.steps[position + 1][1]
        return key.op in _KEYS or (key.op == _OPS["LOAD_GLOBAL"] and not key.arg & 1)

    def _is_callee(self, step: CodeStep) -> bool:
        """Tell whether a load leads to a callee: to `norm` of ``np.linalg.norm(x)``."""
        name = opcode.opname[step.op]
        if assembler.NULL_AFTER:
            return self.following == _OPS["PUSH_NULL"] or bool(name == "LOAD_GLOBAL" and step.arg & 1)
        if name == "LOAD_GLOBAL":
            return bool(step.arg & 1)
        return name == "PUSH_NULL" or (self.callee and (step.op in _ATTRIBUTES or self.previous == _OPS["PUSH_NULL"]))

    def _count(self, position: int) -> None:
        """Insert probes for a counter that is stored, and for the iterable of a loop over one."""
        if position in self.counters.stores:
            self.call(probes.count, 1, *self.counters.stores[position])
        elif position in self.counters.loops:
            self.call(probes.iterate, 1, self.counters.loops[position])

    def _iterations(self, position: int, offset: int) -> None:
        """Insert a probe for the iterable of a ``for`` with one variable, with its source location."""
        following = [opcode.opname[step.op] for _, step in self.steps[position + 1 : position + 3]]
        line, _, column, _ = next(itertools.islice(self.code.co_positions(), offset, None))
        if following == ["FOR_ITER", "STORE_FAST"] and line is not None and column is not None:
            self.call(probes.iterations, 1, weakref.ref(self.own), line, column, position in self.counters.loops)

    def _start(self) -> None:
        """Insert probes for the call, and for parameters that may hold a default."""
        code = self.code
        if not self.nested:
            self.call(probes.enter, 0, id(self.own))
            self.emit("POP_TOP")
        for name in sorted(self.defaults):
            kind = "DEREF" if name in code.co_cellvars else "FAST"
            place = code.co_varnames.index(name)
            self.emit(f"LOAD_{kind}", place)
            self.call(probes.default, 1)
            self.emit(f"STORE_{kind}", place)
        if code.co_name == "__init__" and code.co_argcount:
            self.emit("LOAD_DEREF" if code.co_varnames[0] in code.co_cellvars else "LOAD_FAST", 0)
            self.call(probes.fresh, 1)
            self.emit("POP_TOP")


@functools.cache
def _call_of(count: int) -> bytes:
    """Return the instructions that call a function with `count` arguments, one of them in the slot of ``self``."""
    prepared = b"" if _PRECALL is None else encoded(_PRECALL, count)
    return prepared + encoded(_OPS["CALL"], count)


def _load_global(w: _CodeRewriter, step: CodeStep, raw: bool) -> None:
    name = w.names[step.arg >> 1]
    if step.arg & 1 and not assembler.NULL_AFTER:
        w.emit("PUSH_NULL")
    w.group.append(encoded(step.op, step.arg & ~1))
    called = w.callee and not raw and w.following not in _ATTRIBUTES
    w.call(probes.load_called if called else probes.load_name_raw if raw else probes.load_name, 1, name)
    if step.arg & 1 and assembler.NULL_AFTER:
        w.emit("PUSH_NULL")


def _load_name(w: _CodeRewriter, step: CodeStep, raw: bool) -> None:
    w.group.append(step.code)
    w.call(probes.load_local_name, 1, w.names[step.arg])


def _load_deref(w: _CodeRewriter, step: CodeStep, raw: bool) -> None:
    w.group.append(step.code)
    if step.arg >= w.first_free:
        w.emit(assembler.LOAD_CELL, step.arg)
        w.call(probes.load_cell_raw if raw else probes.load_cell, 2)


def _load_attr(w: _CodeRewriter, step: CodeStep, raw: bool) -> None:
    name = w.names[step.arg >> assembler.ATTR_SHIFT]
    method = assembler.ATTR_SHIFT and step.arg & 1
    called = method or (w.callee and not raw and w.following not in _ATTRIBUTES)
    w.call(probes.load_called_attr if called else probes.load_attr_raw if raw else probes.load_attr, 1, name)
    if method:
        w.as_method()


def _load_method(w: _CodeRewriter, step: CodeStep, raw: bool) -> None:
    w.call(probes.load_called_attr, 1, w.names[step.arg])
    w.as_method()


def _load_super_attr(w: _CodeRewriter, step: CodeStep, raw: bool) -> None:
    w.group.append(encoded(step.op, step.arg & ~1))
    w.call(probes.made, 1)
    if step.arg & 1:
        w.as_method()


def _load_item(w: _CodeRewriter, step: CodeStep, raw: bool) -> None:
    w.call(probes.load_item_raw if raw else probes.load_item, 2)


def _import_name(w: _CodeRewriter, step: CodeStep, raw: bool) -> None:
    w.group.append(step.code)
    w.call(probes.made, 1)


def _import_from(w: _CodeRewriter, step: CodeStep, raw: bool) -> None:
    w.group.append(step.code)
    w.emit("COPY", 2)
    w.call(probes.imported_name, 2, w.names[step.arg])


def _store_global(w: _CodeRewriter, step: CodeStep, raw: bool) -> None:
    w.call(probes.store_name, 1, w.names[step.arg])
    w.group.append(step.code)


def _delete_global(w: _CodeRewriter, step: CodeStep, raw: bool) -> None:
    w.call(probes.delete_name, 0, w.names[step.arg])
    w.emit("POP_TOP")
    w.group.append(step.code)


def _store_deref(w: _CodeRewriter, step: CodeStep, raw: bool) -> None:
    if step.arg >= w.first_free:
        w.emit(assembler.LOAD_CELL, step.arg)
        w.call(probes.store_cell, 2)
    w.group.append(step.code)


def _store_attr(w: _CodeRewriter, step: CodeStep, raw: bool) -> None:
    by = attribute_step(w.code, w.steps, w.position)
    if by:
        w.call(probes.count_attr, 2, w.names[step.arg], by)
    else:
        w.call(probes.store_attr, 2, w.names[step.arg])
    w.emit("POP_TOP")


def _delete_attr(w: _CodeRewriter, step: CodeStep, raw: bool) -> None:
    w.call(probes.delete_attr, 1, w.names[step.arg])
    w.emit("POP_TOP")


def _store_item(w: _CodeRewriter, step: CodeStep, raw: bool) -> None:
    w.call(probes.store_item, 3)
    w.emit("POP_TOP")


def _is(w: _CodeRewriter, step: CodeStep, raw: bool) -> None:
    if w.previous == _CONSTANT and type(w.consts[w.previous_arg]) is not bool:
        w.group.append(step.code)
    else:
        w.call(probes.not_same if step.arg else probes.same, 2)


_BY_NAME: Final[dict[str, Rule]] = {
    "LOAD_GLOBAL": _load_global, "LOAD_NAME": _load_name, "LOAD_DEREF": _load_deref,
    "LOAD_ATTR": _load_attr, "LOAD_METHOD": _load_method, "LOAD_SUPER_ATTR": _load_super_attr,
    "BINARY_SUBSCR": _load_item,
    "IMPORT_NAME": _import_name, "IMPORT_FROM": _import_from,
    "STORE_GLOBAL": _store_global, "DELETE_GLOBAL": _delete_global, "STORE_DEREF": _store_deref,
    "STORE_ATTR": _store_attr, "DELETE_ATTR": _delete_attr, "STORE_SUBSCR": _store_item, "IS_OP": _is,
}
_RULES: Final = {_OPS[name]: rule for name, rule in _BY_NAME.items() if name in _OPS}
_RESUME: Final = number("RESUME")


def is_rewritten(code: types.CodeType) -> bool:
    """Tell whether code has probes already, as that of functions made by rewritten code has."""
    return any(type(constant) is types.FunctionType for constant in code.co_consts)


def rewrite(
    code: types.CodeType, defaults: frozenset[str] = frozenset(), nested: bool = False,
    own: types.CodeType | None = None,
) -> types.CodeType:
    """Return the code with probes.

    `defaults` names the parameters whose defaults are intercepted; `nested` code, made by rewritten code, does not
    announce its calls; `own` is the function's own code where this one is derived from it.
    """
    return _CodeRewriter(code, defaults, nested, own or code).run()

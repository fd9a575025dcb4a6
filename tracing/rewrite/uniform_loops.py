"""Finds, in a function's source, loops over ranges whose iterations do the same to different elements.

The iterations of such a loop differ only in its variable, which only selects elements, by a linear rule. So Python does
the same in all iterations, as long as its own state is the same after each. What the source does not show is checked
while iterations run (`jitfuse.tracing.control.replication`). A loop with an unknown construct is not uniform.
"""
from __future__ import annotations

import ast
import types
import weakref
from collections.abc import Sequence
from typing import Any, Final

from jitfuse.base.later import Later
from jitfuse.base.records import NamedTuple
from jitfuse.tracing.rewrite.branch_expressions import targets
from jitfuse.tracing.rewrite.loop_names import assignments, begun_in, chain_of, inside, names_beside_items, names_in

parsing = Later("jitfuse.tracing.rewrite.parsing")

KEYWORDS: Final = frozenset({
    "axis", "copy", "ddof", "dtype", "fill_value", "initial", "k", "keepdims", "n", "order", "out", "shape", "where",
})
"""Keyword arguments that calls may have: with others, functions may return more than an array."""
METHODS: Final = frozenset({
    "all", "any", "argmax", "argmin", "argsort", "astype", "clip", "conj", "copy", "cumprod", "cumsum", "diagonal",
    "dot", "flatten", "max", "mean", "min", "prod", "ravel", "reshape", "round", "squeeze", "std", "sum",
    "swapaxes", "trace", "transpose", "var",
})
"""Methods of arrays that write nothing."""
_ATTRIBUTES: Final = frozenset({"T", "shape", "ndim", "size", "real", "imag", "dtype"})
_VIEWS: Final = frozenset({"T", "real", "imag"})
FUNCTIONS: Final = frozenset({
    "all", "amax", "amin", "any", "arange", "argmax", "argmin", "argsort", "array", "asarray", "clip",
    "concatenate", "convolve", "copy", "cross", "cumprod", "cumsum", "diag", "diff", "dot", "einsum", "empty",
    "empty_like", "eye", "flip", "full", "full_like", "identity", "inner", "interp", "kron", "matmul",
    "max", "mean", "median", "min", "ones", "ones_like", "outer", "polyval", "prod", "ptp", "ravel", "reshape",
    "roll", "round", "sort", "stack", "std", "sum", "tensordot", "tile", "trace", "transpose", "tril", "triu",
    "var", "vdot", "where", "zeros", "zeros_like",
})
"""Functions of NumPy, beside its ufuncs, that make one array and do nothing else."""
_BUILTINS: Final = frozenset({"abs", "min", "max", "len", "float", "int", "bool", "complex", "round", "sum", "pow"})
_ENDED: Final = (ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal)
"""Nodes that a function must not contain: they suspend its frame, or share its names with other frames."""

Site = tuple[str, int, int]
"""The file, line and column of a loop."""


class UniformLoop(NamedTuple):
    """A uniform loop, and the conditions to check while it runs.

    `functions` are the chains of names that are read from modules; `builtins` must be Python's own. `arrays` must be
    arrays, `ints` Python ints, `values` numbers or arrays; `outside` are the global names among them. `kept` are
    assigned and carried between iterations. `branches`: a graph break may be needed in it.
    """

    site: Site
    functions: frozenset[tuple[str, ...]]
    builtins: frozenset[str]
    arrays: frozenset[str]
    ints: frozenset[str]
    values: frozenset[str]
    outside: frozenset[str]
    kept: frozenset[str]
    branches: bool


_met: Final[dict[int, tuple[Any, dict[tuple[int, int], UniformLoop]]]] = {}
"""By the id of a function's own code: a weak reference to it, and its loops by line and column."""


def uniform_loop(code: types.CodeType, line: int, column: int) -> UniformLoop | None:
    """Return what is known of a loop of a function's own code; None where its iterations may differ."""
    known = _met.get(id(code))
    if known is None or known[0]() is not code:
        key = id(code)
        known = _met[key] = weakref.ref(code, lambda _: _met.pop(key, None)), _loops_of(code)
    return known[1].get((line, column))


def _loops_of(code: types.CodeType) -> dict[tuple[int, int], UniformLoop]:
    node = parsing.source_of(code)
    if node is None:
        return {}
    own = [n for s in node.body for n in inside(s)]
    if any(isinstance(n, _ENDED) for n in own):
        return {}
    tried = {id(n) for t in own if isinstance(t, ast.Try) for n in inside(t)}
    variables = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
    found = {}
    for loop in own:
        if isinstance(loop, ast.For) and id(loop) not in tried:
            reading = _LoopReading(loop, variables)
            if reading.fits():
                location = loop.lineno, loop.col_offset  # location of GET_ITER; from 3.12 on it is that of the iterable
                found[location] = reading.loop((code.co_filename, *location))
                found[loop.iter.lineno, loop.iter.col_offset] = found[location]
    return found


class _LoopReading:
    """Reads one loop. `variables` are the function's local and free variables."""

    def __init__(self, loop: ast.For, variables: set[str]) -> None:
        self._loop, self._variables = loop, variables
        self._moving: set[str] = set()
        """Ints that follow the loop variable, and the variables of inner loops."""
        self._turning: set[str] = set()
        """Those of them that take the same values in every iteration, because an inner loop counts them."""
        self._functions: set[tuple[str, ...]] = set()
        self._builtins: set[str] = set()
        self._values: set[str] = set()
        self._ints: set[str] = set()
        """Names in indices, which must hold Python ints."""
        self._arrays: set[str] = set()
        """Names that are subscripted by moving indices."""

    def fits(self) -> bool:
        """Return whether the loop is uniform."""
        loop = self._loop
        if not self._is_range(loop):
            return False
        counted = {t.id for t in targets(loop.target) if isinstance(t, ast.Name)}
        inner = {n.target.id for s in loop.body for n in inside(s)
                 if isinstance(n, ast.For) and isinstance(n.target, ast.Name)}
        self._moving = self._computed_of(counted | inner)
        self._turning = self._moving - self._computed_of(counted)
        self._leave_out_others()
        fits = self._moving <= begun_in(loop.body) | counted and all(map(self._statement, loop.body))
        assigned = {t.id for _, t in assignments(loop.body)}
        return fits and self._ints.isdisjoint(assigned) and self._hold_arrays()

    def loop(self, site: Site) -> UniformLoop:
        """Return the loop with the conditions found."""
        body = self._loop.body
        assigned = ({t.id for _, t in assignments(body)} - self._moving) | self._turning
        branches = any(isinstance(n, ast.If | ast.IfExp | ast.BoolOp) for s in body for n in inside(s))
        values = self._values | assigned
        return UniformLoop(
            site, frozenset(self._functions), frozenset(self._builtins), frozenset(self._arrays), frozenset(self._ints),
            frozenset(values), frozenset(values - self._variables),
            frozenset(assigned - begun_in(body, in_branches=False)), branches)

    def _hold_arrays(self) -> bool:
        """Return whether names with moving indices are assigned only arrays in the loop."""
        todo, met = set(self._arrays), set()
        while todo:
            name = todo.pop()
            met.add(name)
            given = [value for value, t in assignments(self._loop.body) if t.id == name]
            if not all(value is not None and self._is_array(value) for value in given):
                return False
            todo |= self._arrays - met
        return True

    def _is_array(self, e: ast.expr) -> bool:
        """Return whether an expression that is the same in all iterations can only make an array or a number."""
        if isinstance(e, ast.Constant):
            return type(e.value) in (bool, int, float, complex)
        if isinstance(e, ast.Name):
            self._arrays.add(e.id)
            return True
        if isinstance(e, ast.Subscript):
            return self._is_array(e.value)
        if isinstance(e, ast.Attribute):
            return e.attr in _VIEWS and self._is_array(e.value)
        if isinstance(e, ast.Call):
            chain = chain_of(e.func)
            if chain and chain[0] not in self._variables:
                return len(chain) > 1  # a module's function: all functions allowed here make arrays
            return isinstance(e.func, ast.Attribute) and self._is_array(e.func.value)
        parts = (e.left, e.right) if isinstance(e, ast.BinOp) else (e.operand,) if isinstance(e, ast.UnaryOp) else ()
        return bool(parts) and all(map(self._is_array, parts))

    def _is_range(self, loop: ast.For) -> bool:
        call = loop.iter
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "range"):
            return False
        return isinstance(loop.target, ast.Name) and not (call.keywords or loop.orelse)

    def _computed_of(self, names: set[str]) -> set[str]:
        """Return these names, and those computed from them by assignments or by loops over ranges of them."""
        found = set(names)
        while True:
            before = len(found)
            for node in (n for s in self._loop.body for n in inside(s)):
                if isinstance(node, ast.For) and not found.isdisjoint(names_in(node.iter)):
                    found |= {t.id for t in targets(node.target) if isinstance(t, ast.Name)}
                elif isinstance(node, ast.Assign) and not found.isdisjoint(names_beside_items(node.value)):
                    found |= {t.id for t in node.targets if isinstance(t, ast.Name)}
            if len(found) == before:
                return found

    def _leave_out_others(self) -> None:
        """Treat names computed from inner loop variables as ordinary values, unless they are ints for indices."""
        body = self._loop.body
        steps = [n for s in body for n in inside(s) if isinstance(n, ast.Assign)]
        before: set[str] = set()
        while before != self._moving:
            before = set(self._moving)
            others = {t.id for _, t in assignments(body)} - self._moving
            for step in steps:
                names = {t.id for t in step.targets if isinstance(t, ast.Name)} & self._moving
                reading = _LoopReading(self._loop, self._variables)
                reading._moving = before
                if names <= self._turning and not (reading._linear(step.value) and reading._ints.isdisjoint(others)):
                    self._moving -= names

    # ------------------------------------------------------------------ statements
    def _statement(self, s: ast.stmt, in_branch: bool = False) -> bool:
        if isinstance(s, ast.Pass):
            return True
        if isinstance(s, ast.Expr):
            return isinstance(s.value, ast.Call | ast.Constant) and self._same(s.value)
        if isinstance(s, ast.If):
            return self._same(s.test) and all(self._statement(t, True) for t in (*s.body, *s.orelse))
        if isinstance(s, ast.For):
            self._builtins.add("range")
            bounds = s.iter.args if isinstance(s.iter, ast.Call) else []
            return self._is_range(s) and all(map(self._same, bounds)) and (
                all(self._statement(t, in_branch) for t in s.body))
        if isinstance(s, ast.AugAssign):
            return self._target(s.target) and self._same(s.value)
        if isinstance(s, ast.Assign):
            return self._assignment(s, in_branch)
        return False

    def _assignment(self, s: ast.Assign, in_branch: bool) -> bool:
        names = [t.id for t in s.targets if isinstance(t, ast.Name)]
        if not self._moving.isdisjoint(names):
            return len(names) == len(s.targets) and not in_branch and (
                self._moving.issuperset(names) and self._linear(s.value))
        value = s.value.elts if isinstance(s.value, ast.Tuple) else [s.value]
        return all(map(self._same, value)) and all(self._target(t) for whole in s.targets for t in targets(whole))

    def _target(self, target: ast.expr) -> bool:
        if isinstance(target, ast.Name):
            return target.id not in self._moving
        return isinstance(target, ast.Subscript) and self._array(target.value) and self._index(target.slice)

    # ------------------------------------------------------------------ expressions
    def _same(self, e: ast.expr) -> bool:
        """Return whether an expression computes its value by the same steps in all iterations."""
        if isinstance(e, ast.Constant):
            return True
        if isinstance(e, ast.Name):
            return (e.id not in self._moving or e.id in self._turning) and self._value(e.id)
        if isinstance(e, ast.Subscript):
            if not self._moving.isdisjoint(names_in(e)):
                return self._array(e.value) and self._index(e.slice)
            return self._same(e.value) and self._index(e.slice)
        if isinstance(e, ast.Attribute):
            return self._same(e.value) if e.attr in _ATTRIBUTES else self._is_of_module(e)
        if isinstance(e, ast.Call):
            return self._call(e)
        if isinstance(e, ast.Compare):
            plain = not any(isinstance(o, ast.In | ast.NotIn | ast.Is | ast.IsNot) for o in e.ops)
            return plain and all(map(self._same, (e.left, *e.comparators)))
        parts: Sequence[ast.expr] = (
            (e.left, e.right) if isinstance(e, ast.BinOp) else (e.operand,) if isinstance(e, ast.UnaryOp) else
            e.values if isinstance(e, ast.BoolOp) else (e.test, e.body, e.orelse) if isinstance(e, ast.IfExp) else ())
        return bool(parts) and all(map(self._same, parts))

    def _value(self, name: str) -> bool:
        (self._values if name in self._variables or name not in _BUILTINS else self._builtins).add(name)
        return True

    def _call(self, e: ast.Call) -> bool:
        function = e.func
        if isinstance(function, ast.Name):
            known = function.id in _BUILTINS and function.id not in self._variables
            self._builtins.add(function.id)
        else:
            known = isinstance(function, ast.Attribute) and (
                self._is_of_module(function) or (function.attr in METHODS and self._same(function.value)))
        given = (*e.args, *(k.value for k in e.keywords))
        return known and all(map(self._argument, given)) and all(k.arg in KEYWORDS for k in e.keywords)

    def _argument(self, e: ast.expr) -> bool:
        if isinstance(e, ast.Tuple | ast.List):
            return all(map(self._argument, e.elts))
        return self._same(e)

    def _is_of_module(self, e: ast.Attribute) -> bool:
        """Return whether this reads attributes of a global name, such as ``np.exp``."""
        chain = chain_of(e)
        if not chain or chain[0] in self._variables:
            return False
        self._functions.add(chain)
        return True

    def _array(self, e: ast.expr) -> bool:
        """Return whether this is a variable, or a part of one, that may be indexed."""
        if isinstance(e, ast.Name):
            self._arrays.add(e.id)
            return e.id not in self._moving and self._value(e.id)
        if isinstance(e, ast.Subscript):
            return self._array(e.value) and self._index(e.slice)
        return isinstance(e, ast.Attribute) and e.attr in _VIEWS and self._array(e.value)

    def _index(self, e: ast.expr) -> bool:
        if isinstance(e, ast.Tuple):
            return all(map(self._index, e.elts))
        if isinstance(e, ast.Slice):
            bounds = (b is None or self._linear(b) for b in (e.lower, e.upper))
            return all(bounds) and (e.step is None or self._same(e.step))
        return self._linear(e) if not self._moving.isdisjoint(names_in(e)) else self._same(e)

    def _linear(self, e: ast.expr) -> bool:
        """Return whether an index is a Python int, which never wraps, that is constant or moves by a fixed step."""
        if isinstance(e, ast.BinOp) and isinstance(e.op, ast.Add | ast.Sub):
            return self._linear(e.left) and self._linear(e.right)
        if isinstance(e, ast.BinOp) and isinstance(e.op, ast.Mult):
            return (self._linear(e.left) and self._int(e.right)) or (self._int(e.left) and self._linear(e.right))
        if isinstance(e, ast.UnaryOp) and isinstance(e.op, ast.USub):
            return self._linear(e.operand)
        return self._int(e) or (isinstance(e, ast.Name) and e.id in self._moving)

    def _int(self, e: ast.expr) -> bool:
        """Return whether this is a Python int that nothing in the loop changes."""
        if isinstance(e, ast.Constant):
            return type(e.value) is int
        if isinstance(e, ast.Name):
            if e.id in self._moving:
                return False
            self._ints.add(e.id)
            return self._value(e.id)
        if isinstance(e, ast.BinOp) and isinstance(e.op, ast.Add | ast.Sub | ast.Mult | ast.FloorDiv):
            return self._int(e.left) and self._int(e.right)
        if isinstance(e, ast.Subscript):  # an extent
            return self._int(e.slice) and isinstance(e.value, ast.Attribute) and e.value.attr == "shape" and (
                self._array(e.value.value))
        if isinstance(e, ast.Call) and isinstance(e.func, ast.Name) and e.func.id == "len":
            return self._call(e) and len(e.args) == 1 and self._array(e.args[0])
        return isinstance(e, ast.Attribute) and e.attr in ("size", "ndim") and self._array(e.value)

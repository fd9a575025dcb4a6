"""Recompiles a function from its source, so that an ``if`` that only computes and assigns calls into the trace first.

Where a traced value decides what is assigned, both branches can be computed and selected from. The bytecode does not
show where branches end and what they assign. So the function's source is compiled again, if it compiles to exactly the
function's code. Owns which code is recompiled, and the probes that it calls. How statements are rewritten is in
`jitfuse.tracing.rewrite.branch_statements`, what the calls do in `jitfuse.tracing.control.if_conversion`.
"""
from __future__ import annotations

import ast
import opcode
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any, Final

from jitfuse.base.later import Later
from jitfuse.tracing.rewrite import environment
from jitfuse.tracing.rewrite.branch_expressions import MARK, TESTS

independence = Later("jitfuse.tracing.rewrite.independence")
branch_statements = Later("jitfuse.tracing.rewrite.branch_statements")
loop_statements = Later("jitfuse.tracing.rewrite.loop_statements")
parsing = Later("jitfuse.tracing.rewrite.parsing")

_CodeKey = tuple[str, int]
_STORE_ITEM: Final = opcode.opmap["STORE_SUBSCR"]
_ADD_TO: Final = opcode.opmap["BINARY_OP"], 13
_wanted: Final[dict[_CodeKey, frozenset[int]]] = {}
"""By file and first line of code whose branches are if-converted: the lines of its loops to be captured."""
_long: Final[dict[_CodeKey, frozenset[int]]] = {}
"""The same for the lines of its loops over long known ranges."""
_inner: Final[dict[_CodeKey, bool]] = {}
"""By file and first line: whether a function that captured loops call can be inlined into them."""
_independent: Final[dict[int, tuple[Any, frozenset[int]]]] = {}
"""By the id of a function's own code: a weak reference to it, and the lines of its loops that may be vectorised."""
_made: Final[dict[int, tuple[Any, types.CodeType | None]]] = {}
"""By the id of a function's own code: a weak reference to it, and the recompiled code, if there is any."""


_steps: Final[list[Callable[[str], Any]]] = []
"""The function from the name of a step, or of a test of a value, to what it does."""


def take_steps_from(find: Callable[[str], Any]) -> None:
    """Set what the steps of branches do: `find` returns the function for the name of a step."""
    _steps[:] = [find]


class BranchProbe:
    """The probe that compiled code calls for a step of a branch."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *values: Any) -> Any:
        """Take the step in the current trace; outside of traces, do what the step does there."""
        tracing = environment.current.get()
        if tracing is not None:
            return tracing.hooks.branch(self.name, sys._getframe(1), values)
        # in another thread, or in a function that outlives the trace
        return _steps[0](self.name)(None, sys._getframe(1), *values)


def want(code: types.CodeType, line: int) -> bool:
    """If-convert the branches of a frame's code from now on. False where they already are, or cannot be."""
    return _want(code, None)


def want_loop(code: types.CodeType, line: int) -> bool:
    """Capture the loop over a range at a line from now on. False as for `want`."""
    return _want(code, line)


def want_end(code: types.CodeType, line: int) -> bool:
    """Capture the loop that ends by a value read at a line from now on. False as for `want`."""
    node = parsing.function_in(code.co_filename, code.co_firstlineno)
    loops = [n for n in ast.walk(node) if isinstance(n, ast.For | ast.While)
             and n.lineno <= line <= (n.end_lineno or line)] if node is not None else []
    inner = max(loops, key=lambda n: n.lineno, default=None)
    if inner is None or not (isinstance(inner, ast.While) or loop_statements.breaks(inner.body)):
        return False
    return _want(code, inner.lineno)


def _want(code: types.CodeType, line: int | None) -> bool:
    code_key = code.co_filename, code.co_firstlineno
    known = _wanted.get(code_key)
    if known is not None and (line is None or line in known):
        return False
    lines = (known or frozenset()) | ({line} if line is not None else set())
    if not _sites_in(*code_key, lines, line):
        return False
    _wanted[code_key] = lines
    _made.clear()
    return True


def want_long(code: types.CodeType, line: int) -> bool:
    """Capture a loop at a line of a frame's code, and the loops in it, from now on, though their ranges are known.

    False where they already are, or cannot be.
    """
    code_key = code.co_filename, code.co_firstlineno
    known = _long.get(code_key, frozenset())
    if line in known or not _sites_in(*code_key, _wanted.get(code_key, frozenset()), line, known | {line}):
        return False
    _long[code_key] = known | {line}
    _wanted.setdefault(code_key, frozenset())
    _made.clear()
    return True


def want_inner(code: types.CodeType) -> bool:
    """Inline a function into the captured loops that call it. False where it already is, or cannot be."""
    code_key = code.co_filename, code.co_firstlineno
    if code_key in _inner:
        return False
    found = parsing.matching(code)
    _inner[code_key] = found is not None and branch_statements.BranchRewriter(code.co_filename).inner(found[1])
    if _inner[code_key]:
        _made.clear()
    return _inner[code_key]


def is_inner(code: types.CodeType) -> bool:
    """Return whether a function is inlined into the captured loops that call it."""
    return _inner.get((code.co_filename, code.co_firstlineno), False)


def loops_around(code: types.CodeType, line: int) -> list[int]:
    """Return the lines of the loops around a line of a frame's code, outermost first."""
    found = parsing.function_in(code.co_filename, code.co_firstlineno)
    loops = [n for n in ast.walk(found) if isinstance(n, ast.For)] if found is not None else []
    return sorted({n.lineno for n in loops if n.lineno <= line <= (n.end_lineno or n.lineno)})


def if_converted(code: types.CodeType) -> types.CodeType | None:
    """Return a function's code with if-converted branches, if wanted, and loops that may be vectorised; None if it has
    none."""
    if not _wanted and not _inner and not _may_be_independent(code):
        return None
    known = _made.get(id(code))
    if known is not None and known[0]() is code:
        return known[1]
    made = _compiled(code) if _is_wanted(code) or _independent_lines(code) else None
    key = id(code)
    _made[key] = weakref.ref(code, lambda _: _made.pop(key, None)), made
    return made


def _may_be_independent(code: types.CodeType) -> bool:
    """Return whether a function uses `range`, and assigns items or adds in place."""
    if "range" not in code.co_names:
        return False
    steps = code.co_code
    return _STORE_ITEM in steps[::2] or any(pair == _ADD_TO for pair in zip(steps[::2], steps[1::2]))


def _independent_lines(code: types.CodeType) -> frozenset[int]:
    """Return the lines of a function's loops that may be vectorised."""
    if not _may_be_independent(code):
        return frozenset()
    known = _independent.get(id(code))
    if known is None or known[0]() is not code:
        key, found = id(code), parsing.function_in(code.co_filename, code.co_firstlineno)
        lines = frozenset[int]() if found is None else independence.lines_of(found)
        known = _independent[key] = weakref.ref(code, lambda _: _independent.pop(key, None)), lines
    return known[1]


def _is_wanted(code: types.CodeType) -> bool:
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return (code.co_filename, code.co_firstlineno) in _wanted or is_inner(code) or any(map(_is_wanted, inner))


def _sites_in(
    filename: str, line: int, lines: frozenset[int], loop: int | None, long: frozenset[int] = frozenset()
) -> bool:
    """Return whether a function has branches that can be if-converted, or the given loop at a line."""
    found = parsing.function_in(filename, line)
    if found is None:
        return False
    rewriter = branch_statements.BranchRewriter(filename, lines, long)
    rewriter.function(found)
    return rewriter.count > 0 if loop is None else loop in rewriter.loops


def _compiled(code: types.CodeType) -> types.CodeType | None:
    """Compile a function again from its source; None where the source does not match the code."""
    found = parsing.matching(code)
    if found is None:
        return None
    tree, node = found
    code_key = code.co_filename, code.co_firstlineno
    lines, long = _wanted.get(code_key, frozenset()), _long.get(code_key, frozenset())
    rewriter = branch_statements.BranchRewriter(
        code.co_filename, lines, long, _independent_lines(code), _is_wanted(code)
    )
    if is_inner(code):
        rewriter.inner(node)
    else:
        rewriter.function(node)
    made = parsing.code_of(ast.fix_missing_locations(tree), code) if rewriter.count else None
    return None if made is None or made.co_freevars != code.co_freevars else _with_probes(made)


def _with_probes(code: types.CodeType) -> types.CodeType:
    """Replace the marks among the constants by probes, or by functions that need no trace."""
    def exchanged(value: Any) -> Any:
        if isinstance(value, types.CodeType):
            return _with_probes(value)
        if not (isinstance(value, str) and value.startswith(MARK)):
            return value
        name = value.removeprefix(MARK)
        return _steps[0](name) if name in TESTS else BranchProbe(name)

    return code.replace(co_consts=tuple(map(exchanged, code.co_consts)))

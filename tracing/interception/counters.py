"""Finds local variables that are only counters, from a function's bytecode.

A counter is set to small ints, counted up and down by small ints, compared with numbers to decide a branch, and
returned. No other operation could distinguish an int from a traced one. So the trace may make it a run-time number
(`jitfuse.tracing.observe.loop_counters`): a loop that only counts then returns to the same state of Python. Owns this
analysis; a variable with an unknown use is no counter.
"""
from __future__ import annotations

import opcode
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from jitfuse.base.records import NamedTuple
from jitfuse.tracing.interception.assembler import ATTR_SHIFT, COMPARE_SHIFT, CodeStep, number

DECIDES: Final = frozenset({
    "POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_FORWARD_IF_TRUE", "POP_JUMP_BACKWARD_IF_FALSE",
    "POP_JUMP_BACKWARD_IF_TRUE", "POP_JUMP_IF_FALSE", "POP_JUMP_IF_TRUE", "UNARY_NOT", "TO_BOOL",
})
"""Instructions that read the truth of an operand, and take nothing else from the stack."""
_LOADS: Final = frozenset({"LOAD_FAST", "LOAD_FAST_CHECK"})
_COLLECTS: Final = frozenset({
    *_LOADS, "LOAD_CONST", "BUILD_TUPLE", "BUILD_LIST", "BUILD_CONST_KEY_MAP", "SWAP", "POP_TOP",
})
"""Instructions between the load of a variable and the return of a tuple, list or dict with it; none reads its value."""
_SIMPLE: Final = _LOADS | {"LOAD_CONST"}
_OPERATORS: Final = {0: 1, 13: 1, 10: -1, 23: -1}
"""Arguments of BINARY_OP for +, +=, -, -=, with the sign of what is added."""
_REMAINDER: Final = 6
_STORE: Final = number("STORE_FAST")
_SMALL: Final = 1 << 16
_REFLECTS: Final = frozenset({"locals", "vars", "eval", "exec", "dir"})
_GENERATES: Final = 0x20 | 0x80 | 0x200  # flags of generators and coroutines
_EQUAL: Final = frozenset({"==", "!="})


class LoopCounters(NamedTuple):
    """By place among the instructions: stores into counters, with name and increment (0 where they set); loops over
    counters."""

    stores: Mapping[int, tuple[str, int]]
    loops: Mapping[int, str]


NONE: Final = LoopCounters({}, {})


def counters_of(code: types.CodeType, steps: Sequence[tuple[int, CodeStep]]) -> LoopCounters:
    """Return the counters of a function's code, whose instructions `assembler.parse` has found."""
    if code.co_flags & _GENERATES or not _REFLECTS.isdisjoint(code.co_names):
        return NONE
    if not any(step.op == _STORE for _, step in steps):
        return NONE
    return _CounterAnalysis(code, steps).run()


def attribute_step(code: types.CodeType, steps: Sequence[tuple[int, CodeStep]], k: int) -> int:
    """Return the increment where instruction k stores an attribute, as in ``self.n += 1``; 0 for other stores."""
    found = [step for _, step in steps[max(k - 5, 0) : k]]
    if [opcode.opname[step.op] for step in found] != ["COPY", "LOAD_ATTR", "LOAD_CONST", "BINARY_OP", "SWAP"]:
        return 0
    by = code.co_consts[found[2].arg]
    loaded = found[1].arg >> ATTR_SHIFT
    small = type(by) is int and abs(by) <= _SMALL and loaded == steps[k][1].arg and found[0].arg == 1
    return by * _OPERATORS.get(found[3].arg, 0) if small else 0


class _CounterAnalysis:
    def __init__(self, code: types.CodeType, steps: Sequence[tuple[int, CodeStep]]) -> None:
        self.code = code
        self.steps = [step for _, step in steps]
        self.names = [opcode.opname[step.op] for step in self.steps]
        first = {offset: k for k, (offset, _) in reversed(list(enumerate(steps)))}
        targets = {first[step.target] for step in self.steps if step.target >= 0}
        self.entered = [k in targets for k in range(len(steps))]
        """Whether a jump leads to an instruction."""
        parameters = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
        self.bad = {k for k, name in enumerate(code.co_varnames) if k < parameters or name in code.co_cellvars}

    def run(self) -> LoopCounters:
        stores: dict[int, tuple[int, int]] = {}
        loops: dict[int, int] = {}
        for k, (name, step) in enumerate(zip(self.names, self.steps, strict=True)):
            if name in _LOADS:
                if not any(rule(self, k) for rule in _USES):
                    self.bad.add(step.arg)
            elif name == "STORE_FAST":
                by = self._stored(k)
                if by is not None:
                    stores[k] = step.arg, by
                elif self._is_loop(k):
                    loops[k - 2] = step.arg
                else:
                    self.bad.add(step.arg)
            elif "FAST" in name:
                self.bad.add(step.arg)
        good = ({v for v, by in stores.values() if by} | set(loops.values())) - self.bad
        names = self.code.co_varnames
        return LoopCounters(
            {k: (names[v], by) for k, (v, by) in stores.items() if v in good},
            {k: names[v] for k, v in loops.items() if v in good},
        )

    def follows(self, k: int, *names: str) -> bool:
        """Return whether these instructions follow instruction k, with no jump into them."""
        there = self.names[k + 1 : k + 1 + len(names)] == list(names)
        return there and not any(self.entered[k + 1 : k + 1 + len(names)])

    def decides(self, k: int) -> bool:
        """Return whether instruction k reads the truth of the previous instruction's result."""
        return k < len(self.names) and self.names[k] in DECIDES and not self.entered[k]

    def number(self, k: int) -> int | float | None:
        """Return the number that instruction k loads."""
        if self.names[k] != "LOAD_CONST":
            return None
        value: Any = self.code.co_consts[self.steps[k].arg]
        return value if type(value) in (int, float) else None

    def small(self, k: int) -> int | None:
        """Return the small int that instruction k loads."""
        value = self.number(k)
        return value if self._is_small(value) else None  # type: ignore[return-value]

    @staticmethod
    def _is_small(value: Any) -> bool:
        return type(value) is int and abs(value) <= _SMALL

    def _stored(self, k: int) -> int | None:
        """Return the increment of a store, 0 where it sets the variable to an int, None where it does neither."""
        if self.entered[k]:
            return None
        if k >= 3 and self.names[k - 3] in _LOADS and self.steps[k - 3].arg == self.steps[k].arg:
            by = self.small(k - 2)
            sign = _OPERATORS.get(self.steps[k - 1].arg) if self.follows(k - 3, "LOAD_CONST", "BINARY_OP") else None
            if by and sign:
                return by * sign
        return 0 if self._is_small(self._set_to(k)) else None

    def _set_to(self, k: int) -> Any:
        """Return the constant that a store assigns, alone or with other stores; None where it is no constant."""
        first = k
        while self.names[first - 1] == "STORE_FAST" and not self.entered[first] and first > 1:
            first -= 1
        nth = k - first  # the index of this store
        if self.entered[first]:
            return None
        if self.names[first - 1] == "UNPACK_SEQUENCE":
            whole = self.names[first - 2] == "LOAD_CONST" and not self.entered[first - 1]
            return self.code.co_consts[self.steps[first - 2].arg][nth] if whole else None
        at = first - 1 - nth  # the first store takes the last load
        loads = self.names[max(at, 0) : first]
        if len(loads) <= nth or not _SIMPLE.issuperset(loads) or any(self.entered[at + 1 : first]):
            return None
        return self.code.co_consts[self.steps[at].arg] if loads[0] == "LOAD_CONST" else None

    def _is_loop(self, k: int) -> bool:
        """Return whether a store is that of a ``for`` right after its iterator was made."""
        return k >= 2 and self.names[k - 2 : k] == ["GET_ITER", "FOR_ITER"] and not self.entered[k]


def _counts(a: _CounterAnalysis, k: int) -> bool:
    """``v += 1``."""
    return k + 3 < len(a.steps) and a.follows(k, "LOAD_CONST", "BINARY_OP", "STORE_FAST") and (
        a.steps[k + 3].arg == a.steps[k].arg and bool(a._stored(k + 3))
    )


def _compared(a: _CounterAnalysis, k: int) -> bool:
    """``v < limit``, a number or a variable, to decide a branch."""
    if k + 3 >= len(a.steps) or not a.follows(k, a.names[k + 1], "COMPARE_OP") or not a.decides(k + 3):
        return False
    return a.number(k + 1) is not None or (a.names[k + 1] in _LOADS and not _is_equality(a.steps[k + 2]))


def _compares(a: _CounterAnalysis, k: int) -> bool:
    """``limit > v`` to decide a branch."""
    return a.follows(k, "COMPARE_OP") and a.decides(k + 2) and not a.entered[k] and not _is_equality(a.steps[k + 1])


def _divides(a: _CounterAnalysis, k: int) -> bool:
    """``v % 10 == 0``, or without a comparison, to decide a branch."""
    if not a.follows(k, "LOAD_CONST", "BINARY_OP") or (a.small(k + 1) or 0) < 1 or a.steps[k + 2].arg != _REMAINDER:
        return False
    if a.decides(k + 3):
        return True
    return a.follows(k + 2, "LOAD_CONST", "COMPARE_OP") and a.number(k + 3) is not None and a.decides(k + 5)


def _returned(a: _CounterAnalysis, k: int) -> bool:
    """``return v``, alone or in a tuple, list or dict."""
    k += 1
    while a.names[k] in _COLLECTS and not a.entered[k]:
        k += 1
    return a.names[k] == "RETURN_VALUE" and not a.entered[k]


def _is_equality(step: CodeStep) -> bool:
    return opcode.cmp_op[step.arg >> COMPARE_SHIFT] in _EQUAL


_USES: Final[tuple[Callable[[_CounterAnalysis, int], bool], ...]] = (_counts, _compared, _compares, _divides, _returned)
"""All allowed uses of a counter."""

"""Values of traced tensors that are known while tracing.

Owns their evaluation from constants, Python scalars and small tables, of which the latter two become guards, and the
error for reads of all other values. Does not own graph breaks (`jitfuse.tracing.record.value_reads`).
"""
from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitfuse.errors import TracedValueError
from jitfuse.ir.operators import ops
from jitfuse.tracing.interception.chain import Chain
from jitfuse.tracing.record.graph import OpNode
from jitfuse.tracing.record.session import Feed, Session
from jitfuse.tracing.record.source import user_line

if TYPE_CHECKING:
    from jitfuse.tracing.record.recorder import Recorder

MAX_TABLE: Final = 64
"""Elements of an array from a global, a closure or an attribute that Python may read while tracing: all are compared
at each call."""

MAX_KNOWN_BYTES: Final = 2**28
"""Bytes of known values that a trace stores, for further reads."""

_PYTHON: Final[dict[str, Callable[..., Any]]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv,
    "floor_divide": operator.floordiv, "remainder": operator.mod, "power": operator.pow,
    "negative": operator.neg, "positive": operator.pos, "abs": abs, "bitwise_invert": operator.invert,
    "bitwise_and": operator.and_, "bitwise_or": operator.or_, "bitwise_xor": operator.xor,
    "bitwise_left_shift": operator.lshift, "bitwise_right_shift": operator.rshift,
    "equal": operator.eq, "not_equal": operator.ne, "less": operator.lt, "less_equal": operator.le,
    "greater": operator.gt, "greater_equal": operator.ge,
}
"""Python's operators, by the names of operators over Python scalars."""


_MAX_OPERATORS: Final = 16
_MAX_DECISIONS: Final = 32
"""Operators of a decision that is guarded by its outcome, and such decisions of a trace. Beyond these the numbers that
decisions are made of are guarded themselves: once, whatever depends on them."""


class UnknownValueError(Exception):
    """The value depends on an array, so it is known only when the program runs."""


def python_operator(name: str) -> Callable[..., Any] | None:
    """Return Python's operator for an operator over Python scalars, or None."""
    return _PYTHON.get(name)


def known_value(session: Session, tensor: int) -> Any:
    """Return the value of a tensor that depends on constants, Python scalars and small tables alone.

    These scalars and tables are guarded from now on. Raises UnknownValueError for other tensors.
    """
    stack = [tensor]
    entered: set[int] = set()  # with the stack: the tensors that depend on its top
    try:
        value = _evaluated(session, stack, entered)
    except UnknownValueError:
        session.unknown.update(entered.intersection(stack))
        raise
    session.asked.add(tensor)
    return value.copy() if isinstance(value, np.ndarray) else value  # the session stores it


def known_truth(run: Recorder, tensor: int) -> bool:
    """Return the truth of a tensor, which Python decides by; raises UnknownValueError, as `known_value` does.

    If it is made of Python's numbers by a few of Python's operators, the outcome is guarded, not the numbers: calls
    with other numbers and the same outcome take the same path.
    """
    session = run.session
    if tensor in session.known or len(session.decisions) == _MAX_DECISIONS:
        return bool(known_value(session, tensor))
    found = _Computation(session).of(tensor)
    if found is None:
        return bool(known_value(session, tensor))
    chain, value = found
    if not isinstance(value, bool):
        chain, value = Chain.computed(operator.truth, (chain,)), bool(value)
    session.decisions.add(chain)
    run.environment.guard(chain, "IS", value)
    return value


def fails_now(session: Session, tensor: int) -> bool:
    """Return whether a condition of Python's numbers is false in this call; nothing is guarded."""
    found = _Computation(session).of(tensor)
    return found is not None and not found[1]


class _Computation:
    """The chain of Python's operators by which numbers are computed from feeds, and their values in this call."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._operators = 0

    def of(self, tensor: int) -> tuple[Chain, Any] | None:
        """Return the chain and the value of a number; None if it is a constant, or is made in another way."""
        try:
            operand, value = self._operand(tensor)
        except (UnknownValueError, ArithmeticError, ValueError):
            return None
        return (operand, value) if isinstance(operand, Chain) else None

    def _operand(self, tensor: int) -> tuple[Any, Any]:
        session = self._session
        if tensor in session.varying or not session.graph.metas[tensor].weak:
            raise UnknownValueError
        if tensor in session.known:
            value = session.known[tensor]
            return value, value
        node = session.graph.node(tensor)
        if node is None:
            feed = session.feeds.get(tensor)
            if feed is None:
                raise UnknownValueError
            return feed.source, feed.value
        if node.op_name == "full":
            value = dict(node.attrs)["value"]
            return value, value
        if node.op_name == "require":
            return self._operand(node.input_ids[0])
        self._operators += 1
        if node.op_name not in _PYTHON or self._operators > _MAX_OPERATORS:
            raise UnknownValueError
        chains, values = zip(*map(self._operand, node.input_ids), strict=True)
        python = _PYTHON[node.op_name]
        value = python(*values)
        return Chain.computed(python, chains) if any(isinstance(chain, Chain) for chain in chains) else value, value


def _evaluated(session: Session, stack: list[int], entered: set[int]) -> Any:
    """Return the value of the tensor on the stack; each value is computed once, however often Python reads it."""
    guards: dict[int, Any] = {}
    tensor = stack[0]
    try:
        values = _values(session, stack, entered, guards)
    except (ArithmeticError, ValueError):
        session.guarded_values.update(guards)  # the function may catch it
        raise
    session.guarded_values.update(guards)
    _keep(session, values)
    return values[tensor]


def _values(session: Session, stack: list[int], entered: set[int], guards: dict[int, Any]) -> dict[int, Any]:
    """Return the values of the tensor on the stack and of what it depends on; add what is to be guarded to `guards`."""
    values: dict[int, Any] = {}
    known = session.known
    while stack:
        t = stack[-1]
        if t in values:
            stack.pop()
            continue
        if t in session.varying or t in session.unknown or t in session.dynamic:
            raise UnknownValueError
        if t in known:
            values[t] = known[t]
            continue
        entered.add(t)
        node = session.graph.node(t)
        if node is None:
            feed = session.feeds.get(t)
            if feed is None:  # a value that a loop carries
                raise UnknownValueError
            if feed.meta.weak:
                guards[t] = values[t] = feed.value
            elif _is_table(session, feed):
                guards[t], values[t] = feed.value.tobytes(), feed.value.copy()
            else:
                raise UnknownValueError
            continue
        missing = [i for i in node.input_ids if i not in values]
        if missing:
            stack.extend(missing)
        else:
            values[t] = _evaluate(session, node, [values[i] for i in node.input_ids])
            if not node.input_ids:
                _keep(session, {t: values[t]})  # also if the rest is unknown
    return values


def _keep(session: Session, values: dict[int, Any]) -> None:
    """Store values for later reads, the last MAX_KNOWN_BYTES of them; the values that they depend on are guarded.

    A loop reads what it has made last: were the first ones kept, each read would compute all later ones again.
    """
    known = session.known
    for t, value in values.items():
        size = _size(value)
        if t in known or size > MAX_KNOWN_BYTES:
            continue
        while session.known_bytes + size > MAX_KNOWN_BYTES:
            session.known_bytes -= _size(known.pop(next(iter(known))))
        known[t] = value
        session.known_bytes += size


def _size(value: Any) -> int:
    return int(getattr(value, "nbytes", 32))


def _is_table(session: Session, feed: Feed) -> bool:
    """Return whether a feed is a small array that is no argument: it will hardly change."""
    found = isinstance(feed.source, Chain) and feed.source.root.kind != "arg"
    plain = type(feed.value) is np.ndarray and not (session.eager or session.torch or session.on_device)
    return found and plain and feed.meta.size <= MAX_TABLE


def _evaluate(session: Session, node: OpNode, inputs: list[Any]) -> Any:
    if node.mode_sensitive or len(node.result_ids) != 1:
        raise UnknownValueError
    weak = bool(inputs) and all(session.graph.metas[i].weak for i in node.input_ids)
    if weak and session.graph.metas[node.result_ids[0]].weak and node.op_name in _PYTHON:
        return _PYTHON[node.op_name](*inputs)
    row = ops.get(node.op_name)
    assert row is not None
    if row.kind == ops.CONTROL:
        raise UnknownValueError
    with np.errstate(all="ignore"):
        result = row.numpy(*inputs, **dict(node.attrs))
    return result.item() if session.graph.metas[node.result_ids[0]].weak and hasattr(result, "item") else result


_WAY_OUT: Final = {
    "bool()": "Choose between values with np.where(condition, a, b), or np.maximum and np.minimum in place of max and "
    "min, and between functions with jf.cond; take decisions by shapes, which are plain ints, or by Python scalars.",
    "float()": "Keep it an array: use the function of arrays (scipy.special.gamma, not math.gamma), and return what "
    "you want to see.",
    "int()": "Use x.astype(int) for the values, and Python ints or shapes for extents, indices and loop bounds.",
    "round()": "Write np.floor(x * 100 + 0.5) / 100 for two digits, or round outside the fused function.",
    "iter()": "It has rank 0: there is nothing to iterate over.",
    "len()": "It has rank 0, and so no length; its size is 1.",
    "np.asarray()": "Stay with traced arrays: NumPy functions and jf functions take them as they are; cast "
    "with x.astype(np.float32), not np.float32(x); return what you want to see.",
}


def way_out(what: str) -> str:
    """Return advice on what to write instead of a read of a value."""
    return _WAY_OUT.get(what, "Return the value and read it outside the fused function.")


def value_read_error(description: str, what: str) -> TracedValueError:
    """Return the error for a read of a value that is not known while tracing."""
    return TracedValueError(
        f"{what} at {user_line()} reads the value of a traced array, which is known only when the compiled "
        f"program runs: {description}. {way_out(what)}"
    )

"""Arithmetic of run-time numbers: the ranges of Python ints, and the errors that Python raises.

Owns which ints fit 64 bits, or are exact as doubles. Int arguments are bounded by a class (`_CLASSES`) that holds this
call's value; later calls are checked for it, and the ranges of results follow. Operators that may leave these ranges
are computed by Python, with guarded values. Owns the checks at run time: divisors that are 0, powers that leave a
double, scalars that an array of integers cannot hold. Does not own dtypes of operands (`jitfuse.tracing.numbers.weak`).
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from jitfuse.dtypes import integer_range, is_integer, kind
from jitfuse.errors import DivisionByZeroError
from jitfuse.ir import statuses
from jitfuse.ir.program import Meta
from jitfuse.tracing.record import try_blocks
from jitfuse.tracing.record.known_values import fails_now, known_truth, python_operator
from jitfuse.tracing.record.recorder import Recorder
from jitfuse.tracing.record.session import Session
from jitfuse.tracing.record.source import user_line

Range = tuple[int, int]

_CLASSES: Final = (2**31 - 1, 2**53)
"""The classes of bounds of int arguments: sums and products in the first fit 64 bits, all are exact as doubles."""
_INT64: Final = -(2**63), 2**63 - 1
_EXACT: Final = -(2**53), 2**53
_INDEX_OPS: Final = frozenset({"argmax", "argmin", "count_nonzero"})
_STEP: Final = 1 << 31
_NUMBERS: Final[dict[str, Callable[[int], Any]]] = {"bool": bool, "int64": int, "uint64": int, "float64": float,
                                                 "complex128": complex}
_GROWING: Final = frozenset({"add", "subtract", "multiply", "power"})
_SIMPLE_POWERS: Final = ((2, "square"), (-1, "reciprocal"), (0.5, "sqrt"))
COMPARISONS: Final = frozenset({"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"})
DIVISIONS: Final = frozenset({"divide", "floor_divide", "remainder"})


def leave_their_range(run: Recorder, name: str, ids: Sequence[int], metas: Sequence[Meta]) -> bool:
    """Tell whether an operator over Python numbers may need ints that 64 bits, or a double, cannot hold.

    Ints that captured loops carry are bounded if the answer depends on it; the loop then checks them.
    """
    if not _may_leave(run, name, ids, metas):
        return False
    return not (run.loops and _bound_carried(run, ids)) or _may_leave(run, name, ids, metas)


def _bound_carried(run: Recorder, ids: Sequence[int]) -> bool:
    """Bound the carried ints that these tensors are computed from; return whether any was newly bounded."""
    session, found = run.session, False
    carried = {c.value._id(): c for loop in run.loops for c in loop.numbers}
    todo, met = list(ids), set(ids)
    while todo:
        tensor = todo.pop()
        if tensor in carried:
            found |= carried[tensor].bound()
        node = session.graph.node(tensor)
        new = set() if node is None else {i for i in node.input_ids if not session.graph.metas[i].shape} - met
        met |= new
        todo += new
    if found:
        for tensor in [t for t, known in session.ranges.items() if known is None]:
            del session.ranges[tensor]
    return found


def _may_leave(run: Recorder, name: str, ids: Sequence[int], metas: Sequence[Meta]) -> bool:
    if not any(is_integer(m.dtype) for m in metas) or name not in _RULES:
        return False
    mixed = any(m.dtype in ("float64", "complex128") for m in metas)
    if mixed and name not in COMPARISONS:
        return False  # Python rounds the int to a double too
    ranges = [range_of(run, i) for i in ids]
    if mixed or name == "divide":
        return any(r is not None and not _within(r, _EXACT) for r in ranges)
    if None in ranges and name == "bitwise_left_shift":
        return True
    if None in ranges:
        return name in _GROWING and any(is_of_data(run.session, i) for i in ids) and not _grows_slowly(name, ranges)
    found = _RULES[name](*ranges)
    return found is None or not _within(found, _INT64)


def is_of_data(session: Session, tensor: int) -> bool:
    """Return whether a Python number is computed from data: it is then live across breaks, not known."""
    todo, known = [tensor], session.of_data
    while todo:
        t = todo[-1]
        node = None if t in known else session.graph.node(t)
        if t not in known and node is not None and node.op_name != "python_number" and session.graph.metas[t].weak:
            inputs = [i for i in node.input_ids if session.graph.metas[i].weak]
            unknown = [i for i in inputs if i not in known]
            if unknown:
                todo += unknown
                continue
            known[t] = any(known[i] for i in inputs)
        elif t not in known:
            known[t] = t in session.dynamic if node is None else node.op_name == "python_number"
        todo.pop()
    return known[tensor]


def _grows_slowly(name: str, ranges: Sequence[Range | None]) -> bool:
    """Return whether a step changes an int of unknown range so little that no loop can take it out of 64 bits."""
    others = [r for r in ranges if r is not None]
    return name in ("add", "subtract") and len(others) == 1 and _within(others[0], (-_STEP, _STEP))


def is_exact(run: Recorder, tensor: int) -> bool:
    """Return whether a Python int is known to be exact as a double."""
    known = range_of(run, tensor)
    return known is not None and _within(known, _EXACT)


def range_of(run: Recorder, tensor: int) -> Range | None:
    """Return the range of a Python int or bool, or None."""
    known = run.session.ranges
    if tensor not in known:
        known[tensor] = _find(run, tensor)
    return known[tensor]


def _find(run: Recorder, tensor: int) -> Range | None:
    session, meta = run.session, run.graph.metas[tensor]
    if not meta.weak or not (is_integer(meta.dtype) or meta.dtype == "bool"):
        return None
    if meta.dtype == "bool":
        return 0, 1
    feed, node = session.feeds.get(tensor), run.graph.node(tensor)
    if feed is not None:
        bound = next((b for b in _CLASSES if -b <= feed.value <= b), None)
        if bound is None:
            return _INT64
        low, high = session.int_ranges.get(tensor, _INT64)
        session.int_ranges[tensor] = max(low, -bound), min(high, bound)
        return -bound, bound
    if node is None or tensor in session.live:
        return None
    if node.op_name == "full":
        value: Any = dict(node.attrs)["value"]
        return value, value
    if node.op_name == "require":
        return range_of(run, node.input_ids[0])
    if node.op_name == "python_number":
        return _range_of_data(run, node.input_ids[0])
    ranges = [range_of(run, i) for i in node.input_ids]
    rule = _RULES.get(node.op_name)
    return rule(*ranges) if rule is not None and None not in ranges else None


def _range_of_data(run: Recorder, tensor: int) -> Range | None:
    """Return the range of an int made of data: a selection of two Python ints, an array's index, or a small dtype."""
    node = run.graph.node(tensor)
    if node is not None and node.op_name in _INDEX_OPS:
        return 0, max(run.graph.metas[node.input_ids[0]].size, 1)
    if node is not None and node.op_name == "astype":
        dtype = run.graph.metas[node.input_ids[0]].dtype
        return integer_range(dtype) if is_integer(dtype) and dtype not in ("int64", "uint64") else None
    if node is None or node.op_name != "where":
        return None
    ranges = [range_of(run, i) for i in node.input_ids[1:]]
    known = [w for w in ranges if w is not None]
    return (min(w[0] for w in known), max(w[1] for w in known)) if len(known) == len(ranges) else None


def _within(inner: Range, outer: Range) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _corners(function: Callable[[int, int], int]) -> Callable[[Range, Range], Range]:
    def rule(a: Range, b: Range) -> Range:
        found = [function(x, y) for x in a for y in b]
        return min(found), max(found)

    return rule


def _largest(a: Range) -> int:
    return max(abs(a[0]), abs(a[1]))


def _power(a: Range, b: Range) -> Range | None:
    if b[0] < 0 or b[1] > 64:
        return None
    return -(_largest(a) ** b[1]), max(_largest(a) ** b[1], 1)


def _bits(a: Range, b: Range) -> Range:
    bound = 1 << max(_largest(a).bit_length(), _largest(b).bit_length())
    return -bound, bound - 1


def _compared(a: Range, b: Range) -> Range:
    return 0, 1


_RULES: Final[dict[str, Callable[..., Range | None]]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "subtract": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "multiply": _corners(lambda x, y: x * y),
    "divide": lambda a, b: None,
    "floor_divide": lambda a, b: (-_largest(a) - 1, _largest(a) + 1),
    "remainder": lambda a, b: (min(b[0], 0), max(b[1], 0)),
    "power": _power,
    "negative": lambda a: (-a[1], -a[0]),
    "bitwise_invert": lambda a: (-a[1] - 1, -a[0] - 1),
    "bitwise_left_shift": lambda a, b: (a[0] << b[0], a[1] << b[0]),
    "bitwise_right_shift": lambda a, b: (a[0] >> b[0], a[1] >> b[0]),
    "positive": lambda a: a,
    "abs": lambda a: (0, _largest(a)),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), _bits),
    **dict.fromkeys(COMPARISONS, _compared),
}
"""The range of an operator's result, from the ranges of int operands."""


# ---------------------------------------------------------------- errors of Python and NumPy
def checked(run: Recorder, name: str, ids: tuple[int, ...], metas: Sequence[Meta]) -> tuple[int, ...]:
    """Return the operands of an operator over Python numbers, with a check for the error that Python would raise."""
    if run.session.on_device or len(ids) != 2:
        return ids
    if name in DIVISIONS:
        ok = _is_not_zero(run, ids[1])
        if _is_read(run, ok, name, metas, 1, 0):
            return ids
        return ids[0], _required(run, ids[1], ok, statuses.DIVISION_BY_ZERO)
    if name == "power" and metas[0].dtype == "float64":
        return _base(run, ids, metas), ids[1]
    return ids


def _is_read(run: Recorder, ok: int | None, name: str, metas: Sequence[Meta], *example: int) -> bool:
    """Return whether Python has read `ok`, because the function would catch the operator's error.

    If `ok` is false, raise the error by Python's operator on an example. Also where only the numbers of this call make
    it false: later lines may be in a `try`, and the error belongs to this one.
    """
    found = None if ok is None else try_blocks.holds(run, ok)
    if ok is not None and found is None and fails_now(run.session, ok):
        found = known_truth(run, ok)
    if found is False:
        python = python_operator(name)
        assert python is not None
        python(*[_NUMBERS[meta.dtype](value) for meta, value in zip(metas, example, strict=True)])
    return found is not None


def delivered(run: Recorder, name: str, ids: tuple[int, ...], metas: Sequence[Meta], result: int) -> int:
    """Return a result; that of a power of a float must be finite if its operands are."""
    if run.session.on_device or name != "power" or metas[0].dtype != "float64":
        return result
    exponent = literal(run, ids[1])
    if exponent is not None and (0 <= exponent <= 1 or not math.isfinite(exponent)):
        return result
    ok = run.emit("isfinite", (result,))
    if exponent is None or exponent < 0:  # an infinite power of 0 has already been rejected
        ok = run.emit("logical_or", (ok, run.emit("equal", (ids[0], run.literal(0)))))
    for i in ids:
        if literal(run, i) is None and run.graph.metas[i].dtype == "float64":
            ok = run.emit("logical_or", (ok, run.emit("logical_not", (run.emit("isfinite", (i,)),))))
    if _is_read(run, ok, name, metas, 2, 2000):
        return result
    return run.emit("require", (result, ok), {"status": statuses.TOO_LARGE})


def literal(run: Recorder, tensor: int) -> Any:
    """Return the value of a tensor that is a literal, else None."""
    node = run.graph.node(tensor)
    return dict(node.attrs)["value"] if node is not None and node.op_name == "full" else None


def _is_not_zero(run: Recorder, tensor: int) -> int | None:
    """Return the tensor that says whether a number is not 0; None if it is known to hold."""
    value = literal(run, tensor)
    if value is not None and value == 0:
        raise DivisionByZeroError(f"division by zero, at {user_line()}")
    if value is not None:
        return None
    return run.emit("not_equal", (tensor, run.literal(0)))


def _required(run: Recorder, tensor: int, ok: int | None, status: int) -> int:
    return tensor if ok is None else run.emit("require", (tensor, ok), {"status": status})


def _base(run: Recorder, ids: tuple[int, ...], metas: Sequence[Meta]) -> int:
    """Return the base of a power, which must not be 0 if the exponent is negative."""
    exponent = literal(run, ids[1])
    if exponent is not None and (exponent >= 0 or math.isnan(exponent)):
        return ids[0]
    ok = _is_not_zero(run, ids[0])
    if ok is not None and exponent is None:
        ok = run.emit("logical_or", (ok, run.emit("greater_equal", (ids[1], run.literal(0)))))
    if _is_read(run, ok, "power", metas, 0, -1):
        return ids[0]
    return _required(run, ids[0], ok, statuses.DIVISION_BY_ZERO)


def power_of_array(run: Recorder, ids: tuple[int, ...]) -> int:
    """Return an array to a power; for some Python exponents it is a square, a root or a reciprocal, as in NumPy."""
    x, exponent = ids
    result, meta = run.emit("power", ids), run.graph.metas[exponent]
    if not meta.weak or kind(run.graph.metas[x].dtype) != "float" or literal(run, exponent) is not None:
        return result  # kernels handle literal exponents
    simple = _SIMPLE_POWERS[:2] if is_integer(meta.dtype) else _SIMPLE_POWERS
    for number, name in simple:
        equal = run.emit("equal", (exponent, run.literal(number)))
        result = run.emit("where", (equal, run.emit(name, (x,)), result))
    return result


def fitting(run: Recorder, tensor: int, target: str, beyond: int = statuses.DOES_NOT_FIT) -> int:
    """Return a scalar that is written into an array of integers; after truncation, it must fit their dtype.

    `beyond` is the status of finite scalars that are too large. For unsigned integers, NumPy scalars are cast without
    a check, like arrays.
    """
    dtype, weak = run.graph.metas[tensor].dtype, run.graph.metas[tensor].weak
    low, high = integer_range(target)
    cut_off = not weak and low == 0
    if cut_off or run.session.on_device or (is_integer(dtype) and _within(integer_range(dtype), (low, high))):
        return tensor
    if is_integer(dtype):
        above = run.emit("greater_equal", (tensor, run.literal(low)))
        inside = run.emit("logical_and", (above, run.emit("less_equal", (tensor, run.literal(high)))))
        return _required(run, tensor, inside, beyond)
    wide = tensor if dtype == "float64" else run.emit("astype", (tensor,), {"dtype": "float64"})
    is_number = run.emit("logical_not", (run.emit("isnan", (wide,)),))
    wide = _required(run, wide, is_number, statuses.NOT_A_NUMBER)
    bounded = run.emit("logical_not", (run.emit("isinf", (wide,)),))
    wide = _required(run, wide, bounded, statuses.INFINITE)
    exact = float(low - 1) == low - 1
    above = run.emit("greater" if exact else "greater_equal", (wide, run.literal(float(low - 1 if exact else low))))
    inside = run.emit("logical_and", (above, run.emit("less", (wide, run.literal(float(high + 1))))))
    finite = run.emit("isfinite", (wide,))  # others have already been rejected
    inside = run.emit("logical_or", (inside, run.emit("logical_not", (finite,))))
    return _required(run, wide, inside, beyond)

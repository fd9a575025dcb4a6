"""Python scalars as operands: when Python must know their values, and when an int does not fit a dtype.

Operators over Python scalars give scalars of a fixed type, as in Python, unless the type of the result depends on the
values. NumPy rejects a Python int that the array's dtype cannot hold.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from jitfuse.base.later import Later
from jitfuse.base.records import NamedTuple
from jitfuse.dtypes import integer_range, is_integer, kind
from jitfuse.errors import DTypeError, NumericError, OutOfRangeError
from jitfuse.ir.operators import ops
from jitfuse.ir.program import Meta
from jitfuse.tracing.record.known_values import UnknownValueError, known_value
from jitfuse.tracing.record.literals import check_int
from jitfuse.tracing.record.recorder import Recorder
from jitfuse.tracing.record.source import user_line

arithmetic = Later("jitfuse.tracing.numbers.arithmetic")

_KEEPS_BOOL: Final = frozenset({
    "bitwise_and", "bitwise_or", "bitwise_xor", "equal", "not_equal", "less", "less_equal", "greater",
    "greater_equal", "divide",
})


def needs_values(run: Recorder, name: str, ids: tuple[int, ...], metas: Sequence[Meta]) -> bool:
    """Tell whether the type of a result of Python scalars depends on their values, or it may not fit 64 bits."""
    if name in ("bitwise_left_shift", "bitwise_right_shift"):
        amount = _literal(run, ids[1])
        return type(amount) is not int or not 0 <= amount < 63 or metas[0].dtype != "int64"
    if name == "bitwise_invert":
        return metas[0].dtype != "int64"
    if any(m.dtype == "uint64" for m in metas):
        return True
    if all(m.dtype == "bool" for m in metas):
        return name not in _KEEPS_BOOL
    if name != "power" or any(m.dtype == "complex128" for m in metas):
        return False
    base, exponent = ids
    if metas[0].dtype == "float64":
        positive = (_literal(run, base) or 0.0) > 0.0
        whole = metas[1].dtype != "float64" or float(_literal(run, exponent) or 0.5).is_integer()
        return not (positive or whole)
    return metas[1].dtype == "float64" or (_literal(run, exponent) or -1) < 0


def _literal(run: Recorder, tensor: int) -> Any:
    node = run.graph.node(tensor)
    return dict(node.attrs)["value"] if node is not None and node.op_name == "full" else None


def number(run: Recorder, tensor: int) -> Any:
    """Return the value of a Python number; one that is not known is read, which is a graph break."""
    try:
        return known_value(run.session, tensor)
    except UnknownValueError:
        from jitfuse.tracing.record.value_reads import read_value

        kinds = {"bool": bool, "int64": int, "float64": float}
        python = kinds[run.graph.metas[tensor].dtype]
        return read_value(run, tensor, f"{python.__name__}()", python)


class Operands(NamedTuple):
    """A classification of operands: whether all are Python numbers, and which Python ints must fit which dtype.

    `meta` is the result's, or None if it depends on attributes or the result is a Python number.
    """

    are_numbers: bool
    cast: tuple[tuple[int, str], ...]
    meta: Meta | None


@lru_cache(maxsize=4096)
def operands(op: ops.Op, metas: tuple[Meta, ...]) -> Operands:
    """Classify operands with these metas of an operator with a ufunc dtype signature (`op.loop`)."""
    are_numbers = bool(metas) and all(m.weak for m in metas)
    meta = None if op.attrs or are_numbers else op.infer(metas, {})
    if op.name == "where" or not any(m.weak and is_integer(m.dtype) for m in metas):  # np.where truncates ints
        return Operands(are_numbers, (), meta)
    assert op.loop is not None
    loop = op.loop(op.name, metas)
    cast = tuple([
        (k, dtype) for k, (meta, dtype) in enumerate(zip(metas, loop.inputs, strict=True))
        if meta.weak and is_integer(meta.dtype) and is_integer(dtype) and dtype != meta.dtype
    ])
    return Operands(are_numbers, cast, meta)


def check_assigned(run: Recorder, tensor: int, target: str) -> int:
    """Return a scalar that is written into an array of another dtype; reject what NumPy rejects, now or at run time."""
    source, weak = run.graph.metas[tensor].dtype, run.graph.metas[tensor].weak
    if weak and kind(source) == "complex" and kind(target) not in ("complex", "bool"):
        raise DTypeError(f"a complex number cannot be written into an array of {target}, at {user_line()}. "
                         "Write its real part.")
    if not is_integer(target) or not (is_integer(source) or kind(source) == "float"):
        return tensor
    if weak and is_integer(source):
        check_fits(run, tensor, target)
        return tensor
    literal = _literal(run, tensor)
    if literal is None:
        return arithmetic.fitting(run, tensor, target)
    low, high = integer_range(target)
    if not math.isfinite(literal) or not low <= int(literal) <= high:
        raise (NumericError if math.isnan(literal) else OutOfRangeError)(
            f"cannot convert {literal} to {target}: it is written into an array of integers at {user_line()}"
        )
    return tensor


def check_filling(value: Any, dtype: str) -> None:
    """Reject a Python int that fills an array whose dtype cannot hold it; NumPy casts floats without a check."""
    run = getattr(value, "_run", None)
    if run is not None and value.weak and is_integer(value._meta.dtype) and is_integer(dtype):
        check_fits(run, value._id(), dtype)


def check_fits(run: Recorder, tensor: int, dtype: str) -> None:
    """Reject a Python int that does not fit an integer dtype, now and (as a range of its feed) in later calls."""
    feed = run.session.feeds.get(tensor)
    low, high = integer_range(dtype)
    if feed is None or not low <= feed.value <= high:  # read, and so guarded, because the function may catch the error
        check_int(number(run, tensor), low, high, dtype)
        return
    known_low, known_high = run.session.int_ranges.get(tensor, (-(2**63), 2**63 - 1))
    run.session.int_ranges[tensor] = max(low, known_low), min(high, known_high)

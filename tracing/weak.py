"""Python scalars as operands: when Python must know their values, and when an int does not fit.

Operators among Python scalars stay scalars of the same type, as in Python, unless the type of the result
depends on the values. NumPy refuses a Python int that the array's dtype cannot hold.
"""
from __future__ import annotations

from typing import Any, Final

from jitfuse.ir import ops
from jitfuse.ir.program import Meta
from jitfuse.tracing.look import known_value
from jitfuse.tracing.recorder import Recorder, check_int

_KEEPS_BOOL: Final = frozenset({
    "bitwise_and", "bitwise_or", "bitwise_xor", "equal", "not_equal", "less", "less_equal", "greater",
    "greater_equal", "divide",
})
_INT32: Final = (-(2**31), 2**31 - 1)


def needs_values(run: Recorder, name: str, ids: tuple[int, ...], metas: list[Meta]) -> bool:
    """Tell whether the type of a result among Python scalars depends on their values or leaves 64 bits."""
    if name in ("bitwise_left_shift", "bitwise_right_shift", "bitwise_invert"):
        return True
    if all(m.dtype == "bool" for m in metas):
        return name not in _KEEPS_BOOL
    if name != "power":
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


def check_int_operands(run: Recorder, op: ops.Op, ids: tuple[int, ...], metas: list[Meta]) -> None:
    """Refuse Python ints that an operator would have to cast to int32 where they do not fit."""
    if not any(m.dtype == "int32" and not m.weak for m in metas):
        return
    assert op.loop is not None
    loop = op.loop(op.name, metas)
    for tensor, meta, dtype in zip(ids, metas, loop.inputs, strict=True):
        if meta.weak and meta.dtype == "int64" and dtype == "int32":
            check_int32(run, tensor)


def check_int32(run: Recorder, tensor: int) -> None:
    """Refuse a Python int that does not fit int32, now and, as a range on its feed, in every later call."""
    feed = run.session.feeds.get(tensor)
    value = feed.value if feed is not None else known_value(run.session, tensor)
    check_int(value, *_INT32, "int32")
    if feed is not None:
        run.session.int_ranges[tensor] = _INT32

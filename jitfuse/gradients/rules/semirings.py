"""Sums of products in a semiring: derivatives of tables of records are tables of records."""
from __future__ import annotations

import math

from jitfuse.gradients.rule import RULES, Call, Parts, Rule
from jitfuse.gradients.values import Tensor, choose, part
from jitfuse.ir.semirings.derivatives import pulled_back, pushed_forward
from jitfuse.ir.semirings.tape import Table

_SMALL = {"float64": 1e-5, "float32": 1e-4}
"""Changes below it are differences of numbers of its size: third derivatives of logs are sums whose terms grow with the
reciprocal and cancel but for rounding."""
_ALL_SMALL = {"float64": 1e-18, "float32": 1e-9}
"""Where all changes are below it, further than a minimum's distance from 0 is rounded, they are divided by the largest
one: differences would lose their digits, and third derivatives are lost."""


def _table(call: Call) -> tuple[Table, tuple[int, ...]]:
    attrs = call.attrs
    return Table(attrs["records"], attrs["workspace"], attrs["size"]), tuple([x.size for x in call.xs])


def _run(call: Call, table: Table, others: list[Tensor]) -> Tensor:
    """Return the result of a table over the operands, others and a zero of the semiring."""
    zero = call.x.create("full", shape=(1,), value=-math.inf if _is_log(call) else 0.0, dtype=str(call.x.dtype))
    return call.x.call("semiring_sums", *call.xs[1:], *others, zero, carrier=call.attrs["carrier"], **table._asdict())


def _is_log(call: Call) -> bool:
    return bool(call.attrs["carrier"] == "log")


def _logs(change: Tensor, scale: Tensor) -> list[Tensor]:
    """Return logs of two numbers whose difference is a change, each times exp(scale); -inf where scale is infinite.

    Only the first one moves with the change, whatever its sign: so derivatives of derivatives hold near 0 too.
    """
    small = _SMALL[str(change.dtype)]
    large = choose(change.greater(0), 0, change.multiply(-2))
    taken = choose(change.call("abs").less(small), 2 * small, large).call("stop_gradient")
    finite = scale.call("isfinite")
    shift = choose(finite, scale, 0)
    first = change.add(taken).call("log")
    positive = taken.greater(0)
    second = choose(positive, choose(positive, taken, 1).call("log"), -math.inf)
    return [choose(finite, x.add(shift), -math.inf) for x in (first, second)]


def _unit(changes: list[Tensor]) -> Tensor:
    """Return the largest of changes, as a constant, where it is small; else 1."""
    sizes = [x.call("abs").call("stop_gradient").reshape((x.size,)) for x in changes]
    whole = sizes[0].call("concat", *sizes[1:], axis=0) if len(sizes) > 1 else sizes[0]
    largest = whole.call("max", axis=(0,), keepdims=False) if whole.size else whole.create(
        "full", shape=(), value=1.0, dtype=str(whole.dtype))
    small = largest.less(_ALL_SMALL[str(whole.dtype)]).call("logical_and", largest.greater(0))
    return choose(small, largest, 1)


def _difference(first: Tensor, second: Tensor, scale: Tensor) -> Tensor:
    """Return exp(first + scale) - exp(second + scale)."""
    return first.add(scale).call("exp").subtract(second.add(scale).call("exp"))


def _reverse(call: Call, cotangents: Parts) -> Parts:
    table, operands = _table(call)
    wanted = tuple([k for k, w in enumerate(call.wanted) if w])
    seeds, unit = [cotangents[0]], None
    if _is_log(call):
        unit = _unit(seeds)
        seeds = _logs(cotangents[0].divide(unit), call.y.negative())
    found = _run(call, pulled_back(table, operands, wanted, len(seeds)), seeds)
    made: list[Tensor | None] = [None] * len(operands)
    size, start = sum([operands[k] for k in wanted]), 0
    for k in wanted:
        parts = [part(found, 0, start + s * size, operands[k]).reshape(call.xs[k].shape) for s in range(len(seeds))]
        made[k] = parts[0] if unit is None else _difference(parts[0], parts[1], call.xs[k]).multiply(unit)
        start += operands[k]
    return made


def _forward(call: Call, tangents: Parts) -> Parts:
    table, operands = _table(call)
    moved = tuple([k for k, tangent in enumerate(tangents) if tangent is not None])
    pairs, unit = [[tangents[k]] for k in moved], None
    if _is_log(call):
        unit = _unit([tangents[k] for k in moved])
        pairs = [_logs(tangents[k].divide(unit), call.xs[k]) for k in moved]
    seeds = [x for parts in zip(*pairs) for x in parts]
    count = len(pairs[0])
    found = _run(call, pushed_forward(table, operands, moved, count), seeds)
    parts = [part(found, 0, s * table.size, table.size) for s in range(count)]
    if unit is None:
        return parts
    scale = call.y.negative()
    return [_difference(parts[0], parts[1], choose(scale.call("isfinite"), scale, 0)).multiply(unit)]


RULES["semiring_sums"] = Rule(_forward, _reverse)

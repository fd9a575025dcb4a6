"""Which 64-bit integers of a launch fit in 32 bits: index arithmetic mostly does.

Forms compute indices in int64, which many adapters lack and others emulate. The extents, parameters and scalars of a
launch bound the values computed from them. Where no step can leave 32 bits, the value is computed in 32 bits, with
the same result. Owns: the bounds alone.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from jitfuse.backends.wgsl.codegen.host_values import HostValues
from jitfuse.ir.kernels.form import KernelForm
from jitfuse.ir.kernels.stages import Instr
from jitfuse.ir.kernels.values import access

Interval = tuple[int, int]

_LOW, _HIGH = -(2**31), 2**31 - 1
_OF_DTYPE: Final[dict[str, Interval]] = {
    "bool": (0, 1), "int8": (-128, 127), "uint8": (0, 255), "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1), "int32": (_LOW, _HIGH),
}


def narrow_values(
    form: KernelForm, sizes: Sequence[int], params: Sequence[int], scalars: Mapping[int, int]
) -> tuple[int, ...]:
    """Return the numbers of the int64 values that stay within 32 bits, all of whose int64 operands do too."""
    unread = HostValues(form, tuple(scalars)).unread
    bounds: dict[int, Interval] = {}
    for _, body, _ in form.numbered:
        for number, instr in body:
            if instr.dtype == "int64":
                found = _bounds(form, instr, bounds, sizes, params, scalars)
                if found is not None and found[0] >= _LOW and found[1] <= _HIGH:
                    bounds[number] = found
    return tuple(n for n in bounds if n not in unread)


def _bounds(
    form: KernelForm, instr: Instr, known: Mapping[int, Interval], sizes: Sequence[int], params: Sequence[int],
    scalars: Mapping[int, int],
) -> Interval | None:
    if instr.op == "index":
        return 0, max(sizes[instr.imm] - 1, 0)
    if instr.op == "param":
        return params[instr.imm], params[instr.imm]
    if instr.op == "const":
        return int(instr.imm), int(instr.imm)
    if instr.op == "load":
        at = access(instr).operand
        return (scalars[at], scalars[at]) if at in scalars else None
    if instr.op == "astype":
        source = form.instructions[instr.args[0]]
        return known[instr.args[0]] if instr.args[0] in known else _OF_DTYPE.get(source.dtype)
    operands = instr.args[1:] if instr.op == "where" else instr.args
    if any(a not in known for a in operands):
        return None
    return _arithmetic(instr.op, [known[a] for a in operands])


def _arithmetic(op: str, operands: Sequence[Interval]) -> Interval | None:
    if op == "where":
        return _hull(v for interval in operands for v in interval)
    if op == "negative":
        ((low, high),) = operands
        return -high, -low
    if len(operands) != 2:
        return None
    (a, b), (c, d) = operands
    if op == "add":
        return a + c, b + d
    if op == "subtract":
        return a - d, b - c
    if op == "multiply":
        return _hull(x * y for x in (a, b) for y in (c, d))
    if op == "minimum":
        return min(a, c), min(b, d)
    if op == "maximum":
        return max(a, c), max(b, d)
    if op == "floor_divide" and c > 0:
        return _hull(x // y for x in (a, b) for y in (c, d))
    if op == "remainder" and c > 0:
        return 0, d - 1
    return None


def _hull(values: Iterable[int]) -> Interval:
    found = list(values)
    return min(found), max(found)

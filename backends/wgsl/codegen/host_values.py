"""Values that the host computes before a launch, because they depend on parameters and known scalars alone.

Examples are the divisor of a mean, or a Python float cast to the dtype of an array: one number for a whole launch,
often computed in float64, which many adapters lack. The host evaluates them by the operators' references, and passes
those that kernels read as additional kernel arguments. Owns: the choice of these values, and their evaluation.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jitfuse.backends.wgsl.codegen.analysis import ShaderAnalysis
from jitfuse.dtypes import is_integer, numpy_dtype
from jitfuse.ir.kernels.form import KernelForm
from jitfuse.ir.kernels.stages import Instr
from jitfuse.ir.kernels.values import access
from jitfuse.ir.operators import ops
from jitfuse.ir.semantics import reference

_SOURCES = ("param", "const", "load")


class HostValues:
    """The values of a form that the host knows, given which operands it knows (`inline`)."""

    def __init__(self, form: KernelForm, inline: Sequence[int]) -> None:
        analysis = ShaderAnalysis(form)
        self.form = form
        self._instructions = analysis.instructions
        self.known = _known(analysis, frozenset(inline))
        read = {a for n, i in self._instructions.items() if n not in self.known for a in i.args}
        read |= {v for s in form.stages for r in s.reductions for v in r.values}
        self.words = tuple(sorted(n for n in read & self.known if self._instructions[n].op not in _SOURCES))
        """The numbers of the values that kernels read as additional arguments, in their order."""
        self.unread = self.known - read

    def evaluate(self, params: Sequence[int], scalars: Mapping[int, int]) -> list[int]:
        """Return the additional arguments, from the words of the parameters and of the known operands."""
        values: dict[int, Any] = {}
        with np.errstate(all="ignore"):
            for number in sorted(self.known) if self.words else ():
                values[number] = self._value(self._instructions[number], values, params, scalars)
        return [_word(values[n]) for n in self.words]

    def _value(
        self, instr: Instr, values: Mapping[int, Any], params: Sequence[int], scalars: Mapping[int, int]
    ) -> Any:
        dtype = numpy_dtype(instr.dtype)
        if instr.op == "param":
            return _scalar(params[instr.imm], dtype)
        if instr.op == "const":
            return dtype.type(instr.imm)
        if instr.op == "load":
            return _scalar(scalars[access(instr).operand], dtype)
        operands = [values[a] for a in instr.args]
        if instr.op == "astype":
            return reference.astype(operands[0], dtype=instr.dtype)
        if instr.op == "require":
            return dtype.type(reference.require(*operands, status=int(instr.imm)))
        row = ops.get(instr.op)
        assert row is not None
        return dtype.type(row.numpy(*operands))


def _known(analysis: ShaderAnalysis, inline: frozenset[int]) -> frozenset[int]:
    known: set[int] = set()
    for number, instr in analysis.instructions.items():
        if instr.op == "load":
            is_known = access(instr).operand in inline and not access(instr).mask
        elif instr.op in ("param", "const"):
            is_known = True
        else:
            row = ops.get(instr.op)
            elementwise = row is not None and row.kind == ops.ELEMENTWISE and not _may_raise(instr)
            is_known = elementwise and bool(instr.args) and all(a in known for a in instr.args)
        if is_known:
            known.add(number)
    return frozenset(known)


def _may_raise(instr: Instr) -> bool:
    return instr.op == "power" and is_integer(instr.dtype)


def _scalar(word: int, dtype: np.dtype[Any]) -> Any:
    return np.frombuffer((word & (2**64 - 1)).to_bytes(8, "little"), dtype, 1)[0]


def _word(value: Any) -> int:
    return int.from_bytes(np.asarray(value).tobytes().ljust(8, b"\0"), "little")

"""Facts about a form that codegen needs before it writes code: where each value is computed, and what reads it.

Owns: levels and consumers. Does not own the types of values (`ranges`) or code.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from jitfuse.base.lazy import cached_property
from jitfuse.ir.kernels.form import KernelForm
from jitfuse.ir.kernels.stages import Instr, Reduction
from jitfuse.ir.kernels.values import access

POINT: Final = 0
"""The level of values that are the same for all inner elements of a grid point."""
INNER: Final = 1
"""The level of values that differ along the inner axes, or along the contracted ones."""


@dataclass(frozen=True, eq=False)
class ShaderAnalysis:
    """Facts about a form."""

    form: KernelForm

    @cached_property
    def instructions(self) -> dict[int, Instr]:
        """Every instruction by the number of its value."""
        return {n: i for _, body, _ in self.form.numbered for n, i in body}

    @cached_property
    def levels(self) -> list[int]:
        """The level of every value."""
        result: list[int] = []
        for _, body, reductions in self.form.numbered:
            for _, instr in body:
                result.append(self._level(instr, result))
            for _, r in reductions:
                result += [POINT] * max(1, len(r.values))
        return result

    def _level(self, instr: Instr, known: list[int]) -> int:
        first = len(self.form.grid)
        level = max((known[a] for a in instr.args), default=POINT)
        if instr.op == "index":
            return INNER if instr.imm >= first else POINT
        if instr.op in ("load", "store"):
            strides = self.form.operands[access(instr).operand].strides[first:]
            return max(level, INNER if any(c != "0" for c in strides) else POINT)
        return INNER if instr.op in ("keep", "kept", "scan") and self.form.inner else level

    @cached_property
    def consumers(self) -> dict[int, list[Instr | Reduction]]:
        """The instructions and reductions that read each value."""
        found: dict[int, list[Instr | Reduction]] = {}
        for stage, body, _ in self.form.numbered:
            for _, instr in body:
                for a in instr.args:
                    found.setdefault(a, []).append(instr)
            for r in stage.reductions:
                for v in r.values:
                    found.setdefault(v, []).append(r)
        return found

    @property
    def phases(self) -> frozenset[str]:
        """The phases of the form's reductions."""
        return frozenset(r.phase for s in self.form.stages for r in s.reductions)

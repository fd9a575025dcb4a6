"""What reductions compute: their identities and how two parts combine."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from jitfuse.backends.wgsl.codegen.operators import UnknownOperatorError, constant
from jitfuse.backends.wgsl.codegen.types import REGISTER
from jitfuse.base.records import NamedTuple
from jitfuse.dtypes import integer_range, itemsize, kind
from jitfuse.ir.kernels.stages import Reduction
from jitfuse.ir.kernels.sum_tree import SUM_DEPTH, sum_lanes

_COMBINES: Final = ("sum", "prod", "min", "max", "any", "all")


class ShaderReduced(NamedTuple):
    """One value under reduction: the number of its result, and the number of its operand (None in a final phase)."""

    number: int
    value: int | None
    reduction: Reduction

    @property
    def type(self) -> str:
        """The register type."""
        return REGISTER[self.reduction.dtype]

    @property
    def tree(self) -> bool:
        """Whether the order matters: float sums and products."""
        return self.reduction.combine in ("sum", "prod") and kind(self.reduction.dtype) == "float"

    @property
    def lanes(self) -> int:
        """The number of virtual lanes."""
        return sum_lanes(itemsize(self.reduction.dtype))

    @property
    def block(self) -> int:
        """The number of elements in a block of the tree."""
        return SUM_DEPTH * self.lanes

    @property
    def shared_type(self) -> str:
        """The type in the shared memory of a workgroup."""
        return "u32" if self.type == "bool" else self.type

    def shared(self, value: str) -> str:
        """Convert a value to its type in shared memory."""
        return f"select(0u, 1u, {value})" if self.type == "bool" else value

    def unshared(self, value: str) -> str:
        """Convert a value from its type in shared memory."""
        return f"({value} != 0u)" if self.type == "bool" else value

    @property
    def identity(self) -> str:
        """Return the value that changes no bit of a value that it is combined with."""
        return constant(_identity(self.reduction.combine, self.reduction.dtype), self.type)

    def join(self, a: str, b: str) -> str:
        """Combine two parts, the older on the left."""
        combine, type_ = self.reduction.combine, self.type
        if type_ == "bool":
            return f"({a} | {b})" if combine in ("any", "max", "sum") else f"({a} & {b})"
        suffix = "_64" if type_ == "f64" else ""
        if kind(self.reduction.dtype) == "float":
            return {
                "sum": f"fence{suffix}({a} + {b})", "prod": f"fence{suffix}({a} * {b})",
                "min": f"jf_lowest{suffix}({a}, {b})", "max": f"jf_highest{suffix}({a}, {b})",
            }[combine]
        infix = {"sum": "+", "prod": "*"}.get(combine)
        return f"({a} {infix} {b})" if infix else f"{combine}({a}, {b})"

    def finished(self, x: str) -> str:
        """Return the result of folded lanes: a sum of nothing or of negative zeros is 0.0, as in NumPy."""
        return self.join(x, constant(0.0, self.type)) if self.tree and self.reduction.combine == "sum" else x


def _identity(combine: str, dtype: str) -> Any:
    if combine in ("any", "all"):
        return combine == "all"
    if combine == "prod":
        return 1
    if combine == "sum":
        return -0.0 if kind(dtype) == "float" else 0
    if dtype == "bool":
        return combine == "min"
    if kind(dtype) == "float":
        return math.inf if combine == "min" else -math.inf
    return integer_range(dtype)[1 if combine == "min" else 0]


def parts(reductions: Sequence[tuple[int, Reduction]]) -> list[ShaderReduced]:
    """Return the values under reduction of a stage, one for each component."""
    result = []
    for number, r in reductions:
        if r.combine not in _COMBINES:
            raise UnknownOperatorError(f"{r.combine} has no WGSL version")
        values: tuple[int | None, ...] = r.values or (None,)
        result += [ShaderReduced(number + k, v, r) for k, v in enumerate(values)]
    return result

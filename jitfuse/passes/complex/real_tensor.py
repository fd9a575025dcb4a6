"""Real tensors of a program under construction, for passes that write formulas in explicit dtypes.

Owns `RealTensor`, whose literals take the dtype of the tensor they are combined with, and operations that its operators
do not cover. Does not own any formula.
"""
from __future__ import annotations

from typing import Any

from jitfuse.ir.operators import ops
from jitfuse.ir.program import make_attrs
from jitfuse.tracing.program_builder import BuilderTensor, ProgramBuilder


class RealTensor(BuilderTensor):
    """A value whose methods append primitive steps: Python numbers become literals of its own dtype."""

    __slots__ = ()

    def _apply(self, op: ops.Op, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> RealTensor:
        ids = [t.id for t in inputs]
        return RealTensor(self._builder, self._builder.step(op.name, ids, make_attrs(attrs)))

    def _lift(self, value: Any) -> RealTensor:
        dtype = self._builder.meta[self.id].dtype
        value = float(value) if dtype.startswith("float") else value
        attrs = make_attrs({"shape": (), "value": value, "dtype": dtype, "weak": False})
        return RealTensor(self._builder, self._builder.step("full", (), attrs))

    def number(self, value: float) -> RealTensor:
        """Return a literal of this tensor's dtype."""
        return self._lift(value)

    def to(self, dtype: str) -> RealTensor:
        """Return the value in another dtype."""
        return self if self.dtype == dtype else self.call("astype", dtype=dtype)


def tensor(builder: ProgramBuilder, value: int) -> RealTensor:
    """Return a value of the program under construction."""
    return RealTensor(builder, value)


def choose(condition: Any, a: Any, b: Any) -> Any:
    """Return a if the condition holds, else b; one of them may be a Python number."""
    if not isinstance(a, RealTensor):
        a = b.number(a)
    return condition.call("where", a, b if isinstance(b, RealTensor) else a.number(b))


def is_zero(x: Any) -> Any:
    """Return whether x is 0.0 or -0.0."""
    return x == 0.0


def is_inf(x: Any) -> Any:
    """Return whether |x| is infinite."""
    return x.call("isinf")


def is_nan(x: Any) -> Any:
    """Return whether x is NaN."""
    return x.call("isnan")


def is_finite(x: Any) -> Any:
    """Return whether x is neither infinite nor NaN."""
    return x.call("isfinite")


def signed(magnitude: Any, sign: Any) -> Any:
    """Return |magnitude| with the sign of `sign`; signed zeros count."""
    return (magnitude if isinstance(magnitude, RealTensor) else sign.number(magnitude)).call("copysign", sign)


def is_negative(x: Any) -> Any:
    """Return whether the sign bit of x is set, as in -0.0."""
    return x.call("signbit")

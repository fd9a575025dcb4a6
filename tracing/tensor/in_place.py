"""Operators such as ``x += y``: they write into the memory of a traced array, by NumPy's rules of casting."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from jitfuse import dtypes
from jitfuse.errors import ArgumentError, DTypeError, ShapeError
from jitfuse.ir.operators import ops
from jitfuse.ir.program import Meta
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.record.source import user_line

_NO_ATTRIBUTES: Final[dict[str, Any]] = {}


class InPlace(AbstractTensor):
    """The in-place operators of a traced value; a subclass holds and writes it."""

    __slots__ = ()

    _meta: Meta
    _scalar: bool

    def _assign(self, value: Any) -> None:
        raise NotImplementedError

    def _assign_result(self, result: Any, name: str) -> None:
        """Write an operator's result as `x += y` and `out=x` do: same shape, same-kind cast."""
        of, into = result._meta, self._meta
        if of.shape != into.shape:
            raise ShapeError(
                f"{name}: the result of shape {of.shape} does not fit the output of shape {into.shape}, "
                f"at {user_line()}"
            )
        if of.dtype != into.dtype and not dtypes.can_cast(of.dtype, into.dtype):
            raise DTypeError(
                f"cannot cast {name}'s result from {of.dtype} to {into.dtype} with casting rule 'same_kind', "
                f"at {user_line()}. Write x = x.astype({of.dtype}) first, or cast the right-hand side."
            )
        # a ufunc's result is cast like array elements; assigning a scalar would check whether it fits
        self._assign(result.as_copy() if result._scalar else result)


def _operator(name: str) -> Callable[[InPlace, Any], Any]:
    """Return the method ``x op= y``, which writes into arrays and makes new scalars."""

    def operator(self: InPlace, other: Any) -> Any:
        if not isinstance(other, AbstractTensor):
            try:
                other = self._lift(other)
            except ArgumentError:
                return NotImplemented
        row = ops.get(name)
        assert row is not None
        result = self._apply(row, (self, other), _NO_ATTRIBUTES)
        if self._scalar or self.weak:
            return result
        self._assign_result(result, name)
        return self

    return operator


for _dunder, _name in {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift", "matmul": "matmul",
}.items():
    setattr(InPlace, f"__i{_dunder}__", _operator(_name))

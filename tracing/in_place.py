"""Operators that Python writes as ``x += y``: into the memory of a traced array, by NumPy's rules of casting."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitfuse import dtypes
from jitfuse.errors import ArgumentError, DTypeError, ShapeError
from jitfuse.tracing.looks import Looks
from jitfuse.tracing.source import user_line


class InPlace(Looks):
    """The in-place operators of a traced value, which a subclass holds and writes."""

    __slots__ = ()

    def _assign(self, value: Any) -> None:
        raise NotImplementedError

    def _assign_result(self, result: Any, name: str) -> None:
        """Write an operator's result as `x += y` and `out=x` do: same shape, same-kind cast."""
        if result.shape != self.shape:
            raise ShapeError(
                f"{name}: the result of shape {result.shape} does not fit the output of shape {self.shape}, "
                f"at {user_line()}"
            )
        source = result._meta.dtype
        if not dtypes.can_cast(source, self._meta.dtype):
            raise DTypeError(
                f"cannot cast {name}'s result from {source} to {self._meta.dtype} with casting rule 'same_kind', "
                f"at {user_line()}. Write x = x.astype({source}) first, or cast the right-hand side."
            )
        # a ufunc's result is cast as elements are, where assigning a scalar asks whether it fits
        self._assign(result.as_copy() if result._scalar else result)


def _operator(name: str) -> Callable[[InPlace, Any], Any]:
    """Return the method ``x op= y``, which writes into arrays and makes new scalars."""

    def operator(self: InPlace, other: Any) -> Any:
        try:
            result = self.call(name, other)
        except ArgumentError:
            return NotImplemented
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

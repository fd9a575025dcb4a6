"""Python's operators on traced values: arithmetic and comparisons, with the rules of Python and NumPy.

Most steps of a function come from here, so operators call `_apply` directly. Owns where Python numbers differ from
NumPy (comparisons of complex numbers, squares of bools). Does not own operators that write
(`jitfuse.tracing.tensor.in_place`).
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from jitfuse.errors import ArgumentError, DTypeError
from jitfuse.ir.operators import ops
from jitfuse.tracing.abstract import BINARY, COMPARISONS, UNARY, AbstractTensor
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.in_place import InPlace

_NUMBERS: Final = frozenset({bool, int, float, complex})
_NO_ATTRIBUTES: Final[dict[str, Any]] = {}


class Operators(InPlace):
    """The operators of a traced value; a subclass carries them out."""

    __slots__ = ()


def _operator(name: str, reflected: bool) -> Callable[[Operators, Any], Any]:
    row: ops.Op | None = None

    def operator(self: Operators, other: Any) -> Any:
        nonlocal row
        if not isinstance(other, AbstractTensor):
            if name == "multiply" and isinstance(other, list | tuple) and self._scalar:
                return NotImplemented  # a number repeats a sequence, or raises; an array of rank 0 multiplies its items
            try:
                other = self._lift(other)
            except ArgumentError:
                return NotImplemented
        if row is None:
            row = ops.get(name)
            assert row is not None
        return self._apply(row, (other, self) if reflected else (self, other), _NO_ATTRIBUTES)

    return operator


def _unary(name: str) -> Callable[[Operators], Any]:
    def operator(self: Operators) -> Any:
        row = ops.get(name)
        assert row is not None
        return self._apply(row, (self,), _NO_ATTRIBUTES)

    return operator


def _ordered(name: str) -> Callable[[Operators, Any], Any]:
    """Return an ordering operator; complex Python numbers have none, complex NumPy numbers do."""
    compare = _operator(name, reflected=False)

    def operator(self: Operators, other: Any) -> Any:
        if self.weak and (type(other) in _NUMBERS or getattr(other, "weak", False)) and (
                any(type(v) is complex or getattr(v, "dtype", "") == "complex128" for v in (self, other))):
            raise DTypeError(f"complex Python numbers have no order, at {user_line()}. Compare x.real, or abs(x).")
        return compare(self, other)

    return operator


def _power(self: Operators, other: Any) -> Any:
    """Return a power; of an array of bools, the power 2 is int8 and that of any other Python int is int64."""
    weak_int = type(other) is int or (isinstance(other, Operators) and other.weak and other.dtype == "int64")
    squared = weak_int and self.dtype == "bool" and not self._scalar and not self.weak
    return self.call("square") if squared and int(other) == 2 else _plain_power(self, other)


_plain_power: Final = _operator("power", reflected=False)

for _dunder, _name in {**BINARY, **COMPARISONS}.items():
    setattr(Operators, f"__{_dunder}__", _operator(_name, reflected=False))
for _dunder, _name in BINARY.items():
    setattr(Operators, f"__r{_dunder}__", _operator(_name, reflected=True))
for _dunder, _name in UNARY.items():
    setattr(Operators, f"__{_dunder}__", _unary(_name))
for _dunder in ("lt", "le", "gt", "ge"):
    setattr(Operators, f"__{_dunder}__", _ordered(COMPARISONS[_dunder]))
setattr(Operators, "__pow__", _power)  # noqa: B010

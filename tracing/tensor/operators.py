"""Operators on traced values: how one is recorded, and Python's arithmetic and comparisons.

Most steps of a function come from here, so Python's operators call `_apply` directly. Owns where Python numbers differ
from NumPy (comparisons of complex numbers, squares of bools). Does not own operators that write
(`jitfuse.tracing.tensor.in_place`), nor the rules of Python numbers (`jitfuse.tracing.numbers`).
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from jitfuse.base.later import Later
from jitfuse.errors import ArgumentError, DTypeError
from jitfuse.ir.operators import ops
from jitfuse.ir.program import Meta, make_attrs
from jitfuse.tracing.abstract import BINARY, COMPARISONS, UNARY, AbstractTensor
from jitfuse.tracing.numbers import weak
from jitfuse.tracing.record.dtype_name import dtype_name
from jitfuse.tracing.record.known_values import python_operator
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.in_place import InPlace
from jitfuse.tracing.tensor.traced import PartLayout, TracedTensor, fresh, plain

if TYPE_CHECKING:
    from jitfuse.tracing.record.recorder import Recorder

arithmetic = Later("jitfuse.tracing.numbers.arithmetic")
lifting = Later("jitfuse.tracing.tensor.lifting")
memory_order = Later("jitfuse.tracing.record.memory_order")
mixed_numbers = Later("jitfuse.tracing.tensor.mixed_numbers")

_VIEWS: Final = frozenset({"reshape", "transpose", "slice", "broadcast_to", "diagonal", "windows"})
_NUMBERS: Final = frozenset({bool, int, float, complex})
_NO_ATTRIBUTES: Final[dict[str, Any]] = {}


class Operators(InPlace):
    """The operators of a traced value, which a subclass holds."""

    __slots__ = ()

    _run: Recorder

    def _view(self, op: ops.Op, attrs: dict[str, Any]) -> TracedTensor:
        raise NotImplementedError

    def _apply(self, op: ops.Op, inputs: tuple[AbstractTensor, ...], attrs: dict[str, Any]) -> Any:
        if attrs:
            attrs = {k: plain(v) for k, v in attrs.items()}
            if attrs.get("dtype") is not None:
                attrs["dtype"] = dtype_name(attrs["dtype"], op.name)
        if op.loop is None:
            if op.name in _VIEWS:
                return self._view(op, attrs)
            if op.kind == ops.CONTROL:
                raise ArgumentError(f"use jf.{op.name}, which takes functions, at {user_line()}")
        in_order, found = True, []
        for t in inputs:
            if type(t) is not TracedTensor:
                return t._apply(op, inputs, attrs)  # a masked selection
            lazy = t._lazy_layout
            if lazy is not None and not (type(lazy) is PartLayout and lazy.in_order):
                in_order = False
            found.append(t._id())
        run, ids, meta = self._run, tuple(found), None
        if op.is_of_many:
            return tuple(fresh(run, made) for made in run.emit_all(op.name, ids, attrs))
        if run.mixed and found:
            made = mixed_numbers.apply(op, inputs, attrs)  # type: ignore[arg-type]
            if made is not None:
                return made
        if op.loop is not None:
            known = run.graph.metas
            metas = tuple([known[i] for i in found])
            operands = weak.operands(op, metas)
            if operands[0]:  # all are Python numbers
                return self._apply_among_numbers(op, ids, metas, attrs)
            for k, dtype in operands[1]:
                weak.check_fits(run, ids[k], dtype)
            meta = operands[2]
        if op.name == "power" and not inputs[0]._scalar:  # type: ignore[attr-defined]
            result = fresh(run, arithmetic.power_of_array(run, ids))
        else:
            result = fresh(run, run.record(op, ids, make_attrs(attrs) if attrs else (), meta), op.kind != ops.CREATION)
        if in_order or len(result._meta.shape) < 2:
            return result
        of_torch = run.session.torch
        return result.laid_out(memory_order.of_torch(op, inputs, result.shape) if of_torch else
                               memory_order.of_result(op, attrs, inputs, result.shape))

    def _apply_among_numbers(
        self, op: ops.Op, ids: tuple[int, ...], metas: tuple[Meta, ...], attrs: dict[str, Any]
    ) -> Any:
        """Record an operator over Python numbers, or carry it out in Python where their values must be known."""
        run = self._run
        python = python_operator(op.name)
        if python is not None:
            look = weak.needs_values(run, op.name, ids, metas)
            if look or arithmetic.leave_their_range(run, op.name, ids, metas):
                return python(*[weak.number(run, i) for i in ids])
            ids = arithmetic.checked(run, op.name, ids, metas)
        for k, dtype in weak.operands(op, metas).cast:
            weak.check_fits(run, ids[k], dtype)
        made = run.emit(op.name, ids, make_attrs(attrs))
        return fresh(run, arithmetic.delivered(run, op.name, ids, metas, made) if python is not None else made)

    def _lift(self, value: Any) -> TracedTensor:
        if self.weak and isinstance(value, list | tuple):
            raise ArgumentError("a Python number repeats a sequence")  # as an operator; see as_tensor
        return lifting.operand(self._run, value)

    def as_tensor(self, value: Any) -> TracedTensor:
        """Return anything that NumPy functions accept as an array as a tensor of this trace."""
        return lifting.lift(self._run, value)


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

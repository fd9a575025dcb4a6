"""Python's operators of arrays over torch tensors, in place too; importing this gives them to the class.

Each takes its direct way, and where that has nothing to say what every eager array has.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jitfuse.arrays import direct, torch_direct
from jitfuse.arrays.base import EagerArray
from jitfuse.arrays.torch_array import SMALL, Tensor, TorchArray, quietly, way_of
from jitfuse.dtypes import WEAK_DTYPE
from jitfuse.ir import ops
from jitfuse.tracing.abstract import BINARY, COMPARISONS, UNARY

Function = Callable[..., Any]


def _behind(name: str) -> tuple[Function | None, Function]:
    """Return what carries out an operator over tensors, if anything, and over ndarrays."""
    op = ops.get(name)
    assert op is not None
    return torch_direct.operator(name), direct.floor_divide if name == "floor_divide" else op.numpy


def _unary(name: str, usual: Function) -> Function:
    way = way_of(*_behind(name))
    assert way is not None

    def operator(self: TorchArray) -> Any:
        try:
            return way((self,), {})
        except Exception:
            return usual(self)

    return operator


def _binary(name: str, reflected: bool, usual: Function) -> Function:
    """Return Python's operator: torch's function or NumPy's where one decides, else the usual way."""
    way = way_of(*_behind(name))
    assert way is not None

    def operator(self: TorchArray, other: Any) -> Any:
        kind = type(other)
        if kind is TorchArray or kind in WEAK_DTYPE:
            try:
                found = way((other, self) if reflected else (self, other), {})
                if found is not NotImplemented:
                    return found
            except Exception:  # the usual way says what is wrong
                pass
        return usual(self, other)

    return operator


def _inplace(name: str, plain: Function, usual: Function) -> Function:
    """Return Python's in-place operator: a result of the array's own shape and dtype is written as it is."""
    over_tensors, over_arrays = _behind(name)
    written = torch_direct.operator(name, in_place=True)

    def computed(value: Any, operand: Any) -> Any:
        try:
            if over_tensors is not None:
                found = over_tensors(value, operand)
                if found is not NotImplemented:
                    return found
            if value.numel() > SMALL:
                return None
            second = operand.numpy() if type(operand) is Tensor else operand
            return torch.from_numpy(quietly(over_arrays, value.numpy(), second))
        except Exception:  # the usual way says what is wrong
            return None

    def operator(self: TorchArray, other: Any) -> Any:
        value, kind = self.value, type(other)
        made: Any = None
        if type(value) is not Tensor or value.requires_grad:
            return usual(self, other)
        if kind is TorchArray or kind in WEAK_DTYPE:
            operand = other.value if kind is TorchArray else other
            apart = kind is not TorchArray or (value.is_contiguous() and operand.is_contiguous())
            try:  # torch finds out that operands share memory where their elements lie side by side
                if written is not None and apart and written(value, operand) is not NotImplemented:
                    return self
            except Exception:  # they do, or do not fit
                pass
            made = computed(value, operand)
        if made is None:
            found = plain(self, other)
            made = found.value if type(found) is TorchArray else None
        if type(made) is Tensor and made.dtype is value.dtype and made.shape == value.shape:
            value.copy_(made)
            return self
        return usual(self, other)

    return operator


def _take_operators() -> None:
    for dunder, name in UNARY.items():
        method = f"__{dunder}__"
        setattr(TorchArray, method, _unary(name, getattr(EagerArray, method)))
    for dunder, name in {**BINARY, **COMPARISONS}.items():
        method = f"__{dunder}__"
        setattr(TorchArray, method, _binary(name, False, getattr(EagerArray, method)))
    for dunder, name in BINARY.items():
        method, inplace = f"__r{dunder}__", f"__i{dunder}__"
        setattr(TorchArray, method, _binary(name, True, getattr(EagerArray, method)))
        setattr(TorchArray, inplace, _inplace(name, getattr(TorchArray, f"__{dunder}__"), getattr(EagerArray, inplace)))


_take_operators()

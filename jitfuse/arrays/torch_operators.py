"""Python's operators of arrays over torch tensors, also in place; importing this module adds them to the class.

Each tries its direct function first, and then the operator of every eager array.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from jitfuse.arrays import direct, torch_direct
from jitfuse.arrays.base import EagerArray
from jitfuse.arrays.torch_array import Tensor, TorchArray
from jitfuse.arrays.torch_dispatch import SMALL, direct_function_of, memory_of, quietly
from jitfuse.dtypes import WEAK_DTYPE
from jitfuse.ir.operators import ops
from jitfuse.tracing.abstract import BINARY, COMPARISONS, UNARY

Function = Callable[..., Any]
_increment_version: Final = torch._C._increment_version
_NO_OPTIONS: Final[dict[str, Any]] = {}


def _behind(name: str) -> tuple[Function | None, Function]:
    """Return the implementations of an operator over tensors (or None) and over ndarrays."""
    op = ops.get(name)
    assert op is not None
    return torch_direct.operator(name), direct.floor_divide if name == "floor_divide" else op.numpy


def _unary(name: str, usual: Function) -> Function:
    direct_function = direct_function_of(*_behind(name))
    assert direct_function is not None

    def operator(self: TorchArray) -> Any:
        try:
            return direct_function((self,), _NO_OPTIONS)
        except Exception:
            return usual(self)

    return operator


def _binary(name: str, reflected: bool, usual: Function) -> Function:
    """Return Python's operator: torch's function or NumPy's where one applies, else `usual`."""
    over_tensors, over_arrays = _behind(name)
    if over_tensors is None:
        return _binary_by_numpy(over_arrays, reflected, usual)
    direct_function = direct_function_of(over_tensors, over_arrays)
    assert direct_function is not None

    def operator(self: TorchArray, other: Any) -> Any:
        kind = type(other)
        if kind is TorchArray or kind in WEAK_DTYPE:
            try:
                found = direct_function((other, self) if reflected else (self, other), _NO_OPTIONS)
                if found is not NotImplemented:
                    return found
            except Exception:  # `usual` raises the typed error
                pass
        return usual(self, other)

    return operator


def _binary_by_numpy(over_arrays: Function, reflected: bool, usual: Function) -> Function:
    direct_function = direct_function_of(None, over_arrays)
    assert direct_function is not None

    def operator(self: TorchArray, other: Any) -> Any:
        kind = type(other)
        if kind is TorchArray or kind in WEAK_DTYPE:
            try:
                found = direct_function((other, self) if reflected else (self, other), _NO_OPTIONS)
                if found is not NotImplemented:
                    return found
            except Exception:  # `usual` raises the typed error
                pass
        return usual(self, other)

    return operator


def _inplace(name: str, plain: Function, usual: Function) -> Function:
    """Return Python's in-place operator; it writes a result of the array's own shape and dtype directly."""
    over_tensors, over_arrays = _behind(name)
    in_place = torch_direct.operator(name, in_place=True)
    write = _write_by_torch(in_place, over_tensors)
    if over_tensors is None:
        write = _write_by_numpy(over_arrays, write)

    def operator(self: TorchArray, other: Any) -> Any:
        value, kind = self.value, type(other)
        if type(value) is not Tensor or value.requires_grad:
            return usual(self, other)
        if kind is TorchArray or kind in WEAK_DTYPE:
            try:
                if write(self, other):
                    return self
            except Exception:  # the code below raises the typed error
                pass
        found = plain(self, other)
        made: Any = found.value if type(found) is TorchArray else None
        if type(made) is Tensor and made.dtype is value.dtype and made.shape == value.shape:
            value.copy_(made)
            return self
        return usual(self, other)

    return operator


def _write_by_torch(in_place: Function | None, over_tensors: Function | None) -> Callable[[TorchArray, Any], bool]:
    """Return a function that writes torch's result into an array, and returns whether it has."""
    def write(array: TorchArray, other: Any) -> bool:
        value, operand = array.value, other.value if type(other) is TorchArray else other
        # torch detects shared memory, and raises, if the operands' elements are interleaved
        apart = type(operand) is not Tensor or (value.is_contiguous() and operand.is_contiguous())
        if in_place is not None and apart:
            return in_place(value, operand) is not NotImplemented
        made = NotImplemented if over_tensors is None else over_tensors(value, operand)
        if made is NotImplemented or made.dtype is not value.dtype or made.shape != value.shape:
            return False
        value.copy_(made)
        return True

    return write


def _write_by_numpy(over_arrays: Function, large: Function) -> Function:
    """Return a function that writes NumPy's result into an array, informs autograd, and returns whether it has.

    `large` does this for arrays with more elements than `SMALL`.
    """
    def write(written: TorchArray, other: Any) -> bool:
        array = memory_of(written)
        if array.size > SMALL:
            return large(written, other)  # type: ignore[no-any-return]
        made = quietly(over_arrays, array, memory_of(other) if type(other) is TorchArray else other)
        if made is NotImplemented or made.dtype is not array.dtype or made.shape != array.shape:
            return False
        value = written.value
        # torch rejects writes to overlapping elements, and to inference tensors outside of inference mode
        if value.is_contiguous() and not value.is_inference():
            _increment_version((value,))
            array[...] = made
        else:
            value.copy_(torch.from_numpy(made))
        return True

    return write


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

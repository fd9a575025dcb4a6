"""Direct functions of arrays over torch tensors: conversion of arguments and results around an implementation.

A direct function takes the positional arguments as a tuple and the others as a dict
(`jitfuse.array_api.entry_points`). Owns the choice of functions that go through NumPy, and the conversion of NumPy's
results. Does not own the implementations.
"""
from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch

from jitfuse.arrays import direct, torch_direct
from jitfuse.arrays.direct import UndecidedError
from jitfuse.arrays.torch_array import TorchArray
from jitfuse.dtypes import WEAK_DTYPE
from jitfuse.tracing.numpy_like import linalg

Function = Callable[..., Any]
SMALL: Final = 1 << 14
"""Arrays with more elements do not go through NumPy, which is single-threaded."""
_quiet = contextvars.copy_context()
"""A context in which NumPy does not warn, like torch. If two threads enter it at once, one takes the slow path."""
_quiet.run(np.seterr, all="ignore")
quietly = _quiet.run
Tensor: Final = torch.Tensor
_over_memory_of: Final = torch.Tensor.numpy  # unbound: the look-up on a tensor takes a tenth of the call
_tensor_over: Final = torch.from_numpy
_new = object.__new__
_ndarray: Final = np.ndarray
_PASSED: Final = direct.PASSED - {np.ndarray}


def wrapped(value: Any) -> TorchArray:
    """Return a tensor as an array."""
    made: TorchArray = _new(TorchArray)
    made.value = value
    made.over = None
    return made


def memory_of(array: TorchArray) -> np.ndarray[Any, Any]:
    """Return the ndarray over an array's memory, the same one each time; raises as torch does where there is none.

    A tensor with gradients is converted again: a write may have added them, and NumPy would lose them.
    """
    found = array.over
    if found is None or array.value.requires_grad:
        found = array.over = _over_memory_of(array.value)
    return found


def _tensors(value: Any) -> Any:
    """Return an argument as torch takes it; raises UndecidedError for one that torch alone cannot handle."""
    kind = type(value)
    if kind is TorchArray:
        if type(value.value) is not Tensor:
            raise UndecidedError
        return value.value
    if kind in _PASSED:
        return value
    if kind is tuple or kind is list:
        made = _all_tensors(value)
        return made if kind is list else tuple(made)
    raise UndecidedError


def _all_tensors(values: Any) -> list[Any]:
    return [v.value if type(v) is TorchArray and type(v.value) is Tensor else _tensors(v) for v in values]


def _arrays(value: Any) -> Any:
    """Return an argument as NumPy takes it; raises for large arrays, other devices and gradients."""
    kind = type(value)
    if kind is TorchArray and type(value.value) is Tensor:
        array = memory_of(value)
        if array.size <= SMALL:
            return array
    elif kind in _PASSED:
        return value
    elif kind is tuple or kind is list:
        return kind([_arrays(v) for v in value])
    raise UndecidedError


def _of_array(found: np.ndarray[Any, Any]) -> TorchArray:
    flags = found.flags
    if not flags.writeable:
        return TorchArray(found)
    if not flags.c_contiguous and min(found.strides) < 0:
        found = found.copy()  # torch has no negative strides
    try:
        made: TorchArray = _new(TorchArray)
        made.value = _tensor_over(found)
        made.over = found
        return made
    except (TypeError, ValueError):  # a dtype that torch lacks: this raises; or one element with a negative stride
        return TorchArray(found)


_SEQUENCES: Final = (tuple, list)


def of_numpy(found: Any) -> Any:
    """Return NumPy's result as arrays of this class."""
    kind = type(found)
    if kind is _ndarray:
        return _of_array(found)
    if isinstance(found, _SEQUENCES):
        parts = [_of_array(part) if type(part) is _ndarray else of_numpy(part) for part in found]
        return _classes[kind]._make(parts) if hasattr(kind, "_fields") else kind(parts)
    if issubclass(kind, np.generic) or kind in WEAK_DTYPE:
        return _of_array(np.array(found))
    return found


class _Classes(dict[type, Any]):
    """NumPy's named tuples -> the namespace's classes."""

    def __missing__(self, kind: type) -> Any:
        found = self[kind] = getattr(linalg, kind.__name__, kind)
        return found


_classes: Final = _Classes()


def _prod(x: np.ndarray[Any, Any], axis: Any = None, *, keepdims: bool = False) -> Any:
    if axis is None and not keepdims and x.dtype.char in "fd":
        return _multiplied(x, None, None, np.empty((), x.dtype))  # avoids a scalar before the array
    return direct.prod(x, axis, keepdims=keepdims)


_multiplied: Final[Function] = np.multiply.reduce
_OWN: Final[dict[str, Function]] = {"prod": _prod}
_TORCHS: Final = frozenset({"mean", "std", "var"})
"""Functions that NumPy computes in other dtypes than torch."""
_REFUSED: Final[dict[str, Callable[[np.ndarray[Any, Any]], bool]]] = {
    "round": lambda x: x.dtype.kind == "b",
}
"""Function name -> test for arrays that NumPy accepts and programs reject."""


def _over_arrays(name: str, function: Function) -> Function | None:
    """Return an implementation over ndarrays with the same results as over tensors, or None."""
    found, refused = _OWN.get(name) or direct.over_arrays(name, function), _REFUSED.get(name)
    if found is None or name in _TORCHS:
        return None
    if refused is None:
        return found

    def checked(x: np.ndarray[Any, Any], *args: Any, **options: Any) -> Any:
        return NotImplemented if refused(x) else found(x, *args, **options)

    return checked


def direct_by_name(name: str, function: Function) -> Function | None:
    """Return the direct function of a namespace function: torch's, else NumPy's over the same memory, or None."""
    return direct_function_of(
        torch_direct.over_tensors(name, function), _over_arrays(name, function), name in direct.MAKING
    )


def direct_function_of(
    over_tensors: Function | None, over_arrays: Function | None, making: bool = False
) -> Function | None:
    """Wrap an implementation over tensors, else one over ndarrays, as a direct function over arrays of this class.

    With `making` the implementation returns new ndarrays: they may be written into, and have no negative stride.
    """
    making = making or isinstance(over_arrays, np.ufunc) or over_arrays is direct.floor_divide
    otherwise = None if over_arrays is None else _direct_numpy(over_arrays, making)
    return otherwise if over_tensors is None else _direct_torch(over_tensors, otherwise)


def _direct_torch(over_tensors: Function, otherwise: Function | None) -> Function:
    def direct_function(args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        first, count = args[0], len(args)
        try:
            if type(first) is TorchArray and type(first.value) is Tensor:
                first = first.value
            else:
                first = _tensors(first)
            if options:
                given = options
                for value in options.values():
                    if type(value) not in _PASSED:
                        given = {k: _tensors(v) for k, v in options.items()}
                        break
                found = over_tensors(first, *_all_tensors(args[1:]), **given) if count > 1 else (
                    over_tensors(first, **given))
            elif count == 1:
                found = over_tensors(first)
            elif count == 2:
                second = args[1]
                if type(second) is TorchArray and type(second.value) is Tensor:
                    found = over_tensors(first, second.value)
                else:
                    found = over_tensors(first, _tensors(second))
            elif count == 3:
                _, b, c = args
                b = b.value if type(b) is TorchArray and type(b.value) is Tensor else _tensors(b)
                c = c.value if type(c) is TorchArray and type(c.value) is Tensor else _tensors(c)
                found = over_tensors(first, b, c)
            else:
                found = over_tensors(first, *_all_tensors(args[1:]))
            if type(found) is Tensor:
                made: TorchArray = _new(TorchArray)
                made.value = found
                made.over = None
                return made
            if found is not NotImplemented:
                return _wrapped_parts(found)
        except Exception:  # NumPy may handle it, or the function itself raises
            pass
        return NotImplemented if otherwise is None else otherwise(args, options)

    return direct_function


def _wrapped_parts(found: Any) -> Any:
    kind, parts = type(found), []
    for part in found:
        made: TorchArray = _new(TorchArray)
        made.value = part
        made.over = None
        parts.append(made)
    if kind is tuple:
        return tuple(parts)
    return kind(*parts) if hasattr(kind, "_fields") else kind(parts)


def _direct_numpy(over_arrays: Function, making: bool) -> Function:
    def direct_function(args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        found: Any
        if options:
            found = _over_any_arrays(over_arrays, args, options)
        elif len(args) == 2:
            first, second = args
            if type(first) is type(second):
                a, b = memory_of(first), memory_of(second)
                if a.size > SMALL or b.size > SMALL:
                    return NotImplemented
                found = quietly(over_arrays, a, b)
            else:
                found = quietly(over_arrays, _arrays(first), _arrays(second))
        elif len(args) == 1:
            first = args[0]
            a = memory_of(first) if type(first) is TorchArray else _arrays(first)
            found = quietly(over_arrays, a) if type(a) is not _ndarray or a.size <= SMALL else NotImplemented
        else:
            found = _over_any_arrays(over_arrays, args, options)
        if making:
            if type(found) is _ndarray:
                made: TorchArray = _new(TorchArray)
                made.value = _tensor_over(found)
                made.over = found
                return made
            if isinstance(found, tuple):
                parts = []
                for part in found:
                    made = _new(TorchArray)
                    made.value = _tensor_over(part)
                    made.over = part
                    parts.append(made)
                return tuple.__new__(_classes[type(found)], parts)
        return found if found is NotImplemented else of_numpy(found)

    return direct_function


def _over_any_arrays(over_arrays: Function, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    if "out" in options:
        return NotImplemented
    for value in options.values():
        if type(value) not in _PASSED:
            options = {k: _arrays(v) for k, v in options.items()}
            break
    if len(args) == 1:
        return quietly(over_arrays, _arrays(args[0]), **options)
    return quietly(over_arrays, *[_arrays(v) for v in args], **options)

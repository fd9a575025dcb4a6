"""TorchArray: an eager array over a torch tensor. Importing this module imports torch.

Promotes by the op table, so that eager code and fused functions agree. A tensor on another device computes there;
what needs its elements on the host (items, NumPy's protocols, fused functions) copies them.
"""
from __future__ import annotations

import contextvars
from collections.abc import Callable
from types import NoneType
from typing import Any, Final

import numpy as np
import torch

from jitfuse.arrays import direct, torch_direct
from jitfuse.arrays.base import EagerArray
from jitfuse.arrays.direct import UndecidedError
from jitfuse.arrays.making import unwrap
from jitfuse.backends.interpreter.torch_tensor import TorchProgramTensor
from jitfuse.dtypes import WEAK_DTYPE
from jitfuse.errors import ArgumentError
from jitfuse.tracing import numpy_linalg
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.dtype_name import DTYPES, DTypeName
from jitfuse.tracing.foreign import host_array

Function = Callable[..., Any]
SMALL: Final = 1 << 14
"""Arrays of more elements do not go through NumPy, which computes in one thread."""
_new = object.__new__
_quiet = contextvars.copy_context()
"""Where NumPy does not warn, as torch does not. Two threads in it at once: one takes the long way."""
_quiet.run(np.seterr, all="ignore")
quietly = _quiet.run
Tensor: Final = torch.Tensor


class TorchArray(EagerArray, TorchProgramTensor):  # type: ignore[misc]  # EagerTensor takes no ufuncs
    """An array over a torch tensor."""

    __slots__ = ()

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The elements as an ndarray over the same memory."""
        if self.weak:
            return np.asarray(self.value)
        return host_array(self.value)

    @property
    def dtype(self) -> DTypeName:
        """The dtype's name, which user code may treat as np.dtype."""
        return DTYPES[TorchProgramTensor.dtype.fget(self)]  # type: ignore[attr-defined]

    @property
    def device(self) -> str:
        """torch's name of the device."""
        return "cpu" if self.weak else str(self.value.device)

    def _lift(self, value: Any) -> Any:
        if isinstance(value, EagerArray) and not isinstance(value, TorchArray):
            value = value.array
        if isinstance(value, AbstractTensor) and not isinstance(value, TorchProgramTensor):
            raise ArgumentError(f"an array of torch's meets a {type(value).__name__}; make both of one kind")
        return super()._lift(value)

    _operand = _lift

    @classmethod
    def way(cls, name: str, function: Function) -> Function | None:
        """Return the direct way of a function of the namespace: torch's, else NumPy's over the same memory."""
        over_tensors = torch_direct.over_tensors(name, function)
        return way_of(over_tensors, _over_arrays(name, function))

    @property
    def T(self) -> Any:  # noqa: N802
        """All axes reversed."""
        value = self.value
        return _wrapped(value.permute(tuple(range(value.ndim))[::-1])) if type(value) is Tensor else super().T

    @property
    def mT(self) -> Any:  # noqa: N802
        """The last two axes exchanged."""
        value = self.value
        return _wrapped(value.mT) if type(value) is Tensor and value.ndim > 1 else super().mT

    def _take(self, result: Any) -> None:
        made = result.value  # torch tells autograd, and refuses memory in which many elements are one
        self.value.copy_(made if isinstance(made, Tensor) else torch.as_tensor(result.array))

    def __getitem__(self, index: Any) -> Any:
        value = self.value
        if type(value) is Tensor:
            try:
                array = value.numpy()
            except (TypeError, RuntimeError):  # elsewhere, of a dtype that NumPy lacks, with gradients, conjugated
                return super().__getitem__(index)
            return of_numpy(array[_index(index)])
        return super().__getitem__(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        tensor = self.value
        if type(tensor) is Tensor and (type(value) is TorchArray or type(value) in WEAK_DTYPE):
            try:
                array = tensor.numpy()
                given = value.value.numpy() if type(value) is TorchArray else value
            except (AttributeError, TypeError, RuntimeError):  # elsewhere, or as above
                super().__setitem__(index, value)
                return
            array[_index(index)] = given
            return
        super().__setitem__(index, value)


_INDICES: Final = frozenset({int, slice, NoneType, type(...)})


def _index(index: Any) -> Any:
    """Return what NumPy takes in place of an index."""
    kind = type(index)
    if kind in _INDICES:
        return index
    if kind is TorchArray and index.value.__class__ is Tensor and index.value.device.type == "cpu":
        return index.value.numpy()
    return unwrap(index)


_PASSED: Final = direct.PASSED - {np.ndarray}


def _wrapped(value: Any) -> TorchArray:
    made: TorchArray = _new(TorchArray)
    made.value = value
    return made


def _tensors(value: Any) -> Any:
    """Return what torch takes in place of an argument; raises UndecidedError for what is not torch's alone."""
    kind = type(value)
    if kind is TorchArray:
        if type(value.value) is not Tensor:
            raise UndecidedError
        return value.value
    if kind in _PASSED:
        return value
    if kind is tuple or kind is list:
        return kind([_tensors(v) for v in value])
    raise UndecidedError


def _arrays(value: Any) -> Any:
    """Return what NumPy takes in place of it; raises where memory is not on the host, large, or has gradients."""
    kind = type(value)
    if kind is TorchArray and type(value.value) is Tensor:
        array = value.value.numpy()
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
        made.value = torch.from_numpy(found)
        return made
    except (TypeError, ValueError):  # a dtype that torch lacks, as the constructor says; one element backwards
        return TorchArray(found)


_SEQUENCES: Final = (tuple, list)


def of_numpy(found: Any) -> Any:
    """Return what NumPy has made as arrays of this class."""
    kind = type(found)
    if kind is np.ndarray:
        return _of_array(found)
    if issubclass(kind, np.generic) or kind in WEAK_DTYPE:
        return _of_array(np.array(found))
    if not isinstance(found, _SEQUENCES):
        return found
    parts = [_of_array(part) if type(part) is np.ndarray else of_numpy(part) for part in found]
    return getattr(numpy_linalg, kind.__name__, kind)(*parts) if hasattr(kind, "_fields") else kind(parts)


_TORCHS: Final = frozenset({"mean", "std", "var"})
"""What NumPy computes in other dtypes on the way."""
_REFUSED: Final[dict[str, Callable[[np.ndarray[Any, Any]], bool]]] = {
    "round": lambda x: x.dtype.kind == "b",
}
"""Arrays that NumPy takes and a program does not."""


def _over_arrays(name: str, function: Function) -> Function | None:
    """Return what carries out a function over ndarrays and means the same as over tensors, or None."""
    found, refused = direct.over_arrays(name, function), _REFUSED.get(name)
    if found is None or name in _TORCHS:
        return None
    if refused is None:
        return found

    def checked(x: np.ndarray[Any, Any], *args: Any, **options: Any) -> Any:
        return NotImplemented if refused(x) else found(x, *args, **options)

    return checked


def way_of(over_tensors: Function | None, over_arrays: Function | None) -> Function | None:
    """Return what carries out a function over tensors, or else over ndarrays, as one over arrays of this class."""
    otherwise = None if over_arrays is None else _way_of_numpy(over_arrays)
    return otherwise if over_tensors is None else _way_of_torch(over_tensors, otherwise)


def _way_of_torch(over_tensors: Function, otherwise: Function | None) -> Function:
    def way(args: tuple[Any, ...], options: dict[str, Any]) -> Any:
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
                found = over_tensors(first, *[_tensors(v) for v in args[1:]], **given) if count > 1 else (
                    over_tensors(first, **given))
            elif count == 1:
                found = over_tensors(first)
            elif count == 2:
                second = args[1]
                if type(second) is TorchArray and type(second.value) is Tensor:
                    found = over_tensors(first, second.value)
                else:
                    found = over_tensors(first, _tensors(second))
            else:
                found = over_tensors(first, *[_tensors(v) for v in args[1:]])
            if type(found) is Tensor:
                made: TorchArray = _new(TorchArray)
                made.value = found
                return made
            if found is not NotImplemented:
                return _wrapped_parts(found)
        except Exception:  # NumPy takes more, or the function itself says what is wrong
            pass
        return NotImplemented if otherwise is None else otherwise(args, options)

    return way


def _wrapped_parts(found: Any) -> Any:
    kind = type(found)
    parts = [_wrapped(v) for v in found]
    return kind(*parts) if hasattr(kind, "_fields") else kind(parts)


def _way_of_numpy(over_arrays: Function) -> Function:
    fresh = isinstance(over_arrays, np.ufunc) or over_arrays is direct.floor_divide  # results with their own memory

    def way(args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        first, count = args[0], len(args)
        if type(first) is TorchArray:
            a = first.value.numpy()
            if a.size > SMALL:
                return NotImplemented
        else:
            a = _arrays(first)
        if options:
            if "out" in options:
                return NotImplemented
            for value in options.values():
                if type(value) not in _PASSED:
                    options = {k: _arrays(v) for k, v in options.items()}
                    break
            if count == 1:
                found = quietly(over_arrays, a, **options)
            elif count == 2:
                found = quietly(over_arrays, a, _arrays(args[1]), **options)
            else:
                found = quietly(over_arrays, a, *[_arrays(v) for v in args[1:]], **options)
        elif count == 1:
            found = quietly(over_arrays, a)
        elif count == 2:
            second = args[1]
            if type(second) is TorchArray:
                b = second.value.numpy()
                found = NotImplemented if b.size > SMALL else quietly(over_arrays, a, b)
            else:
                found = quietly(over_arrays, a, _arrays(second))
        else:
            found = quietly(over_arrays, a, *[_arrays(v) for v in args[1:]])
        if fresh and type(found) is np.ndarray:
            made: TorchArray = _new(TorchArray)
            made.value = torch.from_numpy(found)
            return made
        return found if found is NotImplemented else of_numpy(found)

    return way


from jitfuse.arrays import torch_operators  # noqa: E402, F401  # which gives the class its operators

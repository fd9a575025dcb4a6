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
from jitfuse.backends.interpreter import torch_functions
from jitfuse.backends.interpreter.torch_tensor import TorchProgramTensor
from jitfuse.dtypes import WEAK_DTYPE
from jitfuse.errors import ArgumentError
from jitfuse.ir import ops
from jitfuse.tracing import numpy_linalg
from jitfuse.tracing.abstract import BINARY, COMPARISONS, UNARY, AbstractTensor
from jitfuse.tracing.dtype_name import DTYPES, DTypeName

Function = Callable[..., Any]
_SMALL: Final = 1 << 14
"""Arrays of more elements do not go through NumPy, which computes in one thread."""
_new = object.__new__
_quiet = contextvars.copy_context()
"""Where NumPy does not warn, as torch does not. Two threads in it at once: one takes the long way."""
_quiet.run(np.seterr, all="ignore")


class TorchArray(EagerArray, TorchProgramTensor):  # type: ignore[misc]  # EagerTensor takes no ufuncs
    """An array over a torch tensor."""

    __slots__ = ()

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The elements as an ndarray over the same memory."""
        if self.weak:
            return np.asarray(self.value)
        return torch_functions.to_numpy(self.value)  # type: ignore[no-any-return]

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
        over_arrays = _over_arrays(name, function)
        return None if over_tensors is over_arrays is None else _way(over_tensors, over_arrays)

    @property
    def T(self) -> Any:  # noqa: N802
        """All axes reversed."""
        value = self.value
        return _wrapped(value.permute(tuple(range(value.ndim))[::-1])) if type(value) is torch.Tensor else super().T

    @property
    def mT(self) -> Any:  # noqa: N802
        """The last two axes exchanged."""
        value = self.value
        return _wrapped(value.mT) if type(value) is torch.Tensor and value.ndim > 1 else super().mT

    def __getitem__(self, index: Any) -> Any:
        value = self.value
        if type(value) is torch.Tensor and value.is_cpu and value.dtype is not torch.bfloat16:
            return _of_numpy(value.numpy(force=True)[index if type(index) in _INDICES else unwrap(index)])
        return super().__getitem__(index)


_INDICES: Final = frozenset({int, slice, NoneType, type(...)})
_PASSED: Final = direct.PASSED - {np.ndarray}


def _wrapped(value: Any) -> TorchArray:
    made: TorchArray = _new(TorchArray)
    made.value = value
    return made


def _tensors(value: Any) -> Any:
    """Return what torch takes in place of an argument; raises UndecidedError for what is not torch's alone."""
    kind = type(value)
    if kind is TorchArray:
        if type(value.value) is not torch.Tensor:
            raise UndecidedError
        return value.value
    if kind in _PASSED:
        return value
    if kind is tuple or kind is list:
        return kind([_tensors(v) for v in value])
    raise UndecidedError


def _arrays(value: Any) -> Any:
    """Return what NumPy takes in place of it; raises where a tensor's memory is not on the host, or has gradients."""
    kind = type(value)
    if kind is torch.Tensor:
        array = value.numpy()
        if array.size > _SMALL:
            raise UndecidedError
        return array
    return kind([_arrays(v) for v in value]) if kind is tuple or kind is list else value


def _of_torch(found: Any) -> Any:
    if type(found) is torch.Tensor:
        return _wrapped(found)
    return type(found)([_wrapped(v) for v in found])


def _of_numpy(found: Any) -> Any:
    kind = type(found)
    if kind is np.ndarray:
        if not found.flags.writeable:
            return TorchArray(found)
        if min(found.strides, default=0) < 0:
            found = found.copy()  # torch has no negative strides
        try:
            return _wrapped(torch.from_numpy(found))
        except TypeError:  # a dtype that torch lacks, as the constructor says
            return TorchArray(found)
    if isinstance(found, np.generic) or kind in WEAK_DTYPE:
        return _of_numpy(np.asarray(found))
    if isinstance(found, tuple | list):
        parts = [_of_numpy(part) for part in found]
        return getattr(numpy_linalg, kind.__name__, kind)(*parts) if hasattr(kind, "_fields") else kind(parts)
    return found


_TORCHS: Final = frozenset({"mean", "std", "var"})
"""What NumPy computes in other dtypes on the way."""
_REFUSED: Final[dict[str, Callable[[np.ndarray[Any, Any]], bool]]] = {
    "round": lambda x: x.dtype.kind == "b", "linalg.matrix_rank": lambda x: x.ndim < 2,
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


def _way(over_tensors: Function | None, over_arrays: Function | None) -> Function:
    """Return what carries out a function over tensors, or else over ndarrays, as one over arrays of this class."""
    def way(*args: Any, **options: Any) -> Any:
        if options:
            if "out" in options:
                return NotImplemented
            options = {k: v if type(v) in _PASSED else _tensors(v) for k, v in options.items()}
        taken = [v if type(v) in _PASSED else _tensors(v) for v in args]
        if over_tensors is not None:
            try:
                found = over_tensors(*taken, **options)
                if found is not NotImplemented:
                    return _of_torch(found)
            except Exception:  # NumPy takes more, or the function itself says what is wrong
                pass
        if over_arrays is None:
            return NotImplemented
        if options:
            options = {k: _arrays(v) for k, v in options.items()}
        found = _quiet.run(over_arrays, *[_arrays(v) for v in taken], **options)
        return found if found is NotImplemented else _of_numpy(found)

    return way


def _method(name: str, reflected: bool, usual: Function) -> Function:
    """Return Python's operator: torch's function or NumPy's where one decides, else the usual way."""
    op = ops.get(name)
    assert op is not None
    way = _way(torch_direct.operator(name), direct.floor_divide if name == "floor_divide" else op.numpy)

    def unary(self: TorchArray) -> Any:
        try:
            return way(self)
        except Exception:
            return usual(self)

    def binary(self: TorchArray, other: Any) -> Any:
        if type(other) is TorchArray or type(other) in WEAK_DTYPE:
            try:
                found = way(other, self) if reflected else way(self, other)
                if found is not NotImplemented:
                    return found
            except Exception:  # the usual way says what is wrong
                pass
        return usual(self, other)

    return unary if op.arity == 1 else binary


def _inplace(operator: Function, usual: Function) -> Function:
    def inplace(self: TorchArray, other: Any) -> Any:
        value = self.value
        if type(value) is torch.Tensor and not value.requires_grad:
            found = operator(self, other)
            made: Any = found.value if type(found) is TorchArray else None
            if type(made) is torch.Tensor and made.dtype is value.dtype and made.shape == value.shape:
                value.copy_(made)
                return self
        return usual(self, other)

    return inplace


def _take_operators() -> None:
    for dunder, name in {**BINARY, **COMPARISONS, **UNARY}.items():
        method = f"__{dunder}__"
        setattr(TorchArray, method, _method(name, False, getattr(EagerArray, method)))
    for dunder, name in BINARY.items():
        method, inplace = f"__r{dunder}__", f"__i{dunder}__"
        setattr(TorchArray, method, _method(name, True, getattr(EagerArray, method)))
        setattr(TorchArray, inplace, _inplace(getattr(TorchArray, f"__{dunder}__"), getattr(EagerArray, inplace)))


_take_operators()

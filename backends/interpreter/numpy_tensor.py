"""NumPyTensor: AbstractTensor's methods computed at once by NumPy, through the op table's reference."""
from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np

from jitfuse.backends.interpreter.eager import EagerTensor
from jitfuse.dtypes import SUPPORTED, WEAK_DTYPE, weak_dtype
from jitfuse.errors import ArgumentError, DTypeError
from jitfuse.ir.operators import ops


@lru_cache(maxsize=64)
def _name(dtype: np.dtype[Any]) -> str | None:
    """Return the name of a supported dtype; building it takes NumPy some microseconds."""
    return dtype.name if dtype.name in SUPPORTED and dtype.isnative else None


class NumPyTensor(EagerTensor):
    """An ndarray, a NumPy scalar or a Python scalar (weak), in one of the supported dtypes."""

    __slots__ = ()

    def __init__(self, value: Any) -> None:
        """Hold the value without a copy; raises DTypeError or ArgumentError for unsupported values."""
        if type(value) not in WEAK_DTYPE:
            if not isinstance(value, np.ndarray | np.generic):
                raise ArgumentError(f"{type(value).__name__} is no array, NumPy scalar, float, int or bool")
            if _name(value.dtype) is None:
                raise DTypeError(f"dtype {value.dtype} is not supported; use one of {', '.join(SUPPORTED)}")
        self.value = value

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents as plain ints."""
        return () if self.weak else self.value.shape

    @property
    def dtype(self) -> str:
        """The dtype's name."""
        return weak_dtype(self.value) if self.weak else _name(self.value.dtype) or ""

    def storage(self) -> object:
        """Return the id of the array that owns the memory; None for a scalar."""
        if not isinstance(self.value, np.ndarray):
            return None
        owner = self.value
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        return id(owner)

    def fresh(self, taken: set[object]) -> Any:
        """Return the value, copied if read-only or its memory is in `taken`; otherwise add its memory to `taken`."""
        if not isinstance(self.value, np.ndarray):
            return self.value
        if self.storage() in taken or not self.value.flags.writeable:
            return np.array(self.value, order="C")
        taken.add(self.storage())
        return self.value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.value, dtype, copy=copy)

    def reshape(self, *shape: Any, **attrs: Any) -> Any:
        """Return the elements in row-major order under another shape; one extent may be -1."""
        if type(self.value) is np.ndarray and not attrs:
            with suppress(TypeError, ValueError):  # the general path raises a typed error
                return type(self)(self.value.reshape(*shape))
        return super().reshape(*shape, **attrs)

    def _lift(self, value: Any) -> NumPyTensor:
        if isinstance(value, type(self)):
            return value
        return type(self)(value.value if isinstance(value, EagerTensor) else value)

    def _apply(self, op: ops.Op, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        try:
            value = op.numpy(*[i.value for i in inputs], **attrs)
            if type(value) is tuple:
                return tuple([type(self)(v[()] if type(v) is np.ndarray and not v.shape else v) for v in value])
            if type(value) is np.ndarray and not value.shape:
                value = value[()]
            result = type(self)(value)
        except (TypeError, ValueError, OverflowError, IndexError) as error:
            typed = self._failure(op, inputs, attrs)
            if typed is None:
                raise
            raise typed from error
        if not inputs or type(result.value) is np.ndarray:
            return result
        of_scalars = all(i.weak for i in inputs) or (op.kind == ops.LIBRARY and op.loop is None)
        return self._of_scalars(op, inputs, attrs, result) if of_scalars else result

    def _of_scalars(
        self, op: ops.Op, inputs: tuple[Any, ...], attrs: dict[str, Any], result: NumPyTensor
    ) -> NumPyTensor:
        """Return a weak scalar where the op table says so; NumPy itself makes a strong one of Python scalars."""
        meta = op.result_meta([i.meta for i in inputs], {k: v for k, v in attrs.items() if k in op.attrs})
        return type(self)(result.value.item()) if meta.weak and not result.weak else result

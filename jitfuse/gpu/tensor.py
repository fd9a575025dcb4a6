"""GpuTensor: an array in GPU memory, with AbstractTensor's methods and NumPy's functions.

Every operator is a fused function of its own, so that all work reaches the device in one way. Views (reshape,
transpose, basic slices) share memory; writes are in `jitfuse.gpu.writes`. Owns residency: a buffer returns to its pool
with the last tensor that holds it. Reads of elements (`np.asarray`, `float`, `item`) copy them to the host, which is
counted and waits for the GPU.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from jitfuse.backends.interpreter.eager import EagerTensor
from jitfuse.backends.wgsl.runtime.buffers import Block, pool_of
from jitfuse.backends.wgsl.runtime.device import Device, default_device
from jitfuse.dtypes import SUPPORTED, numpy_dtype
from jitfuse.errors import ArgumentError, DTypeError, UnsupportedError
from jitfuse.fuse import fuse
from jitfuse.gpu.writes import Writable
from jitfuse.ir.operators import ops
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.record.device_array import DeviceArray
from jitfuse.tracing.record.recorder import active

_STATIC_SECOND: Final = ("power", "bitwise_left_shift", "bitwise_right_shift")


class GpuStorage:
    """The memory of a tensor and its views. A write replaces its buffer by a new one."""

    __slots__ = ("_host", "block", "device", "nbytes")

    def __init__(self, device: Device, block: Block, nbytes: int) -> None:
        self.device = device
        self.block = block
        self.nbytes = nbytes
        self._host: np.ndarray[Any, Any] | None = None

    @property
    def host(self) -> np.ndarray[Any, Any]:
        """Host memory of the same size that is never accessed, for placeholders."""
        if self._host is None:
            self._host = np.empty(self.nbytes, np.uint8)
        return self._host


class GpuTensor(Writable, EagerTensor, DeviceArray):
    """An array on the GPU; made by `jf.asarray(x, device="gpu")` and by functions that run there."""

    __slots__ = ("_placeholder", "storage_")

    def __init__(self, value: Any, *, storage: GpuStorage | None = None) -> None:
        """Upload an array, or take a placeholder of elements that lie in `storage`."""
        if storage is None:
            array = np.ascontiguousarray(_checked(value)).reshape(np.shape(value))
            device = default_device()
            storage = GpuStorage(device, pool_of(device).upload(array), array.nbytes)
            value = np.ndarray(array.shape, array.dtype, storage.host)
        self.storage_ = storage
        self._placeholder = value

    # ------------------------------------------------------------------ attributes
    @property
    def placeholder(self) -> np.ndarray[Any, Any]:
        """An array of this shape, dtype and layout over memory that is never accessed."""
        return self._placeholder  # type: ignore[no-any-return]

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents as Python ints."""
        return self._placeholder.shape  # type: ignore[no-any-return]

    @property
    def dtype(self) -> str:
        """The dtype's name."""
        return str(self._placeholder.dtype.name)

    @property
    def weak(self) -> bool:
        """False: Python scalars stay on the host."""
        return False

    @property
    def device(self) -> str:
        """"gpu", the name of the device."""
        return "gpu"

    @property
    def nbytes(self) -> int:
        """The size of the elements in bytes."""
        return int(self._placeholder.nbytes)

    @property
    def offset(self) -> int:
        """The distance in bytes from the start of the buffer to the first element."""
        start = self.storage_.host.__array_interface__["data"][0]
        return int(self._placeholder.__array_interface__["data"][0] - start)

    def __repr__(self) -> str:
        return f"GpuTensor(shape={self.shape}, dtype={self.dtype}, device={self.storage_.device.name!r})"

    def __len__(self) -> int:
        if not self.shape:
            raise ArgumentError("len() of a tensor of rank 0")
        return self.shape[0]

    def __iter__(self) -> Iterator[GpuTensor]:
        return (self[k] for k in range(len(self)))

    # ------------------------------------------------------------------ reads of values
    @property
    def value(self) -> np.ndarray[Any, Any]:
        """The elements, copied into a new NumPy array."""
        storage, like = self.storage_, self._placeholder
        if not like.size:
            return np.empty(like.shape, like.dtype)
        data = pool_of(storage.device).download(storage.block, storage.nbytes)
        return np.ndarray(like.shape, like.dtype, data, self.offset, like.strides)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if copy is False:
            raise ValueError("the elements are on the GPU: they cannot be seen without a copy")
        found = self.value
        return found if dtype is None else found.astype(dtype)

    def item(self) -> Any:
        """Return the only element as a Python scalar."""
        return self.value.item()

    def tolist(self) -> Any:
        """Return the elements as nested lists."""
        return self.value.tolist()

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec else repr(self)

    def __index__(self) -> int:
        return int(self.item().__index__())

    def __reduce__(self) -> Any:
        return GpuTensor, (np.asarray(self),)

    # ------------------------------------------------------------------ computing
    def _lift(self, value: Any) -> Any:
        if isinstance(value, bool | int | float | np.generic | np.ndarray):
            return _FirstOperand(np.bool_(value) if isinstance(value, bool) else value)
        raise ArgumentError(f"{type(value).__name__} is no array or number")

    def call(self, op_name: str, *others: Any, **attrs: Any) -> Any:
        """Carry out an operator on the GPU; views share this tensor's memory."""
        op = ops.get(op_name)
        if op is None:
            raise ArgumentError(f"there is no operator {op_name!r}")
        if op.kind == ops.VIEW and not others:
            view = op.numpy(self._placeholder, **op.check_attrs(attrs))
            if view.size and np.may_share_memory(view, self.storage_.host):
                return GpuTensor(view, storage=self.storage_)
        operands = [o.value if isinstance(o, _FirstOperand) else o for o in others]
        if op_name in _STATIC_SECOND and type(operands[0]) in (int, float):
            return _operator_with_static(op_name)(self, *operands)
        return _operator(op_name, tuple(sorted(attrs.items())))(self, *operands)

    def __getitem__(self, index: Any) -> GpuTensor:
        view = self._placeholder[index]
        parts = index if isinstance(index, tuple) else (index,)
        if not all(p is None or p is ... or isinstance(p, int | slice | np.integer) for p in parts):
            raise UnsupportedError("only basic slices of a GPU tensor are views; index inside a fused function instead")
        if not isinstance(view, np.ndarray):
            view = self._placeholder[(*parts, ...)]
        return GpuTensor(view, storage=self.storage_)

    def __array_ufunc__(  # type: ignore[override]
        self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any
    ) -> Any:
        return _numpy_function(ufunc if method == "__call__" else getattr(ufunc, method))(*inputs, **kwargs)

    def __array_function__(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return _numpy_function(func)(*args, **kwargs)


class _FirstOperand:
    """A number or an array on the host as the first operand of an operator."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def call(self, op_name: str, *others: Any) -> Any:
        return _operator(op_name, ())(self.value, *others)


def _checked(value: Any) -> np.ndarray[Any, Any]:
    array = np.asarray(value)
    if array.dtype.name not in SUPPORTED:
        raise DTypeError(f"dtype {array.dtype} is not supported; use one of {', '.join(SUPPORTED)}")
    return array.astype(numpy_dtype(array.dtype.name), copy=False)


def _fused(fn: Callable[..., Any], name: str, **options: Any) -> Callable[..., Any]:
    made: Callable[..., Any] = fuse(fn, device="gpu", name=name, **options)
    return made


def _require_trace(name: str) -> None:
    """Raise if a fused function of one operator fell back to plain Python, where it would call itself forever."""
    if active() is None:
        raise UnsupportedError(
            f"{name} of GPU tensors is a fused function, and this call cannot be one: JITFUSE_DISABLE is set, or the "
            "array that is written shares memory with another. Copy one of them."
        )


@functools.lru_cache(maxsize=512)
def _operator(name: str, attrs: tuple[tuple[str, Any], ...]) -> Callable[..., Any]:
    """Return the fused function of one operator with its attributes."""
    named = dict(attrs)

    def operate(first: Any, *others: Any) -> Any:
        _require_trace(name)
        return AbstractTensor.call(first, name, *others, **named)  # by the class: numbers lack the method

    return _fused(operate, name)


@functools.lru_cache(maxsize=16)
def _operator_with_static(name: str) -> Callable[..., Any]:
    """Return the fused function of an operator that specialises on a number, such as an exponent or a shift count."""
    def operate(first: Any, second: Any) -> Any:
        _require_trace(name)
        return AbstractTensor.call(first, name, second)

    return _fused(operate, name, static_argnames=("second",))


@functools.lru_cache(maxsize=512)
def _numpy_function(function: Any) -> Callable[..., Any]:
    """Return the fused function of a NumPy function or ufunc."""
    def operate(*args: Any, **kwargs: Any) -> Any:
        _require_trace(f"np.{function.__name__}")
        return function(*args, **kwargs)

    return _fused(operate, f"np.{function.__name__}")


def asarray(x: Any, device: str | None = None) -> Any:
    """Return an array on a device: "gpu" gives a `GpuTensor`, "cpu" a NumPy array, None keeps a GPU tensor.

    Raises ArgumentError for other devices, DTypeError for unsupported dtypes, and DeviceError if there is no GPU or
    its memory is full.
    """
    if device is None:
        return x if isinstance(x, GpuTensor) else np.asarray(x)
    if device == "cpu":
        return np.asarray(x)
    if device != "gpu":
        raise ArgumentError(f"device={device!r}: there are 'cpu' and 'gpu'")
    return x if isinstance(x, GpuTensor) else GpuTensor(x)

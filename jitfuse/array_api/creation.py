"""Creation functions of the namespace: in a trace they make traced arrays, which accept traced values in item
assignment; outside they make eager arrays; where a fused function falls back to plain Python they make NumPy arrays.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from jitfuse.array_api.dispatch import over_tensors, require_device
from jitfuse.base.later import Later
from jitfuse.dtypes import numpy_dtype
from jitfuse.errors import ArgumentError
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.numpy_like import creation, shapes, substitutes
from jitfuse.tracing.record.device_array import DeviceArray, HostArray
from jitfuse.tracing.record.dtype_name import dtype_name
from jitfuse.tracing.record.mode import runs_plain
from jitfuse.tracing.record.recorder import active

numpy_array = Later("jitfuse.arrays.numpy_array")

Shape = int | Sequence[int]
_NUMPYS: Final = frozenset({int, float, bool, complex, list, tuple, np.ndarray})
"""Types that NumPy converts to arrays by itself; eager arrays in sequences have `__array__`."""


def _numpy(dtype: Any) -> Any:
    return None if dtype is None else numpy_dtype(dtype_name(dtype))


def _placed(array: Any, device: str | None) -> Any:
    """Return an array of NumPy's on a device: as an eager array, or itself in plain Python."""
    if device is not None and device != "cpu":
        from jitfuse.gpu.tensor import asarray as on_device

        return on_device(array, device)
    return array if runs_plain() else numpy_array.NumPyArray.given(array)


def _create(plain: Callable[..., Any], args: tuple[Any, ...], dtype: Any, device: str | None, **options: Any) -> Any:
    if active() is None:
        return _placed(plain(*args, dtype=_numpy(dtype), **options), device)
    require_device(plain.__name__, device)
    traced = substitutes.substitute(plain) or plain  # for a fused jf.zeros itself
    return traced(*args, dtype=dtype, **options)


def zeros(shape: Shape, dtype: Any = None, *, device: str | None = None) -> Any:
    """Return zeros; the default dtype is float64."""
    return _create(np.zeros, (shape,), dtype, device)


def ones(shape: Shape, dtype: Any = None, *, device: str | None = None) -> Any:
    """Return ones; the default dtype is float64."""
    return _create(np.ones, (shape,), dtype, device)


def empty(shape: Shape, dtype: Any = None, *, device: str | None = None) -> Any:
    """Return an array to be written; inside a trace it holds zeros."""
    return _create(np.empty, (shape,), dtype, device)


def full(shape: Shape, fill_value: Any, dtype: Any = None, *, device: str | None = None) -> Any:
    """Return an array filled with one value; the default dtype is the value's own."""
    value = fill_value.array if active() is None and isinstance(fill_value, HostArray) else fill_value
    return _create(np.full, (shape, value), dtype, device)


def arange(start: Any, /, stop: Any = None, step: Any = 1, dtype: Any = None, *, device: str | None = None) -> Any:
    """Return start, start + step, ... below stop; with one bound, from 0 up to it."""
    return _create(np.arange, (start, stop, step), dtype, device)


def linspace(start: Any, stop: Any, /, num: int = 50, *, dtype: Any = None, device: str | None = None,
             endpoint: bool = True) -> Any:
    """Return num evenly spaced numbers from start to stop."""
    return _create(np.linspace, (start, stop, num), dtype, device, endpoint=endpoint)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: str | None = None) -> Any:
    """Return ones on the k-th diagonal and zeros elsewhere."""
    if active() is None:
        return _placed(np.eye(n_rows, n_cols, k, dtype=_numpy(dtype) or np.float64), device)
    require_device("eye", device)
    return creation.eye(n_rows, n_cols, k, float if dtype is None else dtype)


def _like(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def like(x: Any, /, dtype: Any = None, *, device: str | None = None) -> Any:
        made = function(x, dtype=dtype)
        return made if device in (None, made.device) else made.to_device(device)

    like.__name__ = like.__qualname__ = name
    like.__doc__ = f"Return what np.{name} returns: the shape of x, and its dtype unless others are given."
    return over_tensors(like)


zeros_like = _like("zeros_like", shapes.zeros_like)
ones_like = _like("ones_like", shapes.ones_like)
empty_like = _like("empty_like", shapes.zeros_like)


@over_tensors
def full_like(x: Any, /, fill_value: Any, dtype: Any = None, *, device: str | None = None) -> Any:
    """Return an array filled with one value, in the shape of x; the default dtype is that of x."""
    made = shapes.full_like(x, fill_value, dtype=dtype)
    return made if device in (None, made.device) else made.to_device(device)


def asarray(obj: Any, /, dtype: Any = None, *, device: str | None = None, copy: bool | None = None) -> Any:
    """Return an array of numbers or nested sequences, or one that shares memory with a NumPy array or torch tensor.

    device="gpu" gives an array on the GPU; see `jitfuse.gpu.asarray`. copy=False raises ValueError if it must copy.
    """
    if type(obj) in _NUMPYS and device is None and active() is None:
        return _placed(np.asarray(obj, _numpy(dtype), copy=copy), None)
    if active() is not None:
        require_device("asarray", device)
        return creation.asarray(obj, dtype, copy=copy)
    if isinstance(obj, DeviceArray) or device not in (None, "cpu"):
        return _on_device(obj, dtype, device, copy)
    if runs_plain() and not isinstance(obj, AbstractTensor):
        return np.asarray(obj, _numpy(dtype), copy=copy)
    from jitfuse.arrays.wrapping import asarray as eager

    return eager(obj, None if dtype is None else dtype_name(dtype), copy)


def _on_device(obj: Any, dtype: Any, device: str | None, copy: bool | None) -> Any:
    """Return an array on the GPU, or a GPU array as an eager array on the host."""
    from jitfuse.gpu.tensor import asarray as move

    if not isinstance(obj, DeviceArray):
        return move(np.asarray(obj, _numpy(dtype)), device)
    placed = move(obj, device)
    if not isinstance(placed, DeviceArray):
        return asarray(placed, dtype)
    if dtype is not None:
        return placed.astype(dtype, copy=False)  # type: ignore[attr-defined]
    return placed


def from_dlpack(x: Any, /, *, device: str | None = None, copy: bool | None = None) -> Any:
    """Return an array over the memory of anything with `__dlpack__`; raises ArgumentError for other devices."""
    if isinstance(x, AbstractTensor):
        if copy:
            return x.as_copy()  # type: ignore[attr-defined]
        return x if device in (None, x.device) else x.to_device(device)  # type: ignore[attr-defined]
    if device not in (None, "cpu"):
        raise ArgumentError(f"from_dlpack(device={device!r}): only memory of the host is shared; use jf.asarray")
    from jitfuse.arrays.wrapping import array_class

    cls = array_class(x)
    if cls is not None and not isinstance(x, np.ndarray):
        return asarray(x, copy=copy)
    return _placed(np.from_dlpack(x, copy=copy), None)

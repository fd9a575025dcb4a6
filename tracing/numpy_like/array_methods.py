"""The methods and attributes of np.ndarray on traced arrays, with NumPy's parameters.

Owns the methods that AbstractTensor lacks or spells differently (dtype=, out=, ddof=, order=), each a thin layer over
operators. Does not own the code that NumPy functions and methods share (`jitfuse.tracing.tensor.function_table`).
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitfuse.base.later import Later
from jitfuse.dtypes import itemsize, kind
from jitfuse.errors import ArgumentError
from jitfuse.ir.rules import shape_rules
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.record.dtype_name import dtype_name
from jitfuse.tracing.tensor import function_table as functions

gathering = Later("jitfuse.tracing.tensor.gathering")
arrangements = Later("jitfuse.tracing.numpy_like.arrangements")
complex_numbers = Later("jitfuse.tracing.numpy_like.complex_numbers")
elementwise = Later("jitfuse.tracing.numpy_like.elementwise")
sorting = Later("jitfuse.tracing.numpy_like.sorting")
moments = Later("jitfuse.tracing.numpy_like.moments")
data_dependent = Later("jitfuse.tracing.numpy_like.data_dependent")
products = Later("jitfuse.tracing.numpy_like.products")
reductions = Later("jitfuse.tracing.numpy_like.reductions")
scans = Later("jitfuse.tracing.numpy_like.scans")


def _extents(shape: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a shape given as one sequence or as extents."""
    first = shape[0]
    return tuple(first) if len(shape) == 1 and isinstance(first, list | tuple) else shape


class ArrayMethods(AbstractTensor):
    """np.ndarray's methods over the operators of AbstractTensor."""

    __slots__ = ()

    @property
    def nbytes(self) -> int:
        """Bytes that the elements take."""
        return self.size * self.itemsize

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return itemsize(str(self.dtype))

    @property
    def device(self) -> str:
        """Where the elements live."""
        return "cpu"

    def to_device(self, device: str, /, *, stream: Any = None) -> Any:
        """Return the array on a device, itself if it is there; raises ArgumentError for streams."""
        if stream is not None:
            raise ArgumentError("to_device(stream=): there are no streams here")
        return self if device == self.device else self.__array_namespace__().asarray(self, device=device)

    def _part(self, name: str) -> Any:
        """Return the real or imaginary part."""
        return self.call(name)

    @property
    def real(self) -> Any:
        """The real part; a real array itself."""
        return self._part("real") if kind(str(self.dtype)) == "complex" else self

    @property
    def imag(self) -> Any:
        """The imaginary part."""
        return self._part("imag")

    @property
    def mT(self) -> Any:  # noqa: N802
        """The last two axes exchanged."""
        return self.swapaxes(-1, -2)

    def conj(self) -> Any:
        """Return the complex conjugate; a real array itself, except bfloat16, which NumPy does not know as real."""
        new = kind(str(self.dtype)) == "complex" or str(self.dtype) == "bfloat16"
        return self.call("conj") if new else self

    conjugate = conj

    def as_copy(self, scalar: bool = False) -> Any:
        """Return the same value in memory of its own."""
        raise NotImplementedError

    def copy(self, order: str = "C") -> Any:
        """Return a copy in memory of its own."""
        return self.as_copy()

    def laid_out_by(self, rule: Callable[..., Any], *operands: Any) -> Any:
        """Set the layout of a fresh array by a rule; does nothing for classes with C order alone."""
        return self

    def ordered(self, name: str, order: Any, like: Any = None) -> Any:
        """Set the layout of a fresh array by `order`; does nothing for classes with C order alone."""
        return self

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()

    def flatten(self, order: str = "C") -> Any:
        """Return a copy of all elements as one axis."""
        return self.ravel(order).as_copy()

    def ravel(self, order: str = "C") -> Any:
        """Return all elements as one axis: a view if memory has them in this order, else a copy."""
        if order == "F" and self.ndim > 1:
            return self.T.ravel()
        flat = self.reshape(-1 if self.size else 0, order=order)
        return flat if self.is_contiguous else flat.as_copy()

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements are contiguous in C order."""
        raise NotImplementedError

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None, **attrs: Any) -> Any:
        """Return the elements with another shape: a view where the memory allows it."""
        if order == "A":
            order = "F" if not self.is_contiguous and self.T.is_contiguous else "C"
        if order == "F":  # the first axis is the fastest: the reversed axes in row-major order
            given = _extents(shape or (attrs.pop("shape"),))
            return self.T.reshape(given[::-1], copy=copy).T
        functions.require_c_order("reshape", order)
        result = AbstractTensor.reshape(self, *shape, **attrs)
        return result.as_copy() if copy else result

    def astype(self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True,
               copy: bool = True) -> Any:
        """Return the elements cast to a dtype; the array itself if `copy` is false and nothing changes."""
        name = dtype_name(dtype, "astype")
        functions.require_cast("astype", str(self.dtype), name, casting)
        if name == self.dtype and not self.weak:
            return self.copy(order) if copy else self
        functions.warn_of_lost_part(str(self.dtype), name)
        return self.call("astype", dtype=name).ordered("astype", order, self)

    def clip(self, min: Any = None, max: Any = None, out: Any = None, **kwargs: Any) -> Any:
        """Limit the values to [min, max]; either may be None."""
        return elementwise.clip(self, kwargs.pop("low", min), kwargs.pop("high", max), out=out, **kwargs)

    def round(self, decimals: int = 0, out: Any = None) -> Any:
        """Round to a number of decimals, halves to even."""
        return elementwise.round_(self, decimals, out)

    def swapaxes(self, axis1: int, axis2: int) -> Any:
        """Exchange two axes."""
        axes = list(range(self.ndim))
        a, b = (shape_rules.normalize_axis("swapaxes", k, self.ndim) for k in (axis1, axis2))
        axes[a], axes[b] = axes[b], axes[a]
        return self.call("transpose", axes=tuple(axes))

    def dot(self, other: Any, out: Any = None) -> Any:
        """Return np.dot."""
        return functions.deliver("dot", products.dot(self, other), out)

    def sort(self, axis: int = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> None:
        """Sort in place."""
        self[...] = sorting.sort(self, axis, kind, order, stable=stable)

    def argsort(self, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
        """Return the indices that would sort."""
        return sorting.argsort(self, axis, kind, order, stable=stable)

    def partition(self, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None) -> None:
        """Put the elements at `kth` where sorting would, in place."""
        self[...] = sorting.partition(self, kth, axis, kind, order)

    def argpartition(self, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Any:
        """Return the indices of a partition."""
        return sorting.argpartition(self, kth, axis, kind, order)

    def searchsorted(self, v: Any, side: str = "left", sorter: Any = None) -> Any:
        """Return where values would be inserted into this sorted array."""
        return sorting.searchsorted(self, v, side, sorter)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        """Return the diagonal of two axes as the last axis; a read-only view."""
        return arrangements.diagonal(self, offset, axis1, axis2)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
        """Return the sum along the diagonal."""
        return arrangements.trace(self, offset, axis1, axis2, dtype, out)

    def repeat(self, repeats: Any, axis: Any = None) -> Any:
        """Repeat each element along an axis."""
        return arrangements.repeat(self, repeats, axis)

    def nonzero(self) -> Any:
        """Return the indices of elements that are not zero; a graph break."""
        return data_dependent.nonzero(self)

    def compress(self, condition: Any, axis: Any = None, out: Any = None) -> Any:
        """Return the slices along an axis for which the condition holds; a graph break."""
        return data_dependent.compress(condition, self, axis, out)

    def take(self, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
        """Return elements along an axis at indices."""
        return gathering.take(self, indices, axis, out, mode)

    def put(self, indices: Any, values: Any, mode: str = "raise") -> None:
        """Write values at positions of the flattened array."""
        gathering.put(self, indices, values, mode)

    def fill(self, value: Any) -> None:
        """Assign a scalar to all elements."""
        self[...] = value

    def __setitem__(self, index: Any, value: Any) -> None:
        raise NotImplementedError

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())


def _reduction(name: str, module: Any) -> Callable[..., Any]:
    def method(self: ArrayMethods, *args: Any, **kwargs: Any) -> Any:
        function = getattr(module, name, None) or getattr(module, f"{name}_")
        return function(self, *args, **kwargs)

    method.__name__ = name
    method.__doc__ = f"Return np.{name} over axes."
    return method


for _module, _names in (
    (reductions, ("sum", "min", "max", "any", "all", "ptp", "prod", "argmin", "argmax")),
    (moments, ("mean", "var", "std")), (scans, ("cumsum", "cumprod")),
):
    for _name in _names:
        setattr(ArrayMethods, _name, _reduction(_name, _module))

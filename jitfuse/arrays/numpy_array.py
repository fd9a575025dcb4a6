"""NumPyArray: an eager array over an np.ndarray.

An operator is the op table's NumPy reference on the array. With one or two operands and no attributes, which is a
ufunc for most rows, it is called without any step in between. NumPy's functions, and the methods that an ndarray has,
are NumPy's own. If an operator raises, `call` runs it again and raises the typed error.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from jitfuse.arrays.base import EagerArray
from jitfuse.arrays.direct import PASSED, UndecidedError, floor_divide, over_arrays
from jitfuse.arrays.wrapping import unwrap
from jitfuse.backends.interpreter.numpy_tensor import NumPyTensor
from jitfuse.dtypes import SUPPORTED, WEAK_DTYPE, numpy_dtype
from jitfuse.errors import ArgumentError
from jitfuse.ir.operators import ops
from jitfuse.tracing.abstract import BINARY, COMPARISONS, UNARY, AbstractTensor
from jitfuse.tracing.numpy_like.array_methods import ArrayMethods
from jitfuse.tracing.record.dtype_name import DTYPES, DTypeName, dtype_name

_NAMES: Final[dict[Any, DTypeName]] = {numpy_dtype(n): DTYPES[n] for n in SUPPORTED if n != "bfloat16"}
_NUMPYS: Final = (np.ndarray, np.generic)
_SEQUENCES: Final = (tuple, list)
_new = object.__new__


class NumPyArray(EagerArray, NumPyTensor):
    """An array over an np.ndarray; rank-0 results hold NumPy's scalars until they are written into."""

    __slots__ = ()

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The ndarray."""
        if type(self.value) is not np.ndarray:
            self.value = np.asarray(self.value)
        return self.value

    @property
    def dtype(self) -> DTypeName:
        """The dtype's name, which user code may treat as np.dtype."""
        found = None if type(self.value) in WEAK_DTYPE else _NAMES.get(self.value.dtype)
        return found or DTYPES[NumPyTensor.dtype.fget(self)]  # type: ignore[attr-defined]

    def _lift(self, value: Any) -> Any:
        if isinstance(value, AbstractTensor) and not isinstance(value, NumPyTensor):
            raise ArgumentError(
                f"an array of NumPy's meets a {type(value).__name__}; make both of one kind with jf.asarray"
            )
        return super()._lift(value)

    _operand = _lift

    def astype(self, dtype: Any, order: Any = "K", casting: Any = "unsafe", subok: bool = True,
               copy: bool = True) -> Any:
        """Return the elements cast to a dtype, or the array itself if `copy` is false and nothing changes."""
        name = dtype_name(dtype, "astype")
        if not copy and name == self.dtype:
            return self
        return _wrapped(self.array.astype(numpy_dtype(name), order, casting, subok, copy))

    @classmethod
    def direct_function(cls, name: str, function: Callable[..., Any]) -> Callable[..., Any] | None:
        """Return the direct function of a namespace function: its implementation over ndarrays."""
        carried_out = over_arrays(name, function)
        return None if carried_out is None else _direct_function(carried_out)

    @property
    def T(self) -> Any:  # noqa: N802
        """All axes reversed."""
        return _wrapped(self.array.T)

    @property
    def mT(self) -> Any:  # noqa: N802
        """The last two axes exchanged."""
        array = self.array
        return _wrapped(array.mT) if array.ndim > 1 else super().mT

    def __floordiv__(self, other: Any) -> Any:
        found = _floor_divided(self, other)
        return super().__floordiv__(other) if found is NotImplemented else found

    def __rfloordiv__(self, other: Any) -> Any:
        found = _floor_divided(other, self)
        return super().__rfloordiv__(other) if found is NotImplemented else found

    def reshape(self, *shape: Any, **options: Any) -> Any:
        """Return the elements under another shape: a view where the memory allows it."""
        if not options or (len(options) == 1 and options.get("copy", True) is None):
            return _wrapped(self.array.reshape(*shape))
        return super().reshape(*shape, **options)

    def __array_ufunc__(  # type: ignore[override]  # EagerTensor takes no ufuncs
        self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any
    ) -> Any:
        carried_out = ufunc if method == "__call__" else getattr(ufunc, method)
        return _delivered(carried_out(*unwrap(inputs), **unwrap(kwargs)), kwargs.get("out"))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _delivered(func(*unwrap(args), **unwrap(kwargs)), kwargs.get("out"))


def _wrapped(value: Any) -> NumPyArray:
    made: NumPyArray = _new(NumPyArray)
    made.value = value
    return made


def _delivered(result: Any, out: Any = None) -> Any:
    """Return NumPy's result as eager arrays, or `out` itself if it was written into."""
    if out is not None and not isinstance(result, tuple):
        given = out[0] if isinstance(out, tuple) else out
        if isinstance(given, NumPyArray):
            return given
    kind = type(result)
    if kind is np.ndarray or isinstance(result, _NUMPYS):
        return placed(result)
    if isinstance(result, _SEQUENCES):
        parts = [_wrapped(p) if type(p) is np.ndarray and p.dtype in _NAMES else _delivered(p) for p in result]
        return tuple(parts) if kind is tuple else kind(*parts) if hasattr(kind, "_fields") else kind(parts)
    return result


_ERRORS: Final = (TypeError, ValueError, OverflowError, IndexError)


def _taken(value: Any) -> Any:
    """Return an argument as NumPy takes it; raises UndecidedError for one that NumPy alone cannot handle."""
    kind = type(value)
    if kind is NumPyArray:
        if type(value.value) in WEAK_DTYPE:
            raise UndecidedError
        return value.array
    if kind in PASSED:
        return value
    if kind is tuple or kind is list:
        return kind([_taken(v) for v in value])
    raise UndecidedError


def _direct_function(carried_out: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap an implementation over ndarrays as a direct function over arrays of this class."""
    def direct_function(args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if options:
            if "out" in options:
                return NotImplemented
            options = {k: v if type(v) in PASSED else _taken(v) for k, v in options.items()}
        first = args[0]
        array = first.value if type(first) is NumPyArray else first
        if type(array) is not np.ndarray:
            array = _taken(first)
        if len(args) == 1:
            found = carried_out(array, **options)
        elif len(args) == 2:
            second = args[1]
            found = carried_out(array, second if type(second) in PASSED else _taken(second), **options)
        else:
            found = carried_out(array, *[v if type(v) in PASSED else _taken(v) for v in args[1:]], **options)
        if type(found) is np.ndarray and found.dtype in _NAMES:
            return first if found is array else _wrapped(found)
        return found if found is NotImplemented else _delivered(found)

    return direct_function


def _floor_divided(left: Any, right: Any) -> Any:
    a = left.value if type(left) is NumPyArray else left
    b = right.value if type(right) is NumPyArray else right
    try:
        found = floor_divide(a, b)
    except _ERRORS:
        return NotImplemented
    return found if found is NotImplemented else _wrapped(found)


def placed(array: Any) -> NumPyArray:
    """Return an array that NumPy has just made as an eager array; raises DTypeError for unsupported dtypes."""
    return _wrapped(array) if array.dtype in _NAMES else NumPyArray(array)


def _unary(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: NumPyArray) -> Any:
        if type(self.value) in WEAK_DTYPE:
            return self.call(name)
        try:
            return _wrapped(function(self.value))
        except _ERRORS:
            return self.call(name)

    return method


def _binary(name: str, function: Callable[..., Any], reflected: bool, named: bool) -> Callable[..., Any]:
    """Return a method, or with `named` false Python's operator, which returns NotImplemented for foreign operands."""
    def method(self: NumPyArray, other: Any) -> Any:
        kind = type(other)
        value = other.value if kind is NumPyArray else other
        if (kind is NumPyArray or kind in WEAK_DTYPE or kind is np.ndarray) and type(self.value) not in WEAK_DTYPE:
            try:
                return _wrapped(function(value, self.value) if reflected else function(self.value, value))
            except _ERRORS:
                pass  # the slow path raises the typed error
        if not named and isinstance(other, AbstractTensor) and not isinstance(other, NumPyTensor):
            return NotImplemented
        try:
            right = self._lift(other)
        except ArgumentError:
            if named:
                raise
            return NotImplemented
        return right.call(name, self) if reflected else self.call(name, right)

    return method


def _inplace(function: Callable[..., Any], usual: Callable[..., Any]) -> Callable[..., Any]:
    """Return Python's in-place operator; it writes a result of the array's own shape and dtype directly."""
    def operator(self: NumPyArray, other: Any) -> Any:
        kind = type(other)
        array, value = self.value, other.value if kind is NumPyArray else other
        if (kind is NumPyArray or kind in WEAK_DTYPE or kind is np.ndarray) and type(array) is np.ndarray:
            try:
                result = function(array, value)
            except _ERRORS:
                return usual(self, other)  # which raises the typed error
            if result is not NotImplemented and result.dtype is array.dtype and result.shape == array.shape:
                array[...] = result
                return self
        return usual(self, other)

    return operator


def _own(name: str) -> Callable[..., Any]:
    def method(self: NumPyArray, *args: Any, **kwargs: Any) -> Any:
        return _delivered(getattr(self.array, name)(*unwrap(args), **unwrap(kwargs)), kwargs.get("out"))

    method.__name__ = name
    method.__doc__ = f"Return what np.ndarray.{name} returns."
    return method


def _take_from_table() -> None:
    rows = {op.name: op for op in ops.table() if op.kind == ops.ELEMENTWISE and not op.attrs}
    python = {f"__{d}__": n for d, n in {**BINARY, **COMPARISONS, **UNARY}.items()}
    reflected = {f"__r{d}__": n for d, n in BINARY.items()}
    for method, name in (*python.items(), *reflected.items(), *((n, n) for n in rows)):
        op = rows.get(name)
        if op is None or any(method in vars(c) for c in (EagerArray, ArrayMethods)):
            continue
        if op.arity == 1:
            setattr(NumPyArray, method, _unary(name, op.numpy))
        elif op.arity == 2:
            setattr(NumPyArray, method, _binary(name, op.numpy, method in reflected, method == name))


def _take_inplace() -> None:
    """Give the in-place operators a fast path."""
    for dunder, name in BINARY.items():
        op, method = ops.get(name), f"__i{dunder}__"
        assert op is not None
        function = floor_divide if name == "floor_divide" else op.numpy
        setattr(NumPyArray, method, _inplace(function, getattr(EagerArray, method)))


def _take_from_ndarray() -> None:
    """Replace each method that traced arrays share with np.ndarray by NumPy's own."""
    for name, method in vars(ArrayMethods).items():
        taken = name[:1] == "_" or name == "to_device" or name in vars(NumPyArray) or name in vars(EagerArray)
        if not taken and callable(method) and callable(getattr(np.ndarray, name, None)):
            setattr(NumPyArray, name, _own(name))


_take_from_table()
_take_inplace()
_take_from_ndarray()

"""DTypeName and DType: the dtypes of arrays and of the namespace, which user code can treat as NumPy's.

Programs use names of dtypes; NumPy code compares `x.dtype` with np.float32 and reads its kind. One object serves
both: a string with the attributes of np.dtype, equal to all that NumPy converts to this dtype.
"""
from __future__ import annotations

from typing import Any, Final

import numpy as np

from jitfuse.dtypes import SUPPORTED, numpy_dtype
from jitfuse.errors import DTypeError, UnsupportedDTypeError


class DTypeName(str):
    """A supported dtype's name with np.dtype's attributes (`kind`, `itemsize`, `type`, ...)."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return str.__eq__(self, other) or (len(other) < 3 and numpy_dtype(str(self)) == other)
        if type(other) is DType:
            return str.__eq__(self, other.name)
        if not isinstance(other, np.dtype | type):
            return False
        try:
            return bool(numpy_dtype(str(self)) == np.dtype(other))
        except TypeError:
            return False

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__

    def __getattr__(self, name: str) -> Any:
        return getattr(numpy_dtype(str(self)), name)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """Answer isinstance(x.dtype, np.dtype) as NumPy code expects."""
        return type(numpy_dtype(str(self)))

    def __repr__(self) -> str:
        return f"dtype('{self!s}')"


class DType:
    """A dtype of the namespace, `jf.float32`: equal to an array's dtype and to NumPy's, and accepted as a dtype.

    It is not a string, and unlike np.dtype it never equals None. `DTypeName` has the same hash, np.dtype does not.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's object."""
        return numpy_dtype(self.name)

    def __eq__(self, other: object) -> bool:
        return self.name == other.name if type(other) is DType else DTypeName(self.name) == other

    def __hash__(self) -> int:
        return hash(self.name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # np.dtype has a length, the number of its fields
            raise AttributeError(name)
        return getattr(numpy_dtype(self.name), name)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """Answer isinstance(jf.float32, np.dtype) as NumPy code expects."""
        return type(numpy_dtype(self.name))

    def __repr__(self) -> str:
        return f"jitfuse.{self.name}"

    def __reduce__(self) -> Any:
        return DType, (self.name,)


DTYPES: Final[dict[str, DTypeName]] = {name: DTypeName(name) for name in SUPPORTED}
_BUILT_IN: Final = [name for name in SUPPORTED if name != "bfloat16"]
_NAMES: Final[dict[Any, str]] = {
    **{name: name for name in SUPPORTED},
    **{np.dtype(n): n for n in _BUILT_IN}, **{np.dtype(n).type: n for n in _BUILT_IN},
    float: "float64", int: "int64", bool: "bool", complex: "complex128",
}


def dtype_name(value: Any, where: str = "dtype") -> str:
    """Return the name, a str, of anything NumPy accepts as a dtype; raises DTypeError for unsupported ones."""
    if type(value) is DTypeName:
        return str.__str__(value)
    try:
        found = _NAMES.get(value)
    except TypeError:
        found = None
    if found is not None:
        return found
    try:
        dtype = np.dtype(value)
    except TypeError:
        raise DTypeError(f"{where}: {value!r} is no dtype; use one of {', '.join(SUPPORTED)}") from None
    if dtype.name not in SUPPORTED or not dtype.isnative:
        raise UnsupportedDTypeError(f"{where}: dtype {dtype} is not supported; use one of {', '.join(SUPPORTED)}")
    return str(dtype.name)

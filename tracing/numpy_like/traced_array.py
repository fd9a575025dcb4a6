"""TracedArray: all that user code sees of a traced value, put together.

Owns items and NumPy's two protocols, and gives `TracedTensor` its base: operators, Python's protocols, NumPy's methods
make tensors, so they import the file of `TracedTensor`, and not the other way.
"""
from __future__ import annotations

from typing import Any

from jitfuse import dtypes
from jitfuse.base.later import Later
from jitfuse.errors import DTypeError, UnsupportedAttributeError
from jitfuse.tracing.numpy_like import protocol
from jitfuse.tracing.numpy_like.array_methods import ArrayMethods
from jitfuse.tracing.observe.python_protocol import PYTHON_TYPE, PythonReads
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.operators import Operators
from jitfuse.tracing.tensor.traced import TracedTensor

gathering = Later("jitfuse.tracing.tensor.gathering")
indexing = Later("jitfuse.tracing.tensor.indexing")
masked_selection = Later("jitfuse.tracing.numpy_like.masked_selection")
windows = Later("jitfuse.tracing.tensor.windows")


class TracedArray(Operators, PythonReads, ArrayMethods):
    """Operators, Python's protocols, NumPy's methods and protocols, and items of a traced value."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        if self._run.slices is not None:
            indexing.note_slices(self._run.slices, index, self._meta.shape)
        key = indexing.key_of(index)
        if key is None:
            found = windows.taken(self, index)
            if found is not None:
                return found[0][found[1]]
            index = gathering.with_numbers(index)
            if gathering.is_advanced(index):
                chosen = masked_selection.get_item(self, index)
                return gathering.get_item(self, index) if chosen is None else chosen
        elif not self._scalar and not self._meta.weak:
            return self.at(indexing.region_at(self, index, key))
        return indexing.get_item(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        if self._run.slices is not None:
            indexing.note_slices(self._run.slices, index, self._meta.shape)
        key = indexing.key_of(index)
        if key is not None:
            indexing.set_item(self, index, value, key)
            return
        found = windows.taken(self, index)
        if found is not None:
            found[0][found[1]] = value
            return
        index = gathering.with_numbers(index)
        advanced = gathering.is_advanced(index)
        if advanced and masked_selection.set_item(self, index, value):
            return
        if indexing.is_mask(index):
            gathering.set_masked(self, index, value)
        elif advanced:
            gathering.set_item(self, index, value)
        else:
            indexing.set_item(self, index, value)

    @property
    def real(self) -> Any:
        """The real part: a view of complex numbers; a real array itself."""
        return super().real

    @real.setter
    def real(self, value: Any) -> None:
        self.real[...] = value

    @property
    def imag(self) -> Any:
        """The imaginary part: a view of complex numbers."""
        return super().imag

    @imag.setter
    def imag(self, value: Any) -> None:
        if dtypes.kind(self._meta.dtype) != "complex":
            raise DTypeError(f"array of {self.dtype} does not have imaginary part to set, at {user_line()}")
        self.imag[...] = value

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return protocol.array_ufunc(self, ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return protocol.array_function(func, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if self.weak and not name.startswith("__") and hasattr(PYTHON_TYPE[self._meta.dtype], name):
            return getattr(self._read_value(name), name)
        if name.startswith("__"):
            raise AttributeError(name)
        raise UnsupportedAttributeError(
            f"traced arrays have no attribute {name!r}, at {user_line()}. "
            f"{protocol.alternatives(name)}"
        )


TracedTensor.__bases__ = (TracedArray,)

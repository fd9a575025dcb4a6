"""Arrays that outlive a call and move in training: `jf.Parameter`, and `jf.Buffer`.

They are eager arrays that own their memory. Owns both classes. Does not own trees of them, nor their files
(`jitfuse.arrays.state_trees`).
"""
from __future__ import annotations

from typing import Any

import numpy as np

from jitfuse.arrays.base import take_operators, unwrap
from jitfuse.arrays.numpy_array import NumPyArray
from jitfuse.dtypes import kind
from jitfuse.errors import DTypeError
from jitfuse.tracing.record.foreign import host_array, is_torch_tensor


def values_of(value: Any) -> Any:
    """Return an array for a torch tensor, which may require gradients or lie elsewhere; other values without wrappers.

    Raises DTypeError for a tensor that NumPy has no array for.
    """
    if not is_torch_tensor(value):
        return unwrap(value)
    try:
        return host_array(value.detach())
    except TypeError as error:
        raise DTypeError(f"NumPy has no array for a tensor of {value.dtype} and {value.layout} ({error}). Convert it, "
                         "as in tensor.to_dense().to(torch.float32)") from None


class State(NumPyArray):
    """An array with memory of its own, and a name."""

    __slots__ = ("name",)
    is_owner = True

    def __init__(self, value: Any, name: str = "") -> None:
        super().__init__(np.array(values_of(value), order="C"))
        self.name = name

    over = staticmethod(NumPyArray.over)  # type: ignore[assignment]  # what is computed of it is any array

    def call(self, op_name: str, *others: Any, **attrs: Any) -> Any:
        """Return an operator's result: an array of its own."""
        return NumPyArray.over(self.array).call(op_name, *others, **attrs)

    def as_copy(self, scalar: bool = False) -> Any:
        """Return the same value in an array of its own."""
        return NumPyArray.over(self.array).as_copy(scalar)

    def _part(self, name: str) -> Any:
        return NumPyArray.over(self.array)._part(name)

    def __repr__(self) -> str:
        array = self.array
        shown = np.array2string(array, threshold=6, edgeitems=2, precision=4, separator=", ").replace("\n", "")
        named = f"{self.name}: " if self.name else ""
        size = f"{array.nbytes:,} B" if array.nbytes < 1 << 20 else f"{array.nbytes / (1 << 20):,.1f} MiB"
        return f"{type(self).__name__}({named}{self.dtype}{list(array.shape)}, {size}, {shown})"

    def __reduce__(self) -> Any:
        return type(self), (self.array, self.name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return type(self)(self.array, self.name)


class Parameter(State):
    """An array that a loss is differentiated by: an optimiser moves it in place, in training.

    Args:
        value: an array or nested sequence of floats or complex numbers; it is copied.
        name: what messages and reports call it.

    Raises:
        DTypeError: integers or bools, by which nothing is differentiated.

    Example:
        >>> w = jf.Parameter(np.zeros((2, 3)), "w")
        >>> w
        Parameter(w: float64[2, 3], 48 B, [[0., 0., 0.], [0., 0., 0.]])
        >>> w += 1.0
        >>> w.sum().item()
        6.0
    """

    __slots__ = ()
    is_trained = True

    def __init__(self, value: Any, name: str = "") -> None:
        super().__init__(value, name)
        if kind(str(self.dtype)) not in ("float", "complex"):
            raise DTypeError(f"a parameter {name!r} of {self.dtype}: gradients are by floats and complex numbers. Make "
                             "it with x.astype('float32'), or a jf.Buffer, which no optimiser moves.")


class Buffer(State):
    """An array that a function moves itself, such as running statistics or a counter; no optimiser does.

    Args:
        value: an array, number or nested sequence of any dtype; it is copied.
        name: what messages and reports call it.

    Example:
        >>> seen = jf.Buffer(np.int64(0), "seen")
        >>> count = jf.fuse(lambda: seen.__iadd__(1))
        >>> _ = count(), count()
        >>> seen.item()
        2
    """

    __slots__ = ()


for _class in (Parameter, Buffer):
    take_operators(_class, np.ndarray, NumPyArray)

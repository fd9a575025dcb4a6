"""`np.r_[x, 0.0, a:b]` and `np.c_[x, y]` over traced arrays.

Owns the replacements of these two objects in user code. They join by the rules of `numpy.lib.AxisConcatenator`;
directives in text fall back to plain Python.
"""
from __future__ import annotations

from typing import Any, Final

import numpy as np

from jitfuse.errors import UnsupportedError
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.numpy_like import shapes
from jitfuse.tracing.numpy_like.creation import arange, array, linspace
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor.function_table import traced_among
from jitfuse.tracing.tensor.mixed_numbers import settled

_WEAK: Final[dict[str, Any]] = {"int64": 0, "float64": 0.0, "complex128": 0j}


class Joiner:
    """Replaces `np.r_` or `np.c_`; ranks and axes are those of the original object."""

    def __init__(self, original: Any) -> None:
        self.original = original

    def __getitem__(self, key: Any) -> Any:
        items = key if isinstance(key, tuple) else (key,)
        if any(isinstance(item, str) for item in items):
            raise UnsupportedError(f"np.r_ with directives in text is not available, at {user_line()}. "
                                   "Join with np.concatenate.")
        if traced_among(*(part for item in items for part in _parts(item))) is None:
            return array(self.original[key])
        items = tuple(self._range(item) if isinstance(item, slice) else settled(item) for item in items)
        common = np.result_type(*map(_kind, items))
        rank = self.original.ndmin
        return shapes.concatenate(
            [self._with_rank(array(item, dtype=common, copy=False), rank) for item in items], self.original.axis)

    def __len__(self) -> int:
        return 0

    @staticmethod
    def _range(item: slice) -> Any:
        start = 0 if item.start is None else item.start
        step = 1 if item.step is None else item.step
        if isinstance(step, complex):
            return linspace(start, item.stop, int(abs(step)))
        return arange(start, item.stop, step)

    def _with_rank(self, part: Any, rank: int) -> Any:
        """Reshape a part to the rank of the result: its axes come last, or from the axis that the original gives."""
        missing = rank - part.ndim
        if missing <= 0:
            return part
        first = self.original.trans1d
        first += missing + 1 if first < 0 else 0
        return part.reshape((1,) * first + part.shape + (1,) * (missing - first))


def _parts(item: Any) -> tuple[Any, ...]:
    return (item.start, item.stop, item.step) if isinstance(item, slice) else (item,)


def _kind(item: Any) -> Any:
    """Return an item for NumPy's promotion; Python numbers are weak."""
    if type(item) in {bool, int, float, complex}:
        return item
    if not isinstance(item, AbstractTensor):
        item = array(item)
    dtype = str(item.dtype)
    return _WEAK.get(dtype, np.dtype(dtype)) if item.weak else np.dtype(dtype)

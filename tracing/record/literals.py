"""Constants of a run: Python scalars, NumPy scalars and arrays, each recorded once as a step of the program."""
from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from jitfuse import dtypes
from jitfuse.errors import OutOfRangeError, WideIntError
from jitfuse.ir.program import Attrs, Meta
from jitfuse.tracing.record.dtype_name import dtype_name
from jitfuse.tracing.record.session import Session
from jitfuse.tracing.record.source import user_line


class Literals:
    """The constants of one run."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.graph = session.graph

    def emit(
        self, op_name: str, inputs: tuple[int, ...], attrs: Mapping[str, Any] | Attrs = (), meta: Meta | None = None,
        source: str | None = None,
    ) -> int:
        """Record one operator over tensor ids and return its result's id."""
        raise NotImplementedError

    def line(self, above: int = 4) -> str:
        """Return the user's line that is running; the search begins `above` frames up."""
        raise NotImplementedError

    def literal(self, value: bool | int | float | complex) -> int:
        """Return the weak constant of a Python scalar; one step for each value and type."""
        kind = type(value)
        if kind is int and not -(2**63) <= value < 2**64:  # type: ignore[operator]
            raise WideIntError(f"Python integer {value} leaves 64 bits at {user_line()}")
        if kind is complex or (kind is float and (value == 0.0 or value != value)):  # 0.0 == -0.0, and NaN != NaN
            key: Any = (kind, struct.pack("dd", value.real, value.imag))
        else:
            key = (kind, value)
        found = self.session.literals.get(key)
        if found is None:
            attrs = {"shape": (), "value": value, "dtype": dtypes.weak_dtype(value), "weak": True}
            found = self.session.literals[key] = self.emit("full", (), attrs)
        return found

    def scalar(self, value: Any, dtype: str) -> int:
        """Return the strong rank-0 constant of a NumPy scalar."""
        number = dtypes.numpy_dtype(dtype).type(value)
        key = (dtype, number.tobytes())
        found = self.session.literals.get(key)
        if found is None:
            attrs = {"shape": (), "value": number.item(), "dtype": dtype, "weak": False}
            found = self.session.literals[key] = self.emit("full", (), attrs)
        return found

    def constant(self, array: np.ndarray[Any, Any]) -> int:
        """Return an array's data as a constant step."""
        dtype = dtype_name(array.dtype, "array")
        data = np.ascontiguousarray(array, dtypes.numpy_dtype(dtype).newbyteorder("<")).tobytes()
        key = (array.shape, dtype, data)
        found = self.session.literals.get(key)
        if found is None:
            attrs = {"shape": array.shape, "dtype": dtype, "data": data}
            found = self.session.literals[key] = self.emit("constant", (), attrs)
        return found


def check_int(value: int, low: int, high: int, dtype: str) -> None:
    """Raise OutOfRangeError, as NumPy raises OverflowError, where a Python int does not fit a dtype."""
    if not low <= value <= high:
        raise OutOfRangeError(
            f"Python integer {value} out of bounds for {dtype} at {user_line()}. "
            "Make it a float, or cast the array with astype(np.int64) first."
        )

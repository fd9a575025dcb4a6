"""The literal arrays of a plan, in memory that its tables can point to."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jitfuse.dtypes import numpy_dtype


def literal_arrays(literals: Mapping[int, tuple[str, bytes]]) -> dict[int, np.ndarray[Any, Any]]:
    """Return the literal arrays of a program, by value."""
    arrays = {}
    for value, (name, data) in literals.items():
        dtype = numpy_dtype(name)
        arrays[value] = np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype)
    return arrays

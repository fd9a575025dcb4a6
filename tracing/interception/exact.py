"""Distinguishes values that Python holds equal: 1, 1.0 and True, zeros of both signs, orders of items.

Containers, slices and ranges of such values compare equal, but a function that reads them may compute something else.
"""
from __future__ import annotations

import marshal
from typing import Any, Final

import numpy as np

_CONTAINERS: Final = (tuple, list, dict, set, frozenset)


def exact_form(value: Any) -> Any:
    """Return a form that is equal only for values that no function can distinguish; None where ``==`` is enough."""
    kind = type(value)
    if isinstance(value, np.generic):  # NaT equals nothing; dates of two units may be equal
        return value.dtype, value.tobytes()
    if kind is slice or kind is range:
        value = value.start, value.stop, value.step
    elif kind not in _CONTAINERS:
        return None
    try:
        return marshal.dumps(value, 0)  # version 0: independent of shared references and interned text
    except ValueError:  # an item of another type
        return tuple([_part(part) for part in (value.items() if kind is dict else value)])


def _part(value: Any) -> Any:
    return type(value), repr(value) if type(value) in (float, complex) else exact_form(value)


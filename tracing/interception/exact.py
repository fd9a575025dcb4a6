"""What tells values apart that Python holds equal: 1, 1.0 and True, zeros of both signs, orders of items.

Containers of such compare equal, and so do slices and ranges of them, but a function that reads them does not compute
the same.
"""
from __future__ import annotations

import marshal
from typing import Any, Final

_CONTAINERS: Final = (tuple, list, dict, set, frozenset)


def exact_form(value: Any) -> Any:
    """Return what is equal for values alone that no function tells apart; None where equal values are."""
    kind = type(value)
    if kind is slice or kind is range:
        value = value.start, value.stop, value.step
    elif kind not in _CONTAINERS:
        return None
    try:
        return marshal.dumps(value, 0)  # the first version: neither references nor interned text make a difference
    except ValueError:  # something else is among the items
        return tuple([_part(part) for part in (value.items() if kind is dict else value)])


def _part(value: Any) -> Any:
    return type(value), repr(value) if type(value) in (float, complex) else exact_form(value)


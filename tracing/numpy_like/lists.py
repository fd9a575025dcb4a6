"""NumPy's functions of lists that hold traced values, `np.mean(losses)` or `np.linalg.norm([dx, dy])`.

NumPy dispatches on arguments that are arrays only: from such a list it would make an array, and read each traced value.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.numpy_like.creation import array
from jitfuse.tracing.numpy_like.protocol import implementation_of

_KINDS: Final = frozenset({np.ufunc, type(np.mean)})
_ARRAYS_ALONE: Final = frozenset(getattr(np, name) for name in (
    "block", "common_type", "copyto", "diag_indices_from", "dsplit", "fill_diagonal", "hsplit", "place", "put",
    "put_along_axis", "putmask", "result_type", "rollaxis", "split", "take_along_axis", "tril_indices_from",
    "trim_zeros", "triu_indices_from", "unstack", "vsplit") if hasattr(np, name))
"""Functions for which NumPy rejects lists, returns lists, or dispatches on all nested items, as `block` does."""
_made: Final[dict[Any, Callable[..., Any]]] = {}


class _Sequence(list[Any]):
    """A list or tuple with traced values, as the argument of a NumPy function."""

    def __init__(self, given: Any) -> None:
        super().__init__(_Sequence(v) if _holds_traced(v) else v for v in given)
        self.given = given

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        whole = any(v is self for v in (*args, *kwargs.values()))
        convert = _as_array if whole else _items_as_arrays
        return function(*map(convert, args), **{name: convert(value) for name, value in kwargs.items()})

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return getattr(ufunc, method)(*map(_as_array, inputs), **{k: _as_array(v) for k, v in kwargs.items()})


def _as_array(value: Any) -> Any:
    return array(value.given) if type(value) is _Sequence else value


def _items_as_arrays(value: Any) -> Any:
    """Return arrays for the items of a sequence whose items NumPy dispatches on, to join or choose among them."""
    return type(value.given)(map(_as_array, value)) if type(value) is _Sequence else value


def _holds_traced(value: Any) -> bool:
    return type(value) in {list, tuple} and any(isinstance(v, AbstractTensor) or _holds_traced(v) for v in value)


def in_place_of(function: Any) -> Any:
    """Return the replacement of a NumPy function in user code; any other callable itself."""
    if type(function) not in _KINDS or function in _ARRAYS_ALONE:
        return function
    found = _made.get(function)
    if found is None:
        found = _made[function] = _of_lists(function)
    return found


def _of_lists(function: Any) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        given = (*args, *kwargs.values()) if kwargs else args
        if any(isinstance(v, AbstractTensor) for v in given) or not any(map(_holds_traced, given)):
            return function(*args, **kwargs)
        if type(function) is not np.ufunc and implementation_of(function) is None:
            return function(*args, **kwargs)
        named = {name: value if name == "out" else _wrapped(value) for name, value in kwargs.items()}
        return function(*map(_wrapped, args), **named)

    return call


def _wrapped(value: Any) -> Any:
    return _Sequence(value) if _holds_traced(value) else value

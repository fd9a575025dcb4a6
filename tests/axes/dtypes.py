"""The dtypes of results, and what a library refuses: its own functions are called with ones of the same shapes."""
from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from axes.oracle import MOVES, Group
from axes.terms import Operation


class LibraryRefusesError(Exception):
    """The library has no such function of these dtypes or shapes."""


def _logsumexp(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Return NumPy's dtype of logarithms, but of integers double precision: int8 has no logarithm in half precision."""
    return np.log(x if x.dtype.kind in "fc" else x.astype(float)).sum(axes)


NUMPY: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "prod": np.prod, "any": np.any, "all": np.all,
    "var": np.var, "logsumexp": _logsumexp, "squares": lambda x, axes: (x * x).sum(axes),
}


class NumPy:
    """NumPy, and jitfuse's fused functions of its arrays."""

    reducers = NUMPY

    def ones(self, shape: Sequence[int], dtype: str) -> Any:
        return np.ones(shape, dtype)

    def common(self, dtypes: Sequence[str]) -> str:
        return str(np.result_type(*dtypes))

    def einsum(self, equation: str, arrays: Sequence[Any]) -> Any:
        return np.einsum(equation, *arrays)

    def total(self, x: Any) -> Any:
        """Sum in the own dtype."""
        return np.sum(x, 0, x.dtype)

    def refuses_products(self, dtype: str) -> bool:
        """Return whether the page allows an error for products of this dtype."""
        return False


class Torch:
    """torch."""

    def __init__(self) -> None:
        import torch

        self.torch = torch
        self.reducers: dict[str, Callable[[Any, Any], Any]] = {
            "sum": torch.sum, "mean": torch.mean, "max": torch.amax, "min": torch.amin, "prod": self._prod,
            "any": torch.any, "all": torch.all, "var": lambda x, axes: torch.var(x, axes, correction=0),
            "logsumexp": torch.logsumexp, "squares": lambda x, axes: (x * x).sum(axes),
        }

    @staticmethod
    def _prod(x: Any, axes: tuple[int, ...]) -> Any:
        for axis in reversed(axes):
            x = x.prod(axis)
        return x

    def ones(self, shape: Sequence[int], dtype: str) -> Any:
        return self.torch.ones(tuple(shape), dtype=getattr(self.torch, dtype))

    def common(self, dtypes: Sequence[str]) -> str:
        found = getattr(self.torch, dtypes[0])
        for dtype in dtypes[1:]:
            found = self.torch.promote_types(found, getattr(self.torch, dtype))
        return _name(found)

    def einsum(self, equation: str, arrays: Sequence[Any]) -> Any:
        return self.torch.einsum(equation, *arrays)

    def total(self, x: Any) -> Any:
        return self.torch.sum(x, 0, dtype=x.dtype)

    def refuses_products(self, dtype: str) -> bool:
        return dtype == "bool"


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


class Wanted(NamedTuple):
    """The dtype of each output, and why an error is as good as a result."""

    dtypes: list[str]
    excuse: str = ""


def wanted(library: NumPy | Torch, operation: Operation, groups: Sequence[Group], dtypes: Sequence[str]) -> Wanted:
    """Return the dtypes of arrays of these dtypes; raise LibraryRefusesError for what has none."""
    found: dict[int, list[str]] = {}
    excuses = []
    try:
        for group in groups:
            dtype = library.common([dtypes[array] for array in group.arrays])
            reducer = operation.reducer
            if operation.kind not in MOVES:
                if len(group.arrays) > 1 or operation.kind == "contract" or reducer is None:
                    excuses.append(_excuse(library, group, dtype))
                else:
                    dtype = _reduced(library, reducer, group, dtype)
            found.setdefault(group.output, []).append(dtype)
        return Wanted([library.common(of) for _, of in sorted(found.items())], " ".join(filter(None, excuses)))
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise LibraryRefusesError(str(error)) from error


def _reduced(library: NumPy | Torch, reducer: Any, group: Group, dtype: str) -> str:
    shape = tuple(n if axis in group.of[0] else 1 for axis, n in enumerate(group.shape))  # what is new comes later
    phases = [(group.axes, reducer)] if isinstance(reducer, str) else [
        (axes, name) for axes, (_, name) in zip(group.phases, reducer)]
    for axes, name in phases:
        x = library.ones(shape, dtype)
        if not axes:  # torch reads no axes as all
            x, axes = x.reshape((*shape, 1)), (len(shape),)
        made = library.reducers[name](x, tuple(axes))
        shape, dtype = tuple(made.shape), _name(made.dtype)
    return dtype


def _excuse(library: NumPy | Torch, group: Group, dtype: str) -> str:
    """Return why the library's einsum refuses ones, or sums of them."""
    if library.refuses_products(dtype) and len(group.arrays) > 1:
        return "products of bools"
    letters = ["".join(string.ascii_letters[axis] for axis in axes) for axes in group.of]
    kept = "".join(letter for letter in "".join(dict.fromkeys("".join(letters)))
                   if string.ascii_letters.index(letter) not in group.axes)
    xs = [library.ones([group.shape[axis] for axis in axes], dtype) for axes in group.of]
    try:
        library.einsum(f"{','.join(letters)}->{kept}", xs)
        if group.axes:
            library.total(library.ones((1,), dtype))
    except RuntimeError as error:
        return str(error)
    return ""

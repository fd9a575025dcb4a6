"""NumPy's functions whose results have shapes that depend on data: the program is split where they are called.

Owns their entries in the table of `jitfuse.tracing.numpy_functions`, each with NumPy's name and parameters, and
`observed`, by which NumPy computes places or values from the data of a call. What picks elements by these places stays
part of the program. Does not own splitting (`jitfuse.tracing.observing`).
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitfuse.errors import UnsupportedError
from jitfuse.ir import shape_rules
from jitfuse.tracing import observing
from jitfuse.tracing.lifting import lift
from jitfuse.tracing.look import UnknownValueError, known_value
from jitfuse.tracing.numpy_functions import Tensor, implements, lifted, strong
from jitfuse.tracing.source import user_line
from jitfuse.tracing.traced import TracedTensor, fresh

_KEEP = "Keep the shape: np.where(mask, x, 0), or reduce with np.sum(np.where(mask, x, 0)); x[mask] = value does work."
Arrays = tuple[np.ndarray[Any, Any], ...]


def observed(
    name: str, tensors: Sequence[Tensor], compute: Callable[..., Arrays], way_out: str = _KEEP
) -> tuple[Tensor, ...]:
    """Return what `compute` gives for the values of some tensors, as tensors.

    Raises what `compute` raises, and UnsupportedError where the program cannot be split; `name` and `way_out` are for
    that error.
    """
    first: Any = tensors[0]
    if not isinstance(first, TracedTensor):
        return tuple(first.as_tensor(a) for a in compute(*(t.array for t in tensors)))
    run, ids = first._run, tuple(t._id() for t in tensors)
    try:
        values = [np.asarray(known_value(run.session, t)) for t in ids]
    except UnknownValueError:
        if not observing.may_split(run):
            raise UnsupportedError(f"{name} has a shape that depends on data, at {user_line()}. {way_out}") from None
        found = run.session.found.get((name, ids))
        if found is None or any(t not in run.session.kept for t in found):
            found = observing.observe(run, name, ids, compute)
            if compute is np.nonzero:
                run.session.found[name, ids] = found
        return tuple(fresh(run, t, scalar=False) for t in found)
    return tuple(lift(run, a) for a in compute(*values))


def _picked(x: Tensor, places: Tensor, axis: int) -> Tensor:
    """Return parts along an axis, in C order, as `take` does."""
    found: Tensor = x[(*(slice(None),) * axis, places)]
    return found.laid_out(None)


def _along(name: str, a: Any, axis: Any) -> tuple[Tensor, int]:
    x = strong(lifted(a)[0])
    return (x.ravel(), 0) if axis is None else (x, shape_rules.normalize_axis(name, axis, x.ndim))


# ---------------------------------------------------------------- places
@implements("nonzero")
def nonzero(a: Any) -> tuple[Tensor, ...]:
    """Return the places of elements that are not zero, one array for each axis."""
    x = strong(lifted(a)[0])
    if not x.ndim:
        np.nonzero(np.zeros(()))  # raises
    return observed("nonzero", (x,), np.nonzero)


@implements("flatnonzero")
def flatnonzero(a: Any) -> Tensor:
    """Return the places of elements that are not zero in the flattened array."""
    return nonzero(strong(lifted(a)[0]).ravel())[0]


@implements("argwhere")
def argwhere(a: Any) -> Tensor:
    """Return the places of elements that are not zero, one row for each."""
    places: Any = observed("argwhere", (strong(lifted(a)[0]),), _argwhere)[0]
    return places.ordered("argwhere", "F")


def _argwhere(array: np.ndarray[Any, Any]) -> Arrays:
    return (np.argwhere(array),)


# ---------------------------------------------------------------- elements
@implements("extract")
def extract(condition: Any, arr: Any) -> Tensor:
    """Return the elements of the flattened array for which the condition holds."""
    c, x = lifted(condition, arr)
    return _picked(strong(x).ravel(), flatnonzero(c), 0)


@implements("compress")
def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Tensor:
    """Return the parts along an axis for which the condition holds."""
    if out is not None:
        raise UnsupportedError(f"np.compress(out=) is not available inside a fused function, at {user_line()}")
    c, x = lifted(condition, a)
    if c.ndim != 1:
        np.compress(np.zeros(c.shape, bool), np.zeros(3))  # raises
    shape_rules.refuse_bools(axis)
    x, along = _along("compress", x, axis)
    return _picked(x, flatnonzero(c), along)


def repeat_each(x: Tensor, counts: Tensor, axis: int) -> Tensor:
    """Return each part of an array along an axis as often as traced counts say."""
    extent = x.shape[axis]

    def places(often: np.ndarray[Any, Any]) -> Arrays:
        return (np.repeat(np.arange(extent), often),)

    return _picked(x, observed("repeat", (counts,), places, "Pass Python integers.")[0], axis)


# ---------------------------------------------------------------- sets
@implements("unique")
def unique(ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
           axis: int | None = None, **options: Any) -> Any:
    """Return the distinct elements in order, and where they are and how often where asked."""
    asked = {"return_index": return_index, "return_inverse": return_inverse, "return_counts": return_counts,
             "axis": axis, **options}

    def compute(array: np.ndarray[Any, Any]) -> Arrays:
        found = np.unique(array, **asked)
        return found if isinstance(found, tuple) else (found,)

    made = observed("unique", (strong(lifted(ar)[0]),), compute, "Call it outside the fused function.")
    return made if return_index or return_inverse or return_counts else made[0]


def _of_sets(name: str) -> None:
    def function(ar1: Any, ar2: Any, **options: Any) -> Any:
        def compute(*arrays: np.ndarray[Any, Any]) -> Arrays:
            found = getattr(np, name)(*arrays, **options)
            return found if isinstance(found, tuple) else (found,)

        made = observed(name, [strong(t) for t in lifted(ar1, ar2)], compute, "Call it outside the fused function.")
        return made if options.get("return_indices") else made[0]

    function.__name__ = name
    function.__doc__ = f"NumPy's {name}, over the data of the call."
    implements(name)(function)


for _name in ("intersect1d", "setdiff1d", "setxor1d", "union1d"):
    _of_sets(_name)


@implements("trim_zeros")
def trim_zeros(filt: Any, trim: Any = "fb", **options: Any) -> Tensor:
    """Return an array without the zeros at its ends."""
    def compute(array: np.ndarray[Any, Any]) -> Arrays:
        return (np.trim_zeros(array, trim, **options),)

    return observed("trim_zeros", (strong(lifted(filt)[0]),), compute, "Call it outside the fused function.")[0]

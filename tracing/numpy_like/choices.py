"""NumPy's functions that choose among arrays, or apply functions to parts of one, over traced arrays.

Owns their entries in the table of `jitfuse.tracing.tensor.function_table`. `piecewise` runs its functions on the whole
array and selects afterwards, so they must be elementwise; any other function raises.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from jitfuse import dtypes
from jitfuse.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from jitfuse.ir.operators import ops
from jitfuse.ir.rules import shape_rules
from jitfuse.tracing.abstract import AbstractTensor
from jitfuse.tracing.numpy_like import data_dependent, shapes, sorting
from jitfuse.tracing.record.source import user_line
from jitfuse.tracing.tensor import gathering, indexing
from jitfuse.tracing.tensor.function_table import Tensor, deliver, implements, lifted, require_cast, strong

UNROLLED_PARTS: Final = 16
"""`apply_along_axis` calls its function for each of up to so many parts; more parts become one loop step."""
FEW: Final = 32
"""`isin` compares with each of up to so many values; more values are sorted and searched."""


@implements("where")
def where(condition: Tensor, x: Any = None, y: Any = None, /) -> Any:
    """Select elements of x where the condition holds, else of y; without x and y, return the indices where it holds."""
    if x is None and y is None:
        return data_dependent.nonzero(condition)
    c, a, b = lifted(condition, x, y)
    if a.weak and b.weak:
        a, b = strong(a), strong(b)
    result = strong(c).call("where", a, b)
    return result if result.ndim else result.as_copy()  # an array of rank 0, unlike a ufunc's result


@implements("select")
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Tensor:
    """Return for each element the first choice whose condition holds, else the default."""
    if len(condlist) != len(choicelist):
        raise ArgumentError(f"list of cases must be same length as list of conditions, at {user_line()}")
    if not len(condlist):
        raise ArgumentError(f"select with an empty condition list is not possible, at {user_line()}")
    count = len(condlist)
    found = lifted(*condlist, *choicelist, default)
    conditions, values = found[:count], found[count:]
    for k, c in enumerate(conditions):
        if str(c.dtype) != "bool":
            raise DTypeError(f"invalid entry {k} in condlist: should be boolean ndarray, at {user_line()}")
    values = [v if isinstance(given, int | float | complex) else strong(v)
              for v, given in zip(values, (*choicelist, default), strict=True)]
    dtype, _ = dtypes.result_type(tuple((str(v.dtype), bool(v.weak)) for v in values))
    result = values[-1].call("astype", dtype=dtype)
    for c, v in zip(reversed(conditions), reversed(values[:-1]), strict=True):
        result = strong(c).call("where", v.call("astype", dtype=dtype), result)
    shape = shape_rules.broadcast("select", [t.shape for t in found])
    whole = result if result.shape == shape and shape else result.call("broadcast_to", shape=shape).as_copy()
    return whole.ordered("select", "C")


@implements("choose")
def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Tensor:
    """Return for each element of `a` the element of the choice with that number."""
    index, *values = lifted(a, *choices)
    index = strong(index)
    if dtypes.kind(str(index.dtype)) not in ("int", "uint", "bool"):
        raise DTypeError(f"np.choose: choices are numbered by integers, not by {index.dtype}, at {user_line()}")
    shape = shape_rules.broadcast("choose", [index.shape, *(v.shape for v in values)])
    dtype, _ = dtypes.result_type(tuple((str(v.dtype), bool(v.weak)) for v in values))
    stacked = shapes.stack([v.call("astype", dtype=dtype).call("broadcast_to", shape=shape) for v in values])
    index = index.astype("int64").call("broadcast_to", shape=shape)
    if mode == "clip":
        index = index.call("clip", 0, len(values) - 1)
    elif mode == "wrap":
        index = index % len(values)
    else:
        index = index.call("require", index.call("greater_equal", 0))
    return deliver("choose", stacked.call("take_along_axis", index.reshape((1, *shape)), axis=0)[0], out)


@implements("piecewise")
def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Tensor:
    """Apply to each element the function of the last condition that holds; else the default function, or 0."""
    at = strong(lifted(x, *(condlist if isinstance(condlist, list | tuple) else [condlist]))[0])
    single = not isinstance(condlist, list | tuple) or (
        at.ndim and not isinstance(condlist[0], list | tuple | np.ndarray | AbstractTensor))
    masks = lifted(*([condlist] if single else condlist), at)[:-1]
    conditions = [strong(c).call("astype", dtype="bool") for c in masks]
    functions = list(funclist)
    if len(functions) not in (len(conditions), len(conditions) + 1):
        raise ArgumentError(f"with {len(conditions)} condition(s), either {len(conditions)} or {len(conditions) + 1} "
                            f"functions are expected, at {user_line()}")
    result = at.create("zeros", shape=at.shape, dtype=str(at.dtype))
    if len(functions) > len(conditions):
        result = _elementwise_value(functions.pop(), at, args, kw)
    for c, f in zip(conditions, functions, strict=True):
        result = c.call("where", _elementwise_value(f, at, args, kw), result)
    return result.ordered("piecewise", "K", at) if result.ndim else result.as_copy()


_OF_ELEMENTS: Final = frozenset({ops.ELEMENTWISE, ops.CREATION})


def _elementwise_value(function: Any, x: Tensor, args: tuple[Any, ...], kw: dict[str, Any]) -> Tensor:
    if not callable(function):
        return lifted(function, x)[0].call("astype", dtype=str(x.dtype))
    run = getattr(x, "_run", None)
    begin = len(run.graph.ops) if run is not None else 0
    value = strong(lifted(function(x, *args, **kw), x)[0])
    made = run.graph.ops[begin:] if run is not None else ()
    strange = [o.op_name for o in made if getattr(ops.get(o.op_name), "kind", None) not in _OF_ELEMENTS]
    if strange or value.shape not in (x.shape, ()):
        raise UnsupportedError(
            f"np.piecewise: a function does more than one element at a time ({', '.join(strange[:3]) or value.shape}), "
            f"at {user_line()}. Write np.where(condition, f(x), g(x)) with what is meant."
        )
    return value.call("astype", dtype=str(x.dtype))


@implements("isin")
def isin(element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *,
         kind: Any = None) -> Tensor:
    """Return where elements are among the test elements."""
    x, among = (strong(t) for t in lifted(element, test_elements))
    among = among.ravel()
    if not among.size:
        found = x.create("zeros", shape=x.shape, dtype="bool")
    elif among.size <= FEW:
        found = x.call("equal", among[0])
        for k in range(1, among.size):
            found = found.call("logical_or", x.call("equal", among[k]))
    else:
        common = dtypes.promote((str(x.dtype), str(among.dtype)))
        wanted, sorted_ = x.astype(common, copy=False), sorting.sort(among.astype(common, copy=False))
        position = sorting.searchsorted(sorted_, wanted)
        found = gathering.take(sorted_, position, mode="clip").call("equal", wanted)
    return (found.call("logical_not") if invert else found).ordered("isin", "C")


# ---------------------------------------------------------------- writes under a mask
def _masked(name: str, a: Any, mask: Any, values: Any) -> tuple[Any, Tensor, Tensor]:
    """Return the array to write into, the mask as bools, and the values."""
    if not isinstance(a, AbstractTensor):
        raise UnsupportedError(f"np.{name} into an array that is not traced, at {user_line()}. Create it inside the "
                               "function, or pass it as an argument.")
    where, given = lifted(mask, a)[0], indexing.given_to(a, values)
    if not given.weak:  # unlike an assignment
        require_cast(f"np.{name}", str(given.dtype), str(a.dtype), "safe")
    new = indexing.cast(given, a)
    if where.size != a.size:
        raise ShapeError(f"{name}: mask and data must be the same size, at {user_line()}")
    return a, strong(where).call("astype", dtype="bool"), new


@implements("putmask")
def putmask(a: Any, mask: Any, values: Any) -> None:
    """Write values where a mask holds; the flattened values are repeated, and indexed as the array is."""
    x, where, new = _masked("putmask", a, mask, values)
    if not new.size:
        return
    flat = new.ravel()
    if flat.size < x.size:
        flat = flat.call("tile", reps=(-(-x.size // flat.size),))
    fitting = flat[: x.size].reshape(x.shape)
    x[...] = where.reshape(x.shape).call("where", fitting, x)


@implements("place")
def place(arr: Any, mask: Any, vals: Any) -> None:
    """Write the values in order, and again from the first, where a mask holds."""
    x, where, new = _masked("place", arr, mask, vals)
    if not new.size and x.size:
        raise ArgumentError(f"Cannot insert from an empty array!, at {user_line()}")
    if not x.size:
        return
    chosen = where.ravel()
    nth = (chosen.call("astype", dtype="int64").call("cumsum", axis=0) - 1) % new.size
    values = gathering.take(new.ravel(), nth, mode="clip")
    x[...] = chosen.reshape(x.shape).call("where", values.reshape(x.shape), x)


# ---------------------------------------------------------------- functions of parts
@implements("apply_along_axis")
def apply_along_axis(func1d: Callable[..., Any], axis: Any, arr: Any, *args: Any, **kwargs: Any) -> Tensor:
    """Apply a function to each part along an axis, and put its result in that axis."""
    x = strong(lifted(arr)[0])
    along = shape_rules.normalize_axis("apply_along_axis", axis, x.ndim)
    others = tuple(n for k, n in enumerate(x.shape) if k != along)
    parts = shapes.moveaxis(x, along, -1).reshape((int(np.prod(others, dtype="int64")), x.shape[along]))
    if not parts.shape[0]:
        raise ShapeError(f"Cannot apply_along_axis when any iteration dimensions are 0, at {user_line()}")
    run = getattr(x, "_run", None)
    if parts.shape[0] <= UNROLLED_PARTS or run is None:
        values = [strong(lifted(func1d(parts[k], *args, **kwargs), x)[0]) for k in range(parts.shape[0])]
        made = shapes.stack(values)
    else:
        from jitfuse.tracing.control import combinators

        _, made = combinators.scan(run, lambda carry, part: (carry, func1d(part, *args, **kwargs)), (), parts, None,
                                   False)
    made = made.reshape((*others, *made.shape[1:]))
    rank = made.ndim - len(others)
    order = list(range(made.ndim))
    new = order[len(others) :]
    order = order[: len(others)]
    order[along:along] = new
    return made.call("transpose", axes=tuple(order)) if rank else made


@implements("apply_over_axes")
def apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> Tensor:
    """Apply a function of (array, axis) over axes one after the other; it reduces or keeps each axis."""
    x: Tensor = strong(lifted(a)[0])
    for axis in axes if isinstance(axes, list | tuple) else (axes,):
        result = func(x, axis)
        if result.ndim != x.ndim:
            result = shapes.expand_dims(result, axis)
            if result.ndim != x.ndim:
                raise ArgumentError(f"function is not returning an array of the correct shape, at {user_line()}")
        x = result
    return x

"""Uniform numbers of the process's state or of a key, and the arguments that all distributions share.

Owns which counters of Philox a draw reads. A key and the state have the same layout, int64[2]: 64 bits of Philox's key
and 32 bits of its counter. The counter's last word tells what is drawn: 0, 1, ... are the RNG calls of a function that
read the state, `_OF_KEYS` and those after it are the draws of a key.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitfuse.dtypes import kind, numpy_dtype
from jitfuse.errors import ArgumentError, DTypeError, ShapeError
from jitfuse.ir.rules.shape_rules import whole
from jitfuse.ir.semantics import reference
from jitfuse.random_state import state
from jitfuse.tracing.record.dtype_name import dtype_name
from jitfuse.tracing.record.recorder import active
from jitfuse.tracing.tensor.function_table import traced_among
from jitfuse.tracing.tensor.lifting import lift
from jitfuse.tracing.tensor.traced import fresh

if TYPE_CHECKING:
    from jitfuse.array_api.signatures import ArrayLike

Shape = int | Sequence[int]
_np: Any = np  # its type hints omit traced arrays
_OF_KEYS: Final = 2**31
SPLIT: Final = 2**31 - 1
"""The draw of a key that makes the keys split from it; distributions count their draws from 0."""
FOLD: Final = 2**31 - 2
"""The draw of a key that numbers are folded into."""


# ---------------------------------------------------------------- draws
def drawn(name: str, shape: tuple[int, ...], key: Any, draw: Any = 0, dtype: str = "float64") -> Any:
    """Return numbers in [0, 1): draw number `draw` of a key, or the next numbers of the state."""
    if key is not None:
        return drawn_at(checked_key(name, key), _OF_KEYS + draw, shape, dtype)
    run = active()
    if run is not None:
        return fresh(run, run.emit("random_uniform", run.random_operands(), {"shape": shape, "dtype": dtype}))
    found = reference.random_uniform(state(), np.int64(0), shape=shape, dtype=dtype)
    state()[1] += 1
    return found


def drawn_at(key: Any, index: Any, shape: tuple[int, ...], dtype: str = "float64") -> Any:
    """Return the numbers of a checked key whose last word of the counter is `index`, an integer or a traced one."""
    run = active()
    if run is None:
        return reference.random_uniform(key, np.int64(index), shape=shape, dtype=dtype)
    last = run.scalar(index, "int64") if isinstance(index, int) else lift(run, index)._id()
    return fresh(run, run.emit("random_uniform", (key._id(), last), {"shape": shape, "dtype": dtype}))


def checked_key(name: str, key: Any) -> Any:
    """Return a key as an array of NumPy, or a traced one in a fused function; raise an error for what is none."""
    run, array = active(), array_of(key)
    made = "jf.random.key(seed) makes a key, jf.random.split(key) others"
    if str(array.dtype) != "int64":
        raise DTypeError(f"jf.random.{name}: a key is int64[2], not of {array.dtype}; {made}")
    if array.shape != (2,):
        raise ShapeError(f"jf.random.{name}: a key is int64[2], not of shape {tuple(array.shape)}; {made}. "
                         "Of several keys pass one, or use jf.map over them")
    return array if run is None else lift(run, array)


def joined(halves: Any) -> Any:
    """Return the key int64[..., 2] of two numbers in [0, 1), float64[..., 2]: 64 and 32 of their 106 bits."""
    bits = (halves * 2.0**53).astype("int64")
    first, second = bits[..., 0], bits[..., 1]
    return _np.stack([(first << 11) ^ (second >> 42), second & 0xFFFFFFFF], axis=-1)


# ---------------------------------------------------------------- arguments
def array_of(value: Any) -> Any:
    """Return a value as an array of NumPy, or as a traced one where it holds traced values."""
    run = active()
    return lift(run, value) if run is not None and traced_among(value) is not None else np.asarray(value)


def float_name(name: str, dtype: Any) -> str:
    """Return float32 or float64 for a dtype that is one of them; raise DTypeError for others."""
    found = dtype_name(dtype, f"jf.random.{name}")
    if found not in ("float32", "float64"):
        raise DTypeError(f"jf.random.{name} is made in float32 or float64, not {found}: draw one of them, then use "
                         f".astype({found!r})")
    return found


def extents(name: str, shape: Shape | None, *parameters: Any) -> tuple[int, ...]:
    """Return the shape of a result, for None that of the parameters; raise an error if they do not broadcast to it."""
    shapes = [tuple(np.shape(p)) for p in parameters]
    wanted = None if shape is None else tuple(map(whole, shape)) if isinstance(shape, Sequence) else (whole(shape),)
    if wanted is not None and any(n < 0 for n in wanted):
        raise ShapeError(f"jf.random.{name}: the shape {wanted} has a negative extent")
    try:
        found = np.broadcast_shapes(*shapes, *[] if wanted is None else [wanted])
    except ValueError:
        found = None
    if found is None or wanted not in (None, found):
        raise ShapeError(f"jf.random.{name}: parameters of shapes {', '.join(map(str, shapes))} do not broadcast to "
                         f"{'each other' if wanted is None else f'the shape {wanted}; shape=None takes theirs'}")
    return found


def parameter(name: str, what: str, value: ArrayLike, dtype: str = "float64") -> Any:
    """Return a parameter of a distribution in a dtype: an array or scalar of NumPy, or a traced one."""
    array = array_of(value)
    given = dtype_name(array.dtype, f"jf.random.{name}: {what}")
    if kind(given) not in ("bool", "int", "uint", "float"):
        raise DTypeError(f"jf.random.{name}: {what} is real, not of {given}")
    return array.astype(numpy_dtype(dtype))[()] if isinstance(array, np.ndarray) else array.astype(dtype)


def require(name: str, holds: Callable[..., Any], rule: str, *values: Any) -> None:
    """Raise ArgumentError where known values break a rule; traced ones are not known."""
    if traced_among(*values) is None and not np.all(holds(*values)):
        shown = " and ".join(str(v) if np.ndim(v) == 0 else f"an array from {np.min(v)} to {np.max(v)}" for v in values)
        raise ArgumentError(f"jf.random.{name}: {rule}, not {shown}")

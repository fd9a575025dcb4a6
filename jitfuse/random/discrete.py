"""Discrete distributions: integers, Bernoulli's, categorical, permutations."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from jitfuse.dtypes import is_integer
from jitfuse.errors import DTypeError, ShapeError
from jitfuse.ir.rules.shape_rules import normalize_axis, whole
from jitfuse.random.draws import Shape, array_of, drawn, extents, parameter, require
from jitfuse.tracing.record.dtype_name import dtype_name

if TYPE_CHECKING:
    from jitfuse.array_api.signatures import ArrayLike

_np: Any = np  # its type hints omit traced arrays


def integers(
    shape: Shape | None, low: ArrayLike, high: ArrayLike, dtype: Any = "int64", key: Any = None
) -> Any:
    """Return random integers in [low, high), each about as likely as the others.

    They are low + floor(u (high - low)) with u of 53 random bits: probabilities differ by (high - low) / 2^53 of
    themselves at most.

    Args:
        shape: an integer, or a sequence of integers; None: the shape of the parameters.
        low, high: integers, or arrays of integers that broadcast to the shape; both may be traced.
        dtype: a dtype of integers that holds them.
        key: int64[2], of `jf.random.key`; None: the state of the process.

    Returns:
        An array of NumPy of this shape; a traced array in a fused function.

    Raises:
        DTypeError: a dtype that has no integers, bounds that are none, or a key that is none.
        ShapeError: parameters that do not broadcast to the shape, a negative extent.
        ArgumentError: low >= high, more than 2^53 integers, or bounds outside of the dtype, where they are known.

    Example:
        >>> x = jf.random.integers(1000, 1, 7, key=jf.random.key(0))
        >>> int(x.min()), int(x.max()), x.dtype
        (1, 6, dtype('int64'))
    """
    name = dtype_name(dtype, "jf.random.integers")
    if not is_integer(name):
        raise DTypeError(f"jf.random.integers makes integers, not {name}: use jf.random.uniform, or dtype='int64'")
    bottom, top = _bound("low", low), _bound("high", high)
    require("integers", np.less, "low is below high", bottom, top)
    require("integers", lambda a, b: np.subtract(b, a, dtype="float64") <= 2**53,
            "at most 2^53 integers are between low and high", bottom, top)
    least, most = np.iinfo(name).min, np.iinfo(name).max
    require("integers", lambda a, b: (a >= least) & (b - 1 <= most),
            f"{name} holds all integers from low to below high", bottom, top)
    u = drawn("integers", extents("integers", shape, bottom, top), key)
    return (bottom + _np.floor(u * (top - bottom)).astype("int64")).astype(name)


def _bound(what: str, value: ArrayLike) -> Any:
    array = array_of(value)
    if not is_integer(str(array.dtype)):
        raise DTypeError(f"jf.random.integers: {what} is an int64, not of {array.dtype}")
    require("integers", lambda v: v <= 2**63 - 1, f"{what} is an int64", array)
    return parameter("integers", what, array, "int64")


def bernoulli(shape: Shape | None = (), p: ArrayLike = 0.5, key: Any = None) -> Any:
    """Return bools that are True with probability p: u < p, with u of 53 random bits.

    Args:
        shape: an integer, or a sequence of integers; None: the shape of p.
        p: a number in [0, 1], or an array that broadcasts to the shape; it may be traced.
        key: int64[2], of `jf.random.key`; None: the state of the process.

    Returns:
        An array of NumPy of this shape, bool; a traced array in a fused function.

    Raises:
        DTypeError: a p that is not real, or a key that is none.
        ShapeError: a p that does not broadcast to the shape, a negative extent.
        ArgumentError: a p outside of [0, 1], where it is known.

    Example:
        >>> x = jf.random.bernoulli(10_000, 0.25, key=jf.random.key(0))
        >>> x.dtype, bool(abs(x.mean() - 0.25) < 0.02)
        (dtype('bool'), True)
    """
    probability = parameter("bernoulli", "p", p)
    require("bernoulli", lambda v: (v >= 0) & (v <= 1), "p is in [0, 1]", probability)
    return drawn("bernoulli", extents("bernoulli", shape, probability), key) < probability


def categorical(shape: Shape | None, logits: ArrayLike, axis: int = -1, key: Any = None) -> Any:
    """Return indices along an axis, with probabilities softmax(logits): the largest logit after Gumbel noise.

    Args:
        shape: an integer, or a sequence of integers; None: the shape of the logits without the axis.
        logits: float array of unnormalised logarithms of probabilities; without the axis it broadcasts to the shape.
            It may be traced. Of minus infinity the index is never drawn, unless all are; a NaN is always drawn.
        axis: the axis of the categories.
        key: int64[2], of `jf.random.key`; None: the state of the process.

    Returns:
        An array of NumPy of this shape, int64; a traced array in a fused function.

    Raises:
        DTypeError: logits that are not real, or a key that is none.
        ShapeError: logits that do not broadcast to the shape, no axis, no category, a negative extent.

    Example:
        >>> x = jf.random.categorical(10_000, np.log([0.2, 0.8]), key=jf.random.key(0))
        >>> bool(abs(x.mean() - 0.8) < 0.02)
        True
    """
    scores = parameter("categorical", "logits", logits)
    scores = _np.moveaxis(scores, normalize_axis("jf.random.categorical", axis, np.ndim(scores)), -1)
    count = scores.shape[-1]
    if not count:
        raise ShapeError(f"jf.random.categorical: logits of shape {tuple(np.shape(logits))} have no category on axis "
                         f"{axis}")
    found = extents("categorical", shape, scores[..., 0])
    u = _np.maximum(drawn("categorical", (*found, count), key), 2.0**-54)  # the noise of 0 is infinite
    return _np.argmax(scores - _np.log(-_np.log1p(-u)), axis=-1)


def permutation(x: ArrayLike, axis: int = 0, key: Any = None) -> Any:
    """Return an array in random order along an axis, or the integers below n.

    The order is that of sorted numbers of 53 random bits. Equal ones keep their order, which for n elements happens
    with a probability of some n^2 / 2^54.

    Args:
        x: an array, also a traced one, of any dtype; or an int n.
        axis: the axis that is put in order, as a whole: rows stay rows.
        key: int64[2], of `jf.random.key`; None: the state of the process.

    Returns:
        An array of NumPy of the shape of x, or int64[n]; a traced array in a fused function.

    Raises:
        DTypeError: a key that is none.
        ShapeError: a negative n, an array without this axis.

    Example:
        >>> x = jf.random.permutation(5, key=jf.random.key(0))
        >>> sorted(x.tolist())
        [0, 1, 2, 3, 4]
    """
    if isinstance(x, int | np.integer):
        found = extents("permutation", whole(x))
        normalize_axis("jf.random.permutation", axis, 1)
        return _np.argsort(drawn("permutation", found, key), kind="stable")
    array = array_of(x)
    place = normalize_axis("jf.random.permutation", axis, np.ndim(array))
    order = _np.argsort(drawn("permutation", (np.shape(array)[place],), key), kind="stable")
    return _np.take(array, order, axis=place)

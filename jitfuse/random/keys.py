"""Keys: random states that a function passes on by itself, in place of the process's one."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from jitfuse.dtypes import is_integer
from jitfuse.errors import ArgumentError, DTypeError, ShapeError
from jitfuse.ir.rules.shape_rules import whole
from jitfuse.random import draws
from jitfuse.random_state import lower_64_bits
from jitfuse.tracing.tensor.function_table import traced_among

if TYPE_CHECKING:
    from jitfuse.array_api.signatures import ArrayLike

_np: Any = np  # its type hints omit traced arrays


def key(seed: ArrayLike) -> Any:
    """Return the key of a seed. What is drawn with a key is a function of the key.

    Args:
        seed: an integer, also a traced one; only its lower 64 bits count.

    Returns:
        The key: an int64[2] array of NumPy, or a traced one of a traced seed.

    Raises:
        DTypeError, ShapeError: what is no integer.

    Example:
        >>> key = jf.random.key(0)
        >>> bool(jf.random.uniform((), key=key) == jf.random.uniform((), key=key))
        True
    """
    number = _number("key", seed)
    return np.array([number, 0], "int64") if isinstance(number, int) else _np.stack([number, number * 0])


def split(key: Any, count: int = 2) -> Any:
    """Return independent keys that are made of one.

    Args:
        key: int64[2], of `jf.random.key` or another function of keys. Use it for nothing else afterwards, as a rule.
        count: how many. The first keys do not depend on it.

    Returns:
        An int64[count, 2] array, which may be unpacked.

    Raises:
        DTypeError, ShapeError: what is no key.
        ArgumentError: a negative count.

    Example:
        >>> first, second = jf.random.split(jf.random.key(0))
        >>> jf.random.uniform((), key=first) == jf.random.uniform((), key=second)
        np.False_
    """
    number = whole(count)
    if number < 0:
        raise ArgumentError(f"jf.random.split: the count of keys is not negative, as {number} is")
    return draws.joined(draws.drawn("split", (number, 2), draws.checked_key("split", key), draws.SPLIT))


def fold_in(key: Any, number: ArrayLike) -> Any:
    """Return the key that is made of a key and a number, such as that of a step or of a layer.

    Args:
        key: int64[2], of `jf.random.key` or another function of keys.
        number: an integer, also a traced one; its lower 64 bits count.

    Returns:
        A key: int64[2].

    Raises:
        DTypeError, ShapeError: what is no key, or no integer.

    Example:
        >>> noise = jf.fuse(lambda key, step: jf.random.normal(2, key=jf.random.fold_in(key, step)))
        >>> a, b = (noise(jf.random.key(0), step) for step in (1, 2))
        >>> bool((a == b).any())
        False
    """
    low = _number("fold_in", number)
    own = draws.joined(draws.drawn("fold_in", (2,), draws.checked_key("fold_in", key), draws.FOLD))
    # all bits of the number are in Philox's counter; the key is one that nothing else is drawn from
    numbered = _np.stack([own[0], low]) if traced_among(own, low) is not None else np.array([own[0], low], "int64")
    return draws.joined(draws.drawn_at(numbered, low >> 32, (2,)))


def _number(name: str, value: ArrayLike) -> Any:
    """Return an integer as an int of 64 bits, or as a traced int64 scalar."""
    if type(value) is int:
        return lower_64_bits(value)
    array = draws.array_of(value)
    if not is_integer(str(array.dtype)):
        raise DTypeError(f"jf.random.{name} takes an integer, not {array.dtype}")
    if array.shape != ():
        raise ShapeError(f"jf.random.{name} takes one integer, not an array of shape {tuple(array.shape)}; jf.map goes "
                         "over several")
    return lower_64_bits(int(array)) if isinstance(array, np.ndarray) else array.astype("int64")

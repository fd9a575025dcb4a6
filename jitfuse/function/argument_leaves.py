"""Maps the leaves of a call's arguments and keeps their containers.

Does not own what they are mapped to (`jitfuse.function.adapters`).
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from jitfuse.function.rng_state import is_generator
from jitfuse.tracing.record.device_array import HostArray
from jitfuse.tracing.record.foreign import is_torch_tensor

_LEAVES: Final = frozenset({np.ndarray, float, int, bool, str, type(None), np.float64, np.float32, np.int64, np.bool_})


def is_leaf(value: Any) -> bool:
    """Return whether an argument is known to hold no others."""
    return type(value) in _LEAVES or isinstance(value, HostArray) or is_generator(value) or is_torch_tensor(value)


def mapped(function: Callable[[Any], Any], tree: Any, made: dict[int, Any] | None = None) -> Any:
    """Return a tree with its leaves mapped; optree is imported for trees of more than plain containers.

    A container in which nothing changes stays the same object. A container that occurs several times stays one, and its
    leaves are mapped once: `made` holds the results so far.
    """
    kind = type(tree)
    if is_leaf(tree):
        return function(tree)
    made = {} if made is None else made
    if kind in (list, tuple, dict) or (isinstance(tree, tuple) and hasattr(kind, "_fields")):
        if id(tree) not in made:
            before = list(tree.values()) if kind is dict else list(tree)
            parts = [mapped(function, part, made) for part in before]
            same = all(part is old for part, old in zip(parts, before, strict=True))
            made[id(tree)] = tree if same else _container(tree, parts)
        return made[id(tree)]
    import optree

    return optree.tree_map(function, tree, none_is_leaf=True)


def _container(like: Any, parts: list[Any]) -> Any:
    """Return a container like another one, of other parts."""
    kind = type(like)
    if kind is dict:
        return dict(zip(like, parts, strict=True))
    return kind(parts) if kind in (list, tuple) else kind(*parts)

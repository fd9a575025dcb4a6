"""Returned containers that compiled calls cannot rebuild exactly; the function falls back to plain Python for them.

Owns which they are. Does not own result trees (`jitfuse.tracing.results.returned`), which hold containers, their items
and dataclasses' fields, but nothing else of them.
"""
from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from typing import Any

from jitfuse.errors import ArgumentError
from jitfuse.tracing.results.returned import has_fields
from jitfuse.tracing.tensor.traced import TracedTensor


def reject_unlike(result: Any, is_leaf: Callable[[Any], bool]) -> None:
    """Raise ArgumentError for containers that would differ from those that the function returns.

    These are one object twice, attributes beyond items and fields, computed keys, and dicts with moved keys.
    """
    if type(result) is TracedTensor:
        return
    met: set[int] = set()
    todo = [("result", result)]
    while todo:
        path, tree = todo.pop()
        is_dict, is_data = isinstance(tree, dict), has_fields(tree)
        if not (is_dict or is_data or isinstance(tree, list | tuple | deque)) or is_leaf(tree):
            continue
        if id(tree) in met and not isinstance(tree, tuple):
            raise ArgumentError(f"{path} is a {type(tree).__name__} that the function returns twice: a compiled call "
                                "would return two. Return it once")
        met.add(id(tree))
        names = [f.name for f in sys.modules["dataclasses"].fields(tree)] if is_data else []
        more = [name for name in getattr(tree, "__dict__", ()) if name not in names]
        if more:
            raise ArgumentError(f"{path} is a {type(tree).__name__} with an attribute beside its "
                                f"{'fields' if names else 'items'}: {more[0]}")
        if is_dict and any(map(_is_computed, tree)):
            raise ArgumentError(f"{path} is a {type(tree).__name__} with a key that is a number of the call's, "
                                "computed or an argument")
        if is_dict and type(tree) is not dict and list(tree) != list(dict.keys(tree)):
            raise ArgumentError(f"{path} is a {type(tree).__name__} whose keys have been moved")
        parts = [(f".{name}", getattr(tree, name)) for name in names] if is_data else [
            (f"[{key!r}]", part) for key, part in (tree.items() if is_dict else enumerate(tree))]
        todo += [(path + step, part) for step, part in parts]


def _is_computed(key: Any) -> bool:
    return type(key) is TracedTensor or (isinstance(key, tuple | frozenset) and any(map(_is_computed, key)))

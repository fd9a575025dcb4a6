"""The variables of a model as people give them: numbers of states, names of states."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jitfuse.errors import ModelError


def read_states(states: Mapping[Any, Sequence[str]], sizes: Mapping[Any, int]) -> dict[Any, tuple[str, ...]]:
    """Return the names of states; raise ModelError where they do not fit."""
    for name, called in states.items():
        if name not in sizes:
            raise ModelError(f"names of states of {name!r}: the graph has no such variable")
        if isinstance(called, str) or not all(isinstance(state, str) for state in called):
            raise ModelError(f"names of states of {name!r}: give a sequence of texts, not {called!r}")
        if len(called) != sizes[name] or len(set(called)) < len(called):
            raise ModelError(f"{name!r} has {sizes[name]} states: give as many names, each another, not {[*called]}")
    return {name: tuple(called) for name, called in states.items()}


def read_sizes(sizes: Mapping[Any, int] | Sequence[int]) -> dict[Any, int]:
    """Return {variable: size}."""
    named = dict(sizes) if isinstance(sizes, Mapping) else dict(enumerate(sizes))
    for name, size in named.items():
        if not isinstance(size, int | np.integer) or isinstance(size, bool) or size < 1:
            raise ModelError(f"variable {name!r} has {size!r} states: give an integer from 1 on")
    return {name: int(size) for name, size in named.items()}

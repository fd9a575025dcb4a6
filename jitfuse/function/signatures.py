"""The signatures of one table, found by the shapes and values of their arguments.

Owns the search. Does not own the conditions of a signature (`jitfuse.compile.guards.matching`).
"""
from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jitfuse.base.floats import exact_text
from jitfuse.tracing.record.device_array import seen

if TYPE_CHECKING:
    from jitfuse.compile.interface import Specialisation
    from jitfuse.tracing.trace import Trace

_Parts = tuple[tuple[int, bool], ...]
"""Positions of arguments; of each whether its value counts, or its shape."""


class Signatures:
    """Signatures, the newest first.

    Which shapes and values a trace has fixed is one of few sets, as a rule the same for all: a call is looked up once
    for each of these, however many signatures there are.
    """

    def __init__(self) -> None:
        self._all: list[Specialisation] = []
        self._found: dict[_Parts, dict[Hashable, list[Specialisation]]] = {}

    def __iter__(self) -> Iterator[Specialisation]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def add(self, spec: Specialisation) -> None:
        """Add the newest signature."""
        self._all.insert(0, spec)
        parts, key = _fixed(spec.trace)
        self._found.setdefault(parts, {}).setdefault(key, []).insert(0, spec)

    def find(self, args: Sequence[Any], kwargs: Mapping[str, Any], training: bool | None) -> Specialisation | None:
        """Return the signature that a call matches, and the mode if one is given; else None."""
        for parts, known in self._found.items():
            for spec in known.get(_key(parts, args), ()):
                if spec.matches(args, kwargs, training):
                    return spec
        return None


def _fixed(trace: Trace) -> tuple[_Parts, Hashable]:
    """Return which arguments a trace has fixed, and to what."""
    found: list[tuple[int, bool, Hashable]] = []
    for feed, source in trace.feeds.items():
        chain = source.source
        if source.kind == "state" or chain.kind != "arg" or not isinstance(chain.value, int):
            continue
        if source.kind == "array":
            found.append((chain.value, False, tuple(source.meta.shape)))
        elif feed in trace.guarded_values:
            found.append((chain.value, True, exact_text(trace.guarded_values[feed])))
    found.sort(key=lambda part: part[:2])
    return tuple([part[:2] for part in found]), tuple([part[2] for part in found])


def _key(parts: _Parts, args: Sequence[Any]) -> Hashable:
    if parts and parts[-1][0] >= len(args):
        return None
    return tuple([_value(args[k]) if by_value else _shape(seen(args[k])) for k, by_value in parts])


def _value(found: Any) -> str | None:
    return exact_text(found) if type(found) in (bool, int, float, complex) else None


def _shape(found: Any) -> tuple[int, ...] | None:
    return found.shape if type(found) is np.ndarray else None

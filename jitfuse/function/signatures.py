"""The signatures of one table, found by the shapes and values of their arguments.

Owns the search. Does not own the conditions of a signature (`jitfuse.compile.guards.matching`).
"""
from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitfuse.base.floats import exact_text
from jitfuse.tracing.record.device_array import seen

if TYPE_CHECKING:
    from jitfuse.compile.interface import Specialisation
    from jitfuse.tracing.trace import Trace

_Parts = tuple[tuple[int, str], ...]
"""Positions of arguments; of each what counts: its shape, its value or its length."""


class Signatures:
    """Signatures, the newest first.

    Which shapes, values and lengths a trace has fixed is one of few sets, as a rule the same for all: a call is looked
    up once for each of these, however many signatures there are.
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
    """Return what of which arguments a trace has fixed, and to what."""
    found: list[tuple[int, str, Hashable]] = []
    for feed, source in trace.feeds.items():
        at = _position(source.source) if source.kind != "state" else None
        if at is None:
            continue
        if source.kind == "array":
            found.append((at, "shape", tuple(source.meta.shape)))
        elif feed in trace.guarded_values:
            found.append((at, "value", exact_text(trace.guarded_values[feed])))
    for guard in trace.guards:
        at = _position(guard.chain)
        if at is not None and guard.kind in _BY_GUARD:
            how = _BY_GUARD[guard.kind]
            found.append((at, how, guard.expected if how == "length" else _value(guard.expected)))
    found.sort(key=lambda part: part[:2])
    return tuple([part[:2] for part in found]), tuple([part[2] for part in found])


def _position(source: Any) -> int | None:
    """Return the position of a positional argument that a chain leads to; None for another chain."""
    return source.value if source.kind == "arg" and isinstance(source.value, int) else None


def _key(parts: _Parts, args: Sequence[Any]) -> Hashable:
    if parts and parts[-1][0] >= len(args):
        return None
    return tuple([_READS[how](args[k]) for k, how in parts])


def _value(found: Any) -> Hashable:
    if type(found) in (bool, int, float, complex):
        return exact_text(found)
    if isinstance(found, np.generic):
        return found.dtype, found.tobytes()
    return found if type(found) is str else None


def _shape(found: Any) -> tuple[int, ...] | None:
    array = seen(found)
    return array.shape if type(array) is np.ndarray else None


def _length(found: Any) -> int | None:
    return len(found) if isinstance(found, dict | list | tuple) else None


_READS: Final[dict[str, Callable[[Any], Hashable]]] = {"shape": _shape, "value": _value, "length": _length}
_BY_GUARD: Final = {"EQ": "value", "LEN": "length"}

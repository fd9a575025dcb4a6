"""Why a call matches no known signature: which conditions fail.

Owns the comparison and its words. It is made when the call comes, because arguments are not kept. The matching itself
is in `jitfuse.compile.pipeline`.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import numpy as np

from jitfuse.base.floats import exact_text
from jitfuse.tracing.interception.chain import Chain
from jitfuse.tracing.record.device_array import seen

_PYTHON_NAMES: Final = {"float64": "float", "int64": "int", "complex128": "complex", "bool": "bool"}
_COMPARED: Final = 4
"""The latest signatures, with which a call is compared."""


def mismatches(specs: Iterable[Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """Return why a call does not match its nearest signature: one line per condition."""
    nearest: tuple[str, ...] | None = None
    for spec in islice(specs, _COMPARED):
        failed = tuple(_failed(spec, args, kwargs))
        if nearest is None or len(failed) < len(nearest):
            nearest = failed
        if len(nearest) == 1:
            break  # none is nearer
    return nearest or ()


def _failed(spec: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[str]:
    trace = spec.trace
    if len(args) != trace.positional:
        yield f"positional arguments: were {trace.positional}, are {len(args)}"
    if tuple(kwargs) != trace.keywords:
        yield f"keyword arguments: were {', '.join(trace.keywords) or 'none'}, are {', '.join(kwargs) or 'none'}"
    fed = {str(source.source) for source in trace.feeds.values()}
    for guard in trace.guards:
        why = guard.why_failed(args, kwargs)
        if why is not None and not (guard.kind == "TYPE" and str(guard.chain) in fed):
            yield why
    for feed, source in trace.feeds.items():
        if isinstance(source.source, Chain):
            why = _feed_failed(trace, feed, args, kwargs)
            if why is not None:
                yield f"{source.source}: {why}"
    for chain, feed in trace.aliases:
        other = trace.feeds[feed].source
        if not _is_same(chain, other, args, kwargs):
            yield f"{chain}: was the same array as {other}, is another"
    if _overlap(spec, args, kwargs):
        yield "arrays that are written share memory with others, and did not before"


def _is_same(a: Chain, b: Chain, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    try:
        return a.resolve(args, kwargs) is b.resolve(args, kwargs)
    except Exception:
        return False


def _overlap(spec: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Tell whether written arrays share memory with others, where all can be read."""
    try:
        return not spec.conditions.disjoint(args, kwargs)
    except Exception:
        return False


def _feed_failed(trace: Any, feed: int, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
    source = trace.feeds[feed]
    try:
        value = seen(source.source.resolve(args, kwargs))
    except Exception:
        return "cannot be read any more"
    was, now = _described_feed(source), _described(value)
    if was != now:
        return f"was {was}, is {now}"
    if source.kind == "array":
        if value.strides != source.strides:
            return f"strides were {source.strides}, are {value.strides} bytes"
        if feed in trace.guarded_values and value.tobytes() != trace.guarded_values[feed]:
            return "has other values, and Python read them"
        return None if value.flags.writeable or feed not in trace.program.writes else "is read-only and is written"
    if feed in trace.guarded_values and exact_text(value) != exact_text(trace.guarded_values[feed]):
        return f"was {trace.guarded_values[feed]!r}, is {value!r}, and Python read it"
    low, high = trace.int_ranges.get(feed, (None, None))
    if low is not None and type(value) is int and not low <= value <= high:
        return f"was within {low} and {high}, is {value}"
    return None


def _described_feed(source: Any) -> str:
    if source.kind == "array":
        return f"{source.meta.dtype}{list(source.meta.shape)}"
    if source.kind == "numpy":
        return f"a NumPy {source.meta.dtype}"
    return f"a Python {_PYTHON_NAMES[source.meta.dtype]}"


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype.name}{list(value.shape)}"
    if isinstance(value, np.generic):
        return f"a NumPy {value.dtype.name}"
    return f"a Python {type(value).__name__}"

"""The ranges of Python loops that may be captured or vectorised.

Owns which ranges these are, and the checks of their ends. Does not own the loops
(`jitfuse.tracing.control.loop_capture`).
"""
from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from jitfuse.dtypes import integer_range, is_integer
from jitfuse.tracing.control.carried_numbers import BOUND, within_bound
from jitfuse.tracing.record.known_values import UnknownValueError, known_value
from jitfuse.tracing.record.recorder import Recorder
from jitfuse.tracing.record.try_blocks import is_caught
from jitfuse.tracing.record.value_reads import may_put_off
from jitfuse.tracing.scalars.branch_values import is_number
from jitfuse.tracing.tensor.lifting import lift
from jitfuse.tracing.tensor.traced import TracedTensor, fresh

if TYPE_CHECKING:
    from jitfuse.tracing.record.value_reads import Site

_FEW: Final = 4
"""Most iterations of a known range that Python runs itself, within or around a captured loop."""
_LONG: Final = 16
"""Fewest iterations of a known range that is captured, where long loops are wanted."""
_LONG_LOOP: Final = "a long loop"
_VECTORISED: Final = "a loop to vectorise"
WIDEST: Final = 1 << 22
"""Most iterations, over all nested loops together, that are vectorised: each value takes as many elements."""
Range = tuple[int, int, int | None, int]
"""The int64 tensors between which a loop counts; its variable's first value, if that is not the count; and the step."""


def may_loop(run: Recorder, site: Site) -> bool:
    """Return whether a loop may be captured."""
    return (run.breaker is not None and may_put_off(run) and not run.breaker.decides(site) and not run.session.torch
            and not is_caught())


def site_of_long(filename: str, line: int) -> Site:
    """Return the site by which a loop over a long known range is rejected: Python then runs it as any loop."""
    return _LONG_LOOP, filename, line


def site_within(run: Recorder, site: Site) -> Site:
    """Return the site by which a loop is rejected: inside of a loop that is being vectorised, that kind of site."""
    if run.loops and run.loops[0].site[0] == _VECTORISED:
        return _VECTORISED, str(site[0]), int(site[1])
    return site


def site_of_inner(filename: str, line: int) -> Site:
    """Return the site of a function that is to be inlined into the loops that call it."""
    return _VECTORISED, filename, line


def is_trial(sites: Iterable[Site]) -> bool:
    """Return whether all sites are those of attempts to vectorise a loop."""
    return all(site[0] == _VECTORISED for site in sites)


def range_to_vectorise(run: Recorder, loop_site: Site, args: tuple[Any, ...]) -> tuple[Site, Range, range] | None:
    """Return the site by which a loop is rejected, its range and the values of that, if it may be vectorised."""
    site = _VECTORISED, str(loop_site[0]), int(loop_site[1])
    if run.active_branches or run.loops or site in run.session.in_order or not may_loop(run, site):
        return None
    ends = [_guarded(run, arg) for arg in args]
    if any(type(end) is not int for end in ends) or (len(ends) == 3 and not ends[2]):
        return None
    values = range(*ends)
    if not _FEW <= len(values) <= WIDEST or max(abs(values[0]), abs(values[-1])) >= BOUND:
        return None
    count = run.scalar(len(values), "int64")
    if values.start == 0 and values.step == 1:
        return site, (run.scalar(0, "int64"), count, None, 1), values
    return site, (run.scalar(0, "int64"), count, run.scalar(values.start, "int64"), values.step), values


def range_of(
    run: Recorder, site: Site, around: bool, long: bool, args: tuple[Any, ...]
) -> tuple[Site, Range, bool] | None:
    """Return the site by which a loop is rejected, its range, and whether it is certain to have an iteration; None
    where Python should run it.

    `long`: the loop is to be captured though its range is known, and so are the loops in it.
    """
    site = site_within(run, site)
    if not may_loop(run, site):
        return None
    start, stop, step = args if len(args) == 3 else (args[0], args[1], 1) if len(args) == 2 else (0, args[0], 1)
    start, stop, step = (_known(run, v) for v in (start, stop, step))
    if type(step) is not int or not 0 < abs(step) < BOUND:
        return None
    certain = False
    if type(start) is type(stop) is int:
        length = len(range(start, stop, step)) if max(abs(start), abs(stop)) < BOUND else 0
        if length < _FEW or not (around or (run.loops and length > _FEW) or (long and length >= _LONG)):
            return None
        if site[0] != _VECTORISED and not around and (long or run.loops[-1].site[0] == _LONG_LOOP):
            site = site_of_long(str(site[0]), int(site[1]))
            if run.breaker is None or run.breaker.decides(site):
                return None
        certain = True
    low, high = _bound(run, start), _bound(run, stop)
    if low is None or high is None:
        return None
    if step == 1:
        return site, (low, high, None, 1), certain
    distance = run.emit("subtract", (high, low) if step > 0 else (low, high))
    distance = run.emit("add", (distance, run.scalar(abs(step) - 1, "int64")))
    count = run.emit("floor_divide", (distance, run.scalar(abs(step), "int64")))
    return site, (run.scalar(0, "int64"), count, low, step), certain


def _guarded(run: Recorder, value: Any) -> Any:
    """Return a number as a Python int where it is an argument, which is then guarded, or known while tracing."""
    feed = run.session.feeds.get(value._id()) if type(value) is TracedTensor else None
    return operator.index(value) if feed is not None and feed.kind == "python" and feed.meta.dtype == "int64" else (
        _known(run, value))


def _known(run: Recorder, value: Any) -> Any:
    """Return a number as a Python int where it is known while tracing."""
    if type(value) is TracedTensor:
        try:
            found = known_value(run.session, value._id())
        except UnknownValueError:
            return value
        return found if type(found) is int else value
    return value


def _bound(run: Recorder, value: Any) -> int | None:
    """Return an end of a range as a checked int64; None where Python rejects it, or where it is beyond `BOUND`."""
    if type(value) is int:
        return run.scalar(value, "int64") if abs(value) < BOUND else None
    if not is_number(value):
        return None
    x = lift(run, value)
    if not is_integer(x._meta.dtype):
        return None
    low, high = integer_range(x._meta.dtype)
    if low < -BOUND or high > BOUND:
        x = fresh(run, within_bound(run, x._id(), x._meta.dtype))
    return run.fit(x._id(), (), "int64")

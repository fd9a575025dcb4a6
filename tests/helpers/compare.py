"""Judge a fused program against plain NumPy: results, written arguments, errors.

What uses only + - * / sqrt, comparisons, casts, where and views of real numbers must give NumPy's bits. Elsewhere
results may differ as far as `slack` finds that the program's own statements allow. Owns the judgement.
"""
from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import optree
from programs import Program, quiet
from slack import is_inexact, parts, ranges

import jitfuse as jf
from jitfuse.dtypes import SUPPORTED

ABOUT_ELEMENTS = ("negative integer powers", "cannot convert float", "Python int too large", "All-NaN slice",
                  "out of bounds for")
"""Errors over single elements: those that no result needs are never computed, and raise nothing."""


@dataclass(frozen=True)
class Failure:
    """What went wrong: a kind that tells failures apart while a program is made smaller, and the details."""

    kind: str
    details: str


@dataclass
class Outcome:
    """What a call gave: leaves of its result with the container, the arguments after it, or an exception."""

    leaves: list[Any]
    container: Any
    arguments: list[Any]
    error: Exception | None = None


def call(function: Any, arguments: Sequence[Any], **kwargs: Any) -> Outcome:
    """Call a function; what it raises is part of the outcome."""
    try:
        result = function(*arguments, **kwargs)
    except Exception as error:
        return Outcome([], None, list(arguments), error)
    leaves, container = optree.tree_flatten(result)
    return Outcome(leaves, container, list(arguments))


def check(program: Program, shifts: Sequence[int] = (0, 1)) -> Failure | None:
    """Compare fused with plain for several draws of the elements; the second call must be the first one's kernel."""
    function = program.function()
    fused = jf.fuse(function)
    earlier: list[tuple[Any, Any]] = []
    overlapping = any(s.overlaps for s in program.sources)
    for number, shift in enumerate(shifts):
        with quiet():
            plain = call(function, program.arguments(shift))
            if plain.error is not None:  # what reaches no result may raise or not
                program = replace(program.live(), sources=program.sources)
                plain = call(program.function(), program.arguments(shift))
        if not {np.asarray(v).dtype.name for v in plain.leaves} <= set(SUPPORTED):
            return _judge_refusal(function, program.arguments(shift))
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of what needs no trace
            if overlapping:
                warnings.simplefilter("ignore", jf.FallbackWarning)
            got = call(fused, program.arguments(shift))
        failure = _judge(program, plain, got, shift)
        if failure is not None:
            return failure
        if got.error is None:
            stats = fused.stats()
            looked_at = any("number(" in s.text for s in program.sources)  # numbers may be: exponents, extents
            if not overlapping and ((stats["traces"] > 1 and not looked_at) or stats["fallbacks"]):
                return Failure("stats", f"call {number}: {stats}")
        earlier += [(v, np.copy(v)) for v in got.leaves if not overlapping]
    for value, before in earlier:
        if _wrong(parts(before), parts(value), np.zeros(parts(before).shape)).any():
            return Failure("overwritten", "a later call changed an earlier call's result")
    return None


def _judge_refusal(function: Any, arguments: Sequence[Any]) -> Failure | None:
    """Judge a program that has a dtype which jitfuse has not, or NumPy's 8 or 16 bits for an operator on bools."""
    with quiet():
        error = call(jf.fuse(function, strict=True), arguments).error
    return None if isinstance(error, jf.DTypeError) else Failure("no DTypeError", repr(error))


def _judge(program: Program, plain: Outcome, got: Outcome, shift: int) -> Failure | None:
    if plain.error is not None:
        assert not isinstance(plain.error, NameError), plain.error
        if got.error is None and any(reason in str(plain.error) for reason in ABOUT_ELEMENTS):
            return None
        if got.error is None:
            return Failure("no error", f"NumPy raises {plain.error!r}")
        if not isinstance(got.error, jf.JitfuseError | type(plain.error) | MemoryError):
            return Failure("untyped error", f"{got.error!r} for NumPy's {plain.error!r}")
        return None
    if got.error is not None:
        return Failure(f"raised {type(got.error).__name__}", f"{type(got.error).__name__}: {got.error}")
    if plain.container != got.container:
        return Failure("container", f"{got.container} for {plain.container}")
    every = [*plain.leaves, *plain.arguments]
    names = [*map(str, range(len(plain.leaves))), *(s.name for s in program.sources)]
    allowances = None
    for k, (name, expected, actual) in enumerate(zip(names, every, [*got.leaves, *got.arguments], strict=True)):
        shape = parts(expected).shape
        failure = _differs(name, expected, actual, np.zeros(shape), np.zeros(shape, bool))
        if failure is not None and failure.kind == "value":  # what may differ is found out where something does
            allowances = allowances or ranges(program, every, shift)
            failure = _differs(name, expected, actual, *allowances[k])
        if failure is not None:
            return failure
    return None


def _differs(name: str, expected: Any, actual: Any, allowed: Any, free: Any) -> Failure | None:
    if type(expected) is complex and isinstance(actual, np.complex128):
        expected = actual.dtype.type(expected)  # Python's complex numbers take np.float64 for a float
    if type(expected) is not type(actual) and not isinstance(expected, np.ndarray | np.generic):
        return Failure("type", f"result {name}: {actual!r} for {expected!r}")
    if isinstance(expected, np.generic) and not isinstance(actual, np.generic):
        return Failure("type", f"result {name}: {type(actual).__name__} for {type(expected).__name__}")
    a, b = np.asarray(expected), np.asarray(actual)
    if a.dtype != b.dtype:
        return Failure("dtype", f"result {name}: {b.dtype} for {a.dtype}")
    if a.shape != b.shape:
        return Failure("shape", f"result {name}: {b.shape} for {a.shape}")
    wrong = _wrong(parts(a), parts(b), allowed) & ~free
    if np.iscomplexobj(a):  # one NaN, whichever parts are: a minimum has both, where NumPy's keeps the other part
        wrong &= ~(np.isnan(a) & np.isnan(b))[..., None]
    if wrong.any():
        at = tuple(int(k) for k in np.argwhere(wrong)[0])
        a, b = parts(a), parts(b)
        first = f"first at {at}: {b[at]!r} for {a[at]!r}, allowed {allowed[at]!r}"
        return Failure("value", f"result {name}: {int(wrong.sum())} of {a.size} differ, {first}")
    return None


def _wrong(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], allowed: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return where parts b are not a: bits (NaN is NaN), or farther than allowed."""
    if not is_inexact(a.dtype):
        with np.errstate(all="ignore"):
            return (a != b) & ~(np.abs(a.astype("float64") - b.astype("float64")) <= allowed)
    same = (a == b) & ((np.signbit(a) == np.signbit(b)) | (allowed > 0)) | (np.isnan(a) & np.isnan(b))
    with np.errstate(all="ignore"):
        return ~same & ~(np.abs(a.astype("longdouble") - b.astype("longdouble")) <= allowed)

"""Judge a fused program against plain NumPy: results, written arguments, errors.

What uses only + - * / sqrt, comparisons, casts, where and views must give NumPy's bits. Elsewhere the tolerance
comes from the program itself: it is run again with every inexact result moved by a few units in the last place
(sums by what their terms allow), and the results may differ as far as these runs do. Owns that rule.
"""
from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import optree
from programs import GLOBALS, Program, quiet

import jitfuse as jf

DTYPES = ("float32", "float64", "int32", "int64", "bool", "float16", "int8", "int16", "uint8", "uint16", "uint32",
          "uint64")
ABOUT_ELEMENTS = ("negative integer powers", "cannot convert float")
"""Errors over single elements: those that no result needs are never computed, and raise nothing."""
ULPS = 6
"""Units in the last place by which NumPy and jitfuse may each be off in a transcendental function, and to spare."""
RUNS = 6


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
        if _wrong(before, np.asarray(value), np.zeros(before.shape)).any():
            return Failure("overwritten", "a later call changed an earlier call's result")
    return None


def _judge(program: Program, plain: Outcome, got: Outcome, shift: int) -> Failure | None:
    if plain.error is not None:
        if got.error is None and any(reason in str(plain.error) for reason in ABOUT_ELEMENTS):
            return None
        if got.error is None:
            return Failure("no error", f"NumPy raises {plain.error!r}")
        if not isinstance(got.error, jf.JitfuseError | type(plain.error)):
            return Failure("untyped error", f"{got.error!r} for NumPy's {plain.error!r}")
        return None
    kinds = [np.asarray(v).dtype.name for v in plain.leaves]
    if not set(kinds) <= set(DTYPES) and kinds != [np.asarray(v).dtype.name for v in got.leaves]:
        # a dtype that programs do not have, or an operator on bools that NumPy answers in 8 or 16 bits
        return None if isinstance(got.error, jf.DTypeError) else Failure("no DTypeError", repr(got.error))
    if got.error is not None:
        return Failure(f"raised {type(got.error).__name__}", f"{type(got.error).__name__}: {got.error}")
    if plain.container != got.container:
        return Failure("container", f"{got.container} for {plain.container}")
    ranges = _ranges(program, plain, shift)
    names = [*map(str, range(len(plain.leaves))), *(s.name for s in program.sources)]
    pairs = zip([*plain.leaves, *plain.arguments], [*got.leaves, *got.arguments], ranges, strict=True)
    for name, (expected, actual, (allowed, free)) in zip(names, pairs, strict=True):
        failure = _differs(name, expected, actual, allowed, free)
        if failure is not None:
            return failure
    return None


def _differs(name: str, expected: Any, actual: Any, allowed: Any, free: Any) -> Failure | None:
    if type(expected) is not type(actual) and not isinstance(expected, np.ndarray | np.generic):
        return Failure("type", f"result {name}: {actual!r} for {expected!r}")
    if isinstance(expected, np.generic) and not isinstance(actual, np.generic):
        return Failure("type", f"result {name}: {type(actual).__name__} for {type(expected).__name__}")
    a, b = np.asarray(expected), np.asarray(actual)
    if a.dtype != b.dtype:
        return Failure("dtype", f"result {name}: {b.dtype} for {a.dtype}")
    if a.shape != b.shape:
        return Failure("shape", f"result {name}: {b.shape} for {a.shape}")
    wrong = _wrong(a, b, allowed) & ~free
    if wrong.any():
        at = tuple(int(k) for k in np.argwhere(wrong)[0])
        first = f"first at {at}: {b[at]!r} for {a[at]!r}, allowed {allowed[at]!r}"
        return Failure("value", f"result {name}: {int(wrong.sum())} of {a.size} differ, {first}")
    return None


def _wrong(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], allowed: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return where b is not a: bits (NaN is NaN), or farther than allowed."""
    if a.dtype.kind != "f":
        with np.errstate(all="ignore"):
            return (a != b) & ~(np.abs(a.astype("float64") - b.astype("float64")) <= allowed)
    same = (a == b) & ((np.signbit(a) == np.signbit(b)) | (allowed > 0)) | (np.isnan(a) & np.isnan(b))
    with np.errstate(all="ignore"):
        return ~same & ~(np.abs(a.astype("longdouble") - b.astype("longdouble")) <= allowed)


# ---------------------------------------------------------------- what is allowed
def _ranges(program: Program, plain: Outcome, shift: int) -> list[tuple[Any, Any]]:
    """Return (largest allowed difference, elements that may be anything) of each result and argument."""
    values = [np.asarray(v) for v in (*plain.leaves, *plain.arguments)]
    allowed = [np.zeros(v.shape) for v in values]
    free = [np.zeros(v.shape, bool) for v in values]
    if not any(s.slack for s in program.statements):
        return list(zip(allowed, free))
    for k in range(RUNS):
        moved = _run_moved(program, shift, np.random.default_rng(k), k)
        for v, w, far, any_ in zip(values, moved, allowed, free, strict=True):
            with np.errstate(all="ignore"):
                apart = np.abs(v.astype("longdouble") - np.asarray(w).astype("longdouble")).astype("float64")
            same = (v == w) | ((v != v) & (w != w))
            # what a few units in the last place move by a twentieth is chance: remainders of large numbers
            any_ |= ~same & ~(apart <= np.abs(v) / 20) if v.dtype.kind == "f" else ~same & ~np.isfinite(apart)
            np.maximum(far, np.where(np.isfinite(apart), apart, 0), out=far)
            if v.dtype.kind == "f":
                tiny = float(np.finfo(v.dtype).smallest_subnormal)
                far[(far > 0) | (v == 0) & (np.signbit(v) != np.signbit(w))] += tiny
    return [(4 * far, any_) for far, any_ in zip(allowed, free)]


def _run_moved(program: Program, shift: int, rng: np.random.Generator, run: int) -> list[Any]:
    values = dict(zip((s.name for s in program.sources), program.arguments(shift), strict=True))
    arguments = list(values.values())
    names = dict(GLOBALS)
    with quiet():
        for s in program.statements:
            before = {n: values[n] for n in s.reads if n in values}
            exec(s.text, names, values)
            if s.slack:
                values[s.target] = _move(s.slack.split(), values[s.target], before, rng, run)
        result = eval(program.returned, names, values)
    return [*optree.tree_leaves(result), *arguments]


def _move(slack: Sequence[str], result: Any, before: dict[str, Any], rng: np.random.Generator, run: int) -> Any:
    """Return the result moved by about as much as its kind of operator may be off."""
    r = np.asarray(result)
    if r.dtype.kind != "f":
        return result
    # of another size in each run, so that what two steps do cannot cancel out in all of them
    sign = rng.choice((-1.0, 1.0), r.shape) * rng.uniform(0.3, 1.0) if run > 1 else (1.0, -1.0)[run]
    if slack[0] == "zero":
        return np.where(r == 0, np.copysign(r, sign), r).astype(r.dtype)[()]
    eps = float(np.finfo(r.dtype).eps)
    reach = _reach(slack, r, before)
    with np.errstate(all="ignore"):
        near = r + sign * np.where(np.isfinite(reach), reach, 0) * eps
    return np.where(np.isfinite(r), near, r).astype(r.dtype)[()]


def _reach(slack: Sequence[str], r: Any, before: dict[str, Any]) -> Any:
    """Return how far a result may be off, in units of epsilon."""
    kind, wide = slack[0], np.abs(r.astype("float64"))
    if kind == "ulp":
        return ULPS * wide + ULPS * float(np.finfo(r.dtype).smallest_subnormal) / float(np.finfo(r.dtype).eps)
    if kind == "operands":  # a sum of an operand and a logarithm, which may cancel
        return ULPS * (wide + sum(np.abs(np.asarray(v, "float64")) for v in before.values()) + 3)
    if kind == "softmax":
        return (64 + r.shape[int(slack[1])]) * wide
    if kind == "einsum":
        a, b = (np.abs(np.asarray(before[n], "float64")) for n in slack[2:])
        return (np.einsum(slack[1], a, b) + wide) * (a.size + b.size + 1)
    if kind == "matmul":
        a, b = (np.abs(np.asarray(before[n], "float64")) for n in slack[1:])
        return (np.matmul(a, b) + wide) * (a.shape[-1] + 1)
    if kind == "normalised":  # of numbers up to 3, over a root of at least 0.001
        return 1000 * (4 + r.shape[int(slack[1])]) * np.ones(r.shape)
    x = np.asarray(before[slack[1]], "float64")
    if kind.startswith("nan"):
        kind, x = kind[3:], np.where(np.isnan(x), 0, x)
    axis, keepdims = eval("".join(slack[2:-1])), slack[-1] == "True"
    n = max(x.size // max(r.size, 1), 1)
    if kind == "prod":
        return n * wide
    if kind in ("var", "std"):
        square = np.mean(x * x, axis=axis, keepdims=keepdims)
        reach = n * ((wide if kind == "var" else wide * wide) + square + square * n * float(np.finfo(r.dtype).eps))
        if kind == "var":
            return reach
        eps = float(np.finfo(r.dtype).eps)  # sqrt(v + reach * eps) - sqrt(v), in units of epsilon
        return np.minimum(reach / np.maximum(wide, 1e-300), np.sqrt(reach / eps)) + wide
    total = np.sum(np.abs(x), axis=axis, keepdims=keepdims)
    return (total + wide) * n if kind == "sum" else (total / n + wide) * n

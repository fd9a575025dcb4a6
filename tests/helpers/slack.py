"""How far results of a program may be off: what its own statements are allowed, carried through the program.

The program is run again with every inexact result moved by a few units in the last place (sums by what their terms
allow), and with what no rule fixes (signs of NaNs, casts out of range, sums that overflow on the way) drawn at random.
Owns the kinds of slack that statements name and the ranges that follow. Does not own the judgement (`compare`).
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import optree
from programs import GLOBALS, Program, quiet

ULPS = 6
"""Units in the last place by which NumPy and jitfuse may each be off in a transcendental function, and to spare."""
RUNS = 20
_LIMITS: dict[str, tuple[float, float, float]] = {}


def is_inexact(dtype: Any) -> bool:
    """Return whether a NumPy dtype holds floats or complex numbers, bfloat16 included."""
    return dtype.kind in "fc" or dtype.name == "bfloat16"


def limits(dtype: Any) -> tuple[float, float, float]:
    """Return (epsilon, smallest positive number, largest number) of an inexact dtype."""
    found = _LIMITS.get(dtype.name)
    if found is None:
        info: Any = ml_dtypes.finfo(dtype) if dtype.name == "bfloat16" else np.finfo(dtype)
        found = _LIMITS[dtype.name] = float(info.eps), float(info.smallest_subnormal), float(info.max)
    return found


def parts(value: Any) -> Any:
    """Return what is compared: real numbers themselves (bfloat16 as float32), complex ones as pairs on a last axis."""
    v = np.asarray(value)
    if v.dtype.kind == "c":
        return np.stack([v.real, v.imag], axis=-1)
    return v.astype("float32") if v.dtype.name == "bfloat16" else v


def magnitude(value: Any) -> Any:
    """Return absolute values in float64; of complex numbers their distance from zero."""
    v = np.asarray(value)
    return np.abs(v.astype("complex128" if v.dtype.kind == "c" else "float64"))


def complex_slack(name: str, operand: str) -> str:
    """Return the slack of a function of complex numbers: some cancel, and exp2 turns by a rounded angle in NumPy."""
    special = {"log1p": "operands", "expm1": "operands", "exp2": f"power 2 {operand}", "square": "rounded"}
    return special.get(name, "ulp")


# ---------------------------------------------------------------- what is allowed
def ranges(program: Program, values: Sequence[Any], shift: int) -> list[tuple[Any, Any]]:
    """Return (largest allowed difference, elements that may be anything) of the parts of each result and argument."""
    plain = [parts(v) for v in values]
    allowed = [np.zeros(v.shape) for v in plain]
    free = [np.zeros(v.shape, bool) for v in plain]
    if not any(s.slack or "sign" in s.text for s in program.statements):
        return list(zip(allowed, free))
    for k in range(RUNS):
        try:
            moved = _run_moved(program, shift, np.random.default_rng(k), k)
        except (ValueError, ArithmeticError):  # about elements that happen to be NaN now
            return [(far, np.ones_like(any_)) for far, any_ in zip(allowed, free)]
        for value, v, w, far, any_ in zip(values, plain, map(parts, moved), allowed, free, strict=True):
            with np.errstate(all="ignore"):
                apart = np.abs(v.astype("longdouble") - w.astype("longdouble")).astype("float64")
            same = (v == w) | ((v != v) & (w != w))
            # what a few units in the last place move by a twentieth is chance: remainders of large numbers
            inexact = is_inexact(v.dtype)
            any_ |= ~same & ~(np.isfinite(apart) & ((apart <= _size(value, v) / 20) | (not inexact)))
            np.maximum(far, np.where(np.isfinite(apart), apart, 0), out=far)
            if inexact:
                far[(far > 0) | (v == 0) & (np.signbit(v) != np.signbit(w))] += limits(np.asarray(value).dtype)[1]
    for value, far in zip(values, allowed, strict=True):
        if np.iscomplexobj(value):  # the distance counts, not that of one part
            far[...] = far.max(axis=-1, keepdims=True)
    with np.errstate(over="ignore"):
        return [(4 * far, any_) for far, any_ in zip(allowed, free)]


def _size(value: Any, v: Any) -> Any:
    """Return the size of each element, for both parts of a complex number that of the number."""
    with np.errstate(all="ignore"):
        return magnitude(value)[..., None] if np.iscomplexobj(value) else np.abs(v.astype("longdouble"))


def _run_moved(program: Program, shift: int, rng: np.random.Generator, run: int) -> list[Any]:
    values = dict(zip((s.name for s in program.sources), program.arguments(shift), strict=True))
    arguments = list(values.values())
    names = dict(GLOBALS)
    with quiet():
        for s in program.statements:
            before = {n: values[n] for n in s.reads if n in values}
            exec(s.text, names, values)
            result = values[s.target]
            if s.changes and s.slack and isinstance(result, np.ndarray):
                result[...] = _move(s.slack.split(), result, before, rng, run)
            elif s.slack:
                moved = _move(s.slack.split(), result, before, rng, run)
                values[s.target] = np.asarray(moved) if isinstance(result, np.ndarray) else moved
            elif not s.changes and not _is_shared(result, before):
                values[s.target] = _with_signs_of_nans(result, rng)
        result = eval(program.returned, names, values)
    return [*optree.tree_leaves(result), *arguments]


def _is_shared(result: Any, before: dict[str, Any]) -> bool:
    """Return whether a result may be memory of another value, which a later statement may write to."""
    return getattr(result, "base", None) is not None or any(result is v for v in before.values())


def _with_signs_of_nans(result: Any, rng: np.random.Generator) -> Any:
    """Return the result with NaNs of any sign: no rule says which one a NaN has."""
    r = np.asarray(result)
    if r.dtype.kind != "f" or not np.isnan(r).any():
        return result
    return np.where(np.isnan(r) & (rng.random(r.shape) < 0.5), -r, r)[()]


def _move(slack: Sequence[str], result: Any, before: dict[str, Any], rng: np.random.Generator, run: int) -> Any:
    """Return the result moved by about as much as its kind of operator may be off."""
    r = np.asarray(result)
    if slack[0] == "cast":
        return _scrambled(result, _out_of_range(before[slack[1]], r.dtype), rng, run)
    if not is_inexact(r.dtype):
        return result
    near = _near(slack, r, before, rng, run)
    if slack[0] in _UNBOUNDED:
        near = _scrambled(near, _overflows(slack[0], slack[1:], r, before), rng, run)
        # the products of a non-finite number and sums of others: NumPy sums first in places
        return _scrambled(near, ~np.isfinite(r), rng, run) if slack[0] == "einsum" else near
    if slack[0] == "power":  # of a turn by many radians no digit is left; infinite operands are NumPy's own business
        a, b = (np.isfinite(eval(text, {}, before)) for text in slack[1:])
        lost = _turn(slack, before) * limits(r.dtype)[0] > 0.02
        return _scrambled(near, lost | ~(a & b & np.isfinite(r)), rng, run)
    if slack[0] in ("rounded", "operands", "scaled") and r.dtype.kind == "c":
        # products on the way to it may overflow, and cancel; expm1 at infinity is NaN in NumPy
        return _scrambled(near, ~np.isfinite(r), rng, run)
    if slack[0] == "zero" and r.dtype.kind == "c":
        return _scrambled(near, np.isnan(r), rng, run)
    return near


def _near(slack: Sequence[str], r: Any, before: dict[str, Any], rng: np.random.Generator, run: int) -> Any:
    split = parts(r)
    # of another size in each run, so that what two steps do cannot cancel out in all of them
    sign = rng.choice((-1.0, 1.0), split.shape) * rng.uniform(0.3, 1.0) if run > 1 else (1.0, -1.0)[run]
    if slack[0] == "zero":
        moved = np.where(split == 0, np.copysign(split, sign), split)
    else:
        with np.errstate(all="ignore"):
            if slack[0] == "scaled":  # a complex number times a real one: its parts apart
                reach = _reach(["ulp"], split, before) * limits(r.dtype)[0]
            else:
                reach = _reach(slack, r, before) * limits(r.dtype)[0]
                reach = reach[..., None] if r.dtype.kind == "c" else reach
            # beside an infinite part the other has a size of its own
            own = np.where(np.isfinite(split), ULPS * limits(r.dtype)[0] * np.abs(split), 0)
            moved = split + sign * np.where(np.isfinite(reach), reach, own)
            if run == RUNS - 2:  # to nothing, where rounding is all that is left of a sum that cancels
                moved = np.where(np.abs(split) <= np.where(np.isfinite(reach), reach, own), 0 * split, split)
            if run == RUNS - 1:  # onto the round number nearby, which comparisons may be about
                wide = split.astype("float64")
                near = np.where(np.isfinite(reach), reach, own)
                moved = np.where(np.abs(np.round(wide, 6) - wide) <= near, np.round(wide, 6), split)
            if slack[0] in _UNBOUNDED:  # sums that begin with 0 have no -0.0
                moved = np.where(moved == 0, np.copysign(moved, sign), moved)
            moved = np.where(np.isfinite(split), moved, split)
            if r.dtype.kind == "f":
                moved = np.where(np.isnan(split) & (rng.random(split.shape) < 0.5), -split, moved)
    if r.dtype.kind == "c":
        moved = moved[..., 0] + 1j * moved[..., 1] if np.isfinite(moved).all() else _joined(moved)
    with np.errstate(all="ignore"):
        return moved.astype(r.dtype)[()]


def _joined(split: Any) -> Any:
    joined = np.empty(split.shape[:-1], "complex128")
    joined.real, joined.imag = split[..., 0], split[..., 1]
    return joined


def _scrambled(result: Any, where: Any, rng: np.random.Generator, run: int) -> Any:
    """Return the result with other elements where nothing says what they are."""
    r = np.asarray(result)
    if not np.any(where):
        return result
    wild: Any = np.array((np.nan, 0.0, np.inf, 7.0, -3e4))
    if r.dtype.kind == "c":
        wild = np.array((complex(np.nan, np.nan), 0.0, complex(np.inf, -np.inf), 7 - 2j, -3e4 + 5j))
    elif not is_inexact(r.dtype):
        wild = np.array((0, np.iinfo(r.dtype).max), r.dtype)
    with np.errstate(all="ignore"):
        if run < len(wild):
            return np.where(where, wild[run].astype(r.dtype), r)[()]
        # not all of them in later runs, so that what statements do with each is seen too
        return np.where(where & (rng.random(r.shape) < 0.7), rng.choice(wild, r.shape).astype(r.dtype), r)[()]


def _out_of_range(source: Any, dtype: Any) -> Any:
    """Return where a cast of floats to unsigned integers has no answer: NumPy's depends on the place in the array."""
    wide = np.asarray(source)
    wide = (wide.real if wide.dtype.kind == "c" else wide).astype("float64")
    return ~((wide > -1) & (wide < 2.0 ** (8 * dtype.itemsize)))


# ---------------------------------------------------------------- kinds of slack
_UNBOUNDED = ("sum", "mean", "var", "std", "nansum", "nanmean", "nanvar", "nanstd", "prod", "matmul", "einsum",
              "product", "nanprod")
"""Kinds whose terms may overflow on the way in one order and not in another."""


def _overflows(kind: str, names: Sequence[str], r: Any, before: dict[str, Any]) -> Any:
    """Return where the sum of the sizes of all terms is past the largest number, or near it."""
    with np.errstate(all="ignore"):
        if kind == "product":
            total = magnitude(eval(names[0], {}, before)) * magnitude(eval(names[1], {}, before))
        elif kind == "einsum":
            total = np.einsum(names[0], *(_bounded(before[n]) for n in names[1:]))
        elif kind == "matmul":
            total = np.matmul(*(_bounded(before[n]) for n in names))
        elif kind in ("prod", "nanprod"):
            return np.zeros(r.shape, bool)
        else:
            x = _bounded(before[names[0]])
            power = 2 if kind.endswith(("var", "std")) else 1
            axis, keepdims = eval("".join(names[1:-1])), names[-1] == "True"
            total = np.sum(x**power, axis=axis, keepdims=keepdims)
        largest = min(limits(r.dtype)[2], limits(np.dtype("float32"))[2] if r.dtype.itemsize == 2 else np.inf)
        return total > largest / 8


def _bounded(value: Any) -> Any:
    """Return magnitudes without what is not finite: a sum with it has one answer in every order."""
    x = magnitude(value)
    return np.where(np.isfinite(x), x, 0)


def _turn(slack: Sequence[str], before: dict[str, Any]) -> Any:
    """Return the size of b log(a), of which a power of complex numbers is the exponential."""
    with np.errstate(all="ignore"):
        a, b = (np.asarray(eval(text, {}, before), "complex128") for text in slack[1:])
        turn = np.abs(b * np.log(a))
        return np.where(np.isfinite(turn), turn, 0)


def _reach(slack: Sequence[str], r: Any, before: dict[str, Any]) -> Any:
    """Return how far a result may be off, in units of epsilon."""
    kind, wide = slack[0], magnitude(r)
    eps, smallest, _ = limits(r.dtype)
    least = ULPS * smallest / eps
    if kind in ("ulp", "rounded"):
        return ULPS * wide + least
    if kind == "operands":  # a sum of an operand and a logarithm, which may cancel
        return ULPS * (wide + sum(magnitude(v) for v in before.values()) + 3)
    if kind == "product":
        return ULPS * magnitude(eval(slack[1], {}, before)) * magnitude(eval(slack[2], {}, before)) + least
    if kind == "power":  # of complex numbers: exp(b log(a))
        return ULPS * wide * (4 + _turn(slack, before)) + least
    if kind == "softmax":
        return (64 + r.shape[int(slack[1])]) * wide
    if kind == "einsum":
        a, b = (magnitude(before[n]) for n in slack[2:])
        return (np.einsum(slack[1], a, b) + wide + least) * (a.size + b.size + 1)  # each product may be a denormal
    if kind == "matmul":
        a, b = (magnitude(before[n]) for n in slack[1:])
        return (np.matmul(a, b) + wide + least) * (a.shape[-1] + 1)
    if kind == "library":  # of well conditioned matrices, and of transforms: relative to the largest number
        return 300 * np.max(wide, initial=1, where=np.isfinite(wide)) * np.ones(r.shape)
    if kind == "normalised":  # of numbers up to 3, over a root of at least 0.001
        return 1000 * (4 + r.shape[int(slack[1])]) * np.ones(r.shape)
    x = magnitude(before[slack[1]])
    if kind.startswith("nan"):
        kind, x = kind[3:], np.where(np.isnan(x), 0, x)
    axis, keepdims = eval("".join(slack[2:-1])), slack[-1] == "True"
    n = max(x.size // max(r.size, 1), 1)
    if kind == "prod":
        return n * wide
    if kind in ("var", "std"):
        square = np.mean(x * x, axis=axis, keepdims=keepdims)
        reach = n * ((wide if kind == "var" else wide * wide) + square + square * n * eps)
        if kind == "var":
            return reach
        # sqrt(v + reach * eps) - sqrt(v), in units of epsilon
        return np.minimum(reach / np.maximum(wide, 1e-300), np.sqrt(reach / eps)) + wide
    total = np.sum(x, axis=axis, keepdims=keepdims)
    return (total + wide) * n if kind == "sum" else (total / n + wide) * n

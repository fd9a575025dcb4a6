"""Random operations over named axes, of small arrays, nearly all well formed: what the judge and jitfuse are asked.

Sides are drawn from flat parts, which are put into arrays as products, sums and orders at random, so that most fit
together; the judge says which do, and draws that it refuses are kept as tests of errors for a small share.
"""
from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import NamedTuple

from axes.oracle import Judged, Verdict
from axes.parts import wholes
from axes.sides import SIDES, Draw, Leaf
from axes.sizes import AmbiguousError, InconsistentError, TooHardError, size_of, solve
from axes.sources import RefusedError, UnclearError
from axes.terms import (
    Array,
    Axis,
    Number,
    Operation,
    Pack,
    Product,
    Side,
    Sum,
    Term,
    can_be_written,
    leaves,
    names,
)

KINDS = ("view", "rearrange", "repeat", "reduce", "contract", "einop")
REFUSED = 0.05
"""The share of operations that the page refuses."""
ELEMENTS, ITERATIONS = 300, 3000
"""The most of an array, and of the index space of one part."""
class Pattern(NamedTuple):
    """An operation, its arrays as Python expressions over `np`, and their dtype."""

    operation: Operation
    arrays: tuple[str, ...]
    dtype: str
    shapes: tuple[tuple[int, ...], ...]


DTYPES = ("int64", "int32", "int8", "bool", "float32", "float64", "complex64", "complex128")


def _reducer(draw: Draw, dtype: str, gone: list[Leaf]) -> str | tuple[tuple[tuple[Axis | Pack, ...], str], ...]:
    kind = dtype.rstrip("0123456789")
    allowed = ["sum", "mean", "prod", "any", "all", "squares", "var"]
    if kind == "bool":
        allowed = ["sum", "mean", "any", "all", "max", "min"]
    elif kind != "complex":
        allowed += ["max", "min", "logsumexp"]
    named = list(dict.fromkeys(leaf for leaf in gone if not isinstance(leaf, Number)))
    if len(named) == len(gone) and len(named) > 1 and draw.chance(0.4) and kind in ("int", "float"):
        order = draw.shuffled(named)
        at = draw.rng.randint(1, len(order) - 1)
        smooth = ["sum", "mean", "max", "min"]
        return tuple((tuple(axes), draw.rng.choice(smooth)) for axes in (order[:at], order[at:]))  # type: ignore[misc]
    return draw.rng.choice(allowed)


def _gone(left: Side, right: Side) -> list[Leaf] | None:
    """Return what one part on the left has more than one on the right; None of more parts."""
    if len(left) != 1 or len(right) != 1 or any(isinstance(t, Sum) for t in _subterms((*left[0], *right[0]))):
        return None
    there = {leaf for term in right[0] for leaf in leaves(term)}
    return [leaf for term in left[0] for leaf in leaves(term) if leaf not in there and leaf != Number(1)]


def _subterms(terms: Sequence[Term]) -> list[Term]:
    found: list[Term] = []
    for term in terms:
        found.append(term)
        if isinstance(term, (Product, Sum)):
            found += _subterms(term.of)
    return found


def _values(rng: random.Random, count: int, dtype: str, kind: str, reducer: object) -> str:
    """Return a NumPy expression of numbers whose sums and products are exact, different ones where they only move."""
    drawn = f"np.random.default_rng({rng.randrange(1000)})"
    if dtype == "bool":
        return f"({drawn}.random({count}) < 0.5)"
    if kind in ("view", "rearrange", "repeat") and dtype != "int8":
        return f"({drawn}.permutation({count}) + 1)"
    few = "[-1, 1, 2]" if reducer == "prod" or kind in ("contract", "einop") else "range(-3, 4)"
    if dtype.startswith("complex"):
        return f"({drawn}.choice({few}, {count}) + 1j * {drawn}.choice([-1, 0, 1], {count}))"
    return f"{drawn}.choice({few}, {count})" + (" / 4" if dtype.startswith("float") and reducer != "prod" else "")


def _expression(rng: random.Random, shape: tuple[int, ...], dtype: str, kind: str, reducer: object) -> str:
    """Return a NumPy expression of an array of the shape, in one of several layouts."""
    layout = rng.choice(("plain", "plain", "fortran", "transposed", "negative", "broadcast", "stepped"))
    rank, after = len(shape), ""
    stored = list(shape)
    if layout == "transposed" and rank > 1:
        order = rng.sample(range(rank), rank)
        stored = [0] * rank
        for at, axis in enumerate(order):
            stored[axis] = shape[at]
        after = f".transpose({', '.join(map(str, order))})"
    elif layout == "negative" and rank:
        after = "[" + ", ".join(rng.choice((":", "::-1")) for _ in shape) + "]"
    elif layout == "broadcast" and rank and (wide := [i for i, n in enumerate(shape) if n > 1]):
        stored[rng.choice(wide)] = 1
        after = f", {shape})"
    elif layout == "stepped" and rank and math.prod(shape) <= ELEMENTS // 2:
        at = rng.randrange(rank)
        stored[at] *= 2
        after = "[" + ":, " * at + "::2]"
    values = _values(rng, math.prod(stored), dtype, kind, reducer)
    shaped = ", ".join(map(str, stored)) + "," * (len(stored) == 1)
    order_of = ', order="F"' if layout == "fortran" else ""
    text = f"np.asarray({values}, {dtype!r}).reshape(({shaped}){order_of})"
    return f"np.broadcast_to({text}{after}" if after.startswith(", ") else text + after


def _fits(draw: Draw, operation: Operation, verdict: Verdict | None) -> bool:
    for array in (*operation.left, *operation.right):
        if not all(map(can_be_written, array)):
            return False
        if math.prod(size_of(term, draw.sizes, draw.ranks) for term in array) > ELEMENTS:
            return False
    everything = list(names(operation).values())
    if math.prod(max(1, size_of(leaf, draw.sizes, draw.ranks)) for leaf in everything) > 40 * ITERATIONS:
        return False
    for made_of in verdict.sources if verdict else ():
        within = {leaf for at in made_of for term in operation.left[verdict.left[at].array] for leaf in leaves(term)}
        if math.prod(max(1, size_of(leaf, draw.sizes, draw.ranks)) for leaf in within) > ITERATIONS:
            return False
    return True


def _shape(draw: Draw, array: Array) -> tuple[int, ...]:
    shape: list[int] = []
    for term in array:
        if isinstance(term, Pack):
            shape += [draw.sizes[term.name, i] for i in range(draw.ranks[term.name])]
        else:
            shape.append(size_of(term, draw.sizes, draw.ranks))
    return tuple(shape)


def _given(draw: Draw, operation: Operation, shapes: Sequence[tuple[int, ...]], ambiguous: bool) -> Operation | None:
    """Return the operation with the sizes that it needs, and some more; None where that does not work out."""
    every = {
        name: draw.sizes[name, -1] if isinstance(leaf, Axis)
        else tuple(draw.sizes[name, i] for i in range(draw.ranks[name]))
        for name, leaf in names(operation).items()
    }
    share = draw.rng.choice((0.0, 0.0, 0.2, 0.5))
    given = {name for name in every if draw.chance(share)}
    for name in [None, *draw.rng.sample(list(every), len(every))]:
        given |= {name} if name else set()
        if len(given) < len(every) and len(every) - len(given) > 6:
            continue
        trial = operation._replace(sizes={name: every[name] for name in every if name in given})
        try:
            solve(trial, shapes, wholes(operation))
        except AmbiguousError:
            if ambiguous:
                return trial
            continue
        except TooHardError:
            continue
        return None if ambiguous else trial
    return None


def draw_pattern(kind: str, rng: random.Random) -> Pattern:
    """Return a random operation of a kind with its arrays."""
    error = rng.choice(("sides", "ambiguous", "inconsistent")) if rng.random() < REFUSED else None
    while True:
        found = _attempt(kind, rng, error)
        if found is not None:
            return found


def _attempt(kind: str, rng: random.Random, error: str | None) -> Pattern | None:
    draw = Draw(rng)
    left, right = SIDES[kind](draw)
    one_left = len(left) == 1 and (kind in ("view", "repeat", "reduce") or draw.chance(0.9))
    one_right = len(right) == 1 and (kind in ("repeat", "reduce") or draw.chance(0.9))
    if (kind in ("view", "repeat", "reduce") and len(left) > 1) or (kind in ("repeat", "reduce") and len(right) > 1):
        return None
    dtype = draw.rng.choice(DTYPES)
    gone = _gone(left, right)
    reducer = _reducer(draw, dtype, gone or []) if kind == "reduce" else None
    if kind == "einop" and len(left) == 1 and draw.chance(0.5):
        reducer = _reducer(draw, dtype, gone or [])
    operation = Operation(kind, left, right, {}, reducer, one_left, one_right)
    verdict = None
    try:
        verdict = Verdict(operation)
    except RefusedError:
        pass
    except UnclearError:
        return None
    if (verdict is None) != (error == "sides") or not _fits(draw, operation, verdict):
        return None
    if verdict and reducer not in (None, "sum") and max(map(len, verdict.sources), default=0) > 1:
        return None
    shapes = [_shape(draw, array) for array in left]
    given = _given(draw, operation, shapes, error == "ambiguous")
    if given is None:
        return None
    if error == "inconsistent":
        given = _spoilt(draw, given, shapes)
        if given is None:
            return None
    arrays = tuple(_expression(rng, shape, dtype, kind, reducer) for shape in shapes)
    return Pattern(given, arrays, dtype, tuple(shapes))


def _spoilt(draw: Draw, operation: Operation, shapes: list[tuple[int, ...]]) -> Operation | None:
    """Change a size of the arrays (in place) or a size given so that there is no solution."""
    axes = [(i, j) for i, shape in enumerate(shapes) for j in range(len(shape))]
    if not axes:
        return None
    i, j = draw.rng.choice(axes)
    before = shapes[i]
    shapes[i] = (*before[:j], before[j] + 1, *before[j + 1 :])
    try:
        solve(operation, shapes, wholes(operation))
    except InconsistentError:
        return operation
    except (AmbiguousError, TooHardError):
        pass
    return None


__all__ = ["KINDS", "Judged", "Pattern", "draw_pattern"]

"""Random operations over named axes, of small arrays, nearly all well formed: what the judge and jitfuse are asked.

Sides are drawn from flat parts, which are put into arrays as products, sums and orders at random, so that most fit
together; the judge says which do, and draws that it refuses are kept as tests of errors for a small share.
"""
from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from axes.oracle import MOVES, Judged, Verdict
from axes.parts import Choice, wholes
from axes.sides import SIDES, Draw, Leaf, spoilt
from axes.sizes import AmbiguousError, InconsistentError, TooHardError, size_of, solve
from axes.sources import RefusedError, UnclearError
from axes.terms import (
    Array,
    Axis,
    Number,
    Operation,
    Pack,
    Phase,
    Product,
    Whole,
    can_be_written,
    leaves,
    names,
)

KINDS = ("view", "rearrange", "repeat", "reduce", "contract", "einop")
REDUCERS = ("sum", "mean", "max", "min", "prod", "any", "all", "logsumexp", "var", "squares")
PLAIN = ("sum", "mean", "max", "min", "any", "all", "logsumexp")
"""Reducers that do not multiply."""
REFUSED = 0.05
"""The share of operations that the page refuses."""
ELEMENTS, ITERATIONS = 300, 3000
"""The most of an array, and of the index space of one part."""


class Pattern(NamedTuple):
    """An operation, its arrays as Python expressions over `np`, and their dtypes and shapes.

    Where `before` is a dtype, the operation is called with ones of it first: calls are kept by shapes alone.
    """

    operation: Operation
    arrays: tuple[str, ...]
    dtypes: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    before: str


ORDINARY = ("bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64", "complex64", "complex128")
RARE = ("float16", "uint16", "uint32", "uint64")
"""Dtypes that torch has fewer functions of."""


def _dtypes(draw: Draw, count: int) -> tuple[str, ...]:
    """Return the dtypes of so many arrays, in half of the operations the same."""
    drawn = [draw.rng.choice(RARE if draw.chance(0.12) else ORDINARY) for _ in range(count)]
    return tuple(drawn[:1] * count if draw.chance(0.5) else drawn)


def _reducer(draw: Draw, verdict: Verdict) -> str | tuple[Phase, ...]:
    """Return a reducer, or several in phases where no part keeps what another reduces."""
    everything = [{leaf for term in part.terms for leaf in _names(term)} for part in (*verdict.left, *verdict.right)]
    left, right = everything[: len(verdict.left)], everything[len(verdict.left) :]
    gone = set().union(*left) - set().union(*right)
    named = [leaf for leaf in names(verdict.operation).values() if leaf in gone]
    whole = {leaf for each in verdict.wholes for leaf in leaves(each)}
    same = all(set().union(*(left[at] for at in of)) - keys <= gone for of, keys in zip(verdict.sources, right))
    numbers = any(isinstance(leaf, Number) and leaf.size != 1
                  for array in verdict.operation.left for term in array for leaf in leaves(term))
    if same and not numbers and not whole & gone and len(named) > 1 and draw.chance(0.4):
        order = draw.shuffled(named)
        at = draw.rng.randint(1, len(order) - 1)
        return tuple((tuple(axes), draw.rng.choice(REDUCERS)) for axes in (order[:at], order[at:]))  # type: ignore[misc]
    return draw.rng.choice(REDUCERS)


def _names(term: Any) -> Iterator[Leaf]:
    """Yield the names in a term of a part."""
    if isinstance(term, Choice):
        yield from _names(term.term)
    elif isinstance(term, Product):
        for inner in term.of:
            yield from _names(inner)
    elif isinstance(term, (Axis, Pack)):
        yield term
    elif isinstance(term, Whole):
        yield from (leaf for leaf in leaves(term) if not isinstance(leaf, Number))


SPECIAL = "np.where({drawn}.random({count}) < 0.2, {drawn}.choice([{few}], {count}), {values})"


def _values(rng: random.Random, count: int, dtype: str, kind: str, reducer: object, infinite: bool) -> str:
    """Return a NumPy expression of numbers whose sums and products are exact, different ones where they only move.

    At times some floats are NaN, infinite where that is asked for, or -0.0.
    """
    drawn = f"np.random.default_rng({rng.randrange(1000)})"
    if dtype == "bool":
        return f"({drawn}.random({count}) < 0.5)"
    moves = kind in MOVES
    products = kind in ("contract", "einop") or (reducer is not None and reducer not in PLAIN)
    if moves and dtype not in ("int8", "uint8"):
        values = f"({drawn}.permutation({count}) + 1.0)" if dtype[0] in "fc" else f"({drawn}.permutation({count}) + 1)"
    else:
        few = "[1, 2]" if products else "range(4)"
        if dtype[0] != "u":
            few = "[-1, 1, 2]" if products else "range(-3, 4)"
        values = f"{drawn}.choice({few}, {count})"
        if dtype.startswith("complex"):
            values = f"({values} + 1j * {drawn}.choice([-1, 0, 1], {count}))"
        elif dtype.startswith("float") and not products:
            values += " / 4"
    if dtype[0] in "fc" and rng.random() < 0.25:
        special = "np.nan, -0.0" + ", np.inf, -np.inf" * infinite
        values = SPECIAL.format(drawn=drawn, count=count, few=special, values=values)
    return values


def _expression(
    rng: random.Random, shape: tuple[int, ...], dtype: str, kind: str, reducer: object, infinite: bool
) -> str:
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
    values = _values(rng, math.prod(stored), dtype, kind, reducer, infinite)
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
    whole = wholes(operation)
    for name in [None, *draw.rng.sample(list(every), len(every))]:
        given |= {name} if name else set()
        if len(given) < len(every) and len(every) - len(given) > 6:
            continue
        trial = operation._replace(sizes={name: every[name] for name in every if name in given})
        try:
            solve(trial, shapes, whole)
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
    if error == "sides":
        left, right = spoilt(draw, left, right)
    operation = Operation(kind, left, right, {}, None, one_left, one_right)
    verdict = None
    try:
        verdict = Verdict(operation)
    except RefusedError:
        pass
    except UnclearError:
        return None
    if (verdict is None) != (error == "sides") or not _fits(draw, operation, verdict):
        return None
    operation = operation._replace(reducer=_reducers(draw, kind, verdict))
    shapes = [_shape(draw, array) for array in left]
    given = _given(draw, operation, shapes, error == "ambiguous")
    if given is None:
        return None
    if error == "inconsistent":
        given = _spoilt(draw, given, shapes)
        if given is None:
            return None
    dtypes = _dtypes(draw, len(shapes))
    # what an infinite complex number times another is depends on the library: these only move
    infinite = kind in MOVES or not any(dtype.startswith("complex") for dtype in dtypes)
    arrays = tuple(_expression(rng, shape, dtype, kind, given.reducer, infinite)
                   for shape, dtype in zip(shapes, dtypes))
    return Pattern(given, arrays, dtypes, tuple(shapes), draw.rng.choice(("", "", *ORDINARY)))


def _reducers(draw: Draw, kind: str, verdict: Verdict | None) -> str | tuple[Phase, ...] | None:
    """Return what a reduce needs and half of the einops have; products are summed."""
    if kind not in ("reduce", "einop") or (kind == "einop" and draw.chance(0.5)):
        return None
    if verdict is None or max(map(len, verdict.sources), default=0) > 1:
        return "sum"
    return _reducer(draw, verdict)


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

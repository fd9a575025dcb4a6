"""The judge of named axes: docs/named-axes.md, element by element, by tables of indices.

`judge(operation, arrays)` reads each element of each result where the page says it comes from, and computes in wide
numbers: int64, float64, complex128. Or it says which errors the page demands. `UnclearError` is raised where the page
does not decide. Dtypes are not its business (`axes.dtypes`).
"""
from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from axes.parts import AxisKey, Choice, Numbered, Part, axis_keys, parts, term_keys, wholes, with_wholes
from axes.sizes import AmbiguousError, InconsistentError, TooHardError, keys_of, size_of, solve
from axes.sources import Keys, RefusedError, UnclearError, sources
from axes.terms import Array, Number, Operation, Pack, Product, Sum, Whole, flat, leaves

Index = tuple[int, ...]
MOVES = ("view", "rearrange", "repeat")
"""Kinds that compute nothing."""


class Verdict:
    """What an operation means before it is called: parts, and what they are made of."""

    def __init__(self, operation: Operation, whole: list[Sum] | None = None) -> None:
        self.operation, self.wholes = operation, wholes(operation) if whole is None else whole
        self.left, self.right = parts(operation.left, self.wholes), parts(operation.right, self.wholes)
        left: list[Keys] = [(part.array, frozenset(axis_keys(part, None))) for part in self.left]
        right: list[Keys] = [(part.array, frozenset(axis_keys(part, None))) for part in self.right]
        self.sources = sources(operation.kind, left, right)


class Group(NamedTuple):
    """How a part on the right is computed: from which arrays, over which shape, of which axes are reduced."""

    output: int
    arrays: tuple[int, ...]
    of: tuple[Index, ...]
    """The axes that each array has."""
    shape: Index
    axes: Index
    phases: tuple[Index, ...]
    """Axes of each phase, counted in what the phases before have left."""


class Judged(NamedTuple):
    """What the page demands of a call: outputs, or one of the errors.

    `loose` are elements that need not be finite: of infinities that meet, or sums of nothing times NaN.
    """

    outputs: tuple[np.ndarray, ...]
    errors: frozenset[str]
    verdict: Verdict | None = None
    loose: tuple[np.ndarray, ...] = ()
    groups: tuple[Group, ...] = ()


def judge(operation: Operation, arrays: Sequence[np.ndarray]) -> Judged:
    """Return what a call gives, or all errors that are due: which of several comes first the page leaves open."""
    errors = set()
    ranks = verdict = None
    whole = wholes(operation)
    try:
        found, ranks = solve(operation, [array.shape for array in arrays], whole)
    except AmbiguousError:
        errors.add("ambiguous_sizes")
    except InconsistentError:
        errors.add("inconsistent_sizes")
    except TooHardError as hard:
        raise UnclearError("sizes") from hard
    try:
        verdict = Verdict(operation, whole)
    except RefusedError as refused:
        errors |= {refused.code} | ({"axes"} if _loses_or_adds(operation) else set())
    if verdict is not None and operation.reducer not in (None, "sum") and max(map(len, verdict.sources), default=0) > 1:
        errors.add("bad_reducer")
    if errors or verdict is None or ranks is None:
        return Judged((), frozenset(errors))
    sizes: dict[AxisKey, int] = dict(found)
    sizes |= {(each, -1): size_of(each, found, ranks) for each in whole}
    with np.errstate(all="ignore"):
        return _Call(operation, verdict, sizes, ranks, arrays).judged()


def _loses_or_adds(operation: Operation) -> bool:
    """Return whether a name is on one side alone, where the operation does not allow that."""
    left, right = ({leaf for array in side for term in array for leaf in leaves(term)} - {Number(1)}
                   for side in (operation.left, operation.right))
    kind = operation.kind
    return (kind not in ("repeat", "einop") and bool(right - left)) or (kind in MOVES and bool(left - right))


class _Call:
    """One call: from the indices of a part's axes, each a table, to places in arrays."""

    def __init__(
        self, operation: Operation, verdict: Verdict, sizes: dict[AxisKey, int], ranks: dict[str, int],
        arrays: Sequence[np.ndarray],
    ) -> None:
        self.operation, self.verdict, self.sizes, self.ranks, self.arrays = operation, verdict, sizes, ranks, arrays
        for part in (*verdict.left, *verdict.right):
            self.sizes |= {key: int(key[0]) for key in axis_keys(part, ranks) if str(key[0]).isdigit()}

    def size(self, term: Any) -> int:
        if isinstance(term, Choice):
            return size_of(term.of, self.sizes, self.ranks) if not _has_whole(term.of) else self._sum(term.of)
        if isinstance(term, Product):
            return math.prod(map(self.size, term.of))
        if isinstance(term, Numbered):
            return term.size
        return size_of(term, self.sizes, self.ranks)

    def _sum(self, term: Any) -> int:
        """Return the size of a term with sums that count as one axis, whose names may have no known size."""
        if isinstance(term, Whole):
            return self.sizes[term.of, -1]
        if isinstance(term, (Product, Sum)):
            inner = [self._sum(each) for each in term.of]
            return sum(inner) if isinstance(term, Sum) else math.prod(inner)
        return size_of(term, self.sizes, self.ranks)

    def at(self, term: Any, env: Mapping[AxisKey, Any]) -> Any:
        """Return where the elements of the axes' indices `env` are on the array's axis of a term."""
        if isinstance(term, Choice):
            before = sum(self._sum(inner) for inner in term.of.of[: term.chosen])
            return before + self.at(term.term, env)
        place: Any = 0
        if isinstance(term, Product):
            for inner in term.of:
                place = place * self.size(inner) + self.at(inner, env)
            return place
        for key in term_keys(term, self.ranks):
            place = place * self.sizes[key] + env[key]
        return place

    def places(self, part: Part, keys: Sequence[AxisKey]) -> tuple[np.ndarray, ...]:
        """Return for all indices of `keys` the places in the array of a part, one table for each of its axes."""
        shape = [self.sizes[key] for key in keys]
        env = {key: np.arange(n).reshape([n if i == at else 1 for i in range(len(keys))])
               for at, (key, n) in enumerate(zip(keys, shape))}
        found: list[Any] = []
        for term in part.terms:
            if isinstance(term, Pack):
                found.extend(env[key] for key in keys_of(term, self.ranks))
            else:
                found.append(self.at(term, env))
        return tuple(np.broadcast_to(place, shape) for place in found)

    def shape(self, array: Array) -> Index:
        shape: list[int] = []
        for term in array:
            if isinstance(term, Pack):
                shape.extend(self.sizes[key] for key in keys_of(term, self.ranks))
            else:
                shape.append(self._sum(with_wholes(flat(term), self.verdict.wholes)))
        return tuple(shape)

    def group(self, part: Part, made_of: tuple[int, ...]) -> tuple[Group, list[AxisKey], list[AxisKey]]:
        """Return how a part on the right is computed, its axes, and those that are reduced."""
        of = [self.verdict.left[at] for at in made_of]
        wanted = axis_keys(part, self.ranks)
        there = list(dict.fromkeys(key for each in of for key in axis_keys(each, self.ranks)))
        gone = [key for key in there if key not in wanted]
        phases, rest = [], [*wanted, *gone]
        reducer = self.operation.reducer
        for axes, _ in reducer if isinstance(reducer, tuple) else ():
            over = {key for axis in axes for key in keys_of(axis, self.ranks)}
            phases.append(tuple(i for i, key in enumerate(rest) if key in over and key in gone))
            rest = [key for key in rest if key not in over or key not in gone]
        sizes = tuple(self.sizes[key] for key in (*wanted, *gone))
        axes = tuple(range(len(wanted), len(sizes)))
        own = [axis_keys(each, self.ranks) for each in of]
        has = tuple(tuple(i for i, key in enumerate((*wanted, *gone)) if key in keys) for keys in own)
        return Group(part.array, tuple(each.array for each in of), has, sizes, axes, tuple(phases)), wanted, gone

    def made(self, part: Part, made_of: tuple[int, ...]) -> tuple[Group, tuple[np.ndarray, ...], Any, Any]:
        """Return a part on the right: how it is computed, where its elements are, these, and which are loose."""
        group, wanted, gone = self.group(part, made_of)
        factors = []
        for at in made_of:
            source = self.verdict.left[at]
            places = self.places(source, [*wanted, *gone] if gone else wanted)
            read = self.arrays[source.array][places]
            factors.append(np.broadcast_to(read, group.shape))
        values = self.reduced(group, factors)
        read = [self.arrays[self.verdict.left[at].array] for at in made_of]
        return group, self.places(part, wanted), values, len(factors) > 1 and _loose(group, factors, read, values)

    def reduced(self, group: Group, factors: list[np.ndarray]) -> Any:
        kind, reducer = self.operation.kind, self.operation.reducer
        if kind in MOVES:
            return factors[0]
        values = math.prod(map(wide, factors[1:]), start=wide(factors[0]))
        if kind == "contract" or reducer is None or len(factors) > 1:
            return values.sum(group.axes)
        if isinstance(reducer, str):
            return REDUCERS[reducer](values, group.axes)
        for axes, (_, name) in zip(group.phases, reducer):
            values = REDUCERS[name](wide(values), axes)
        return values

    def judged(self) -> Judged:
        outputs, loose, groups = [], [], []
        parts_of = list(zip(self.verdict.right, self.verdict.sources))
        for at, array in enumerate(self.operation.right):
            shape = self.shape(array)
            made = [self.made(part, of) for part, of in parts_of if part.array == at]
            filled = np.zeros(shape, np.result_type(*(values.dtype for _, _, values, _ in made)))
            vague, times = np.zeros(shape, bool), np.zeros(shape, int)
            for group, places, values, unsure in made:
                np.add.at(times, places, 1)
                filled[places], vague[places] = values, unsure
                groups.append(group)
            assert times.max(initial=0) <= 1
            outputs.append(filled)
            loose.append(vague)
        return Judged(tuple(outputs), frozenset(), self.verdict, tuple(loose), tuple(groups))


def wide(values: Any) -> Any:
    """Return values in the widest dtype of their kind: bools and integers as int64."""
    return values.astype({"f": np.float64, "c": np.complex128}.get(values.dtype.kind, np.int64))


def _loose(group: Group, factors: list[np.ndarray], arrays: list[np.ndarray], sums: Any) -> Any:
    """Return which sums of products may be NaN, or infinite: factors may be summed first."""
    if 0 in (group.shape[axis] for axis in group.axes):
        return not all(np.isfinite(array).all() for array in arrays)
    nan = np.logical_or.reduce([np.isnan(factor) for factor in factors]).any(group.axes)
    return np.isnan(sums) & ~nan


def _has_whole(term: Any) -> bool:
    return isinstance(term, Whole) or (isinstance(term, (Product, Sum)) and any(map(_has_whole, term.of)))


def _mean(x: np.ndarray, axes: Index) -> Any:
    return x.sum(axes) / np.float64(math.prod(x.shape[axis] for axis in axes))


def _var(x: np.ndarray, axes: Index) -> Any:
    centre = np.expand_dims(_mean(x, axes), axes)
    return _mean(abs(x - centre) ** 2, axes)


def _logsumexp(x: np.ndarray, axes: Index) -> Any:
    return np.log(np.exp(x).sum(axes))  # of numbers so small that nothing overflows


class NothingToReduceError(Exception):
    """The largest or smallest of no numbers: some error."""


def _extreme(choose: Callable[..., Any]) -> Callable[[np.ndarray, Index], Any]:
    def reduce(x: np.ndarray, axes: Index) -> Any:
        if 0 in (x.shape[axis] for axis in axes):
            kept = tuple(n for axis, n in enumerate(x.shape) if axis not in axes)
            if 0 not in kept:
                raise NothingToReduceError
            return np.zeros(kept, x.dtype)
        return choose(x, axes)
    return reduce


REDUCERS: dict[str, Callable[[np.ndarray, Index], Any]] = {
    "sum": np.sum, "mean": _mean, "max": _extreme(np.max), "min": _extreme(np.min), "prod": np.prod, "any": np.any,
    "all": np.all, "logsumexp": _logsumexp, "var": _var, "squares": lambda x, axes: (x * x).sum(axes),
}

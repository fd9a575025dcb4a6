"""The judge of named axes: docs/named-axes.md, element by element, by loops over indices.

`judge(operation, arrays)` computes with nothing but Python's numbers in dictionaries, or says which errors the page
demands. `UnclearError` is raised where the page does not decide.
"""
from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from axes.parts import AxisKey, Choice, Numbered, Part, axis_keys, parts, term_keys, wholes, with_wholes
from axes.sizes import AmbiguousError, InconsistentError, TooHardError, keys_of, size_of, solve
from axes.sources import Keys, RefusedError, UnclearError, sources
from axes.terms import Array, Operation, Pack, Product, Sum, Whole, flat

Index = tuple[int, ...]
Values = dict[Index, Any]


class Verdict:
    """What an operation means before it is called: parts, and what they are made of."""

    def __init__(self, operation: Operation) -> None:
        self.operation, self.wholes = operation, wholes(operation)
        self.left, self.right = parts(operation.left, self.wholes), parts(operation.right, self.wholes)
        left: list[Keys] = [(part.array, frozenset(axis_keys(part, None))) for part in self.left]
        right: list[Keys] = [(part.array, frozenset(axis_keys(part, None))) for part in self.right]
        self.sources = sources(operation.kind, left, right)


class Judged(NamedTuple):
    """What the page demands of a call: outputs, or one of the errors."""

    outputs: tuple[tuple[Index, Values], ...]
    errors: frozenset[str]
    verdict: Verdict | None = None


def judge(operation: Operation, arrays: Sequence[np.ndarray], values: Sequence[Callable[[Index], Any]] = ()) -> Judged:
    """Return what a call gives, or all errors that are due: which of several comes first the page leaves open."""
    errors = set()
    ranks = verdict = None
    try:
        found, ranks = solve(operation, [array.shape for array in arrays], wholes(operation))
    except AmbiguousError:
        errors.add("ambiguous_sizes")
    except InconsistentError:
        errors.add("inconsistent_sizes")
    except TooHardError as hard:
        raise UnclearError("sizes") from hard
    try:
        verdict = Verdict(operation)
    except RefusedError as refused:
        errors.add(refused.code)
    if verdict is not None and operation.reducer not in (None, "sum") and max(map(len, verdict.sources), default=0) > 1:
        errors.add("bad_reducer")
    if errors or verdict is None or ranks is None:
        return Judged((), frozenset(errors))
    sizes: dict[AxisKey, int] = dict(found)
    sizes |= {(whole, -1): size_of(whole, found, ranks) for whole in verdict.wholes}
    read = values or [lambda index, array=array: array[index].item() for array in arrays]  # type: ignore[misc]
    return Judged(_Call(operation, verdict, sizes, ranks, read).outputs(), frozenset(), verdict)


class _Call:
    """One call: dictionaries from the indices of a part's axes to values."""

    def __init__(
        self, operation: Operation, verdict: Verdict, sizes: dict[AxisKey, int], ranks: dict[str, int],
        read: Sequence[Callable[[Index], Any]],
    ) -> None:
        self.operation, self.verdict, self.sizes, self.ranks, self.read = operation, verdict, sizes, ranks, read
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

    def at(self, term: Any, env: Mapping[AxisKey, int]) -> int:
        """Return where the element of the axes' indices `env` is on the array's axis of a term."""
        if isinstance(term, Choice):
            before = sum(self._sum(inner) for inner in term.of.of[: term.chosen])
            return before + self.at(term.term, env)
        if isinstance(term, Product):
            place = 0
            for inner in term.of:
                place = place * self.size(inner) + self.at(inner, env)
            return place
        place = 0
        for key in term_keys(term, self.ranks):
            place = place * self.sizes[key] + env[key]
        return place

    def position(self, part: Part, env: Mapping[AxisKey, int]) -> Index:
        place: list[int] = []
        for term in part.terms:
            if isinstance(term, Pack):
                place.extend(env[key] for key in keys_of(term, self.ranks))
            else:
                place.append(self.at(term, env))
        return tuple(place)

    def shape(self, array: Array) -> Index:
        shape: list[int] = []
        for term in array:
            if isinstance(term, Pack):
                shape.extend(self.sizes[key] for key in keys_of(term, self.ranks))
            else:
                shape.append(self._sum(with_wholes(flat(term), self.verdict.wholes)))
        return tuple(shape)

    def over(self, keys: Sequence[AxisKey]) -> Iterator[dict[AxisKey, int]]:
        for index in itertools.product(*(range(self.sizes[key]) for key in keys)):
            yield dict(zip(keys, index))

    def made(self, part: Part, made_of: tuple[int, ...]) -> Iterator[tuple[Index, Any]]:
        """Yield positions and values of a part on the right."""
        of = [self.verdict.left[at] for at in made_of]
        wanted = axis_keys(part, self.ranks)
        there = list(dict.fromkeys(key for each in of for key in axis_keys(each, self.ranks)))
        gone = [key for key in there if key not in wanted]
        for env in self.over(wanted):
            group: Values = {}
            for more in self.over(gone):
                factors = [self.read[each.array](self.position(each, env | more)) for each in of]
                group[tuple(more.values())] = math.prod(factors[1:], start=factors[0])
            yield self.position(part, env), self.reduced(group, gone, len(of))

    def reduced(self, group: Values, gone: list[AxisKey], count: int) -> Any:
        kind, reducer = self.operation.kind, self.operation.reducer
        if kind in ("view", "rearrange", "repeat"):
            return group[()]
        if kind == "contract" or reducer is None or (not gone and count > 1):
            return sum(group.values())
        if isinstance(reducer, str):
            return REDUCERS[reducer](list(group.values()))
        for axes, name in reducer:
            over = {key for axis in axes for key in keys_of(axis, self.ranks)}
            kept = [i for i, key in enumerate(gone) if key not in over]
            rest = [gone[i] for i in kept]
            groups: dict[Index, list[Any]] = {tuple(env.values()): [] for env in self.over(rest)}
            for index, value in group.items():
                groups[tuple(index[i] for i in kept)].append(value)
            group, gone = {index: REDUCERS[name](values) for index, values in groups.items()}, rest
        return group[()]

    def outputs(self) -> tuple[tuple[Index, Values], ...]:
        found = []
        for at, array in enumerate(self.operation.right):
            shape = self.shape(array)
            filled: Values = dict.fromkeys(itertools.product(*map(range, shape)), FILL)
            for part, made_of in zip(self.verdict.right, self.verdict.sources):
                if part.array == at:
                    for index, value in self.made(part, made_of):
                        assert filled[index] is FILL
                        filled[index] = value
            found.append((shape, filled))
        return tuple(found)


FILL = None
"""Where a diagonal leaves zeros."""


def _has_whole(term: Any) -> bool:
    return isinstance(term, Whole) or (isinstance(term, (Product, Sum)) and any(map(_has_whole, term.of)))


def _mean(values: list[Any]) -> Any:
    return sum(values) / len(values) if values else math.nan


def _var(values: list[Any]) -> Any:
    centre = _mean(values)
    return _mean([abs(value - centre) ** 2 for value in values])


def _logsumexp(values: list[Any]) -> float:
    top = max(values, default=-math.inf)
    return top + math.log(sum(math.exp(value - top) for value in values)) if values else -math.inf


class NothingToReduceError(Exception):
    """The largest or smallest of no numbers: some error."""


def _extreme(choose: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    def reduce(values: list[Any]) -> Any:
        if not values:
            raise NothingToReduceError
        return choose(values)
    return reduce


REDUCERS: dict[str, Callable[[list[Any]], Any]] = {
    "sum": sum, "mean": _mean, "max": _extreme(max), "min": _extreme(min), "prod": math.prod, "any": any, "all": all,
    "logsumexp": _logsumexp, "var": _var, "squares": lambda values: sum(value * value for value in values),
}

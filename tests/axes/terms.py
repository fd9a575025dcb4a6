"""Operations over named axes as plain data, for the judge: terms, sides, reducers, and their Python text."""
from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Axis:
    name: str


@dataclass(frozen=True)
class Pack:
    name: str


@dataclass(frozen=True)
class Number:
    size: int


@dataclass(frozen=True)
class _Several:
    of: tuple[Term, ...]

    @functools.cached_property
    def leaves(self) -> tuple[Axis | Pack | Number, ...]:
        return tuple(itertools.chain(*map(leaves, self.of)))


class Product(_Several):
    pass


class Sum(_Several):
    pass


@dataclass(frozen=True)
class Whole:
    """A sum that counts as one axis."""

    of: Sum


Term = Axis | Pack | Number | Product | Sum | Whole
Array = tuple[Term, ...]
Side = tuple[Array, ...]
Phase = tuple[tuple[Axis | Pack, ...], str]
Sizes = dict[str, "int | tuple[int, ...]"]


class Operation(NamedTuple):
    """One operation; `one_left` and `one_right` say whether a side is written as one `ax[...]`."""

    kind: str
    left: Side
    right: Side
    sizes: Sizes
    reducer: str | tuple[Phase, ...] | None = None
    one_left: bool = True
    one_right: bool = True


ORDINARY = ("sum", "mean", "max", "min", "prod", "any", "all", "logsumexp", "var")
"""Reducers that have a name; "squares" stands for a function."""
SQUARES = "lambda x, axes: (x * x).sum(axes)"


def leaves(term: Term) -> tuple[Axis | Pack | Number, ...]:
    """Return the names and numbers of a term in the order of writing."""
    if isinstance(term, _Several):
        return term.leaves
    return term.of.leaves if isinstance(term, Whole) else (term,)


def flat(term: Term) -> Term:
    """Return the term with products in products and sums in sums written out, as `*` and `+` cannot tell them apart."""
    if isinstance(term, (Product, Sum)):
        inner: list[Term] = []
        for each in map(flat, term.of):
            inner.extend(each.of if type(each) is type(term) else [each])  # type: ignore[union-attr]
        return type(term)(tuple(inner))
    return term


def names(operation: Operation) -> dict[str, Axis | Pack]:
    """Return the names of an operation, in the order of writing."""
    return {
        leaf.name: leaf
        for array in (*operation.left, *operation.right) for term in array for leaf in leaves(term)
        if not isinstance(leaf, Number)
    }


def _written(term: Term, inside: type | None = None) -> str:
    if isinstance(term, Number):
        return str(term.size)
    if isinstance(term, (Axis, Pack)):
        return term.name
    assert isinstance(term, (Product, Sum))
    text = (" * " if isinstance(term, Product) else " + ").join(_written(inner, type(term)) for inner in term.of)
    plain = inside is None or (inside is Sum and isinstance(term, Product))
    return text if plain else f"({text})"


def can_be_written(term: Term) -> bool:
    """Return whether Python does not compute with the numbers first: `1 + 1 + a` is `2 + a`."""
    if not isinstance(term, (Product, Sum)):
        return True
    if len(term.of) < 2 or all(isinstance(inner, Number) for inner in term.of[:2]):
        return False
    return all(map(can_be_written, term.of))


def _side(side: Side, one: bool) -> str:
    arrays = [f"ax[{', '.join(map(_written, array)) or '()'}]" for array in side]
    return arrays[0] if one else f"({', '.join(arrays)}{',' * (len(arrays) == 1)})"


def _reducer(name: str) -> str:
    return SQUARES if name == "squares" else f'"{name}"'


def written(operation: Operation) -> str:
    """Return the Python expression of an operation."""
    text = f"{operation.kind}({_side(operation.left, operation.one_left)}, "
    text += f"{_side(operation.right, operation.one_right)})"
    if isinstance(operation.reducer, str):
        text += f".reduce_by({_reducer(operation.reducer)})"
    elif operation.reducer:
        phases = (f"({_side((axes,), True)}, {_reducer(name)})" for axes, name in operation.reducer)
        text += f".reduce_by({', '.join(phases)})"
    if operation.sizes:
        text += f".with_sizes({', '.join(f'{name}={size}' for name, size in operation.sizes.items())})"
    return text


def declared(operation: Operation) -> str:
    """Return the Python lines that declare the names of an operation."""
    lines = ""
    for function, kind in (("axes", Axis), ("packs", Pack)):
        found = [name for name, leaf in names(operation).items() if isinstance(leaf, kind)]
        if found:
            found += ["_"] * (len(found) == 1)  # two at least, so that several come back
            lines += f"{', '.join(found)} = {function}({', '.join(map(repr, found))})\n"
    return lines
